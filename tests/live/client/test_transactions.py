"""Transactions of the client in real time, on Kohort and on Apache Kafka."""

import asyncio
import signal
from uuid import uuid4

import pytest

from kohort.client import (
    ClientConfig,
    Consumer,
    ConsumerGroup,
    DeliveryTimeoutError,
    End,
    GroupMetadata,
    KohortError,
    Producer,
    ProducerFencedError,
    TopicPartition,
    TopicRecreatedError,
    TransactionAbortedError,
    TransactionError,
    TransactionOutcome,
)
from kohort.client.sync import Consumer as SyncConsumer
from kohort.client.sync import ConsumerGroup as SyncGroup
from kohort.client.sync import Producer as SyncProducer
from live.client.brokers import Site

QUICK = {"heartbeat_interval_ms": 100, "session_timeout_ms": 6_000}
IN_AND_OUT = 3


@pytest.fixture
def config(site: Site) -> ClientConfig:
    return ClientConfig(bootstrap=site.address, retry_backoff_ms=20)


@pytest.fixture
async def topic(site: Site) -> str:
    """A new one with three partitions."""
    name = f"tx-{uuid4().hex}"
    await site.administer(lambda admin: admin.create_topic(name, partitions=IN_AND_OUT))
    return name


async def committed(config: ClientConfig, topic: str) -> list[bytes]:
    """What readers of committed records get, sorted: from records, and from Arrow batches."""
    options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with Consumer(config, **options) as consumer:
        await consumer.assign_topics(topic)
        ends = await consumer.end_offsets(consumer.assignment)
        found, arrow = [], []
        async with asyncio.timeout(30):
            while any(consumer.position(tp) < end for tp, end in ends.items()):
                if (batch := await consumer.next_batch(max_wait_ms=100)) is not None:
                    found += [record.value for record in batch]
                    arrow += batch.to_arrow()["value"].to_pylist()
        # Markers and aborted records are passed over: nothing is left to read.
        assert {tp: consumer.position(tp) for tp in ends} == ends
        assert found == arrow
        return sorted(found)


async def test_offsets_of_a_recreated_topic_abort_and_the_producer_goes_on(
    site, config, topic
) -> None:
    """By the topic ids of TxnOffsetCommit v6, or by a question to an older broker."""
    source, first = f"{topic}-source", TopicPartition(f"{topic}-source", 0)
    await site.administer(lambda admin: admin.create_topic(source, partitions=1))
    async with (
        Producer(config, transactional_id=topic) as producer,
        Consumer(config, group_id=topic, auto_offset_reset="earliest") as consumer,
    ):
        for number in range(3):
            await consumer.assign([first])
            async with producer.transaction() as transaction:
                await producer.send(source, b"%d" % number)
            async with asyncio.timeout(60):
                while not await consumer.next_batch(max_wait_ms=100):
                    pass
            if number == 1:
                await site.administer(lambda admin: admin.delete_topic(source))
                await site.administer(lambda admin: admin.create_topic(source, partitions=1))
                with pytest.raises(TransactionAbortedError) as raised:
                    async with producer.transaction() as transaction:
                        await producer.send(topic, b"%d" % number)
                        await transaction.commit_offsets({first: 1}, consumer)
                assert isinstance(raised.value.__cause__, TopicRecreatedError)
                await consumer.assign([])
            else:
                async with producer.transaction() as transaction:
                    await producer.send(topic, b"%d" % number)
                    await transaction.commit_offsets({first: 1}, consumer)
    assert await committed(config, topic) == [b"0", b"2"]


async def test_commits_and_aborts_in_several_partitions(config, topic) -> None:
    async with Producer(config, transactional_id=topic) as producer:
        for number in range(6):
            try:
                async with producer.transaction():
                    for index in range(3):
                        value = b"%d-%d" % (number, index)
                        await producer.send(topic, value, partition=index)
                    await producer.flush()
                    if number % 2:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                pass
    assert await committed(config, topic) == [
        b"%d-%d" % (number, index) for number in (0, 2, 4) for index in range(3)
    ]


