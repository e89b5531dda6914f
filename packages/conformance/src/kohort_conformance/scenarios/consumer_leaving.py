"""Members that leave a consumer group for good or for a while, and static members that return."""

from __future__ import annotations

from typing import Any

from kohort_conformance.consumers import (
    LEAVES,
    LEAVES_FOR_A_WHILE,
    PlayedConsumer,
    consumer,
    joined,
    known_topic,
    named_topic,
    settle,
    settled,
    show,
)
from kohort_conformance.group_log import GroupLog
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Client, Stage


async def static_pair(stage: Stage, **values: Any) -> tuple[PlayedConsumer, PlayedConsumer, str]:
    """A settled static member a (instance i) and a dynamic one b, and their topic."""
    topic = await named_topic(stage, partitions=4)
    a = await joined(await consumer(stage, "a", topic, instance="i", **values))
    b = await joined(await consumer(stage, "b", topic))
    await settle([a, b])
    return a, b, topic


async def leave_group(
    client: Client, group: str, *members: dict[str, Any], version: int = 5
) -> None:
    """LeaveGroup, recorded."""
    await client.ask("LeaveGroup", version, group_id=group, members=list(members))


@scenario
async def for_good(stage: Stage) -> None:
    """A member that leaves is removed, and its partitions go to the others."""
    topic = await named_topic(stage, partitions=4)
    a, b = await settled(stage, topic, "a", "b")
    log = await GroupLog.of(stage)
    await b.leave()
    await log.record("b left")
    await show(a.client, stage.group)
    await b.beat()
    await b.leave()
    await a.beat()
    await log.record("a has all")
    await a.leave()
    await log.record("a left")
    await show(a.client, stage.group)
    await a.beat()
    await a.leave()


@scenario
async def and_joins_again(stage: Stage) -> None:
    """An id that left may join again, and an Empty group goes on at its epoch."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    await a.leave()
    log = await GroupLog.of(stage)
    await a.join()
    await log.record("joined again")
    await show(a.client, stage.group)


@scenario
async def while_it_revokes(stage: Stage) -> None:
    """What a member was to revoke is free when it leaves."""
    topic = await named_topic(stage, partitions=4)
    a = await settled(stage, topic, "a")
    b = await joined(await consumer(stage, "b", topic))
    await b.beat()
    await a.beat()
    log = await GroupLog.of(stage)
    await a.leave()
    await log.record("a left")
    await b.beat()
    await log.record("b has all")
    await show(b.client, stage.group)


@scenario
async def static_member_for_good(stage: Stage) -> None:
    """A static member leaves for good by -1, with its instance id or without."""
    a, b, topic = await static_pair(stage)
    log = await GroupLog.of(stage)
    await a.leave(instance_id="i")
    await log.record("a left")
    await a.beat(instance_id="i")
    await show(b.client, stage.group)
    c = await joined(await consumer(stage, "c", topic, instance="i"))
    await c.leave()
    await log.skip()
    d = await consumer(stage, "d", topic, instance="i")
    await d.join()
    await show(b.client, stage.group)


@scenario
async def static_member_for_a_while(stage: Stage) -> None:
    """By -2 a static member stays in the group with its partitions."""
    a, b, _ = await static_pair(stage)
    log = await GroupLog.of(stage)
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    await log.record("a is away")
    await show(b.client, stage.group)
    await a.beat()
    await a.beat(instance_id="i")
    await b.beat()
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    await log.record("said again")
    await show(b.client, stage.group)


@scenario
async def static_member_returns(stage: Stage) -> None:
    """Under a new id it gets what it had at once, without a new epoch."""
    a, b, topic = await static_pair(stage)
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    log = await GroupLog.of(stage)
    c = await consumer(stage, "c", topic, instance="i")
    await c.join()
    await log.record("c is a")
    await show(b.client, stage.group)
    await c.beat()
    await c.beat(instance_id="i")
    await a.beat(instance_id="i")
    await a.beat()
    await a.leave()
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    await b.beat()
    await log.record("nothing")


@scenario
async def static_member_returns_as_itself(stage: Stage) -> None:
    """Under the same id too."""
    a, b, _ = await static_pair(stage)
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    log = await GroupLog.of(stage)
    await a.join()
    await log.record("a is back")
    await show(b.client, stage.group)


@scenario
async def static_member_returns_by_its_epoch(stage: Stage) -> None:
    """Between leaving for a while and joining every epoch is refused."""
    a, _, _ = await static_pair(stage)
    epoch = a.epoch
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    for one in (epoch, epoch - 1, 1):
        await a.beat(member_epoch=one, instance_id="i")
        await a.ack(member_epoch=one, instance_id="i")


@scenario
async def static_member_returns_with_other_topics(stage: Stage) -> None:
    """A changed subscription bumps the epoch."""
    other = await named_topic(stage, "other", partitions=2)
    a, b, topic = await static_pair(stage)
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    log = await GroupLog.of(stage)
    c = await consumer(stage, "c", topic, other, instance="i")
    await c.join()
    await log.record("c subscribes more")
    await settle([b, c])
    await show(b.client, stage.group)


@scenario
async def static_member_returns_with_other_fields(stage: Stage) -> None:
    """A changed timeout, rack, assignor and client id do not."""
    a, b, topic = await static_pair(stage)
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    log = await GroupLog.of(stage)
    c = await consumer(stage, "c", topic, instance="i", rebalance_ms=9_000, assignor="range")
    await c.join(rack_id="r")
    await log.record("c is a")
    await show(b.client, stage.group)


@scenario
async def static_member_away_while_another_comes(stage: Stage) -> None:
    """What a member that is away shall lose is lost when it returns."""
    a, b, topic = await static_pair(stage)
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    c = await joined(await consumer(stage, "c", topic))
    await settle([b, c])
    await show(b.client, stage.group)
    d = await consumer(stage, "d", topic, instance="i")
    await d.join()
    await show(b.client, stage.group)
    await settle([b, c, d])
    await show(b.client, stage.group)


@scenario
async def static_member_away_while_it_revokes(stage: Stage) -> None:
    """A member that leaves for a while has revoked what it was to revoke."""
    topic = await named_topic(stage, partitions=4)
    a = await settled(stage, topic, "a", instance="i")
    b = await joined(await consumer(stage, "b", topic))
    await b.beat()
    await a.beat()
    log = await GroupLog.of(stage)
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    await log.record("a is away")
    await b.beat()
    await log.record("b has two")
    await show(b.client, stage.group)


@scenario
async def static_member_away_is_removed(stage: Stage) -> None:
    """One that is away can leave for good, by id or by LeaveGroup."""
    a, b, _ = await static_pair(stage)
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    log = await GroupLog.of(stage)
    await a.leave(instance_id="i")
    await log.record("a left")
    await show(b.client, stage.group)


@scenario
async def all_are_away(stage: Stage) -> None:
    """A group whose members are all away is not Empty."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a", instance="i")
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    await show(a.client, stage.group)
    await a.client.ask("DeleteGroups", 2, groups_names=[stage.group])
    b = await consumer(stage, "b", topic)
    await b.join()
    await show(a.client, stage.group)


