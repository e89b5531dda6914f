"""Offsets of consumer groups: commits and fetches by epoch, expiry and deletion.

Expiry is played on the profiles "expiring" and "retention", where the server looks for it each
second.
"""

from __future__ import annotations

import time
from typing import Any

from kohort_conformance.consumers import (
    LEAVES_FOR_A_WHILE,
    PlayedConsumer,
    consumer,
    joined,
    known_topic,
    settle,
    settled,
)
from kohort_conformance.group_log import GroupLog
from kohort_conformance.members import committed
from kohort_conformance.mixed_members import classic_member, rejoined
from kohort_conformance.producers import BY_ID, NEW, OLD, producer
from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.commits import by_id, stored
from kohort_conformance.scenarios.consumer_regexes import literal
from kohort_conformance.stage import NO_TOPIC, Client, Stage, how_long, topic_id


async def fetch(
    client: Client,
    group: str,
    topic: str,
    member_id: str | None,
    epoch: int,
    version: int = 9,
    **values: Any,
) -> None:
    """OffsetFetch of partition 0 as a member, recorded."""
    asked = {
        "group_id": group,
        "member_id": member_id,
        "member_epoch": epoch,
        "topics": [{"name": topic, "partition_indexes": [0]}],
        **values,
    }
    await client.ask("OffsetFetch", version, groups=[asked])


async def shrunk(stage: Stage, partitions: int = 4) -> tuple[PlayedConsumer, PlayedConsumer, str]:
    """Members a and b with half of a topic each; a has an epoch of before they were two.

    a joined at epoch 2 with all partitions, and is at epoch 3 with the first half.
    """
    topic = await known_topic(stage, partitions=partitions)
    a, b = await settled(stage, topic, "a", "b")
    return a, b, topic


@scenario
async def commit_in_every_version(stage: Stage) -> None:
    """A member commits with version 9 and later."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    for version in range(2, 10):
        await a.commit(topic, {0: version}, version)
    await a.client.ask(
        "OffsetCommit",
        10,
        group_id=stage.group,
        generation_id_or_member_epoch=a.epoch,
        member_id="a",
        topics=[by_id(await topic_id(a.client, topic), 10, 0)],
    )
    await stored(a.client, stage.group, topic)


@scenario
async def old_version_of_a_stranger(stage: Stage) -> None:
    """Before version 9 strangers and outsiders are told of the version, or of themselves."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    for version in (2, 5, 8):
        await a.commit(topic, {0: 1}, version, member_id="nobody")
        await a.commit(topic, {0: 1}, version, member_id="", epoch=-1)
        await a.commit(topic, {0: 1}, version, epoch=7)
        await a.commit(topic, {0: 1}, version, epoch=-1)


@scenario
async def commit_of_no_member(stage: Stage) -> None:
    """While there are members, commits without one and of strangers are refused."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    for member_id in ("", "nobody", "a"):
        for epoch in (-1, -2, 0, a.epoch):
            await a.commit(topic, {0: 1}, member_id=member_id, epoch=epoch)
    await a.commit(topic, {0: 2}, group_instance_id="i")
    await stored(a.client, stage.group, topic)


@scenario
async def commit_to_an_empty_group(stage: Stage) -> None:
    """An Empty consumer group takes commits at a negative epoch."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    await a.leave()
    for member_id in ("", "nobody", "a"):
        for epoch in (-1, -2, 0, 3):
            await a.commit(topic, {0: 1}, member_id=member_id, epoch=epoch)
    await a.commit(topic, {0: 7}, 5, member_id="", epoch=-1)
    await stored(a.client, stage.group, topic)


@scenario
async def commit_at_the_epoch(stage: Stage) -> None:
    """At its epoch a member commits any partition of any topic."""
    a, b, topic = await shrunk(stage)
    other = await stage.create_topic("other")
    await a.commit(topic, {0: 1, 1: 1, 2: 1, 3: 1})
    await a.commit(other, {0: 1})
    await b.commit(topic, {0: 2})
    for epoch in (a.epoch + 1, 99):
        await a.commit(topic, {0: 9}, epoch=epoch)
    await stored(a.client, stage.group, topic, 0, 1, 2, 3)


