"""Upgrades and downgrades of groups by group.consumer.migration.policy, and servers without
consumer groups.

Each policy other than the default has a profile of its own.
"""

from __future__ import annotations

from kohort_conformance.consumers import consumer, known_topic, settle, settled, show
from kohort_conformance.group_log import GroupLog
from kohort_conformance.members import assignment, look, protocols, stable
from kohort_conformance.mixed_members import classic_group, classic_member, names, rejoined
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage


async def upgrade(stage: Stage) -> None:
    """A consumer joins a Stable classic group."""
    topic = await known_topic(stage, partitions=2)
    a = await classic_group(stage, topic, 0, 1)
    log = await GroupLog.of(stage)
    b = await consumer(stage, "b", topic)
    await b.join()
    await log.record("b joined", by_member=True)
    await a.heartbeat()
    await show(b.client, stage.group)
    await look(b.client, stage.group)


async def downgrade(stage: Stage) -> None:
    """The last consumer leaves a group with a classic member."""
    topic = await known_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    b = await classic_member(stage, "b", topic)
    await rejoined(b)
    await settle([a])
    await rejoined(b)
    log = await GroupLog.of(stage)
    await a.leave()
    await log.record("a left")
    await b.heartbeat()
    await show(a.client, stage.group)
    await look(a.client, stage.group)
    b.protocols = protocols("range", metadata=names(topic))
    await b.join()
    await b.sync(assignments={b.id: assignment(topic, 0)})
    await look(a.client, stage.group)
    await a.join()
    await b.heartbeat()


async def empty(stage: Stage) -> None:
    """Empty groups change their kind under every policy."""
    topic = await known_topic(stage, partitions=2)
    [a] = await stable(stage, "a")
    await a.leaving().quiet()
    b = await consumer(stage, "b", topic)
    await b.join()
    await b.leave()
    c = await (await classic_member(stage, "c", topic, id="")).handshake()
    await c.join()
    await look(a.client, stage.group)


@scenario(profile="upgrade")
async def upgrade_only_upgrade(stage: Stage) -> None:
    """With the policy upgrade a classic group is upgraded."""
    await upgrade(stage)


@scenario(profile="upgrade")
async def upgrade_only_downgrade(stage: Stage) -> None:
    """With the policy upgrade a group of classic members alone stays a consumer group."""
    await downgrade(stage)


@scenario(profile="upgrade")
async def upgrade_only_static_replacement(stage: Stage) -> None:
    """A classic static member that replaces the last consumer is in a consumer group."""
    topic = await known_topic(stage, partitions=2)
    a = await settled(stage, topic, "a", instance="i")
    await a.leave(-2, instance_id="i")
    b = await classic_member(stage, "b", topic, instance="i", id="")
    await b.join()
    await b.sync()
    await b.heartbeat()
    await show(a.client, stage.group)


@scenario(profile="upgrade")
async def upgrade_only_empty(stage: Stage) -> None:
    """With the policy upgrade Empty groups change their kind."""
    await empty(stage)


@scenario(profile="downgrade")
async def downgrade_only_upgrade(stage: Stage) -> None:
    """With the policy downgrade a classic group is not upgraded."""
    await upgrade(stage)


@scenario(profile="downgrade")
async def downgrade_only_downgrade(stage: Stage) -> None:
    """With the policy downgrade a group is downgraded, and then stays classic."""
    await downgrade(stage)


@scenario(profile="disabled")
async def disabled_upgrade(stage: Stage) -> None:
    """With the policy disabled a classic group is not upgraded."""
    await upgrade(stage)


@scenario(profile="disabled")
async def disabled_classic_join(stage: Stage) -> None:
    """With the policy disabled no member of the classic protocol joins a consumer group."""
    topic = await known_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    b = await classic_member(stage, "b", topic)
    static = await classic_member(stage, "static", topic, id="", instance="i")
    log = await GroupLog.of(stage)
    for version in range(10):
        await b.join(version)
        await b.join(version, member_id="")
        await b.join(version, member_id="a")
    await static.join()
    await log.record("refused")
    await show(a.client, stage.group)
    await a.beat()


@scenario(profile="disabled")
async def disabled_empty(stage: Stage) -> None:
    """With the policy disabled Empty groups change their kind."""
    await empty(stage)


@scenario(profile="classic")
async def without_consumer_groups(stage: Stage) -> None:
    """Without the protocol "consumer" every heartbeat is refused."""
    topic = await stage.create_topic()
    a = await consumer(stage, "a", topic)
    for version in (0, 1):
        await a.join(version)
        await a.join(version, member_id="", group_id="")
        await a.beat(version, member_epoch=3)
        await a.leave(version=version)
    await show(a.client, stage.group)
    await a.client.ask("ListGroups", 5, types_filter=["consumer"])


@scenario(profile="classic")
async def classic_groups_without_consumer_groups(stage: Stage) -> None:
    """Classic groups are as ever, and not upgraded."""
    topic = await stage.create_topic()
    a = await classic_group(stage, topic, 0)
    b = await consumer(stage, "b", topic)
    await b.join()
    await a.heartbeat()
    await show(a.client, stage.group)
    await look(a.client, stage.group)
