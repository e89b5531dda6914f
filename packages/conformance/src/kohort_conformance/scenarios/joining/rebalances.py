"""Which JoinGroups start a rebalance, and who is in the next generation."""

from __future__ import annotations

from kohort_conformance.members import (
    gather_round,
    look,
    member,
    protocols,
    rejoin,
    stable,
    subscription,
    until_rebalancing,
    until_state,
)
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage


@scenario
async def second_member(stage: Stage) -> None:
    """A second member starts a rebalance; the first keeps the lead and learns of both."""
    [a] = await stable(stage, "a")
    b = await (await member(stage, "b")).handshake()
    joining = b.joining()
    await until_rebalancing(a)
    await a.join()
    await joining.response()
    await look(a.client, stage.group)
    syncing = b.syncing()
    await a.sync(assignments={a.id: b"one", b.id: b"two"})
    await syncing.response()
    await look(a.client, stage.group)


@scenario
async def members_of_every_version(stage: Stage) -> None:
    """Members of versions 0 to 3 join without a handshake and share a group with one of 9."""
    a = await member(stage, "a")
    await gather_round([a])
    for version in range(4):
        b = await member(stage, f"b{version}")
        joining = b.joining(version)
        await until_rebalancing(a)
        await a.join()
        await joining.response()
        await b.leave(1)
        await until_rebalancing(a)
        await a.join()


@scenario
async def leader_rejoins_unchanged(stage: Stage) -> None:
    """The leader's JoinGroup starts a rebalance even without changes: it has new partitions."""
    a, b = await stable(stage, "a", "b")
    joining = a.joining()
    await until_rebalancing(b)
    await joining.still_parked()
    await b.join()
    await joining.response()


@scenario
async def follower_rejoins_unchanged(stage: Stage) -> None:
    """A follower that joins with what the group knows learns the current generation.

    Nobody is disturbed.
    """
    a, b = await stable(stage, "a", "b")
    await b.join()
    await b.join(5)
    await b.sync()
    await a.heartbeat()


@scenario
async def follower_rejoins_changed(stage: Stage) -> None:
    """A follower with other metadata starts a rebalance."""
    a, b = await stable(stage, "a", "b")
    b.protocols = protocols("range", metadata=subscription("t", "u"))
    joining = b.joining()
    await until_rebalancing(a)
    await a.join()
    await joining.response()


@scenario
async def follower_rejoins_with_more_protocols(stage: Stage) -> None:
    """One more protocol is a change, though the chosen one stays."""
    a, b = await stable(stage, "a", "b")
    b.protocols = [*b.protocols, *protocols("sticky")]
    joining = b.joining()
    await until_rebalancing(a)
    await a.join()
    await joining.response()


@scenario
async def follower_rejoins_with_another_timeout(stage: Stage) -> None:
    """Timeouts alone are no change: no rebalance."""
    a, b = await stable(stage, "a", "b")
    await b.join(session_timeout=20_000, rebalance_timeout=20_000)
    await a.heartbeat()


@scenario
async def sole_leader_rejoins(stage: Stage) -> None:
    """A sole member that rejoins gets its next generation at once."""
    [a] = await stable(stage, "a")
    await a.join()
    await a.sync(assignments={a.id: b"again"})


@scenario
async def lost_answer_while_completing(stage: Stage) -> None:
    """Between join and sync a repeated JoinGroup gets the same response, the leader its list."""
    a, b = await member(stage, "a"), await member(stage, "b")
    await gather_round([a, b])
    await a.join()
    await b.join()
    await b.join(2)
    syncing = b.syncing()
    await a.sync(assignments={a.id: b"one", b.id: b"two"})
    await syncing.response()


@scenario
async def changed_while_completing(stage: Stage) -> None:
    """Between join and sync other metadata starts over: parked SyncGroups get 27."""
    a, b = await member(stage, "a"), await member(stage, "b")
    await gather_round([a, b])
    syncing = b.syncing()
    await stage.settle()
    a.protocols = protocols("range", metadata=subscription("u"))
    joining = a.joining()
    await syncing.response()
    await b.join()
    await joining.response()


@scenario
async def newcomer_while_completing(stage: Stage) -> None:
    """A newcomer between join and sync starts over."""
    a, b = await member(stage, "a"), await (await member(stage, "b")).handshake()
    await gather_round([a])
    joining = b.joining()
    await until_rebalancing(a)
    await a.sync(assignments={a.id: b"late"})
    await a.join()
    await joining.response()


@scenario
async def latest_parked_join_counts(stage: Stage) -> None:
    """Of two parked JoinGroups of one member the later one gets the response."""
    [a] = await stable(stage, "a")
    b, again = await member(stage, "b"), await stage.client("b")
    await b.handshake()
    b.joining()
    await until_rebalancing(a)
    b.client = again
    b.protocols = protocols("range", metadata=subscription("u"))
    second = b.joining()
    await stage.settle()
    await a.join()
    await second.response()


@scenario
async def parked_join_survives_its_connection(stage: Stage) -> None:
    """A member whose connection closes while its join is parked is in the next generation."""
    [a] = await stable(stage, "a")
    b = await (await member(stage, "b")).handshake()
    b.joining()
    await until_rebalancing(a)
    await b.client.close()
    await stage.settle()
    await a.join()
    await look(a.client, stage.group)


@scenario
async def generations_go_on(stage: Stage) -> None:
    """The generation counts on when a group becomes Empty and lives again."""
    [a] = await stable(stage, "a")
    await a.leave()
    b = await (await member(stage, "b")).handshake()
    await b.join()
    await b.leave()
    c = await (await member(stage, "c")).handshake()
    await c.join()


@scenario
async def third_member_while_preparing(stage: Stage) -> None:
    """Everybody who joins during the join phase is in the same next generation."""
    [a] = await stable(stage, "a")
    b, c = (
        await (await member(stage, "b")).handshake(),
        await (await member(stage, "c")).handshake(),
    )
    joining_b = b.joining()
    await until_rebalancing(a)
    joining_c = c.joining()
    await until_state(a.client, stage.group, "PreparingRebalance", 3)
    await look(a.client, stage.group)
    await a.join()
    await joining_b.response()
    await joining_c.response()


@scenario
async def rejoin_after_everyone(stage: Stage) -> None:
    """A member may join again right after its response, between join and sync."""
    a, b, c = [await member(stage, name) for name in "abc"]
    await gather_round([a, b, c])
    await c.join()
    c.protocols = protocols("range", metadata=subscription("new"))
    joining = c.joining()
    await until_rebalancing(b)
    await rejoin([a, b])
    await joining.response()