@scenario
async def commit_at_an_epoch_before(stage: Stage) -> None:
    """At an epoch of before, partitions that the member had since then and still has."""
    a, b, topic = await shrunk(stage)
    await a.commit(topic, {0: 1, 1: 1}, epoch=2)
    await a.commit(topic, {0: 2}, epoch=1)
    await a.commit(topic, {0: 3}, epoch=0)
    await a.commit(topic, {0: 4, 2: 4}, epoch=2)
    await a.commit(topic, {2: 5}, epoch=2)
    await b.commit(topic, {2: 6}, epoch=2)
    await b.commit(topic, {2: 7})
    other = await stage.create_topic("other")
    await a.commit(other, {0: 8}, epoch=2)
    await a.commit(stage.topic_named("none"), {0: 8}, epoch=2)
    await stored(a.client, stage.group, topic, 0, 1, 2, 3)


@scenario
async def commit_at_an_epoch_before_by_id(stage: Stage) -> None:
    """The same by topic id."""
    a, _, topic = await shrunk(stage)
    identity = await topic_id(a.client, topic)
    for epoch, partitions in ((2, (0, 1)), (2, (0, 2)), (2, (2,)), (1, (0,)), (3, (2,)), (4, (0,))):
        await a.client.ask(
            "OffsetCommit",
            10,
            group_id=stage.group,
            generation_id_or_member_epoch=epoch,
            member_id="a",
            topics=[by_id(identity, 10, *partitions)],
        )
    await stored(a.client, stage.group, topic, 0, 1, 2, 3)


@scenario
async def commit_by_id_that_is_refused(stage: Stage) -> None:
    """Strangers, outsiders, and ids of topics that do not exist."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    identity = await topic_id(a.client, topic)
    for member_id, epoch, asked in (
        ("nobody", a.epoch, identity),
        ("", -1, identity),
        ("a", -1, identity),
        ("a", a.epoch + 1, identity),
        ("a", a.epoch, NO_TOPIC),
        ("a", 1, NO_TOPIC),
        ("a", a.epoch, None),
    ):
        await a.client.ask(
            "OffsetCommit",
            10,
            group_id=stage.group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[by_id(asked, 10, 0)],
        )
    await stored(a.client, stage.group, topic)


@scenario
async def commit_with_leader_epoch_and_metadata(stage: Stage) -> None:
    """Both are stored as they come."""
    topic = await known_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    values = {"committed_leader_epoch": 4, "committed_metadata": "mine"}
    await a.commit("", {}, topics=[committed(topic, {0: 1}, **values)])
    await a.commit("", {}, topics=[committed(topic, {1: 2}, committed_metadata=None)])
    await fetch(a.client, stage.group, topic, "a", a.epoch, topics=None)


@scenario
async def commit_while_revoking(stage: Stage) -> None:
    """What a member is to revoke it still commits, until it has revoked it."""
    topic = await known_topic(stage, partitions=4)
    a = await settled(stage, topic, "a")
    await joined(await consumer(stage, "b", topic))
    await a.beat()
    await a.commit(topic, {0: 1, 2: 1})
    await a.commit(topic, {2: 2}, epoch=1)
    await a.ack()
    await a.commit(topic, {2: 3}, epoch=2)
    await a.commit(topic, {2: 4})
    await stored(a.client, stage.group, topic, 0, 2)


@scenario
async def commit_of_a_partition_that_came_back(stage: Stage) -> None:
    """A partition that came back has the epoch of when it came."""
    a, b, topic = await shrunk(stage)
    await b.leave()
    await settle([a])
    stage.note("epoch", a.epoch)
    for epoch in (2, 3, 4):
        await a.commit(topic, {0: epoch}, epoch=epoch)
        await a.commit(topic, {2: epoch}, epoch=epoch)
    await stored(a.client, stage.group, topic, 0, 2)


@scenario
async def commit_by_who_is_away(stage: Stage) -> None:
    """A static member that left for a while is at epoch -2."""
    topic = await known_topic(stage, partitions=2)
    a = await settled(stage, topic, "a", instance="i")
    epoch = a.epoch
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    for one in (epoch, epoch - 1, -1, -2):
        await a.commit(topic, {0: 1}, epoch=one, group_instance_id="i")
    c = await consumer(stage, "c", topic, instance="i")
    await joined(c)
    await a.commit(topic, {0: 2}, epoch=epoch, group_instance_id="i")
    await c.commit(topic, {0: 3}, group_instance_id="j")
    await c.commit(topic, {0: 4}, epoch=epoch - 1)


@scenario
async def commit_of_unknown_topics(stage: Stage) -> None:
    """Topics and partitions that do not exist have their own codes."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    await a.commit(
        "",
        {},
        topics=[committed(topic, {0: 1, 7: 1}), committed(stage.topic_named("none"), {0: 1})],
    )
    await a.commit(
        "",
        {},
        epoch=1,
        topics=[committed(topic, {0: 1, 7: 1}), committed(stage.topic_named("none"), {0: 1})],
    )
    await a.commit(topic, {0: 1}, topics=[committed(topic, {0: 2}, committed_metadata="m" * 4097)])