@scenario
async def instance_moves_to_a_live_member(stage: Stage) -> None:
    """A dynamic member can take the instance id of one that is away, and its partitions."""
    a, b, _ = await static_pair(stage)
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    await b.join(instance_id="i")
    await show(b.client, stage.group)


@scenario
async def by_leave_group(stage: Stage) -> None:
    """LeaveGroup removes members of a consumer group by id and by instance id."""
    _, _, topic = await static_pair(stage)
    log = await GroupLog.of(stage)
    admin = await stage.client("admin")
    await leave_group(admin, stage.group, {"member_id": "b", "group_instance_id": None})
    await log.record("b left")
    await leave_group(admin, stage.group, {"member_id": "", "group_instance_id": "i"})
    await log.record("a left")
    await show(admin, stage.group)
    await joined(await consumer(stage, "c", topic))
    await admin.ask("LeaveGroup", 2, group_id=stage.group, member_id="c")
    await show(admin, stage.group)


@scenario
async def by_leave_group_all_at_once(stage: Stage) -> None:
    """Many members leave with one new epoch; those that cannot leave have their own codes."""
    await static_pair(stage)
    log = await GroupLog.of(stage)
    admin = await stage.client("admin")
    await leave_group(
        admin,
        stage.group,
        {"member_id": "nobody", "group_instance_id": None},
        {"member_id": "", "group_instance_id": None},
        {"member_id": "", "group_instance_id": "j"},
        {"member_id": "b", "group_instance_id": "i"},
        {"member_id": "a", "group_instance_id": "i"},
        {"member_id": "b", "group_instance_id": None},
        {"member_id": "b", "group_instance_id": None},
    )
    await log.record("both left", by_member=True)
    await show(admin, stage.group)


@scenario
async def by_leave_group_without_members(stage: Stage) -> None:
    """LeaveGroup for nobody, for a stranger, and in every version."""
    topic = await known_topic(stage)
    await settled(stage, topic, "a")
    admin = await stage.client("admin")
    await leave_group(admin, stage.group)
    for version in range(3):
        await admin.ask("LeaveGroup", version, group_id=stage.group, member_id="nobody")
    for version in (3, 4, 5):
        await leave_group(
            admin,
            stage.group,
            {"member_id": "nobody", "group_instance_id": None},
            version=version,
        )
    await show(admin, stage.group)


@scenario
async def rejoins_with_its_epoch_after_leaving(stage: Stage) -> None:
    """After -1 the epochs of before are those of a stranger, also with an instance id."""
    a, _, _ = await static_pair(stage)
    epoch = a.epoch
    await a.leave(LEAVES)
    for one in (epoch, LEAVES, LEAVES_FOR_A_WHILE):
        await a.beat(member_epoch=one, instance_id="i")
