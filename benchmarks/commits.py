"""Measure offset commits per second: `python -m benchmarks.commits`

100 connections each have one OffsetCommit v9 in flight. The commits are simple (without a member),
of 1 and then of 100 partitions, to a group of each connection's own, with offsets that grow. Every
partition of every response is checked.

Apache Kafka and Kohort respond when the records are appended to the group log, in the page cache.
Kohort is also measured in memory. kfake keeps commits only in a map. Prints commits per second, the
ratio to Apache Kafka, the latency, and the server's CPU.
"""

from collections.abc import Callable, Sequence

from benchmarks import load, rounds
from benchmarks.report import Column, Target, publish, servers_table
from benchmarks.servers import Server

CONNECTIONS = 100
PARTITIONS = (1, 100)
SERVERS = ("kohort-data", "kohort-memory", "kafka", "kfake")
COLUMNS = (
    Column("commits/s", "per_s"),
    Column("× Kafka", "per_s", "kafka"),
    Column("p50 ms", "p50_ms"),
    Column("p99 ms", "p99_ms"),
    Column("cores", "cores"),
    Column("per CPU-second", "per_cpu_s"),
    Column("× Kafka", "per_cpu_s", "kafka"),
)
JVM_WARM_UP_S = 30.0


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
        samples = rounds.interleaved(
            plan, _measure(partitions, plan.seconds), warm_up=_warm_up(partitions)
        )
        parts += [
            f"{_count(partitions)} each",
            servers_table(samples, COLUMNS),
            str(_target(samples, partitions)),
        ]
    publish("commits", "Offset commits", parts, write=plan.write)


def _count(partitions: int) -> str:
    return "1 partition" if partitions == 1 else f"{partitions} partitions"


def _measure(partitions: int, seconds: float) -> Callable[[Server], load.Steady]:
    return lambda server: load.steady(
        server, "commits", connections=CONNECTIONS, partitions=partitions, seconds=seconds
    )


def _warm_up(partitions: int) -> Callable[[str, Server], None]:
    def warm_up(key: str, server: Server) -> None:
        load.make_topic(server, max(PARTITIONS))
        _measure(partitions, JVM_WARM_UP_S if key == "kafka" else 1)(server)

    return warm_up


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
