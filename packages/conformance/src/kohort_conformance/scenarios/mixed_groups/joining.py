"""JoinGroup of a classic member in a consumer group, and members that change their protocol."""

from __future__ import annotations

from kohort_conformance.consumers import consumer, known_topic, named_topic, settled, show
from kohort_conformance.group_log import GroupLog
from kohort_conformance.members import protocols
from kohort_conformance.mixed_members import classic_member, mixed, names, note_assignment, rejoined
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage


@scenario
async def classic_member_joins(stage: Stage) -> None:
    """A classic member that joins a consumer group is never parked, and joins again for its own."""
    topic = await named_topic(stage, partitions=4)
    a = await settled(stage, topic, "a")
    log = await GroupLog.of(stage)
    b = await classic_member(stage, "b", topic)
    await b.join()
    await log.record("b joined")
    await b.sync()
    await b.heartbeat()
    await a.beat()
    await a.ack()
    await log.skip()
    await b.heartbeat()
    await b.join()
    await log.record("b joined again")
    await b.sync()
    await log.record("b synced")
    await b.heartbeat()
    await show(a.client, stage.group)


@scenario
async def classic_member_joins_in_every_version(stage: Stage) -> None:
    """From version 4 on a dynamic member without id gets one to join with."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    for version in range(10):
        b = await classic_member(stage, f"b{version}", topic, id="")
        await b.join(version)
        if b.generation < 0:
            await b.join(version)
        await b.leaving().quiet()
    await show(a.client, stage.group)


@scenario
async def classic_join_is_checked(stage: Stage) -> None:
    """Sessions, protocol types and protocols, instance ids."""
    a, b, topic = await mixed(stage)
    c = await classic_member(stage, "c", topic)
    for milliseconds in (5_999, 1_800_001):
        await c.join(session_timeout=milliseconds)
    await c.join(protocol_type="connect")
    await c.join(protocol_type="")
    await c.join(protocols=[])
    await c.join(protocols=protocols("other", metadata=names(topic)))
    await c.join(group_instance_id="none")
    await c.join(member_id="", group_instance_id="i")
    d = await classic_member(stage, "d", topic)
    await d.join(group_instance_id="i")
    await b.join(group_instance_id="i")
    await a.beat()


@scenario
async def classic_join_with_a_strange_subscription(stage: Stage) -> None:
    """A subscription that cannot be read fails."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    b = await classic_member(stage, "b", topic)
    for metadata in (b"", b"\xff", b"\x00\x00\x00\x00\x00\x05"):
        await b.join(protocols=protocols("range", metadata=metadata))
    await show(a.client, stage.group)


@scenario
async def classic_join_changes_the_subscription(stage: Stage) -> None:
    """A changed subscription of a classic member is a new epoch, an unchanged one is none."""
    other = await named_topic(stage, "other", partitions=2)
    a, b, topic = await mixed(stage)
    await b.join()
    await b.sync()
    log = await GroupLog.of(stage)
    b.protocols = protocols("range", metadata=names(topic, other))
    await b.join()
    await log.record("b subscribes more")
    await note_assignment(b)
    await b.heartbeat()
    await show(a.client, stage.group)


@scenario
async def classic_join_prefers_its_first_protocol(stage: Stage) -> None:
    """The protocol of a classic member is its own first one that all classic members have."""
    a, b, topic = await mixed(stage, protocols=protocols("range", "sticky", metadata=names("x")))
    c = await classic_member(
        stage, "c", topic, protocols=protocols("sticky", "range", metadata=names(topic))
    )
    await c.join()
    await c.sync()
    await b.heartbeat()
    d = await classic_member(
        stage, "d", topic, protocols=protocols("new", "sticky", metadata=names(topic))
    )
    await d.join()
    await d.sync()
    e = await classic_member(stage, "e", topic, protocols=protocols("range", metadata=names(topic)))
    await e.join()
    await show(a.client, stage.group)


@scenario
async def consumer_becomes_classic(stage: Stage) -> None:
    """A consumer's id in a JoinGroup makes it a classic member."""
    topic = await named_topic(stage, partitions=4)
    a, b = await settled(stage, topic, "a", "b")
    log = await GroupLog.of(stage)
    c = await classic_member(stage, "c", topic, id="b")
    await c.join()
    await log.record("b is classic")
    await c.sync()
    await show(a.client, stage.group)
    await b.beat()
    await show(a.client, stage.group)


@scenario
async def classic_member_becomes_a_consumer(stage: Stage) -> None:
    """A heartbeat with the id of a classic member makes it a consumer, at its epoch, too."""
    a, b, topic = await mixed(stage)
    log = await GroupLog.of(stage)
    c = await consumer(stage, "c", topic, id=b.id)
    c.epoch = b.generation
    await c.beat()
    await log.record("b is a consumer")
    await b.heartbeat()
    await show(a.client, stage.group)
    d = await classic_member(stage, "d", topic)
    await rejoined(d)
    e = await consumer(stage, "e", topic, id=d.id)
    await e.join()
    await show(a.client, stage.group)


@scenario
async def static_classic_member_returns(stage: Stage) -> None:
    """A static classic member that restarts has the partitions of before, under a new id."""
    a, b, topic = await mixed(stage, instance="i", id="")
    again = await classic_member(stage, "again", topic, instance="i", id="")
    log = await GroupLog.of(stage)
    await again.join()
    await log.record("b is back")
    await again.sync()
    await b.heartbeat()
    await b.sync()
    await b.leave()
    await show(a.client, stage.group)


@scenario
async def static_classic_member_becomes_a_consumer(stage: Stage) -> None:
    """A consumer takes the instance id of a classic member."""
    a, b, topic = await mixed(stage, instance="i", id="")
    c = await consumer(stage, "c", topic, instance="i")
    await c.join()
    await show(a.client, stage.group)
    await b.heartbeat()
    await b.leave()
