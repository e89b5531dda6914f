"""Plans of groups with a fault each, of the same name."""

import asyncio
import time
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from interop.planted_site import (
    LONG_MS,
    THRESHOLDS,
    Site,
    commit,
    confluent,
    consume,
    elsewhere,
    follow,
    next_round,
    sync,
    until_assigned,
)
from interop.processes import PATIENCE_S
from interop.tools import GROUPS
from kohort.types import TopicPartition
from kohort_conformance.members import (
    NONE,
    gather_round,
    member,
    protocols,
    rejoin,
    subscription,
    until_rebalancing,
    until_state,
)

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
    until_assigned(consumer)
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
        until_assigned(consumer)
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
    until_assigned(consumer)
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if consumer.consume(50, 0.5):
            with suppress(KafkaException):
                consumer.commit(asynchronous=False)
    time.sleep(6)
    consumer.close()


async def pausing(site: Site) -> None:
    """A process pauses three times for longer than its session timeout, with records to read."""
    await site.topic("pausing", 1, grows=True)
    tp = TopicPartition("pausing", 0)
    watcher = await site.stage.client("watcher")
    for turn in range(4):
        one = await member(
            site.stage, "worker", group="pausing", session_ms=3_000, rebalance_ms=LONG_MS,
            protocols=protocols("range", metadata=subscription("pausing")),
        )  # fmt: skip
        await gather_round([one])
        await sync([one], {"worker": (0,)})
        for _ in range(4):  # regularly, so that the silence afterwards says something
            await commit(one, {0: site.ends[tp]})
            await asyncio.sleep(0.6)
        if turn < 3:
            await until_state(watcher, "pausing", "Empty")
    await site.until_over(lambda _: commit(one, {0: site.ends[tp]}))


async def visited(site: Site) -> None:
    """A client with the default client id of librdkafka looks in from another host."""
    await site.topic("visited", 2)
    members = await site.members("visited", **{"app-1": (0,), "app-2": (1,)})
    await asyncio.sleep(THRESHOLDS.stranger_group_age_s)
    async with elsewhere(site) as stage:
        visitor = await member(
            stage, "rdkafka", group="visited", session_ms=LONG_MS, rebalance_ms=LONG_MS,
            protocols=members[0].protocols,
        )  # fmt: skip
        parked = (await visitor.handshake()).joining()
        await until_rebalancing(members[0])
        await rejoin(members, parked)
        owned = {"app-1": (0,), "app-2": (), "rdkafka": (1,)}
        await sync([*members, visitor], owned)
        await visitor.leaving().quiet()
    await next_round(members, **{"app-1": (0,), "app-2": (1,)})


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


async def often(site: Site) -> None:
    """A member commits each time that it polls."""
    await site.topic("often", 1, grows=True)
    (one,) = await site.members("often", a=(0,))
    tp = TopicPartition("often", 0)
    while not site.over.is_set():
        await commit(one, {0: site.ends[tp]})
        await asyncio.sleep(0.1)


async def rare(site: Site) -> None:
    """A member commits hundreds of records after long times."""
    await site.topic("rare", 1)
    (one,) = await site.members("rare", a=(0,))
    for number in range(6):
        await commit(one, {0: 200 * number})
        await asyncio.sleep(THRESHOLDS.rarely_s + 0.5)


async def recreated(site: Site) -> None:
    """A topic is deleted and created again, and a member commits one of its partitions."""
    await site.topic("recreated", 2)
    (one,) = await site.members("recreated", a=(0, 1))
    await commit(one, {0: 5, 1: 5})
    await asyncio.sleep(2)
    await site.admin.delete_topic("recreated")
    await asyncio.sleep(2)
    await site.topic("recreated", 2)
    await commit(one, {0: 1})


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


async def deaf(site: Site) -> None:
    """One of two members sends heartbeats, and does not commit any more."""
    await site.topic("deaf", 2, grows=True)
    a, b = await site.members("deaf", a=(0,), b=(1,))

    async def work(number: int) -> None:
        await commit(a, {0: site.ends[TopicPartition("deaf", 0)]})
        if number <= 5:
            await commit(b, {1: site.ends[TopicPartition("deaf", 1)]})

    await site.until_over(work)


async def abandoned(site: Site) -> None:
    """A group has left with records that it had not read."""
    await site.topic("abandoned", 1)
    await site.produce("abandoned", 10)
    (one,) = await site.members("abandoned", a=(0,))
    await commit(one, {0: 4})
    await one.leaving().quiet()


async def behind(site: Site) -> None:
    """A member is far behind."""
    await site.topic("behind", 1)
    await site.produce("behind", 2_000)
    (one,) = await site.members("behind", a=(0,))
    await site.until_over(lambda number: commit(one, {0: number}))


async def silent(site: Site) -> None:
    """A member owns a partition that grows, and never commits."""
    await site.topic("silent", 1, grows=True)
    await site.members("silent", a=(0,))


async def lost(site: Site) -> None:
    """Records are deleted that were not committed."""
    await site.topic("lost", 1)
    await site.produce("lost", 10)
    (one,) = await site.members("lost", a=(0,))
    await commit(one, {0: 3})
    await asyncio.sleep(2)
    await site.admin.delete_records({TopicPartition("lost", 0): 8})
