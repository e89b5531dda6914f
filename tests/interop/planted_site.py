"""What the groups of `interop.planted` share: topics, members by single requests, and consumers."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from confluent_kafka import Consumer, KafkaException, Producer

from interop.processes import PATIENCE_S
from interop.tools import Tools
from kohort.client import CommitError, ConsumerGroup, Generation
from kohort.client.admin import Admin
from kohort.findings.thresholds import Thresholds
from kohort.types import TopicPartition
from kohort_conformance.members import (
    NONE,
    PlayedMember,
    assignment,
    gather_round,
    member,
    protocols,
    rejoin,
    subscription,
    until_rebalancing,
)
from kohort_conformance.stage import Stage

THRESHOLDS: Final = Thresholds(
    eager_rebalances=3,
    eager_standstill_s=2,
    expiry_s=8 * 86_400,
    hanging_transaction_s=5,
    max_lag=1_000,
    never_commits_s=10,
    often_rate=2.0,
    often_s=15,
    rarely_s=3,
    rewind_s=3,
    stop_s=8,
    stranger_group_age_s=9,
    stranger_s=8,
    unassigned_s=10,
    uneven_s=10,
)
"""Those that would take minutes or hours; and a rate of commits above all but one plan's."""
COMMIT_S: Final = 1.1
"""Between commits: fewer than one in a second, so that they are not too often."""
FEED_S: Final = 0.25
"""Between records of each partition that grows."""
LONG_MS: Final = 120_000
"""Session and rebalance timeouts of members that send requests only when they are told to."""


@dataclass
class Site:
    """The broker, and what all groups share."""

    address: str
    tools: Tools
    admin: Admin
    stage: Stage
    sampled: threading.Event = field(default_factory=threading.Event)
    """Set when the last sample may be taken."""
    over: threading.Event = field(default_factory=threading.Event)
    """Set when members end that work to the end: their log has been read by then."""
    ends: Counter[TopicPartition] = field(default_factory=Counter)
    """Records that were produced, of topics that grow."""
    topics: list[str] = field(default_factory=list)

    async def topic(self, name: str, partitions: int, *, grows: bool = False) -> None:
        await self.admin.create_topic(name, partitions=partitions)
        await self.stage.until_usable(await self.stage.client("watcher"), name, partitions)
        self.topics.append(name)
        if grows:
            self.ends.update({TopicPartition(name, number): 0 for number in range(partitions)})

    async def produce(self, topic: str, count: int) -> None:
        """Records in partition 0."""
        producer = Producer({"bootstrap.servers": self.address})
        for _ in range(count):
            producer.produce(topic, b"", partition=0)
        await asyncio.to_thread(producer.flush, PATIENCE_S)

    async def members(self, group: str, **owned: Sequence[int]) -> list[PlayedMember]:
        """A Stable classic group. `owned`: client id → partitions of the topic."""
        played = [
            await member(
                self.stage, name, group=group, session_ms=LONG_MS, rebalance_ms=LONG_MS,
                protocols=protocols("range", metadata=subscription(group)),
            )
            for name in owned
        ]  # fmt: skip
        await gather_round(played)
        await sync(played, owned)
        return played

    async def until_over(self, work: Callable[[int], Coroutine[Any, Any, object]]) -> None:
        """Do this work each COMMIT_S, with its number from 1 on."""
        number = 0
        while not self.over.is_set():
            number += 1
            await work(number)
            await asyncio.sleep(COMMIT_S)


Plan: TypeAlias = Callable[[Site], Coroutine[Any, Any, None]]


async def sync(members: Sequence[PlayedMember], owned: Mapping[str, Sequence[int]]) -> None:
    """The leader assigns partitions to all."""
    given = {one.id: assignment(one.group, *owned[str(one.client.client_id)]) for one in members}
    calls = [one.syncing(assignments=given if one.leads else None) for one in members]
    for call in calls:
        assert (await call.quiet())["error_code"] == NONE


async def next_round(members: Sequence[PlayedMember], **owned: Sequence[int]) -> None:
    """The leader joins again, then the others, and it assigns partitions to all."""
    leader, *others = sorted(members, key=lambda one: not one.leads)
    leading = leader.joining()
    for one in others:
        await until_rebalancing(one)
    await rejoin(others, leading)
    await sync(members, owned)


async def commit(by: PlayedMember, offsets: Mapping[int, int]) -> None:
    response = await by.committing(by.group, offsets).quiet()
    codes = {each["error_code"] for each in response["topics"][0]["partitions"]}
    assert codes == {NONE}, (by.group, codes)


@asynccontextmanager
async def elsewhere(site: Site) -> AsyncIterator[Stage]:
    """Connections that the broker sees coming from another address than all others."""
    host, _, port = site.address.rpartition(":")

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(host, int(port), local_addr=("127.0.0.2", 0))
        await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    async with server:
        stage = Stage("127.0.0.1", server.sockets[0].getsockname()[1], "planted", "")
        try:
            yield stage
        finally:
            await stage.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with closing(writer):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


async def follow(
    site: Site, group: str, client_id: str, *, protocol: str = "classic", commits: bool = True
) -> None:
    """A member of Kohort's client that commits what was produced, until all is over."""

    async def work(generation: Generation, tp: TopicPartition) -> None:
        while True:
            with suppress(CommitError):
                await generation.commit({tp: site.ends[tp]})
            await asyncio.sleep(COMMIT_S)

    async def stop(consumer: ConsumerGroup) -> None:
        await asyncio.to_thread(site.over.wait)
        consumer.stop()

    async with ConsumerGroup(
        group, topics=[group], bootstrap=site.address, client_id=client_id, protocol=protocol,
        drain_timeout_ms=0,
    ) as consumer, asyncio.TaskGroup() as tasks:  # fmt: skip
        tasks.create_task(stop(consumer))
        async for generation in consumer:
            async with generation:
                for tp in generation.assignment if commits else ():
                    generation.start(work, tp)


def consume(site: Site, group: str, client_id: str) -> None:
    """A member of librdkafka that commits what it has read, until all is over."""
    consumer = confluent(site.address, group, client_id)
    while not site.over.is_set():
        if consumer.consume(500, COMMIT_S):
            with suppress(KafkaException):  # a rebalance is under way: the next one counts
                consumer.commit(asynchronous=False)
    consumer.close()


def confluent(address: str, group: str, client_id: str, **options: object) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": group, "client.id": client_id,
         "enable.auto.commit": False, "auto.offset.reset": "earliest",
         "heartbeat.interval.ms": 500, "session.timeout.ms": 30_000, "log_level": 0, **options}
    )  # fmt: skip
    consumer.subscribe([group])
    return consumer


def until_assigned(consumer: Consumer) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not consumer.assignment():
        assert time.monotonic() < deadline, "no assignment"
        consumer.poll(0.1)
