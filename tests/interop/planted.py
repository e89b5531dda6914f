"""Groups on an Apache Kafka, each with one fault or with none, all at work at the same time.

A fault is planted by a client that makes it: librdkafka's where it is that library's behaviour,
`kafka-consumer-groups`, and single requests where no library would do such a thing. A group and its
topic have one name.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from history.broker_logs import by_broker
from interop.processes import PATIENCE_S
from interop.tools import GROUPS, Tools
from kohort.client import CommitError, ConsumerGroup, Generation
from kohort.client.admin import Admin
from kohort.findings.thresholds import Thresholds
from kohort.history.sample_rows import sampled_rows
from kohort.spark.history.sampling import EndsOfBroker
from kohort.spark.history.sources import BrokerLog, broker_options
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

SETTINGS: Final = {
    "offsets.topic.num.partitions": "3",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "500",
}
"""Of the broker."""
THRESHOLDS: Final = Thresholds(
    eager_rebalances=3,
    eager_standstill_s=2,
    hanging_transaction_s=5,
    never_commits_s=10,
    rewind_s=3,
    stop_s=8,
    unassigned_s=10,
    uneven_s=10,
)
"""Those that would take minutes or hours."""
DURATION_S: Final = 26
"""Of all together, at least."""
THREADS: Final = 32
"""As many as plans wait for a library."""
COMMIT_S: Final = 1.1
"""Between commits: fewer than one in a second, so that they are not too often."""
FEED_S: Final = 0.25
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


# --- members


async def flapping(site: Site) -> None:
    """A worker starts and stops five times beside a member that stays."""
    await site.topic("flapping", 2)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(follow(site, "flapping", "steady", commits=False))
        for _ in range(5):
            await asyncio.to_thread(_visit, site.address, "flapping", "worker")


def _visit(address: str, group: str, client_id: str) -> None:
    consumer = confluent(address, group, client_id)
    _until_assigned(consumer)
    consumer.close()


async def collision(site: Site) -> None:
    """Two processes with one instance id, each started again when the other fences it.

    A classic group keeps the client id and host of the first one. So its log looks as if one
    process were started again and again.
    """
    await site.topic("collision", 1)
    await asyncio.to_thread(_collide, site.address)


def _collide(address: str) -> None:
    former = None
    for turn in range(5):
        consumer = confluent(
            address, "collision", f"till-{turn % 2}", **{"group.instance.id": "till"}
        )
        _until_assigned(consumer)
        if former is not None:
            former.close()
        former = consumer
    if former is not None:
        former.close()


async def stalled(site: Site) -> None:
    """A member works for some seconds, and then does not poll for max.poll.interval.ms."""
    await site.topic("stalled", 2, grows=True)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.to_thread(consume, site, "stalled", "steady"))
        await asyncio.to_thread(_stall, site.address)


def _stall(address: str) -> None:
    limits = {"session.timeout.ms": 2_000, "max.poll.interval.ms": 3_000}
    consumer = confluent(address, "stalled", "slow", **limits)
    _until_assigned(consumer)
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if consumer.consume(50, 0.5):
            with suppress(KafkaException):
                consumer.commit(asynchronous=False)
    time.sleep(6)
    consumer.close()


# --- rebalances


async def eager(site: Site) -> None:
    """Two partitions change their owners three times, and stand still for seconds each time."""
    await site.topic("eager", 2)
    owned, offset = {"a": (0,), "b": (1,)}, 0
    members = await site.members("eager", **owned)
    for turn in range(4):
        if turn:
            await asyncio.sleep(4)
            owned = {"a": owned["b"], "b": owned["a"]}
            await next_round(members, **owned)
        for _ in range(5):
            offset += 1
            for one in members:
                (number,) = owned[str(one.client.client_id)]
                await commit(one, {number: offset})
            await asyncio.sleep(0.3)


async def unsynced(site: Site) -> None:
    """A leader joins again and again, and does not sync."""
    await site.topic("unsynced", 1)
    leader = await member(site.stage, "a", group="unsynced", session_ms=LONG_MS)
    await leader.handshake()
    for number in range(7):
        changed = subscription("unsynced", user_data=b"%d" % number)
        response = await leader.joining(protocols=protocols("range", metadata=changed)).quiet()
        assert response["error_code"] == NONE
    await sync([leader], {"a": (0,)})


async def mixed(site: Site) -> None:
    """The assignor changes to another one and back."""
    await site.topic("mixed", 1)
    (one,) = await site.members("mixed", a=(0,))
    for names in (("roundrobin", "range"), ("range", "roundrobin")):
        one.protocols = protocols(*names, metadata=subscription("mixed"))
        await next_round([one], a=(0,))


# --- commits


async def zombie(site: Site) -> None:
    """A former owner commits its old offset after the new owner's."""
    await site.topic("zombie", 2)
    members = await site.members("zombie", a=(0,), b=(1,))
    a, b = members
    await commit(a, {0: 30})
    await commit(b, {1: 30})
    await next_round(members, a=(1,), b=(0,))
    for by, offset in ((b, 50), (a, 40), (b, 60)):
        await commit(by, {0: offset})
        await asyncio.sleep(0.2)


