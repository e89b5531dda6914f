"""Heartbeat: what it tells in each state, and to whom."""

from __future__ import annotations

from kohort_conformance.members import (
    gather_round,
    look,
    member,
    stable,
    static_group,
    until_rebalancing,
)
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage

EVERY_VERSION = range(5)


@scenario
async def empty_group_id(stage: Stage) -> None:
    """An empty group id is refused in every version."""
    a = await member(stage, group="")
    for version in EVERY_VERSION:
        await a.heartbeat(version)


@scenario
async def unknown_group(stage: Stage) -> None:
    """A group that does not exist: unknown member, and no group is made."""
    a = await member(stage)
    for version in EVERY_VERSION:
        await a.heartbeat(version, member_id="nobody", generation_id=1)
    await a.heartbeat(member_id="")
    await look(a.client, stage.group)


@scenario
async def empty_group(stage: Stage) -> None:
    """A group without members knows no member."""
    [a] = await stable(stage, "a")
    await a.leave()
    await a.heartbeat()
    await a.heartbeat(generation_id=2)


@scenario
async def simple_group(stage: Stage) -> None:
    """A group that only has commits knows no member."""
    a = await member(stage)
    await stage.create_topic()
    await a.commit(stage.topic, {0: 5})
    await a.heartbeat(member_id="nobody")


@scenario
async def stable_group(stage: Stage) -> None:
    """In Stable every version gets 0."""
    a, b = await stable(stage, "a", "b")
    for version in EVERY_VERSION:
        await a.heartbeat(version)
        await b.heartbeat(version)


@scenario
async def order_of_checks(stage: Stage) -> None:
    """Member first, then instance, then generation."""
    [a] = await stable(stage, "a")
    await a.heartbeat(member_id="nobody", generation_id=9)
    await a.heartbeat(member_id="", generation_id=9)
    await a.heartbeat(group_instance_id="i", generation_id=9)
    for generation in (0, 2, -1):
        await a.heartbeat(generation_id=generation)


@scenario
async def pending_member(stage: Stage) -> None:
    """A pending id is no member yet, in an Empty and in a Stable group."""
    a = await (await member(stage, "a")).handshake()
    await a.heartbeat(generation_id=0)
    await gather_round([a])
    await a.sync()
    b = await (await member(stage, "b")).handshake()
    await b.heartbeat(generation_id=1)


@scenario
async def while_preparing(stage: Stage) -> None:
    """In the join phase: 27 with the right generation, 22 with another, 25 for strangers."""
    [a] = await stable(stage, "a")
    b = await (await member(stage, "b")).handshake()
    b.joining()
    await until_rebalancing(a)
    for version in EVERY_VERSION:
        await a.heartbeat(version)
    await a.heartbeat(generation_id=2)
    await a.heartbeat(generation_id=0)
    await a.heartbeat(member_id="nobody")


@scenario
async def newcomer_while_preparing(stage: Stage) -> None:
    """A newcomer with a parked join heartbeats on another connection: 27 in its generation."""
    [a] = await stable(stage, "a")
    b, other = await (await member(stage, "b")).handshake(), await stage.client("b")
    b.joining()
    await until_rebalancing(a)
    b.client = other
    await b.heartbeat(generation_id=1)
    await b.heartbeat(generation_id=-1)
    await b.heartbeat(generation_id=0)


@scenario
async def while_completing(stage: Stage) -> None:
    """Between join and sync a heartbeat of the new generation gets 0, of the old one 22."""
    a, b = await member(stage, "a"), await member(stage, "b")
    await gather_round([a, b])
    await a.heartbeat()
    await b.heartbeat()
    await b.heartbeat(generation_id=1)


@scenario
async def instance_ids(stage: Stage) -> None:
    """A static member may leave out its instance id; a wrong one is fenced or unknown."""
    a, b = await static_group(stage, "a", "b")
    await a.heartbeat()
    await a.heartbeat(group_instance_id=None)
    await a.heartbeat(2)
    await a.heartbeat(group_instance_id="i-b")
    await a.heartbeat(group_instance_id="i-none")
    await a.heartbeat(member_id="", group_instance_id="i-a")
    await a.heartbeat(member_id="nobody", group_instance_id="i-b")
    await b.heartbeat()


@scenario
async def after_the_rebalance(stage: Stage) -> None:
    """The old generation is illegal once the next one began."""
    a, b = await stable(stage, "a", "b")
    await a.heartbeat(generation_id=1)
    await b.heartbeat(generation_id=1)
    await b.heartbeat(generation_id=2)
