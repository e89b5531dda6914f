"""SyncGroup and Heartbeat of a classic member in a consumer group."""

from __future__ import annotations

from kohort_conformance.consumers import (
    consumer,
    joined,
    known_topic,
    named_topic,
    settle,
    settled,
    show,
)
from kohort_conformance.members import protocols, subscription
from kohort_conformance.mixed_members import classic_member, mixed, owning, rejoined
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage


@scenario
async def classic_sync_is_checked(stage: Stage) -> None:
    """Members, instance ids, generations, protocols, and consumers that sync."""
    a, b, _ = await mixed(stage)
    await b.sync(member_id="nobody")
    await b.sync(member_id="a")
    await b.sync(group_instance_id="i")
    for generation in (-1, 0, b.generation - 1, b.generation + 1):
        await b.sync(generation_id=generation)
    await b.sync(protocol_type="connect")
    await b.sync(protocol_name="other")
    await b.sync(protocol_type=None)
    await b.sync(protocol_name=None)
    await b.sync(protocol_type=None, protocol_name=None)
    for version in range(5):
        await b.sync(version)
    await b.sync(assignments={b.id: b"\x00", a.id: b"\x01"})
    await a.beat()


@scenario
async def classic_sync_of_an_old_epoch(stage: Stage) -> None:
    """While there is a new target, a classic member is told to join again."""
    a, b, topic = await mixed(stage)
    c = await joined(await consumer(stage, "c", topic))
    await b.sync()
    await b.heartbeat()
    await b.heartbeat()
    await b.join()
    await b.sync()
    await settle([a, c])
    await b.heartbeat()
    await show(a.client, stage.group)


@scenario
async def classic_sync_tells_the_version_of_the_subscription(stage: Stage) -> None:
    """An assignment has the version of the member's subscription."""
    topic = await known_topic(stage, partitions=2)
    await settled(stage, topic, "a")
    for version in range(4):
        b = await classic_member(
            stage,
            f"b{version}",
            topic,
            protocols=protocols("range", metadata=subscription(topic, version=version)),
        )
        await b.join()
        synced = await b.syncing().quiet()
        stage.note("version", synced["assignment"][:4])
        await b.leaving().quiet()


@scenario
async def classic_heartbeat_is_checked(stage: Stage) -> None:
    """Members, instance ids, generations, and consumers that send a classic heartbeat."""
    a, b, _ = await mixed(stage)
    for version in range(5):
        await b.heartbeat(version)
    await b.heartbeat(member_id="nobody")
    await b.heartbeat(member_id="a", generation_id=a.epoch)
    await b.heartbeat(group_instance_id="i")
    for generation in (-1, 0, b.generation - 1, b.generation + 1):
        await b.heartbeat(generation_id=generation)
    await b.heartbeat(member_id="")


@scenario
async def classic_heartbeat_while_waiting(stage: Stage) -> None:
    """A classic member that waits for a partition hears of it when it is released."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    b = await classic_member(stage, "b", topic)
    await b.join()
    await b.sync()
    await b.heartbeat()
    await a.beat()
    await b.heartbeat()
    await a.ack()
    await b.heartbeat()
    await b.heartbeat()
    await b.join()
    await b.sync()
    await b.heartbeat()


@scenario
async def classic_heartbeat_while_revoking(stage: Stage) -> None:
    """A classic member that is to revoke is told to join again until it has."""
    topic = await named_topic(stage, partitions=4)
    a = await settled(stage, topic, "a")
    b = await classic_member(stage, "b", topic, protocols=protocols("coop", metadata=owning(topic)))
    await rejoined(b)
    await settle([a])
    await rejoined(b)
    c = await joined(await consumer(stage, "c", topic))
    d = await joined(await consumer(stage, "d", topic))
    await b.heartbeat()
    b.protocols = protocols("coop", metadata=owning(topic, 2, 3))
    await b.join()
    await b.sync()
    await b.heartbeat()
    await show(a.client, stage.group)
    b.protocols = protocols("coop", metadata=owning(topic, 2))
    await b.join()
    await b.sync()
    await b.heartbeat()
    await settle([a, c, d])
    await show(a.client, stage.group)
