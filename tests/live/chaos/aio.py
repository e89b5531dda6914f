"""Producers and members of aiokafka, and of Kohort's own client, as tasks of one event loop."""

import asyncio
import contextlib
import faulthandler
import logging
import random
import warnings
from collections.abc import Awaitable, Iterator
from pathlib import Path

import aiokafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError as AioKafkaError

from kohort import client as kohort
from kohort.errors import KohortError
from live.chaos.ledger import Ledger, Partition, commit_mark
from live.chaos.settings import (
    HEARTBEAT_MS,
    PARTITIONS,
    RECORDS_A_SECOND,
    SESSION_MS,
    SILENT_SHARE,
    UNACKNOWLEDGED,
    MemberPlan,
    ProducerPlan,
)

logger = logging.getLogger("kohort.chaos")

RETRY_SECONDS = 0.2


@contextlib.contextmanager
def complaints_in(file: Path) -> Iterator[None]:
    """Write to a file what the clients log and warn of while their servers are down."""
    loggers = [logging.getLogger(name) for name in ("aiokafka", "kohort", "asyncio", "librdkafka")]
    handler = logging.FileHandler(file)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        with warnings.catch_warnings():
            # Of producers whose start failed.
            warnings.filterwarnings("ignore", "Unclosed AIOKafkaProducer", ResourceWarning)
            yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.propagate = True
        handler.close()


def write_stacks(file: Path) -> None:
    """Append where each task of the event loop is, and each thread."""
    with file.open("a") as log:
        for task in asyncio.all_tasks():
            task.print_stack(file=log)
        faulthandler.dump_traceback(log)


class Sending:
    """The records of one topic, over the lives of its producers."""

    def __init__(self, plan: ProducerPlan, ledger: Ledger, rng: random.Random) -> None:
        self.plan, self.ledger, self.rng = plan, ledger, rng
        self.client = plan.name
        self.value = 0
        self.waiting: set[asyncio.Task[None]] = set()

    async def one_life(self, producer, stop: asyncio.Event) -> None:
        """Send through this producer for a while, and wait for every outcome."""
        async with producer:
            loop = asyncio.get_running_loop()
            ends = loop.time() + self.rng.uniform(*self.plan.life_seconds)
            while loop.time() < ends and not stop.is_set():
                if len(self.waiting) < UNACKNOWLEDGED:
                    await self._send(producer)
                await asyncio.sleep(1 / RECORDS_A_SECOND)
            if self.waiting:
                await asyncio.wait(self.waiting, timeout=60)
            if self.waiting:
                self.ledger.violation(f"{self.client} has undelivered records")

    async def _send(self, producer) -> None:
        partitions = self.ledger.partitions.get(self.plan.topic, PARTITIONS)
        partition = (self.plan.topic, self.value % partitions)
        value, self.value = self.value, self.value + 1
        delivery = await producer.send(partition[0], b"%d" % value, partition=partition[1])
        task = asyncio.ensure_future(self._settle(delivery, partition, value))
        self.waiting.add(task)
        task.add_done_callback(self.waiting.discard)

    async def _settle(self, delivery: Awaitable, partition: Partition, value: int) -> None:
        try:
            metadata = await delivery
        except (AioKafkaError, KohortError) as error:
            self.ledger.violation(f"{self.client} could not deliver {value}: {error!r}")
        else:
            self.ledger.record_acknowledged(self.client, partition, metadata.offset, value)


async def produce(
    plan: ProducerPlan, address: str, ledger: Ledger, stop: asyncio.Event, rng: random.Random
) -> None:
    sending = Sending(plan, ledger, rng)
    while not stop.is_set():
        if plan.client == "aiokafka":
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=address,
                enable_idempotence=plan.idempotent,
                acks="all",
                linger_ms=5,
                request_timeout_ms=60_000,
            )
        else:
            producer = kohort.Producer(
                kohort.ClientConfig(bootstrap=address), enable_idempotence=plan.idempotent
            )
        try:
            await sending.one_life(producer, stop)
        except (AioKafkaError, KohortError) as error:  # the server is down as the client begins
            logger.warning("%s gave up: %r", plan.name, error)
            ledger.replaced[plan.name] += 1
            await asyncio.sleep(RETRY_SECONDS)


# --- aiokafka ---


