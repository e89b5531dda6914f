"""Timers of consumer groups: sessions and rebalance timeouts.

Sessions are played on the profile "small", where they last three seconds.
"""

from __future__ import annotations

import time

from kohort_conformance.consumers import (
    LEAVES_FOR_A_WHILE,
    consumer,
    joined,
    known_topic,
    name_topics,
    named_topic,
    owned,
    settle,
    settled,
    show,
    until_described,
)
from kohort_conformance.group_log import GroupLog
from kohort_conformance.mixed_members import classic_member, rejoined
from kohort_conformance.scenario import scenario
from kohort_conformance.scenarios.configured import small
from kohort_conformance.stage import Stage, how_long

UNKNOWN = "UNKNOWN_MEMBER_ID (25)"


@small(waits=4)
async def session_of_the_only_member(stage: Stage) -> None:
    """A silent member is removed when its session ends."""
    topic = await known_topic(stage)
    log = await GroupLog.of(stage)
    a = await settled(stage, topic, "a")
    await log.skip()
    watcher = await stage.client("w")
    seconds = await until_described(watcher, stage.group, "Empty", 0)
    stage.note("the session ended", how_long(seconds, 1, 7))
    await log.record("a is gone")
    await show(watcher, stage.group)
    await a.beat()


@small(waits=4)
async def session_of_one_of_two(stage: Stage) -> None:
    """The other gets what the silent one had."""
    topic = await named_topic(stage, partitions=2)
    a, _ = await settled(stage, topic, "a", "b")
    log = await GroupLog.of(stage)
    await a.reaches(4)
    await log.record("b is gone")
    await show(a.client, stage.group)


@small(waits=7)
async def session_is_kept_by_heartbeats(stage: Stage) -> None:
    """Heartbeats restart a session."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    for _ in range(4):
        await stage.settle(1.5)
        await a.beat()


@small(waits=5)
async def session_is_not_kept_by_refusals(stage: Stage) -> None:
    """A heartbeat that is refused does not restart a session."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    began = time.monotonic()

    async def is_gone() -> bool:
        told = await a.beating(member_epoch=7).quiet()
        return bool(told["error_code"] == UNKNOWN)

    await stage.until("the end of the session", is_gone)
    stage.note("the session ended", how_long(time.monotonic() - began, 1, 7))


@small(waits=5)
async def session_is_not_kept_by_commits(stage: Stage) -> None:
    """Commits do not restart a session."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    began = time.monotonic()

    async def is_gone() -> bool:
        told = await a.committing(topic, {0: 1}).quiet()
        return bool(told["topics"][0]["partitions"][0]["error_code"] == UNKNOWN)

    await stage.until("the end of the session", is_gone)
    stage.note("the session ended", how_long(time.monotonic() - began, 1, 7))


@small(waits=5)
async def session_of_a_member_that_is_away(stage: Stage) -> None:
    """A static member that left for a while is removed when its session ends."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a", instance="i")
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    log = await GroupLog.of(stage)
    watcher = await stage.client("w")
    seconds = await until_described(watcher, stage.group, "Empty", 0)
    stage.note("the session ended", how_long(seconds, 1, 7))
    await log.record("a is gone")
    b = await consumer(stage, "b", topic, instance="i")
    await b.join()


@small(waits=3)
async def session_of_the_group(stage: Stage) -> None:
    """A group's own session timeout holds from the next heartbeat on."""
    topic = await known_topic(stage)
    configs = {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "700"}
    await stage.set_group(stage.group, **configs)
    a = await consumer(stage, "a", topic)
    await a.join()
    watcher = await stage.client("w")
    seconds = await until_described(watcher, stage.group, "Empty", 0)
    stage.note("the session ended", how_long(seconds, 0.5, 2.7))


@scenario(waits=4)
async def rebalance_timeout(stage: Stage) -> None:
    """A member that does not revoke is removed, though it heartbeats."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a", rebalance_ms=2_000)
    b = await joined(await consumer(stage, "b", topic))
    await a.beat()
    log = await GroupLog.of(stage)
    began = time.monotonic()
    await a.hears(UNKNOWN)
    stage.note("a is removed", how_long(time.monotonic() - began, 1.3, 4))
    await log.record("a is gone")
    await b.beat()
    await show(b.client, stage.group)


@scenario(waits=4)
async def rebalance_timeout_after_revoking(stage: Stage) -> None:
    """A member that revokes in time stays."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a", rebalance_ms=2_000)
    b = await joined(await consumer(stage, "b", topic))
    await a.beat()
    await a.ack()
    await stage.settle(3)
    await a.beat()
    await show(b.client, stage.group)


@scenario(waits=5)
async def rebalance_timeout_of_more_to_revoke(stage: Stage) -> None:
    """Each new set of partitions to revoke has its own timeout."""
    topic = await named_topic(stage, partitions=6)
    a = await settled(stage, topic, "a", rebalance_ms=3_000)
    await joined(await consumer(stage, "b", topic))
    await a.beat()
    await joined(await consumer(stage, "c", topic))
    await stage.settle(1.6)
    await a.ack()
    await stage.settle(2)
    await a.beat()
    await a.hears(UNKNOWN)


