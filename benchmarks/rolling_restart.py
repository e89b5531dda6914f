"""Measure a rolling restart of a cluster: `python -m benchmarks.rolling_restart`

Three nodes on a PostgreSQL of their own (with fsync), 50 shards, 50,000 committed offsets of 500
groups, and 100 further groups with a member each. Every member sends a heartbeat 20 ms after the
response to the one before. The nodes are stopped (SIGTERM) and started again one after the other.

A heartbeat takes as long as it is tried: on NOT_COORDINATOR and the like, or when the connection is
lost, the member looks for the coordinator and tries again after 20 ms. The pause of a group is the
time from the last heartbeat that the former coordinator took to the first that the next one took.
`--cold` sets `cluster.drain.timeout.ms=0`, and is not written.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.peers.postgres import Postgres

from benchmarks.report import Target, publish, table
from kohort.client import ClientConfig, OffsetAndMetadata, TopicPartition
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.errors import ErrorCode, KohortError
from kohort.testing.server_process import ServerProcess
from kohort.types import GroupId

TOPIC: Final = "orders"
PARTITIONS: Final = 100
FILLED: Final = 500
"""Groups with an offset of each partition."""
MEMBERS: Final = 100
NODES: Final = (1, 2, 3)
PAUSE_S: Final = 0.02
SETTLING_S: Final = 1.0
"""Time between two restarts, and before the first and behind the last one."""
ROUNDS: Final = 5
SESSION_MS: Final = 45_000


@dataclass(slots=True)
class Beats:
    """What the members saw."""

    durations: list[float] = field(default_factory=list)
    """Of each heartbeat in s, with all its tries."""
    pauses: list[float] = field(default_factory=list)
    """Of each change of a coordinator, in s."""
    refused: Counter[str] = field(default_factory=Counter)
    """Tries that did not succeed, by why."""


class Member:
    """The only member of a group."""

    def __init__(self, cluster: Cluster, group: str, beats: Beats) -> None:
        self._cluster = cluster
        self._group = group
        self._beats = beats
        self._identity: dict[str, Any] = {"group_id": group, "group_instance_id": None}

    async def join(self) -> None:
        """Have the group Stable with this member."""
        connection = await self._cluster.coordinator(self._group)
        join: dict[str, Any] = {
            "group_id": self._group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": SESSION_MS,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
            "group_instance_id": None,
            "reason": None,
        }
        first = await connection.send("join_group", **join, member_id="")
        joined = await connection.send("join_group", **join, member_id=first.member_id)
        self._identity |= {"member_id": first.member_id, "generation_id": joined.generation_id}
        synced = await connection.send(
            "sync_group",
            **self._identity,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": first.member_id, "assignment": b""}],
        )
        assert not synced.error_code, f"{self._group}: {synced.error_code}"

    async def beat(self) -> None:
        """Send heartbeats, until this is cancelled."""
        last_node, last_s = None, time.monotonic()
        while True:
            begun = time.monotonic()
            node = await self._try()
            while node is None:
                await asyncio.sleep(PAUSE_S)
                node = await self._try()
            ended = time.monotonic()
            self._beats.durations.append(ended - begun)
            if last_node not in (None, node):
                self._beats.pauses.append(ended - last_s)
            last_node, last_s = node, ended
            await asyncio.sleep(PAUSE_S)

    async def _try(self) -> object:
        """The address of the node that took a heartbeat, None if none did."""
        try:
            connection = await self._cluster.coordinator(self._group)
            response = await connection.send("heartbeat", **self._identity)
        except KohortError as error:
            why = type(error).__name__
        else:
            code = ErrorCode(response.error_code)
            if code is ErrorCode.none:
                return connection.address
            why = code.name
        self._beats.refused[why] += 1
        self._cluster.coordinator_moved(self._group)
        return None


class Nodes:
    """The processes."""

    def __init__(self, url: str, directory: Path, stack: ExitStack, *, cold: bool) -> None:
        self._settings = {
            "storage": url,
            "offsets.topic.num.partitions": "50",
            "group.initial.rebalance.delay.ms": "0",
        } | ({"cluster.drain.timeout.ms": "0"} if cold else {})
        self._directory = directory
        self._stack = stack
        self._processes: dict[int, ServerProcess] = {}
        self._ports: dict[int, str] = {}
        self.drained: list[float] = []
        """Time from SIGTERM to the end of each process, in s."""

    @property
    def addresses(self) -> str:
        return ",".join(each.address for each in self._processes.values())

    def start(self, node: int) -> None:
        """Start a node, at the address that it had before; return when it listens."""
        process = ServerProcess(
            f"--listen={self._ports.get(node, '127.0.0.1:0')}",
            "--insecure",
            log=self._directory / f"{node}.log",
            settings={**self._settings, "node.id": str(node)},
        )
        self._processes[node] = self._stack.enter_context(process)
        self._ports[node] = process.address

    def restart(self, node: int) -> None:
        """Stop and start a node."""
        begun = time.monotonic()
        self._processes[node].stop()
        self.drained.append(time.monotonic() - begun)
        self.start(node)


def main(argv: Sequence[str] | None = None) -> None:
    """Restart all nodes in several rounds, and write the section."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="restarts of all (%(default)s)")
    parser.add_argument("--cold", action="store_true", help="hand nothing over")
    parser.add_argument("--dry", action="store_true", help="print, but do not write RESULTS.md")
    options = parser.parse_args(argv)
    beats = Beats()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-rolling-")))
        nodes = Nodes(_database(stack), directory, stack, cold=options.cold)
        for node in NODES:
            nodes.start(node)
        asyncio.run(_measure(nodes, beats, options.rounds))
    write = not (options.dry or options.cold or options.rounds < ROUNDS)
    publish("rolling_restart", "Rolling restart of a cluster", _parts(nodes, beats), write=write)


