"""SyncGroup: who waits, who is turned away, and what reaches whom."""

from __future__ import annotations

from kohort_conformance.members import gather_round, look, member, stable, until_rebalancing
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage

EVERY_VERSION = range(6)


@scenario
async def empty_group_id(stage: Stage) -> None:
    """An empty group id is refused in every version."""
    a = await member(stage, group="")
    for version in EVERY_VERSION:
        await a.sync(version, protocol_type="consumer", protocol_name="range")


@scenario
async def unknown_group(stage: Stage) -> None:
    """A group that does not exist: unknown member, in every version."""
    a = await member(stage)
    for version in EVERY_VERSION:
        await a.sync(
            version,
            member_id="nobody",
            generation_id=1,
            protocol_type="consumer",
            protocol_name="range",
        )
    await look(a.client, stage.group)


@scenario
async def empty_group(stage: Stage) -> None:
    """A group without members knows no member."""
    [a] = await stable(stage, "a")
    await a.leave()
    await a.sync()
    await a.sync(generation_id=2)
    await a.sync(generation_id=0, member_id="")


@scenario
async def pending_member(stage: Stage) -> None:
    """An id that was given but has not joined is no member yet."""
    a = await (await member(stage)).handshake()
    await a.sync(generation_id=0, protocol_type="consumer", protocol_name="range")


@scenario
async def missing_protocol(stage: Stage) -> None:
    """Version 5 must name type and protocol, both; that is looked at before anything else."""
    [a] = await stable(stage, "a")
    await a.sync(protocol_type=None)
    await a.sync(protocol_name=None)
    await a.sync(protocol_type=None, protocol_name=None)
    await a.sync(protocol_type=None, member_id="nobody", generation_id=9)
    await a.sync(group_id=stage.group_named("none"), protocol_name=None)
    await a.sync(group_id="", protocol_name=None)


@scenario
async def order_of_checks(stage: Stage) -> None:
    """Member first, then generation, then protocol."""
    [a] = await stable(stage, "a")
    await a.sync(member_id="nobody", generation_id=9, protocol_name="other")
    await a.sync(generation_id=9, protocol_name="other")
    await a.sync(protocol_name="other")
    await a.sync(protocol_type="other")
    await a.sync(group_instance_id="i")
    await a.heartbeat()


@scenario
async def wrong_protocol_before_the_leader(stage: Stage) -> None:
    """A SyncGroup with another protocol or type is refused, and the leader may try again."""
    a = await member(stage)
    await gather_round([a])
    await a.sync(protocol_name="other", assignments={a.id: b"x"})
    await a.sync(protocol_type="other", assignments={a.id: b"x"})
    await look(a.client, stage.group)
    await a.sync(assignments={a.id: b"x"})


@scenario
async def old_versions_name_no_protocol(stage: Stage) -> None:
    """Versions 0 to 4 carry no protocol and are served."""
    a = await member(stage)
    for version in range(5):
        await gather_round([a])
        await a.sync(version, assignments={a.id: b"v%d" % version})


@scenario
async def wrong_generation(stage: Stage) -> None:
    """A generation below or above the group's is illegal."""
    a, b = await stable(stage, "a", "b")
    for generation in (1, 3, 0, -1):
        await b.sync(generation_id=generation)
    await a.heartbeat()


@scenario
async def follower_waits_for_the_leader(stage: Stage) -> None:
    """A follower's SyncGroup is parked until the leader's brings the assignments."""
    a, b = await member(stage, "a"), await member(stage, "b")
    await gather_round([a, b])
    syncing = b.syncing()
    await syncing.still_parked()
    await look(a.client, stage.group)
    await a.sync(assignments={a.id: b"one", b.id: b"two"})
    await syncing.response()
    await look(a.client, stage.group)


@scenario
async def leader_first(stage: Stage) -> None:
    """After the leader, everybody gets the response at once."""
    a, b = await member(stage, "a"), await member(stage, "b")
    await gather_round([a, b])
    await a.sync(assignments={a.id: b"one", b.id: b"two"})
    await b.sync()
    await b.sync(0)


@scenario
async def forgotten_member(stage: Stage) -> None:
    """A member that the leader's list lacks gets no bytes; the leader itself too."""
    a, b = await member(stage, "a"), await member(stage, "b")
    await gather_round([a, b])
    syncing = b.syncing()
    await a.sync(assignments={})
    await syncing.response()
    await look(a.client, stage.group)


