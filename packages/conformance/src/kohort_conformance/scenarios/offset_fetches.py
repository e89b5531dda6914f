"""OffsetFetch: one group or many, named partitions or all, by name and by id, in every version."""

from __future__ import annotations

import uuid

from kohort_conformance.members import committed, member, stable, until_rebalancing
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Client, Stage, topic_id

ONE_GROUP = range(1, 8)
MANY_GROUPS = range(8, 10)


async def with_commits(stage: Stage) -> tuple[Client, str]:
    """A simple group with offset 10 in partition 0 and 11 in 1 of a topic of three partitions."""
    topic = await stage.create_topic(partitions=3)
    a = await member(stage)
    commit = committed(topic, {0: 10, 1: 11}, committed_leader_epoch=0, committed_metadata="m")
    await a.committing("", {}, topics=[commit]).quiet()
    return a.client, topic


async def ask(
    client: Client,
    version: int,
    group: str,
    topics: list[dict[str, object]] | None,
    **values: object,
) -> None:
    """One group's offsets by a version's own form of request, recorded."""
    if version < 8:
        await client.ask("OffsetFetch", version, group_id=group, topics=topics, **values)
    else:
        await client.ask(
            "OffsetFetch", version, groups=[{"group_id": group, "topics": topics}], **values
        )


@scenario
async def unknown_group(stage: Stage) -> None:
    """A group that does not exist has committed nothing, and that is no error."""
    topic = await stage.create_topic()
    a = await stage.client()
    for version in range(1, 10):
        await ask(a, version, stage.group, [{"name": topic, "partition_indexes": [0, 1]}])


@scenario
async def all_of_an_unknown_group(stage: Stage) -> None:
    """All offsets of a group that does not exist: an empty list."""
    a = await stage.client()
    for version in range(2, 11):
        await ask(a, version, stage.group, None)


@scenario
async def empty_group_id(stage: Stage) -> None:
    """The empty group id is a group like any other here."""
    topic = await stage.create_topic()
    a = await stage.client()
    for version in range(1, 10):
        await ask(a, version, "", [{"name": topic, "partition_indexes": [0]}])


@scenario
async def named_partitions(stage: Stage) -> None:
    """Committed and uncommitted partitions, in every version."""
    a, topic = await with_commits(stage)
    for version in range(1, 10):
        await ask(a, version, stage.group, [{"name": topic, "partition_indexes": [1, 2, 0]}])


@scenario
async def all_partitions(stage: Stage) -> None:
    """Without topics: all that were committed."""
    a, _ = await with_commits(stage)
    for version in range(2, 11):
        await ask(a, version, stage.group, None)


@scenario
async def no_topics(stage: Stage) -> None:
    """An empty list of topics asks for nothing."""
    a, _ = await with_commits(stage)
    for version in range(1, 11):
        await ask(a, version, stage.group, [])


@scenario
async def unknown_names(stage: Stage) -> None:
    """Topics and partitions that do not exist have no offset, and that is no error."""
    a, topic = await with_commits(stage)
    none = stage.topic_named("none")
    asked: list[dict[str, object]] = [
        {"name": none, "partition_indexes": [0]},
        {"name": topic, "partition_indexes": [7, -1]},
    ]
    for version in (1, 5, 7, 8, 9):
        await ask(a, version, stage.group, asked)


@scenario
async def no_partitions_of_a_topic(stage: Stage) -> None:
    """A topic without partitions has none in the response."""
    a, topic = await with_commits(stage)
    for version in (1, 7, 9):
        await ask(a, version, stage.group, [{"name": topic, "partition_indexes": []}])


@scenario
async def duplicates(stage: Stage) -> None:
    """A partition requested twice is in the response twice."""
    a, topic = await with_commits(stage)
    asked: list[dict[str, object]] = [
        {"name": topic, "partition_indexes": [0, 0]},
        {"name": topic, "partition_indexes": [0]},
    ]
    for version in (1, 7, 9):
        await ask(a, version, stage.group, asked)


@scenario
async def require_stable(stage: Stage) -> None:
    """Without transactions stable offsets are the same ones."""
    a, topic = await with_commits(stage)
    for version in (7, 8, 9):
        await ask(
            a,
            version,
            stage.group,
            [{"name": topic, "partition_indexes": [0, 2]}],
            require_stable=True,
        )
        await ask(a, version, stage.group, None, require_stable=True)


@scenario
async def several_groups(stage: Stage) -> None:
    """From version 8 on the response has several groups, in their order."""
    a, topic = await with_commits(stage)
    other = stage.group_named("other")
    b = await member(stage, "b", group=other)
    await b.committing(topic, {2: 5}).quiet()
    named = [{"name": topic, "partition_indexes": [0, 2]}]
    for version in MANY_GROUPS:
        groups = [
            {"group_id": stage.group_named("none"), "topics": named},
            {"group_id": other, "topics": None},
            {"group_id": stage.group, "topics": named},
        ]
        await a.ask("OffsetFetch", version, groups=groups)


