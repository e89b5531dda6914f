"""Classic groups that a consumer joins: they become consumer groups."""

from __future__ import annotations

import struct

from kohort_conformance.consumers import consumer, joined, known_topic, named_topic, show
from kohort_conformance.group_log import GroupLog
from kohort_conformance.members import (
    assignment,
    gather_round,
    look,
    member,
    protocols,
    stable,
    subscription,
    until_rebalancing,
)
from kohort_conformance.mixed_members import classic_group, names, owning
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage


@scenario
async def upgrade(stage: Stage) -> None:
    """A consumer joins a Stable classic group: its epochs go on from the generation."""
    topic = await named_topic(stage, partitions=4)
    a = await classic_group(stage, topic, 0, 1, 2, 3)
    log = await GroupLog.of(stage)
    b = await consumer(stage, "b", topic)
    await b.join()
    await log.record("b joined", by_member=True)
    await show(b.client, stage.group)
    await look(b.client, stage.group, 6)
    await a.heartbeat()
    await b.beat()
    await log.skip()
    await a.join(protocols=protocols("range", metadata=names(topic)))
    await log.record("a joined again", by_member=True)
    await a.sync()
    await log.record("a synced")
    await a.heartbeat()
    await b.beat()
    await show(b.client, stage.group)


@scenario
async def upgrade_keeps_owned_partitions(stage: Stage) -> None:
    """A member that says what it owns is asked to give up what it shall not have."""
    topic = await named_topic(stage, partitions=4)
    a = await classic_group(
        stage, topic, 0, 1, 2, 3, protocols=protocols("range", metadata=owning(topic))
    )
    b = await joined(await consumer(stage, "b", topic))
    await a.heartbeat()
    log = await GroupLog.of(stage)
    await a.join(protocols=protocols("range", metadata=owning(topic, 0, 1, 2, 3)))
    await log.record("a joined with all", by_member=True)
    await a.sync()
    await a.heartbeat()
    await b.beat()
    await a.join(protocols=protocols("range", metadata=owning(topic, 0, 1)))
    await log.record("a joined with its own", by_member=True)
    await a.sync()
    await a.heartbeat()
    await b.beat()
    await show(b.client, stage.group)


@scenario
async def upgrade_of_an_empty_group(stage: Stage) -> None:
    """An Empty classic group is replaced; its offsets stay."""
    topic = await known_topic(stage, partitions=2)
    [a] = await stable(stage, "a")
    await a.committing(topic, {0: 7}).quiet()
    await a.leaving().quiet()
    log = await GroupLog.of(stage)
    b = await consumer(stage, "b", topic)
    await b.join()
    await log.record("b joined", by_member=True)
    await b.client.ask(
        "OffsetFetch",
        7,
        group_id=stage.group,
        topics=[{"name": topic, "partition_indexes": [0, 1]}],
    )
    await show(b.client, stage.group)


@scenario
async def upgrade_of_a_simple_group(stage: Stage) -> None:
    """So is a simple group."""
    topic = await known_topic(stage)
    simple = await member(stage, "s")
    await simple.committing(topic, {0: 1}).quiet()
    log = await GroupLog.of(stage)
    a = await consumer(stage, "a", topic)
    await a.join()
    await log.record("a joined")


@scenario
async def upgrade_of_another_protocol_type(stage: Stage) -> None:
    """A group of connectors cannot be upgraded, an Empty one can."""
    topic = await known_topic(stage)
    [a] = await stable(stage, "a", protocol_type="connect")
    b = await consumer(stage, "b", topic)
    await b.join()
    await a.heartbeat()
    await a.leave()
    await b.join()


@scenario
async def upgrade_of_strange_metadata(stage: Stage) -> None:
    """A subscription or assignment that cannot be read, or user data, may forbid it."""
    topic = await known_topic(stage)
    b = await consumer(stage, "b", topic)
    user_data = assignment(topic, 0)[:-4] + struct.pack(">i", 1) + b"u"
    cases: list[tuple[str, bytes, bytes]] = [
        ("subscription", b"\xff", assignment(topic, 0)),
        ("empty subscription", b"", assignment(topic, 0)),
        ("assignment", names(topic), b"\xff"),
        ("empty assignment", names(topic), b""),
        ("user data of the assignment", names(topic), user_data),
        ("user data of the subscription", subscription(topic, user_data=b"u"), b""),
    ]
    for label, metadata, given in cases:
        group = stage.group_named(label.replace(" ", "-"))
        a = await member(stage, label, group=group, protocols=protocols("range", metadata=metadata))
        await a.handshake()
        await a.joining().quiet()
        await a.syncing(assignments={a.id: given}).quiet()
        told = await b.joining(group_id=group).quiet()
        stage.note(label, told["error_code"])
        await a.heartbeat()


@scenario
async def upgrade_of_a_topic_that_is_gone(stage: Stage) -> None:
    """Partitions of topics that do not exist are left out."""
    topic = await named_topic(stage, partitions=2)
    await classic_group(stage, stage.topic_named("none"), 0, 1)
    log = await GroupLog.of(stage)
    b = await consumer(stage, "b", topic)
    await b.join()
    await log.record("b joined", by_member=True)
    await show(b.client, stage.group)


@scenario
async def upgrade_while_members_join(stage: Stage) -> None:
    """Parked JoinGroups are told to join again."""
    topic = await known_topic(stage, partitions=2)
    a = await classic_group(stage, topic, 0, 1)
    c = await member(stage, "c", protocols=protocols("range", metadata=names(topic)))
    await c.handshake()
    joining = c.joining()
    await until_rebalancing(a)
    b = await consumer(stage, "b", topic)
    await b.join()
    await joining.response()
    await a.heartbeat()


@scenario
async def upgrade_while_members_sync(stage: Stage) -> None:
    """Parked SyncGroups, too."""
    topic = await known_topic(stage, partitions=2)
    metadata = protocols("range", metadata=names(topic))
    a = await member(stage, "a", protocols=metadata)
    c = await member(stage, "c", protocols=metadata)
    await gather_round([a, c])
    syncing = c.syncing()
    await syncing.still_parked()
    b = await joined(await consumer(stage, "b", topic))
    stage.note("epoch of b", b.epoch)
    await syncing.response()
    await a.sync(assignments={a.id: b"", c.id: b""})
    await a.heartbeat()


@scenario
async def upgrade_of_a_static_member(stage: Stage) -> None:
    """A static classic member takes part with its instance id."""
    topic = await named_topic(stage, partitions=2)
    a = await classic_group(stage, topic, 0, 1, instance="i")
    b = await consumer(stage, "b", topic)
    await b.join(instance_id="i")
    await show(b.client, stage.group)
    await a.heartbeat()


@scenario
async def a_consumer_with_the_id_of_a_classic_member(stage: Stage) -> None:
    """At epoch 0 it takes the place, and the group has no classic member any more."""
    topic = await named_topic(stage, partitions=2)
    a = await classic_group(stage, topic, 0, 1)
    log = await GroupLog.of(stage)
    b = await consumer(stage, "b", topic, id=a.id)
    await b.join()
    await log.record("b is a")
    await show(b.client, stage.group)
    await a.heartbeat()
