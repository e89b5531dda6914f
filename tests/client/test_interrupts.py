"""A KeyboardInterrupt at every point of a blocking program's transaction, commit and close.

Points are counted on the client's own loop. At one of them the main thread gets a signal, wherever
it waits. The program goes on as docs/client.md says; each result counts once, with its offset.
"""

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import CodeType, FrameType
from typing import Any, Literal

import pytest

from client.points import Points, Watch
from kohort.client import (
    Admin,
    ClientConfig,
    CommitError,
    OffsetAndMetadata,
    TransactionOutcome,
    UndeliveredError,
)
from kohort.client.concurrency import background_loop
from kohort.client.group import OfferedBatch
from kohort.client.net import Connection
from kohort.client.produce.batch import ProduceBatch
from kohort.client.sync import Consumer, ConsumerGroup, Producer, run
from kohort.errors import ErrorCode, KafkaError, unless_error
from kohort.server.broker import Broker
from kohort.server.config.config import Config
from kohort.types import TopicPartition

COMMITTED = TransactionOutcome.COMMITTED


@pytest.fixture
def config() -> Iterator[ClientConfig]:
    settings = {
        "listeners": "127.0.0.1:0",
        "storage": "memory",
        "group.initial.rebalance.delay.ms": "0",
    }
    broker = Broker(Config(settings))
    run(broker.__aenter__())
    try:
        yield ClientConfig(bootstrap=str(broker.address), retry_backoff_ms=5)
    finally:
        run(broker.__aexit__(None, None, None))


class Interrupts:
    """Signals the main thread, which raises KeyboardInterrupt while it is inside the block."""

    def __init__(self) -> None:
        self.armed = False

    def __call__(self) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    def handle(self, _number: int, frame: FrameType | None) -> None:
        if not self.armed:
            return
        assert frame is not None
        if frame.f_code.co_filename.endswith(("/threading.py", "/futures/_base.py")) and (
            frame.f_code is not threading.Condition.wait.__code__
        ):
            threading.Timer(0.0005, self).start()  # Python might leave a lock locked
            return
        self.armed = False
        raise KeyboardInterrupt


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    made = Interrupts()
    before = signal.signal(signal.SIGUSR1, made.handle)
    yield made
    made.armed = False
    signal.signal(signal.SIGUSR1, before)


UNSAFE = ("__enter__", "__exit__")
"""There an interrupt may leave a scope without its end."""
LINES = ("client/sync/producer.py", "client/concurrency/background.py")


def totals(config: ClientConfig) -> list[bytes | None]:
    options: dict[str, Any] = {"isolation_level": "read_committed", "start_offset": "first"}
    with Consumer(config, **options) as consumer:
        consumer.assign_topics("totals")
        return [each.value for each in consumer.read_to(consumer.end_offsets(consumer.assignment))]


@contextmanager
def counted(
    points: Points, counted_event: Literal["line", "opcode"], within: Callable[[CodeType], bool]
) -> Iterator[None]:
    """Count the lines or instructions that this thread executes in functions with such code."""

    def enter(frame: FrameType, _event: str, _argument: object) -> Any:
        if not within(frame.f_code):
            return None
        frame.f_trace_opcodes = counted_event == "opcode"
        return execute

    def execute(_frame: FrameType, event: str, _argument: object) -> Any:
        if event == counted_event:
            points.count()
        return execute

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def traced(points: Points) -> AbstractContextManager[None]:
    """Count the lines of the blocking client that this thread executes."""
    return counted(
        points,
        "line",
        lambda code: code.co_filename.endswith(LINES) and code.co_name not in UNSAFE,
    )


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("where", ["where the loop waits", "in a line of the client"])
def test_each_record_counts_once(config: ClientConfig, interrupts: Interrupts, where: str) -> None:
    loop = background_loop().loop
    is_signal = where == "where the loop waits"
    counting = Watch(loop) if is_signal else traced
    fed = [b"0"]

    def feed() -> None:
        with Producer(config) as feeder:
            feeder.send_and_wait("orders", fed[-1])

    def attempt(batch: Any, transaction: Any, points: Points) -> None:
        with counting(points):
            try:
                interrupts.armed = True
                with transaction:
                    for record in batch:
                        producer.send("totals", record.value)
                    transaction.commit_offsets(
                        {batch.topic_partition: batch.next_offset}, group.generation
                    )
                interrupts.armed = False
            except KeyboardInterrupt:
                pass
            interrupts.armed = False

    at = 0
    feed()
    try:
        with (
            Producer(config, transactional_id="totals-1", linger_ms=0) as producer,
            ConsumerGroup("totals", topics=["orders"], bootstrap=config.bootstrap) as group,
        ):
            for batch in group:
                transaction, at = producer.transaction(), at + 1
                points = Points(at, interrupts if is_signal else interrupt)
                attempt(batch, transaction, points)
                if transaction.outcome is not COMMITTED:
                    group.seek(batch.topic_partition, batch.first_offset)
                elif batch.next_offset == len(fed):
                    if not points.is_struck:
                        break
                    fed.append(b"%d" % len(fed))
                    feed()
    finally:
        loop.call_soon_threadsafe(loop.set_task_factory, None)
    assert totals(config) == fed


