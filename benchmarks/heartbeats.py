"""Measure heartbeats per second and their latency: `python -m benchmarks.heartbeats`

100 and then 2,000 connections are each a member of a Stable group of ten, with one Heartbeat v4 in
flight. Group, generation and member id are real, and every response is checked to have no error.
The mock of librdkafka knows Heartbeat up to v3 and has groups of one. The echo server knows no
groups and sends a fixed response.

Prints for every server heartbeats per second, the ratios to Apache Kafka and to the echo, the
latency, and the CPU time of the server.
"""

from collections.abc import Sequence

from benchmarks import rounds, steady
from benchmarks.report import Target, publish, servers_table

CONNECTIONS = (100, 2_000)
SERVERS = ("kohort-memory", "kohort-data", "kafka", "kfake", "mock", "echo")
COLUMNS = steady.columns("heartbeats", per_s=(steady.KAFKA, ("× echo", "echo")))
ONE_CORE = (
    "Kohort is one process with one event loop, which is one core, and Kafka takes more "
    "than one (`cores`); "
    "what a CPU-second does is in the last columns. With 2,000 sockets two thirds of the "
    "time are the kernel's "
    "(`perf`), and a heartbeat costs half as much again as with 100: probably as each "
    "turn of the loop goes "
    "through all of them and finds none in the CPU's caches. Writing answers at once "
    "instead of at the end of "
    "the turn gained 2 %. What would help is a second process behind the same port, with "
    "shards of its own."
)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    plan = rounds.plan(__doc__, servers=SERVERS, seconds=4, argv=argv)
    parts = []
    for connections in CONNECTIONS:
        print(f"{connections:,} connections", flush=True)
        samples = steady.measured(plan, "heartbeats", connections=connections)
        parts += [
            f"{connections:,} connections",
            servers_table(samples, COLUMNS),
            _targets(samples),
        ]
    publish("heartbeats", "Heartbeats", parts, write=plan.write)


def _targets(samples: rounds.Samples) -> str:
    own = "kohort-memory"
    targets = [
        Target("Kohort / Kafka", samples.ratio(own, "kafka", "per_s"), 1.3, why=ONE_CORE),
        Target(
            "Kohort / echo",
            samples.ratio(own, "echo", "per_s"),
            0.5,
            why="The echo reads no request and knows no group.",
        ),
        Target("Kohort / librdkafka's mock (the aim)", samples.ratio(own, "mock", "per_s"), 1),
    ]
    return "\n".join(map(str, targets))


if __name__ == "__main__":
    main()
