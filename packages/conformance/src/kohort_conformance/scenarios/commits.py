"""OffsetCommit: by simple consumers and by members, in every version and state; refusals."""

from __future__ import annotations

import uuid
from typing import Any

from kohort_conformance.members import (
    PlayedMember,
    committed,
    gather_round,
    look,
    member,
    stable,
    static_group,
    until_rebalancing,
)
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Client, Stage, topic_id

EVERY_VERSION = range(2, 10)


async def stored(client: Client, group: str, topic: str, *partitions: int) -> None:
    """Record what OffsetFetch says of some partitions (0 when none are named)."""
    asked = [{"name": topic, "partition_indexes": partitions or (0,)}]
    await client.ask("OffsetFetch", 7, group_id=group, topics=asked)


def by_id(topic: uuid.UUID | None, offset: int, *partitions: int) -> dict[str, Any]:
    """One topic of an OffsetCommit v10."""
    return {
        "topic_id": topic,
        "partitions": [
            {"partition_index": one, "committed_offset": offset} for one in partitions or (0,)
        ],
    }


async def outsider(stage: Stage, client_id: str = "a") -> PlayedMember:
    """A consumer outside any generation: no member id, generation -1."""
    return await member(stage, client_id)


@scenario
async def simple_consumer_in_every_version(stage: Stage) -> None:
    """Without a group, generation -1 makes a simple one and stores what was sent."""
    topic = await stage.create_topic()
    for version in EVERY_VERSION:
        a = await member(stage, f"a{version}", group=stage.group_named(f"v{version}"))
        await a.commit(topic, {0: version}, version)
        await stored(a.client, a.group, topic)
        await look(a.client, a.group)


@scenario
async def topic_ids_in_version_10(stage: Stage) -> None:
    """Version 10 names topics by id."""
    topic = await stage.create_topic(partitions=2)
    a = await outsider(stage)
    known = await topic_id(a.client, topic)
    await a.commit("", {}, 10, topics=[by_id(known, 7, 0, 1)])
    await stored(a.client, stage.group, topic, 0, 1)
    await a.commit("", {}, 10, topics=[by_id(known, 8, 1, 5)])
    await stored(a.client, stage.group, topic, 0, 1)


@scenario
async def unknown_topic_ids(stage: Stage) -> None:
    """Ids that nobody has, also the zero id, are unknown one by one; the rest is stored."""
    topic = await stage.create_topic()
    a = await outsider(stage)
    known, nobody = await topic_id(a.client, topic), uuid.UUID(int=7)
    await a.commit("", {}, 10, topics=[by_id(nobody, 1, 0, 1)])
    await look(a.client, stage.group)
    await a.commit("", {}, 10, topics=[by_id(None, 1)])
    await a.commit("", {}, 10, topics=[by_id(nobody, 1), by_id(known, 2), by_id(None, 3)])
    await stored(a.client, stage.group, topic)


@scenario
async def unknown_topic(stage: Stage) -> None:
    """A topic that does not exist is refused in every version and makes no group."""
    a = await outsider(stage)
    for version in EVERY_VERSION:
        await a.commit(stage.topic_named("none"), {0: 1}, version)
    await look(a.client, stage.group)


@scenario
async def unknown_partitions(stage: Stage) -> None:
    """Partitions that the topic does not have are refused.

    The others are stored; the refused ones come first.
    """
    topic = await stage.create_topic(partitions=2)
    a = await outsider(stage)
    await a.commit(topic, {0: 1, 2: 2, 1: 3, -1: 4})
    await stored(a.client, stage.group, topic, 0, 1, 2)


@scenario
async def known_and_unknown_topics(stage: Stage) -> None:
    """The response names each topic once, the refused ones first."""
    one, two = await stage.create_topic("one"), await stage.create_topic("two")
    a = await outsider(stage)
    nobody = stage.topic_named("none")
    topics = [committed(one, {0: 1}), committed(nobody, {0: 2, 1: 3}), committed(two, {0: 4})]
    for version in (2, 9):
        await a.commit("", {}, version, topics=topics)


