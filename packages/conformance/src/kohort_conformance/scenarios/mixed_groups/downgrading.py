"""Consumer groups that the last consumer leaves: they become classic groups."""

from __future__ import annotations

from kohort_conformance.consumers import (
    LEAVES_FOR_A_WHILE,
    consumer,
    joined,
    known_topic,
    named_topic,
    settle,
    settled,
    show,
)
from kohort_conformance.group_log import GroupLog
from kohort_conformance.members import assignment, look, member, protocols
from kohort_conformance.mixed_members import classic_member, mixed, names, rejoined
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage


@scenario
async def downgrade(stage: Stage) -> None:
    """When the last consumer leaves, the group is a classic one and rebalances."""
    a, b, topic = await mixed(stage)
    log = await GroupLog.of(stage)
    await a.leave()
    await log.record("a left")
    await look(a.client, stage.group)
    await show(a.client, stage.group)
    await b.heartbeat()
    await b.join(protocols=protocols("range", metadata=names(topic)))
    await b.sync(assignments={b.id: assignment(topic, 0, 1, 2, 3)})
    await b.heartbeat()
    await look(a.client, stage.group)


@scenario
async def downgrade_by_leave_group(stage: Stage) -> None:
    """So it is when the last consumer is removed."""
    a, b, _ = await mixed(stage)
    admin = await stage.client("admin")
    await admin.ask(
        "LeaveGroup",
        5,
        group_id=stage.group,
        members=[{"member_id": "a", "group_instance_id": None}],
    )
    await b.heartbeat()
    await a.beat()
    await look(admin, stage.group)


@scenario
async def not_downgraded_when_all_leave(stage: Stage) -> None:
    """A group that all members leave at once stays a consumer group."""
    a, b, _ = await mixed(stage)
    admin = await stage.client("admin")
    await admin.ask(
        "LeaveGroup",
        5,
        group_id=stage.group,
        members=[{"member_id": one, "group_instance_id": None} for one in (a.id, b.id, "nobody")],
    )
    await show(admin, stage.group)


@scenario
async def not_downgraded_by_who_is_away(stage: Stage) -> None:
    """A consumer that left for a while is still one."""
    topic = await known_topic(stage, partitions=2)
    a = await settled(stage, topic, "a", instance="i")
    b = await classic_member(stage, "b", topic)
    await rejoined(b)
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    await b.heartbeat()
    await show(a.client, stage.group)


@scenario
async def classic_static_member_replaces_the_last_consumer(stage: Stage) -> None:
    """A consumer that restarts as a classic member: the group is classic, without a rebalance."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a", instance="i")
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    log = await GroupLog.of(stage)
    b = await classic_member(stage, "b", topic, instance="i", id="")
    await b.join()
    await log.record_standing("b is a")
    await look(a.client, stage.group)
    await b.sync()
    await b.heartbeat()


@scenario
async def classic_member_replaces_one_of_two(stage: Stage) -> None:
    """With another consumer left it stays a consumer group."""
    topic = await named_topic(stage, partitions=4)
    a = await joined(await consumer(stage, "a", topic, instance="i"))
    c = await joined(await consumer(stage, "c", topic))
    await settle([a, c])
    b = await classic_member(stage, "b", topic, instance="i", id="")
    log = await GroupLog.of(stage)
    await b.join()
    await log.record("b is a")
    await b.sync()
    await a.beat()
    await a.beat(instance_id="i")
    await show(c.client, stage.group)


@scenario
async def empty_consumer_group_is_joined(stage: Stage) -> None:
    """An Empty consumer group is replaced by a classic one; its offsets stay."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    await a.committing(topic, {0: 3}).quiet()
    await a.leave()
    log = await GroupLog.of(stage)
    b = await member(stage, "b")
    await b.join()
    await b.join()
    await log.record("b joined")
    await look(a.client, stage.group)
    await a.client.ask(
        "OffsetFetch", 7, group_id=stage.group, topics=[{"name": topic, "partition_indexes": [0]}]
    )
