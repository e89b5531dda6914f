"""Topics that are created, grown and deleted under a consumer group."""

from __future__ import annotations

from kohort_conformance.consumers import (
    PlayedConsumer,
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
from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.consumer_assignors import grow
from kohort_conformance.stage import Stage


@scenario
async def created(stage: Stage) -> None:
    """A subscribed topic that is created bumps the epoch at the next heartbeat of anyone."""
    log = await GroupLog.of(stage)
    a = await joined(await consumer(stage, "a", stage.topic))
    b = await joined(await consumer(stage, "b", stage.topic))
    await settle([a, b])
    await log.skip()
    await named_topic(stage, partitions=2)
    await b.beat()
    await log.record("b noticed")
    await a.beat()
    await log.record("a has its own")
    await show(a.client, stage.group)


@scenario
async def grown(stage: Stage) -> None:
    """So does one that gets more partitions."""
    topic = await named_topic(stage, partitions=2)
    a, b = await settled(stage, topic, "a", "b")
    log = await GroupLog.of(stage)
    await grow(a.client, topic, 4)
    await a.reaches(4)
    await log.record("a noticed")
    await b.beat()
    await show(a.client, stage.group)


@scenario
async def deleted(stage: Stage) -> None:
    """Partitions of a topic that is deleted are revoked like others."""
    topic = await known_topic(stage, partitions=2)
    other = await known_topic(stage, "other", partitions=2)
    await name_topics(stage, topic, other)
    a = await joined(await consumer(stage, "a", topic, other))
    await settle([a])
    log = await GroupLog.of(stage)
    await stage.delete_topic(topic)
    await stage.until("a loses it", lambda: loses(a, 1))
    await log.record("a noticed")
    await show(a.client, stage.group)
    await a.ack()
    await log.record("a has revoked")
    await show(a.client, stage.group)


@scenario
async def deleted_all(stage: Stage) -> None:
    """Without any topic the hash is none, and the members have nothing."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    log = await GroupLog.of(stage)
    await stage.delete_topic(topic)
    await stage.until("a loses it", lambda: loses(a, 0))
    await log.record("a noticed")
    await a.ack()
    await log.record("a has revoked")
    await show(a.client, stage.group)


@scenario
async def deleted_and_made_again(stage: Stage) -> None:
    """A topic of the same name is another topic."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    await stage.delete_topic(topic)
    await stage.until("a loses it", lambda: loses(a, 0))
    await a.acking().quiet()
    log = await GroupLog.of(stage)
    await known_topic(stage, partitions=2)
    await name_topics(stage, topic)
    await a.beat()
    await log.record("a noticed")
    await show(a.client, stage.group)


@scenario
async def of_no_concern(stage: Stage) -> None:
    """Topics that nobody subscribes change nothing."""
    topic = await known_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    log = await GroupLog.of(stage)
    other = await known_topic(stage, "other", partitions=2)
    await a.beat()
    await stage.delete_topic(other)
    await a.beat()
    await log.record("nothing")


@scenario
async def noticed_by_who_joins(stage: Stage) -> None:
    """A member that joins and a topic that has grown are one new epoch."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    log = await GroupLog.of(stage)
    await grow(a.client, topic, 4)
    await known_topic(stage, "later")
    await log.skip()
    b = await consumer(stage, "b", topic)
    await b.join()
    await log.record("b joined")
    await a.beat()
    await show(a.client, stage.group)


@scenario
async def not_noticed_by_who_leaves(stage: Stage) -> None:
    """A member that leaves does not look at topics."""
    topic = await named_topic(stage, partitions=2)
    a, b = await settled(stage, topic, "a", "b")
    await grow(a.client, topic, 4)
    await known_topic(stage, "later")
    log = await GroupLog.of(stage)
    await b.leave()
    await log.record("b left")
    await a.beat()
    await log.record("a noticed")
    await show(a.client, stage.group)


async def loses(one: PlayedConsumer, topics: int) -> bool:
    """Heartbeat, unrecorded; whether the member has partitions of so many topics."""
    await one.beating().quiet()
    return len(one.assigned) == topics
