"""Transactions against our own server: what commits, what aborts, and who is fenced."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from kohort.client import (
    Admin,
    BrokerUnreachableError,
    ClientConfig,
    Cluster,
    CommitUnknownError,
    Consumer,
    GaveUpError,
    GenerationEndedError,
    GroupMetadata,
    KafkaError,
    KohortError,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    TopicPartition,
    TopicRecreatedError,
    Transaction,
    TransactionAbortedError,
    TransactionOutcome,
    UndeliveredError,
)
from kohort.client.group_metadata import Offsets
from kohort.client.metrics import samples
from kohort.client.produce.transaction_requests import TransactionRequests
from kohort.client.produce.transactions import Transactions
from kohort.errors import ConfigError, ErrorCode
from kohort.server.broker import Broker
from kohort.server.cluster.transaction_markers import PartitionMarkers
from kohort.transactions.records import TransactionRecord
from kohort.transactions.transitions import LAST_EPOCH
from runtime.virtual_time import LoopClock

FIRST = TopicPartition("orders", 0)
GROUP = GroupMetadata(group_id="g")


@pytest.fixture(autouse=True)
async def topic(broker: Broker) -> None:
    broker.controller.topics.create("orders", 3)


@pytest.fixture(params=["by request", "by the first batch"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both protocols: a connection that does not tell of the feature has the first one."""
    from kohort.client.net import Connection

    if request.param == "by request":
        monkeypatch.setattr(Connection, "feature", lambda _self, _name: 0)
    return request.param


@pytest.fixture
async def producer(protocol: str, config: ClientConfig) -> AsyncIterator[Producer]:
    async with Producer(config, transactional_id="shop", linger_ms=0) as opened:
        yield opened


async def committed(config: ClientConfig, *, isolation: str = "read_committed") -> list[bytes]:
    """The values of the topic that a reader gets, sorted; its positions are at the end then."""
    options = {"auto_offset_reset": "earliest", "isolation_level": isolation}
    async with Consumer(config, **options) as consumer:  # type: ignore[arg-type]
        await consumer.assign_topics("orders")
        ends = await consumer.end_offsets(consumer.assignment)
        found = []
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            if (batch := await consumer.next_batch(max_wait_ms=100)) is not None:
                found += [record.value for record in batch]
        return sorted(found)


async def test_a_transaction_commits_in_all_its_partitions(producer, config) -> None:
    async with producer.transaction():
        for index in range(3):
            await producer.send("orders", b"%d" % index, partition=index)
        assert await committed(config) == []
    assert await committed(config) == [b"0", b"1", b"2"]


async def test_transactions_follow_each_other(producer, config) -> None:
    for number in range(5):
        async with producer.transaction():
            await producer.send("orders", b"%d" % number, partition=0)
    assert await committed(config) == [b"%d" % number for number in range(5)]


async def test_an_exception_aborts_and_goes_on(producer, config) -> None:
    with pytest.raises(ZeroDivisionError):
        async with producer.transaction():
            await producer.send_and_wait("orders", b"no", partition=0)
            await producer.send("orders", b"never sent", partition=1)
            raise ZeroDivisionError
    async with producer.transaction():
        await producer.send("orders", b"yes", partition=0)
    assert await committed(config) == [b"yes"]
    assert b"no" in await committed(config, isolation="read_uncommitted")


