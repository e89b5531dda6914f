"""A chaos run: servers that something is done to, all clients, and the reading of what is left."""

import asyncio
import contextlib
import os
import random
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from kohort.client.admin.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import KohortError
from kohort.types import GroupId
from kohort.types import TopicPartition as OurTopicPartition
from live.chaos import aio, confluent
from live.chaos.checks import Content, GroupLog, check_commits, check_owners, check_records
from live.chaos.ledger import Ledger
from live.chaos.settings import (
    GROUPS,
    GROWING,
    GROWTH_SECONDS,
    MEMBERS,
    MOST_PARTITIONS,
    NICENESS,
    PARTITIONS,
    PRODUCERS,
    TOPICS,
    MemberPlan,
    ProducerPlan,
)

FIRST_SECONDS = 5.0
"""Undisturbed, so that every group has begun."""
RECOVERY_SECONDS = 120.0
"""Time for every client to go on after the last kill."""
GROUP_LOG = "__consumer_offsets"


@dataclass
class Outcome:
    """What a run found."""

    seed: int
    kills: int
    seconds: float
    ledger: Ledger
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        ledger = self.ledger
        return (
            f"{self.kills} kills in {self.seconds:.0f} s, seed {self.seed}: "
            f"{sum(map(len, ledger.acknowledged.values()))} records and "
            f"{ledger.commits} commits acknowledged, {len(ledger.owned)} assignments, "
            f"{ledger.replaced.total()} clients replaced, {len(self.violations)} violations"
        )


@dataclass(frozen=True)
class Plans:
    """Which clients there are."""

    producers: tuple[ProducerPlan, ...] = PRODUCERS
    members: tuple[MemberPlan, ...] = MEMBERS

    def all(self) -> tuple[ProducerPlan | MemberPlan, ...]:
        return (*self.producers, *self.members)