async def rewound(site: Site) -> None:
    """A member sets its offset back."""
    await site.topic("rewound", 1)
    (one,) = await site.members("rewound", a=(0,))
    for offset in (100, 200, 50, 60, 70, 80, 90):
        await commit(one, {0: offset})
        await asyncio.sleep(1)


async def reset(site: Site) -> None:
    """`kafka-consumer-groups` sets the offsets of a group back whose member has left."""
    await site.topic("reset", 2)
    (one,) = await site.members("reset", a=(0, 1))
    await commit(one, {0: 9, 1: 9})
    await one.leaving().quiet()
    printed = await asyncio.to_thread(
        site.tools.run,
        *(GROUPS, "--bootstrap-server", site.address, "--group", "reset", "--topic", "reset"),
        *("--reset-offsets", "--to-earliest", "--execute"),
    )
    assert "Error" not in printed, printed


async def hanging(site: Site) -> None:
    """A transaction with an offset stays open."""
    await site.topic("hanging", 1)
    producer = Producer({"bootstrap.servers": site.address, "transactional.id": "hanging"})
    await asyncio.to_thread(_leave_open, site.address, producer)
    await asyncio.to_thread(site.over.wait)


def _leave_open(address: str, producer: Producer) -> None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "hanging"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    offsets = [ConfluentPartition("hanging", 0, 5)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_S)
    consumer.close()


# --- assignments


async def hot(site: Site) -> None:
    """One of four partitions has most of the records that are committed."""
    await site.topic("hot", 4)
    (one,) = await site.members("hot", a=(0, 1, 2, 3))
    await commit(one, dict.fromkeys(range(4), 0))
    await commit(one, {0: 1_200, 1: 100, 2: 110, 3: 90})


async def uneven(site: Site) -> None:
    """The leader keeps five of six partitions."""
    await site.topic("uneven", 6)
    await site.members("uneven", a=range(5), b=(5,))


async def idle(site: Site) -> None:
    """There are more members than partitions."""
    await site.topic("idle", 1)
    await site.members("idle", a=(0,), b=())


async def unassigned(site: Site) -> None:
    """The leader forgets a partition that had an owner."""
    await site.topic("unassigned", 2)
    members = await site.members("unassigned", a=(0, 1))
    await next_round(members, a=(0,))


# --- lag


async def stuck(site: Site) -> None:
    """One offset is committed again and again, while records come."""
    await site.topic("stuck", 1, grows=True)
    (one,) = await site.members("stuck", a=(0,))
    await site.until_over(lambda _: commit(one, {0: 1}))


async def halted(site: Site) -> None:
    """One of two partitions is not committed any more, while records come."""
    await site.topic("halted", 2, grows=True)
    (one,) = await site.members("halted", a=(0, 1))
    await site.until_over(
        lambda number: commit(one, {0: number} if number > 5 else {0: number, 1: number})
    )


async def silent(site: Site) -> None:
    """A member owns a partition that grows, and never commits."""
    await site.topic("silent", 1, grows=True)
    await site.members("silent", a=(0,))


async def lost(site: Site) -> None:
    """Records are deleted that were not committed."""
    await site.topic("lost", 1)
    producer = Producer({"bootstrap.servers": site.address})
    for _ in range(10):
        producer.produce("lost", b"", partition=0)
    await asyncio.to_thread(producer.flush, PATIENCE_S)
    (one,) = await site.members("lost", a=(0,))
    await commit(one, {0: 3})
    await asyncio.sleep(2)
    await site.admin.delete_records({TopicPartition("lost", 0): 8})