@scenario
async def fetch_as_a_member(stage: Stage) -> None:
    """A fetch with a member id is checked, one without is not."""
    a, b, topic = await shrunk(stage)
    await a.committing(topic, {0: 5}).quiet()
    for member_id, epoch in (
        ("a", a.epoch),
        ("b", b.epoch),
        ("a", a.epoch - 1),
        ("a", a.epoch + 1),
        ("a", 0),
        ("a", -1),
        ("nobody", a.epoch),
        ("nobody", -1),
        ("", -1),
        ("", a.epoch),
        (None, -1),
        (None, a.epoch),
    ):
        await fetch(a.client, stage.group, topic, member_id, epoch)
    await fetch(a.client, stage.group, topic, None, -1, 8)


@scenario
async def fetch_all_as_a_member(stage: Stage) -> None:
    """The same for all topics."""
    a, _, topic = await shrunk(stage)
    await a.committing(topic, {0: 5}).quiet()
    for member_id, epoch in (("a", a.epoch), ("a", a.epoch + 1), ("nobody", 1), (None, -1)):
        await fetch(a.client, stage.group, topic, member_id, epoch, topics=None)
        await fetch(a.client, stage.group, topic, member_id, epoch, topics=None, version=10)


@scenario
async def fetch_by_id_as_a_member(stage: Stage) -> None:
    """The same by topic id, also of partitions and topics that do not exist."""
    a, b, topic = await shrunk(stage)
    identity = await topic_id(a.client, topic)
    await a.committing(topic, {0: 5}).quiet()
    for member_id, epoch in (
        ("a", a.epoch),
        ("b", b.epoch),
        ("a", a.epoch - 1),
        ("a", -1),
        ("nobody", a.epoch),
        (None, -1),
        (None, a.epoch),
    ):
        asked = [{"topic_id": identity, "partition_indexes": [0, 3, 9]}]
        await fetch(a.client, stage.group, topic, member_id, epoch, 10, topics=asked)
    strange = [{"topic_id": NO_TOPIC, "partition_indexes": [0]}]
    for member_id, epoch in (("a", a.epoch), ("a", a.epoch + 1), (None, -1)):
        await fetch(a.client, stage.group, topic, member_id, epoch, 10, topics=strange)


@scenario
async def fetch_of_several_groups(stage: Stage) -> None:
    """Each group of one request has its own member, and its own error."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    b = await settled(stage, topic, "b", group=stage.group_named("other"))
    for one in (a, b):
        await one.committing(topic, {0: 5}).quiet()
    for version in (9, 10):
        asked = [
            {"group_id": group, "member_id": member_id, "member_epoch": epoch, "topics": None}
            for group, member_id, epoch in (
                (a.group, "a", a.epoch),
                (b.group, "a", a.epoch),
                (b.group, "b", b.epoch + 1),
                (b.group, "b", b.epoch),
                (stage.group_named("none"), "a", 1),
            )
        ]
        await a.client.ask("OffsetFetch", version, groups=asked)


@scenario
async def fetch_from_an_empty_group(stage: Stage) -> None:
    """An Empty group has no members to be."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    await a.committing(topic, {0: 5}).quiet()
    await a.leave()
    for member_id, epoch in (("a", 2), ("", -1), (None, -1), (None, 3), ("a", -1)):
        await fetch(a.client, stage.group, topic, member_id, epoch)
    for member_id, epoch in (("a", 2), (None, -1)):
        await fetch(a.client, stage.group_named("none"), topic, member_id, epoch)


