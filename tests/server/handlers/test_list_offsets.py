"""ListOffsets v1-11 and OffsetForLeaderEpoch v2-4."""

import asyncio
from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.protocol.batch_format import HEADER_SIZE
from kohort.protocol.batch_writing import recompress
from kohort.protocol.batches import (
    TRANSACTIONAL,
    Codec,
    Record,
    build,
    encode_run,
    head,
    key_head,
    read_header,
)
from server.faulty_logs import EVERY_PARTITION, IO_ERROR
from server.handlers.bench import HandlerBench
from turns import BOUND_MS, longest_turn_ms

NOTHING = (ErrorCode.none, -1, -1, -1)


async def ask(
    bench: HandlerBench,
    *partitions: tuple[int, int],
    topic: str = "orders",
    version: int = 11,
    isolation_level: int = 0,
    **more: Any,
) -> Any:
    asked = [
        {"partition_index": index, "timestamp": timestamp} | more for index, timestamp in partitions
    ]
    response = await bench.ask(
        "list_offsets",
        version,
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[{"name": topic, "partitions": asked}],
    )
    return response.topics


async def find(
    bench: HandlerBench, timestamp: int, *, partition: int = 0, **more: Any
) -> tuple[ErrorCode, int, int, int]:
    """(error, timestamp, offset, leader epoch)"""
    ((found,),) = [each.partitions for each in await ask(bench, (partition, timestamp), **more)]
    assert found.partition_index == partition
    return found.error_code, found.timestamp, found.offset, getattr(found, "leader_epoch", 0)


@pytest.fixture
def filled(bench: HandlerBench, topic: str) -> HandlerBench:
    """Offsets 0-11 in four batches whose first timestamps are 1000, 2000, 3000 and 2500, then 10
    and 20 ms later.
    """
    log = bench.topics.log(topic, 0)
    assert log is not None
    for first in (1000, 2000, 3000, 2500):
        records = [Record(None, b"x", (), first + delta) for delta in (0, 10, 20)]
        log.append(build(records), bench.clock.now())
    return bench


async def test_a_stored_record_is_found_that_is_larger_than_allowed_now(
    bench: HandlerBench, topic: str
) -> None:
    """Apache Kafka 4.4 responds INVALID_RECORD."""
    log = bench.topics.log(topic, 0)
    assert log is not None
    plain = build([Record(None, b"x" * 5_000, (), 1_000), Record(None, b"x", (), 2_000)])
    header = read_header(plain)
    log.append(recompress(header, plain[HEADER_SIZE:], Codec.GZIP), bench.clock.now())
    limit = {"name": "max.decompressed.message.bytes", "value": "1000", "config_operation": 0}
    altered = {"resource_type": 2, "resource_name": topic, "configs": [limit]}
    response = await bench.ask("incremental_alter_configs", 1, resources=[altered])
    assert response.responses[0].error_code is ErrorCode.none
    assert log.config.max_decompressed_bytes == 1_000
    for timestamp, offset, found in ((500, 0, 1_000), (1_500, 1, 2_000), (-3, 1, 2_000)):
        assert await find(bench, timestamp) == (ErrorCode.none, found, offset, 0)


@pytest.mark.parametrize("version", range(2, 12))
async def test_readers_of_committed_records(filled: HandlerBench, version: int) -> None:
    log = filled.topics.log("orders", 0)
    assert log is not None
    record = Record(None, b"x", (), 9_000)
    open_one = build([record], producer_id=1, producer_epoch=0, attributes=TRANSACTIONAL)
    now = filled.clock.timestamp()
    log.append(open_one, now, verified=log.begin_verification(1, 0, -1, now, tv2=False))
    for timestamp, offset, of in ((-1, 13, -1), (9_000, 12, 9_000), (-3, 12, 9_000)):
        if timestamp != -3 or version >= 7:
            found = await find(filled, timestamp, version=version)
            assert found[:3] == (ErrorCode.none, of, offset)
    committed = {"version": version, "isolation_level": 1}
    assert (await find(filled, -1, **committed))[2] == 12
    assert (await find(filled, 9_000, **committed))[:3] == NOTHING[:3]
    assert (await find(filled, 2_500, **committed))[2] == 6
    if version >= 7:
        assert (await find(filled, -3, **committed))[:3] == NOTHING[:3]
    log.append_marker(
        1, 0, commit=True, coordinator_epoch=0, transaction_version=1, timestamp=9_001
    )
    assert (await find(filled, -1, **committed))[2] == 14
    assert (await find(filled, 9_000, **committed))[2] == 12


