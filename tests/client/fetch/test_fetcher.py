"""Reading partitions of our own server: positions, seeking, pausing, waiting, bounds."""

import asyncio
import gc
from collections.abc import AsyncIterator
from functools import partial

import pytest

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.offsets import list_offsets
from kohort.client.errors import NotAssignedError, OffsetOutOfRangeError
from kohort.client.fetch.fetcher import EARLIEST, LATEST, Fetcher
from kohort.errors import ConfigError, KafkaError
from kohort.protocol import batches
from kohort.protocol.batches import Codec, Record
from kohort.server.broker import Broker
from kohort.types import TopicPartition

TPS = [TopicPartition("orders", index) for index in range(3)]


@pytest.fixture(autouse=True)
def topic(broker: Broker) -> None:
    broker.controller.topics.create("orders", 3)


@pytest.fixture
async def fetcher(cluster: Cluster) -> AsyncIterator[Fetcher]:
    async with Fetcher(cluster, fetch_max_wait_ms=200) as opened:
        yield opened


def append(broker: Broker, tp: TopicPartition, *values: bytes, codec: Codec = Codec.NONE) -> None:
    """One batch of records, put into the log itself."""
    made = batches.build([Record(b"k", value, (), 1000) for value in values], codec=codec)
    topic = broker.topics.get(tp.topic)
    assert topic is not None
    topic.partitions[tp.partition].append(made, 1000)


async def read(fetcher: Fetcher, tp: TopicPartition, count: int) -> list[bytes | None]:
    """The values of the next records, exactly so many."""
    found: list[bytes | None] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            batch = await fetcher.next(tp, max_wait_ms=1_000)
            found += [record.value for record in batch.records] if batch else []
    assert len(found) == count
    return found


@pytest.mark.parametrize("codec", Codec)
async def test_records_of_every_codec_are_read(
    broker: Broker, fetcher: Fetcher, codec: Codec
) -> None:
    values = [b"value %d" % number for number in range(500)]
    append(broker, TPS[0], *values, codec=codec)
    fetcher.add(TPS[0], 0)
    assert await read(fetcher, TPS[0], 500) == values


async def test_a_batch_has_offsets_and_watermarks(broker: Broker, fetcher: Fetcher) -> None:
    append(broker, TPS[1], b"a", b"b")
    append(broker, TPS[1], b"c")
    fetcher.add(TPS[1], 1)
    batch = await fetcher.next(TPS[1], max_wait_ms=1_000)
    assert batch is not None
    assert (batch.topic_partition, batch.first_offset, batch.next_offset) == (TPS[1], 1, 3)
    assert (batch.high_watermark, batch.last_stable_offset, batch.log_start_offset) == (3, 3, 0)
    assert batch.leader_epoch == batch.records[0].leader_epoch == 0
    assert [record.value for record in batch] == [b"b", b"c"]
    assert len(batch) == 2
    assert sum(header.record_count for header in batch.headers()) == 3


async def test_an_empty_partition_has_no_batch(fetcher: Fetcher) -> None:
    fetcher.add(TPS[0], EARLIEST)
    assert await fetcher.next(TPS[0], max_wait_ms=0) is None
    assert await fetcher.next(TPS[0], max_wait_ms=20) is None
    assert await fetcher.next_any(max_wait_ms=20) is None


@pytest.mark.parametrize("of_any", [True, False])
async def test_a_wait_that_times_out_leaves_no_future(fetcher: Fetcher, of_any: bool) -> None:
    def futures() -> int:
        gc.collect()
        return sum(type(each) is asyncio.Future for each in gc.get_objects())

    async def wait() -> None:
        found = fetcher.next_any if of_any else partial(fetcher.next, TPS[0])
        assert await found(max_wait_ms=0.1) is None

    fetcher.add(TPS[0], 0)
    await wait()
    before = futures()
    for _ in range(100):
        await wait()
    assert futures() < before + 50


async def test_a_waiting_call_gets_a_record_at_once(broker: Broker, fetcher: Fetcher) -> None:
    fetcher.add(TPS[0], EARLIEST)
    waiting = asyncio.create_task(fetcher.next(TPS[0], max_wait_ms=60_000))
    any_waiting = asyncio.create_task(fetcher.next_any(max_wait_ms=60_000))
    await asyncio.sleep(0.05)
    append(broker, TPS[0], b"one")
    async with asyncio.timeout(60):
        done, _ = await asyncio.wait({waiting, any_waiting}, return_when=asyncio.FIRST_COMPLETED)
        assert [batch.records[0].value for task in done if (batch := task.result())] == [b"one"]
        append(broker, TPS[0], b"two")
        await asyncio.gather(waiting, any_waiting)