@scenario
async def transactional_commit(stage: Stage) -> None:
    """TxnOffsetCommit hears 22 for an epoch that is not the member's."""
    await commit_in_transactions(stage, OLD)


@scenario
async def transactional_commit_by_topic_id(stage: Stage) -> None:
    """From version 6 on TxnOffsetCommit gets 113 for a past epoch."""
    await commit_in_transactions(stage, BY_ID)


async def commit_in_transactions(stage: Stage, version: int) -> None:
    topic = await known_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    one = await producer(stage, "p")
    await one.add_offsets(stage.group)
    for member_id, epoch in (
        ("a", a.epoch),
        ("a", a.epoch + 1),
        ("a", 1),
        ("a", -1),
        ("nobody", a.epoch),
        ("", -1),
        ("", a.epoch),
    ):
        await one.commit_offsets(
            stage.group, topic, {0: 1}, version, member_id=member_id, generation_id=epoch
        )
    await one.end(True)
    await stored(a.client, stage.group, topic)


@scenario
async def transactional_commit_of_an_unknown_group(stage: Stage) -> None:
    """Each version of TxnOffsetCommit to an Empty group and to one that does not exist."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    await a.leave()
    for version in (OLD, NEW, BY_ID):
        one = await producer(stage, f"p{version}")
        for group in (stage.group, stage.group_named(f"none-{version}")):
            if version == OLD:
                await one.add_offsets(group)
            for member_id, epoch in (("a", 1), ("a", 0), ("a", -1), ("", 3)):
                await one.commit_offsets(
                    group, topic, {0: 1}, version, member_id=member_id, generation_id=epoch
                )
        await one.end(False, min(version, NEW))


@scenario
async def transactional_commit_mixed_with_unknown_topics(stage: Stage) -> None:
    """A stale epoch beside unknown topic ids: each partition has its own error."""
    topic = await known_topic(stage, partitions=2)
    a, _ = await settled(stage, topic, "a", "b")
    one = await producer(stage, "p")
    known = await topic_id(a.client, topic)
    topics = [by_id(NO_TOPIC, 1), by_id(known, 2, 0, 1, 9), by_id(None, 3)]
    for epoch in (a.epoch, 1, a.epoch + 1):
        await one.commit_offsets(
            stage.group, topic, {}, BY_ID, topics=topics, member_id="a", generation_id=epoch
        )
    await one.end(True, NEW)
    await stored(a.client, stage.group, topic, 0, 1)


@scenario
async def transactional_commit_in_every_version(stage: Stage) -> None:
    """Members are named from version 3 on."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    one = await producer(stage, "p")
    await one.add_offsets(stage.group)
    for version in range(3):
        await one.commit_offsets(stage.group, topic, {0: version}, version)
    for version in range(3, 6):
        for epoch in (a.epoch, a.epoch + 1):
            await one.commit_offsets(
                stage.group, topic, {0: version}, version, member_id="a", generation_id=epoch
            )
    await one.end(True)
    await stored(a.client, stage.group, topic)


@scenario
async def delete_offsets(stage: Stage) -> None:
    """OffsetDelete spares the topics that members subscribe, live or not."""
    topic = await known_topic(stage, partitions=2)
    other = await stage.create_topic("other", 2)
    gone = stage.topic_named("gone")
    a = await consumer(stage, "a", topic, gone)
    await joined(a)
    await settle([a])
    for one in (topic, other):
        await a.committing(one, {0: 5}).quiet()
    asked = [
        {"name": one, "partitions": [{"partition_index": 0}, {"partition_index": 1}]}
        for one in (topic, other, gone, stage.topic_named("none"))
    ]
    await a.client.ask("OffsetDelete", 0, group_id=stage.group, topics=asked)
    await stored(a.client, stage.group, topic)
    await stored(a.client, stage.group, other)
    await a.leave()
    await a.client.ask("OffsetDelete", 0, group_id=stage.group, topics=asked)
    await stored(a.client, stage.group, topic)


