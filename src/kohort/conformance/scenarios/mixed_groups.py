"""Groups with members of both kinds: upgraded, downgraded, and each request of a classic member."""

from __future__ import annotations

import struct
from typing import Any

from kohort.conformance.consumers import (
    LEAVES_FOR_A_WHILE,
    PlayedConsumer,
    consumer,
    joined,
    known_topic,
    name_topics,
    settle,
    settled,
    show,
)
from kohort.conformance.group_log import GroupLog
from kohort.conformance.members import (
    PlayedMember,
    assignment,
    gather_round,
    look,
    member,
    protocols,
    stable,
    subscription,
    until_rebalancing,
)
from kohort.conformance.scenario import scenario
from kohort.conformance.stage import SetUpError, Stage


def names(*topics: str) -> bytes:
    """A subscription of version 3 without owned partitions."""
    return subscription(*topics, version=3)


def owning(topic: str, *partitions: int, version: int = 1) -> bytes:
    """A subscription with owned partitions of its one topic."""
    start = subscription(topic, version=0)
    listed = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    encoded = topic.encode()
    body = struct.pack(">h", version) + start[2:] + struct.pack(">ih", 1, len(encoded)) + encoded
    return body + listed + (struct.pack(">i", -1) if version >= 2 else b"")


async def classic_member(stage: Stage, client_id: str, topic: str, **values: Any) -> PlayedMember:
    """A member to be of the classic protocol with an id of its own, as consumer groups take it."""
    values.setdefault("id", f"{client_id}-id")
    values.setdefault("protocols", protocols("range", metadata=names(topic)))
    return await member(stage, client_id, **values)


async def classic_group(stage: Stage, topic: str, *partitions: int, **values: Any) -> PlayedMember:
    """A Stable classic group of one member that has these partitions of a topic."""
    values.setdefault("protocols", protocols("range", metadata=names(topic)))
    a = await member(stage, "a", **values)
    await gather_round([a])
    await synced(a, {a.id: assignment(topic, *partitions)})
    return a


async def synced(one: PlayedMember, assignments: dict[str, bytes] | None = None) -> None:
    """SyncGroup, unrecorded, that must succeed."""
    told = await one.syncing(assignments=assignments).quiet()
    if told["error_code"] != "NONE (0)":
        raise SetUpError(f"SyncGroup: {told['error_code']}")


async def rejoined(one: PlayedMember) -> None:
    """JoinGroup and SyncGroup, unrecorded."""
    told = await one.joining().quiet()
    if told["error_code"] != "NONE (0)":
        raise SetUpError(f"JoinGroup: {told['error_code']}")
    await synced(one)


async def mixed(
    stage: Stage, partitions: int = 4, **values: Any
) -> tuple[PlayedConsumer, PlayedMember, str]:
    """A consumer group of a consumer a and a classic member b, who have half of a topic each."""
    topic = await known_topic(stage, partitions=partitions)
    await name_topics(stage, topic)
    a = await settled(stage, topic, "a")
    b = await classic_member(stage, "b", topic, **values)
    await rejoined(b)
    await settle([a])
    await rejoined(b)
    return a, b, topic


async def note_assignment(one: PlayedMember) -> None:
    """SyncGroup, recorded as topics and partitions, whose order is that of a hash map in Kafka."""
    told = await one.syncing().quiet()
    data = bytes.fromhex(told["assignment"])
    found, at = {}, 6
    for _ in range(int.from_bytes(data[2:6], "big")):
        size, at = int.from_bytes(data[at : at + 2], "big"), at + 2
        topic, at = data[at : at + size].decode(), at + size
        count, at = int.from_bytes(data[at : at + 4], "big"), at + 4
        found[topic.removesuffix(one.stage.suffix)] = sorted(
            struct.unpack_from(f">{count}i", data, at)
        )
        at += 4 * count
    one.stage.note(f"{one.client.client_id}: assignment", found)


# --- upgrade


@scenario
async def upgrade(stage: Stage) -> None:
    """A consumer joins a Stable classic group: its epochs go on from the generation."""
    topic = await known_topic(stage, partitions=4)
    await name_topics(stage, topic)
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
    topic = await known_topic(stage, partitions=4)
    await name_topics(stage, topic)
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
    topic = await known_topic(stage, partitions=2)
    await name_topics(stage, topic)
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
    topic = await known_topic(stage, partitions=2)
    await name_topics(stage, topic)
    a = await classic_group(stage, topic, 0, 1, instance="i")
    b = await consumer(stage, "b", topic)
    await b.join(instance_id="i")
    await show(b.client, stage.group)
    await a.heartbeat()