@pytest.mark.parametrize("version", range(1, 12))
async def test_the_first_and_last_offset_are_listed(filled: HandlerBench, version: int) -> None:
    assert await find(filled, -1, version=version) == (ErrorCode.none, -1, 12, 0)
    assert await find(filled, -2, version=version) == (ErrorCode.none, -1, 0, 0)
    filled.topics.log("orders", 0).trim(4)  # type: ignore[union-attr]
    assert await find(filled, -2, version=version) == (ErrorCode.none, -1, 4, 0)


@pytest.mark.parametrize("version", range(1, 12))
async def test_offsets_are_looked_up_by_timestamp(filled: HandlerBench, version: int) -> None:
    for asked, timestamp, offset in (
        (0, 1000, 0),
        (1000, 1000, 0),
        (1005, 1010, 1),
        (1011, 1020, 2),
        (2001, 2010, 4),
        (2510, 3000, 6),
        (3020, 3020, 8),
    ):
        assert await find(filled, asked, version=version) == (ErrorCode.none, timestamp, offset, 0)
    error, timestamp, offset, _ = await find(filled, 3021, version=version)
    assert (error, timestamp, offset) == (ErrorCode.none, -1, -1)


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize(
    ("name", "since", "found"),
    [
        (-3, 7, (ErrorCode.none, 3020, 8, 0)),
        (-4, 8, (ErrorCode.none, -1, 0, 0)),
        (-5, 9, NOTHING),
        (-6, 11, NOTHING),
        (-7, 99, None),
        (-100, 99, None),
    ],
)
async def test_names_since_a_version(
    filled: HandlerBench, version: int, name: int, since: int, found: Any
) -> None:
    if version >= since:
        assert await find(filled, name, version=version) == found
    else:
        error, timestamp, offset, _ = await find(filled, name, version=version)
        assert (error, timestamp, offset) == (ErrorCode.unsupported_version, -1, -1)


async def test_an_empty_log(bench: HandlerBench, topic: str) -> None:
    for name in (-1, -2, -4):
        assert await find(bench, name) == (ErrorCode.none, -1, 0, 0)
    for name in (-3, -5, -6, 0):
        assert await find(bench, name) == NOTHING


async def test_offsets_of_an_unknown_partition_are_an_error(
    bench: HandlerBench, topic: str
) -> None:
    unknown = (ErrorCode.unknown_topic_or_partition, -1, -1, -1)
    assert await find(bench, -1, topic="nope") == unknown
    assert await find(bench, -1, partition=3) == unknown
    assert await find(bench, -1, partition=-1) == unknown


async def test_listing_with_a_newer_leader_epoch_is_an_error(filled: HandlerBench) -> None:
    assert (await find(filled, -1, current_leader_epoch=1))[0] is ErrorCode.unknown_leader_epoch
    assert await find(filled, -1, current_leader_epoch=0) == (ErrorCode.none, -1, 12, 0)
    assert await find(filled, -1, version=4, current_leader_epoch=-1) == (ErrorCode.none, -1, 12, 0)


@pytest.mark.parametrize("version", [1, 11])
async def test_a_partition_twice_is_refused_once(filled: HandlerBench, version: int) -> None:
    (topic,) = await ask(filled, (0, -1), (0, -2), (1, -1), version=version)
    assert [
        (partition.partition_index, partition.error_code) for partition in topic.partitions
    ] == [
        (0, ErrorCode.invalid_request),
        (1, ErrorCode.none),
    ]


async def test_a_topic_twice_is_answered_once(filled: HandlerBench) -> None:
    asked = [
        {"name": "orders", "partitions": [{"partition_index": index, "timestamp": -1}]}
        for index in (0, 1)
    ]
    response = await filled.ask("list_offsets", 11, replica_id=-1, topics=asked)
    ((topic),) = response.topics
    assert [(partition.partition_index, partition.offset) for partition in topic.partitions] == [
        (0, 12),
        (1, 0),
    ]


async def test_a_storage_that_fails(filled: HandlerBench) -> None:
    filled.directory.fail("offset_for_timestamp", EVERY_PARTITION, IO_ERROR)
    assert await find(filled, 5) == (ErrorCode.kafka_storage_error, -1, -1, -1)


