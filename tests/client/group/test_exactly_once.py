"""Consume, process, produce: what becomes of a transaction when its partitions go."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from kohort.client import (
    Admin,
    ClientConfig,
    Cluster,
    CommitUnknownError,
    Consumer,
    ConsumerGroup,
    End,
    Generation,
    KohortError,
    Producer,
    TopicPartition,
    TransactionAbortedError,
    TransactionOutcome,
)
from kohort.server.broker import Broker

T = TypeVar("T")
COMMITTED = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}


@pytest.fixture(autouse=True)
async def orders(broker: Broker, config: ClientConfig) -> None:
    """One record to process, and an empty topic for results."""
    broker.controller.topics.create("orders", 1)
    broker.controller.topics.create("totals", 1)
    async with Producer(config) as producer:
        await producer.send_and_wait("orders", b"1")


async def run(
    config: ClientConfig, name: str, work: Callable[..., Any], *args: Any, **options: Any
) -> None:
    """A member whose task is `work`, until it is cancelled; of several the first name owns all."""
    async with ConsumerGroup(
        "totals",
        topics=["orders"],
        **({"assignors": ["range"]} | options),
        bootstrap=config.bootstrap,
        client_id=name,
        isolation_level="read_committed",
    ) as group:
        async for generation in group:
            async with generation:
                for partition in generation.assignment:
                    generation.start(work, partition, *args)


async def totals(config: ClientConfig) -> list[bytes]:
    """What readers of committed records get of the results."""
    async with Consumer(config, **COMMITTED) as consumer:
        await consumer.assign_topics("totals")
        (tp,) = consumer.assignment
        end = (await consumer.end_offsets([tp]))[tp]
        found = []
        while consumer.position(tp) < end:
            if (batch := await consumer.next_batch(max_wait_ms=100)) is not None:
                found += [record.value for record in batch]
        return found


async def test_a_revocation_waits_for_the_commit(config: ClientConfig) -> None:
    """The next owner starts behind the batch whose transaction was open when it joined."""
    inside, starts = asyncio.Event(), asyncio.Queue[int]()

    async def first(generation: Generation, partition: TopicPartition, producer: Producer) -> None:
        async for batch in generation.records(partition):
            async with generation.exactly_once(producer, batch):
                await producer.send("totals", b"before")
                inside.set()
                assert await generation.ending() is End.REVOKED
                await producer.send("totals", b"after")

    async def second(generation: Generation, partition: TopicPartition) -> None:
        starts.put_nowait(generation.start_offset(partition))

    async with Producer(config, transactional_id="totals-1") as producer:
        owner = asyncio.create_task(run(config, "b", first, producer))
        await during(owner, inside.wait())
        other = asyncio.create_task(run(config, "a", second))
        assert await during(other, starts.get()) == 1
        assert await totals(config) == [b"before", b"after"]
        await ended(owner, other)


async def test_a_loss_aborts(config: ClientConfig, cluster: Cluster) -> None:
    """The task is cancelled in its transaction; the next owner processes the batch again."""
    inside, done = asyncio.Event(), asyncio.Event()
    tries: list[int] = []
    owners: list[str] = []

    async def work(generation: Generation, partition: TopicPartition, producer: Producer) -> None:
        async for batch in generation.records(partition):
            tries.append(batch.first_offset)
            owners.append(generation.member_id)
            async with generation.exactly_once(producer, batch):
                await producer.send_and_wait("totals", b"try %d" % len(tries))
                if len(tries) == 1:
                    inside.set()
                    await asyncio.Event().wait()
            done.set()

    async with Producer(config, transactional_id="totals-1") as producer:
        owner = asyncio.create_task(run(config, "a", work, producer))
        await during(owner, inside.wait())
        await Admin(cluster).remove_members("totals", members=owners)
        await during(owner, done.wait())
        await ended(owner)
    assert tries == [0, 0]
    assert await totals(config) == [b"try 2"]


async def test_members_read_committed_records_and_lag_up_to_them(config: ClientConfig) -> None:
    """An open transaction is neither read nor lag, an aborted one is skipped."""
    lags = asyncio.Queue[int | None]()

    async def work(generation: Generation, partition: TopicPartition) -> None:
        async for batch in generation.records(partition):
            values.extend(record.value for record in batch)
            lags.put_nowait(generation.lag(partition))

    values: list[bytes | None] = []
    async with Producer(config, transactional_id="orders-1") as producer:
        async with producer.transaction() as transaction:
            await producer.send_and_wait("orders", b"aborted")
            await transaction.abort()
        async with producer.transaction():
            await producer.send_and_wait("orders", b"2")
            reader = asyncio.create_task(run(config, "a", work))
            assert await during(reader, lags.get()) == 0
        while b"2" not in values:
            await during(reader, lags.get())
        await ended(reader)
    assert values == [b"1", b"2"]


class Stalled:
    """Holds back the responses to EndTxn until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from kohort.client.net import Connection

        self.arrived, self.released = asyncio.Event(), asyncio.Event()
        send = Connection.send

        async def stalling(connection: Connection, name: str, /, **fields: Any) -> Any:
            response = await send(connection, name, **fields)
            if name == "end_txn":
                self.arrived.set()
                await self.released.wait()
            return response

        monkeypatch.setattr(Connection, "send", stalling)


