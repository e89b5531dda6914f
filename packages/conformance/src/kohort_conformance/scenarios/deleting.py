"""DeleteGroups and OffsetDelete: what can be removed when."""

from __future__ import annotations

from typing import Any

from kohort_conformance.members import (
    committed,
    gather_round,
    look,
    member,
    protocols,
    stable,
    subscription,
    until_rebalancing,
)
from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.commits import stored
from kohort_conformance.stage import Client, Stage

EVERY_VERSION = range(4)
WITHOUT_MESSAGES, WITH_MESSAGES = 2, 3
"""Versions of DeleteGroups."""


async def delete(client: Client, *groups: str, version: int = 2) -> None:
    await client.ask("DeleteGroups", version, groups_names=groups)


async def delete_offsets(client: Client, group: str, **partitions: Any) -> None:
    """OffsetDelete of partitions given by topic, recorded."""
    topics = [
        {"name": name, "partitions": [{"partition_index": one} for one in listed]}
        for name, listed in partitions.items()
    ]
    await client.ask("OffsetDelete", 0, group_id=group, topics=topics)


@scenario
async def unknown_group(stage: Stage) -> None:
    """A group that does not exist is not found."""
    a = await stage.client()
    for version in EVERY_VERSION:
        await delete(a, stage.group, version=version)


@scenario
async def empty_group_id(stage: Stage) -> None:
    """The empty group id can be committed to, described and deleted, but not joined."""
    topic = await stage.create_topic()
    a = await member(stage, group="")
    await a.client.quiet("DeleteGroups", 2, groups_names=[""])
    for version in EVERY_VERSION:
        await delete(a.client, "", version=version)
    for version in range(7):
        await look(a.client, "", version)
    for version in range(2, 10):
        await a.commit(topic, {0: version}, version)
    await stored(a.client, "", topic)
    await delete_offsets(a.client, "", **{topic: [0]})
    await look(a.client, "")
    await a.join()
    await delete(a.client, "")
    await look(a.client, "")


@scenario
async def no_groups(stage: Stage) -> None:
    """The response to an empty list is empty."""
    a = await stage.client()
    for version in EVERY_VERSION:
        await delete(a, version=version)


@scenario
async def live_groups(stage: Stage) -> None:
    """Stable, Preparing and Completing groups are not deleted."""
    [a] = await stable(stage, "a")
    for version in (WITHOUT_MESSAGES, WITH_MESSAGES):
        await delete(a.client, stage.group, version=version)
    b = await (await member(stage, "b")).handshake()
    joining = b.joining()
    await until_rebalancing(a)
    for version in (WITHOUT_MESSAGES, WITH_MESSAGES):
        await delete(a.client, stage.group, version=version)
    await a.joining().quiet()
    await joining.quiet()
    for version in (WITHOUT_MESSAGES, WITH_MESSAGES):
        await delete(a.client, stage.group, version=version)
    await a.heartbeat()


@scenario
async def empty_group(stage: Stage) -> None:
    """An Empty group goes with its offsets; a new one of the name starts at generation 1."""
    topic = await stage.create_topic()
    [a] = await stable(stage, "a")
    await a.commit(topic, {0: 5})
    await a.leave()
    await delete(a.client, stage.group)
    await look(a.client, stage.group)
    await stored(a.client, stage.group, topic)
    await delete(a.client, stage.group)
    b = await (await member(stage, "b")).handshake()
    await b.join()


@scenario
async def simple_group(stage: Stage) -> None:
    """A group of commits goes in every version."""
    topic = await stage.create_topic()
    a = await member(stage)
    for version in EVERY_VERSION:
        await a.committing(topic, {0: 5}).quiet()
        await delete(a.client, stage.group, version=version)
        await stored(a.client, stage.group, topic)


@scenario
async def only_pending_ids(stage: Stage) -> None:
    """A group with only pending ids is deleted, and the ids are unknown then."""
    a = await (await member(stage)).handshake()
    await delete(a.client, stage.group)
    await a.join()
    await look(a.client, stage.group)


@scenario
async def same_group_twice(stage: Stage) -> None:
    """A group named twice is in the response once."""
    topic = await stage.create_topic()
    a = await member(stage)
    await a.committing(topic, {0: 5}).quiet()
    none = stage.group_named("none")
    await delete(a.client, stage.group, stage.group)
    await delete(a.client, none, none)
    await delete(a.client, none, none, version=WITH_MESSAGES)


@scenario
async def groups_of_each_kind(stage: Stage) -> None:
    """One request names an Empty group, a live one, an unknown one and the empty id."""
    topic = await stage.create_topic()
    for version in (WITHOUT_MESSAGES, WITH_MESSAGES):
        empty = await member(stage, f"empty {version}", group=stage.group_named(f"empty-{version}"))
        await empty.committing(topic, {0: 5}).quiet()
        live = stage.group_named(f"live-{version}")
        await stable(stage, f"live {version}", group=live)
        for group in (empty.group, live, stage.group_named("none")):
            await delete(empty.client, group, version=version)
        asked = [live, stage.group_named("none"), empty.group]
        told = await empty.client.quiet("DeleteGroups", version, groups_names=asked)
        stage.note(f"v{version}", sorted(told["results"], key=lambda one: str(one["group_id"])))