@scenario
async def nothing_to_commit(stage: Stage) -> None:
    """No topics, or a topic without partitions: the response has as many.

    Whether a group is made shows.
    """
    topic = await stage.create_topic()
    a = await outsider(stage)
    for version in (2, 5, 8, 9, 10):
        await a.commit("", {}, version, topics=[])
    await look(a.client, stage.group)
    await a.commit(topic, {})
    await look(a.client, stage.group)
    await a.commit("", {}, topics=[], generation=3, member_id="nobody")


@scenario
async def twice_the_same_partition(stage: Stage) -> None:
    """The last of two offsets for one partition is stored; both have a result."""
    topic = await stage.create_topic()
    a = await outsider(stage)
    one, two = committed(topic, {0: 1}), committed(topic, {0: 2})
    await a.commit(
        "", {}, topics=[{"name": topic, "partitions": [*one["partitions"], *two["partitions"]]}]
    )
    await stored(a.client, stage.group, topic)
    await a.commit("", {}, topics=[committed(topic, {0: 5}), committed(topic, {0: 4})])
    await stored(a.client, stage.group, topic)


@scenario
async def any_offset(stage: Stage) -> None:
    """Offsets are not compared with anything: negative, zero, beyond the end, the largest."""
    topic = await stage.create_topic(partitions=6)
    a = await outsider(stage)
    await a.commit(topic, {0: -1, 1: -2, 2: 0, 3: 10**9, 4: 2**63 - 1, 5: -(2**63)})
    await stored(a.client, stage.group, topic, 0, 1, 2, 3, 4, 5)


@scenario
async def backwards(stage: Stage) -> None:
    """A lower offset replaces a higher one."""
    topic = await stage.create_topic()
    a = await outsider(stage)
    for offset in (10, 3):
        await a.commit(topic, {0: offset})
        await stored(a.client, stage.group, topic)


@scenario
async def metadata(stage: Stage) -> None:
    """Metadata comes back as it was sent; null is stored as the empty string."""
    topic = await stage.create_topic(partitions=4)
    a = await outsider(stage)
    for partition, text in enumerate(("text", "", None, "\u00fc\u4e2d\U0001f600\n")):
        await a.commit("", {}, topics=[committed(topic, {partition: 1}, committed_metadata=text)])
    await stored(a.client, stage.group, topic, 0, 1, 2, 3)


@scenario
async def metadata_too_large(stage: Stage) -> None:
    """More than 4,096 characters are refused for that partition alone."""
    topic = await stage.create_topic(partitions=3)
    a = await outsider(stage)
    for version in (2, 9):
        topics = [
            committed(topic, {0: 1}, committed_metadata="x" * 4_097),
            committed(topic, {1: 1}),
        ]
        await a.commit("", {}, version, topics=topics)
    await a.commit("", {}, topics=[committed(topic, {2: 1}, committed_metadata="x" * 4_096)])
    told = await a.client.quiet(
        "OffsetFetch",
        7,
        group_id=stage.group,
        topics=[{"name": topic, "partition_indexes": [0, 1, 2]}],
    )
    stage.note("lengths stored", [len(one["metadata"]) for one in told["topics"][0]["partitions"]])
    stage.note(
        "offsets stored", [one["committed_offset"] for one in told["topics"][0]["partitions"]]
    )


@scenario
async def metadata_counted_in_characters(stage: Stage) -> None:
    """The limit counts characters (of UTF-16), not bytes."""
    topic = await stage.create_topic(partitions=4)
    a = await outsider(stage)
    texts = ("\u4e2d" * 4_096, "\u4e2d" * 4_097, "\U0001f600" * 2_048, "\U0001f600" * 2_049)
    for partition, text in enumerate(texts):
        await a.commit("", {}, topics=[committed(topic, {partition: 1}, committed_metadata=text)])


@scenario
async def only_refused_metadata(stage: Stage) -> None:
    """A commit of which nothing is stored, in every version."""
    topic = await stage.create_topic()
    a = await outsider(stage)
    for version in EVERY_VERSION:
        await a.commit(
            "", {}, version, topics=[committed(topic, {0: 1}, committed_metadata="x" * 5_000)]
        )
    await stored(a.client, stage.group, topic)


@scenario
async def leader_epoch(stage: Stage) -> None:
    """The leader epoch is stored from v6 on and returned by OffsetFetch from v5 on."""
    topic = await stage.create_topic(partitions=3)
    a = await outsider(stage)
    for partition, version in enumerate((5, 6, 9)):
        await a.commit(
            "", {}, version, topics=[committed(topic, {partition: 1}, committed_leader_epoch=4)]
        )
    asked = [{"name": topic, "partition_indexes": [0, 1, 2]}]
    for version in (4, 5, 7):
        await a.client.ask("OffsetFetch", version, group_id=stage.group, topics=asked)