async def test_a_time_limit_during_the_commit_does_not_repeat_the_batch(
    config: ClientConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is raised when the outcome is known, and `records` goes on behind the batch."""
    stalled, done = Stalled(monkeypatch), asyncio.Event()
    found: list[Any] = []

    async def work(generation: Generation, partition: TopicPartition, producer: Producer) -> None:
        async for batch in generation.records(partition):
            scope = generation.exactly_once(producer, batch)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5), scope:
                    await producer.send("totals", b"once")
            found.extend((scope.outcome, generation.position(partition)))
            done.set()

    async with Producer(config, transactional_id="totals-1") as producer:
        owner = asyncio.create_task(run(config, "a", work, producer))
        await during(owner, stalled.arrived.wait())
        asyncio.get_running_loop().call_later(6, stalled.released.set)
        await during(owner, done.wait())
        await ended(owner)
    assert found == [TransactionOutcome.COMMITTED, 1]
    assert await totals(config) == [b"once"]


@pytest.mark.parametrize("how", ["a time limit", "an exception", "an abort", "a retry in place"])
async def test_an_aborted_batch_comes_again(config: ClientConfig, how: str) -> None:
    """The position is that of the batch again, or behind it once another attempt committed it."""
    tried, done = asyncio.Event(), asyncio.Event()
    outcomes, firsts, positions = list[Any](), list[int](), list[Any]()

    async def attempt(scope: Any, producer: Producer, *, fails: bool) -> None:
        with contextlib.suppress(TimeoutError, ZeroDivisionError):
            async with asyncio.timeout(5), scope as transaction:
                await producer.send_and_wait("totals", b"fails" if fails else b"once")
                if fails and how == "an exception":
                    raise ZeroDivisionError
                if fails and how == "an abort":
                    await transaction.abort()
                elif fails:
                    await asyncio.Event().wait()
        outcomes.append(scope.outcome)
        if len(outcomes) == 2:
            tried.set()

    async def work(generation: Generation, partition: TopicPartition, producer: Producer) -> None:
        async for batch in generation.records(partition):
            firsts.append(batch.first_offset)
            await attempt(
                generation.exactly_once(producer, batch), producer, fails=len(firsts) == 1
            )
            positions.append(generation.position(partition))
            if how == "a retry in place" and len(firsts) == 1:
                await attempt(generation.exactly_once(producer, batch), producer, fails=False)
                positions.append(generation.position(partition))
            if batch.next_offset == 2:
                done.set()

    async with Producer(config, transactional_id="totals-1", linger_ms=0) as producer:
        owner = asyncio.create_task(run(config, "a", work, producer))
        await during(owner, tried.wait())
        async with Producer(config) as feeder:
            await feeder.send_and_wait("orders", b"2")
        await during(owner, done.wait())
        await ended(owner)
    committed = TransactionOutcome.COMMITTED
    assert outcomes == [TransactionOutcome.ABORTED, committed, committed]
    assert firsts == ([0, 1] if how == "a retry in place" else [0, 0, 1])
    assert positions == [0, 1, 2]
    assert await totals(config) == [b"once", b"once"]


async def test_a_batch_behind_an_aborted_one_is_not_committed(config: ClientConfig) -> None:
    """Its offset would cover the records of the aborted one, which nobody would read again."""
    refused = asyncio.Event()

    async def work(generation: Generation, partition: TopicPartition, producer: Producer) -> None:
        batches = generation.records(partition)
        first = await anext(batches)
        async with Producer(config) as feeder:
            await feeder.send_and_wait("orders", b"2")
        second = await anext(batches)
        with pytest.raises(ZeroDivisionError):
            async with generation.exactly_once(producer, first):
                raise ZeroDivisionError
        with pytest.raises(KohortError, match="take the batches that `records` yields"):
            async with generation.exactly_once(producer, second):
                pytest.fail("it may not be processed before the first one")
        generation.seek(partition, second.first_offset)  # the application knows better
        async with generation.exactly_once(producer, second):
            await producer.send("totals", b"second")
        refused.set()
        await asyncio.Event().wait()

    async with Producer(config, transactional_id="totals-1") as producer:
        owner = asyncio.create_task(run(config, "a", work, producer))
        await during(owner, refused.wait())
        await ended(owner)
    assert await totals(config) == [b"second"]


async def test_commit_inside_takes_the_offsets_along(
    config: ClientConfig, cluster: Cluster
) -> None:
    done = asyncio.Event()

    async def work(generation: Generation, partition: TopicPartition, producer: Producer) -> None:
        async for batch in generation.records(partition):
            async with generation.exactly_once(producer, batch) as transaction:
                await producer.send("totals", b"once")
                await transaction.commit()
                assert transaction.outcome is TransactionOutcome.COMMITTED
            done.set()

    async with Producer(config, transactional_id="totals-1") as producer:
        owner = asyncio.create_task(run(config, "a", work, producer))
        await during(owner, done.wait())
        await ended(owner)
    found = (await Admin(cluster).committed(["totals"], require_stable=True))["totals"]
    assert not isinstance(found, KohortError)
    assert {tp: each.offset for tp, each in found.items()} == {TopicPartition("orders", 0): 1}
    assert await totals(config) == [b"once"]


async def test_offsets_that_are_refused_end_the_transaction(
    config: ClientConfig, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the commit's own requests leaves no transaction open, and the next one begins."""
    failed = asyncio.Event()

    async def work(generation: Generation, partition: TopicPartition, producer: Producer) -> None:
        async for batch in generation.records(partition):
            monkeypatch.setattr(generation, "to_commit", fail)
            with pytest.raises(KohortError, match="no offsets"):
                async with generation.exactly_once(producer, batch):
                    await producer.send("totals", b"no")
            monkeypatch.undo()
            async with producer.transaction(wait=True):
                pass
            failed.set()
            return

    def fail(_offsets: Any) -> Any:
        raise KohortError("no offsets")

    async with Producer(config, transactional_id="totals-1") as producer:
        owner = asyncio.create_task(run(config, "a", work, producer))
        await during(owner, failed.wait())
        await ended(owner)
    assert await totals(config) == []


async def test_an_unknown_commit_is_settled_by_the_next_batch(
    config: ClientConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application stays in its loop with its producer."""
    stalled, done = Stalled(monkeypatch), asyncio.Event()
    scopes: list[Any] = []

    async def work(generation: Generation, partition: TopicPartition, producer: Producer) -> None:
        async for batch in generation.records(partition):
            scopes.append(generation.exactly_once(producer, batch))
            try:
                async with scopes[-1]:
                    for record in batch:
                        await producer.send("totals", record.value)
            except CommitUnknownError:
                stalled.released.set()
                async with Producer(config) as feeder:
                    await feeder.send_and_wait("orders", b"2")
            else:
                done.set()

    async with Producer(config, transactional_id="totals-1", max_block_ms=1_000) as producer:
        owner = asyncio.create_task(run(config, "a", work, producer))
        async with asyncio.timeout(600):
            await during(owner, done.wait())
        await ended(owner)
    assert [scope.outcome for scope in scopes] == [TransactionOutcome.COMMITTED] * 2
    assert await totals(config) == [b"1", b"2"]


async def test_a_rebalance_does_not_hide_a_cancellation(
    config: ClientConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaving the scope raises nothing for a generation that moved on, but for a cancellation."""
    from kohort.client.produce import Transaction
    from kohort.errors import ErrorCode, KafkaError

    left = asyncio.Event()
    end = Transaction.__aexit__

    async def moved_on(transaction: Transaction, *error: Any) -> None:
        await end(transaction, ZeroDivisionError, ZeroDivisionError(), None)
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        with contextlib.suppress(asyncio.CancelledError):  # as a commit that is shielded
            await asyncio.sleep(0)
        raise TransactionAbortedError("aborted") from KafkaError(ErrorCode.illegal_generation)

    monkeypatch.setattr(Transaction, "__aexit__", moved_on)

    async def work(generation: Generation, partition: TopicPartition, producer: Producer) -> None:
        async for batch in generation.records(partition):
            with pytest.raises(asyncio.CancelledError):
                async with generation.exactly_once(producer, batch):
                    pass
            left.set()
            raise asyncio.CancelledError

    async with Producer(config, transactional_id="totals-1") as producer:
        owner = asyncio.create_task(run(config, "a", work, producer))
        await during(owner, left.wait())
        await ended(owner)


async def during(task: asyncio.Task[None], awaited: Coroutine[Any, Any, T]) -> T:
    """The result of `awaited`, unless the task ends before."""
    result = asyncio.create_task(awaited)
    await asyncio.wait([task, result], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    return result.result()


async def ended(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