@scenario(waits=3)
async def rebalance_timeout_of_a_waiting_member(stage: Stage) -> None:
    """A member that waits for partitions of others is not removed for it."""
    topic = await known_topic(stage, partitions=2)
    await settled(stage, topic, "a")
    b = await joined(await consumer(stage, "b", topic, rebalance_ms=500))
    await b.beat()
    await stage.settle(2)
    await b.beat()


@scenario(waits=4)
async def rebalance_timeout_of_a_member_that_is_away(stage: Stage) -> None:
    """One that left for a while has revoked: its rebalance timeout does not remove it."""
    topic = await known_topic(stage, partitions=2)
    a = await settled(stage, topic, "a", rebalance_ms=1_000, instance="i")
    b = await joined(await consumer(stage, "b", topic))
    await a.beat()
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    await stage.settle(2)
    await b.beat()
    await show(b.client, stage.group)


@scenario(waits=3)
async def rebalance_timeout_that_changes(stage: Stage) -> None:
    """A timeout said while revoking does not change the one that runs."""
    topic = await known_topic(stage, partitions=2)
    [topic_id] = await name_topics(stage, topic)
    a = await settled(stage, topic, "a", rebalance_ms=2_000)
    await joined(await consumer(stage, "b", topic))
    await a.beat()
    began = time.monotonic()
    await a.beat(rebalance_timeout=60_000, topic_partitions=owned({topic_id: [0, 1]}))
    await a.hears(UNKNOWN)
    stage.note("a is removed", how_long(time.monotonic() - began, 1.3, 4))


@small(waits=3)
async def session_of_a_classic_member(stage: Stage) -> None:
    """A classic member has the session that it said itself."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    await rejoined(await classic_member(stage, "b", topic, session_ms=2_500))

    async def is_alone() -> bool:
        await a.acking().quiet()
        return bool(a.epoch == 4)

    seconds = await stage.until("the end of the session", is_alone)
    stage.note("the session ended", how_long(seconds, 0.3, 6))
    await show(a.client, stage.group)


@scenario(waits=4)
async def rebalance_timeout_of_a_classic_member(stage: Stage) -> None:
    """A classic member that is told to join again and does not is removed, though it heartbeats."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    b = await classic_member(stage, "b", topic, rebalance_ms=2_000)
    await rejoined(b)
    await settle([a])
    began = time.monotonic()

    async def is_gone() -> bool:
        return bool((await b.beating().quiet())["error_code"] == UNKNOWN)

    await b.heartbeat()
    await stage.until("the end of the timeout", is_gone)
    stage.note("b is removed", how_long(time.monotonic() - began, 1.3, 4))
    await a.beat()
    await show(a.client, stage.group)


@scenario(waits=4)
async def rebalance_timeout_of_a_classic_member_that_does_not_sync(stage: Stage) -> None:
    """So is one that joins and does not sync."""
    topic = await named_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    b = await classic_member(stage, "b", topic, rebalance_ms=2_000)
    began = time.monotonic()
    await b.join()

    async def is_gone() -> bool:
        return bool((await b.beating().quiet())["error_code"] == UNKNOWN)

    await stage.until("the end of the timeout", is_gone)
    stage.note("b is removed", how_long(time.monotonic() - began, 1.3, 4))
    await a.beat()
    await show(a.client, stage.group)


@small(waits=2)
async def full_group_of_classic_members(stage: Stage) -> None:
    """A full group takes no classic member, either."""
    topic = await known_topic(stage, partitions=2)
    a = await settled(stage, topic, "a")
    b = await classic_member(stage, "b", topic)
    await rejoined(b)
    c = await classic_member(stage, "c", topic)
    await c.join()
    await c.join(member_id="")
    await c.join(member_id="", group_instance_id="i")
    await b.join()
    d = await consumer(stage, "d", topic)
    await d.join()
    await show(a.client, stage.group)


@small(waits=2)
async def full_group(stage: Stage) -> None:
    """A group has no more members than group.consumer.max.size; a static return needs room, too."""
    topic = await known_topic(stage, partitions=2)
    a, b = await settled(stage, topic, "a", "b")
    c = await consumer(stage, "c", topic)
    await c.join()
    await c.join(instance_id="i")
    await c.beat(member_epoch=3)
    await c.beat(member_epoch=3, instance_id="i")
    await c.leave()
    await c.join(subscribed_topic_regex="(")
    await a.join()
    await a.beat()
    await b.leave()
    await c.join()
    await settle([a, c])
    await show(a.client, stage.group)


@small(waits=2)
async def full_group_of_static_members(stage: Stage) -> None:
    """A static member that is away holds its place, and cannot return under a new id."""
    topic = await known_topic(stage, partitions=2)
    a = await settled(stage, topic, "a", instance="i")
    await settle([await joined(await consumer(stage, "b", topic)), a])
    await a.leave(LEAVES_FOR_A_WHILE, instance_id="i")
    c = await consumer(stage, "c", topic, instance="i")
    await c.join()
    await a.join()