@scenario
async def delete_offsets_of_a_regex(stage: Stage) -> None:
    """Topics that a regular expression matches are spared, too."""
    topic = await known_topic(stage)
    a = await consumer(stage, "a", regex=f"{stage.name}-t.*".replace(".", "[.]", 1))
    await joined(a)
    await a.reaches(2)
    await a.committing(topic, {0: 5}).quiet()
    asked = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    await a.client.ask("OffsetDelete", 0, group_id=stage.group, topics=asked)
    await stored(a.client, stage.group, topic)


@scenario(waits=3, profile="expiring")
async def expire_of_an_empty_group(stage: Stage) -> None:
    """An Empty group whose offsets have expired is deleted."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    await a.leave()
    watcher = await stage.client("w")

    async def is_gone() -> bool:
        told = await watcher.quiet("ConsumerGroupDescribe", 1, group_ids=[stage.group])
        return bool(told["groups"][0]["error_code"] == "GROUP_ID_NOT_FOUND (69)")

    await stage.until("the group is gone", is_gone)
    await a.join()


@scenario(waits=3, profile="expiring")
async def expire_of_unsubscribed_topics(stage: Stage) -> None:
    """Offsets of topics that no member subscribes expire, those of others do not."""
    topic = await known_topic(stage)
    other = await stage.create_topic("other")
    a = await consumer(stage, "a", topic)
    for one in (topic, other):
        await a.committing(one, {0: 5}, 4, member_id="", epoch=-1, retention_time=1).quiet()
    await joined(a)
    await stage.settle(2.5)
    await a.beat()
    await stored(a.client, stage.group, topic)
    await stored(a.client, stage.group, other)


@scenario(waits=65, profile="retention")
async def retention_of_an_empty_group(stage: Stage) -> None:
    """The retention of an Empty group counts from its commits, not from when it became Empty."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    await a.committing(topic, {0: 5}).quiet()
    began = time.monotonic()
    await stage.settle(20)
    await a.leave()
    log = await GroupLog.of(stage)
    watcher = await stage.client("w")

    async def is_gone() -> bool:
        told = await watcher.quiet("ConsumerGroupDescribe", 1, group_ids=[stage.group])
        return bool(told["groups"][0]["error_code"] == "GROUP_ID_NOT_FOUND (69)")

    await stage.until("the group is gone", is_gone, seconds=80)
    stage.note("the retention ended", how_long(time.monotonic() - began, 58, 75))
    await log.record("expired")
    await stored(watcher, stage.group, topic)


@scenario(waits=65, profile="retention")
async def retention_of_a_live_group(stage: Stage) -> None:
    """Only offsets of topics expire that no member subscribes.

    One has a name, one a regular expression, and one is of the classic protocol.
    """
    named, matched, classic, gone = [
        await known_topic(stage, name) for name in ("named", "matched", "classic", "gone")
    ]
    a = await settled(stage, named, "a")
    b = await joined(await consumer(stage, "b", regex=literal(matched)))

    async def is_resolved() -> bool:
        await b.acking().quiet()
        return bool(b.assigned)

    await stage.until("the regular expression is resolved", is_resolved)
    c = await classic_member(stage, "c", classic)
    await rejoined(c)
    await settle([a, b])
    for topic in (named, matched, classic, gone):
        await a.committing(topic, {0: 5}).quiet()
    began = time.monotonic()
    log = await GroupLog.of(stage)

    async def is_gone() -> bool:
        for one in (a, b, c):
            await one.beating().quiet()
        asked = [{"name": gone, "partition_indexes": [0]}]
        told = await a.client.quiet("OffsetFetch", 7, group_id=stage.group, topics=asked)
        return bool(told["topics"][0]["partitions"][0]["committed_offset"] == -1)

    await stage.until("the offset is gone", is_gone, seconds=80)
    stage.note("the retention ended", how_long(time.monotonic() - began, 58, 75))
    await log.record("expired")
    for topic in (named, matched, classic, gone):
        await stored(a.client, stage.group, topic)
    await a.beat()
