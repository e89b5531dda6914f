"""A chaos run: the server, its killer, all clients, and the reading of what is left."""

import asyncio
import contextlib
import random
import signal
import threading
import time
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
from kohort.testing.server_process import ServerProcess
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
    PARTITIONS,
    PRODUCERS,
    SERVER_SETTINGS,
    SESSION_MS,
    TOPICS,
)
from peers.kafka import free_port

STARTING_SHARE = 0.15
"""Kills that come before the server listens."""
BRIEF_SHARE = 0.4
"""Kills that come while clients still return."""
BRIEF_SECONDS = (0.05, 1.0)
WORKING_SECONDS = (1.0, 6.0)
"""How long the server lives else, after it listens."""
CALM_EVERY = 10
"""Kills from one calm to the next."""
CALM_SECONDS = (SESSION_MS / 1000 + 1, SESSION_MS / 1000 + 4)
"""A member that ended while the server was down is expired, for which its session begins anew with
each start; without a calm, groups would wait for such members all the time, and commit nothing.
"""
DOWN_SECONDS = (0.0, 0.4)
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
            f"{sum(map(len, ledger.committed.values()))} commits acknowledged, "
            f"{len(ledger.owned)} assignments, {len(self.violations)} violations"
        )


class Chaos:
    """One run. `while_down` is called with this object after each kill."""

    def __init__(
        self,
        directory: Path,
        *,
        kills: int,
        seed: int,
        durability: str = "os",
        storage: str = "",
        recovery_seconds: float = RECOVERY_SECONDS,
        while_down: Callable[["Chaos"], None] = lambda _: None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.directory, self.kills, self.seed = directory, kills, seed
        self.durability, self.while_down, self.report = durability, while_down, report
        self.recovery_seconds = recovery_seconds
        self.storage = storage
        """The URL of the database with the logs; "" if they are in files."""
        self.ledger = Ledger()
        self.killed = 0
        self._began = 0.0
        self._random = random.Random(seed)
        self._address = f"127.0.0.1:{free_port()}"

    @property
    def data(self) -> Path:
        """The server's data directory."""
        return self.directory / "data"

    def run(self) -> Outcome:
        with aio.without_complaints():
            return asyncio.run(self._run())

    def _start(self) -> ServerProcess:
        return ServerProcess(
            f"--listen={self._address}",
            f"--storage={self.storage}" if self.storage else f"--data={self.data}",
            f"--durability={self.durability}",
            log=self.directory / "server.log",
            settings=SERVER_SETTINGS,
        )

    async def _run(self) -> Outcome:
        self._began = time.monotonic()
        # More threads than asyncio would have: each client of librdkafka keeps one.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2 * len(TOPICS) + 8))
        server = self._start()
        try:
            await asyncio.to_thread(server.line, "listening")
            await self._make_topics_and_groups()
            async with self._clients():
                await asyncio.sleep(FIRST_SECONDS)
                for _ in range(self.kills):
                    server = await self._kill(server)
                await asyncio.to_thread(server.line, "listening")
                await self._all_go_on(time.monotonic())
                self.report(f"all went on after {self._elapsed_s:.0f} s")
            self.report(f"all ended after {self._elapsed_s:.0f} s")
            names = await self._topic_names()
            contents = await asyncio.to_thread(self._read_all)
        finally:
            server.stop()
        violations = [*self.ledger.violations, *self._check(contents, names)]
        return Outcome(self.seed, self.killed, self._elapsed_s, self.ledger, violations)

    @property
    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began

    async def _make_topics_and_groups(self) -> None:
        """Each group begins with committed offsets: no member ever has to do without."""
        async with Cluster(ClientConfig(bootstrap=self._address)) as cluster:
            admin = Admin(cluster)
            for topic in TOPICS:
                await admin.create_topic(topic)
            starts = {
                OurTopicPartition(topic, number): OffsetAndMetadata(offset=0)
                for topic in TOPICS
                for number in range(PARTITIONS)
            }
            for group in GROUPS:
                await admin.commit(GroupId(group), starts)

    async def _kill(self, server: ServerProcess) -> ServerProcess:
        """Kill the server at a random moment, and start the next one."""
        kind = self._random.random()
        is_calm = self.killed % CALM_EVERY == CALM_EVERY - 1
        if kind < STARTING_SHARE and not is_calm:
            await asyncio.sleep(self._random.uniform(0, 0.8))
        else:
            span = BRIEF_SECONDS if kind < STARTING_SHARE + BRIEF_SHARE else WORKING_SECONDS
            if is_calm:
                span = CALM_SECONDS
            await asyncio.to_thread(server.line, "listening")
            await asyncio.sleep(self._random.uniform(*span))
        ended = server.process.poll()
        if ended is not None:
            self.ledger.violation(f"the server ended by itself: {ended}\n{server.log_tail()}")
        server.stop(signal.SIGKILL)
        self.killed += 1
        self.while_down(self)
        await asyncio.sleep(self._random.uniform(*DOWN_SECONDS))
        if self.killed % 10 == 0:
            self.report(str(Outcome(self.seed, self.killed, self._elapsed_s, self.ledger)))
        return self._start()

    # --- clients ---

    @contextlib.asynccontextmanager
    async def _clients(self):
        """Every client at work; on leaving, each ends its work in order."""
        stop, stop_threads = asyncio.Event(), threading.Event()
        tasks = [
            asyncio.create_task(self._watch_commits(stop)),
            asyncio.create_task(self._grow(stop, random.Random(self._random.random()))),
        ]
        for plan in (*PRODUCERS, *MEMBERS):
            rng = random.Random(self._random.random())
            is_producer = plan in PRODUCERS
            if plan.client == "confluent":
                work = confluent.produce if is_producer else confluent.consume
                running = asyncio.to_thread(
                    work, plan, self._address, self.ledger, stop_threads, rng
                )
            else:
                consume = aio.consume_aiokafka if plan.client == "aiokafka" else aio.consume_kohort
                work = aio.produce if is_producer else consume
                running = work(plan, self._address, self.ledger, stop, rng)
            tasks.append(asyncio.create_task(running, name=str(plan)))
        try:
            yield
        finally:
            stop.set()
            stop_threads.set()
            ended, running = await asyncio.wait(tasks, timeout=self.recovery_seconds)
            for task in running:
                self.ledger.violation(f"does not end: {task.get_name()}")
                task.cancel()
            for task in ended:
                if task.cancelled():
                    self.ledger.violation(f"{task.get_name()} was cancelled")
                elif (error := task.exception()) is not None:
                    self.ledger.violation(f"{task.get_name()} failed: {error!r}")

    async def _grow(self, stop: asyncio.Event, rng: random.Random) -> None:
        """Add partitions to the growing topic, one after the other."""
        count = PARTITIONS
        async with Cluster(
            ClientConfig(bootstrap=self._address, default_api_timeout_ms=2_000)
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
            ClientConfig(bootstrap=self._address, default_api_timeout_ms=2_000)
        ) as cluster:
            admin = Admin(cluster)
            while not stop.is_set():
                highest = self.ledger.highest_commits()
                try:
                    answers = await admin.committed(GROUPS)
                except KohortError:
                    answers = {}
                for group, offsets in answers.items():
                    if isinstance(offsets, KohortError):
                        continue
                    now = {tuple(tp): each.offset for tp, each in offsets.items()}
                    for (of, partition), offset in highest.items():
                        if of == group and now.get(partition, -1) < offset:
                            self.ledger.violation(
                                f"{group} {partition}: {now.get(partition)} is committed, after "
                                f"{offset} was acknowledged"
                            )
                await asyncio.sleep(0.1)

    async def _all_go_on(self, since: float) -> None:
        """Wait until each client has succeeded with something since then."""
        wanted = {f"producer {each.topic}" for each in PRODUCERS} | {each.name for each in MEMBERS}
        late = set(wanted)
        while late and time.monotonic() < since + self.recovery_seconds:
            await asyncio.sleep(0.1)
            late = wanted - {name for name, at in list(self.ledger.active.items()) if at > since}
        if late:
            self.ledger.violation(f"did not go on after the last kill: {sorted(late)}")

    # --- what is left ---

    def _read_all(self) -> dict[str, dict[int, Content]]:
        return {topic: dict(self._read_topic(topic)) for topic in (*TOPICS, GROUP_LOG)}

    def _read_topic(self, topic: str) -> Iterator[tuple[int, Content]]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._address,
                "group.id": "reader",
                "log_level": 0,
                # The fetch of a partition waits until that of the one before has returned.
                "fetch.wait.max.ms": 10,
            }
        )
        try:
            for number in consumer.list_topics(topic, timeout=20).topics[topic].partitions:
                tp = TopicPartition(topic, number, OFFSET_BEGINNING)
                _, end = consumer.get_watermark_offsets(tp, timeout=20)
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
        async with Cluster(ClientConfig(bootstrap=self._address)) as cluster:
            topics = (await cluster.metadata()).topics
            return {topic.id: name for name, topic in topics.items()}

    def _check(
        self, contents: dict[str, dict[int, Content]], names: Mapping[UUID, str]
    ) -> Iterator[str]:
        for topic, idempotent in TOPICS.items():
            yield from check_records(self.ledger, topic, idempotent, contents[topic])
        log = GroupLog.of(contents[GROUP_LOG], names)
        yield from check_commits(self.ledger, log)
        yield from check_owners(self.ledger, log)
