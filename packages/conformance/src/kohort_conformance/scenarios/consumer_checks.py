"""ConsumerGroupHeartbeat that is refused: each check, and which of two comes first."""

from __future__ import annotations

import uuid
from typing import Any

from kohort_conformance.consumers import (
    LEAVES,
    LEAVES_FOR_A_WHILE,
    PlayedConsumer,
    consumer,
    joined,
    known_topic,
    name_topics,
    owned,
    settled,
    show,
)
from kohort_conformance.members import committed, member, stable
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage

BLANK = ("", " ", "\t ")
NOWHERE = [{"topic_id": uuid.UUID(int=7), "partitions": [0]}]


async def nobody(stage: Stage, client_id: str = "a", **values: Any) -> PlayedConsumer:
    """A member to be of a group that does not exist and a topic that need not."""
    return await consumer(stage, client_id, stage.topic, **values)


@scenario
async def blank_member_id(stage: Stage) -> None:
    """A member says its id, since v1 when it joins, too."""
    a = await nobody(stage)
    for blank in BLANK:
        await a.join(member_id=blank)
        await a.join(member_id=blank, version=0)
        for epoch in (1, LEAVES, LEAVES_FOR_A_WHILE):
            await a.beat(member_id=blank, member_epoch=epoch)
            await a.beat(member_id=blank, member_epoch=epoch, version=0)
        a.id = "a"


@scenario
async def id_made_by_the_server(stage: Stage) -> None:
    """In v0 the server makes the id of a member that joins without one."""
    topic = await known_topic(stage)
    a = await consumer(stage, "a", topic)
    await a.join(version=0, member_id="")
    stage.note("length", len(a.id))
    await a.beat(version=0)
    await a.leave(version=0)


@scenario
async def blank_group_id(stage: Stage) -> None:
    """A group id is not blank; other characters are not looked at."""
    a = await nobody(stage)
    for blank in BLANK:
        await a.join(group_id=blank)
        await a.beat(group_id=blank, member_epoch=1)
        await a.leave(group_id=blank)


@scenario
async def blank_instance_id(stage: Stage) -> None:
    """An instance id is null or not blank."""
    a = await nobody(stage)
    for blank in BLANK:
        await a.join(instance_id=blank)
        await a.beat(instance_id=blank, member_epoch=1)
        await a.leave(instance_id=blank)
        await a.leave(LEAVES_FOR_A_WHILE, instance_id=blank)


@scenario
async def blank_rack_id(stage: Stage) -> None:
    """A rack is null or not blank."""
    a = await nobody(stage)
    for blank in BLANK:
        await a.join(rack_id=blank)
        await a.beat(rack_id=blank, member_epoch=1)
        await a.leave(rack_id=blank)


@scenario
async def join_without_a_rebalance_timeout(stage: Stage) -> None:
    """Who joins says a rebalance timeout; only -1 is none."""
    topic = await known_topic(stage)
    a = await consumer(stage, "a", topic)
    await a.join(rebalance_timeout=-1)
    for milliseconds in (0, -2, -(2**31), 2**31 - 1):
        await a.join(rebalance_timeout=milliseconds)


@scenario
async def join_without_topic_partitions(stage: Stage) -> None:
    """Who joins says that it has no partitions."""
    a = await nobody(stage)
    await a.join(topic_partitions=None)
    await a.join(topic_partitions=NOWHERE)
    await a.join(topic_partitions=[{"topic_id": uuid.UUID(int=7), "partitions": []}])


@scenario
async def join_without_a_subscription(stage: Stage) -> None:
    """Who joins subscribes, if only to nothing."""
    a = await nobody(stage)
    await a.join(subscribed_topic_names=None)
    await a.join(subscribed_topic_names=None, version=0)
    await a.join(subscribed_topic_names=[])
    b = await nobody(stage, "b")
    await b.join(subscribed_topic_names=None, subscribed_topic_regex="")


@scenario
async def impossible_epochs(stage: Stage) -> None:
    """No epoch is below -2, and -2 is for static members."""
    a = await nobody(stage)
    for epoch in (-3, -(2**31)):
        await a.beat(member_epoch=epoch)
        await a.beat(member_epoch=epoch, instance_id="i")
    await a.leave(LEAVES_FOR_A_WHILE)
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")