@scenario
async def offsets_of_an_unknown_group(stage: Stage) -> None:
    """OffsetDelete: a group that does not exist is not found, an empty id invalid."""
    topic = await stage.create_topic()
    a = await stage.client()
    await delete_offsets(a, stage.group, **{topic: [0]})
    await delete_offsets(a, stage.group)


@scenario
async def offsets_of_a_simple_group(stage: Stage) -> None:
    """Committed or not, what is named is gone and gets 0; the rest stays."""
    topic = await stage.create_topic(partitions=3)
    a = await member(stage)
    await a.committing(topic, {0: 5, 1: 6}).quiet()
    await delete_offsets(a.client, stage.group, **{topic: [0, 2]})
    await stored(a.client, stage.group, topic, 0, 1, 2)
    await delete_offsets(a.client, stage.group, **{topic: [0]})


@scenario
async def all_offsets_of_a_simple_group(stage: Stage) -> None:
    """A simple group whose last offset was deleted: whether it is still there."""
    topic = await stage.create_topic()
    a = await member(stage)
    await a.committing(topic, {0: 5}).quiet()
    await delete_offsets(a.client, stage.group, **{topic: [0]})
    await look(a.client, stage.group)


@scenario
async def offsets_of_unknown_partitions(stage: Stage) -> None:
    """Topics and partitions that do not exist are refused one by one."""
    topic = await stage.create_topic()
    a = await member(stage)
    await a.committing(topic, {0: 5}).quiet()
    await delete_offsets(a.client, stage.group, **{stage.topic_named("none"): [0]})
    await delete_offsets(a.client, stage.group, **{topic: []})
    await delete_offsets(a.client, stage.group)
    await delete_offsets(
        a.client, stage.group, **{stage.topic_named("none"): [0], topic: [7, 0, -1]}
    )


@scenario
async def offsets_of_an_empty_consumer_group(stage: Stage) -> None:
    """When the members left, all offsets can be deleted."""
    topic = await stage.create_topic()
    subscribed = protocols("range", metadata=subscription(topic))
    [a] = await stable(stage, "a", protocols=subscribed)
    await a.commit(topic, {0: 5})
    await a.leave()
    await delete_offsets(a.client, stage.group, **{topic: [0]})
    await stored(a.client, stage.group, topic)


@scenario
async def offsets_of_a_live_consumer_group(stage: Stage) -> None:
    """Of a live group of type consumer only topics that nobody subscribes to."""
    subscribed, other = await stage.create_topic("subscribed"), await stage.create_topic("other")
    wanted = protocols("range", metadata=subscription(subscribed))
    [a] = await stable(stage, "a", protocols=wanted)
    await a.commit("", {}, topics=[committed(subscribed, {0: 5}), committed(other, {0: 6})])
    await delete_offsets(a.client, stage.group, **{subscribed: [0], other: [0]})
    await stored(a.client, stage.group, subscribed)
    await stored(a.client, stage.group, other)
    await delete_offsets(a.client, stage.group, **{stage.topic_named("none"): [0]})


@scenario
async def offsets_of_a_rebalancing_consumer_group(stage: Stage) -> None:
    """During a rebalance the same holds."""
    subscribed, other = await stage.create_topic("subscribed"), await stage.create_topic("other")
    wanted = protocols("range", metadata=subscription(subscribed))
    [a] = await stable(stage, "a", protocols=wanted)
    await a.commit("", {}, topics=[committed(subscribed, {0: 5}), committed(other, {0: 6})])
    b = await (await member(stage, "b", protocols=wanted)).handshake()
    joining = b.joining()
    await until_rebalancing(a)
    await delete_offsets(a.client, stage.group, **{subscribed: [0], other: [0]})
    await a.joining().quiet()
    await joining.quiet()
    await delete_offsets(a.client, stage.group, **{subscribed: [0], other: [0]})


@scenario
async def offsets_of_the_first_round(stage: Stage) -> None:
    """A group that has joined but never synced."""
    topic = await stage.create_topic()
    a = await member(stage, protocols=protocols("range", metadata=subscription(topic)))
    await a.committing(topic, {0: 5}).quiet()
    await gather_round([a])
    await delete_offsets(a.client, stage.group, **{topic: [0]})


@scenario
async def offsets_with_bytes_that_are_no_subscription(stage: Stage) -> None:
    """A consumer whose metadata cannot be read counts as subscribed to everything."""
    topic = await stage.create_topic()
    [a] = await stable(stage, "a", protocols=protocols("range", metadata=b"\x07"))
    await a.commit(topic, {0: 5})
    await delete_offsets(a.client, stage.group, **{topic: [0]})


@scenario
async def offsets_of_a_live_group_of_another_type(stage: Stage) -> None:
    """Of a live group of another type nothing can be deleted."""
    topic = await stage.create_topic()
    [a] = await stable(stage, "a", protocol_type="connect")
    await a.commit(topic, {0: 5})
    await delete_offsets(a.client, stage.group, **{topic: [0]})
    await delete_offsets(a.client, stage.group, **{stage.topic_named("none"): [0]})
    await delete_offsets(a.client, stage.group)
    await stored(a.client, stage.group, topic)


@scenario
async def offsets_twice(stage: Stage) -> None:
    """A partition named twice."""
    topic = await stage.create_topic()
    a = await member(stage)
    await a.committing(topic, {0: 5}).quiet()
    await delete_offsets(a.client, stage.group, **{topic: [0, 0]})
