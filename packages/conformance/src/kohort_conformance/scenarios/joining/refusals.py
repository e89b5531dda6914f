"""Session timeouts, protocol types and protocols that are turned away, and with which code."""

from __future__ import annotations

from kohort_conformance.members import (
    gather_round,
    look,
    member,
    protocols,
    stable,
    until_rebalancing,
)
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage

EVERY_VERSION = range(10)


@scenario
async def empty_group_id(stage: Stage) -> None:
    """An empty group id is refused in every version."""
    a = await member(stage, group="")
    for version in EVERY_VERSION:
        await a.join(version)


@scenario
async def session_timeout_out_of_range(stage: Stage) -> None:
    """A session timeout outside group.min/max.session.timeout.ms is refused, and makes no group."""
    a = await member(stage)
    for milliseconds in (5_999, 1_800_001, 0, -1):
        await a.join(session_timeout=milliseconds)
    await a.join(3, session_timeout=1)
    await look(a.client, stage.group)


@scenario
async def session_timeout_at_the_limits(stage: Stage) -> None:
    """The limits themselves are accepted."""
    a = await member(stage, "a", group=stage.group_named("low"))
    await a.join(3, session_timeout=6_000)
    b = await member(stage, "b", group=stage.group_named("high"))
    await b.join(3, session_timeout=1_800_000)


@scenario
async def bad_session_before_unknown_member(stage: Stage) -> None:
    """The session timeout is checked before the member id."""
    a = await member(stage)
    await a.join(member_id="nobody", session_timeout=1)


@scenario
async def no_protocol_type(stage: Stage) -> None:
    """An empty protocol type is refused by a new group in every version."""
    a = await member(stage, protocol_type="")
    for version in EVERY_VERSION:
        await a.join(version)
    await look(a.client, stage.group)


@scenario
async def no_protocols(stage: Stage) -> None:
    """An empty list of protocols is refused by a new group in every version."""
    a = await member(stage, protocols=[])
    for version in EVERY_VERSION:
        await a.join(version)
    await look(a.client, stage.group)


@scenario
async def no_protocols_in_stable_group(stage: Stage) -> None:
    """An empty list or type is refused by a live group too, also for its own member."""
    [a] = await stable(stage, "a")
    b = await member(stage, "b")
    await b.join(protocols=[])
    await b.join(protocol_type="")
    await a.join(protocols=[])
    await a.heartbeat()


@scenario
async def another_protocol_type(stage: Stage) -> None:
    """A newcomer of another protocol type is refused, before its member id is looked at."""
    [a] = await stable(stage, "a")
    b = await member(stage, "b", protocol_type="connect")
    await b.join()
    await b.join(2)
    await b.join(member_id="nobody")
    await a.join(protocol_type="connect")
    await a.heartbeat()


@scenario
async def no_protocol_in_common(stage: Stage) -> None:
    """A newcomer without a common protocol is refused before its member id is looked at."""
    [a] = await stable(stage, "a")
    b = await member(stage, "b", protocols=protocols("other"))
    await b.join()
    await b.join(3)
    await b.join(member_id="nobody")
    await a.heartbeat()


@scenario
async def inconsistent_with_instance_id(stage: Stage) -> None:
    """A static newcomer with foreign protocols is refused with the same code."""
    [a] = await stable(stage, "a")
    b = await member(stage, "b", instance="i", protocols=protocols("other"))
    await b.join()
    await a.heartbeat()


@scenario
async def refused_while_preparing(stage: Stage) -> None:
    """Type, protocols and member id are checked in the join phase as well."""
    [a] = await stable(stage, "a")
    b = await (await member(stage, "b")).handshake()
    joining = b.joining()
    await until_rebalancing(a)
    c = await member(stage, "c")
    await c.join(protocol_type="connect")
    await c.join(protocols=protocols("other"))
    await c.join(member_id="nobody")
    await a.join()
    await joining.response()


@scenario
async def refused_while_completing(stage: Stage) -> None:
    """Type, protocols and member id are checked between join and sync as well.

    Nobody is disturbed.
    """
    a = await member(stage)
    await gather_round([a])
    c = await member(stage, "c")
    await c.join(protocol_type="connect")
    await c.join(protocols=protocols("other"))
    await c.join(member_id="nobody")
    await a.sync(assignments={a.id: b"mine"})
