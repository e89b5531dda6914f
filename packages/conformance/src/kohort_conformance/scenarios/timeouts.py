"""Sessions, rebalance timeouts, pending ids and the pending-sync timer: removals and their news.

Six seconds is the shortest session that Kafka takes, so these scenarios wait; they all wait at the
same time. What they record is only what holds with a second to spare on a busy machine.
"""

from __future__ import annotations

import asyncio
import time

from kohort_conformance.members import (
    gather_round,
    look,
    member,
    protocols,
    stable,
    subscription,
    sync_all,
    until_rebalancing,
    until_state,
)
from kohort_conformance.scenario import scenario
from kohort_conformance.stage import Stage, how_long

SHORT_SESSION = 6_000


@scenario(waits=7)
async def session_of_the_sole_member(stage: Stage) -> None:
    """A silent sole member is removed with its session: Empty, one generation on."""
    [a] = await stable(stage, "a", session_ms=SHORT_SESSION)
    watcher = await stage.client("watcher")
    seconds = await until_state(watcher, stage.group, "Empty")
    stage.note("the session ended", how_long(seconds, 5, 8))
    await look(watcher, stage.group)
    await a.heartbeat()
    b = await (await member(stage, "b")).handshake()
    await b.join()


@scenario(waits=7)
async def session_of_a_follower(stage: Stage) -> None:
    """When a follower's session ends the others learn of the rebalance.

    It is unknown from then on.
    """
    a, b = await member(stage, "a"), await member(stage, "b", session_ms=SHORT_SESSION)
    await gather_round([a, b])
    await sync_all([a, b])
    await until_rebalancing(a)
    await a.join()
    await b.heartbeat()
    await b.join()
    await look(a.client, stage.group)


@scenario(waits=7)
async def session_of_the_leader(stage: Stage) -> None:
    """When the leader's session ends the remaining member leads."""
    a, b = await member(stage, "a", session_ms=SHORT_SESSION), await member(stage, "b")
    await gather_round([a, b])
    await sync_all([a, b])
    await until_rebalancing(b)
    await b.join()


@scenario(waits=9)
async def heartbeats_keep_a_session(stage: Stage) -> None:
    """A heartbeat restarts the session."""
    [a] = await stable(stage, "a", session_ms=SHORT_SESSION)
    for _ in range(2):
        await stage.settle(4)
        await a.heartbeat()


@scenario(waits=9)
async def commits_keep_a_session(stage: Stage) -> None:
    """A commit restarts the session."""
    await stage.create_topic()
    [a] = await stable(stage, "a", session_ms=SHORT_SESSION)
    for _ in range(2):
        await stage.settle(4)
        await a.commit(stage.topic, {0: 1})


@scenario(waits=9)
async def refused_commits_keep_no_session(stage: Stage) -> None:
    """A commit in a wrong generation does not restart the session."""
    await stage.create_topic()
    [a] = await stable(stage, "a", session_ms=SHORT_SESSION)
    await stage.settle(4)
    await a.commit(stage.topic, {0: 1}, generation=9)
    await stage.settle(4)
    await a.heartbeat()


@scenario(waits=9)
async def offset_fetches_keep_no_session(stage: Stage) -> None:
    """OffsetFetch does not restart the session."""
    [a] = await stable(stage, "a", session_ms=SHORT_SESSION)
    await stage.settle(4)
    await a.client.ask("OffsetFetch", 7, group_id=stage.group, topics=None)
    await stage.settle(4)
    await a.heartbeat()


@scenario(waits=9)
async def syncs_in_stable_keep_no_session(stage: Stage) -> None:
    """SyncGroup in Stable does not restart the session."""
    [a] = await stable(stage, "a", session_ms=SHORT_SESSION)
    await stage.settle(4)
    await a.sync()
    await stage.settle(4)
    await a.heartbeat()


@scenario(waits=9)
async def rejoins_of_a_follower_keep_a_session(stage: Stage) -> None:
    """An unchanged follower's JoinGroup restarts its session, or does not: as Kafka has it."""
    a, b = await member(stage, "a"), await member(stage, "b", session_ms=SHORT_SESSION)
    await gather_round([a, b])
    await sync_all([a, b])
    await stage.settle(4)
    await b.join()
    await stage.settle(4)
    await b.heartbeat()


@scenario(waits=9)
async def wrong_heartbeats_keep_no_session(stage: Stage) -> None:
    """A heartbeat of a wrong generation does not restart the session."""
    [a] = await stable(stage, "a", session_ms=SHORT_SESSION)
    await stage.settle(4)
    await a.heartbeat(generation_id=9)
    await stage.settle(4)
    await a.heartbeat()