class HeldMarkers:
    """Markers of transactions that end from now on: the broker writes them after `written`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written, self.held = asyncio.Event(), asyncio.Event()
        write = PartitionMarkers.write

        async def write_later(*arguments: Any) -> None:
            self.held.set()
            await self.written.wait()
            await write(*arguments)

        monkeypatch.setattr(PartitionMarkers, "write", write_later)


async def abort_before(producer: Producer, markers: HeldMarkers) -> None:
    """Abort a transaction before the markers are written, and commit the next one."""
    await markers.held.wait()
    asyncio.get_running_loop().call_later(1.0, markers.written.set)
    with pytest.raises(ZeroDivisionError):
        async with producer.transaction():
            await producer.send("orders", b"no", partition=0)
            await asyncio.sleep(0.1)  # the batch is refused by CONCURRENT_TRANSACTIONS, and waits
            raise ZeroDivisionError
    async with producer.transaction():
        await producer.send("orders", b"again", partition=0)


async def test_an_abort_while_the_commit_before_is_written_waits(
    producer, config, monkeypatch
) -> None:
    async with producer.transaction():
        await producer.send_and_wait("orders", b"yes", partition=0)
        markers = HeldMarkers(monkeypatch)
    await abort_before(producer, markers)
    assert await committed(config) == [b"again", b"yes"]


async def test_an_abort_at_the_next_producer_id_waits_for_the_markers(
    config, broker, monkeypatch
) -> None:
    """EndTxn at the last epoch gives the id of the next transaction, which the first one delays."""
    async with Producer(config, transactional_id="shop", linger_ms=0) as producer:
        async with producer.transaction():
            await producer.send_and_wait("orders", b"yes", partition=0)
        machine = producer._transactions.machine
        last = machine.producer._replace(epoch=LAST_EPOCH)
        (shard,) = (
            host.shard for host in broker.transactions._hosts if "shop" in host.shard.transactions
        )
        while shard.transactions["shop"].partitions:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
        value = shard.transactions["shop"]._replace(producer_epoch=LAST_EPOCH)
        shard.replay(TransactionRecord("shop", value))
        machine.producer = last
        async with producer.transaction():
            await producer.send_and_wait("orders", b"last", partition=0)
            markers = HeldMarkers(monkeypatch)
        assert (machine.producer.epoch, machine.producer.id != last.id) == (0, True)
        await abort_before(producer, markers)
    assert await committed(config) == [b"again", b"last", b"yes"]


@pytest.mark.parametrize("is_unreachable", [False, True])
async def test_markers_that_are_written_while_an_abort_is_refused_fence_nobody(
    producer, config, monkeypatch, is_unreachable
) -> None:
    """The description that is asked for then is of the transaction that has ended."""
    refused: list[str] = []
    describe = TransactionRequests._ask_description

    async def describe_later(requests: TransactionRequests) -> Any:
        markers.written.set()
        while (  # noqa: ASYNC110 - the coordinator tells of it only when it is asked
            found := await describe(requests)
        ).transaction_state == "PrepareCommit":
            await asyncio.sleep(0.01)
        refused.append(found.transaction_state)
        if is_unreachable:
            raise BrokerUnreachableError("the coordinator moves")
        return found

    async with producer.transaction():
        await producer.send_and_wait("orders", b"yes", partition=0)
        markers = HeldMarkers(monkeypatch)
    monkeypatch.setattr(TransactionRequests, "_ask_description", describe_later)
    asyncio.get_running_loop().call_later(1.0, markers.written.set)  # if nobody asks
    with pytest.raises(ZeroDivisionError):
        async with producer.transaction():
            await producer.send("orders", b"no", partition=0)
            await asyncio.sleep(0.1)
            raise ZeroDivisionError
    assert refused in ([], ["CompleteCommit"])
    async with producer.transaction():
        await producer.send("orders", b"again", partition=0)
    assert await committed(config) == [b"again", b"yes"]


async def test_a_cancelled_task_aborts(producer, config) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with producer.transaction():
            await producer.send_and_wait("orders", b"no", partition=0)
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with producer.transaction():
        await producer.send("orders", b"yes", partition=0)
    assert await committed(config) == [b"yes"]


@pytest.mark.parametrize("turns", range(0, 60, 3))
async def test_a_cancellation_at_any_await_leaves_nothing_open(producer, config, turns) -> None:
    """Either everything of the transaction is committed, or nothing; and the next one works."""

    async def work() -> None:
        async with producer.transaction() as transaction:
            await producer.send("orders", b"a", partition=0)
            await transaction.commit_offsets({FIRST: 7}, GroupMetadata(group_id="g"))
            await producer.send("orders", b"b", partition=1)

    task = asyncio.create_task(work())
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    async with producer.transaction():
        await producer.send("orders", b"next", partition=2)
    found = await committed(config)
    assert found in ([b"next"], [b"a", b"b", b"next"])
    async with Cluster(config) as cluster:
        offsets = (await Admin(cluster).committed(["g"], require_stable=True))["g"]
    assert isinstance(offsets, dict)
    assert bool(offsets) == (len(found) == 3)


async def test_an_abort_without_an_exception(producer, config) -> None:
    async with producer.transaction() as transaction:
        await producer.send("orders", b"no")
        await transaction.abort()
        with pytest.raises(KohortError, match="not open"):
            await transaction.commit()
        with pytest.raises(KohortError, match="only in a transaction"):
            await producer.send("orders", b"no")
    async with producer.transaction() as transaction:
        await producer.send("orders", b"yes")
        await transaction.commit()
    assert await committed(config) == [b"yes"]


async def test_an_empty_transaction(producer, config) -> None:
    async with producer.transaction():
        pass
    with pytest.raises(ZeroDivisionError):
        async with producer.transaction():
            raise ZeroDivisionError
    assert await committed(config) == []


async def test_sends_outside_and_a_second_transaction_are_errors(producer) -> None:
    with pytest.raises(KohortError, match="sends only in a transaction"):
        await producer.send("orders", b"no")
    async with producer.transaction():
        with pytest.raises(KohortError, match="one at a time"):
            async with producer.transaction():
                pass


async def test_tasks_that_end_a_transaction_at_once(producer, config) -> None:
    async with producer.transaction() as transaction:
        await producer.send("orders", b"yes")
        calls = (transaction.commit(), transaction.commit(), transaction.abort())
        first, *others = await asyncio.gather(*calls, return_exceptions=True)
        assert first is None
        for other in others:
            assert isinstance(other, KohortError)
            assert "not open" in str(other)
    async with producer.transaction() as transaction:
        await producer.send_and_wait("orders", b"no")
        calls = (transaction.abort(), transaction.commit())
        first, other = await asyncio.gather(*calls, return_exceptions=True)  # type: ignore[misc]
        assert first is None
        assert isinstance(other, KohortError)
    assert await committed(config) == [b"yes"]


async def test_a_scope_that_is_left_while_a_task_commits(producer, config) -> None:
    async with producer.transaction() as transaction:
        await producer.send("orders", b"yes")
        committing = asyncio.create_task(transaction.commit())
        await asyncio.sleep(0)
    async with producer.transaction():
        await committing
        await producer.send("orders", b"next")
        with pytest.raises(KohortError, match="another transaction"):
            await producer.transaction().__aenter__()
    assert await committed(config) == [b"next", b"yes"]


async def test_a_transaction_that_waits_for_its_turn(producer, config) -> None:
    async def work(number: int) -> None:
        async with producer.transaction(wait=True):
            await producer.send_and_wait("orders", b"%d" % number)

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(work(number))
    assert await committed(config) == [b"0", b"1", b"2"]


async def test_a_producer_without_an_id_has_no_transactions(config) -> None:
    async with Producer(config) as plain:
        with pytest.raises(KohortError, match="transactional_id"):
            plain.transaction()


@pytest.mark.parametrize(
    "options",
    [
        {"transactional_id": ""},
        {"transactional_id": "a", "acks": 1},
        {"transactional_id": "é" * 16_384},
        {"transactional_id": "\ud800"},
    ],
)
def test_options_that_do_not_fit(options) -> None:
    with pytest.raises(ConfigError, match="transactional_id"):
        Producer(ClientConfig(), **options)


async def test_offsets_commit_with_the_records(producer, config) -> None:
    group = GroupMetadata(group_id="g")
    async with Cluster(config) as cluster:
        admin = Admin(cluster)
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction() as transaction:
                await transaction.commit_offsets({FIRST: 5}, group)
                raise ZeroDivisionError
        assert await admin.committed(["g"], require_stable=True) == {"g": {}}
        async with producer.transaction() as transaction:
            await producer.send("orders", b"yes")
            await transaction.commit_offsets({FIRST: 3}, group)
        assert await admin.committed(["g"], require_stable=True) == {
            "g": {FIRST: OffsetAndMetadata(offset=3)}
        }


@pytest.mark.parametrize(
    ("offsets", "owner", "error"),
    [
        (None, GROUP, "a mapping of TopicPartition to an offset expected, not None"),
        ([FIRST], GROUP, "a mapping of TopicPartition to an offset expected"),
        ({"orders": 1}, GROUP, "'orders': a TopicPartition expected"),
        ({("orders", 0): 1}, GROUP, "a TopicPartition expected"),
        ({TopicPartition("orders", "0"): 1}, GROUP, "a TopicPartition expected"),
        ({TopicPartition(None, 0): 1}, GROUP, "a TopicPartition expected"),
        ({TopicPartition("orders", -1): 1}, GROUP, "a partition is a whole number from 0 on"),
        ({FIRST: "1"}, GROUP, "'1' is not an offset"),
        ({FIRST: 1}, "g", "a Generation, Consumer or GroupMetadata expected, not 'g'"),
        ({FIRST: 1}, None, "a Generation, Consumer or GroupMetadata expected, not None"),
    ],
)
async def test_an_invalid_offset_ends_the_transaction_but_not_the_producer(
    producer, config, offsets, owner, error
) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        async with producer.transaction() as transaction:
            await producer.send("orders", b"no")
            await transaction.commit_offsets(offsets, owner)
    async with producer.transaction():
        await producer.send("orders", b"yes")
    assert await committed(config) == [b"yes"]


@pytest.mark.parametrize("group_id", ["", None, 5])
def test_a_group_needs_a_name(group_id) -> None:
    with pytest.raises(ValueError, match="a name is needed"):
        GroupMetadata(group_id=group_id)


async def test_offsets_of_an_unknown_member_abort(producer, config) -> None:
    zombie = GroupMetadata(group_id="g", generation_id=3, member_id="gone")
    with pytest.raises(TransactionAbortedError) as raised:
        async with producer.transaction() as transaction:
            await producer.send("orders", b"no")
            await transaction.commit_offsets({FIRST: 3}, zombie)
    assert isinstance(raised.value.__cause__, KafkaError)
    async with producer.transaction():
        await producer.send("orders", b"yes")
    assert await committed(config) == [b"yes"]


async def test_a_record_that_is_too_large_aborts(producer, config, broker) -> None:
    broker.controller.topics.create("small", 1, {"max.message.bytes": "100"})
    with pytest.raises(TransactionAbortedError, match="MESSAGE_TOO_LARGE"):
        async with producer.transaction():
            await producer.send("orders", b"no")
            await producer.send("small", b"x" * 1_000)
    async with producer.transaction():
        await producer.send("orders", b"yes")
    assert await committed(config) == [b"yes"]


async def test_sends_after_a_failure_say_that_it_aborts(producer, broker) -> None:
    broker.controller.topics.create("small", 1, {"max.message.bytes": "100"})
    with pytest.raises(TransactionAbortedError):
        async with producer.transaction():
            delivery = await producer.send("small", b"x" * 1_000)
            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
                await delivery
            await producer.send("orders", b"no")


async def test_flush_raises_what_was_not_delivered(producer, broker) -> None:
    broker.controller.topics.create("small", 1, {"max.message.bytes": "100"})
    with pytest.raises(UndeliveredError):
        async with producer.transaction():
            await producer.send("small", b"x" * 1_000)
            await producer.flush()
    await producer.flush()


async def test_another_producer_fences(producer, config) -> None:
    transaction = producer.transaction()
    await transaction.__aenter__()
    await producer.send_and_wait("orders", b"zombie")
    async with Producer(config, transactional_id="shop") as other:
        with pytest.raises(ProducerFencedError, match="another producer was started"):
            await transaction.__aexit__(None, None, None)
        with pytest.raises(ProducerFencedError):
            async with producer.transaction():
                pass
        with pytest.raises(ProducerFencedError):
            await producer.send("orders", b"zombie")
        async with other.transaction():
            await other.send("orders", b"yes")
    assert await committed(config) == [b"yes"]


async def test_an_administrator_fences(producer, config) -> None:
    async with Cluster(config) as cluster:
        with pytest.raises(ProducerFencedError, match="an administrator fenced it"):
            async with producer.transaction():
                await producer.send_and_wait("orders", b"no")
                assert await Admin(cluster).fence_producers(["shop"]) == {"shop": None}


async def test_a_fenced_transaction_raises_the_fencing_also_after_a_refused_batch(
    producer, config
) -> None:
    with pytest.raises(ProducerFencedError, match="another producer was started"):
        async with producer.transaction():
            async with Producer(config, transactional_id="shop") as other, other.transaction():
                pass
            with pytest.raises(KohortError):
                await producer.send_and_wait("orders", b"no")
            await producer.send("orders", b"no")


async def test_a_fenced_producer_keeps_the_error_of_its_block(producer, config) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        async with producer.transaction():
            await producer.send_and_wait("orders", b"no")
            async with Producer(config, transactional_id="shop"):
                raise ZeroDivisionError
    assert any("could not be aborted" in note for note in raised.value.__notes__)


async def test_a_transaction_that_is_open_for_too_long(protocol, config) -> None:
    options = {"transactional_id": "late", "transaction_timeout_ms": 100}
    async with Producer(config, **options) as producer:
        with pytest.raises((ProducerFencedError, TransactionAbortedError), match="was open for"):
            async with producer.transaction():
                await producer.send_and_wait("orders", b"no")
                await asyncio.sleep(60)
    assert await committed(config) == []


async def test_closing_inside_a_transaction_aborts(producer, config) -> None:
    with pytest.raises(TransactionAbortedError, match="closed"):
        async with producer.transaction():
            await producer.send_and_wait("orders", b"no")
            await producer.close()
    async with Producer(config, transactional_id="shop") as next_one, next_one.transaction():
        await next_one.send("orders", b"yes")
    assert await committed(config) == [b"yes"]


class LostResponses:
    """Loses the responses to an API while it is set; counts the requests that were handled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, api: str) -> None:
        from kohort.client.net import Connection

        self.lost = True
        self.handled = 0
        send = Connection.send

        async def lossy(connection: Connection, name: str, /, **fields: Any) -> Any:
            response = await send(connection, name, **fields)
            if name == api:
                self.handled += 1
                if self.lost:
                    raise BrokerUnreachableError("the response is lost")
            return response

        monkeypatch.setattr(Connection, "send", lossy)


