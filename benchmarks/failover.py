"""Measure the failover of a cluster on PostgreSQL: `python -m benchmarks.failover`

Three nodes share a PostgreSQL with fsync. One of them is killed (SIGKILL), hangs (SIGSTOP), or is
drained; each round starts a new cluster. Kohort's client, aiokafka and librdkafka produce to six
partitions and commit in six groups each, every 50 ms; a member of each of six groups sends a
heartbeat as often. Prints the waits of the requests whose leader or coordinator was hit.

`--before COMMIT` measures the nodes of that commit too, in turns with those of the working tree;
the clients are the same. `--faults kill,hang` has only those, and is not written.
"""

import asyncio
import signal
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from benchmarks import nodes, sources
from benchmarks.gaps import PARTITIONS, TOPIC, Clients, Subject
from benchmarks.report import Target, load_average, publish, table
from benchmarks.rounds import ENOUGH_ROUNDS, option_parser, significant

FAULTS: Final = ("kill", "hang", "drain")
NODES: Final = (1, 2, 3)
VICTIM: Final = 1
ROUNDS: Final = 7
FORMER_SETTINGS: Final = {"cluster.enabled": "true"}
"""Earlier commits need it for several nodes on one database."""
Waits = Mapping[str, Sequence[float]]
"""By client and request, in s."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    parser = option_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each fault (%(default)s)")
    parser.add_argument("--faults", default=",".join(FAULTS), help="(%(default)s)")
    parser.add_argument("--before", metavar="COMMIT", help="measure the nodes of this commit too")
    options = parser.parse_args(argv)
    faults = options.faults.split(",")
    if unknown := set(faults) - set(FAULTS):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    parts = measured(options.rounds, faults, options.before)
    whole = set(faults) == set(FAULTS) and options.rounds >= ENOUGH_ROUNDS
    write = whole and not options.dry
    publish("failover", "Failover of a cluster", [*parts, load_average()], write=write)


def measured(rounds: int, faults: Sequence[str] = FAULTS, before: str | None = None) -> list[str]:
    """Measure each fault in every round. Returns a table, and the target of a kill.

    Raises MissingError without PostgreSQL.
    """
    waits: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    with ExitStack() as stack:
        environments = {
            commit: stack.enter_context(sources.environment_of(commit))
            for commit in ("", *([before] if before else ()))
        }
        for fault in faults:
            for number in range(rounds):
                for commit, environment in environments.items():
                    settings = FORMER_SETTINGS if commit else {}
                    found = asyncio.run(_waits(fault, environment, settings))
                    of = f"{fault}{', ' if commit else ''}{commit}"
                    print(f"  {of}: round {number + 1}: {_medians(found)}", flush=True)
                    for request, seconds in found.items():
                        waits[fault, request, commit] += seconds
    parts = [_table(waits, environments)]
    if "kill" in faults:
        kills = [
            each
            for (fault, _, commit), seconds in waits.items()
            if fault == "kill" and not commit
            for each in seconds
        ]
        value = statistics.median(kills)
        parts.append(str(Target("kill -9 until served again, s", value, 1.5, at_least=False)))
    return parts


async def _waits(fault: str, environment: Mapping[str, str], settings: Mapping[str, str]) -> Waits:
    with nodes.cluster(environment) as cluster:
        for node in NODES:
            await asyncio.to_thread(cluster.start, node, settings)
        await asyncio.to_thread(cluster.create, TOPIC, PARTITIONS)
        await asyncio.to_thread(cluster.even, TOPIC)
        async with Clients(cluster.bootstrap) as clients:
            await asyncio.sleep(1)
            leaders = {
                topic: await asyncio.to_thread(cluster.leaders, topic)
                for topic in (TOPIC, nodes.GROUPS)
            }

            def is_hit(subject: Subject) -> bool:
                topic = TOPIC if subject.what == "produce" else nodes.GROUPS
                return leaders[topic][subject.partition] == VICTIM

            if fault == "drain":
                moment = time.monotonic()
                await asyncio.to_thread(cluster.drain, VICTIM)
                await clients.all_since(time.monotonic())
            else:
                how = signal.SIGKILL if fault == "kill" else signal.SIGSTOP
                moment = await asyncio.to_thread(cluster.hit, VICTIM, how)
                await clients.all_since(moment + 0.1)
            waits = clients.waits(moment, is_hit)
            if fault == "hang":
                cluster.hit(VICTIM, signal.SIGKILL)
            return waits


def _table(waits: Mapping[tuple[str, str, str], Sequence[float]], commits: Iterable[str]) -> str:
    """Median and longest wait of each fault and request, for each commit."""
    titles = ["what the node led"]
    for commit in commits:
        of = f", {commit}" if commit else ""
        titles += [f"median s{of}", f"longest s{of}", f"number{of}"]
    rows = [
        [
            f"{fault}: {request}",
            *(cell for each in commits for cell in _figures(waits.get((fault, request, each), ()))),
        ]
        for fault, request in sorted({key[:2] for key in waits})
    ]
    return f"Three nodes, of which one is hit\n\n{table(titles, rows)}"


def _medians(waits: Waits) -> str:
    return "  ".join(
        f"{name} {significant(statistics.median(each))} s" for name, each in sorted(waits.items())
    )


def _figures(waits: Sequence[float]) -> list[str]:
    if not waits:
        return ["–", "–", "0"]
    return [significant(statistics.median(waits)), significant(max(waits)), str(len(waits))]


if __name__ == "__main__":
    main()