@scenario
async def a_consumer_with_the_id_of_a_classic_member(stage: Stage) -> None:
    """At epoch 0 it takes the place, and the group has no classic member any more."""
    topic = await known_topic(stage, partitions=2)
    await name_topics(stage, topic)
    a = await classic_group(stage, topic, 0, 1)
    log = await GroupLog.of(stage)
    b = await consumer(stage, "b", topic, id=a.id)
    await b.join()
    await log.record("b is a")
    await show(b.client, stage.group)
    await a.heartbeat()


# --- downgrade


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
    topic = await known_topic(stage, partitions=2)
    await name_topics(stage, topic)
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
    topic = await known_topic(stage, partitions=4)
    await name_topics(stage, topic)
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


# --- the requests of a classic member


@scenario
async def classic_member_joins(stage: Stage) -> None:
    """A classic member that joins a consumer group is never parked, and joins again for its own."""
    topic = await known_topic(stage, partitions=4)
    await name_topics(stage, topic)
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
    other = await known_topic(stage, "other", partitions=2)
    await name_topics(stage, other)
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
    topic = await known_topic(stage, partitions=4)
    await name_topics(stage, topic)
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
    topic = await known_topic(stage, partitions=2)
    await name_topics(stage, topic)
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
    topic = await known_topic(stage, partitions=4)
    await name_topics(stage, topic)
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


@scenario
async def classic_member_leaves(stage: Stage) -> None:
    """Its partitions go to the others."""
    a, b, _ = await mixed(stage)
    log = await GroupLog.of(stage)
    await b.leave()
    await log.record("b left")
    await b.leave()
    await b.heartbeat()
    await a.beat()
    await show(a.client, stage.group)


@scenario
async def classic_member_leaves_in_every_version(stage: Stage) -> None:
    """By each version of LeaveGroup."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    for version in range(6):
        b = await classic_member(stage, f"b{version}", topic)
        await rejoined(b)
        await b.leave(version)
    await a.beat()


@scenario
async def classic_member_commits(stage: Stage) -> None:
    """A classic member commits in any version, and hears 22 of another generation."""
    a, b, topic = await mixed(stage)
    for version in range(2, 10):
        await b.commit(topic, {0: version}, version)
    for generation in (-1, 0, b.generation - 1, b.generation + 1):
        await b.commit(topic, {0: 1}, generation=generation)
    await b.commit(topic, {0: 1}, group_instance_id="i")
    await b.commit(topic, {0: 1}, member_id="")
    await a.commit(topic, {0: 2})
    c = await joined(await consumer(stage, "c", topic))
    await b.commit(topic, {0: 5})
    await c.leave()


@scenario
async def classic_member_fetches_offsets(stage: Stage) -> None:
    """OffsetFetch with the id and generation of a classic member."""
    a, b, topic = await mixed(stage)
    await a.committing(topic, {0: 4}).quiet()
    for member_id, epoch in (
        (b.id, b.generation),
        (b.id, b.generation + 1),
        (b.id, 0),
        (a.id, a.epoch),
        (a.id, a.epoch + 1),
        ("nobody", 1),
        (None, -1),
        (None, a.epoch),
    ):
        asked = {
            "group_id": stage.group,
            "member_id": member_id,
            "member_epoch": epoch,
            "topics": [{"name": topic, "partition_indexes": [0]}],
        }
        await a.client.ask("OffsetFetch", 9, groups=[asked])


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


@scenario
async def admin_of_a_mixed_group(stage: Stage) -> None:
    """DescribeGroups, ListGroups, DeleteGroups and OffsetDelete of a mixed group."""
    a, _, topic = await mixed(stage)
    admin = await stage.client("admin")
    for version in (0, 5, 6):
        await look(admin, stage.group, version)
    for version in (0, 1):
        await show(admin, stage.group, version)
    await admin.ask("DeleteGroups", 2, groups_names=[stage.group])
    await admin.ask(
        "OffsetDelete",
        0,
        group_id=stage.group,
        topics=[{"name": topic, "partitions": [{"partition_index": 0}]}],
    )
    await a.beat()