@scenario
async def retention_time(stage: Stage) -> None:
    """Versions 2 to 4 may set a retention time of their own."""
    topic = await stage.create_topic()
    a = await outsider(stage)
    for version in (2, 3, 4):
        for retention in (-1, 60_000, 0):
            await a.commit(topic, {0: version}, version, retention_time=retention)
    await stored(a.client, stage.group, topic)


@scenario
async def generation_without_a_group(stage: Stage) -> None:
    """A generation to a group that does not exist: 22 up to version 8, 69 from 9 on.

    None is made.
    """
    topic = await stage.create_topic()
    a = await outsider(stage)
    for version in EVERY_VERSION:
        await a.commit(topic, {0: 1}, version, generation=0, member_id="nobody")
    await a.commit(topic, {0: 1}, generation=5, member_id="")
    await look(a.client, stage.group)


@scenario
async def member_id_without_a_group(stage: Stage) -> None:
    """Generation -1 with a member or instance id still makes a simple group."""
    topic = await stage.create_topic()
    a = await member(stage, group=stage.group_named("member"))
    await a.commit(topic, {0: 1}, member_id="nobody")
    b = await member(stage, "b", group=stage.group_named("instance"))
    await b.commit(topic, {0: 1}, group_instance_id="i")
    await look(a.client, a.group)
    await look(b.client, b.group)


@scenario
async def generation_to_a_simple_group(stage: Stage) -> None:
    """A generation to a group that only has commits."""
    topic = await stage.create_topic()
    a = await outsider(stage)
    await a.commit(topic, {0: 1})
    await a.commit(topic, {0: 2}, generation=0, member_id="nobody")
    await a.commit(topic, {0: 2}, generation=0, member_id="")
    await a.commit(topic, {0: 2}, generation=1, member_id="nobody")
    await a.commit(topic, {0: 3}, generation=-1, member_id="nobody")
    await stored(a.client, stage.group, topic)


@scenario
async def simple_group_gets_members(stage: Stage) -> None:
    """A group of commits only may be joined.

    The commits stay, and outsiders are refused from then on.
    """
    topic = await stage.create_topic()
    a = await outsider(stage)
    await a.commit(topic, {0: 41})
    await look(a.client, stage.group)
    b = await member(stage, "b")
    await gather_round([b])
    await b.sync()
    await look(b.client, stage.group)
    await stored(b.client, stage.group, topic)
    await a.commit(topic, {0: 42})


@scenario
async def members_of_a_stable_group(stage: Stage) -> None:
    """Leader and follower commit in every version."""
    topic = await stage.create_topic(partitions=2)
    a, b = await stable(stage, "a", "b")
    for version in EVERY_VERSION:
        await a.commit(topic, {0: version}, version)
        await b.commit(topic, {1: version}, version)
    await stored(a.client, stage.group, topic, 0, 1)


@scenario
async def outsiders_of_a_stable_group(stage: Stage) -> None:
    """Without member id, or with a strange one, a live group refuses."""
    topic = await stage.create_topic()
    [a] = await stable(stage, "a")
    b = await outsider(stage, "b")
    await b.commit(topic, {0: 1})
    await b.commit(topic, {0: 1}, 2)
    await b.commit(topic, {0: 1}, member_id="nobody")
    await b.commit(topic, {0: 1}, generation=1)
    await b.commit(topic, {0: 1}, generation=1, member_id="nobody")
    await b.commit(topic, {0: 1}, group_instance_id="i")
    await b.commit(topic, {0: 1}, generation=1, group_instance_id="i")
    await stored(a.client, stage.group, topic)


@scenario
async def wrong_generations(stage: Stage) -> None:
    """A member's commit in another generation than the group's is illegal; -1 too."""
    topic = await stage.create_topic()
    _, b = await stable(stage, "a", "b")
    for generation in (1, 3, 0, -1):
        await b.commit(topic, {0: 1}, generation=generation)
        await b.commit(topic, {0: 1}, 3, generation=generation)


