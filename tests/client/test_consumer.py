"""Reading chosen partitions: positions, pauses, offsets by time, commits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from client.admin.stage import fill
from kohort.client.admin.admin import Admin
from kohort.client.cluster.cluster import Cluster
from kohort.client.config import ClientConfig, StartOffset
from kohort.client.consumer import Consumer
from kohort.client.errors import (
    ClientClosedError,
    NotAssignedError,
    OffsetOutOfRangeError,
    TopicRecreatedError,
    TransactionAbortedError,
    UnsupportedVersionError,
)
from kohort.client.group_errors import CommitError
from kohort.client.net import Connection
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.produce.producer import Producer
from kohort.errors import ConfigError, KafkaError, KohortError
from kohort.server.broker import Broker
from kohort.types import GroupId, Timestamp, TopicPartition

ORDERS = [TopicPartition("orders", index) for index in range(3)]
FIRST, SECOND, _ = ORDERS


@pytest.fixture(autouse=True)
async def topic(broker: Broker, cluster: Cluster) -> None:
    """Ten records in each of three partitions, in batches of two; a millisecond apart."""
    broker.controller.topics.create("orders", 3)
    async with Producer(cluster, batch_size=1, linger_ms=0) as producer:
        for n in range(10):
            for tp in ORDERS:
                await producer.send(
                    "orders", b"%d" % n, partition=tp.partition, timestamp=1_000 + n
                )


@pytest.fixture
async def consumer(cluster: Cluster) -> AsyncIterator[Consumer]:
    async with Consumer(cluster, group_id="billing") as opened:
        yield opened


async def read(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    """Partition and offset of the next records."""
    found = []
    async with asyncio.timeout(60):
        while len(found) < count:
            record = await anext(consumer)
            found.append((record.partition, record.offset))
    return found


async def test_all_records_of_a_topic(consumer: Consumer) -> None:
    await consumer.assign_topics("orders")
    assert sorted(await read(consumer, 30)) == [(p, n) for p in range(3) for n in range(10)]
    assert [consumer.position(tp) for tp in ORDERS] == [10] * 3
    assert [consumer.lag(tp) for tp in ORDERS] == [0] * 3


async def test_positions_follow_each_record(consumer: Consumer) -> None:
    await consumer.assign({FIRST: 4})
    assert consumer.position(FIRST) == 4
    assert await read(consumer, 1) == [(0, 4)]
    assert consumer.position(FIRST) == 5
    assert consumer.lag(FIRST) == 5
    consumer.seek(FIRST, 8)
    assert consumer.position(FIRST) == 8
    assert await read(consumer, 2) == [(0, 8), (0, 9)]
    await consumer.seek_to_beginning()
    assert await read(consumer, 1) == [(0, 0)]
    await consumer.seek_to_end(FIRST)
    assert consumer.position(FIRST) == 10


async def test_records_and_batches_by_turns_lose_nothing(consumer: Consumer) -> None:
    await consumer.assign({FIRST: 0})
    found = []
    while len(found) < 10:
        found += [offset for _, offset in await read(consumer, 1)]
        batch = await consumer.next_batch(max_wait_ms=50)
        found += [record.offset for record in batch or ()]
    assert found == list(range(10))
    assert await consumer.next_batch(max_wait_ms=0) is None


async def test_records_follow_the_used_part_of_a_batch(consumer: Consumer) -> None:
    await consumer.assign({FIRST: 0})
    batch = await consumer.next_batch(max_wait_ms=5_000)
    assert batch is not None
    consumer.used(batch, 4)
    assert await read(consumer, 6) == [(0, n) for n in range(4, 10)]


async def test_a_paused_partition_hands_out_nothing_and_goes_on(consumer: Consumer) -> None:
    await consumer.assign(ORDERS[:2])
    ((paused, offset),) = await read(consumer, 1)
    tp = ORDERS[paused]
    consumer.pause(tp)
    assert consumer.paused() == {tp}
    assert {partition for partition, _ in await read(consumer, 10)} == {1 - paused}
    consumer.resume(tp)
    assert await read(consumer, 9) == [(paused, n) for n in range(offset + 1, 10)]


async def test_a_new_assignment_keeps_positions(consumer: Consumer) -> None:
    await consumer.assign([FIRST])
    await read(consumer, 3)
    await consumer.assign([FIRST, SECOND])
    assert (consumer.position(FIRST), consumer.position(SECOND)) == (3, 0)
    await consumer.assign([SECOND])
    assert consumer.assignment == {SECOND}
    assert await read(consumer, 1) == [(1, 0)]
    with pytest.raises(NotAssignedError):
        consumer.position(FIRST)


async def test_the_last_of_concurrent_assignments_is_read(consumer: Consumer) -> None:
    await asyncio.gather(consumer.assign([FIRST]), consumer.assign([SECOND]))
    assert consumer.assignment == {SECOND}
    await asyncio.gather(
        consumer.assign([]), consumer.assign([FIRST]), consumer.assign({SECOND: 4})
    )
    assert consumer.assignment == {SECOND}
    assert await read(consumer, 1) == [(1, 4)]


@pytest.mark.filterwarnings("error::RuntimeWarning")  # "coroutine … was never awaited"
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("turns", range(12))
async def test_a_cancelled_assignment_changes_nothing_and_leaves_nothing(
    consumer: Consumer, turns: int
) -> None:
    """Wherever it waits, also before the first request begins."""
    await consumer.assign([SECOND])
    removing = asyncio.create_task(consumer.assign([FIRST]))
    for _ in range(turns):
        await asyncio.sleep(0)
    removing.cancel()
    await asyncio.wait([removing])
    assert consumer.assignment == ({SECOND} if removing.cancelled() else {FIRST})
    await consumer.assign([FIRST, SECOND])
    assert consumer.assignment == {FIRST, SECOND}


async def test_an_assignment_that_fails_changes_nothing(consumer: Consumer) -> None:
    await consumer.assign([FIRST])
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        await consumer.assign_topics("orders", "nowhere")
    assert consumer.assignment == {FIRST}


async def test_offsets_by_time(consumer: Consumer) -> None:
    assert await consumer.beginning_offsets(ORDERS) == dict.fromkeys(ORDERS, 0)
    assert await consumer.end_offsets(ORDERS) == dict.fromkeys(ORDERS, 10)
    found = await consumer.offsets_for_times({FIRST: 1_004, SECOND: 5_000})
    assert found[FIRST] is not None
    assert found[FIRST].offset == 4
    assert found[SECOND] is None
    with pytest.raises(ValueError, match="time -1"):
        await consumer.offsets_for_times({FIRST: -1})


async def test_a_consumer_starts_at_the_committed_offsets_of_its_group(
    cluster: Cluster, consumer: Consumer
) -> None:
    await consumer.assign([FIRST, SECOND])
    await consumer.commit({FIRST: 3, SECOND: OffsetAndMetadata(offset=7, metadata="m")})
    found = await consumer.committed(ORDERS)
    assert [each and each.offset for each in found.values()] == [3, 7, None]
    async with Consumer(cluster, group_id="billing", start_offset="last") as other:
        await other.assign_topics("orders")
        assert [other.position(tp) for tp in ORDERS] == [3, 7, 10]


@pytest.mark.parametrize(
    ("start", "position"), [("first", 0), ("earliest", 0), ("last", 10), (1_004, 4), (2_000, 10)]
)
async def test_a_consumer_without_a_committed_offset_starts_at_start_offset(
    cluster: Cluster, start: StartOffset, position: int
) -> None:
    async with (
        Consumer(cluster, start_offset=start) as one,
        Consumer(cluster, auto_offset_reset=start) as other,
    ):
        for consumer in (one, other):
            await consumer.assign([FIRST])
            assert consumer.position(FIRST) == position


async def test_a_commit_covers_what_was_handed_out(consumer: Consumer) -> None:
    await consumer.assign([FIRST])
    await read(consumer, 4)
    await consumer.commit()
    found = await consumer.committed([FIRST])
    assert found[FIRST] == OffsetAndMetadata(offset=4, leader_epoch=0)


@pytest.mark.parametrize("offset", [0, 2, 8])
async def test_a_commit_covers_the_offset_that_a_read_partition_is_assigned_with(
    consumer: Consumer, offset: int
) -> None:
    await consumer.assign([FIRST, SECOND])
    await read(consumer, 4)
    await consumer.commit()
    await read(consumer, 1)
    await consumer.assign({FIRST: offset, SECOND: offset})
    await consumer.commit()
    found = await consumer.committed([FIRST, SECOND])
    assert found == dict.fromkeys([FIRST, SECOND], OffsetAndMetadata(offset=offset))


async def test_a_new_partition_is_not_committed_before_it_is_read(consumer: Consumer) -> None:
    await consumer.assign({FIRST: 2})
    await consumer.commit()
    assert await consumer.committed([FIRST]) == {FIRST: None}
    await read(consumer, 1)
    await consumer.commit()
    found = await consumer.committed([FIRST])
    assert found == {FIRST: OffsetAndMetadata(offset=3, leader_epoch=0)}


async def test_commits_by_itself_leave_out_what_is_in_work(cluster: Cluster) -> None:
    settings: dict[str, Any] = {"group_id": "auto", "enable_auto_commit": True}
    async with Consumer(cluster, auto_commit_interval_ms=50, **settings) as consumer:
        await consumer.assign([FIRST])
        await read(consumer, 4)
        await asyncio.sleep(0.2)
        found = await consumer.committed([FIRST])
        assert found[FIRST] is not None
        assert found[FIRST].offset == 3
        await read(consumer, 2)
    async with Consumer(cluster, **settings) as consumer:
        await consumer.assign([FIRST])
        assert consumer.position(FIRST) == 5
        await read(consumer, 5)
        await consumer.assign([SECOND])
        found = await consumer.committed([FIRST])
        assert found[FIRST] is not None
        assert found[FIRST].offset == 9


async def test_commits_that_are_refused(consumer: Consumer, cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="offset -7"):
        await consumer.commit({FIRST: -7})
    with pytest.raises(CommitError, match="nowhere-0: UNKNOWN_TOPIC"):
        await consumer.commit({TopicPartition("nowhere", 0): 1, FIRST: 2})
    found = await Admin(cluster).committed([GroupId("billing")])
    assert found[GroupId("billing")] == {FIRST: OffsetAndMetadata(offset=2)}


@pytest.mark.parametrize("how", ["by itself", "explicitly", "with offsets"])
async def test_a_recreated_topic_keeps_its_first_records(
    cluster: Cluster, broker: Broker, how: str
) -> None:
    """Offsets of the old topic are not committed for the new one, which begins anew."""
    admin, is_automatic = Admin(cluster), how == "by itself"
    async with Consumer(
        cluster, group_id="billing", enable_auto_commit=is_automatic, auto_commit_interval_ms=50
    ) as consumer:
        await consumer.assign([FIRST])
        await read(consumer, 4)
        await admin.delete_topic("orders")
        await admin.create_topic("orders", partitions=2)
        fill(broker, "orders", 10, 10)
        if is_automatic:
            await asyncio.sleep(0.2)
        else:
            with pytest.raises(CommitError, match="orders-0: UNKNOWN_TOPIC_ID"):
                await consumer.commit(None if how == "explicitly" else {FIRST: 4})
        assert await consumer.committed([FIRST]) == {FIRST: None}
        with pytest.raises(TopicRecreatedError):
            await read(consumer, 20)
        await consumer.commit()  # nothing of the old topic is left to commit
        await consumer.assign(())
        await consumer.assign([FIRST])
        assert await read(consumer, 5) == [(0, offset) for offset in range(5)]
        await consumer.commit()
        found = await consumer.committed([FIRST])
        assert found[FIRST] == OffsetAndMetadata(offset=5, leader_epoch=0)


async def test_a_recreated_topic_keeps_its_first_records_beside_one_of_unknown_id(
    cluster: Cluster, broker: Broker
) -> None:
    """Not even in a commit with a partition whose topic was not read."""
    admin, other = Admin(cluster), TopicPartition("other", 0)
    await admin.create_topic("other", partitions=1)
    async with Consumer(cluster, group_id="billing", enable_auto_commit=False) as consumer:
        await consumer.assign([FIRST])
        await read(consumer, 4)
        await admin.delete_topic("orders")
        await admin.create_topic("orders", partitions=2)
        with pytest.raises(CommitError, match="orders-0: UNKNOWN_TOPIC_ID"):
            await consumer.commit({FIRST: 4, other: 7})
        found = await consumer.committed([FIRST, other])
        assert found == {FIRST: None, other: OffsetAndMetadata(offset=7)}


async def test_a_commit_behind_another_one_while_the_recreated_topic_is_assigned(
    cluster: Cluster, broker: Broker
) -> None:
    admin = Admin(cluster)
    async with Consumer(cluster, group_id="billing", enable_auto_commit=False) as consumer:
        await consumer.assign([FIRST])
        await read(consumer, 4)
        async with consumer._committer._order:
            commit = asyncio.create_task(consumer.commit({FIRST: 4}))
            await admin.delete_topic("orders")
            await admin.create_topic("orders", partitions=2)
            fill(broker, "orders", 10, 10)
            await consumer.assign(())
            await consumer.assign([FIRST])
            await read(consumer, 1)
        with pytest.raises(CommitError, match="orders-0: UNKNOWN_TOPIC_ID"):
            await commit
        assert await consumer.committed([FIRST]) == {FIRST: None}


async def test_no_offset_and_none_to_take_instead(cluster: Cluster) -> None:
    async with Consumer(cluster, start_offset="none") as consumer:
        with pytest.raises(ConfigError, match="orders-0 has no committed offset"):
            await consumer.assign([FIRST])
        await consumer.assign({FIRST: 99})
        with pytest.raises(OffsetOutOfRangeError):
            await anext(consumer)
        consumer.seek(FIRST, 9)
        assert await read(consumer, 1) == [(0, 9)]


async def test_a_consumer_without_partitions_can_neither_read_nor_seek(consumer: Consumer) -> None:
    with pytest.raises(NotAssignedError, match="assign some first"):
        await anext(consumer)
    with pytest.raises(NotAssignedError):
        consumer.seek(FIRST, 0)


async def test_invalid_partitions_and_offsets_are_refused(consumer: Consumer) -> None:
    await consumer.assign({FIRST: 3})
    for wrong in ("orders", [("orders", 0)], [TopicPartition("orders", "0")], {"orders": 0}):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a TopicPartition expected"):
            await consumer.assign(wrong)  # type: ignore[arg-type]
    for number in (-1, "5", 1.5, None, True, 2**63):
        with pytest.raises(ValueError, match=r"orders-0: .*offset"):
            await consumer.assign({FIRST: number})  # type: ignore[dict-item]
        with pytest.raises(ValueError, match=r"orders-0: .*offset"):
            consumer.seek(FIRST, number)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="orders-0: time"):
            await consumer.offsets_for_times({FIRST: number})  # type: ignore[dict-item]
    for call in (consumer.end_offsets, consumer.beginning_offsets, consumer.committed):
        with pytest.raises(TypeError, match="a TopicPartition expected"):
            await call("orders")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a TopicPartition expected"):
        await consumer.commit({"orders": 1})  # type: ignore[dict-item]
    assert consumer.position(FIRST) == 3


async def test_an_offset_is_committed_though_the_consumer_committed_it_before(
    cluster: Cluster, consumer: Consumer
) -> None:
    await consumer.commit({FIRST: 5})
    await Admin(cluster).delete_offsets(GroupId("billing"), [FIRST])
    await consumer.commit({FIRST: 5})
    assert (await consumer.committed([FIRST]))[FIRST] == OffsetAndMetadata(offset=5)


async def test_a_second_reader_is_refused(consumer: Consumer) -> None:
    await consumer.assign({FIRST: 10})
    first = asyncio.create_task(anext(consumer))
    await asyncio.sleep(0)
    for call in (anext(consumer), consumer.next_batch(max_wait_ms=10)):
        with pytest.raises(KohortError, match="another task already reads"):
            await call
    consumer.seek(FIRST, 9)
    assert (await first).offset == 9


@pytest.mark.parametrize("closes", [True, False])
async def test_waiting_for_a_record_ends_with_the_assignment(
    cluster: Cluster, closes: bool
) -> None:
    consumer = Consumer(cluster)
    await consumer.assign({FIRST: 10})
    waits = asyncio.create_task(anext(consumer))
    await asyncio.sleep(0)
    await (consumer.close() if closes else consumer.assign([]))
    async with asyncio.timeout(60):
        with pytest.raises(ClientClosedError if closes else NotAssignedError):
            await waits
    await consumer.close()


async def test_a_closed_consumer_says_so(cluster: Cluster) -> None:
    consumer = Consumer(cluster, group_id="billing", enable_auto_commit=True)
    await consumer.assign([FIRST])
    before = asyncio.all_tasks()
    await consumer.close()
    for call in (anext(consumer), consumer.next_batch(max_wait_ms=1), consumer.assign([FIRST])):
        with pytest.raises(ClientClosedError):
            await call
    assert asyncio.all_tasks() <= before


@pytest.mark.parametrize("turns", range(1, 12))
async def test_closing_that_is_cancelled_ends_all_the_same(
    config: ClientConfig, turns: int
) -> None:
    consumer = Consumer(config)
    await consumer.assign({FIRST: 10})
    closing = asyncio.create_task(consumer.close())
    for _ in range(turns):
        await asyncio.sleep(0)
    while not closing.done():
        closing.cancel()
        await asyncio.sleep(0)
    assert consumer.cluster.purposes == frozenset()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"enable_auto_commit": True}, "needs a group_id"),
        ({"group_id": ""}, "group_id is empty"),
        ({"group_id": 5}, "group_id is 5"),
        ({"start_offset": "error"}, "start_offset .*'error' is not first, last, none, "),
        ({"start_offset": "first", "auto_offset_reset": "latest"}, "are one option"),
        ({"group_id": "g", "enable_auto_commit": "false"}, "enable_auto_commit is 'false'"),
        ({"client_rack": None}, "client_rack"),
        ({"auto_commit_interval_ms": 0}, "auto_commit_interval_ms"),
        ({"isolation_level": "serializable"}, "isolation_level .* read_committed"),
        ({"fetch_min_bytes": 0}, "fetch_min_bytes"),
    ],
)
async def test_values_that_are_refused(
    config: ClientConfig, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        Consumer(config, **options)


async def test_a_consumer_closes_the_cluster_that_it_opened(config: ClientConfig) -> None:
    async with Consumer(config) as consumer:
        await consumer.assign([FIRST])
        await read(consumer, 1)
    assert consumer.cluster.purposes == frozenset()
    await consumer.close()


# --- to an end


async def read_to(consumer: Consumer, ends: dict[TopicPartition, int]) -> list[tuple[int, int]]:
    async with asyncio.timeout(60):
        return [(each.partition, each.offset) async for each in consumer.read_to(ends)]


async def test_reading_to_an_end_leaves_what_is_behind_it(consumer: Consumer) -> None:
    await consumer.assign(dict.fromkeys(ORDERS, 0))
    assert sorted(await read_to(consumer, {FIRST: 3, SECOND: 10})) == [
        *((0, n) for n in range(3)),
        *((1, n) for n in range(10)),
    ]
    assert [consumer.position(tp) for tp in ORDERS] == [3, 10, 0]
    assert await read_to(consumer, {FIRST: 3, SECOND: 10}) == []
    assert await read_to(consumer, {FIRST: 2}) == []
    assert consumer.position(FIRST) == 3
    await consumer.commit()
    committed = await consumer.committed(ORDERS)
    assert {tp: each and each.offset for tp, each in committed.items()} == {
        FIRST: 3,
        SECOND: 10,
        ORDERS[2]: None,
    }
    assert sorted(await read(consumer, 17)) == sorted(
        [*((0, n) for n in range(3, 10)), *((2, n) for n in range(10))]
    )
    with pytest.raises(NotAssignedError):
        consumer.read_to({TopicPartition("orders", 9): 1})
    with pytest.raises(ValueError, match="-1"):
        consumer.read_to({FIRST: -1})


async def test_reading_to_an_end_after_a_part_of_a_batch(consumer: Consumer) -> None:
    await consumer.assign({FIRST: 0, SECOND: 0})
    ((partition, _),) = await read(consumer, 1)
    other = TopicPartition("orders", 1 - partition)
    assert await read_to(consumer, {other: 1}) == [(other.partition, 0)]
    assert await read_to(consumer, {ORDERS[partition]: 5}) == [(partition, n) for n in range(1, 5)]


@pytest.mark.parametrize("protocol", [1, 2], ids="transactions of version {}".format)
async def test_a_transaction_commits_the_offsets_of_a_consumer(
    cluster: Cluster, consumer: Consumer, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    """Not those of a topic that was deleted, though another one has its name by now."""
    if protocol == 1:
        monkeypatch.setattr(Connection, "feature", lambda _self, _name: 0)
    admin = Admin(cluster)
    await consumer.assign([FIRST])
    await read(consumer, 4)
    async with Producer(cluster, transactional_id="totals") as producer:
        async with producer.transaction() as transaction:
            await transaction.commit_offsets({FIRST: 4}, consumer)
        found = await consumer.committed([FIRST])
        assert found == {FIRST: OffsetAndMetadata(offset=4)}
        await admin.delete_topic("orders")
        await admin.create_topic("orders", partitions=2)
        await consumer.assign([FIRST, SECOND])
        for offsets in ({FIRST: 4}, {SECOND: 1, FIRST: 4}):
            with pytest.raises(TransactionAbortedError) as aborted:
                async with producer.transaction() as transaction:
                    await transaction.commit_offsets(offsets, consumer)
            assert isinstance(aborted.value.__cause__, TopicRecreatedError)
        async with producer.transaction() as transaction:
            await transaction.commit_offsets({SECOND: 1}, consumer)
        found = await consumer.committed([FIRST, SECOND])
        assert found == {FIRST: None, SECOND: OffsetAndMetadata(offset=1)}


async def test_a_commit_goes_back_behind_a_transaction(
    cluster: Cluster, consumer: Consumer
) -> None:
    await consumer.assign([FIRST])
    await read(consumer, 3)
    await consumer.commit()
    async with (
        Producer(cluster, transactional_id="totals") as producer,
        producer.transaction() as transaction,
    ):
        await transaction.commit_offsets({FIRST: 9}, consumer)
    await consumer.commit()
    found = (await consumer.committed([FIRST]))[FIRST]
    assert found is not None
    assert found.offset == 3


async def test_a_consumer_without_group_commits_no_offsets(cluster: Cluster) -> None:
    async with (
        Consumer(cluster) as consumer,
        Producer(cluster, transactional_id="totals") as producer,
        producer.transaction() as transaction,
    ):
        with pytest.raises(ConfigError, match="no group_id to commit for"):
            await transaction.commit_offsets({FIRST: 1}, consumer)
        await transaction.abort()


@pytest.mark.parametrize("how", ["cancelled", "without response"])
async def test_a_commit_goes_back_behind_one_whose_outcome_is_not_known(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """What was committed last is then not what the consumer knows."""
    await consumer.assign({FIRST: 0})
    await read(consumer, 3)
    await consumer.commit()
    await read(consumer, 2)
    send = Connection.send

    async def lost(connection: Connection, api: str, /, **fields: Any) -> Any:
        response = await send(connection, api, **fields)
        if api == "offset_commit":
            raise asyncio.CancelledError if how == "cancelled" else UnsupportedVersionError("lost")
        return response

    monkeypatch.setattr(Connection, "send", lost)
    with pytest.raises((asyncio.CancelledError, UnsupportedVersionError)):
        await consumer.commit()
    monkeypatch.undo()
    consumer.seek(FIRST, 2)
    await read(consumer, 1)
    await consumer.commit()
    found = await consumer.committed([FIRST])
    assert found == {FIRST: OffsetAndMetadata(offset=3, leader_epoch=found[FIRST].leader_epoch)}


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("ending", ["marker", "aborted", "two markers", "open"])
async def test_reading_to_the_end_of_transactions(
    cluster: Cluster, isolation: Any, ending: str
) -> None:
    async with (
        Producer(cluster, transactional_id="t") as producer,
        Consumer(cluster, isolation_level=isolation) as consumer,
    ):
        if ending in ("marker", "two markers"):
            async with producer.transaction():
                await producer.send("orders", b"in a transaction", partition=0)
        if ending in ("aborted", "two markers", "open"):
            with suppress(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send("orders", b"to be aborted", partition=0)
                    await producer.flush()
                    if ending == "open":
                        await consumer.assign({FIRST: 0})
                        ends = await consumer.end_offsets([FIRST])
                        expected = 10 if isolation == "read_committed" else 11
                        assert len(await read_to(consumer, ends)) == expected == ends[FIRST]
                    raise ZeroDivisionError
        await consumer.assign({FIRST: 0})
        ends = await consumer.end_offsets([FIRST])
        found = [offset for _, offset in await read_to(consumer, ends)]
        assert consumer.position(FIRST) == ends[FIRST] > found[-1] + 1
        assert consumer.lag(FIRST) == 0


async def test_reading_to_an_end_over_which_a_reset_moves(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with Consumer(cluster, auto_offset_reset="latest") as consumer:  # Kafka's name
        await consumer.assign({FIRST: 100})
        assert await read_to(consumer, {FIRST: 10}) == []
        await consumer.assign({FIRST: 0})
        await Admin(cluster).delete_records({FIRST: 5})
        assert await read_to(consumer, {FIRST: 10}) == []
        assert consumer.position(FIRST) == 10
    assert "orders-0 has no offset 0" in caplog.text
    assert "continuing at the end of the log: records before it are skipped" in caplog.text
    assert "out_of_range" not in caplog.text, "an option of the fetcher, which users do not have"


async def test_waits_with_an_end_that_are_cancelled_lose_nothing(consumer: Consumer) -> None:
    await consumer.assign({FIRST: 0})
    random, found = Random(0), []
    async with asyncio.timeout(60):
        while consumer.position(FIRST) < 10:
            waiting = asyncio.ensure_future(anext(consumer.read_to({FIRST: 10}), None))
            for _ in range(random.randint(0, 20)):
                await asyncio.sleep(0)
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                record = await waiting
                found += [] if record is None else [record.offset]
    assert found == list(range(10))


async def test_reading_to_ends_whose_records_were_compacted(
    broker: Broker, cluster: Cluster
) -> None:
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "0",
    }
    await Admin(cluster).create_topic("latest", partitions=1, configs=configs)
    tp = TopicPartition("latest", 0)
    async with Producer(cluster, batch_size=1, linger_ms=0) as producer:
        for n in range(100):
            await producer.send_and_wait("latest", bytes(30_000), key=b"%d" % (n % 2), partition=0)
    log = broker.topics.log("latest", 0)
    assert log is not None
    while await log.compact(Timestamp(1 << 60)):
        pass
    async with Consumer(cluster) as consumer:
        await consumer.assign({tp: 0})
        everything = [offset for _, offset in await read_to(consumer, {tp: 100})]
        assert len(everything) < 60, "most were compacted"
        assert consumer.position(tp) == 100
        for end in range(0, 101, 7):
            consumer.seek(tp, 0)
            found = [offset for _, offset in await read_to(consumer, {tp: end})]
            assert found == [each for each in everything if each < end]
            assert consumer.position(tp) >= end