class Listener(aiokafka.ConsumerRebalanceListener):
    def __init__(self, plan: MemberPlan, consumer, ledger: Ledger) -> None:
        self.plan, self.consumer, self.ledger = plan, consumer, ledger

    def on_partitions_revoked(self, revoked) -> None:
        pass

    def on_partitions_assigned(self, assigned) -> None:
        coordinator = self.consumer._coordinator
        self.ledger.record_owned(
            self.plan.group,
            coordinator.generation if self.plan.is_classic else None,
            coordinator.member_id,
            [(each.topic, each.partition) for each in assigned],
        )


async def consume_aiokafka(
    plan: MemberPlan, address: str, ledger: Ledger, stop: asyncio.Event, rng: random.Random
) -> None:
    loop = asyncio.get_running_loop()
    while not stop.is_set():
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=address,
            group_id=plan.group,
            client_id=plan.name,
            enable_auto_commit=False,
            # It takes a coordinator that is loading for one without offsets: aiokafka 0.14 does not
            # read the error of an OffsetFetch response. Then the consumer ends.
            auto_offset_reset="none",
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        consumer.subscribe(list(plan.topics), listener=Listener(plan, consumer, ledger))
        try:
            await consumer.start()
            ends = loop.time() + rng.uniform(*plan.life_seconds)
            while loop.time() < ends and not stop.is_set():
                await _step(plan, consumer, ledger)
        # KeyError: of a request that timed out on a connection that had ended (aiokafka 0.14).
        except (AioKafkaError, KeyError) as error:
            logger.warning("%s gave up: %r", plan.name, error)
            ledger.replaced[plan.name] += 1
            await asyncio.sleep(RETRY_SECONDS)
        finally:
            await _stopped(consumer)


async def _stopped(consumer) -> None:
    """Stop it; its fetcher passes on a cancellation of its own if the server is down."""
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        if asyncio.current_task().cancelling():
            raise


async def _step(plan: MemberPlan, consumer, ledger: Ledger) -> None:
    following = {}
    for tp, messages in (await consumer.getmany(timeout_ms=200)).items():
        for message in messages:
            ledger.record_read(plan.name, tuple(tp), message.offset, message.value)
        following[tp] = messages[-1].offset + 1
    if following:
        try:
            await consumer.commit(
                {tp: (offset, commit_mark(plan.name)) for tp, offset in following.items()}
            )
        except (AioKafkaError, ValueError):  # ValueError: a partition that it no longer has
            return
        for tp, offset in following.items():
            ledger.record_committed(plan.name, plan.group, tuple(tp), offset)


# --- Kohort's own client ---


async def consume_kohort(
    plan: MemberPlan, address: str, ledger: Ledger, stop: asyncio.Event, rng: random.Random
) -> None:
    async def work(generation, partition) -> None:
        async for batch in generation.records(partition):
            for record in batch:
                ledger.record_read(plan.name, tuple(partition), record.offset, record.value)
            reached = kohort.OffsetAndMetadata(
                offset=batch.next_offset, metadata=commit_mark(plan.name)
            )
            await generation.commit({partition: reached})
            ledger.record_committed(plan.name, plan.group, tuple(partition), batch.next_offset)

    async def live(group) -> None:
        async with group:
            async for generation in group:
                ledger.record_owned(
                    plan.group,
                    generation.id if plan.is_classic else None,
                    generation.member_id,
                    [tuple(each) for each in generation.assignment],
                )
                # A commit that came too late, or found no server for too long, ends a generation.
                with contextlib.suppress(ExceptionGroup):
                    async with generation:
                        for partition in generation.assignment:
                            generation.start(work, partition)

    while not stop.is_set():
        silent = not plan.is_classic and rng.random() < SILENT_SHARE
        group = kohort.ConsumerGroup(
            plan.group,
            topics=list(plan.topics),
            bootstrap=address,
            client_id=plan.name,
            assignors=["range"],
            join_group_backoff_ms=500,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            protocol=rng.choice(plan.protocols),
            leave_group_on_close=False if silent else None,
        )
        asyncio.get_running_loop().call_later(rng.uniform(*plan.life_seconds), group.stop)
        stopping = asyncio.ensure_future(stop.wait())
        stopping.add_done_callback(lambda _, group=group: group.stop())  # type: ignore[misc]
        try:
            await live(group)
        except KohortError as error:
            ledger.violation(f"{plan.name} failed: {error!r}")
            await asyncio.sleep(RETRY_SECONDS)
        finally:
            stopping.cancel()
