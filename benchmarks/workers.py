"""Measure two workers beside one process: `python -m benchmarks.workers`

Heartbeats of members of Stable groups of ten on 100 and then 2,000 connections, and commits of 1
and then of 100 partitions on 100 connections, as `benchmarks.heartbeats` and `benchmarks.commits`.
Every connection goes to the coordinator of its group. Commits are of a group of each connection's
own.

The load needs a part of the cores, most of it in the kernel for one packet each way. Heartbeats are
therefore also sent four at once on each connection, the next four when all are answered. No client
does so, but more of the cores is left to the servers. Requests per CPU-second tell what two workers
reach on cores of their own: as much as one process if they scale.

`kohort serve`, `kohort serve --workers 2` and Apache Kafka take turns; all keep their logs on disk.
Prints requests per second, the ratios to one process and to Apache Kafka, the latency, and the CPU
time of all processes of a server.
"""

import os
from collections.abc import Sequence
from typing import Any, Final

from benchmarks import rounds, steady
from benchmarks.report import Target, publish, servers_table

SERVERS: Final = ("kohort-data", "kohort-workers", "kafka")
ONE_PROCESS: Final = ("× one process", "kohort-data")
COLUMNS: Final = steady.columns(
    "requests", per_s=(ONE_PROCESS, steady.KAFKA), per_cpu_s=(ONE_PROCESS,)
)
MOST_PARTITIONS: Final = 100
LOADS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "commits, 100 partitions": (
        "commits",
        {"connections": 100, "group_size": 1, "partitions": MOST_PARTITIONS},
    ),
    "commits, 1 partition": ("commits", {"connections": 100, "group_size": 1, "partitions": 1}),
    "heartbeats, 100 connections, four in flight on each": (
        "heartbeats",
        {"connections": 100, "in_flight": 4},
    ),
    "heartbeats, 2,000 connections": ("heartbeats", {"connections": 2_000}),
    "heartbeats, 100 connections": ("heartbeats", {"connections": 100}),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    plan = rounds.plan(__doc__, servers=SERVERS, seconds=4, argv=argv)
    parts = []
    for name, (mode, options) in LOADS.items():
        print(name, flush=True)
        samples = steady.measured(
            plan, mode, topic_partitions=MOST_PARTITIONS, moves=True, **options
        )
        parts += [name, servers_table(samples, COLUMNS), _targets(samples, mode)]
    publish("workers", "Workers", parts, write=plan.write)


def _targets(samples: rounds.Samples, mode: str) -> str:
    to_kafka = samples.ratio("kohort-workers", "kafka", "per_s")
    per_cpu_second = samples.ratio("kohort-workers", "kohort-data", "per_cpu_s")
    targets = [
        Target("two workers / Kafka", to_kafka, 1.3, why=_why(samples)),
        Target("two workers / one process, per CPU-second of the server", per_cpu_second, 0.75),
    ]
    if mode == "heartbeats":
        to_one = samples.ratio("kohort-workers", "kohort-data", "per_s")
        targets.insert(0, Target("two workers / one process", to_one, 1.5, why=_why(samples)))
    return "\n".join(map(str, targets))


def _why(samples: rounds.Samples) -> str:
    """How much more the cores have room for, if a request costs what it costs one process."""
    of_server = samples.median("kohort-data", "cores")
    of_load = samples.median("kohort-data", "load_cores")
    if of_server is None or of_load is None:
        return ""
    cores, used = os.cpu_count() or 1, of_server + of_load
    return (
        f"One process and the load take {used:.2f} of the {cores} cores, "
        f"so that there is room for {cores / used:.2f} × as much."
    )


if __name__ == "__main__":
    main()