READS = (
    "client/sync/group.py",
    "client/sync/consumer.py",
    "client/sync/producer.py",
    "client/concurrency/background.py",
)


def each_instruction(points: Points, *names: str) -> AbstractContextManager[None]:
    """Count the instructions of these functions of the blocking clients in this thread."""
    return counted(
        points,
        "opcode",
        lambda code: code.co_filename.endswith(READS) and code.co_name in names,
    )


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("reader", ["group", "consumer"])
def test_an_interrupt_while_waiting_for_a_batch_loses_none(
    config: ClientConfig, reader: str
) -> None:
    """The program catches it, and goes on; a batch that it did not get comes with the next call."""
    values = [b"first", b"second", b"third"]
    feed(config, values)
    found: list[bytes | None] = []
    at = 0
    with opened(reader, config) as (take, commit):
        while len(found) < len(values):
            at += 1
            points = Points(at, interrupt)
            try:
                with each_instruction(
                    points, "_next", "_finish", "_take", "_fetch_batch", "run", "run_to_its_end"
                ):
                    batch = take()
            except KeyboardInterrupt:
                continue
            assert batch is not None, f"none comes after an interrupt at instruction {at - 1}"
            found += [each.value for each in batch]
            commit()
            at = 0
    assert found == values


@contextmanager
def opened(reader: str, config: ClientConfig) -> Iterator[Any]:
    """How to take the next batch, and how to commit it."""
    if reader == "group":
        with ConsumerGroup(GROUP, topics=["orders"], bootstrap=config.bootstrap) as group:
            batches = group.batches(max_wait_ms=10_000)
            yield lambda: next(batches), group.commit
    else:
        with Consumer(config, group_id=GROUP) as consumer:
            consumer.assign_topics("orders")
            yield lambda: consumer.next_batch(max_wait_ms=10_000), consumer.commit


GROUP = "g"
HERE = TopicPartition("orders", 0)
DRAIN_S = 40
ENDS = ("commit", "close", "flush", "run_to_its_end", "run_uncancelled", "_drop", "_leave_batch")


def feed(config: ClientConfig, values: Iterable[bytes]) -> None:
    with Producer(config, batch_size=1) as feeder:
        for value in values:
            feeder.send("orders", value)


def committed(admin: Admin) -> int | None:
    found = unless_error(run(admin.committed([GROUP]))[GROUP]).get(HERE)
    return None if found is None else found.offset


@pytest.fixture
def admin(config: ClientConfig) -> Iterator[Admin]:
    made = Admin(config)
    yield made
    run(made.close())


def each_line(points: Points, names: Collection[str] = ENDS) -> AbstractContextManager[None]:
    """Count the lines of these functions of the blocking clients in this thread."""
    return counted(
        points,
        "line",
        lambda code: code.co_filename.endswith(READS) and code.co_name in names,
    )


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    """All that are opened."""
    opened: list[Connection] = []
    made = Connection.connection_made

    def connection_made(connection: Connection, transport: asyncio.BaseTransport) -> None:
        opened.append(connection)
        made(connection, transport)

    monkeypatch.setattr(Connection, "connection_made", connection_made)
    return opened


def still_open(connections: list[Connection]) -> list[Connection]:
    return [connection for connection in connections if not connection.closed]


def busy_client(kind: str, config: ClientConfig) -> Any:
    """A client with something to end: a batch in work, a commit that waits, or a record."""
    if kind == "group":
        group = ConsumerGroup(GROUP, topics=["orders"], bootstrap=config.bootstrap).__enter__()
        next(group)
        return group
    if kind == "consumer":
        consumer = Consumer(config, group_id=GROUP, enable_auto_commit=True)
        consumer.assign_topics("orders")
        next(consumer)
        return consumer
    producer = Producer(config, linger_ms=60_000)
    producer.send("orders", b"second")
    return producer


