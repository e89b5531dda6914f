"""Measure a rolling restart of a cluster: `python -m benchmarks.rolling_restart`

Three nodes on a PostgreSQL of their own (with fsync), 50 shards, 50,000 committed offsets of 500
groups, and 100 further groups with a member each. Every member sends a heartbeat 20 ms after the
response to the one before. The nodes are stopped (SIGTERM) and started again one after the other.

A heartbeat takes as long as it is tried: on NOT_COORDINATOR and the like, or when the connection is
lost, the member looks for the coordinator and tries again after 20 ms. The pause of a group is the
time from the last heartbeat that the former coordinator took to the first that the next one took.
`--cold` sets `cluster.drain.timeout.ms=0`, and is not written.
"""

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks import nodes
from benchmarks.raw_members import Member
from benchmarks.report import Target, publish, table
from benchmarks.rounds import option_parser
from kohort.client import ClientConfig, OffsetAndMetadata, TopicPartition
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.errors import KafkaError, KohortError
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
SETTINGS: Final = {"offsets.topic.num.partitions": "50", "cluster.rebalance.delay.ms": "30000"}


@dataclass(slots=True)
class Beats:
    """Durations of the members' heartbeats and of the nodes' ends."""

    durations: list[float] = field(default_factory=list)
    """Duration of each heartbeat in s, including its retries."""
    pauses: list[float] = field(default_factory=list)
    """Pause at each change of a coordinator, in s."""
    refused: Counter[str] = field(default_factory=Counter)
    """Failed tries, by their error."""
    drained: list[float] = field(default_factory=list)
    """Time from SIGTERM to the end of each node, in s."""


async def _beat(member: Member, beats: Beats) -> None:
    """Send heartbeats, until this is cancelled."""
    last_node, last_s = None, time.monotonic()
    while True:
        begun = time.monotonic()
        while (node := await _try(member, beats)) is None:  # noqa: ASYNC110
            await asyncio.sleep(PAUSE_S)
        ended = time.monotonic()
        beats.durations.append(ended - begun)
        if last_node not in (None, node):
            beats.pauses.append(ended - last_s)
        last_node, last_s = node, ended
        await asyncio.sleep(PAUSE_S)


async def _try(member: Member, beats: Beats) -> object:
    """The address of the node that took a heartbeat, None if none did."""
    try:
        return await member.heartbeat()
    except KohortError as error:
        why = error.code.name if isinstance(error, KafkaError) else type(error).__name__
        beats.refused[why] += 1
        return None


def _restart(cluster: nodes.Nodes, node: int, settings: Mapping[str, str], beats: Beats) -> None:
    begun = time.monotonic()
    cluster.servers[node].stop()
    beats.drained.append(time.monotonic() - begun)
    cluster.start(node, settings)


def main(argv: Sequence[str] | None = None) -> None:
    """Restart all nodes in several rounds, and write the section."""
    parser = option_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="restarts of all (%(default)s)")
    parser.add_argument("--cold", action="store_true", help="hand nothing over")
    options = parser.parse_args(argv)
    beats = Beats()
    settings = SETTINGS | ({"cluster.drain.timeout.ms": "0"} if options.cold else {})
    with nodes.cluster() as cluster:
        for node in NODES:
            cluster.start(node, settings)
        asyncio.run(_measure(cluster, settings, beats, options.rounds))
    write = not (options.dry or options.cold or options.rounds < ROUNDS)
    publish("rolling_restart", "Rolling restart of a cluster", _parts(beats), write=write)


async def _measure(
    restarted: nodes.Nodes, settings: Mapping[str, str], beats: Beats, rounds: int
) -> None:
    config = ClientConfig(
        bootstrap=restarted.bootstrap, request_timeout_ms=5_000, retry_backoff_ms=20
    )
    async with Cluster(config) as cluster:
        await _fill(cluster)
        members = [Member(cluster, f"member-{number}") for number in range(MEMBERS)]
        for member in members:
            await member.join()
        beating = [asyncio.create_task(_beat(member, beats)) for member in members]
        for number in range(rounds):
            for node in NODES:
                await asyncio.sleep(SETTLING_S)
                await asyncio.to_thread(_restart, restarted, node, settings, beats)
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


def _parts(beats: Beats) -> list[str]:
    durations = {
        "a heartbeat": beats.durations,
        "the pause of a group whose coordinator changes": beats.pauses,
        "SIGTERM to the end of the process": beats.drained,
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
