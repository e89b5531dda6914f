"""Consumer groups as administrators see and change them."""

from __future__ import annotations

from typing import Any

from kohort_conformance.consumers import (
    LEAVES_FOR_A_WHILE,
    consumer,
    joined,
    known_topic,
    name_topics,
    named_topic,
    settle,
    settled,
    show,
)
from kohort_conformance.group_log import GroupLog
from kohort_conformance.members import look, member, stable
from kohort_conformance.mixed_members import classic_member, rejoined
from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.listing import listed
from kohort_conformance.stage import GROUP, Client, Stage

SET, DELETE, APPEND, SUBTRACT = range(4)
SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
INTERVAL = "consumer.assignment.interval.ms"


async def alter(
    client: Client, group: str, *changes: tuple[str, int, str | None], **values: Any
) -> None:
    """IncrementalAlterConfigs of a group, recorded."""
    configs = [
        {"name": name, "config_operation": operation, "value": value}
        for name, operation, value in changes
    ]
    resource = {"resource_type": GROUP, "resource_name": group, "configs": configs}
    await client.ask("IncrementalAlterConfigs", 1, resources=[resource], **values)


async def describe_configs(
    client: Client, group: str, *keys: str, version: int = 4, **values: Any
) -> None:
    """DescribeConfigs of a group, recorded by name."""
    resource = {
        "resource_type": GROUP,
        "resource_name": group,
        "configuration_keys": keys or None,
    }
    told = await client.quiet("DescribeConfigs", version, resources=[resource], **values)
    for result in told["results"]:
        result["configs"].sort(key=lambda one: one["name"])
    client.stage.note(f"{client.client_id}: DescribeConfigs v{version}", told)


# --- describing


@scenario
async def describe_in_every_version(stage: Stage) -> None:
    """ConsumerGroupDescribe of a group with members of both kinds."""
    topic = await named_topic(stage, partitions=4)
    a = await settled(stage, topic, "a", instance="i", assignor="range")
    b = await classic_member(stage, "b", topic)
    await rejoined(b)
    for version in (0, 1):
        await show(a.client, stage.group, version)
        await show(a.client, stage.group, version, include_authorized_operations=True)


@scenario
async def describe_subscriptions(stage: Stage) -> None:
    """Names, a regular expression, and both; racks and clients."""
    topic = await named_topic(stage, partitions=4)
    a = await settled(stage, topic, "a")
    b = await joined(await consumer(stage, "b", regex=f"{stage.name}-none"), rack_id="r")
    c = await joined(await consumer(stage, "c", topic, regex="none"), rack_id="s")
    await settle([a, b, c])
    for version in (0, 1):
        await show(a.client, stage.group, version)


@scenario
async def describe_what_is_none(stage: Stage) -> None:
    """The empty id, unknown groups and classic groups are no consumer groups."""
    topic = await stage.create_topic()
    await stable(stage, "a")
    simple = await member(stage, "s", group=stage.group_named("simple"))
    await simple.committing(topic, {0: 1}).quiet()
    for version in (0, 1):
        for group in ("", stage.group_named("none"), stage.group, simple.group):
            await show(simple.client, group, version)
    await simple.client.ask("ConsumerGroupDescribe", 1, group_ids=[])


@scenario
async def describe_many(stage: Stage) -> None:
    """Many groups in one request, in its order, some of them twice."""
    topic = await known_topic(stage)
    await settled(stage, topic, "a")
    other = await settled(stage, topic, "b", group=stage.group_named("other"))
    none = stage.group_named("none")
    told = await other.client.quiet(
        "ConsumerGroupDescribe",
        1,
        group_ids=[none, stage.group, "", other.group, stage.group, none],
    )
    told["groups"].sort(key=lambda one: str(one["group_id"]))
    stage.note("groups", told)


@scenario
async def describe_in_every_state(stage: Stage) -> None:
    """The states of a group: Assigning, Reconciling, Stable, Empty."""
    topic = await named_topic(stage, partitions=2)
    await stage.set_group(stage.group, **{INTERVAL: "15000"})
    a = await joined(await consumer(stage, "a", topic))
    await show(a.client, stage.group)
    b = await joined(await consumer(stage, "b", topic))
    await show(a.client, stage.group)
    await look(a.client, stage.group, 6)
    await stage.set_group(stage.group, **{INTERVAL: "0"})
    await b.beat()
    await show(a.client, stage.group)
    await settle([a, b])
    await show(a.client, stage.group)
    await a.leave()
    await b.leave()
    await show(a.client, stage.group)
    for version in (0, 5, 6):
        await look(a.client, stage.group, version)