def test_a_group_interrupted_as_it_takes_a_batch_and_stopped_ends_before_its_drain_timeout(
    config: ClientConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(config, [b"1", b"2"])
    take = OfferedBatch.take

    def interrupted(offered: OfferedBatch) -> bool:
        take(offered)
        raise KeyboardInterrupt

    with ConsumerGroup(
        GROUP,
        topics=["orders"],
        bootstrap=config.bootstrap,
        drain_timeout_ms=DRAIN_S * 1000,
        rebalance_timeout_ms=2 * DRAIN_S * 1000,
    ) as group:
        monkeypatch.setattr(OfferedBatch, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(group)
        monkeypatch.undo()
        began = time.monotonic()
        group.stop()
        assert list(group) == []
    assert time.monotonic() - began < DRAIN_S / 2
    with ConsumerGroup(GROUP, topics=["orders"], bootstrap=config.bootstrap) as group:
        assert next(group).first_offset == 0


def strikes_in_the_request(
    monkeypatch: pytest.MonkeyPatch, api: str, strike: Callable[[], None]
) -> None:
    """Call `strike` once when a request of this API is about to be sent, which then takes long."""
    send = Connection.send
    struck: list[str] = []

    async def striking(connection: Connection, name: str, /, **fields: Any) -> Any:
        if name.startswith(api) and not struck:
            struck.append(name)
            strike()
            await asyncio.sleep(0.1)
        return await send(connection, name, **fields)

    monkeypatch.setattr(Connection, "send", striking)


@pytest.mark.parametrize("reader", ["group", "consumer"])
def test_an_interrupted_commit_is_done_when_it_is_told(
    admin: Admin,
    config: ClientConfig,
    interrupts: Interrupts,
    monkeypatch: pytest.MonkeyPatch,
    reader: str,
) -> None:
    feed(config, [b"first"])
    with opened(reader, config) as (take, commit):
        assert take() is not None
        strikes_in_the_request(monkeypatch, "offset_commit", interrupts)
        interrupts.armed = True
        with pytest.raises(KeyboardInterrupt) as told:
            commit()
        assert committed(admin) == 1
        assert told.value.__cause__ is None


@pytest.mark.parametrize("reader", ["group", "consumer"])
def test_an_interrupted_commit_that_is_refused_says_so(
    admin: Admin,
    config: ClientConfig,
    interrupts: Interrupts,
    monkeypatch: pytest.MonkeyPatch,
    reader: str,
) -> None:
    feed(config, [b"first"])
    with opened(reader, config) as (take, commit):
        assert take() is not None
        strikes_in_the_request(monkeypatch, "offset_commit", interrupts)
        interrupts.armed = True
        with pytest.raises(KeyboardInterrupt) as told:
            commit({HERE: OffsetAndMetadata(offset=1, metadata="x" * 10_000)})
        assert isinstance(told.value.__cause__, CommitError)
        assert committed(admin) is None


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("reader", ["group", "consumer"])
def test_a_commit_may_be_interrupted_anywhere_and_repeated(
    admin: Admin, config: ClientConfig, reader: str
) -> None:
    """Also one that goes back: the consumer may not take it for done already."""
    feed(config, [b"first", b"second"])
    with opened(reader, config) as (take, commit):
        assert take() is not None
        at, wanted = 0, 1
        is_struck = True
        while is_struck:
            at, wanted = at + 1, 3 - wanted
            points = Points(at, interrupt)
            with suppress(KeyboardInterrupt), each_instruction(points, *ENDS):
                commit({HERE: wanted})
            is_struck = points.is_struck
            before = committed(admin)
            assert before in {wanted, 3 - wanted} or (before is None and at == 1)
            commit({HERE: wanted})
            assert committed(admin) == wanted


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("kind", ["group", "consumer", "producer"])
def test_a_close_may_be_interrupted_anywhere_and_repeated(
    admin: Admin, config: ClientConfig, kind: str, connections: list[Connection]
) -> None:
    feed(config, [b"first"])
    run(admin.committed([GROUP]))
    at, is_struck = 0, True
    while is_struck:
        at += 1
        connections.clear()
        client = busy_client(kind, config)
        points = Points(at, interrupt)
        with suppress(KeyboardInterrupt), each_line(points):
            client.close()
        is_struck = points.is_struck
        client.close()
        assert connections
        assert still_open(connections) == [], f"after an interrupt at line {at}"
        assert unless_error(run(admin.describe_groups([GROUP]))[GROUP]).members == ()


@pytest.mark.parametrize("kind", ["group", "consumer", "producer"])
def test_an_interrupt_of_a_close_that_waits_is_raised_when_it_has_closed(
    config: ClientConfig,
    kind: str,
    interrupts: Interrupts,
    monkeypatch: pytest.MonkeyPatch,
    connections: list[Connection],
) -> None:
    feed(config, [b"first"])
    connections.clear()
    client = busy_client(kind, config)
    close = Connection.close

    async def slowly(connection: Connection) -> None:
        interrupts()
        await asyncio.sleep(0.1)
        await close(connection)

    monkeypatch.setattr(Connection, "close", slowly)
    interrupts.armed = True
    with pytest.raises(KeyboardInterrupt):
        client.close()
    assert connections
    assert still_open(connections) == []
    client.close()


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_an_interrupted_flush_tells_what_it_lost(config: ClientConfig) -> None:
    """Each line: the error that `flush` did not raise is the cause, or a later call has it."""
    at, is_struck = 0, True
    feed(config, [b"first"])
    with Producer(config) as producer:
        while is_struck:
            at += 1
            producer.send("orders", b"x" * 2_000_000)  # more than max_request_size
            points = Points(at, interrupt)
            with each_line(points):
                try:
                    producer.flush()
                except (KeyboardInterrupt, UndeliveredError) as error:
                    told: BaseException = error
            is_struck = points.is_struck
            if not tells_of_losses(told):
                with pytest.raises(UndeliveredError):
                    producer.flush()


def tells_of_losses(error: BaseException | None) -> bool:
    """Whether it, or what came before it, has the errors of records."""
    return error is not None and (
        isinstance(error, UndeliveredError) or tells_of_losses(error.__cause__ or error.__context__)
    )


STDLIB = ("/threading.py", "/futures/_base.py", "/asyncio/base_events.py")


def each_instruction_of(points: Points, file: str) -> AbstractContextManager[None]:
    """Count the instructions that this thread executes in this file and the standard library."""
    return counted(points, "opcode", lambda code: code.co_filename.endswith((file, *STDLIB)))


def answers(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop still runs what it is given."""
    alive = threading.Event()
    loop.call_soon_threadsafe(alive.set)
    return alive.wait(60)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_an_interrupted_call_leaves_no_lock_locked() -> None:
    """In any instruction, also of the standard library: the loop would wait for the lock."""
    at, is_struck = 0, True

    async def soon() -> int:
        await asyncio.sleep(0)
        return 1

    while is_struck:
        at += 1
        points = Points(at, interrupt)
        with suppress(KeyboardInterrupt), each_instruction_of(points, "concurrency/background.py"):
            assert run(soon()) == 1
        is_struck = points.is_struck
        assert answers(background_loop().loop), f"after an interrupt at instruction {at}"
        assert run(soon()) == 1


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
def test_an_interrupted_send_leaves_no_lock_locked(config: ClientConfig) -> None:
    at, is_struck = 0, True
    with Producer(config, linger_ms=0) as producer:
        producer.send_and_wait("orders", b"first")
        while is_struck:
            at += 1
            points = Points(at, interrupt)
            delivery = None
            with (
                suppress(KeyboardInterrupt),
                each_instruction_of(points, "sync/producer.py"),
            ):
                delivery = producer.send("orders", b"value")
            is_struck = points.is_struck
            assert answers(background_loop().loop), f"after an interrupt at instruction {at}"
            assert producer.send("orders", b"next").result(timeout_s=60).offset > 0
            assert delivery is None or delivery.done()


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("why", ["refused", "undelivered"])
def test_the_error_of_an_interrupted_result_is_not_lost(
    config: ClientConfig, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """The interrupt has it as its cause, or `flush` raises it."""
    feed(config, [b"first"])
    at, is_struck = 0, True
    with Producer(config, linger_ms=0) as producer:
        while is_struck:
            at += 1
            value = b"x" * (2_000_000 + at)
            if why == "refused":
                text = f"{len(value) + 32} bytes"
                delivery = producer.send("orders", value)
            else:
                text = f"attempt {at}"
                fail_batches(monkeypatch, text)
                delivery = producer.send("orders", b"second")
            points = Points(at, interrupt)
            with each_line(points, ("result", "run_to_its_end", "start", "wait", "exception")):
                try:
                    delivery.result()
                except (KeyboardInterrupt, KafkaError) as error:
                    told: BaseException = error
            is_struck = points.is_struck
            if not tells(told, text):
                with pytest.raises(UndeliveredError, match=text):
                    producer.flush()
        producer.flush()


def fail_batches(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """No batch that is sent from now on gets into the log."""

    def fail(batch: ProduceBatch, _base_offset: int, _append_time: int) -> None:
        batch.fail(KafkaError(ErrorCode.invalid_record, text))

    monkeypatch.setattr(ProduceBatch, "succeed", fail)


def tells(error: BaseException | None, text: str) -> bool:
    """Whether it, or what came before it, has that text."""
    return error is not None and (
        text in str(error) or tells(error.__cause__, text) or tells(error.__context__, text)
    )