class LostRequests(LostResponses):
    """Loses the requests, so that the coordinator never hears of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, api: str) -> None:
        from kohort.client.net import Connection

        self.lost = True
        send = Connection.send

        async def lossy(connection: Connection, name: str, /, **fields: Any) -> Any:
            if name == api and self.lost:
                raise BrokerUnreachableError("the request is lost")
            return await send(connection, name, **fields)

        monkeypatch.setattr(Connection, "send", lossy)


@pytest.mark.parametrize("commit", [True, False])
async def test_an_end_whose_response_is_lost_is_repeated(
    producer, config, monkeypatch, commit
) -> None:
    responses = LostResponses(monkeypatch, "end_txn")
    for value in (b"0", b"1"):
        responses.lost = True
        asyncio.get_running_loop().call_later(0.1, setattr, responses, "lost", False)
        async with producer.transaction() as transaction:
            await producer.send_and_wait("orders", value)
            if not commit:
                await transaction.abort()
    assert responses.handled >= 4
    assert await committed(config) == ([b"0", b"1"] if commit else [])


SHORT = {"transactional_id": "shop", "linger_ms": 0, "max_block_ms": 1_000}


async def test_a_commit_without_a_known_outcome_is_repeated(
    protocol, config, monkeypatch, caplog
) -> None:
    async with Producer(config, **SHORT) as producer:
        responses = LostResponses(monkeypatch, "end_txn")
        transaction = producer.transaction()
        assert transaction.outcome is None
        with pytest.raises(CommitUnknownError, match=r"call transaction\.commit"):
            async with transaction:
                await producer.send("orders", b"yes")
                assert transaction.outcome is None
        assert transaction.outcome is TransactionOutcome.UNKNOWN
        with pytest.raises(KohortError, match="only commit may follow"):
            await transaction.abort()
        with pytest.raises(KohortError, match="not ending"):
            await producer.send("orders", b"between")
        assert "Whether the transaction is committed is not known" in caplog.text
        responses.lost = False
        await transaction.commit()
        assert transaction.outcome is TransactionOutcome.COMMITTED
        assert "outcome of the last commit: committed" in caplog.text
        with pytest.raises(KohortError, match="not open"):
            await transaction.commit()
        async with producer.transaction():
            await producer.send("orders", b"next")
    assert await committed(config) == [b"next", b"yes"]


@pytest.mark.parametrize("wait", [True, False])
async def test_the_next_transaction_settles_a_commit_without_a_known_outcome(
    protocol, config, monkeypatch, wait
) -> None:
    async with Producer(config, **SHORT) as producer:
        responses = LostResponses(monkeypatch, "end_txn")
        before = await with_unknown_outcome(producer, b"yes")
        with pytest.raises(CommitUnknownError):
            async with asyncio.timeout(5), producer.transaction(wait=wait):
                pytest.fail("the transaction before has no outcome yet")
        assert before.outcome is TransactionOutcome.UNKNOWN
        responses.lost = False
        async with producer.transaction(wait=wait) as transaction:
            assert before.outcome is TransactionOutcome.COMMITTED
            await producer.send("orders", b"next")
        assert transaction.outcome is TransactionOutcome.COMMITTED
        await asyncio.wait_for(settled_by_another(before), 5)
    assert await committed(config) == [b"next", b"yes"]


async def with_unknown_outcome(producer, value) -> Transaction:
    """A transaction that was to commit a record, and whose EndTxn or its response was lost."""
    transaction = producer.transaction()
    with pytest.raises(CommitUnknownError):
        async with transaction:
            await producer.send("orders", value)
    return transaction


async def settled_by_another(transaction) -> None:
    with pytest.raises(KohortError, match="not open"):
        await transaction.commit()


async def test_commit_may_be_called_again_while_the_next_transaction_settles_it(
    protocol, config, monkeypatch
) -> None:
    """It returns when the outcome is known, and does not wait for the next transaction."""
    async with Producer(config, **SHORT) as producer:
        responses = LostResponses(monkeypatch, "end_txn")
        before = await with_unknown_outcome(producer, b"yes")
        began = asyncio.Event()

        async def follow() -> None:
            async with producer.transaction(wait=True):
                began.set()
                await asyncio.Event().wait()

        following = asyncio.create_task(follow())
        await asyncio.sleep(0.1)
        again = asyncio.create_task(before.commit())
        await asyncio.sleep(0.1)
        responses.lost = False
        async with asyncio.timeout(5):
            await again
            await began.wait()
        assert before.outcome is TransactionOutcome.COMMITTED
        following.cancel()
        await asyncio.wait([following])
    assert await committed(config) == [b"yes"]


class LoopClockOfToday(LoopClock):
    """Its dates are those of the records that are sent."""

    ahead_ms = round(time.time() * 1_000) - 1_700_000_000_000


@pytest.mark.parametrize("clock", [LoopClockOfToday()])
@pytest.mark.parametrize("again", ["commit", "next transaction"])
async def test_a_commit_that_comes_too_late_is_known_to_be_aborted(
    monkeypatch, config, broker, again
) -> None:
    """The request never arrived, and the coordinator aborted the transaction after its timeout."""
    options = {**SHORT, "transaction_timeout_ms": 3_000}
    async with Producer(config, **options) as producer:
        requests = LostRequests(monkeypatch, "end_txn")
        transaction = await with_unknown_outcome(producer, b"no")
        assert transaction.outcome is TransactionOutcome.UNKNOWN
        await asyncio.sleep(10)  # also for the coordinator, whose clock is the loop's
        requests.lost = False
        with pytest.raises(ProducerFencedError, match="Its transaction is aborted"):
            await (
                transaction.commit() if again == "commit" else producer.transaction().__aenter__()
            )
        assert transaction.outcome is TransactionOutcome.ABORTED
    assert await committed(config) == []


async def test_an_outcome_stays_unknown_if_another_producer_has_the_id(
    protocol, config, monkeypatch
) -> None:
    """PRODUCER_FENCED does not tell whether an earlier request committed."""
    async with Producer(config, **SHORT) as producer:
        responses = LostResponses(monkeypatch, "end_txn")
        transaction = await with_unknown_outcome(producer, b"yes")
        async with Producer(config, transactional_id="shop"):
            responses.lost = False
            with pytest.raises(ProducerFencedError, match="is committed is not known"):
                await transaction.commit()
        assert transaction.outcome is TransactionOutcome.UNKNOWN
        with pytest.raises(ProducerFencedError):
            await producer.transaction(wait=True).__aenter__()
    assert await committed(config) == [b"yes"]


async def test_a_fenced_commit_is_aborted(producer, config) -> None:
    transaction = producer.transaction()
    with pytest.raises(ProducerFencedError):
        async with transaction:
            await producer.send_and_wait("orders", b"no")
            async with Producer(config, transactional_id="shop"):
                pass
    assert transaction.outcome is TransactionOutcome.ABORTED
    assert await committed(config) == []


async def test_the_next_epoch_may_come_later_than_the_commit(config, monkeypatch, caplog) -> None:
    """InitProducerId follows EndTxn when the protocol changes: the commit is known without it."""
    from kohort.client.net import Connection

    level = 0
    monkeypatch.setattr(Connection, "feature", lambda _self, _name: level)
    async with Producer(config, **SHORT) as producer:
        responses = LostResponses(monkeypatch, "init_producer_id")
        async with producer.transaction() as transaction:
            await producer.send("orders", b"yes")
            level = 2
        assert transaction.outcome is TransactionOutcome.COMMITTED
        assert "shop: committed, but init_producer_id" in caplog.text
        with pytest.raises(GaveUpError):
            async with producer.transaction():
                pass
        responses.lost = False
        async with producer.transaction():
            await producer.send("orders", b"next")
    assert await committed(config) == [b"next", b"yes"]


@pytest.mark.parametrize("how", ["exception", "abort", "refused record"])
async def test_an_aborted_transaction_says_so(producer, how) -> None:
    transaction = producer.transaction()
    with contextlib.suppress(ZeroDivisionError, TransactionAbortedError):
        async with transaction:
            await producer.send_and_wait("orders", b"no")
            if how == "abort":
                await transaction.abort()
                assert transaction.outcome is TransactionOutcome.ABORTED
            elif how == "refused record":
                await transaction.commit_offsets(
                    {FIRST: 1}, GroupMetadata(group_id="g", member_id="x", generation_id=3)
                )
            else:
                raise ZeroDivisionError
    assert transaction.outcome is TransactionOutcome.ABORTED


async def test_a_failed_transaction_says_so_also_if_it_cannot_be_aborted(
    protocol, config, monkeypatch, caplog
) -> None:
    async with Producer(config, **SHORT) as producer:
        responses = LostResponses(monkeypatch, "end_txn")
        transaction = producer.transaction()
        with pytest.raises(TransactionAbortedError):
            async with transaction:
                await producer.send("orders", b"no", timestamp=2**62)
        assert transaction.outcome is TransactionOutcome.ABORTED
        assert "abort failed" in caplog.text
        responses.lost = False
        async with producer.transaction():
            await producer.send("orders", b"yes")
    assert await committed(config) == [b"yes"]


@pytest.mark.parametrize("lost", [True, False])
async def test_a_time_limit_during_the_commit_tells_the_outcome(
    protocol, config, monkeypatch, lost
) -> None:
    """It is raised when the outcome is known; CommitUnknownError takes its place if it is not."""
    async with Producer(config, **SHORT) as producer:
        responses = LostResponses(monkeypatch, "end_txn")
        if not lost:
            asyncio.get_running_loop().call_later(0.7, setattr, responses, "lost", False)
        transaction = producer.transaction()
        with pytest.raises(CommitUnknownError if lost else TimeoutError):
            async with asyncio.timeout(0.5), transaction:
                await producer.send("orders", b"yes")
        wanted = TransactionOutcome.UNKNOWN if lost else TransactionOutcome.COMMITTED
        assert transaction.outcome is wanted
        responses.lost = False
        async with producer.transaction():
            pass
        assert transaction.outcome is TransactionOutcome.COMMITTED
    assert await committed(config) == [b"yes"]


async def test_a_producer_may_be_closed_when_the_outcome_is_not_known(
    protocol, config, monkeypatch
) -> None:
    options = {"transactional_id": "shop", "linger_ms": 0, "max_block_ms": 1_000}
    responses = LostResponses(monkeypatch, "end_txn")
    with pytest.raises(CommitUnknownError):
        async with Producer(config, **options) as producer, producer.transaction():
            await producer.send("orders", b"yes")
    responses.lost = False
    async with Producer(config, **options) as successor, successor.transaction():
        await successor.send("orders", b"next")
    assert await committed(config) == [b"next", b"yes"]


async def test_a_running_producer_goes_over_to_the_second_protocol(config, monkeypatch) -> None:
    from kohort.client.net import Connection

    level = 0
    monkeypatch.setattr(Connection, "feature", lambda _self, _name: level)
    async with Producer(config, transactional_id="shop") as producer, Cluster(config) as cluster:
        for number, level in enumerate([0, 2, 2, 2]):  # noqa: B007 - the lambda reads it
            with contextlib.suppress(ZeroDivisionError):
                async with producer.transaction() as transaction:
                    await producer.send("orders", b"%d" % number, partition=0)
                    await transaction.commit_offsets({FIRST: number}, GroupMetadata(group_id="g"))
                    if number == 2:
                        raise ZeroDivisionError
        (found,) = (await Admin(cluster).describe_producers([FIRST]))[FIRST]  # type: ignore[misc]
        # one by the change of the protocol, and one by each end of the second one
        assert found.producer_epoch == 3
        assert await Admin(cluster).committed(["g"], require_stable=True) == {
            "g": {FIRST: OffsetAndMetadata(offset=3)}
        }
    assert await committed(config) == [b"0", b"1", b"3"]


async def test_metrics_and_log_lines(producer, caplog) -> None:
    caplog.set_level(logging.DEBUG, "kohort.client.transactions")
    with pytest.raises(ZeroDivisionError):
        async with producer.transaction() as transaction:
            await transaction.commit_offsets({FIRST: 3}, GroupMetadata(group_id="g"))
            raise ZeroDivisionError
    async with producer.transaction():
        await producer.send("orders", b"yes")
        assert producer.metrics().transactions.state == "InTransaction"
    found = producer.metrics().transactions
    assert (found.transactional_id, found.state) == ("shop", "Ready")
    requests = (found.initializations, found.offset_commits, found.commits, found.aborts)
    assert [request.count for request in requests] == [1, 1, 1, 1]
    labels = {each.labels for each in samples(producer.metrics()) if "transaction" in each.family}
    assert labels == {("Ready",), ("init",), ("send_offsets",), ("commit",), ("abort",)}
    told = [record.getMessage() for record in caplog.records]
    assert any("committed" in each for each in told)
    assert any("aborted" in each for each in told)


async def test_administration_of_transactions(producer, config) -> None:
    async with Cluster(config) as cluster:
        admin = Admin(cluster)
        assert (await admin.describe_transactions(["shop"]))["shop"].start_ms is None
        async with producer.transaction():
            await producer.send_and_wait("orders", b"open", partition=0)
            described = await admin.describe_transactions(["shop", "unknown"])
            assert described["shop"].partitions == (FIRST,)
            assert described["unknown"].code is ErrorCode.transactional_id_not_found
            (listed,) = (await admin.list_transactions(pattern="s.*")).transactions
            assert (listed.transactional_id, listed.state) == ("shop", "Ongoing")
            assert (await admin.list_transactions(states=["Empty"])).transactions == ()
            (found,) = (await admin.describe_producers([FIRST]))[FIRST]  # type: ignore[misc]
            assert found.transaction_start_offset == 0
            # The coordinator knows it: it does not hang, however old it is.
            assert (
                await admin.find_hanging_transactions([FIRST], max_transaction_timeout_ms=0) == ()
            )
            await admin.abort_transaction(
                FIRST,
                producer_id=found.producer_id,
                producer_epoch=found.producer_epoch,
                coordinator_epoch=found.coordinator_epoch,
            )
            (after,) = (await admin.describe_producers([FIRST]))[FIRST]  # type: ignore[misc]
            assert after.transaction_start_offset is None
    assert await committed(config) == []


async def test_offsets_whose_commit_was_cancelled_abort(producer, config, monkeypatch) -> None:
    """The coordinator may have them or not: records without them would be written again."""
    from kohort.client.net import Connection

    send, sent = Connection.send, asyncio.Event()

    async def stalled(connection: Connection, name: str, /, **fields: Any) -> Any:
        if name == "txn_offset_commit":
            sent.set()
            await asyncio.Event().wait()
        return await send(connection, name, **fields)

    monkeypatch.setattr(Connection, "send", stalled)
    with pytest.raises(TransactionAbortedError, match="commit_offsets was cancelled"):
        async with producer.transaction() as transaction:
            await producer.send("orders", b"value")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await transaction.commit_offsets({FIRST: 1}, GROUP)
    assert sent.is_set()
    assert transaction.outcome is TransactionOutcome.ABORTED
    assert await committed(config) == []


async def test_offsets_whose_owner_lost_the_partition_meanwhile_abort(producer, config) -> None:
    """Whoever has it now may have begun before the offsets came, at those before them."""

    class Owner:
        is_lost = False

        def to_commit(self, offsets: Offsets) -> Any:
            if self.is_lost:
                raise GenerationEndedError("orders-0 was lost")
            self.is_lost = True
            return GROUP.to_commit(offsets)

        topic_ids = GROUP.topic_ids

    with pytest.raises(TransactionAbortedError, match="orders-0 was lost"):
        async with producer.transaction() as transaction:
            await producer.send("orders", b"value")
            await transaction.commit_offsets({FIRST: 1}, Owner())
    assert transaction.outcome is TransactionOutcome.ABORTED
    assert await committed(config) == []


class ReadFrom:
    """Owner of offsets of topics with these ids."""

    to_commit = GROUP.to_commit

    def __init__(self, ids: dict[TopicPartition, UUID]) -> None:
        self._ids = ids

    def topic_ids(self, _partitions: Any) -> dict[TopicPartition, UUID]:
        return self._ids


def topic_id(broker: Broker, name: str = "orders") -> UUID:
    found = broker.topics.get(name)
    assert found is not None
    return found.id


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The responses to TxnOffsetCommit."""
    from kohort.client.net import Connection

    send, responses = Connection.send, []

    async def noted(connection: Connection, name: str, /, **fields: Any) -> Any:
        response = await send(connection, name, **fields)
        if name == "txn_offset_commit":
            responses.append(response)
        return response

    monkeypatch.setattr(Connection, "send", noted)
    return responses


