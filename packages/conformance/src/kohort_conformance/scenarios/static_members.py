"""Static membership (KIP-345): instance ids, replacement, fencing, skipped assignment (KIP-814)."""

from __future__ import annotations

from kohort_conformance.members import (
    PlayedMember,
    gather_round,
    look,
    member,
    protocols,
    stable,
    static_group,
    subscription,
    sync_all,
    until_rebalancing,
)
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage


async def returning(stage: Stage, old: PlayedMember, client_id: str) -> PlayedMember:
    """The same instance again, with an empty member id, on a connection of its own."""
    return await member(
        stage, client_id, instance=old.instance, group=old.group, protocols=old.protocols
    )


@scenario
async def joins_without_a_handshake(stage: Stage) -> None:
    """A static member is let in at its first JoinGroup from version 5 on."""
    for version in range(5, 10):
        a = await member(stage, f"a{version}", instance="i", group=stage.group_named(f"v{version}"))
        response = await a.join(version)
        stage.note(
            "the member id starts with the instance id",
            str(response.get("member_id")).startswith("i-"),
        )
        await a.sync(3, assignments={a.id: b"x"})
        await look(a.client, a.group)


@scenario
async def empty_instance_id(stage: Stage) -> None:
    """The empty instance id is one like any other."""
    a = await member(stage, instance="")
    await a.join()
    await a.sync(assignments={a.id: b"x"})
    await look(a.client, stage.group)
    await a.heartbeat()


@scenario
async def restart_of_a_follower(stage: Stage) -> None:
    """A follower that comes back unchanged gets a new id in the same generation.

    Nobody is disturbed.
    """
    a, b = await static_group(stage, "a", "b")
    again = await returning(stage, b, "b2")
    await again.join()
    await a.heartbeat()
    await again.sync()
    await again.heartbeat()
    await look(a.client, stage.group)


@scenario
async def restart_of_a_follower_by_version(stage: Stage) -> None:
    """So in every version that knows instance ids."""
    _, b = await static_group(stage, "a", "b")
    for version in range(5, 10):
        b = await returning(stage, b, f"b{version}")
        await b.join(version)


@scenario
async def restart_of_the_leader(stage: Stage) -> None:
    """Since version 9 a leader that comes back gets the members, and skips the assignment."""
    a, b = await static_group(stage, "a", "b")
    again = await returning(stage, a, "a2")
    await again.join()
    await b.heartbeat()
    await again.sync()
    await look(b.client, stage.group)
    await again.heartbeat()


@scenario
async def restart_of_the_leader_before_version_9(stage: Stage) -> None:
    """Older leaders get the old leader id, so that they do not assign."""
    a, b = await static_group(stage, "a", "b")
    for version in range(5, 9):
        a = await returning(stage, a, f"a{version}")
        await a.join(version)
        await a.sync(3)
    await b.heartbeat()


@scenario
async def restarted_leader_rejoins(stage: Stage) -> None:
    """The replaced leader leads still: its next JoinGroup starts a rebalance."""
    a, b = await static_group(stage, "a", "b")
    again = await returning(stage, a, "a2")
    await again.join()
    joining = again.joining()
    await until_rebalancing(b)
    await b.join()
    await joining.response()


@scenario
async def old_id_is_fenced(stage: Stage) -> None:
    """The id from before the restart: 82 to everything that names the instance, 25 without."""
    _, b = await static_group(stage, "a", "b")
    await stage.create_topic()
    again = await returning(stage, b, "b2")
    await again.join()
    await b.heartbeat()
    await b.sync()
    await b.join()
    await b.commit(stage.topic, {0: 1})
    await b.leave()
    await b.heartbeat(group_instance_id=None)
    await b.sync(group_instance_id=None)
    await b.join(group_instance_id=None)
    await b.commit(stage.topic, {0: 1}, group_instance_id=None)
    await b.leave(4, members=[{"member_id": b.id, "group_instance_id": None}])
    await again.heartbeat()


@scenario
async def other_metadata_same_protocol(stage: Stage) -> None:
    """A restart with other metadata keeps the generation if the protocol stays chosen."""
    a, b = await static_group(stage, "a", "b")
    again = await returning(stage, b, "b2")
    again.protocols = protocols("range", metadata=subscription("t", "u"))
    await again.join()
    await a.heartbeat()
    await again.sync()
    await look(a.client, stage.group)


@scenario
async def chosen_protocol_changes(stage: Stage) -> None:
    """A restart after which another protocol would be chosen rebalances."""
    [a] = await static_group(stage, "a", protocols=protocols("x", "y"))
    again = await returning(stage, a, "a2")
    again.protocols = protocols("y", "x")
    await again.join()


@scenario
async def follower_changes_the_vote(stage: Stage) -> None:
    """So does a follower's restart that changes the vote; the others hear 27."""
    a, b = await static_group(stage, "a", "b", protocols=protocols("x", "y"))
    again = await returning(stage, b, "b2")
    again.protocols = protocols("y")
    joining = again.joining()
    await until_rebalancing(a)
    await a.join()
    await joining.response()


@scenario
async def restart_with_foreign_protocols(stage: Stage) -> None:
    """A restart that supports nothing in common is refused, and the old id stays good."""
    _, b = await static_group(stage, "a", "b")
    again = await returning(stage, b, "b2")
    again.protocols = protocols("other")
    await again.join()
    again.protocol_type = "connect"
    await again.join()
    await b.heartbeat()


