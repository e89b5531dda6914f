"""A group that commits at random on a server, what it had committed when, and its history."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from cli.running import Outcome, Run
from client.admin.stage import join
from history.broker_logs import build_from_broker
from kohort.client import Producer
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.resets import now_ms
from kohort.errors import KafkaError
from kohort.types import GroupId, TopicPartition
from waiting import until

PARTITIONS = 3
RECORDS = 20
NUMBERS = count(1)
Commits = dict[TopicPartition, OffsetAndMetadata]


class Scene:
    """A topic with records, and a group without members."""

    def __init__(self, bootstrap: str, run: Run, directory: Path) -> None:
        number = next(NUMBERS)
        self.bootstrap, self._run, self.directory = bootstrap, run, directory
        self.topic, self.group = f"orders-{number}", GroupId(f"billing-{number}")
        self.history = directory / f"history-{number}"
        self.do(self._begin)

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in range(PARTITIONS)]

    def do(self, work: Callable[[Admin], Awaitable[Any]]) -> Any:
        async def connected() -> Any:
            async with Cluster(ClientConfig(bootstrap=self.bootstrap)) as cluster:
                return await work(Admin(cluster))

        return asyncio.run(connected())

    async def _begin(self, admin: Admin) -> None:
        await make_topic(admin, self.topic)

    def run(self, *words: str) -> Outcome:
        return self._run(*words, "-b", self.bootstrap)

    def restore(self, at_ms: int, *words: str) -> Outcome:
        history = ("--history", str(self.history), "--to", time_of(at_ms))
        return self.run("groups", "restore", self.group, *history, *words)

    def build(self) -> None:
        self.do(lambda admin: build_from_broker(admin, self.bootstrap, self.history))

    def committed(self, group: str | None = None) -> Commits:
        name = GroupId(group or self.group)

        async def work(admin: Admin) -> Any:
            return (await admin.committed([name]))[name]

        return dict(self.do(work))

    def commit(self, **offsets: int) -> int:
        """`p0=5`, with metadata; a time at which that was the last commit."""
        commits = {
            TopicPartition(self.topic, int(name[1:])): OffsetAndMetadata(
                offset=offset, leader_epoch=0, metadata=f"at {offset}"
            )
            for name, offset in offsets.items()
        }

        async def work(admin: Admin) -> int:
            assert set((await admin.commit(self.group, commits)).values()) == {None}
            return await passed()

        at_ms: int = self.do(work)
        return at_ms

    def play(self, seed: int, steps: int) -> list[tuple[int, Commits]]:
        """Random commits and deletions: times, and what was committed then."""
        return self.do(lambda admin: self._play(admin, random.Random(seed), steps))

    async def _play(
        self, admin: Admin, chance: random.Random, steps: int
    ) -> list[tuple[int, Commits]]:
        played = []
        for _ in range(steps):
            await self._step(admin, chance)
            committed = (await admin.committed([self.group]))[self.group]
            assert isinstance(committed, dict)
            played.append((await passed(), committed))
        return played

    async def _step(self, admin: Admin, chance: random.Random) -> None:
        some = chance.sample(self.partitions, chance.randint(1, PARTITIONS))
        match chance.randrange(8):
            case 0:
                await admin.delete_groups([self.group])
            case 1:
                with suppress(KafkaError):  # GROUP_ID_NOT_FOUND
                    await admin.delete_offsets(self.group, some)
            case _:
                commits = {
                    tp: OffsetAndMetadata(
                        offset=chance.randint(0, RECORDS),
                        leader_epoch=chance.choice([-1, 0]),
                        metadata=chance.choice(["", "a", "größer"]),
                    )
                    for tp in some
                }
                assert set((await admin.commit(self.group, commits)).values()) == {None}

    @contextmanager
    def member(self) -> Iterator[None]:
        """A member that owns everything, until the end of the block."""
        loop = asyncio.new_event_loop()
        cluster = Cluster(ClientConfig(bootstrap=self.bootstrap))
        try:
            topics = {self.topic: list(range(PARTITIONS))}
            joined = loop.run_until_complete(join(cluster, self.group, topics))
            yield
            loop.run_until_complete(joined.leave())
        finally:
            loop.run_until_complete(cluster.close())
            loop.close()


async def make_topic(admin: Admin, topic: str) -> None:
    """A topic with `RECORDS` in each partition."""
    records = [(b"%d" % number, now_ms()) for number in range(RECORDS)]
    await fill(admin, topic, [records] * PARTITIONS)


async def fill(admin: Admin, topic: str, logs: Sequence[Sequence[tuple[bytes, int]]]) -> None:
    """A topic with these values and timestamps (ms) in its partitions."""
    await admin.create_topic(topic, partitions=len(logs))
    async with Producer(admin.cluster) as producer:
        for partition, records in enumerate(logs):
            for value, timestamp in records:
                await producer.send(topic, value, partition=partition, timestamp=timestamp)


async def passed() -> int:
    """The present time, once it is past: what follows is later."""
    at_ms = now_ms()
    await until(lambda: now_ms() > at_ms, every_s=0.001)
    return at_ms


def time_of(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
