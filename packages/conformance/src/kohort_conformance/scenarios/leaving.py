"""LeaveGroup: one member or many, dynamic, static and pending, and what becomes of the group."""

from __future__ import annotations

from typing import Any

from kohort_conformance.members import (
    gather_round,
    look,
    member,
    stable,
    static_group,
    subscription,
    until_rebalancing,
    until_state,
)
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage

EVERY_VERSION = range(6)


def named(*members: str | tuple[str, str | None]) -> list[dict[str, Any]]:
    """Entries of a LeaveGroup v3+: a member id, or a member id and an instance id."""
    pairs = [one if isinstance(one, tuple) else (one, None) for one in members]
    return [
        {"member_id": member_id, "group_instance_id": instance} for member_id, instance in pairs
    ]


@scenario
async def empty_group_id(stage: Stage) -> None:
    """An empty group id is refused in every version."""
    a = await member(stage, group="")
    for version in EVERY_VERSION:
        await a.leave(version, member_id="nobody", members=named("nobody"))


@scenario
async def unknown_group(stage: Stage) -> None:
    """A group that does not exist: 25, in its place by version; no group is made."""
    a = await member(stage)
    for version in EVERY_VERSION:
        await a.leave(version, member_id="nobody", members=named("nobody", ("", "i"), ("x", "i")))
    await look(a.client, stage.group)


@scenario
async def nobody_at_all(stage: Stage) -> None:
    """An empty list of members is accepted."""
    [a] = await stable(stage, "a")
    await a.leave(members=[])
    await a.leave(3, group_id=stage.group_named("none"), members=[])
    await a.heartbeat()


@scenario
async def sole_member_in_every_version(stage: Stage) -> None:
    """The last member's leave empties the group and moves its generation on."""
    for version in EVERY_VERSION:
        [a] = await stable(stage, f"a{version}", group=stage.group_named(f"v{version}"))
        await a.leave(version)
        await a.leave(version)
        await look(a.client, a.group)
        b = await (await member(stage, "b", group=a.group)).handshake()
        await b.join()


@scenario
async def unknown_member(stage: Stage) -> None:
    """Strangers get 25 one by one; the group is not disturbed."""
    [a] = await stable(stage, "a")
    for version in EVERY_VERSION:
        await a.leave(
            version, member_id="nobody", members=named("nobody", "", ("", "i"), ("nobody", "i"))
        )
    await a.heartbeat()


@scenario
async def follower_leaves(stage: Stage) -> None:
    """The others learn of the rebalance; the leader stays the leader."""
    a, b = await stable(stage, "a", "b")
    await b.leave()
    await a.heartbeat()
    await look(a.client, stage.group)
    await a.join()
    await b.heartbeat()


@scenario
async def leader_leaves(stage: Stage) -> None:
    """The remaining member leads the next generation."""
    a, b = await stable(stage, "a", "b")
    await a.leave()
    await b.heartbeat()
    await b.join()


@scenario
async def several_at_once(stage: Stage) -> None:
    """Each of a list of leavers has a result, in order; one rebalance serves all."""
    a, b, c = await stable(stage, "a", "b", "c")
    await a.leave(members=named(b.id, "nobody", c.id))
    await a.heartbeat()
    await a.join()
    await look(a.client, stage.group)


@scenario
async def same_member_twice(stage: Stage) -> None:
    """A member named twice leaves once: the second entry is unknown."""
    a, b = await stable(stage, "a", "b")
    await a.leave(members=named(b.id, b.id))
    await a.heartbeat()


@scenario
async def everybody_at_once(stage: Stage) -> None:
    """When all leave in one request the group is Empty and its generation moved once."""
    a, b = await stable(stage, "a", "b")
    await a.leave(members=named(a.id, b.id))
    await look(a.client, stage.group)
    c = await (await member(stage, "c")).handshake()
    await c.join()


@scenario
async def pending_id(stage: Stage) -> None:
    """A pending id can leave; it is unknown from then on."""
    a = await (await member(stage)).handshake()
    await a.leave()
    await a.leave()
    await a.join()
    await look(a.client, stage.group)


@scenario
async def pending_id_before_version_3(stage: Stage) -> None:
    """So it can by the old request."""
    a = await (await member(stage)).handshake()
    await a.leave(1)
    await a.join()


@scenario
async def pending_id_of_a_stable_group(stage: Stage) -> None:
    """A pending id that leaves a Stable group starts a rebalance."""
    [a] = await stable(stage, "a")
    b = await (await member(stage, "b")).handshake()
    await a.heartbeat()
    await b.leave()
    await a.heartbeat()
    await a.join()


