"""Measure the first record and the pauses of a rebalance: `python -m benchmarks.joining`

Members of a group written with kohort.client, aiokafka, confluent-kafka and kafka-python take turns
at one server after the other. asyncio clients run on uvloop. All have a heartbeat interval of 100
ms, commit every 5 s and on revocation, and otherwise use their defaults. Servers have no initial
rebalance delay.

- First record: one member joins a group without commits, to read a topic of six partitions from the
  start. Prints the time from the client's start, and from its assignment, until the application has
  the first record. The figures are the first in a process, and the median of the next seven, each
  with a new client.
- Rebalance: two members, each a process, read twelve partitions with a record every 10 ms each. A
  third joins, and leaves half a second after its first record. Prints the longest time without
  progress in any partition, and in any partition whose member stays the same, with eager ("range")
  and cooperative ("cooperative-sticky") rebalancing. Progress is the first delivery of a record.
"""

import asyncio
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from benchmarks import rounds, tools
from benchmarks.consume import fill
from benchmarks.pauses import Pauses, disturb
from benchmarks.report import Column, Target, publish, servers_table
from benchmarks.servers import Server, start_all

SERVERS = ("kohort-data", "kafka")
JOINS = 8
RECORDS, SIZE = 1_200, 100
TOPIC = "joining"
LIMIT_S = 30.0
EAGER, COOPERATIVE = "range", "cooperative-sticky"
CLIENTS = ("kohort", "aiokafka", "confluent-kafka", "kafka-python")
REBALANCERS = {
    f"{client} {assignor}": (client, assignor)
    for assignor in (EAGER, COOPERATIVE)
    for client in CLIENTS
    if (client, assignor) != ("aiokafka", COOPERATIVE)  # which it does not have
}
FIRST = (
    Column("begin → record, ms", "join_ms"),
    Column("assigned → record, ms", "assigned_ms"),
    Column("process' first: begin → record, ms", "first_join_ms"),
    Column("assigned → record, ms", "first_assigned_ms"),
)
STOPS = (
    Column("joins: any partition, ms", "join_any_ms"),
    Column("those that stay, ms", "join_stay_ms"),
    Column("leaves: any partition, ms", "leave_any_ms"),
    Column("those that stay, ms", "leave_stay_ms"),
    Column("undisturbed, ms", "quiet_ms"),
)
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joins:
    """Times from a client's start, and from its assignment, to its first record."""

    join_ms: float
    assigned_ms: float
    first_join_ms: float
    """Of the first client in a process."""
    first_assigned_ms: float


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    plan = rounds.plan(__doc__, servers=SERVERS, seconds=0.5, argv=argv)
    parts = []
    for key in plan.servers:
        with ExitStack() as stack:
            for server in start_all((key,), stack).values():
                print(f"members at {server.name}", flush=True)
                asyncio.run(fill(server, TOPIC, SIZE, RECORDS))
                joins = _in_turn(CLIENTS, plan.rounds, partial(_join, server), warm_up=True)
                stops = _in_turn(
                    tuple(REBALANCERS), plan.rounds, partial(_stop, server, plan.seconds)
                )
                parts += [
                    f"First record, from {server.name}",
                    servers_table(joins, FIRST, "client"),
                    _soon(joins),
                ]
                parts += [
                    f"Rebalances at {server.name}",
                    servers_table(stops, STOPS, "client"),
                    _short(stops),
                ]
    publish("joining", "First record, and what a rebalance stops", parts, write=plan.write)


def _in_turn(
    names: tuple[str, ...],
    count_of_rounds: int,
    measure: Callable[[str], object],
    *,
    warm_up: bool = False,
) -> rounds.Samples:
    """Measure each client repeatedly; with `warm_up` after a round that is not counted."""
    samples = rounds.Samples({name: name for name in names})
    for number in range(-warm_up, count_of_rounds):
        at = number % len(names)
        for name in names[at:] + names[:at]:
            try:
                sample = measure(name)
            except (subprocess.SubprocessError, TimeoutError) as error:
                print(f"  {name}: failed: {error}", flush=True)
                sample = None
            what = "warm-up" if number < 0 else f"round {number + 1}"
            if sample is not None:
                print(f"  {name}: {what}: {rounds.described(sample)}", flush=True)
            if number >= 0:
                samples.add(name, sample)
    return samples


def _join(server: Server, client: str) -> Joins:
    group = f"{client}-{next(_numbers)}"
    command = [
        sys.executable,
        "-m",
        "benchmarks.members",
        client,
        EAGER,
        server.address,
        TOPIC,
        group,
    ]
    with tempfile.NamedTemporaryFile() as told:
        command += ["--joins", str(JOINS), told.name]
        subprocess.run(
            command, cwd=tools.ROOT, stderr=subprocess.DEVNULL, check=True, timeout=LIMIT_S
        )
        first, *others = json.load(told)
    return Joins(
        join_ms=statistics.median(each["join_ms"] for each in others),
        assigned_ms=statistics.median(each["assigned_ms"] for each in others),
        first_join_ms=first["join_ms"],
        first_assigned_ms=first["assigned_ms"],
    )


def _stop(server: Server, seconds: float, name: str) -> Pauses:
    client, assignor = REBALANCERS[name]
    return disturb(server, client, assignor, f"{client}-{assignor}-{next(_numbers)}", seconds)


def _soon(samples: rounds.Samples) -> str:
    return "\n".join(
        str(
            Target(
                f"kohort, {what} assigned → first record, ms",
                samples.median("kohort", figure),
                100,
                at_least=False,
            )
        )
        for what, figure in (("first", "first_assigned_ms"), ("later", "assigned_ms"))
    )


def _short(samples: rounds.Samples) -> str:
    pairs = [(f"kohort {EAGER}", f"{other} {EAGER}") for other in CLIENTS[1:]]
    pairs += [(f"kohort {COOPERATIVE}", f"{other} {COOPERATIVE}") for other in CLIENTS[2:]]
    return "\n".join(
        str(
            Target(f"{what}, {own} / {other}", samples.ratio(own, other, figure), 1, at_least=False)
        )
        for what, figure in (("join stops any partition", "join_any_ms"), ("leave", "leave_any_ms"))
        for own, other in pairs
    )


if __name__ == "__main__":
    main()