async def test_offsets_are_committed_by_topic_ids_if_all_are_known(
    protocol, producer, broker, config, commits
) -> None:
    """TxnOffsetCommit v6; the first protocol of transactions has no topic ids, as in Kafka."""
    other = TopicPartition("other", 0)
    broker.controller.topics.create("other", 1)
    ids = {FIRST: topic_id(broker), other: topic_id(broker, "other")}
    async with producer.transaction() as transaction:
        await transaction.commit_offsets({FIRST: 1, other: 2}, ReadFrom(ids))
        await transaction.commit_offsets({FIRST: 3, other: 4}, ReadFrom({FIRST: ids[FIRST]}))
        await transaction.commit_offsets({FIRST: 5, other: 6}, GROUP)
    by_id = [all(hasattr(topic, "topic_id") for topic in each.topics) for each in commits]
    assert by_id == [protocol == "by the first batch", False, False]
    async with Admin(config) as admin:
        found = (await admin.committed(["g"]))["g"]
    assert {tp: each.offset for tp, each in found.items()} == {FIRST: 5, other: 6}


async def test_offsets_of_a_recreated_topic_abort_and_the_producer_goes_on(
    producer, broker, config
) -> None:
    former = topic_id(broker)
    changes = broker.controller.topics.delete_topics(["orders"])
    assert await broker.controller.writer.change(changes) == {}
    broker.controller.topics.create("orders", 3)
    with pytest.raises(TransactionAbortedError) as raised:
        async with producer.transaction() as transaction:
            await producer.send("orders", b"value")
            await transaction.commit_offsets({FIRST: 1}, ReadFrom({FIRST: former}))
    assert isinstance(raised.value.__cause__, TopicRecreatedError)
    async with producer.transaction() as transaction:
        await producer.send("orders", b"next")
        await transaction.commit_offsets({FIRST: 1}, ReadFrom({FIRST: topic_id(broker)}))
    assert await committed(config) == [b"next"]


