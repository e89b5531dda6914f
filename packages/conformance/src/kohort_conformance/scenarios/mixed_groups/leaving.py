"""LeaveGroup of a classic member in a consumer group."""

from __future__ import annotations

from kohort_conformance.consumers import known_topic, settled, show
from kohort_conformance.group_log import GroupLog
from kohort_conformance.mixed_members import classic_member, mixed, rejoined
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage


@scenario
async def classic_member_leaves(stage: Stage) -> None:
    """Its partitions go to the others."""
    a, b, _ = await mixed(stage)
    log = await GroupLog.of(stage)
    await b.leave()
    await log.record("b left")
    await b.leave()
    await b.heartbeat()
    await a.beat()
    await show(a.client, stage.group)


@scenario
async def classic_member_leaves_in_every_version(stage: Stage) -> None:
    """By each version of LeaveGroup."""
    topic = await known_topic(stage)
    a = await settled(stage, topic, "a")
    for version in range(6):
        b = await classic_member(stage, f"b{version}", topic)
        await rejoined(b)
        await b.leave(version)
    await a.beat()