def _database(stack: ExitStack) -> str:
    return stack.enter_context(Postgres.start(fsync=True)).url


async def _measure(nodes: Nodes, beats: Beats, rounds: int) -> None:
    config = ClientConfig(bootstrap=nodes.addresses, request_timeout_ms=5_000, retry_backoff_ms=20)
    async with Cluster(config) as cluster:
        await _fill(cluster)
        members = [Member(cluster, f"member-{number}", beats) for number in range(MEMBERS)]
        for member in members:
            await member.join()
        beating = [asyncio.create_task(member.beat()) for member in members]
        for number in range(rounds):
            for node in NODES:
                await asyncio.sleep(SETTLING_S)
                await asyncio.to_thread(nodes.restart, node)
            print(f"  round {number + 1}: {_described(beats)}", flush=True)
        await asyncio.sleep(SETTLING_S)
        for task in beating:
            task.cancel()
        ended = await asyncio.gather(*beating, return_exceptions=True)
        for each in ended:
            if not isinstance(each, asyncio.CancelledError):
                raise RuntimeError("a member ended") from each


async def _fill(cluster: Cluster) -> None:
    admin = Admin(cluster)
    await admin.create_topic(TOPIC, partitions=PARTITIONS)
    offsets = {
        TopicPartition(TOPIC, number): OffsetAndMetadata(offset=number)
        for number in range(PARTITIONS)
    }
    for number in range(FILLED):
        await admin.commit(GroupId(f"filled-{number}"), offsets)


def _described(beats: Beats) -> str:
    return (
        f"{len(beats.durations)} heartbeats, p99 {_ms(beats.durations, 0.99):.0f} ms, "
        f"longest {_ms(beats.durations, 1):.0f} ms; {len(beats.pauses)} pauses, "
        f"median {_ms(beats.pauses, 0.5):.0f} ms, longest {_ms(beats.pauses, 1):.0f} ms"
    )


def _ms(durations: Sequence[float], part: float) -> float:
    """The duration below which that part of them is, in ms."""
    ordered = sorted(durations)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] * 1_000


def _parts(nodes: Nodes, beats: Beats) -> list[str]:
    durations = {
        "a heartbeat": beats.durations,
        "the pause of a group whose coordinator changes": beats.pauses,
        "SIGTERM to the end of the process": nodes.drained,
    }
    rows = [
        [what, f"{len(found):,}", *(f"{_ms(found, part):.0f}" for part in (0.5, 0.99, 1))]
        for what, found in durations.items()
    ]
    tries = ", ".join(f"{why} {count:,}" for why, count in beats.refused.most_common())
    targets = [
        Target("p99 of heartbeats, ms", _ms(beats.durations, 0.99), 500, at_least=False),
        Target("median pause, ms", statistics.median(beats.pauses) * 1_000, 150, at_least=False),
    ]
    titles = ("duration", "times", "p50 ms", "p99 ms", "longest ms")
    return [
        table(titles, rows),
        f"Tries that did not succeed: {tries}.",
        "\n".join(map(str, targets)),
    ]


if __name__ == "__main__":
    main()