class TestOffsetForLeaderEpoch:
    async def end(
        self,
        bench: HandlerBench,
        epoch: int,
        current: int = -1,
        *,
        topic: str = "orders",
        partition: int = 0,
        version: int = 4,
    ) -> tuple[ErrorCode, int, int]:
        asked = {"partition": partition, "leader_epoch": epoch, "current_leader_epoch": current}
        topics = [{"topic": topic, "partitions": [asked]}]
        response = await bench.ask("offset_for_leader_epoch", version, topics=topics, replica_id=-1)
        ((found,),) = [each.partitions for each in response.topics]
        assert (response.topics[0].topic, found.partition) == (topic, partition)
        return found.error_code, found.leader_epoch, found.end_offset

    @pytest.mark.parametrize("version", [2, 3, 4])
    async def test_the_one_epoch_ends_where_the_log_does(
        self, filled: HandlerBench, version: int
    ) -> None:
        assert await self.end(filled, 0, version=version) == (ErrorCode.none, 0, 12)
        assert await self.end(filled, 0, 0, version=version) == (ErrorCode.none, 0, 12)
        assert await self.end(filled, 0, partition=1, version=version) == (ErrorCode.none, 0, 0)

    async def test_other_epochs_never_were(self, filled: HandlerBench) -> None:
        for epoch in (-1, 1, 5):
            assert await self.end(filled, epoch) == (ErrorCode.none, -1, -1)

    async def test_an_unknown_partition_or_leader_epoch_is_an_error(
        self, filled: HandlerBench
    ) -> None:
        unknown = (ErrorCode.unknown_topic_or_partition, -1, -1)
        assert await self.end(filled, 0, topic="nope") == unknown
        assert await self.end(filled, 0, partition=9) == unknown
        assert await self.end(filled, 0, 1) == (ErrorCode.unknown_leader_epoch, -1, -1)


class TestTurns:
    """Lookups that no index answers."""

    @pytest.fixture
    def behind_the_largest(self, bench: HandlerBench, topic: str) -> HandlerBench:
        """The record with the largest timestamp, and a start offset behind it."""
        log = bench.topics.log(topic, 0)
        assert log is not None
        log.append(build([Record(None, b"x", (), 10_000)]), bench.clock.now())
        one = build([Record(None, b"x", (), 5_000)])
        for _ in range(50_000):
            log.append(one, bench.clock.now())
        log.append(build([Record(None, b"x", (), 6_000)]), bench.clock.now())
        log.append(one, bench.clock.now())
        log.trim(5)
        return bench

    @pytest.mark.parametrize(("timestamp", "offset"), [(-3, 50_001), (7_000, -1), (6_000, 50_001)])
    async def test_a_lookup_through_a_whole_segment_takes_bounded_turns(
        self, behind_the_largest: HandlerBench, timestamp: int, offset: int
    ) -> None:
        await find(behind_the_largest, -2)  # what is imported once does not count
        worst, (_, _, found, _) = await longest_turn_ms(find(behind_the_largest, timestamp))
        print(f"{worst:.0f} ms")
        assert found == offset
        assert worst < BOUND_MS

    async def test_a_batch_of_very_many_records(self, bench: HandlerBench, topic: str) -> None:
        log = bench.topics.log(topic, 0)
        assert log is not None
        count = 200_000
        content = encode_run(key_head(b"key"), range(count), [b"v"] * count, 0)
        plain = head(0, -1, content, count, 5_000)
        log.append(recompress(read_header(plain), content, Codec.ZSTD), bench.clock.now())
        log.trim(count - 1)
        await find(bench, -2)
        worst, (_, time, found, _) = await longest_turn_ms(find(bench, -3))
        print(f"{worst:.0f} ms")
        assert (time, found) == (5_000, count - 1)
        assert worst < BOUND_MS

    async def test_a_log_that_changes_meanwhile(self, behind_the_largest: HandlerBench) -> None:
        log = behind_the_largest.topics.log("orders", 0)
        assert log is not None
        finding = asyncio.ensure_future(find(behind_the_largest, -3))
        await asyncio.sleep(0)
        log.trim(50_002)
        assert await finding == (ErrorCode.none, 5_000, 50_002, 0)
        finding = asyncio.ensure_future(find(behind_the_largest, 7_000))
        await asyncio.sleep(0)
        log.end(ErrorCode.unknown_topic_or_partition)  # type: ignore[attr-defined]
        assert (await finding)[0] is ErrorCode.unknown_topic_or_partition
