"""Lag in its cases against what a reader counts, on `kohort serve` and on an Apache Kafka."""

import time
from collections.abc import AsyncIterator
from itertools import count

import pytest

from interop.targets import Target
from kohort.client import Consumer, Producer, Record
from kohort.client.admin import Admin, PartitionLag
from kohort.client.cluster import Isolation
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.lag import Case, Method
from kohort.types import GroupId, TopicPartition
from waiting import until

pytestmark = pytest.mark.interop
NUMBERS = count(1)
EACH_ISOLATION: tuple[Isolation, ...] = ("read_uncommitted", "read_committed")
CLEANED_AT_ONCE = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "segment.ms": "100",
    "max.compaction.lag.ms": "100",
}


@pytest.fixture(params=["kohort", pytest.param("kafka", marks=pytest.mark.clients)])
def server(request: pytest.FixtureRequest) -> Target:
    name = "apache_kafka" if request.param == "kafka" else "target"
    found: Target = request.getfixturevalue(name)
    return found


class Scene:
    """A topic of one partition and a group of their own, on a server."""

    def __init__(self, server: Target, admin: Admin) -> None:
        number = next(NUMBERS)
        self.address, self.admin = server.address, admin
        self.tp = TopicPartition(f"lag-cases-{number}-{time.time_ns()}", 0)
        self.group = GroupId(self.tp.topic)

    async def produce(self, *values: bytes, key: bytes | None = None) -> None:
        async with Producer(bootstrap=self.address, linger_ms=0) as producer:
            for value in values:
                await producer.send_and_wait(self.tp.topic, value, key=key, partition=0)

    async def commit(self, offset: int) -> None:
        outcomes = await self.admin.commit(self.group, {self.tp: OffsetAndMetadata(offset=offset)})
        assert set(outcomes.values()) == {None}

    async def lag(self, isolation: Isolation = "read_uncommitted") -> PartitionLag:
        lags = await self.admin.partition_lags(
            self.group, [self.tp], isolation=isolation, in_time=True
        )
        return lags[self.tp]

    async def unread(
        self, committed: int, isolation: Isolation = "read_uncommitted"
    ) -> list[Record]:
        """The records that a reader gets from the commit on."""
        starts = await self.admin.list_offsets({self.tp: -2})
        start = starts[self.tp].offset  # type: ignore[union-attr]
        async with Consumer(bootstrap=self.address, isolation_level=isolation) as consumer:
            await consumer.assign({self.tp: max(committed, start)})
            ends = await consumer.end_offsets([self.tp])
            return [record async for record in consumer.read_to(ends)]


@pytest.fixture
async def scene(server: Target) -> AsyncIterator[Scene]:
    async with Admin(bootstrap=server.address) as admin:
        made = Scene(server, admin)
        await admin.create_topic(made.tp.topic, partitions=1)
        yield made


async def test_a_group_without_a_commit_has_no_lag(scene: Scene) -> None:
    await scene.produce(b"a", b"b")
    found = await scene.lag()
    assert (found.lag, found.lag_ms, found.case) == (None, None, Case.NO_COMMIT)


async def test_a_lag_is_what_a_reader_counts_and_as_old_as_its_first_record(scene: Scene) -> None:
    await scene.produce(b"a", b"b", b"c", b"d")
    await scene.commit(1)
    before_ms = time.time_ns() // 1_000_000
    found = await scene.lag()
    unread = await scene.unread(1)
    assert (found.lag, found.case) == (len(unread), Case.OK) == (3, Case.OK)
    assert found.time.method is Method.RECORD
    assert found.lag_ms is not None
    after_ms = time.time_ns() // 1_000_000
    assert before_ms - unread[0].timestamp <= found.lag_ms <= after_ms - unread[0].timestamp


async def test_records_that_were_deleted_unread_are_lost_and_no_lag(scene: Scene) -> None:
    await scene.produce(*(b"%d" % number for number in range(10)))
    await scene.commit(2)
    await scene.admin.delete_records({scene.tp: 6})
    found, unread = await scene.lag(), await scene.unread(2)
    assert (found.lag, found.lost, found.case) == (len(unread), 4, Case.RETENTION_PASSED)


async def test_a_commit_beyond_the_end_has_a_stale_end_and_no_lag(scene: Scene) -> None:
    await scene.produce(b"a", b"b")
    await scene.commit(5)
    for isolation in EACH_ISOLATION:
        found = await scene.lag(isolation)
        assert (found.lag, found.lag_ms, found.case) == (0, 0, Case.STALE_END)
        assert found.beyond == 3


async def test_markers_at_the_end_are_nothing_that_a_reader_gets(scene: Scene) -> None:
    async with Producer(
        bootstrap=scene.address, transactional_id=scene.tp.topic, linger_ms=0
    ) as producer:
        async with producer.transaction():
            await producer.send_and_wait(scene.tp.topic, b"committed", partition=0)
        async with producer.transaction() as transaction:
            await producer.send_and_wait(scene.tp.topic, b"aborted", partition=0)
            await transaction.abort()
        for committed in (3, 2, 1, 0):
            await scene.commit(committed)
            for isolation in EACH_ISOLATION:
                found = await scene.lag(isolation)
                unread = await scene.unread(committed, isolation)
                assert found.lag is not None
                assert (found.lag == 0) == (not unread), (committed, isolation, found)
                assert found.lag >= len(unread)
                assert found.case is (Case.UPPER_BOUND if unread else Case.MARKERS)


async def test_a_reader_of_committed_records_does_not_lag_behind_an_open_transaction(
    scene: Scene,
) -> None:
    await scene.produce(b"a", b"b")
    await scene.commit(1)
    async with (
        Producer(bootstrap=scene.address, transactional_id=scene.tp.topic, linger_ms=0) as producer,
        producer.transaction(),
    ):
        for value in (b"c", b"d"):
            await producer.send_and_wait(scene.tp.topic, value, partition=0)
        for isolation, expected in zip(EACH_ISOLATION, (3, 1), strict=True):
            found, unread = await scene.lag(isolation), await scene.unread(1, isolation)
            assert found.lag == len(unread) == expected


@pytest.mark.timeout(300)
async def test_the_lag_of_a_compacted_topic_is_an_upper_bound_of_what_a_reader_counts(
    server: Target,
) -> None:
    async with Admin(bootstrap=server.address) as admin:
        scene = Scene(server, admin)
        await admin.create_topic(scene.tp.topic, partitions=1, configs=CLEANED_AT_ONCE)
        await scene.produce(b"stays", key=b"first")  # the holes are behind it
        await scene.commit(0)

        async def is_compacted() -> bool:
            await scene.produce(b"v", b"v", key=b"k")
            found, unread = await scene.lag(), await scene.unread(0)
            assert found.lag is not None
            assert found.case is Case.UPPER_BOUND
            assert found.lag >= len(unread)
            return found.lag > len(unread)

        await until(is_compacted, every_s=1)