async def test_reading_starts_at_earliest_or_latest(
    broker: Broker, cluster: Cluster, fetcher: Fetcher
) -> None:
    for value in (b"a", b"b", b"c"):
        append(broker, TPS[0], value)
    fetcher.add(TPS[0], EARLIEST)
    assert fetcher.position(TPS[0]) is None
    assert await read(fetcher, TPS[0], 3) == [b"a", b"b", b"c"]
    fetcher.seek(TPS[0], LATEST)
    assert await fetcher.next(TPS[0], max_wait_ms=50) is None
    assert fetcher.position(TPS[0]) == 3
    append(broker, TPS[0], b"d")
    assert await read(fetcher, TPS[0], 1) == [b"d"]
    found = await list_offsets(cluster, {TPS[0]: LATEST})
    assert found[TPS[0]].offset == 4  # type: ignore[union-attr]


async def test_positions_and_lag_follow_the_batches(broker: Broker, fetcher: Fetcher) -> None:
    append(broker, TPS[0], *[b"x"] * 10)
    fetcher.add(TPS[0], 4)
    assert (fetcher.position(TPS[0]), fetcher.lag(TPS[0]), fetcher.high_watermark(TPS[0])) == (
        4,
        None,
        None,
    )
    await read(fetcher, TPS[0], 6)
    assert (fetcher.position(TPS[0]), fetcher.lag(TPS[0]), fetcher.high_watermark(TPS[0])) == (
        10,
        0,
        10,
    )
    fetcher.seek(TPS[0], 7)
    assert (fetcher.position(TPS[0]), fetcher.lag(TPS[0])) == (7, 3)


async def test_seek_drops_buffered_batches_and_the_request_in_flight(
    broker: Broker, fetcher: Fetcher
) -> None:
    append(broker, TPS[0], *[b"%d" % n for n in range(10)])
    fetcher.add(TPS[0], 0)
    await asyncio.sleep(0.05)
    fetcher.seek(TPS[0], 8)
    assert (await read(fetcher, TPS[0], 2)) == [b"8", b"9"]
    fetcher.seek(TPS[0], 2)
    fetcher.seek(TPS[0], 9)
    assert (await read(fetcher, TPS[0], 1)) == [b"9"]


async def test_a_paused_partition_returns_no_batch_until_resume(
    broker: Broker, fetcher: Fetcher
) -> None:
    append(broker, TPS[0], b"a")
    append(broker, TPS[1], b"b")
    fetcher.assign({TPS[0]: 0, TPS[1]: 0})
    await asyncio.sleep(0.05)
    fetcher.pause(TPS[0])
    assert fetcher.paused() == {TPS[0]}
    batch = await fetcher.next_any(max_wait_ms=1_000)
    assert batch is not None
    assert batch.topic_partition == TPS[1]
    assert await fetcher.next_any(max_wait_ms=20) is None
    assert await fetcher.next(TPS[0], max_wait_ms=20) is None
    fetcher.resume(TPS[0])
    assert await read(fetcher, TPS[0], 1) == [b"a"]


async def test_a_partition_that_is_resumed_does_not_wait_for_the_others(
    broker: Broker, cluster: Cluster
) -> None:
    """A request that waits at the broker must not keep other partitions from
    being fetched.
    """
    async with Fetcher(cluster, fetch_max_wait_ms=25_000) as fetcher:
        fetcher.assign({TPS[0]: 0, TPS[1]: 0})
        fetcher.pause(TPS[1])
        assert await fetcher.next(TPS[0], max_wait_ms=50) is None
        append(broker, TPS[1], b"b")
        append(broker, TPS[2], b"c")
        fetcher.resume(TPS[1])
        fetcher.add(TPS[2], 0)
        async with asyncio.timeout(20):
            assert await read(fetcher, TPS[1], 1) == [b"b"]
        append(broker, TPS[2], b"d")
        assert await fetcher.next(TPS[2], max_wait_ms=2_000) is not None


async def test_assign_keeps_the_position_of_present_partitions(
    broker: Broker, fetcher: Fetcher
) -> None:
    append(broker, TPS[0], b"a", b"b")
    append(broker, TPS[2], b"c")
    fetcher.assign({TPS[0]: 0, TPS[1]: 0})
    await read(fetcher, TPS[0], 2)
    fetcher.assign({TPS[0]: 0, TPS[2]: 0})
    assert fetcher.assignment == {TPS[0], TPS[2]}
    assert fetcher.position(TPS[0]) == 2
    assert await read(fetcher, TPS[2], 1) == [b"c"]


async def test_an_unassigned_partition_is_an_error(fetcher: Fetcher) -> None:
    for call in (
        fetcher.position,
        fetcher.lag,
        fetcher.pause,
        fetcher.resume,
        fetcher.high_watermark,
    ):
        with pytest.raises(NotAssignedError, match="orders-0 is not assigned"):
            call(TPS[0])
    with pytest.raises(NotAssignedError):
        fetcher.seek(TPS[0], 3)
    with pytest.raises(NotAssignedError):
        await fetcher.next(TPS[0], max_wait_ms=0)


async def test_removing_a_partition_ends_the_wait_for_it(fetcher: Fetcher) -> None:
    fetcher.add(TPS[0], 0)
    waiting = asyncio.create_task(fetcher.next(TPS[0], max_wait_ms=5_000))
    await asyncio.sleep(0.02)
    fetcher.remove(TPS[0])
    async with asyncio.timeout(60):
        with pytest.raises(NotAssignedError):
            await waiting


