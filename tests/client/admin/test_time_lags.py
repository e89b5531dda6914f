"""Lag in time on a Kohort server in the process, and on brokers that do not respond."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from client.admin.stage import BEGINNING, commit, fill, tp
from client.fake_cluster import HANG, FakeCluster
from kohort.client.admin import time_lags
from kohort.client.admin.admin import Admin
from kohort.client.admin.first_records import (
    PARTITION_BYTES,
    PARTITIONS_PER_REQUEST,
    FirstRecord,
    first_record,
)
from kohort.client.admin.lag import PartitionLag
from kohort.client.cluster.cluster import Cluster
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.produce import Producer
from kohort.errors import KafkaError
from kohort.lag import UNKNOWN_TIME, Case, Method, TimeLag
from kohort.protocol.batch_format import HEADER_SIZE, read_header
from kohort.protocol.batch_writing import build, replace_records
from kohort.protocol.records import Record
from kohort.server.broker import Broker
from kohort.types import GroupId, Timestamp, TopicPartition

G = GroupId("billing")
NOW = BEGINNING + 3_600_000
TOPIC_AUTHORIZATION_FAILED = 29


@pytest.fixture
async def admin(cluster: Cluster) -> Admin:
    """With a topic "orders" of two partitions."""
    made = Admin(cluster)
    await made.create_topic("orders", partitions=2)
    return made


async def timed(admin: Admin, *groups: str) -> Sequence[dict[TopicPartition, PartitionLag]]:
    lags = [await admin.partition_lags(GroupId(group)) for group in groups]
    return await admin.time_lags().find(lags, NOW)


def batch(*times: int, key: bytes | None = None) -> bytes:
    return build([Record(key, b"v", timestamp=time) for time in times])


# --- the first unread record


async def test_the_lag_in_time_is_the_age_of_the_first_unread_record(
    admin: Admin, broker: Broker
) -> None:
    fill(broker, "orders", 10, 4)
    await commit(admin, G, orders_0=3, orders_1=4)
    (lags,) = await timed(admin, G)
    assert lags[tp(0)].time == TimeLag(NOW - BEGINNING - 3_000, Method.RECORD, 0)
    assert (lags[tp(0)].lag, lags[tp(0)].case) == (7, Case.OK)
    assert lags[tp(1)].time == TimeLag(0, Method.RECORD, 0)


async def test_a_record_in_the_middle_of_a_batch_has_its_own_timestamp(
    admin: Admin, broker: Broker
) -> None:
    log = broker.topics.log("orders", 0)
    assert log is not None
    log.append(batch(*(BEGINNING + number for number in range(5))), Timestamp(BEGINNING))
    await commit(admin, G, orders_0=3)
    (lags,) = await timed(admin, G)
    assert lags[tp(0)].lag_ms == NOW - BEGINNING - 3


async def test_groups_at_other_offsets_of_a_partition_have_their_own_lag(
    admin: Admin, broker: Broker
) -> None:
    fill(broker, "orders", 10)
    for number in range(4):
        await commit(admin, f"group-{number}", orders_0=number)
    found = await timed(admin, *(f"group-{number}" for number in range(4)))
    assert [lags[tp(0)].lag_ms for lags in found] == [
        NOW - BEGINNING - 1_000 * number for number in range(4)
    ]


async def test_lost_records_are_counted_and_the_age_is_that_of_the_first_that_is_left(
    admin: Admin, broker: Broker
) -> None:
    fill(broker, "orders", 10)
    await commit(admin, G, orders_0=3)
    await admin.delete_records({tp(0): 8})
    (lags,) = await timed(admin, G)
    found = lags[tp(0)]
    assert (found.lag, found.lost, found.case) == (2, 5, Case.RETENTION_PASSED)
    assert found.lag_ms == NOW - BEGINNING - 8_000


async def test_a_partition_without_a_commit_or_a_leader_has_no_lag_in_time(
    admin: Admin, broker: Broker
) -> None:
    fill(broker, "orders", 10)
    lags = await admin.partition_lags(G, [tp(0), tp(0, "never")], in_time=True)
    assert {found.time for found in lags.values()} == {UNKNOWN_TIME}
    assert (lags[tp(0)].case, lags[tp(0, "never")].case) == (Case.NO_COMMIT, None)


async def test_more_partitions_than_a_request_has_are_all_found(
    admin: Admin, broker: Broker
) -> None:
    count = PARTITIONS_PER_REQUEST + 5
    await admin.create_topic("wide", partitions=count)
    fill(broker, "wide", *([2] * count))
    await commit(admin, G, **{f"wide_{number}": 1 for number in range(count)})
    (lags,) = await timed(admin, G)
    assert {found.lag_ms for found in lags.values()} == {NOW - BEGINNING - 1_000}


async def test_batches_larger_than_their_room_are_fetched_alone(
    admin: Admin, broker: Broker
) -> None:
    await admin.create_topic("large", partitions=5)
    for partition in range(5):
        log = broker.topics.log("large", partition)
        assert log is not None
        large = Record(None, bytes(2 * PARTITION_BYTES), timestamp=BEGINNING + partition)
        log.append(build([large]), Timestamp(BEGINNING))
    await commit(admin, G, **{f"large_{number}": 0 for number in range(5)})
    (lags,) = await timed(admin, G)
    assert [lags[tp(number, "large")].lag_ms for number in range(5)] == [
        NOW - BEGINNING - number for number in range(5)
    ]


# --- markers and holes


async def test_markers_at_the_end_are_no_records(admin: Admin, cluster: Cluster) -> None:
    async with Producer(cluster, transactional_id="t") as producer:
        for value in (b"a", b"b"):
            async with producer.transaction():
                await producer.send_and_wait("orders", value, partition=0)
    await commit(admin, G, orders_0=3)
    lags = await admin.partition_lags(G)
    assert lags[tp(0)].lag == 1
    lags = await admin.partition_lags(G, in_time=True)
    assert (lags[tp(0)].lag, lags[tp(0)].case) == (0, Case.MARKERS)
    assert lags[tp(0)].time == TimeLag(0, Method.RECORD, 0)


async def test_a_lag_over_transactions_is_an_upper_bound(admin: Admin, cluster: Cluster) -> None:
    async with Producer(cluster, transactional_id="t") as producer:
        for value in (b"a", b"b"):
            async with producer.transaction():
                await producer.send_and_wait("orders", value, partition=0)
    await commit(admin, G, orders_0=0)
    lags = await admin.partition_lags(G, in_time=True)
    assert (lags[tp(0)].lag, lags[tp(0)].case) == (4, Case.UPPER_BOUND)


async def test_a_reader_of_committed_records_skips_aborted_ones_and_ends_before_open_ones(
    admin: Admin, cluster: Cluster
) -> None:
    async with Producer(cluster, transactional_id="t") as producer:
        async with producer.transaction() as transaction:
            await producer.send_and_wait("orders", b"aborted", partition=0)
            await transaction.abort()
        async with producer.transaction():
            await producer.send_and_wait("orders", b"open", partition=0)
            await commit(admin, G, orders_0=0)
            committed, all_records = [
                (await admin.partition_lags(G, isolation=isolation, in_time=True))[tp(0)]
                for isolation in ("read_committed", "read_uncommitted")
            ]
            await commit(admin, "ahead", orders_0=3)
            ahead = await admin.partition_lags(GroupId("ahead"), isolation="read_committed")
    assert (committed.lag, committed.case) == (0, Case.MARKERS)
    assert (all_records.lag, all_records.case) == (3, Case.UPPER_BOUND)
    assert (ahead[tp(0)].lag, ahead[tp(0)].case, ahead[tp(0)].beyond) == (0, Case.OK, 0)


async def test_the_lag_of_a_compacted_topic_is_an_upper_bound(admin: Admin, broker: Broker) -> None:
    await admin.create_topic("keyed", partitions=1, configs={"cleanup.policy": "compact"})
    log = broker.topics.log("keyed", 0)
    assert log is not None
    log.append(batch(BEGINNING, BEGINNING, key=b"k"), Timestamp(BEGINNING))
    await commit(admin, G, keyed_0=0)
    lags = await admin.partition_lags(G, in_time=True)
    assert (lags[tp(0, "keyed")].lag, lags[tp(0, "keyed")].case) == (2, Case.UPPER_BOUND)


def test_a_hole_before_the_next_record_is_no_lag() -> None:
    whole = batch(5, 6, 7)
    header = read_header(whole)
    without_first = replace_records(header, _records_of(whole, from_offset=2), 1, 7)
    assert first_record(without_first, 0) == FirstRecord(2, 7, 3)
    assert first_record(whole, 1) == FirstRecord(1, 6, 2)
    assert first_record(whole, 3) == FirstRecord(None, -1, 3)
    assert first_record(b"", 3) == FirstRecord(None, -1, 3)


def _records_of(content: bytes, from_offset: int) -> bytes:
    """The bytes of the records of a batch from that offset on."""
    position = HEADER_SIZE
    for _ in range(from_offset):
        position += 1 + (content[position] >> 1)  # the length is a varint of one byte
    return content[position:]


@pytest.mark.parametrize("content", [b"\xff" * 80, batch(1)[:-1] + b"\xff", batch(1)[:40]])
def test_bytes_that_are_no_batch_raise_kafkaerror_or_find_nothing(content: bytes) -> None:
    try:
        found = first_record(content, 0)
    except KafkaError:
        return
    assert found.offset in (None, 0)


# --- by ListOffsets


async def no_records(*_: Any, **__: Any) -> dict[TopicPartition, FirstRecord]:
    """What a principal without READ finds."""
    return {}


async def test_without_read_permission_listoffsets_finds_the_time_to_the_second(
    admin: Admin, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_lags, "first_records", no_records)
    fill(broker, "orders", 3_000)
    for position in (0, 1_234, 2_999):
        await commit(admin, f"group-{position}", orders_0=position)
    found = await timed(admin, "group-0", "group-1234", "group-2999")
    for lags, position in zip(found, (0, 1_234, 2_999), strict=True):
        time = lags[tp(0)].time
        assert time.method is Method.INDEX
        assert time.lag_ms is not None
        assert time.confidence_ms is not None
        expected = NOW - BEGINNING - 1_000 * position
        assert abs(time.lag_ms - expected) <= time.confidence_ms <= expected / 8


# --- brokers that do not respond


async def test_a_silent_broker_hides_only_its_own_partitions() -> None:
    """Partition 0 is led by a broker that responds to ListOffsets, partition 1 by a silent one."""
    async with FakeCluster(nodes=2, topics={"orders": 2}) as fake, Admin(fake.config()) as admin:
        fake.brokers[0].on("list_offsets", offset_for_times)
        fake.brokers[0].on("fetch", {"error_code": TOPIC_AUTHORIZATION_FAILED, "responses": []})
        for api in ("fetch", "list_offsets"):
            fake.brokers[1].on(api, lambda _: HANG)
        lags = {
            tp(number): PartitionLag(
                partition=tp(number), committed=OffsetAndMetadata(offset=5), start=0, end=10
            )
            for number in (0, 1)
        }
        async with asyncio.timeout(60):
            (found,) = await admin.time_lags(timeout_ms=1_500).find([lags], NOW)
    assert found[tp(0)].time.method is Method.INDEX
    assert found[tp(1)].time == UNKNOWN_TIME
    assert [lag.lag for lag in found.values()] == [5, 5]


def offset_for_times(request: Any) -> dict[str, Any]:
    """ListOffsets of a log whose records 0 to 9 are an hour to six minutes old, 6 minutes apart."""
    (topic,) = request.body.topics
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": one.partition_index,
                        "error_code": 0,
                        "offset": _offset_at(one.timestamp),
                        "timestamp": 0,
                    }
                    for one in topic.partitions
                ],
            }
        ]
    }


def _offset_at(timestamp: int) -> int:
    offset = max(-((NOW - 3_600_000 - timestamp) // 360_000), 0)
    return offset if offset < 10 else -1