async def test_offsets_of_a_topic_that_the_coordinator_does_not_know_yet_are_sent_again(
    producer, broker, config, monkeypatch
) -> None:
    """As Java's producer does: UNKNOWN_TOPIC_ID and UNKNOWN_TOPIC_OR_PARTITION are retriable."""
    made, topics = topic_id(broker), broker.topics
    by_id, get, hidden = topics.by_id, topics.get, [True] * 3

    def unless_hidden(find: Any, given: Any) -> Any:
        is_it = given in (made, "orders")
        return None if is_it and hidden and hidden.pop() else find(given)

    async with producer.transaction() as transaction:
        monkeypatch.setattr(type(topics), "by_id", lambda _, given: unless_hidden(by_id, given))
        monkeypatch.setattr(type(topics), "get", lambda _, given: unless_hidden(get, given))
        await transaction.commit_offsets({FIRST: 7}, ReadFrom({FIRST: made}))
        assert not hidden
    async with Admin(config) as admin:
        assert (await admin.committed(["g"]))["g"][FIRST].offset == 7


@pytest.mark.parametrize(
    "code", [ErrorCode.stale_member_epoch, ErrorCode.group_id_not_found], ids=lambda c: c.name
)
async def test_a_commit_of_a_former_member_aborts_and_the_producer_goes_on(
    producer, broker, config, protocol, code
) -> None:
    """The group does not exist, or has the member in another epoch."""
    ids = {FIRST: topic_id(broker)}
    member = GroupMetadata(group_id="g", generation_id=3, member_id="m")
    if code is ErrorCode.stale_member_epoch:
        async with Cluster(config) as cluster:
            node = await cluster.coordinator_node("g", 0)
            connection = await cluster.connection(node)
            joined = await connection.send(
                "consumer_group_heartbeat",
                group_id="g",
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=["orders"],
                topic_partitions=[],
            )
            assert joined.error_code is ErrorCode.none
    owner = ReadFrom(ids)
    owner.to_commit = member.to_commit  # type: ignore[method-assign]
    with pytest.raises(TransactionAbortedError) as raised:
        async with producer.transaction() as transaction:
            await transaction.commit_offsets({FIRST: 1}, owner)
    cause = raised.value.__cause__
    assert isinstance(cause, KafkaError)
    by_name = protocol == "by request"
    assert cause.code is (ErrorCode.illegal_generation if by_name else code)
    async with producer.transaction():
        await producer.send("orders", b"next")
    assert await committed(config) == [b"next"]


async def test_tasks_that_are_cancelled_while_both_end_a_transaction(
    producer, config, monkeypatch
) -> None:
    """One commits inside the block that the other leaves; the transaction does not stay open."""
    delivering = asyncio.Event()

    async def deliver(_transactions: Transactions) -> None:
        delivering.set()
        await asyncio.Event().wait()

    async def block() -> None:
        async with transaction:
            await producer.send("orders", b"value")
            others.append(asyncio.create_task(transaction.commit()))
            await delivering.wait()

    others: list[asyncio.Task[None]] = []
    transaction = producer.transaction()
    monkeypatch.setattr(Transactions, "deliver", deliver)
    task = asyncio.create_task(block())
    await delivering.wait()
    for _ in range(3):
        await asyncio.sleep(0)
    for each in (task, *others):
        each.cancel()
    await asyncio.wait([task, *others])
    monkeypatch.undo()
    assert transaction.outcome is TransactionOutcome.ABORTED
    async with producer.transaction():
        await producer.send("orders", b"next")
    assert await committed(config) == [b"next"]