async def test_another_producer_fences(config, topic) -> None:
    async with (
        Producer(config, transactional_id=topic) as first,
        Producer(config, transactional_id=topic) as second,
    ):
        with pytest.raises(ProducerFencedError, match="another producer"):
            async with first.transaction():
                await first.send(topic, b"zombie")
        async with second.transaction():
            await second.send(topic, b"yes")
    assert await committed(config, topic) == [b"yes"]


async def test_a_transaction_that_is_open_for_too_long(config, topic) -> None:
    options = {"transactional_id": topic, "transaction_timeout_ms": 500}
    async with Producer(config, **options) as producer:
        with pytest.raises(TransactionError, match="was open for"):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"no")
                await asyncio.sleep(4)
    assert await committed(config, topic) == []


async def test_a_cancelled_task(config, topic) -> None:
    async with Producer(config, transactional_id=topic) as producer:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), producer.transaction():
                await producer.send_and_wait(topic, b"no")
                await asyncio.Event().wait()
        async with producer.transaction():
            await producer.send(topic, b"yes")
    assert await committed(config, topic) == [b"yes"]


async def test_a_record_that_is_too_large(config, topic) -> None:
    async with Producer(config, transactional_id=topic, max_request_size=10_000_000) as producer:
        with pytest.raises(TransactionAbortedError, match="MESSAGE_TOO_LARGE"):
            async with producer.transaction():
                await producer.send(topic, b"no", partition=0)
                await producer.send(topic, b"x" * 5_000_000, partition=1)
        async with producer.transaction():
            await producer.send(topic, b"yes", partition=1)
    assert await committed(config, topic) == [b"yes"]