@scenario
async def order_of_checks(stage: Stage) -> None:
    """Unknown topics are refused whatever the member; the rest gets the member's error."""
    topic = await stage.create_topic()
    [a] = await stable(stage, "a")
    nobody = stage.topic_named("none")
    await a.commit(
        "",
        {},
        topics=[committed(nobody, {0: 1}), committed(topic, {0: 1, 9: 1})],
        member_id="nobody",
    )
    await a.commit("", {}, topics=[committed(nobody, {0: 1})], member_id="nobody")
    large = committed(topic, {0: 1}, committed_metadata="x" * 5_000)
    await a.commit("", {}, topics=[large], generation=9)


@scenario
async def while_preparing(stage: Stage) -> None:
    """In the join phase the running generation may still commit; the next may not yet."""
    topic = await stage.create_topic()
    [a] = await stable(stage, "a")
    b = await (await member(stage, "b")).handshake()
    b.joining()
    await until_rebalancing(a)
    await a.commit(topic, {0: 5})
    await a.commit(topic, {0: 6}, 2)
    await a.commit(topic, {0: 7}, generation=2)
    await stored(a.client, stage.group, topic)


@scenario
async def while_completing(stage: Stage) -> None:
    """Between join and sync nobody may commit: 27 in the new generation, 22 in the old one."""
    topic = await stage.create_topic()
    a, b = await member(stage, "a"), await member(stage, "b")
    await gather_round([a, b])
    for version in EVERY_VERSION:
        await a.commit(topic, {0: 5}, version)
    await b.commit(topic, {0: 5}, generation=1)
    await b.commit(topic, {0: 5}, member_id="nobody")
    await a.sync(assignments={a.id: b"x"})
    await a.commit(topic, {0: 6})
    await stored(a.client, stage.group, topic)


@scenario
async def pending_member(stage: Stage) -> None:
    """An id that was given but has not joined may not commit to a live group."""
    topic = await stage.create_topic()
    await stable(stage, "a")
    b = await (await member(stage, "b")).handshake()
    await b.commit(topic, {0: 1}, generation=1)
    await b.commit(topic, {0: 1}, generation=-1)


@scenario
async def group_with_only_pending_ids(stage: Stage) -> None:
    """A group with only pending ids is Empty: outsiders may commit."""
    topic = await stage.create_topic()
    a = await (await member(stage)).handshake()
    await a.commit(topic, {0: 1}, generation=-1, member_id="")
    await a.commit(topic, {0: 2}, generation=0)
    await stored(a.client, stage.group, topic)


@scenario
async def after_everybody_left(stage: Stage) -> None:
    """When the members left, their ids are refused and outsiders accepted again.

    The commits stay.
    """
    topic = await stage.create_topic()
    [a] = await stable(stage, "a")
    await a.commit(topic, {0: 5})
    await a.leave()
    await a.commit(topic, {0: 6})
    await a.commit(topic, {0: 6}, generation=2)
    await stored(a.client, stage.group, topic)
    await a.commit(topic, {0: 7}, generation=-1)
    await stored(a.client, stage.group, topic)


@scenario
async def static_members(stage: Stage) -> None:
    """Instance ids are checked in commits: fenced, unknown, left out."""
    topic = await stage.create_topic()
    a, b = await static_group(stage, "a", "b")
    await a.commit(topic, {0: 1})
    await a.commit(topic, {0: 1}, group_instance_id=None)
    await a.commit(topic, {0: 1}, 6)
    await a.commit(topic, {0: 1}, group_instance_id="i-b")
    await a.commit(topic, {0: 1}, group_instance_id="i-none")
    await a.commit(topic, {0: 1}, generation=-1, member_id="")
    await b.commit(topic, {0: 1}, member_id="", generation=2)


@scenario
async def any_protocol_type(stage: Stage) -> None:
    """Members of other protocol types may commit too."""
    topic = await stage.create_topic()
    [a] = await stable(stage, "a", protocol_type="connect")
    await a.commit(topic, {0: 5})
    await stored(a.client, stage.group, topic)


@scenario
async def many_partitions(stage: Stage) -> None:
    """Fifty partitions of one commit are in the response in their order."""
    topic = await stage.create_topic(partitions=50)
    a = await outsider(stage)
    await a.commit(topic, {one: one for one in reversed(range(50))})
    await stored(a.client, stage.group, topic, *range(50))