@scenario
async def describe_pending_partitions(stage: Stage) -> None:
    """What a member is to revoke is in its assignment until it has."""
    topic = await named_topic(stage, partitions=4)
    a = await settled(stage, topic, "a")
    await joined(await consumer(stage, "b", topic))
    await a.beat()
    await show(a.client, stage.group)
    await a.ack()
    await show(a.client, stage.group)


@scenario
async def describe_deleted_topics(stage: Stage) -> None:
    """Partitions of topics that do not exist any more are left out."""
    topic = await known_topic(stage, partitions=2)
    other = await known_topic(stage, "other", partitions=2)
    await name_topics(stage, topic, other)
    a = await joined(await consumer(stage, "a", topic, other))
    await settle([a])
    await stage.delete_topic(other)
    await known_topic(stage, "later")
    await show(a.client, stage.group)


@scenario
async def describe_by_the_old_request(stage: Stage) -> None:
    """For DescribeGroups a consumer group is Dead, from version 6 not found."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    for version in range(7):
        await look(a.client, stage.group, version)


@scenario
async def describe_a_member_that_is_away(stage: Stage) -> None:
    """A static member that left for a while has epoch -2 and its partitions."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a", instance="i")
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    for version in (0, 1):
        await show(a.client, stage.group, version)


# --- listing


async def one_of_each(stage: Stage) -> Client:
    """Consumer groups that are Stable, Empty, Reconciling and Assigning, and a classic one."""
    topic = await known_topic(stage, partitions=2)
    await settled(stage, topic, "a", group=stage.group_named("stable"))
    left = await settled(stage, topic, "b", group=stage.group_named("empty"))
    await left.beating(member_epoch=-1).quiet()
    reconciling = stage.group_named("reconciling")
    await settled(stage, topic, "c", group=reconciling)
    await joined(await consumer(stage, "d", topic, group=reconciling))
    assigning = stage.group_named("assigning")
    await stage.set_group(assigning, **{INTERVAL: "15000"})
    for name in ("e", "f"):
        await joined(await consumer(stage, name, topic, group=assigning))
    await stable(stage, "g", group=stage.group_named("classic"))
    return await stage.client("lister")


@scenario
async def list_in_every_version(stage: Stage) -> None:
    """States since version 4, types since version 5."""
    client = await one_of_each(stage)
    for version in range(6):
        await listed(client, version)


@scenario
async def list_by_state(stage: Stage) -> None:
    """Filters by state, without regard to case."""
    client = await one_of_each(stage)
    for states in (
        ["Assigning"],
        ["RECONCILING"],
        ["stable"],
        ["Empty"],
        ["Dead"],
        ["assigning", "reconciling", "none"],
    ):
        await listed(client, 4, states_filter=states)
        await listed(client, 5, states_filter=states)


@scenario
async def list_by_type(stage: Stage) -> None:
    """Filters by type, and by both."""
    client = await one_of_each(stage)
    for types in (["consumer"], ["Consumer"], ["classic"], ["share"], ["streams"], ["none"]):
        await listed(client, 5, types_filter=types)
    await listed(client, 5, types_filter=["consumer"], states_filter=["stable", "Empty"])
    await listed(client, 5, types_filter=["classic"], states_filter=["Reconciling"])


# --- deleting


@scenario
async def delete(stage: Stage) -> None:
    """Only an Empty group can be deleted; its offsets go with it."""
    topic = await known_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    await a.committing(topic, {0: 1, 1: 2}).quiet()
    for version in range(4):
        await a.client.ask("DeleteGroups", version, groups_names=[stage.group])
    await a.leave()
    log = await GroupLog.of(stage)
    await a.client.ask("DeleteGroups", 2, groups_names=[stage.group])
    await log.record("deleted")
    await a.client.ask("DeleteGroups", 2, groups_names=[stage.group])
    await show(a.client, stage.group)
    await a.client.ask(
        "OffsetFetch", 7, group_id=stage.group, topics=[{"name": topic, "partition_indexes": [0]}]
    )
    await a.join()
    await show(a.client, stage.group)


# --- configs


@scenario
async def configs_by_default(stage: Stage) -> None:
    """All configs of a group that has none, in every version."""
    a = await stage.client()
    for version in range(1, 5):
        await describe_configs(a, stage.group, version=version)
    await describe_configs(a, stage.group, SESSION, include_synonyms=True)
    await describe_configs(a, stage.group, SESSION, "none", include_documentation=True)
    await describe_configs(a, "")