@scenario
async def same_group_twice(stage: Stage) -> None:
    """A group named twice is in the response twice."""
    a, topic = await with_commits(stage)
    groups = [
        {"group_id": stage.group, "topics": [{"name": topic, "partition_indexes": [0]}]},
        {"group_id": stage.group, "topics": [{"name": topic, "partition_indexes": [1]}]},
    ]
    await a.ask("OffsetFetch", 9, groups=groups)


@scenario
async def no_groups(stage: Stage) -> None:
    """The response to an empty list of groups is empty."""
    a = await stage.client()
    for version in (8, 9, 10):
        await a.ask("OffsetFetch", version, groups=[])


@scenario
async def topic_ids(stage: Stage) -> None:
    """Version 10 names topics by id, in the request and in the response."""
    a, topic = await with_commits(stage)
    known = await topic_id(a, topic)
    await ask(a, 10, stage.group, [{"topic_id": known, "partition_indexes": [0, 1, 2, 9]}])
    await ask(a, 10, stage.group, None)


@scenario
async def unknown_topic_ids(stage: Stage) -> None:
    """Ids that nobody has, also the zero id, are unknown for each of their partitions."""
    a, topic = await with_commits(stage)
    known = await topic_id(a, topic)
    await ask(a, 10, stage.group, [{"topic_id": uuid.UUID(int=7), "partition_indexes": [0, 1]}])
    await ask(a, 10, stage.group, [{"topic_id": None, "partition_indexes": [0]}])
    mixed: list[dict[str, object]] = [
        {"topic_id": uuid.UUID(int=7), "partition_indexes": [0]},
        {"topic_id": known, "partition_indexes": [0]},
    ]
    await ask(a, 10, stage.group, mixed)
    await ask(a, 10, stage.group_named("none"), mixed)


@scenario
async def member_of_a_classic_group(stage: Stage) -> None:
    """Member id and epoch (version 9) count for nothing in a classic group."""
    topic = await stage.create_topic()
    [a] = await stable(stage, "a")
    await a.committing(topic, {0: 5}).quiet()
    topics = [{"name": topic, "partition_indexes": [0]}]
    for member_id, epoch in ((a.id, 1), (a.id, 9), ("nobody", 1), ("", -1), (None, -1), (None, 5)):
        groups = [
            {
                "group_id": stage.group,
                "member_id": member_id,
                "member_epoch": epoch,
                "topics": topics,
            }
        ]
        await a.client.ask("OffsetFetch", 9, groups=groups)


@scenario
async def during_a_rebalance(stage: Stage) -> None:
    """Offsets can be read in every state of the group."""
    topic = await stage.create_topic()
    [a] = await stable(stage, "a")
    await a.committing(topic, {0: 5}).quiet()
    b = await (await member(stage, "b")).handshake()
    joining = b.joining()
    await until_rebalancing(a)
    await ask(a.client, 7, stage.group, [{"name": topic, "partition_indexes": [0]}])
    await a.joining().quiet()
    await joining.quiet()
    await ask(a.client, 7, stage.group, [{"name": topic, "partition_indexes": [0]}])


@scenario
async def deleted_topic(stage: Stage) -> None:
    """The offsets of a topic that is deleted are gone; commits to it are refused."""
    a, topic = await with_commits(stage)
    await a.quiet("DeleteTopics", 5, topic_names=[topic], timeout=10_000)

    async def gone() -> bool:
        asked = [{"name": topic, "partition_indexes": [0]}]
        told = await a.quiet("OffsetFetch", 7, group_id=stage.group, topics=asked)
        return bool(told["topics"][0]["partitions"][0]["committed_offset"] == -1)

    await stage.until("the offsets are gone", gone)
    await ask(a, 7, stage.group, [{"name": topic, "partition_indexes": [0]}])
    await ask(a, 7, stage.group, None)
    b = await member(stage, "b")
    await b.commit(topic, {0: 1})


@scenario
async def topic_made_again(stage: Stage) -> None:
    """A topic that is deleted and made again has no offsets."""
    a, topic = await with_commits(stage)
    await stage.delete_topic(topic)

    async def gone() -> bool:
        told = await a.quiet("OffsetFetch", 7, group_id=stage.group, topics=None)
        return not told["topics"]

    await stage.until("the offsets are gone", gone)
    await stage.create_topic(partitions=3)
    await ask(a, 7, stage.group, [{"name": topic, "partition_indexes": [0]}])
    await ask(
        a, 10, stage.group, [{"topic_id": await topic_id(a, topic), "partition_indexes": [0]}]
    )
    b = await member(stage, "b")
    await b.commit(topic, {0: 1})
    await ask(a, 9, stage.group, None)


@scenario
async def several_topics(stage: Stage) -> None:
    """Named topics are in the response in the order of the request."""
    names = [await stage.create_topic(name) for name in ("one", "two", "three")]
    a = await member(stage)
    await a.committing(
        "", {}, topics=[committed(name, {0: n}) for n, name in enumerate(names)]
    ).quiet()
    asked: list[dict[str, object]] = [
        {"name": name, "partition_indexes": [0]} for name in (names[2], names[0])
    ]
    for version in (1, 7, 9):
        await ask(a.client, version, stage.group, asked)