class Run(ABC):
    """One run, whose subclass knows the servers and what is done to them."""

    leaders_stay = True
    """Whether a partition always has the same leader."""

    def __init__(
        self,
        address: str,
        log: Path,
        *,
        kills: int,
        seed: int,
        plans: Plans = Plans(),
        recovery_seconds: float = RECOVERY_SECONDS,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`address`: the servers' `bootstrap.servers`; `log` gets what the clients log."""
        self.kills, self.seed = kills, seed
        self.recovery_seconds = recovery_seconds
        self.report = report
        self.ledger = Ledger(report=report)
        self.killed = 0
        self.random = random.Random(seed)
        self.address = address
        self._plans, self._log = plans, log
        self.clients = {each.name for each in plans.all()}
        """Names of all who have to go on."""
        self.groups = list(GROUPS)
        self.topics = [*TOPICS, GROUP_LOG]
        """Those that are read at the end."""
        self.at_rest: Callable[[], None] = lambda: None
        """Called when nobody works any more, before all is read."""
        self._began = 0.0

    @abstractmethod
    async def start(self) -> None:
        """Start the servers; back when they serve."""

    @abstractmethod
    async def disturb(self) -> None:
        """Let the clients work for a while, and do something to the servers."""

    @abstractmethod
    async def heal(self) -> None:
        """Have all servers serve again."""

    @abstractmethod
    def stop(self) -> None:
        """End the servers."""

    def run(self) -> Outcome:
        with aio.complaints_in(self._log):
            return asyncio.run(self._run())

    async def _run(self) -> Outcome:
        self._began = time.monotonic()
        # More threads than asyncio would have: each client of librdkafka keeps one.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2 * len(TOPICS) + 8))
        try:
            await self.start()
            await self._make_topics_and_groups()
            async with self.working():
                await asyncio.sleep(FIRST_SECONDS)
                while not self.is_over():
                    await self.disturb()
                await self.heal()
                await self.all_go_on()
                self.report(f"all went on after {self.elapsed_s:.0f} s")
            self.report(f"all ended after {self.elapsed_s:.0f} s")
            await asyncio.to_thread(self.at_rest)
            names = await self._topic_names()
            contents = await asyncio.to_thread(self._read_all)
            violations = [*self.ledger.violations, *self.check(contents, names)]
        finally:
            self.stop()
        return Outcome(self.seed, self.killed, self.elapsed_s, self.ledger, violations)

    def is_over(self) -> bool:
        """Whether enough was done to the servers."""
        return self.killed >= self.kills

    def count_kill(self) -> None:
        """Count a kill of a server, and tell of each tenth."""
        self.killed += 1
        if self.killed % 10 == 0:
            self.report(str(Outcome(self.seed, self.killed, self.elapsed_s, self.ledger)))

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    async def _make_topics_and_groups(self) -> None:
        """Each group begins with committed offsets: no member ever has to do without."""
        async with Cluster(ClientConfig(bootstrap=self.address)) as cluster:
            admin = Admin(cluster)
            for topic in self.topics:
                if topic != GROUP_LOG:
                    await admin.create_topic(topic)
            starts = {
                OurTopicPartition(topic, number): OffsetAndMetadata(offset=0)
                for topic in TOPICS
                for number in range(PARTITIONS)
            }
            for group in self.groups:
                # A node of a cluster may learn of the topics a little later.
                while any((await admin.commit(GroupId(group), starts)).values()):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)

    # --- clients ---

    @contextlib.asynccontextmanager
    async def working(self):
        """Every client at work; on leaving, each ends its work in order."""
        stop, stop_threads = asyncio.Event(), threading.Event()
        tasks = [
            asyncio.create_task(self._watch_commits(stop)),
            asyncio.create_task(self._grow(stop, random.Random(self.random.random()))),
        ]
        for plan in self._plans.all():
            rng = random.Random(self.random.random())
            is_producer = isinstance(plan, ProducerPlan)
            if plan.client == "confluent":
                work = confluent.produce if is_producer else confluent.consume
                running = asyncio.to_thread(
                    _run_nicely, work, plan, self.address, self.ledger, stop_threads, rng
                )
            else:
                consume = aio.consume_aiokafka if plan.client == "aiokafka" else aio.consume_kohort
                work = aio.produce if is_producer else consume
                running = work(plan, self.address, self.ledger, stop, rng)
            tasks.append(asyncio.create_task(running, name=str(plan)))
        for task in tasks:
            task.add_done_callback(self._look_at_end)
        try:
            yield
        finally:
            stop.set()
            stop_threads.set()
            ended, unfinished = await asyncio.wait(tasks, timeout=self.recovery_seconds)
            for task in unfinished:
                self.ledger.violation(f"does not end: {task.get_name()}")
                task.cancel()
            for task in ended:
                if task.cancelled():
                    self.ledger.violation(f"{task.get_name()} was cancelled")

    def _look_at_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            where = "".join(traceback.format_exception(error))
            self.ledger.violation(f"{task.get_name()} failed: {where}")

    async def _grow(self, stop: asyncio.Event, rng: random.Random) -> None:
        """Add partitions to the growing topic, one after the other."""
        count = PARTITIONS
        async with Cluster(
            ClientConfig(bootstrap=self.address, default_api_timeout_ms=2_000)
        ) as cluster:
            admin = Admin(cluster)
            while count < MOST_PARTITIONS and not stop.is_set():
                await asyncio.sleep(rng.uniform(*GROWTH_SECONDS))
                # An error may hide a success, which the next metadata tell.
                with contextlib.suppress(KohortError):
                    await admin.create_partitions(GROWING, count + 1)
                with contextlib.suppress(KohortError):
                    described = (await admin.describe_topics([GROWING]))[GROWING]
                    if not isinstance(described, KohortError):
                        count = self.ledger.partitions[GROWING] = len(described.partitions)

    async def _watch_commits(self, stop: asyncio.Event) -> None:
        """See that no committed offset is ever lower than one that was acknowledged before."""
        async with Cluster(
            ClientConfig(bootstrap=self.address, default_api_timeout_ms=2_000)
        ) as cluster:
            admin = Admin(cluster)
            while not stop.is_set():
                highest = dict(self.ledger.highest)
                try:
                    answers = await admin.committed(self.groups)
                except KohortError:
                    answers = {}
                for group, offsets in answers.items():
                    if isinstance(offsets, KohortError):
                        continue
                    now = {tuple(tp): (each.offset, each.metadata) for tp, each in offsets.items()}
                    for key, known in highest.items():
                        if key[0] == group:
                            self.ledger.check_committed(key, known, *now.get(key[1], (-1, "")))
                await asyncio.sleep(0.1)

    async def all_go_on(self) -> None:
        """Wait until each client has succeeded with something from now on."""
        since = time.monotonic()
        late = set(self.clients)
        while late and time.monotonic() < since + self.recovery_seconds:
            await asyncio.sleep(0.1)
            active = list(self.ledger.active.items())
            late = self.clients - {name for name, at in active if at > since}
        if late:
            aio.write_stacks(self._log)
            told = {name: self.ledger.errors.get(name, "no error") for name in sorted(late)}
            self.ledger.violation(f"did not go on after {self.killed} kills: {told}")

    # --- what is left ---

    def _read_all(self) -> dict[str, dict[int, Content]]:
        return {topic: dict(self._read_topic(topic)) for topic in self.topics}

    def _read_topic(self, topic: str) -> Iterator[tuple[int, Content]]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "reader",
                "log_level": 0,
                # The fetch of a partition waits until that of the one before has returned.
                "fetch.wait.max.ms": 10,
            }
        )
        try:
            for number in consumer.list_topics(topic, timeout=20).topics[topic].partitions:
                tp = TopicPartition(topic, number, OFFSET_BEGINNING)
                end = _end(consumer, tp)
                consumer.assign([tp])
                content: list[tuple[int, bytes | None, bytes | None]] = []
                deadline = time.monotonic() + 60
                while (content[-1][0] + 1 if content else 0) < end:
                    for message in consumer.consume(1_000, 0.2):
                        if message.error() is not None:
                            raise KafkaException(message.error())
                        content.append((message.offset(), message.key(), message.value()))
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"{topic} {number} cannot be read to its end, {end}")
                yield number, content
        finally:
            consumer.close()

    async def _topic_names(self) -> dict[UUID, str]:
        async with Cluster(ClientConfig(bootstrap=self.address)) as cluster:
            topics = (await cluster.metadata()).topics
            return {topic.id: name for name, topic in topics.items()}  # type: ignore[misc]

    def check(
        self, contents: dict[str, dict[int, Content]], names: Mapping[UUID, str]
    ) -> Iterator[str]:
        """What is wrong with what is left."""
        for topic, idempotent in TOPICS.items():
            yield from check_records(
                self.ledger, topic, idempotent, contents[topic], leaders_stay=self.leaders_stay
            )
        log = GroupLog.of(contents[GROUP_LOG], names)
        yield from check_commits(self.ledger, log)
        yield from check_owners(self.ledger, log)


def _run_nicely(work: Callable[..., None], *arguments: object) -> None:
    """Call it; the threads that it starts are as nice as its own."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
    work(*arguments)


def _end(consumer: Consumer, partition: TopicPartition) -> int:
    """The end offset; a leader that has just started may not know it at once."""
    deadline = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            return consumer.get_watermark_offsets(partition, timeout=20)[1]
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