@scenario
async def configs_that_are_set(stage: Stage) -> None:
    """A group's own values, with the broker's as synonyms."""
    a = await stage.client()
    await alter(a, stage.group, (SESSION, SET, "50000"), (HEARTBEAT, SET, "6000"))
    await stage.set_group(stage.group, **{INTERVAL: "2000"})
    keys = (SESSION, HEARTBEAT, INTERVAL)
    for version in range(1, 5):
        await describe_configs(a, stage.group, *keys, version=version)
    await describe_configs(a, stage.group, *keys, include_synonyms=True)
    await alter(a, stage.group, (SESSION, DELETE, None), (HEARTBEAT, DELETE, ""))
    await stage.until_group_has(stage.group, **{SESSION: None, HEARTBEAT: None})
    await describe_configs(a, stage.group, *keys)


@scenario
async def configs_that_are_refused(stage: Stage) -> None:
    """Values out of bounds, unknown names, other operations, null."""
    a = await stage.client()
    for change in (
        (SESSION, SET, "44999"),
        (SESSION, SET, "60001"),
        (SESSION, SET, "x"),
        (SESSION, SET, ""),
        (SESSION, SET, None),
        (SESSION, APPEND, "50000"),
        (SESSION, SUBTRACT, "50000"),
        (HEARTBEAT, SET, "4999"),
        (HEARTBEAT, SET, "15001"),
        (INTERVAL, SET, "-1"),
        (INTERVAL, SET, "15001"),
        ("none", SET, "1"),
        ("none", DELETE, None),
        ("", SET, "1"),
        ("group.consumer.session.timeout.ms", SET, "50000"),
        ("share.session.timeout.ms", SET, "1"),
        ("consumer.session.timeout.ms ", SET, "50000"),
    ):
        await alter(a, stage.group, change)
    await alter(a, "", (SESSION, SET, "50000"))
    await alter(a, stage.group, (SESSION, SET, "50000"), (SESSION, SET, "51000"))
    await alter(a, stage.group, (HEARTBEAT, SET, "6000"), (INTERVAL, SET, "-1"))
    await alter(a, stage.group, (SESSION, SET, "50000"), validate_only=True)
    await describe_configs(a, stage.group, SESSION, HEARTBEAT)


@scenario
async def configs_in_effect(stage: Stage) -> None:
    """A heartbeat tells the interval of its group, from the next one on."""
    topic = await known_topic(stage)
    await stage.set_group(stage.group, **{HEARTBEAT: "7000"})
    a = await consumer(stage, "a", topic)
    await a.join()
    await stage.set_group(stage.group, **{HEARTBEAT: "8000"})
    await a.beat()
    await a.leave()
    await a.join()
    other = await consumer(stage, "o", topic, group=stage.group_named("other"))
    await other.join()


@scenario
async def configs_that_are_listed(stage: Stage) -> None:
    """ListConfigResources names the groups that have configs of their own."""
    a = await stage.client()
    await stage.set_group(stage.group, **{INTERVAL: "2000"})
    for types in ([GROUP], [], [GROUP, 2]):
        told = await a.quiet("ListConfigResources", 1, resource_types=types)
        own = [one for one in told["config_resources"] if one["resource_name"] in stage.groups]
        stage.note(f"types {types}", {**told, "config_resources": own})
    await alter(a, stage.group, (INTERVAL, DELETE, None))
    await stage.until_group_has(stage.group, **{INTERVAL: None})
    told = await a.quiet("ListConfigResources", 1, resource_types=[GROUP])
    own = [one for one in told["config_resources"] if one["resource_name"] in stage.groups]
    stage.note("after the deletion", own)


@scenario
async def configs_of_the_broker(stage: Stage) -> None:
    """The settings of consumer groups among the broker's."""
    a = await stage.client()
    nodes = await a.quiet("Metadata", 9, topics=[])
    told = await a.quiet(
        "DescribeConfigs",
        4,
        resources=[
            {
                "resource_type": 4,
                "resource_name": str(nodes["brokers"][0]["node_id"]),
                "configuration_keys": None,
            }
        ],
    )
    wanted = sorted(
        (
            one
            for one in told["results"][0]["configs"]
            if one["name"].startswith(("group.consumer.", "group.coordinator.rebalance"))
        ),
        key=lambda one: str(one["name"]),
    )
    stage.note("configs", wanted)