@scenario
async def restart_while_completing(stage: Stage) -> None:
    """A restart between join and sync: the old id's parked SyncGroup gets 82, others 27."""
    a, b, c = [await member(stage, name, instance=f"i-{name}") for name in "abc"]
    await gather_round([a, b, c])
    syncing_b, syncing_c = b.syncing(), c.syncing()
    await stage.settle()
    again = await returning(stage, b, "b2")
    joining = again.joining()
    await syncing_b.response()
    await syncing_c.response()
    joining_c = c.joining()
    await until_rebalancing(a)
    await a.join()
    await joining_c.response()
    await joining.response()


@scenario
async def restart_while_preparing(stage: Stage) -> None:
    """In the join phase the restarted member's join counts for it.

    The old one's parked join gets 82.
    """
    a, b, c = await static_group(stage, "a", "b", "c")
    joining_b = b.joining(protocols=protocols("range", metadata=subscription("u")))
    await until_rebalancing(a)
    again = await returning(stage, b, "b2")
    joining_again = again.joining()
    await joining_b.response()
    joining_a = a.joining()
    await joining_a.still_parked()
    await c.join()
    await joining_a.response()
    await joining_again.response()


@scenario
async def restart_of_an_awaited_member(stage: Stage) -> None:
    """The last awaited member comes back with an empty id: the join phase ends."""
    a, b = await static_group(stage, "a", "b")
    joining = a.joining()
    await until_rebalancing(b)
    again = await returning(stage, b, "b2")
    await again.join()
    await joining.response()
    await b.heartbeat()


@scenario
async def rejoin_with_member_id(stage: Stage) -> None:
    """A static member that names its id is as any: only the leader's join rebalances."""
    a, b = await static_group(stage, "a", "b")
    await b.join()
    await a.heartbeat()
    joining = a.joining()
    await until_rebalancing(b)
    await b.join()
    await joining.response()


@scenario
async def instance_of_another(stage: Stage) -> None:
    """A member id with another's instance id is fenced; nobody is disturbed."""
    a, b = await static_group(stage, "a", "b")
    await a.join(group_instance_id="i-b")
    await a.sync(group_instance_id="i-b")
    await a.join(group_instance_id="i-none")
    await a.join(member_id="nobody")
    await b.heartbeat()


@scenario
async def dynamic_member_takes_an_instance_id(stage: Stage) -> None:
    """A dynamic member cannot become static by naming an instance id.

    With an empty id it is another member.
    """
    [a] = await stable(stage, "a")
    await a.join(group_instance_id="i")
    b = await member(stage, "b", instance="i")
    joining = b.joining()
    await until_rebalancing(a)
    await a.join()
    await joining.response()


@scenario
async def static_member_without_instance_id(stage: Stage) -> None:
    """A static member that rejoins by its id without the instance id stays who it is."""
    a, b = await static_group(stage, "a", "b")
    await b.join(group_instance_id=None)
    await a.heartbeat()
    await look(a.client, stage.group)


@scenario
async def mixed_group(stage: Stage) -> None:
    """Static and dynamic members share a group."""
    a = await member(stage, "a", instance="i-a")
    b = await member(stage, "b")
    await gather_round([a, b])
    await sync_all([a, b])
    await look(a.client, stage.group)
    await b.leave()
    await a.heartbeat()
    await a.join()


@scenario
async def leave_and_return(stage: Stage) -> None:
    """After a leave the instance id is free: the next holder is a new member, with a rebalance."""
    a, b = await static_group(stage, "a", "b")
    await b.leave()
    await until_rebalancing(a)
    await a.join()
    await sync_all([a])
    again = await returning(stage, b, "b2")
    joining = again.joining()
    await until_rebalancing(a)
    await a.join()
    await joining.response()


@scenario
async def instance_ids_are_per_group(stage: Stage) -> None:
    """The same instance id in another group is somebody else."""
    [a] = await static_group(stage, "a")
    b = await member(stage, "b", instance="i-a", group=stage.group_named("other"))
    await b.join()
    await a.heartbeat()


@scenario
async def pending_id_with_instance_id(stage: Stage) -> None:
    """A pending id was given to a dynamic member: naming an instance id with it is refused."""
    a = await (await member(stage)).handshake()
    await a.join(group_instance_id="i")


@scenario(waits=9)
async def gone_but_keeps_its_place(stage: Stage) -> None:
    """A static member that misses a rebalance keeps its place until its session ends.

    Then it is removed.
    """
    a = await member(stage, "a", instance="i-a", rebalance_ms=3_000)
    b = await member(stage, "b", instance="i-b", rebalance_ms=3_000, session_ms=6_000)
    await gather_round([a, b])
    await sync_all([a, b])
    await b.heartbeat()
    joining = a.joining()
    await joining.response()
    await look(a.client, stage.group)
    await sync_all([a])
    await until_rebalancing(a)
    await a.join()
    await look(a.client, stage.group)


@scenario(waits=5)
async def absent_leader_without_anybody(stage: Stage) -> None:
    """A join phase in which nobody rejoined goes on, and ends when one comes back."""
    a = await member(stage, "a", instance="i-a", rebalance_ms=3_000)
    b = await member(stage, "b", instance="i-b", rebalance_ms=3_000)
    c = await member(stage, "c")
    await gather_round([a, b])
    await sync_all([a, b])
    await c.handshake()
    await c.leave()
    await stage.settle(4)
    await look(a.client, stage.group)
    await a.heartbeat()
    joining = a.joining()
    await b.join()
    await joining.response()
