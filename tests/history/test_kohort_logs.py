"""Logs that `kohort serve` wrote: files of one process and of workers, and by broker.

Members are Kohort's own clients. The tables say what the server says at the end, and who committed.
"""

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from history.broker_logs import LOG, by_broker
from history.folded import Folded, fold_all, in_force
from history.recorded import read_segments
from kohort.client import (
    ClientConfig,
    Cluster,
    CommitError,
    ConsumerGroup,
    Generation,
    GroupMetadata,
    Producer,
)
from kohort.client.admin import Admin
from kohort.testing.server_process import ServerProcess
from kohort.types import TopicPartition
from waiting import until

LOG_PARTITIONS = 3
SETTINGS = {
    "offsets.topic.num.partitions": str(LOG_PARTITIONS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
}
ORDERS = tuple(TopicPartition("orders", number) for number in range(4))
GROUPS = ("billing", "audit", "ledger", "gone", "simple")


@dataclass
class Member:
    """A member that commits all the time, and what it said."""

    name: str
    group: str
    consumer: ConsumerGroup
    offsets: Counter[TopicPartition]
    """The last offset of each partition, of all members of the group."""
    owned: set[TopicPartition] = field(default_factory=set)
    commits: list[tuple[TopicPartition, int, str]] = field(default_factory=list)
    """Partition, offset and member id of those that were acknowledged."""

    async def run(self) -> None:
        async with self.consumer:
            async for generation in self.consumer:
                async with generation:
                    for partition in generation.assignment:
                        generation.start(self._commit, partition)

    async def _commit(self, generation: Generation, partition: TopicPartition) -> None:
        self.owned.add(partition)
        try:
            while True:
                self.offsets[partition] += 1
                offset = self.offsets[partition]
                try:
                    await generation.commit({partition: offset})
                except CommitError:
                    continue
                self.commits.append((partition, offset, generation.member_id))
                await asyncio.sleep(0.02)
        finally:
            self.owned.discard(partition)


@dataclass
class Played:
    """What the server and the clients said."""

    committed: dict[str, dict[TopicPartition, int]]
    members: list[Member]


async def play(address: str) -> Played:
    """Members of a classic and a consumer group, transactions, a simple consumer, a deletion."""
    async with Cluster(ClientConfig(bootstrap=address)) as cluster:
        admin = Admin(cluster)
        await admin.create_topic("orders", partitions=len(ORDERS))
        classic, consumers, _ = await asyncio.gather(
            _members(address, "billing", "classic"),
            _members(address, "audit", "consumer"),
            _transactions(address),
        )
        await admin.commit("simple", {ORDERS[0]: 5})
        await admin.commit("gone", {ORDERS[0]: 6, ORDERS[1]: 7})
        await admin.delete_groups(["gone"])
        found = await admin.committed(GROUPS, require_stable=True)
        committed = {
            group: {tp: each.offset for tp, each in offsets.items()}
            for group, offsets in found.items()
            if not isinstance(offsets, Exception)
        }
        return Played(committed, [*classic, *consumers])


async def _members(address: str, group: str, protocol: str) -> list[Member]:
    """The first member, a second one that joins, and both leave."""
    offsets: Counter[TopicPartition] = Counter()

    def member(name: str) -> Member:
        consumer = ConsumerGroup(
            group,
            topics=["orders"],
            bootstrap=address,
            client_id=name,
            protocol=protocol,
            heartbeat_interval_ms=100,
            join_group_backoff_ms=100,
            drain_timeout_ms=0,
        )
        return Member(name, group, consumer, offsets)

    first, second = member(f"{group}-first"), member(f"{group}-second")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first.run())
        await until(lambda: len(first.owned) == len(ORDERS))
        tasks.create_task(second.run())
        await until(lambda: len(first.owned) == len(second.owned) == 2)
        await until(lambda: len(second.commits) > 4)
        second.consumer.stop()
        await until(lambda: len(first.owned) == len(ORDERS))
        first.consumer.stop()
    return [first, second]


async def _transactions(address: str) -> None:
    config = ClientConfig(bootstrap=address)
    ledger = GroupMetadata(group_id="ledger")
    async with Producer(config, transactional_id="one") as producer:
        async with producer.transaction() as transaction:
            await transaction.commit_offsets({ORDERS[0]: 10, ORDERS[1]: 11}, ledger)
        async with producer.transaction() as transaction:
            await transaction.commit_offsets({ORDERS[0]: 20, ORDERS[2]: 22}, ledger)
            await transaction.abort()


def by_files(data: Path) -> dict[int, pa.Table]:
    """The records of each log partition, from the segments of one process or of workers."""
    segments: dict[int, list[Path]] = defaultdict(list)
    for file in sorted(data.rglob(f"{LOG}-*/*.log")):
        segments[int(file.parent.name.rpartition("-")[2])].append(file)
    return {number: read_segments(files, number) for number, files in segments.items()}


def assert_tables(folded: Folded, played: Played) -> None:
    """The tables are what the server and the members said."""
    assert all(row["errors"] == 0 and row["holes"] == 0 for row in folded.coverage)
    ends = {row["log_partition"]: row["end"] for row in folded.coverage}
    offsets: dict[str, dict[TopicPartition, int]] = {group: {} for group in GROUPS}
    for (group, topic, partition), row in in_force(folded.commits, ends).items():
        offsets[group][TopicPartition(topic, partition)] = row["committed"]
    assert offsets == played.committed
    assert offsets["ledger"] == {ORDERS[0]: 10, ORDERS[1]: 11}
    origins: dict[tuple[Any, ...], list[tuple[str, str]]] = defaultdict(list)
    for row in folded.commits:
        key = row["group"], row["topic"], row["partition"], row["committed"]
        origins[key].append((row["member_id"], row["client_id"]))
    for member in played.members:
        assert len(member.commits) > 4
        for tp, offset, member_id in member.commits:
            assert (member_id, member.name) in origins[member.group, *tp, offset]
    ended = {row["member_id"]: row["ended_by"] for row in folded.members}
    assert ended == {member.commits[-1][2]: "left" for member in played.members}
    generations = Counter(row["group"] for row in folded.generations)
    assert generations["billing"] >= 3
    assert generations["audit"] >= 3


@pytest.mark.parametrize("workers", [1, 2])
def test_tables_of_files_equal_what_server_and_members_said(workers: int, tmp_path: Path) -> None:
    options = ("--dev", "--data", str(tmp_path / "data"), "--workers", str(workers))
    with ServerProcess(*options, log=tmp_path / "server.log", settings=SETTINGS) as server:
        played = asyncio.run(play(server.address))
        from_broker = by_broker(server.address)
        server.stop()
    from_files = by_files(tmp_path / "data")
    assert from_files.keys() == from_broker.keys()
    for number, table in from_files.items():
        assert table.equals(from_broker[number].combine_chunks())
    assert_tables(fold_all(from_files), played)


def test_tables_by_a_broker_on_postgresql_equal_what_server_and_members_said(
    database: str, tmp_path: Path
) -> None:
    log = tmp_path / "server.log"
    with ServerProcess("--dev", "--storage", database, log=log, settings=SETTINGS) as server:
        played = asyncio.run(play(server.address))
        records = by_broker(server.address)
    assert_tables(fold_all(records), played)
