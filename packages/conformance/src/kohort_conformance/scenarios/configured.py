"""What depends on the server's own settings: group.max.size, the initial rebalance delay, limits.

These are played on a server of the profile "small": at most two members, an initial rebalance delay
of 1.5 s, sessions of 1 to 60 s, 10 characters of offset metadata.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kohort_conformance.members import (
    PlayedMember,
    committed,
    look,
    member,
    protocols,
    stable,
    static_group,
    subscription,
    sync_all,
    until_rebalancing,
    until_state,
)
from kohort_conformance.scenario import Play, scenario
from kohort_conformance.stage import Stage, how_long


def small(waits: float = 0.0) -> Callable[[Play], Play]:
    """A scenario for a server of the profile "small"."""
    return scenario(waits=waits, profile="small")


async def newcomer(stage: Stage, name: str, **values: Any) -> PlayedMember:
    """A member that has its id."""
    return await (await member(stage, name, **values)).handshake()


async def pair(stage: Stage, **values: Any) -> tuple[PlayedMember, PlayedMember]:
    """A full Stable group."""
    a, b = await stable(stage, "a", "b", **values)
    return a, b


# --- group.max.size


@small(waits=2)
async def full_stable_group(stage: Stage) -> None:
    """A newcomer to a full group is refused in every version, before it gets an id.

    Nobody is disturbed.
    """
    a, _ = await pair(stage)
    c = await member(stage, "c")
    for version in range(10):
        await c.join(version)
    await c.join(member_id="nobody")
    await a.heartbeat()
    await look(a.client, stage.group)


@small(waits=2)
async def full_group_of_old_members(stage: Stage) -> None:
    """Its own members may rejoin."""
    a, b = await pair(stage)
    await b.join()
    joining = a.joining()
    await until_rebalancing(b)
    await b.join()
    await joining.response()


@small(waits=2)
async def full_while_completing(stage: Stage) -> None:
    """Between join and sync a newcomer is refused too."""
    a, b = await pair(stage)
    joining = a.joining()
    await until_rebalancing(b)
    await b.join()
    await joining.response()
    c = await member(stage, "c")
    await c.join()
    await c.join(2)
    await a.sync(assignments={})


@small(waits=2)
async def full_and_static(stage: Stage) -> None:
    """A static newcomer is refused.

    So is a static restart in Stable, as its empty id counts as new.
    """
    a, b = await static_group(stage, "a", "b")
    c = await member(stage, "c", instance="i-c")
    await c.join()
    again = await member(stage, "again", instance="i-b")
    await again.join()
    await b.heartbeat()
    await a.heartbeat()


@small(waits=2)
async def handshake_in_the_join_phase(stage: Stage) -> None:
    """In the join phase of a full group a newcomer gets an id, awaited until it leaves."""
    a, b = await pair(stage)
    joining_a = a.joining()
    await until_rebalancing(b)
    c = await member(stage, "c")
    await c.join()
    joining_b = b.joining()
    await joining_b.still_parked()
    await c.leave()
    await joining_b.response()
    await joining_a.response()


@small(waits=8)
async def late_member_finds_no_room(stage: Stage) -> None:
    """In the join phase a newcomer takes the place of a member that is late."""
    a, b = await pair(stage, rebalance_ms=5_000)
    joining_a = a.joining()
    await until_rebalancing(b)
    c = await member(stage, "c", rebalance_ms=5_000)
    joining_c = c.joining(3)
    await stage.settle()
    began = time.monotonic()
    await b.join()
    await joining_a.response()
    stage.note("the join phase ended", how_long(time.monotonic() - began, 2.5, 7))
    await joining_c.response()
    await b.heartbeat()
    await look(a.client, stage.group)


@small(waits=2)
async def pending_ids_take_no_room(stage: Stage) -> None:
    """Ids that were given but not used do not fill a group."""
    a = await newcomer(stage, "a")
    lost = [await newcomer(stage, f"lost{number}") for number in range(3)]
    await a.join()
    await a.sync(assignments={a.id: b"x"})
    await lost[0].leave()
    await look(a.client, stage.group)


@small(waits=8)
async def pending_id_finds_no_room(stage: Stage) -> None:
    """An id given while there was room is refused when there is none."""
    [a] = await stable(stage, "a", rebalance_ms=5_000)
    b, c = (
        await newcomer(stage, "b", rebalance_ms=5_000),
        await newcomer(stage, "c", rebalance_ms=5_000),
    )
    joining_b = b.joining()
    await until_rebalancing(a)
    joining_a = a.joining()
    await stage.settle()
    began = time.monotonic()
    await c.join()
    await joining_a.response()
    stage.note("the join phase ended", how_long(time.monotonic() - began, 2.5, 7))
    await joining_b.response()


@small(waits=2)
async def room_after_a_leave(stage: Stage) -> None:
    """Who leaves makes room."""
    a, b = await pair(stage)
    c = await member(stage, "c")
    await c.join()
    await b.leave()
    await until_rebalancing(a)
    await a.join()
    await sync_all([a])
    await c.handshake()
    joining = c.joining()
    await until_rebalancing(a)
    await a.join()
    await joining.response()


@small(waits=3)
async def three_at_once(stage: Stage) -> None:
    """In the first round of a group only as many are let in as there is room."""
    a, b, c = [await newcomer(stage, name) for name in "abc"]
    joining_a = a.joining()
    await until_state(await stage.client("w"), stage.group, "PreparingRebalance", 1)
    joining_b = b.joining()
    await until_state(await stage.client("w"), stage.group, "PreparingRebalance", 2)
    await c.join()
    await joining_a.response()
    await joining_b.response()


# --- group.initial.rebalance.delay.ms


@small(waits=2)
async def first_join_is_delayed(stage: Stage) -> None:
    """The first round of a group waits for more members."""
    a = await newcomer(stage, "a")
    began = time.monotonic()
    await a.join()
    stage.note("the first round ended", how_long(time.monotonic() - began, 1.3, 2.9))


@small(waits=4)
async def second_member_extends_the_delay(stage: Stage) -> None:
    """Who joins during the delay is in the first generation, and the delay begins once more."""
    a, b = await newcomer(stage, "a"), await newcomer(stage, "b")
    watcher = await stage.client("w")
    began = time.monotonic()
    joining_a = a.joining()
    await until_state(watcher, stage.group, "PreparingRebalance", 1)
    await look(watcher, stage.group)
    joining_b = b.joining()
    await joining_a.response()
    await joining_b.response()
    stage.note("the first round ended", how_long(time.monotonic() - began, 2.7, 4.5))


@small(waits=3)
async def delay_is_not_bounded_by_the_rebalance_timeout(stage: Stage) -> None:
    """A rebalance timeout shorter than the delay does not bound it."""
    a = await newcomer(stage, "a", rebalance_ms=500)
    began = time.monotonic()
    await a.join()
    stage.note("the first round ended", how_long(time.monotonic() - began, 1.3, 2.9))


@small(waits=3)
async def pending_ids_do_not_extend_the_delay(stage: Stage) -> None:
    """Ids that were given but not used do not hold up the first round."""
    a = await newcomer(stage, "a")
    await newcomer(stage, "lost")
    began = time.monotonic()
    await a.join()
    stage.note("the first round ended", how_long(time.monotonic() - began, 1.3, 2.9))


@small(waits=4)
async def later_rebalances_are_not_delayed(stage: Stage) -> None:
    """Only a group that was Empty waits."""
    [a] = await stable(stage, "a")
    b = await newcomer(stage, "b")
    joining = b.joining()
    await until_rebalancing(a)
    began = time.monotonic()
    await a.join()
    await joining.response()
    stage.note("at once", time.monotonic() - began < 1.2)


@small(waits=4)
async def empty_again_is_delayed_again(stage: Stage) -> None:
    """A group that became Empty waits again."""
    [a] = await stable(stage, "a")
    await a.leave()
    b = await newcomer(stage, "b")
    began = time.monotonic()
    await b.join()
    stage.note("the round ended", how_long(time.monotonic() - began, 1.3, 2.9))


@small(waits=4)
async def last_one_leaves_during_the_delay(stage: Stage) -> None:
    """When all leave during the delay the group goes on preparing.

    The next one is in its first generation.
    """
    a = await newcomer(stage, "a")
    joining = a.joining()
    watcher = await stage.client("w")
    await until_state(watcher, stage.group, "PreparingRebalance", 1)
    await watcher.ask("LeaveGroup", 4, group_id=stage.group, members=[{"member_id": a.id}])
    await joining.response()
    await look(watcher, stage.group)
    b = await newcomer(stage, "b")
    await b.join()


@small(waits=4)
async def nobody_is_left_when_the_delay_ends(stage: Stage) -> None:
    """When nobody is left at the end of the delay the group is Empty, one generation on."""
    a = await newcomer(stage, "a")
    joining = a.joining()
    watcher = await stage.client("w")
    await until_state(watcher, stage.group, "PreparingRebalance", 1)
    await watcher.ask("LeaveGroup", 4, group_id=stage.group, members=[{"member_id": a.id}])
    await joining.response()
    await until_state(watcher, stage.group, "Empty", 0)
    b = await newcomer(stage, "b")
    await b.join()


@small(waits=4)
async def rejoin_during_the_delay(stage: Stage) -> None:
    """A member that joins twice during the delay counts once, with its later protocols."""
    a = await newcomer(stage, "a")
    a.joining()
    watcher = await stage.client("w")
    await until_state(watcher, stage.group, "PreparingRebalance", 1)
    a.client = await stage.client("a")
    a.protocols = protocols("sticky", metadata=subscription("u"))
    await a.join(protocols=protocols("range", "sticky", metadata=subscription("u")))


@small(waits=4)
async def requests_during_the_delay(stage: Stage) -> None:
    """Responses to a member, a stranger and an outsider during the delay."""
    topic = await stage.create_topic()
    a = await newcomer(stage, "a")
    joining = a.joining()
    b = await member(stage, "b")
    await until_state(b.client, stage.group, "PreparingRebalance", 1)
    await b.heartbeat(member_id=a.id, generation_id=0)
    await b.heartbeat(member_id="nobody", generation_id=0)
    await b.sync(member_id=a.id, generation_id=0, protocol_type="consumer", protocol_name="range")
    await b.commit(topic, {0: 1})
    await b.commit(topic, {0: 1}, generation=0, member_id=a.id)
    await b.client.ask("DeleteGroups", 2, groups_names=[stage.group])
    await joining.response()


@small(waits=4)
async def static_members_during_the_delay(stage: Stage) -> None:
    """A static member that restarts during the delay takes its own place."""
    a = await member(stage, "a", instance="i")
    joining = a.joining()
    watcher = await stage.client("w")
    await until_state(watcher, stage.group, "PreparingRebalance", 1)
    again = await member(stage, "again", instance="i")
    joining_again = again.joining()
    await joining.response()
    await joining_again.response()
    await look(watcher, stage.group)


@small(waits=6)
async def connection_lost_during_the_delay(stage: Stage) -> None:
    """A member whose connection closes during the delay is in the first generation all the same."""
    a, b = await newcomer(stage, "a"), await newcomer(stage, "b")
    a.joining()
    watcher = await stage.client("w")
    await until_state(watcher, stage.group, "PreparingRebalance", 1)
    await a.client.close()
    await b.join()
    await look(watcher, stage.group)


# --- limits


@small()
async def sessions_out_of_range(stage: Stage) -> None:
    """group.min and group.max.session.timeout.ms bound the session."""
    a = await member(stage, "a")
    for milliseconds in (999, 60_001, 6_000, 1_000, 60_000):
        a.id = ""
        await a.join(session_timeout=milliseconds)


@small(waits=4)
async def short_session(stage: Stage) -> None:
    """A session of a second ends after about one."""
    await stable(stage, "a", session_ms=1_000)
    watcher = await stage.client("w")
    seconds = await until_state(watcher, stage.group, "Empty")
    stage.note("the session ended", how_long(seconds, 0.5, 2.5))


@small()
async def metadata_of_offsets(stage: Stage) -> None:
    """offset.metadata.max.bytes bounds the metadata of a commit, in characters."""
    topic = await stage.create_topic()
    a = await member(stage, "a")
    for text in ("0123456789", "0123456789a", "\u4e2d" * 10, "\U0001f600" * 6):
        await a.commit("", {}, topics=[committed(topic, {0: 1}, committed_metadata=text)])