# --- groups without a fault


async def calm_classic(site: Site) -> None:
    await site.topic("calm-classic", 4, grows=True)
    async with asyncio.TaskGroup() as tasks:
        for name in ("one", "two"):
            tasks.create_task(follow(site, "calm-classic", name))


async def calm_consumer(site: Site) -> None:
    await site.topic("calm-consumer", 4, grows=True)
    async with asyncio.TaskGroup() as tasks:
        for name in ("one", "two"):
            tasks.create_task(follow(site, "calm-consumer", name, protocol="consumer"))


async def calm_confluent(site: Site) -> None:
    await site.topic("calm-confluent", 2, grows=True)
    await asyncio.to_thread(consume, site, "calm-confluent", "one")


async def calm_raw(site: Site) -> None:
    await site.topic("calm-raw", 1, grows=True)
    (one,) = await site.members("calm-raw", a=(0,))
    tp = TopicPartition("calm-raw", 0)
    await site.until_over(lambda _: commit(one, {0: site.ends[tp]}))


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


def _until_assigned(consumer: Consumer) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not consumer.assignment():
        assert time.monotonic() < deadline, "no assignment"
        consumer.poll(0.1)


PLANTED: Final[dict[Plan, set[str]]] = {
    flapping: {"flapping-member", "rebalance-storm"},
    collision: {"flapping-member"},
    stalled: {"out-of-poll-loop"},
    eager: {"eager-standstill"},
    unsynced: {"unsynced-generations"},
    mixed: {"mixed-assignors"},
    zombie: {"zombie-commit"},
    rewound: {"rewind"},
    reset: {"manual-reset"},
    hanging: {"hanging-transaction"},
    hot: {"hot-partition"},
    uneven: {"uneven-assignment"},
    idle: {"idle-member"},
    unassigned: {"unassigned"},
    stuck: {"stuck-commit"},
    halted: {"stopped"},
    silent: {"never-commits"},
    lost: {"data-loss"},
}
"""Plans of groups of the same name, and the findings that they lead to."""
CALM: Final[tuple[Plan, ...]] = (calm_classic, calm_consumer, calm_confluent, calm_raw)


def group_of(plan: Plan) -> str:
    return plan.__name__.replace("_", "-")


# --- all together


class Played(NamedTuple):
    """What is known of the groups afterwards."""

    records: dict[int, pa.Table]
    """Those of their log, by log partition."""
    samples: list[pa.RecordBatch]
    """Ends of their topics."""


async def play(address: str, tools: Tools) -> Played:
    """Let all groups work at the same time, and read their log while they do."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    host, _, port = address.rpartition(":")
    stage = Stage(host, int(port), "planted", "")
    async with Admin(bootstrap=address) as admin:
        site = Site(address, tools, admin, stage)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_feed(site))
                sampling = tasks.create_task(_sample(site))
                for plan in (*PLANTED, *CALM):
                    tasks.create_task(plan(site))
                await asyncio.sleep(DURATION_S)
                site.sampled.set()
                samples = await sampling
                records = await asyncio.to_thread(by_broker, address)
                site.over.set()
            return Played(records, samples)
        finally:
            site.sampled.set()
            site.over.set()
            await stage.close()


async def _feed(site: Site) -> None:
    """Produce a record to each partition that grows, each FEED_S."""
    producer = Producer({"bootstrap.servers": site.address, "linger.ms": 0})
    while not site.over.is_set():
        for tp in list(site.ends):
            producer.produce(tp.topic, b"", partition=tp.partition)
            site.ends[tp] += 1
        producer.poll(0)
        await asyncio.sleep(FEED_S)
    await asyncio.to_thread(producer.flush, PATIENCE_S)


async def _sample(site: Site) -> list[pa.RecordBatch]:
    """Sample the ends of all topics each second."""
    log = BrokerLog(broker_options({"bootstrap.servers": site.address}))
    ends = EndsOfBroker(log.kafka, lambda: time.time_ns() // 1_000_000)
    taken = []
    while not site.sampled.is_set():
        present = await asyncio.to_thread(ends.present, tuple(site.topics))
        taken.append(sampled_rows(present.time_ms, present.ends, present.topic_ids))
        await asyncio.sleep(1)
    return taken