async def test_buffered_bytes_are_bounded(broker: Broker, cluster: Cluster) -> None:
    value = bytes(10_000)
    for tp in TPS:
        for _ in range(100):
            append(broker, tp, value)
    async with Fetcher(
        cluster, max_partition_fetch_bytes=50_000, max_buffered_bytes=120_000
    ) as fetcher:
        fetcher.assign(dict.fromkeys(TPS, 0))
        await asyncio.sleep(0.1)
        # Until it is full, and then what two requests bring at most.
        assert fetcher.buffered_bytes < 120_000 + 2 * 3 * 50_000
        seen = dict.fromkeys(TPS, 0)
        async with asyncio.timeout(60):
            while sum(seen.values()) < 300:
                batch = await fetcher.next_any(max_wait_ms=1_000)
                assert batch is not None
                assert batch.first_offset == seen[batch.topic_partition]
                seen[batch.topic_partition] = batch.next_offset
        assert fetcher.buffered_bytes == 0


async def test_a_batch_larger_than_any_limit_is_read(broker: Broker, cluster: Cluster) -> None:
    append(broker, TPS[0], bytes(300_000))
    append(broker, TPS[0], b"next")
    async with Fetcher(
        cluster, max_partition_fetch_bytes=1_000, fetch_max_bytes=1_000, max_buffered_bytes=1_000
    ) as small:
        small.add(TPS[0], 0)
        assert [len(value or b"") for value in await read(small, TPS[0], 2)] == [300_000, 4]


async def test_out_of_range_is_an_error_unless_a_policy_is_given(
    broker: Broker, cluster: Cluster
) -> None:
    append(broker, TPS[0], b"a", b"b")
    async with Fetcher(cluster) as strict:
        strict.add(TPS[0], 40)
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError, match="orders-0 has no offset 40") as info:
                await strict.next(TPS[0], max_wait_ms=1_000)
        assert info.value.offset == 40
        with pytest.raises(OffsetOutOfRangeError):
            await strict.next_any(max_wait_ms=1_000)
        strict.seek(TPS[0], 1)
        assert await read(strict, TPS[0], 1) == [b"b"]


async def test_out_of_range_with_a_policy_continues_at_an_end_of_the_log(
    broker: Broker, cluster: Cluster
) -> None:
    append(broker, TPS[0], b"a", b"b")
    async with Fetcher(cluster, out_of_range="earliest") as fetcher:
        fetcher.add(TPS[0], 40)
        assert await read(fetcher, TPS[0], 2) == [b"a", b"b"]
    async with Fetcher(cluster, out_of_range="latest") as fetcher:
        fetcher.add(TPS[0], 40)
        assert await fetcher.next(TPS[0], max_wait_ms=100) is None
        append(broker, TPS[0], b"c")
        assert await read(fetcher, TPS[0], 1) == [b"c"]


async def test_other_partitions_continue_after_an_error_of_one(
    broker: Broker, fetcher: Fetcher
) -> None:
    append(broker, TPS[1], b"fine")
    fetcher.assign({TPS[0]: 99, TPS[1]: 0})
    assert await read(fetcher, TPS[1], 1) == [b"fine"]
    with pytest.raises(KafkaError):
        await fetcher.next(TPS[0], max_wait_ms=1_000)


async def test_two_fetchers_of_one_cluster_do_not_wait_for_each_other(
    broker: Broker, cluster: Cluster
) -> None:
    async with Fetcher(cluster, fetch_max_wait_ms=25_000) as one, Fetcher(cluster) as two:
        one.add(TPS[0], 0)
        assert await one.next(TPS[0], max_wait_ms=30) is None
        append(broker, TPS[1], b"x")
        two.add(TPS[1], 0)
        async with asyncio.timeout(20):
            assert await read(two, TPS[1], 1) == [b"x"]


async def test_closing_leaves_neither_tasks_nor_connections(
    broker: Broker, cluster: Cluster
) -> None:
    before = asyncio.all_tasks()
    async with Fetcher(cluster) as fetcher:
        fetcher.assign(dict.fromkeys(TPS, 0))
        await fetcher.next(TPS[0], max_wait_ms=30)
    await asyncio.sleep(0.01)
    assert not [
        task
        for task in asyncio.all_tasks() - before
        if "BrokerFetcher" in repr(task) or "PositionResolver" in repr(task)
    ]
    assert not [purpose for purpose in cluster.purposes if purpose.startswith("fetch")]


@pytest.mark.parametrize(
    "options",
    [
        {"isolation": "dirty"},
        {"out_of_range": "first"},
        {"fetch_max_wait_ms": -1},
        {"max_partition_fetch_bytes": 0},
        {"max_buffered_bytes": 0.5},
    ],
)
async def test_invalid_options_are_refused(cluster: Cluster, options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        Fetcher(cluster, **options)  # type: ignore[arg-type]
