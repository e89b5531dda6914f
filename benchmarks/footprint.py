"""Measure start time and memory of a server: `python -m benchmarks.footprint`

Every round starts each server afresh, one at a time, with an empty directory. It prints

- the time from the start of the process until its port accepts connections
- the time from there until the JoinGroup of a first member has its response (coordinator found,
  member id assigned)
- resident memory after that, idle
- growth of memory per connection, with 2,000 connections
- growth of memory per member, with 2,000 members in groups of ten. It includes a tenth of the
  group, and what 2,000 simultaneous joins leave in the heap
- growth of memory per committed offset, with 100,000 offsets (1,000 groups of 100 partitions).

Growth is of resident memory for Kohort. A JVM's resident memory grows with its garbage, so for
Apache Kafka it is the live objects after a full collection (`jcmd PID GC.class_histogram`). Offsets
are committed to a fresh server, so that they cannot use memory that members have freed. The peer
kfake has figures only for start and idle memory.
"""

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks import load, rounds
from benchmarks.load import LoadError
from benchmarks.report import Column, Target, publish, servers_table
from benchmarks.servers import SERVERS as ALL
from benchmarks.servers import Server
from benchmarks.tools import MissingError

MEMBERS = 2_000
OFFSETS = {"connections": 10, "groups_each": 100, "requests": 100, "partitions": 100}
OFFSET_COUNT = 10 * 100 * 100
SETTLE_S = 1.0
SERVERS = ("kohort-data", "kafka", "kfake")
COLUMNS = (
    Column("start → listening, s", "listening_s"),
    Column("→ first join, ms", "join_ms"),
    Column("idle RSS, MB", "idle_mb"),
    Column("live heap, MB", "live_mb"),
    Column("per connection, B", "connection_b"),
    Column("per member, B", "member_b"),
    Column("per offset, B", "offset_b"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Figures of one life of a server; NOT_MEASURED where a figure does not apply."""

    listening_s: float
    join_ms: float
    idle_mb: float
    live_mb: float = rounds.NOT_MEASURED
    connection_b: float = rounds.NOT_MEASURED
    member_b: float = rounds.NOT_MEASURED
    offset_b: float = rounds.NOT_MEASURED


WHY = {
    "member_b": "Its live objects are 1.2 kB (`tracemalloc`); the rest is probably heap that joins "
    "of 2,000 at once leave behind, which a member that comes later would take.",
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the section."""
    plan = rounds.plan(__doc__, servers=SERVERS, seconds=0, argv=argv)
    samples = rounds.Samples({})
    for number in range(plan.rounds):
        for key in plan.servers:
            _round(key, number, samples)
    parts = [servers_table(samples, COLUMNS), "\n".join(map(str, _targets(samples)))]
    publish("footprint", "Start and memory", parts, write=plan.write)


def _round(key: str, number: int, samples: rounds.Samples) -> None:
    sample = None
    try:
        figures = _first_life(key, samples)
        if key != "kfake":
            figures |= _second_life(key)
        sample = Footprint(**figures)
        print(f"  {key}: round {number + 1}: {rounds.described(sample)}", flush=True)
    except (MissingError, LoadError) as error:
        print(f"  {key}: round {number + 1} failed: {error}", flush=True)
    if key in samples.names:
        samples.add(key, sample)


def _first_life(key: str, samples: rounds.Samples) -> dict[str, float]:
    with ALL[key]() as server:
        samples.names.setdefault(key, server.name)
        with load.running(server, "first-join") as program:
            join_ms = program.answer()["ms"]
        time.sleep(SETTLE_S)
        idle_mb = server.resident_bytes() / 1e6
        figures = {"listening_s": server.listening_s, "join_ms": join_ms, "idle_mb": idle_mb}
        if key == "kafka":
            figures["live_mb"] = _live_bytes(server) / 1e6
        return figures if key == "kfake" else figures | _connections_and_members(server, _used(key))


def _connections_and_members(server: Server, used: Callable[[Server], float]) -> dict[str, float]:
    before = used(server)
    with load.running(server, "hold", connections=MEMBERS) as program:
        program.line()
        connected = used(server)
        program.go_on()
        program.line()
        joined = used(server)
    return {
        "connection_b": (connected - before) / MEMBERS,
        "member_b": (joined - connected) / MEMBERS,
    }


def _second_life(key: str) -> dict[str, float]:
    # A life of its own: offsets would use memory that the members have freed, and seem to be free.
    used = _used(key)
    with ALL[key]() as server:
        load.make_topic(server, OFFSETS["partitions"])
        _commit(server, groups_each=1, requests=1)
        before = used(server)
        _commit(server)
        return {"offset_b": (used(server) - before) / OFFSET_COUNT}


def _used(key: str) -> Callable[[Server], float]:
    return _live_bytes if key == "kafka" else Server.resident_bytes


def _commit(server: Server, **options: int) -> None:
    with load.running(server, "commits", warmup=0, **{**OFFSETS, **options}) as program:
        program.line()
        program.answer()


def _live_bytes(server: Server) -> float:
    if shutil.which("jcmd") is None:
        return rounds.NOT_MEASURED
    command = ["jcmd", str(server.pid), "GC.class_histogram"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    last = done.stdout.strip().splitlines()[-1:] or [""]
    if not last[0].startswith("Total"):
        raise LoadError(
            f"jcmd did not tell the live objects: {done.stdout[-200:]}{done.stderr[-200:]}"
        )
    return int(last[0].split()[2])


def _targets(samples: rounds.Samples) -> list[Target]:
    own = "kohort-data"
    bounds = (
        ("start → listening, s", "listening_s", 0.4),
        ("listening → first join, ms", "join_ms", 50),
        ("idle, MB", "idle_mb", 80),
        ("per connection, B", "connection_b", 20_000),
        ("per member, B", "member_b", 2_000),
        ("per committed offset, B", "offset_b", 400),
    )
    return [
        Target(
            f"Kohort, {what}",
            samples.median(own, name),
            bound,
            at_least=False,
            why=WHY.get(name, ""),
        )
        for what, name, bound in bounds
    ]


if __name__ == "__main__":
    main()