async def test_a_delivery_that_takes_too_long(site, config, topic) -> None:
    async with Producer(config, transactional_id=topic, delivery_timeout_ms=1_000) as producer:
        with pytest.raises(TransactionAbortedError) as raised:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"no", partition=0)
                late = asyncio.create_task(asyncio.to_thread(site.freeze, 4))
                await asyncio.sleep(0.5)
                await producer.send(topic, b"late", partition=0)
        assert isinstance(raised.value.__cause__, DeliveryTimeoutError)
        await late
        async with producer.transaction():
            await producer.send(topic, b"yes", partition=0)
    assert await committed(config, topic) == [b"yes"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_the_server_starts_again_during_a_transaction(site, config, topic, how) -> None:
    options = {"transactional_id": topic, "transaction_timeout_ms": 600_000}  # Kafka starts slowly
    async with Producer(config, **options) as producer:
        async with producer.transaction() as transaction:
            await producer.send_and_wait(topic, b"before", partition=0)
            site.restart(how)  # in this thread, with whose end the server would end
            await producer.send(topic, b"after", partition=1)
            await transaction.commit_offsets(
                {TopicPartition(topic, 0): 1}, GroupMetadata(group_id=topic)
            )
        async with producer.transaction():
            await producer.send(topic, b"next", partition=0)
    assert await committed(config, topic) == [b"after", b"before", b"next"]
    found = await site.administer(lambda admin: admin.committed([topic], require_stable=True))
    assert found[topic][TopicPartition(topic, 0)].offset == 1


async def fill(config: ClientConfig, topic: str, count: int) -> list[bytes]:
    values = [b"%04d" % number for number in range(count)]
    async with Producer(config, batch_size=200) as producer:
        for number, value in enumerate(values):
            await producer.send(topic, value, partition=number % IN_AND_OUT)
    return values


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
async def test_each_record_counts_once_through_rebalances(site, config, topic, assignor) -> None:
    """Members that come and go: what they read is in the other topic exactly once."""
    values = await fill(config, topic, 600)
    out = f"{topic}-out"
    await site.administer(lambda admin: admin.create_topic(out, partitions=IN_AND_OUT))
    options = {"bootstrap": site.address, "isolation_level": "read_committed", **QUICK}
    written = asyncio.Event()

    async def work(generation, partition, producer):
        async for batch in generation.records(partition):
            async with generation.exactly_once(producer, batch):
                for record in batch:
                    await producer.send(out, record.value, partition=partition.partition)
                await asyncio.sleep(0.02)
            written.set()

    async def member(number: int, lasts: float | None) -> None:
        async with (
            Producer(config, transactional_id=f"{topic}-{number}", linger_ms=0) as producer,
            ConsumerGroup(topic, topics=[topic], assignors=[assignor], **options) as group,
        ):
            if lasts is not None:
                asyncio.get_running_loop().call_later(lasts, group.stop)
            async for generation in group:
                async with generation:
                    for partition in generation.assignment:
                        generation.start(work, partition, producer)

    lasting = asyncio.create_task(member(0, None))
    await written.wait()
    for number in range(1, 4):
        await member(number, 0.5)
    async with asyncio.timeout(60):
        while len(await committed(config, out)) < len(values):
            pass
    lasting.cancel()
    await asyncio.wait([lasting])
    assert await committed(config, out) == values


async def test_a_zombie_of_the_group_is_fenced(site, config, topic) -> None:
    """A member that was removed cannot commit, although nobody has its transactional id."""
    await fill(config, topic, 3)
    options = {"bootstrap": site.address, **QUICK}
    async with (
        Producer(config, transactional_id=topic) as producer,
        ConsumerGroup(topic, topics=[topic], **options) as group,
    ):
        generation = await group.next()
        tp = TopicPartition(topic, 0)
        metadata, _ = generation.to_commit({tp: 1})
        member = generation.member_id
        await site.administer(lambda admin: admin.remove_members(topic, members=[member]))
        with pytest.raises(TransactionAbortedError, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION"):
            async with producer.transaction() as transaction:
                await producer.send(topic, b"zombie")
                await transaction.commit_offsets({tp: 1}, metadata)
        async with generation:
            assert await generation.ending() is End.LOST
            with pytest.raises(KohortError):
                generation.to_commit({tp: 1})
            group.stop()
    assert b"zombie" not in await committed(config, topic)


async def test_without_an_event_loop(site, config, topic) -> None:
    values = await fill(config, topic, 30)
    out = f"{topic}-out"
    await site.administer(lambda admin: admin.create_topic(out))

    def work() -> None:
        with (
            SyncProducer(config, transactional_id=topic) as producer,
            SyncGroup(topic, topics=[topic], bootstrap=site.address, **QUICK) as group,
        ):
            with pytest.raises(ZeroDivisionError), producer.transaction() as transaction:
                producer.send(out, b"no")
                assert transaction.outcome is None
                raise ZeroDivisionError
            assert transaction.outcome is TransactionOutcome.ABORTED
            with pytest.raises(TransactionAbortedError), producer.transaction():
                producer.send(out, b"x" * 2_000_000)
            seen = 0
            for batch in group:
                with producer.transaction() as transaction:
                    for record in batch:
                        producer.send(out, record.value)
                        seen += 1
                    offsets = {batch.topic_partition: batch.next_offset}
                    transaction.commit_offsets(offsets, group.generation)
                assert transaction.outcome is TransactionOutcome.COMMITTED
                if seen == len(values):
                    group.stop()
            options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
            with producer.transaction() as transaction:
                producer.send(out, b"open")
                producer.flush()
                with SyncConsumer(config, **options) as consumer:
                    consumer.assign_topics(out)
                    assert sorted(next(consumer).value for _ in values) == values
                    assert sum(consumer.lag(tp) for tp in consumer.assignment) <= 1  # type: ignore[misc]  # a marker
                transaction.abort()

    await asyncio.to_thread(work)
    assert await committed(config, out) == values
    found = await site.administer(lambda admin: admin.committed([topic], require_stable=True))
    assert sum(each.offset for each in found[topic].values()) == len(values)