@scenario
async def unsupported_assignor(stage: Stage) -> None:
    """An assignor is one of the server's, at any epoch; names are matched exactly."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    for name in ("", "Uniform", "sticky", " range"):
        await a.beat(server_assignor=name)
        await a.join(server_assignor=name)
        await a.leave(server_assignor=name)
    await a.beat(server_assignor="range")
    await a.beat(server_assignor="uniform")


@scenario
async def no_such_group(stage: Stage) -> None:
    """Without a group every epoch but 0 is refused, leaving too."""
    a = await nobody(stage)
    for epoch in (1, 7, LEAVES):
        await a.beat(member_epoch=epoch)
        await a.beat(member_epoch=epoch, instance_id="i")
        await a.beat(member_epoch=epoch, version=0)
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    await show(a.client, stage.group)


@scenario
async def group_of_another_kind(stage: Stage) -> None:
    """At an epoch other than 0 a classic group is none, whatever its state."""
    topic = await known_topic(stage)
    [classic] = await stable(stage, "c")
    a = await nobody(stage)
    for epoch in (1, LEAVES):
        await a.beat(member_epoch=epoch)
        await a.beat(member_epoch=epoch, member_id=classic.id)
    await classic.leave()
    for epoch in (1, LEAVES):
        await a.beat(member_epoch=epoch)
    simple = await member(stage, "s", group=stage.group_named("simple"))
    await simple.committing(topic, {0: 1}).quiet()
    await a.beat(member_epoch=1, group_id=simple.group)


@scenario
async def unknown_member(stage: Stage) -> None:
    """A member that the group does not know may only join."""
    topic = await known_topic(stage)
    await settled(stage, topic, "a")
    b = await consumer(stage, "b", topic)
    for epoch in (1, 2, 7, LEAVES):
        await b.beat(member_epoch=epoch)
    await b.beat(member_id="A", member_epoch=2)


@scenario
async def unknown_instance(stage: Stage) -> None:
    """An instance id that the group does not know, by a member that it knows and by another."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    b = await consumer(stage, "b", topic)
    for one in (a, b):
        await one.beat(member_epoch=2, instance_id="i")
        await one.leave(instance_id="i")
        await one.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    await a.beat()


@scenario
async def instance_in_use(stage: Stage) -> None:
    """A live instance id cannot join again, not even the same member."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a", instance="i")
    await a.join()
    b = await consumer(stage, "b", topic, instance="i")
    await b.join()
    await b.join(member_id="a")
    await a.beat(instance_id="i")


@scenario
async def instance_of_another_member(stage: Stage) -> None:
    """An instance id fences every member but its own at any epoch other than 0."""
    topic = await known_topic(stage)
    a, b = await settled(stage, topic, "a", "b")
    c = await consumer(stage, "c", topic, instance="i")
    await c.join()
    for one in (a, b):
        for epoch in (one.epoch, 1, 7, LEAVES, LEAVES_FOR_A_WHILE):
            await one.beat(member_epoch=epoch, instance_id="i")
    await a.beat()


@scenario
async def epochs_of_a_member(stage: Stage) -> None:
    """An epoch that is not the member's fences it; 0 joins again."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    for epoch in (3, 7, 1, 2**31 - 1):
        await a.beat(member_epoch=epoch)
        await a.ack(member_epoch=epoch)
    await a.join()
    await a.beat()


@scenario
async def previous_epoch(stage: Stage) -> None:
    """The previous epoch is taken from who says partitions that it has: a lost response."""
    topic = await known_topic(stage, partitions=4)
    [topic_id] = await name_topics(stage, topic)
    a, b = await settled(stage, topic, "a", "b")
    stage.note("epochs", [a.epoch, b.epoch])
    await a.beat(member_epoch=2)
    await a.beat(member_epoch=2, topic_partitions=owned({topic_id: [3]}))
    await a.beat(member_epoch=2, topic_partitions=owned({topic_id: range(4)}))
    await a.beat(member_epoch=2, topic_partitions=owned(a.assigned))
    await a.beat(member_epoch=2, topic_partitions=[])
    await a.beat(member_epoch=1, topic_partitions=owned(a.assigned))
    await b.beat(member_epoch=2, topic_partitions=owned(b.assigned))
    await a.beat(
        member_epoch=2,
        topic_partitions=owned(a.assigned),
        subscribed_topic_names=[topic],
        rebalance_timeout=5_000,
    )


@scenario
async def previous_epoch_is_the_last(stage: Stage) -> None:
    """Only the last epoch before is taken."""
    topic = await known_topic(stage, partitions=4)
    a, _, _ = await settled(stage, topic, "a", "b", "c")
    stage.note("epoch", a.epoch)
    for epoch in (1, 2, 3, 4):
        await a.ack(member_epoch=epoch)


