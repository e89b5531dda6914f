"""The journal: one entry per rebalance, with its causes, the duration of each phase and who was
awaited.
"""

import pytest

from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.journal import Cause, Rebalance
from kohort.testing.bench import Bench


def causes(bench):
    return [(cause.what, cause.member_id) for cause in bench.journal[-1].causes]


def settle(bench, *ids, generation):
    """These members rejoin and sync."""
    for member_id in ids:
        bench.join("g", member_id)
    for member_id in ids:
        bench.sync("g", member_id, generation)


def test_an_entry_tells_why_how_long_and_who():
    bench = Bench(GroupCoordinatorConfig(initial_rebalance_delay_ms=3_000))
    began = bench.now
    joining = bench.handshake(client_id="web", reason="first start")
    bench.advance(3_000)
    bench.advance(500)
    member_id = joining.response.member_id
    bench.sync("g", member_id, 1)
    (entry,) = bench.journal
    assert entry == Rebalance(
        group="g",
        generation=1,
        causes=(Cause("joined", member_id, "web", "first start"),),
        outcome="stable",
        started=began,
        joined=began + 3_000,
        ended=began + 3_500,
        members=(member_id,),
    )
    assert (entry.join_ms, entry.sync_ms) == (3_000, 500)


def test_the_entry_is_written_with_the_result_that_ends_the_round(bench):
    joining = bench.handshake()
    bench.advance(0)
    assert bench.journal == []
    syncing = bench.sync("g", joining.response.member_id, 1)
    assert syncing.result.journal == tuple(bench.journal)
    assert len(bench.journal) == 1


def test_every_member_that_joins_meanwhile_is_a_cause_too(bench):
    ids = bench.stable(members=3)
    assert causes(bench) == [("joined", member_id) for member_id in ids]


def test_members_that_were_awaited_anyway_are_no_cause(bench):
    leader, follower = bench.stable(members=2)
    bench.join("g", leader)
    bench.join("g", follower, protocols={"range": b"new"})
    settle(bench, leader, follower, generation=2)
    assert causes(bench) == [("leader rejoined", leader)]


def test_changed_metadata_is_a_cause(bench):
    leader, follower = bench.stable(members=2)
    bench.join("g", follower, protocols={"range": b"new"}, reason="topics changed")
    bench.join("g", leader)
    bench.sync("g", leader, 2)
    assert bench.journal[-1].causes == (
        Cause("metadata changed", follower, "client", "topics changed"),
    )


def test_a_leave_is_a_cause_with_the_members_own_words(bench):
    leader, follower = bench.stable(members=2)
    bench.leave("g", follower, reason="the consumer is being closed")
    settle(bench, leader, generation=2)
    assert bench.journal[-1].causes == (
        Cause("left", follower, "client", "the consumer is being closed"),
    )


def test_a_session_that_ended_is_a_cause_with_the_coordinators_words(bench):
    leader, follower = bench.stable(members=2)
    bench.advance(5_000)
    bench.heartbeat("g", leader, 1)
    bench.advance(5_000)
    settle(bench, leader, generation=2)
    assert bench.journal[-1].causes == (
        Cause("expired", follower, "client", "not heard of for 10000 ms"),
    )


def test_a_missing_sync_is_a_cause(bench):
    joins = [bench.handshake(rebalance_timeout_ms=2_000) for _ in range(2)]
    bench.advance(0)
    leader, follower = (joining.response.member_id for joining in joins)
    bench.sync("g", leader, 1)
    bench.advance(2_000)
    settle(bench, leader, generation=2)
    assert causes(bench) == [("sync timeout", follower)]


def test_a_static_member_that_came_back_with_another_vote_is_a_cause(bench):
    bench.join(instance_id="i", protocols={"x": b"", "y": b""})
    bench.advance(0)
    bench.sync("g", "i-0001", 1, protocol_name="x")
    bench.join(instance_id="i", protocols={"y": b"", "x": b""})
    bench.sync("g", "i-0002", 2, protocol_name="y")
    assert causes(bench) == [("replaced", "i-0002")]


def test_a_pending_id_that_left_is_a_cause(bench):
    (member_id,) = bench.stable()
    pending = bench.join().response.member_id
    bench.leave("g", pending)
    settle(bench, member_id, generation=2)
    assert causes(bench) == [("left", pending)]


def test_members_that_never_came_back_were_awaited(bench):
    leader, follower = bench.stable(members=2, session_timeout_ms=90_000)
    bench.join("g", leader, session_timeout_ms=90_000)
    bench.advance(60_000)
    bench.sync("g", leader, 2)
    entry = bench.journal[-1]
    assert (entry.awaited, entry.members, entry.join_ms) == ((follower,), (leader,), 60_000)


def test_a_round_that_is_disturbed_has_its_own_entry(bench):
    leader, follower = bench.stable(members=2)
    bench.join("g", leader)
    bench.join("g", follower)
    bench.advance(100)
    bench.join("g", follower, protocols={"range": b"new"})
    disturbed = bench.journal[-1]
    assert (disturbed.outcome, disturbed.generation, disturbed.sync_ms) == ("disturbed", 2, 100)
    bench.join("g", leader)
    bench.sync("g", leader, 3)
    assert (bench.journal[-1].outcome, bench.journal[-1].generation) == ("stable", 3)
    assert causes(bench) == [("metadata changed", follower)]


def test_a_round_that_left_nobody_is_empty(bench):
    (member_id,) = bench.stable()
    bench.leave("g", member_id)
    entry = bench.journal[-1]
    assert (entry.outcome, entry.generation, entry.members) == ("empty", 2, ())
    assert (entry.join_ms, entry.sync_ms) == (0, 0)


@pytest.mark.parametrize(
    "act",
    [
        lambda bench, member_id: bench.join(),
        lambda bench, member_id: bench.heartbeat("g", member_id, 1),
        lambda bench, member_id: bench.join("g", "nobody"),
        lambda bench, member_id: bench.leave("g", "nobody"),
        lambda bench, member_id: bench.sync("g", member_id, 1),
    ],
    ids=["handshake", "heartbeat", "refused join", "refused leave", "sync in Stable"],
)
def test_acts_without_a_rebalance_write_no_entry(bench, act):
    (member_id,) = bench.stable()
    act(bench, member_id)
    bench.advance(0)
    assert len(bench.journal) == 1
