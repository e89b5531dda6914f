"""A KeyboardInterrupt at every point of a blocking program's transaction.

Points are counted on the client's own loop. At one of them the main thread gets a signal, wherever
it waits. The program goes on as docs/client.md says; each result counts once, with its offset.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from client.points import Points, Watch
from kohort.client import ClientConfig, TransactionOutcome
from kohort.client.concurrency import background_loop
from kohort.client.sync import Consumer, ConsumerGroup, Producer, run
from kohort.server.broker import Broker
from kohort.server.config.config import Config

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
    signal.signal(signal.SIGUSR1, before)


UNSAFE = ("__enter__", "__exit__", "send")
"""There an interrupt may have Python leave a lock locked, or a scope without its end."""
LINES = ("client/sync/producer.py", "client/concurrency/background.py")


def totals(config: ClientConfig) -> list[bytes | None]:
    options: dict[str, Any] = {"isolation_level": "read_committed", "start_offset": "first"}
    with Consumer(config, **options) as consumer:
        consumer.assign_topics("totals")
        return [each.value for each in consumer.read_to(consumer.end_offsets(consumer.assignment))]


@contextmanager
def tracing(trace: Any) -> Iterator[None]:
    """This thread's trace function is `trace`."""
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def traced(points: Points) -> Iterator[None]:
    """Count the lines of the blocking client that this thread executes."""

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        if not frame.f_code.co_filename.endswith(LINES):
            return None
        if event == "line" and frame.f_code.co_name not in UNSAFE:
            points.count()
        return trace

    with tracing(trace):
        yield


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
            ConsumerGroup(
                "totals", topics=["orders"], cluster=None, bootstrap=config.bootstrap
            ) as group,
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


READS = ("client/sync/group.py", "client/sync/consumer.py", "client/concurrency/background.py")


@contextmanager
def each_instruction(points: Points, *names: str) -> Iterator[None]:
    """Count the instructions of these functions of the blocking clients in this thread."""

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        code = frame.f_code
        if not code.co_filename.endswith(READS) or code.co_name not in names:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            points.count()
        return trace

    with tracing(trace):
        yield


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("reader", ["group", "consumer"])
def test_an_interrupt_while_waiting_for_a_batch_loses_none(
    config: ClientConfig, reader: str
) -> None:
    """The program catches it, and goes on; a batch that it did not get comes with the next call."""
    values = [b"first", b"second", b"third"]
    with Producer(config, batch_size=1) as feeder:
        for each in values:
            feeder.send("orders", each)
    found: list[bytes | None] = []
    at = 0
    with opened(reader, config) as (take, commit):
        while len(found) < len(values):
            at += 1
            points = Points(at, interrupt)
            try:
                with each_instruction(points, "_next", "_finish", "_take", "run", "start"):
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
        with ConsumerGroup("g", topics=["orders"], bootstrap=config.bootstrap) as group:
            batches = group.batches(max_wait_ms=10_000)
            yield lambda: next(batches), group.commit
    else:
        with Consumer(config, group_id="g") as consumer:
            consumer.assign_topics("orders")
            yield lambda: consumer.next_batch(max_wait_ms=10_000), consumer.commit