@scenario
async def unknown_and_duplicate_assignments(stage: Stage) -> None:
    """Assignments for strangers are ignored; the last one of a member counts."""
    a = await member(stage)
    await gather_round([a])
    listed = [("nobody", b"x"), (a.id, b"first"), (a.id, b"last")]
    await a.client.ask(
        "SyncGroup",
        4,
        group_id=stage.group,
        generation_id=a.generation,
        member_id=a.id,
        assignments=[{"member_id": one, "assignment": data} for one, data in listed],
    )
    await look(a.client, stage.group)


@scenario
async def list_of_a_follower_is_ignored(stage: Stage) -> None:
    """Assignments that a follower sends count for nothing."""
    a, b = await member(stage, "a"), await member(stage, "b")
    await gather_round([a, b])
    syncing = b.syncing(assignments={a.id: b"evil", b.id: b"evil"})
    await syncing.still_parked()
    await a.sync(assignments={a.id: b"one", b.id: b"two"})
    await syncing.response()


@scenario
async def again_in_stable(stage: Stage) -> None:
    """In Stable everybody gets the stored assignment, whatever list is sent."""
    a, b = await stable(stage, "a", "b")
    await b.sync()
    await a.sync(assignments={a.id: b"other", b.id: b"other"})
    await a.sync(3)
    await b.sync()


@scenario
async def while_preparing(stage: Stage) -> None:
    """In the join phase a SyncGroup of the running generation gets 27, of another 22."""
    [a] = await stable(stage, "a")
    b = await (await member(stage, "b")).handshake()
    b.joining()
    await until_rebalancing(a)
    await a.sync()
    await a.sync(2)
    await a.sync(generation_id=2)
    await a.sync(member_id="nobody")
    await a.sync(protocol_name="other")


@scenario
async def parked_and_a_newcomer_comes(stage: Stage) -> None:
    """A newcomer between join and sync: the parked SyncGroup gets 27."""
    a, b = await member(stage, "a"), await member(stage, "b")
    await gather_round([a, b])
    syncing = b.syncing()
    await stage.settle()
    c = await (await member(stage, "c")).handshake()
    joining = c.joining()
    await syncing.response()
    rejoined = b.joining()
    await a.join()
    await rejoined.response()
    await joining.response()


@scenario
async def parked_and_the_leader_leaves(stage: Stage) -> None:
    """The leader leaves before it synced: parked SyncGroups get 27, and another one leads."""
    a, b = await member(stage, "a"), await member(stage, "b")
    await gather_round([a, b])
    syncing = b.syncing()
    await stage.settle()
    await a.leave()
    await syncing.response()
    await b.join()
    await b.sync(assignments={b.id: b"all"})


@scenario
async def latest_parked_sync_counts(stage: Stage) -> None:
    """Of two parked SyncGroups of one member the later one gets the response."""
    a, b = await member(stage, "a"), await member(stage, "b")
    await gather_round([a, b])
    b.syncing()
    await stage.settle()
    b.client = await stage.client("b")
    second = b.syncing(3)
    await stage.settle()
    await a.sync(assignments={b.id: b"two"})
    await second.response()


@scenario
async def parked_sync_survives_its_connection(stage: Stage) -> None:
    """A member whose connection closed while its SyncGroup was parked may sync again."""
    a, b = await member(stage, "a"), await member(stage, "b")
    await gather_round([a, b])
    b.syncing()
    await stage.settle()
    await b.client.close()
    await a.sync(assignments={a.id: b"one", b.id: b"two"})
    b.client = await stage.client("b")
    await b.sync()


@scenario
async def leader_syncs_twice_at_once(stage: Stage) -> None:
    """The second of a leader's two pipelined SyncGroups gets what the first one stored."""
    a = await member(stage)
    await gather_round([a])
    first, second = a.syncing(assignments={a.id: b"one"}), a.syncing(assignments={a.id: b"two"})
    await first.response()
    await second.response()


@scenario
async def large_assignments(stage: Stage) -> None:
    """Assignments of a hundred kilobytes are stored and handed out."""
    [a] = await stable(stage, "a")
    await a.join()
    await a.sync(assignments={a.id: b"x" * 100_000})
    await a.heartbeat()