@scenario
async def awaited_pending_id(stage: Stage) -> None:
    """The join phase that waits for a pending id ends when that leaves."""
    [a] = await stable(stage, "a")
    b, c = (
        await (await member(stage, "b")).handshake(),
        await (await member(stage, "c")).handshake(),
    )
    joining_b = b.joining()
    await until_rebalancing(a)
    joining_a = a.joining()
    await joining_a.still_parked()
    await c.leave()
    await joining_a.response()
    await joining_b.response()


@scenario
async def awaited_member(stage: Stage) -> None:
    """The join phase that waits for a member ends when that leaves."""
    a, b, c = await stable(stage, "a", "b", "c")
    await c.leave()
    joining = a.joining()
    await joining.still_parked()
    await b.leave()
    await joining.response()


@scenario
async def parked_join(stage: Stage) -> None:
    """A parked JoinGroup gets 25 when its member leaves."""
    a, b = await stable(stage, "a", "b")
    b.protocols = [{"name": "range", "metadata": subscription("u")}]
    joining = b.joining()
    await until_rebalancing(a)
    await a.leave(members=named(b.id))
    await joining.response()
    await a.heartbeat()
    await a.join()


@scenario
async def sole_member_while_completing(stage: Stage) -> None:
    """A sole member that leaves between join and sync leaves the next generation Empty."""
    a = await member(stage)
    await gather_round([a])
    await a.leave()
    await look(a.client, stage.group)
    await a.sync()
    b = await (await member(stage, "b")).handshake()
    await b.join()


@scenario
async def follower_while_completing(stage: Stage) -> None:
    """A follower that leaves between join and sync: the leader's SyncGroup gets 27."""
    a, b = await member(stage, "a"), await member(stage, "b")
    await gather_round([a, b])
    await b.leave()
    await a.heartbeat()
    await a.sync(assignments={a.id: b"one"})
    await a.join()


@scenario
async def sole_member_while_preparing(stage: Stage) -> None:
    """When the last awaited member leaves too, the group is Empty."""
    a, b = await stable(stage, "a", "b")
    await b.leave()
    await until_rebalancing(a)
    await a.leave()
    await look(a.client, stage.group)
    c = await (await member(stage, "c")).handshake()
    await c.join()


@scenario
async def static_member_by_instance(stage: Stage) -> None:
    """An administrator removes a static member by its instance id alone.

    The response echoes the empty member id.
    """
    a, b = await static_group(stage, "a", "b")
    await a.leave(members=named(("", "i-b")))
    await a.heartbeat()
    await b.heartbeat()
    await b.heartbeat(group_instance_id=None)
    await a.join()


@scenario
async def static_member_by_both(stage: Stage) -> None:
    """Member id and instance id must belong together: otherwise fenced or unknown."""
    a, b = await static_group(stage, "a", "b")
    await a.leave(members=named((b.id, "i-a"), ("nobody", "i-b"), (b.id, "i-none")))
    await a.heartbeat()
    await a.leave(members=named((b.id, "i-b")))
    await a.heartbeat()


@scenario
async def static_member_by_member_id(stage: Stage) -> None:
    """A static member's member id alone is enough; its instance id is free then."""
    a, b = await static_group(stage, "a", "b")
    await a.leave(2, member_id=b.id)
    await a.heartbeat()
    again = await member(stage, "again", instance="i-b")
    joining = again.joining()
    await stage.settle()
    await a.join()
    await joining.response()


@scenario
async def mixed_list(stage: Stage) -> None:
    """Good and bad entries of one list, each with its own code."""
    a, _ = await static_group(stage, "a", "b")
    c = await (await member(stage, "c")).handshake()
    entries = named(("", "i-b"), ("", ""), ("nobody", None), c.id, (a.id, "i-b"), ("", "i-b"))
    await a.leave(members=entries)
    await a.heartbeat()


@scenario
async def reason_is_taken(stage: Stage) -> None:
    """A reason (version 5, KIP-800), also null or long, changes nothing."""
    a, b, c = await stable(stage, "a", "b", "c")
    listed = named(b.id, c.id, a.id)
    for one, reason in zip(listed, ("because", None, "x" * 1_000), strict=True):
        await a.leave(members=[{**one, "reason": reason}])


@scenario
async def newcomer_whose_join_is_parked(stage: Stage) -> None:
    """A newcomer that leaves before its first generation gets 25 for its JoinGroup."""
    [a] = await stable(stage, "a")
    b = await (await member(stage, "b")).handshake()
    joining = b.joining()
    await until_rebalancing(a)
    await a.leave(members=named(b.id))
    await joining.response()
    await until_state(a.client, stage.group, "PreparingRebalance", 1)
    await a.join()
