"""Clients that produce and commit all the time, and how long each of them had to wait."""

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Final, NamedTuple, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition

from benchmarks.load import LoadError
from benchmarks.raw_members import Member
from kohort.client import ClientConfig
from kohort.client import Consumer as KohortConsumer
from kohort.client import Producer as KohortProducer
from kohort.client.cluster import Cluster
from kohort.coordinator_common import partition_for
from kohort.types import TopicPartition

TOPIC: Final = "gaps"
PARTITIONS: Final = 6
SHARDS: Final = 50
GROUPS_OF_EACH: Final = 6
EVERY_S: Final = 0.05
"""Pause between two requests of one partition or group."""
WITHIN_S: Final = 60.0
RESPONSE_WITHIN_MS: Final = 2_000
"""Time after which clients give a node up that does not respond: by default they wait 30 to 60 s.
"""


class Subject(NamedTuple):
    """A request that one client repeats."""

    client: str
    what: str
    partition: int
    """Partition of the topic, or of the groups' topic."""


class Clients:
    """All clients at work, and when each of their requests succeeded."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._done: dict[Subject, list[float]] = {}
        self._failed: dict[Subject, str] = {}
        """Why a request failed last."""
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._ended = threading.Event()

    async def __aenter__(self) -> Self:
        await self._start_members()
        await self._start_kohort()
        await self._start_aiokafka()
        await self._start_librdkafka()
        await self.all_since(time.monotonic())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    def _group(self, client: str, number: int, what: str = "commit") -> tuple[str, Subject]:
        """A group whose shard follows from its number; the numbers are spread over all shards."""
        shard = number * SHARDS // GROUPS_OF_EACH
        names = (f"{client}-{what}-{each}" for each in itertools.count())
        group = next(each for each in names if partition_for(each, SHARDS) == shard)
        return group, Subject(client, what, shard)

    def _repeat(self, subject: Subject, work: Callable[[], Awaitable[object]]) -> None:
        done = self._done[subject] = []

        async def repeat() -> None:
            while True:
                try:
                    await work()
                    done.append(time.monotonic())
                except Exception as error:  # of each library; it is tried again
                    self._failed[subject] = repr(error)
                await asyncio.sleep(EVERY_S)

        self._tasks.append(asyncio.create_task(repeat()))

    @property
    def _config(self) -> ClientConfig:
        return ClientConfig(bootstrap=self._bootstrap, request_timeout_ms=RESPONSE_WITHIN_MS)

    async def _start_members(self) -> None:
        cluster = await self._stack.enter_async_context(Cluster(self._config))
        for number in range(GROUPS_OF_EACH):
            group, subject = self._group("kohort", number, "heartbeat")
            member = Member(cluster, group)
            await member.join()
            self._repeat(subject, member.heartbeat)

    async def _start_kohort(self) -> None:
        config = self._config
        producer = await self._stack.enter_async_context(KohortProducer(config))
        for partition in range(PARTITIONS):
            self._repeat(
                Subject("kohort", "produce", partition),
                partial(producer.send_and_wait, TOPIC, b"x", partition=partition),
            )
        for number in range(GROUPS_OF_EACH):
            group, subject = self._group("kohort", number)
            consumer = KohortConsumer(config, group_id=group)
            await self._stack.enter_async_context(consumer)
            await consumer.assign([TopicPartition(TOPIC, 0)])
            self._repeat(subject, partial(consumer.commit, {TopicPartition(TOPIC, 0): 1}))

    async def _start_aiokafka(self) -> None:
        settings = {
            "bootstrap_servers": self._bootstrap,
            "request_timeout_ms": RESPONSE_WITHIN_MS,
        }
        producer = AIOKafkaProducer(**settings, enable_idempotence=True)
        await self._stack.enter_async_context(producer)
        for partition in range(PARTITIONS):
            self._repeat(
                Subject("aiokafka", "produce", partition),
                partial(producer.send_and_wait, TOPIC, b"x", partition=partition),
            )
        for number in range(GROUPS_OF_EACH):
            group, subject = self._group("aiokafka", number)
            consumer = AIOKafkaConsumer(**settings, group_id=group, enable_auto_commit=False)
            consumer.assign([AioTopicPartition(TOPIC, 0)])
            await self._stack.enter_async_context(consumer)
            self._repeat(subject, partial(consumer.commit, {AioTopicPartition(TOPIC, 0): 1}))

    async def _start_librdkafka(self) -> None:
        settings = {
            "bootstrap.servers": self._bootstrap,
            "socket.timeout.ms": RESPONSE_WITHIN_MS,
            "log_level": 0,
        }
        producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 0})
        subjects = [Subject("librdkafka", "produce", each) for each in range(PARTITIONS)]
        self._done |= {each: [] for each in subjects}
        self._run(self._produce, producer, subjects)
        for number in range(GROUPS_OF_EACH):
            group, subject = self._group("librdkafka", number)
            self._done[subject] = []
            consumer = Consumer({**settings, "group.id": group, "enable.auto.commit": False})
            self._run(self._commit, consumer, subject)

    def _run(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        self._stack.push_async_callback(asyncio.to_thread, thread.join)

    def _produce(self, producer: Producer, subjects: list[Subject]) -> None:
        def told(subject: Subject, error: object, _: object) -> None:
            if error is None:
                self._done[subject].append(time.monotonic())
            else:
                self._failed[subject] = str(error)

        while not self._ended.is_set():
            for subject in subjects:
                producer.produce(
                    TOPIC, b"x", partition=subject.partition, on_delivery=partial(told, subject)
                )
            producer.poll(EVERY_S)
        producer.flush(5)

    def _commit(self, consumer: Consumer, subject: Subject) -> None:
        at = [ConfluentTopicPartition(TOPIC, 0, 1)]
        consumer.assign([ConfluentTopicPartition(TOPIC, 0)])
        while not self._ended.is_set():
            try:
                consumer.commit(offsets=at, asynchronous=False)
                self._done[subject].append(time.monotonic())
            except KafkaException as error:
                self._failed[subject] = str(error)
            time.sleep(EVERY_S)
        consumer.close()

    # What came of it

    async def all_since(self, moment: float) -> None:
        """Wait until each request has succeeded after `moment`. Raises LoadError."""
        deadline = time.monotonic() + WITHIN_S
        while late := [each for each, done in self._done.items() if not done or done[-1] < moment]:
            if time.monotonic() > deadline:
                why = [f"{each}: {self._failed.get(each)}" for each in late]
                raise LoadError(f"not served in {WITHIN_S:.0f} s: {'; '.join(why)}")
            await asyncio.sleep(EVERY_S)

    def waits(self, moment: float, is_hit: Callable[[Subject], bool]) -> dict[str, list[float]]:
        """By client and request, how long those that are hit had to wait from `moment` on, in s."""
        found: dict[str, list[float]] = {}
        for subject, done in self._done.items():
            if is_hit(subject):
                later = [each for each in done if each > moment]
                name = f"{subject.client}, {subject.what}"
                longest = max(b - a for a, b in zip([moment, *later], later, strict=False))
                found.setdefault(name, []).append(longest)
        return found