@scenario
async def regex_that_does_not_compile(stage: Stage) -> None:
    """A regular expression that no member has must compile, also of who joins."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    for regex in ("(", "a**", "[", "(?=x)", "\\1"):
        await a.beat(subscribed_topic_regex=regex)
    b = await consumer(stage, "b", topic)
    await b.join(subscribed_topic_regex="(")
    await b.leave()
    c = await consumer(stage, "c", topic, group=stage.group_named("other"))
    await c.join(subscribed_topic_regex="(")
    await show(c.client, c.group)
    await a.beat()


@scenario
async def not_checked(stage: Stage) -> None:
    """Names of topics, ids of topics that do not exist and a long rack are taken."""
    topic = await known_topic(stage)
    a = await consumer(stage, "a", topic)
    await a.join(subscribed_topic_names=["a b", "", "x" * 300], rack_id="r" * 300)
    await a.beat(topic_partitions=NOWHERE)
    await a.beat(topic_partitions=[{"topic_id": uuid.UUID(int=0), "partitions": [-1, -1]}])
    await show(a.client, stage.group)


# --- which of two comes first


@scenario
async def order_of_what_is_blank(stage: Stage) -> None:
    """Blank ids come before the checks of who joins; the message tells which."""
    a = await nobody(stage)
    await a.join(member_id="", group_id="", server_assignor="none")
    await a.join(instance_id=" ", rebalance_timeout=-1, topic_partitions=None)
    await a.join(rack_id=" ", server_assignor="none")
    await a.beat(member_epoch=-3, member_id="", server_assignor="none")


@scenario
async def order_of_the_assignor(stage: Stage) -> None:
    """Impossible requests come before an unsupported assignor, and that before the group."""
    a = await nobody(stage)
    await a.join(server_assignor="none", rebalance_timeout=-1)
    await a.beat(server_assignor="none", member_epoch=-3)
    await a.leave(LEAVES_FOR_A_WHILE, server_assignor="none")
    for epoch in (1, LEAVES):
        await a.beat(server_assignor="none", member_epoch=epoch)


@scenario
async def order_of_the_regex(stage: Stage) -> None:
    """A regular expression is compiled after all that concerns the member."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a", instance="i")
    b = await consumer(stage, "b", topic)
    await b.beat(member_epoch=1, subscribed_topic_regex="(")
    await a.beat(member_epoch=7, subscribed_topic_regex="(")
    await b.join(instance_id="i", subscribed_topic_regex="(")
    await b.beat(member_epoch=1, instance_id="i", subscribed_topic_regex="(")
    await a.beat(subscribed_topic_regex="(", server_assignor="none")
    await a.leave(subscribed_topic_regex="(")


@scenario
async def order_of_instance_and_epoch(stage: Stage) -> None:
    """Who has the instance id comes before the epoch."""
    topic = await known_topic(stage)
    await settled(stage, topic, "a", instance="i")
    b = await consumer(stage, "b", topic)
    await joined(b)
    await b.beat(member_epoch=99, instance_id="i")
    await b.beat(member_epoch=99, instance_id="j")
    await b.join(member_id="a", instance_id="i", topic_partitions=None)


@scenario
async def a_refusal_changes_nothing(stage: Stage) -> None:
    """A refused heartbeat leaves subscription, timeouts and assignment as they were."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    await a.beat(member_epoch=7, subscribed_topic_names=["x"], rack_id="r")
    await a.beat(subscribed_topic_names=["x"], subscribed_topic_regex="(")
    await a.beat(subscribed_topic_names=["x"], server_assignor="none")
    await show(a.client, stage.group)
    await a.beat()


@scenario
async def leaving_is_checked_less(stage: Stage) -> None:
    """Who leaves need not say its epoch, a subscription that compiles, or what it has."""
    topic = await known_topic(stage)
    a, b = await settled(stage, topic, "a", "b")
    await a.leave(subscribed_topic_regex="(", topic_partitions=NOWHERE)
    await b.leave(rebalance_timeout=5, subscribed_topic_names=[])
    await show(a.client, stage.group)


@scenario
async def offsets_make_no_consumer_group(stage: Stage) -> None:
    """A simple group with offsets becomes a consumer group when a member joins."""
    topic = await known_topic(stage)
    a = await consumer(stage, "a", topic)
    await a.client.quiet(
        "OffsetCommit",
        9,
        group_id=stage.group,
        generation_id_or_member_epoch=-1,
        topics=[committed(topic, {0: 5})],
    )
    await a.join()
    await show(a.client, stage.group)