@scenario(waits=10)
async def parked_join_outlives_the_session(stage: Stage) -> None:
    """A member whose JoinGroup is parked does not expire, however short its session."""
    a = await member(stage, "a", rebalance_ms=60_000)
    b = await member(stage, "b", session_ms=SHORT_SESSION, rebalance_ms=60_000)
    await gather_round([a, b])
    await sync_all([a, b])
    b.protocols = protocols("range", metadata=subscription("u"))
    joining = b.joining()
    for _ in range(2):
        await stage.settle(4)
        await a.heartbeat()
    await a.join()
    await joining.response()


@scenario(waits=10)
async def parked_sync_outlives_the_session(stage: Stage) -> None:
    """A member whose SyncGroup is parked does not expire either."""
    a = await member(stage, "a", rebalance_ms=60_000)
    b = await member(stage, "b", session_ms=SHORT_SESSION, rebalance_ms=60_000)
    await gather_round([a, b])
    syncing = b.syncing()
    for _ in range(2):
        await stage.settle(4)
        await a.heartbeat()
    await a.sync(assignments={b.id: b"two"})
    await syncing.response()


@scenario(waits=9)
async def newcomer_parked_beyond_its_session(stage: Stage) -> None:
    """A newcomer that waits for its first generation has five minutes, not its session."""
    [a] = await stable(stage, "a", rebalance_ms=60_000)
    b = await (await member(stage, "b", session_ms=SHORT_SESSION)).handshake()
    joining = b.joining()
    await until_rebalancing(a)
    for _ in range(2):
        await stage.settle(4)
        await a.heartbeat()
    await a.join()
    await joining.response()


@scenario(waits=3)
async def laggard_is_removed(stage: Stage) -> None:
    """Who has not rejoined when the rebalance timeout ends is removed: 25 to what it says later."""
    a, b = await stable(stage, "a", "b", rebalance_ms=3_000)
    began = time.monotonic()
    response = a.joining()
    await until_rebalancing(b)
    await response.response()
    stage.note("the join phase ended", how_long(time.monotonic() - began, 2.5, 5))
    await b.heartbeat()
    await b.sync()
    await b.join()


@scenario(waits=3)
async def absent_leader_is_removed(stage: Stage) -> None:
    """A leader that misses the join phase loses the lead."""
    a, b = await stable(stage, "a", "b", rebalance_ms=3_000)
    c = await (await member(stage, "c", rebalance_ms=3_000)).handshake()
    joining_c = c.joining()
    await until_rebalancing(b)
    response_b = await b.joining().quiet()
    response_c = await joining_c.quiet()
    stage.note("b and c have one leader", response_b["leader"] == response_c["leader"] != a.id)
    stage.note("the members are b and c", len(response_b["members"]) + len(response_c["members"]))
    stage.note("their generation", [response_b["generation_id"], response_c["generation_id"]])
    await a.heartbeat()


@scenario(waits=5)
async def longest_rebalance_timeout_counts(stage: Stage) -> None:
    """The join phase is as long as the longest rebalance timeout of the members."""
    a, b = (
        await member(stage, "a", rebalance_ms=1_000),
        await member(stage, "b", rebalance_ms=4_000),
    )
    await gather_round([a, b])
    await sync_all([a, b])
    began = time.monotonic()
    await a.join()
    stage.note("the join phase ended", how_long(time.monotonic() - began, 3.5, 6))


@scenario(waits=5)
async def version_0_rebalances_within_its_session(stage: Stage) -> None:
    """Version 0 has no rebalance timeout: its session timeout is used for it."""
    a = await member(stage, "a", rebalance_ms=1_000)
    b = await member(stage, "b", session_ms=SHORT_SESSION)
    await gather_round([a])
    joining = b.joining(0)
    await until_rebalancing(a)
    await a.join()
    await joining.response()
    await sync_all([a, b])
    began = time.monotonic()
    await a.join()
    stage.note("the join phase ended", how_long(time.monotonic() - began, 5, 8))


@scenario(waits=4)
async def rejoin_changes_the_timeouts(stage: Stage) -> None:
    """A member that rejoins in a rebalance with other timeouts is held to those."""
    a, b = await stable(stage, "a", "b", rebalance_ms=60_000)
    a.rebalance_ms = b.rebalance_ms = 3_000
    joining = a.joining()
    await until_rebalancing(b)
    await b.join()
    await joining.quiet()
    await sync_all([a, b])
    began = time.monotonic()
    await a.join()
    stage.note("the join phase ended", how_long(time.monotonic() - began, 2.5, 5))
    await b.heartbeat()


@scenario(waits=7)
async def pending_id_expires(stage: Stage) -> None:
    """An id that was given and not used for a session timeout is unknown."""
    a = await (await member(stage, session_ms=SHORT_SESSION)).handshake()
    await stage.settle(7)
    await a.join()
    await look(a.client, stage.group)


