"""Measure the rebalances of a group of 1,000 members: `python -m benchmarks.rebalance`

1,000 connections are open. All members join at once (JoinGroup v5 with the member id handshake,
SyncGroup v3). The first time ends when every member has its assignment of the same generation. Then
a member that is not the leader leaves. The second time ends when the 999 others have synced. They
learn of the rebalance from their heartbeats, one every 0.3 s and spread evenly, so 300 ms of it is
waiting.

Servers have no initial rebalance delay. Prints both times and the CPU time of the server for both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import load, rounds
from benchmarks.report import Column, Target, publish, servers_table
from benchmarks.servers import Server

MEMBERS = 1_000
SERVERS = ("kohort-memory", "kohort-data", "kafka", "kfake")
COLUMNS = (
    Column("join → synced, ms", "join_ms"),
    Column("/ Kafka", "join_ms", "kafka"),
    Column("/ kfake", "join_ms", "kfake"),
    Column("generations", "generations"),
    Column("leave → synced, ms", "leave_ms"),
    Column("/ Kafka", "leave_ms", "kafka"),
    Column("/ kfake", "leave_ms", "kfake"),
    Column("server CPU, ms", "cpu_ms"),
)
JVM_WARM_UPS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One group's first join, and its first leave."""

    join_ms: float
    leave_ms: float
    generations: float
    """Until all were in one: a group of two generations began with those who came first."""
    cpu_ms: float


_REQUESTS = (
    "A round of 1,000 members is 4,000 requests, of which each takes 20-25 µs of Python, in a flat "
    "profile; "
)
WHY = {
    "kafka": f"{_REQUESTS}Kafka works on more than one core.",
    "kfake": f"{_REQUESTS}kfake is compiled, works on more than one core and logs nothing.",
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    plan = rounds.plan(__doc__, servers=SERVERS, seconds=0, argv=argv)
    samples = rounds.interleaved(plan, _measure, warm_up=_warm_up)
    targets = [
        Target(
            f"{what}, Kohort / {name} ({aim})",
            samples.ratio("kohort-data", key, figure),
            1,
            at_least=False,
            why=WHY[key],
        )
        for figure, what in (("join_ms", "First join"), ("leave_ms", "Leave"))
        for key, name, aim in (("kafka", "Kafka", "the target"), ("kfake", "kfake", "the aim"))
    ]
    parts = [servers_table(samples, COLUMNS), "\n".join(map(str, targets))]
    publish("rebalance", f"A group of {MEMBERS:,} members", parts, write=plan.write)


def _measure(server: Server) -> Rebalance:
    with load.running(server, "rebalance", connections=MEMBERS, group_size=MEMBERS) as program:
        before = server.cpu_seconds()
        told = program.answer()
        used = server.cpu_seconds() - before
    return Rebalance(**told, cpu_ms=used * 1000)


def _warm_up(key: str, server: Server) -> None:
    for _ in range(JVM_WARM_UPS if key == "kafka" else 1):
        _measure(server)


if __name__ == "__main__":
    main()
