"""Measure offset commits per second: `python -m benchmarks.commits`

100 connections each have one OffsetCommit v9 in flight. The commits are simple (without a member),
of 1 and then of 100 partitions, to a group of each connection's own, with offsets that grow. Every
partition of every response is checked.

Apache Kafka and Kohort respond when the records are appended to the group log, in the page cache.
Kohort is also measured in memory. kfake keeps commits only in a map. Prints commits per second, the
ratio to Apache Kafka, the latency, and the server's CPU.
"""

from collections.abc import Sequence

from benchmarks import rounds, steady
from benchmarks.report import Target, publish, servers_table

CONNECTIONS = 100
PARTITIONS = (1, 100)
SERVERS = ("kohort-data", "kohort-memory", "kafka", "kfake")
COLUMNS = steady.columns("commits", load_cores=False)
ONE_CORE = (
    "One event loop is one core, Kafka takes half a core more (`cores`); per CPU-second "
    "the ratio is in the "
    "last column. A commit costs about 1.5 times a heartbeat: its record, and with 50 "
    "shards half a write of "
    "its own. What would help is a second process with shards of its own."
)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    plan = rounds.plan(__doc__, servers=SERVERS, seconds=4, argv=argv)
    parts = []
    for partitions in PARTITIONS:
        print(f"{partitions} partitions each", flush=True)
        samples = measured(plan, partitions)
        parts += [
            f"{_count(partitions)} each",
            servers_table(samples, COLUMNS),
            str(_target(samples, partitions)),
        ]
    publish("commits", "Offset commits", parts, write=plan.write)


def _count(partitions: int) -> str:
    return "1 partition" if partitions == 1 else f"{partitions} partitions"


def measured(
    plan: rounds.Plan, partitions: int, jvm_warm_up_s: float = steady.JVM_WARM_UP_S
) -> rounds.Samples:
    """Measure commits of so many partitions."""
    return steady.measured(
        plan,
        "commits",
        topic_partitions=max(PARTITIONS),
        connections=CONNECTIONS,
        partitions=partitions,
        jvm_warm_up_s=jvm_warm_up_s,
    )


def _target(samples: rounds.Samples, partitions: int) -> Target:
    if partitions == 1:
        return Target(
            "Kohort on disk / Kafka",
            samples.ratio("kohort-data", "kafka", "per_s"),
            1.3,
            why=ONE_CORE,
        )
    ratio = samples.ratio("kohort-data", "kafka", "per_cpu_s")
    return Target("Kohort on disk / Kafka, per CPU-second of the server", ratio, 1.1)


if __name__ == "__main__":
    main()
