"""Groups on an Apache Kafka, each with one fault or with none, all at work at the same time.

A fault is planted by a client that makes it: librdkafka's where it is that library's behaviour,
`kafka-consumer-groups`, and single requests where no library would do such a thing. A group and its
topic have one name.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import pyarrow as pa
from confluent_kafka import Producer

from history.broker_logs import by_broker
from interop.planted_faults import (
    abandoned,
    behind,
    collision,
    deaf,
    eager,
    flapping,
    halted,
    hanging,
    hot,
    idle,
    lost,
    mixed,
    often,
    pausing,
    rare,
    recreated,
    reset,
    rewound,
    silent,
    stalled,
    stuck,
    unassigned,
    uneven,
    unsynced,
    visited,
    zombie,
)
from interop.planted_site import FEED_S, Plan, Site, commit, consume, follow
from interop.processes import PATIENCE_S
from interop.tools import Tools
from kohort.client.admin import Admin
from kohort.history.sample_rows import sampled_rows
from kohort.spark.history.sampling import EndsOfBroker
from kohort.spark.history.sources import BrokerLog, broker_options
from kohort.types import TopicPartition
from kohort_conformance.stage import Stage

SETTINGS: Final = {
    "offsets.topic.num.partitions": "3",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "500",
}
"""Of the broker."""
DURATION_S: Final = 26
"""Of all together, at least."""
THREADS: Final = 32
"""As many as plans wait for a library."""


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


PLANTED: Final[dict[Plan, set[str]]] = {
    flapping: {"flapping-member", "rebalance-storm"},
    collision: {"flapping-member"},
    stalled: {"out-of-poll-loop"},
    pausing: {"session-too-short", "flapping-member", "rebalance-storm"},
    visited: {"stranger"},
    eager: {"eager-standstill"},
    unsynced: {"unsynced-generations"},
    mixed: {"mixed-assignors"},
    zombie: {"zombie-commit"},
    rewound: {"rewind"},
    reset: {"manual-reset"},
    often: {"too-often"},
    rare: {"too-rarely"},
    recreated: {"topic-recreated"},
    hanging: {"hanging-transaction"},
    hot: {"hot-partition"},
    uneven: {"uneven-assignment"},
    idle: {"idle-member"},
    unassigned: {"unassigned"},
    stuck: {"stuck-commit"},
    halted: {"stopped"},
    deaf: {"zombie-member"},
    abandoned: {"expires-soon"},
    behind: {"max-lag"},
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