@scenario(waits=7)
async def pending_id_holds_up_until_it_expires(stage: Stage) -> None:
    """The join phase waits for a pending id no longer than its session timeout."""
    [a] = await stable(stage, "a", rebalance_ms=60_000)
    lost = await (await member(stage, "lost", session_ms=SHORT_SESSION)).handshake()
    began = time.monotonic()
    await a.join()
    stage.note("the join phase ended", how_long(time.monotonic() - began, 5, 8))
    await lost.join()


@scenario(waits=3)
async def follower_that_never_syncs(stage: Stage) -> None:
    """A follower that never syncs is removed at the rebalance timeout, though all is Stable."""
    a, b = (
        await member(stage, "a", rebalance_ms=3_000),
        await member(stage, "b", rebalance_ms=3_000),
    )
    await gather_round([a, b])
    await sync_all([a])
    await look(a.client, stage.group)
    began = time.monotonic()
    await until_rebalancing(a)
    stage.note("the rebalance came", how_long(time.monotonic() - began, 1.5, 5))
    await b.heartbeat()
    await a.join()


@scenario(waits=3)
async def leader_that_never_syncs(stage: Stage) -> None:
    """A leader that does not sync is removed when the rebalance timeout ends.

    Parked SyncGroups get 27.
    """
    a, b = (
        await member(stage, "a", rebalance_ms=3_000),
        await member(stage, "b", rebalance_ms=3_000),
    )
    await gather_round([a, b])
    syncing = b.syncing()
    await syncing.response()
    await a.heartbeat()
    await b.join()


@scenario(waits=3)
async def nobody_syncs(stage: Stage) -> None:
    """Without a SyncGroup in the rebalance timeout all are removed and the group is Empty."""
    a, b = (
        await member(stage, "a", rebalance_ms=3_000),
        await member(stage, "b", rebalance_ms=3_000),
    )
    await gather_round([a, b])
    await until_state(a.client, stage.group, "Empty")
    await a.heartbeat()
    await b.sync()
    await look(a.client, stage.group)
    c = await (await member(stage, "c")).handshake()
    await c.join()


@scenario(waits=3)
async def heartbeats_do_not_replace_a_sync(stage: Stage) -> None:
    """Heartbeats between join and sync do not save a member that never syncs."""
    a, b = (
        await member(stage, "a", rebalance_ms=3_000),
        await member(stage, "b", rebalance_ms=3_000),
    )
    await gather_round([a, b])
    await sync_all([a])
    for _ in range(14):
        await b.beating().quiet()
        await asyncio.sleep(0.3)
    await b.heartbeat()


@scenario(waits=7)
async def session_ends_in_the_join_phase(stage: Stage) -> None:
    """An awaited member whose session ends no longer holds up the join phase."""
    a = await member(stage, "a", rebalance_ms=60_000)
    b = await member(stage, "b", session_ms=SHORT_SESSION, rebalance_ms=60_000)
    await gather_round([a, b])
    await sync_all([a, b])
    began = time.monotonic()
    await a.join()
    stage.note("the join phase ended", how_long(time.monotonic() - began, 4.5, 8))


@scenario(waits=9)
async def heartbeats_keep_a_session_in_the_join_phase(stage: Stage) -> None:
    """A heartbeat that gets 27 restarts the session all the same."""
    a = await member(stage, "a", rebalance_ms=60_000)
    b = await member(stage, "b", session_ms=SHORT_SESSION, rebalance_ms=60_000)
    await gather_round([a, b])
    await sync_all([a, b])
    joining = a.joining()
    await until_rebalancing(b)
    for _ in range(2):
        await stage.settle(4)
        await b.heartbeat()
    await b.join()
    await joining.response()


@scenario(waits=7)
async def session_between_join_and_sync(stage: Stage) -> None:
    """A leader whose session ends before its sync is removed: parked SyncGroups get 27."""
    a = await member(stage, "a", session_ms=SHORT_SESSION, rebalance_ms=60_000)
    b = await member(stage, "b", rebalance_ms=60_000)
    await gather_round([a, b])
    syncing = b.syncing()
    await syncing.response()
    await b.join()


@scenario(waits=7)
async def static_session_frees_the_instance(stage: Stage) -> None:
    """A static member whose session ended is gone: its instance id joins as a new member."""
    a = await member(stage, "a", instance="i", session_ms=SHORT_SESSION)
    await gather_round([a])
    await sync_all([a])
    await until_state(await stage.client("watcher"), stage.group, "Empty")
    await a.heartbeat()
    b = await member(stage, "b", instance="i")
    await b.join()
