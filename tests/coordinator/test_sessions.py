"""Sessions: what keeps a member, what does not, and what happens when nothing did."""

import pytest

from kohort.coordinator.classic import State
from kohort.coordinator.records import GroupMetadataKey, GroupMetadataRecord, GroupMetadataValue
from kohort.coordinator.responses import JoinGroupResponse
from kohort.coordinator.result import SessionExpires, TimerFired
from kohort.errors import ErrorCode


def survives(bench, member_id, act):
    """Whether the member is there 11 s after the start of its session of 10 s if it does `act`
    after 6 s.
    """
    bench.advance(6_000)
    act()
    bench.advance(5_000)
    return member_id in bench.group().sessions


# --- what restarts a session ---


def test_a_silent_member_is_removed_when_its_session_ends(bench):
    (member_id,) = bench.stable()
    assert bench.advance(9_999) == []
    assert bench.advance(1) == [SessionExpires("g", member_id)]
    assert bench.heartbeat("g", member_id, 1).error == "unknown_member_id"


def test_a_heartbeat_restarts_the_session(bench):
    (member_id,) = bench.stable()
    assert survives(bench, member_id, lambda: bench.heartbeat("g", member_id, 1))


def test_a_heartbeat_moves_no_timer_which_rearms_itself_when_it_fires_early(bench):
    (member_id,) = bench.stable()
    bench.advance(6_000)
    assert bench.heartbeat("g", member_id, 1).result.timers == ()
    assert bench.advance(4_000) == [SessionExpires("g", member_id)]
    assert bench.timer(SessionExpires("g", member_id)) == 6_000


def test_a_heartbeat_in_the_join_phase_restarts_the_session(bench):
    leader, follower = bench.stable(members=2)
    bench.join("g", leader)
    assert survives(bench, follower, lambda: bench.heartbeat("g", follower, 1))


def test_a_heartbeat_between_join_and_sync_restarts_the_session(bench):
    joining = bench.handshake()
    bench.advance(0)
    member_id = joining.response.member_id
    assert survives(bench, member_id, lambda: bench.heartbeat("g", member_id, 1))


def test_a_commit_restarts_the_session(bench):
    """§3, Sessions."""
    (member_id,) = bench.stable()
    assert survives(
        bench,
        member_id,
        lambda: bench.commit("g", {("t", 0): 1}, member_id=member_id, generation=1),
    )


def test_the_leaders_sync_restarts_everybodys_session(bench):
    joins = [bench.handshake() for _ in range(2)]
    bench.advance(0)
    leader = joins[0].response.leader
    (follower,) = {call.response.member_id for call in joins} - {leader}
    assert survives(bench, follower, lambda: bench.sync("g", leader, 1))


@pytest.mark.parametrize(
    "act",
    [
        lambda bench, member_id: bench.heartbeat("g", member_id, 9),
        lambda bench, member_id: bench.heartbeat("g", member_id, 1, instance_id="i"),
        lambda bench, member_id: bench.commit(
            "g", {("t", 0): 1}, member_id=member_id, generation=9
        ),
        lambda bench, member_id: bench.fetch("g", ("t", 0)),
        lambda bench, member_id: bench.sync("g", member_id, 1),
        lambda bench, member_id: bench.join("g", member_id),
        lambda bench, member_id: bench.describe("g"),
    ],
    ids=[
        "heartbeat of another generation",
        "heartbeat with an unknown instance id",
        "commit of another generation",
        "OffsetFetch",
        "SyncGroup in Stable",
        "unchanged JoinGroup of a follower",
        "DescribeGroups",
    ],
)
def test_no_other_request_restarts_the_session(bench, act):
    """§3, Sessions."""
    _, follower = bench.stable(members=2)
    assert not survives(bench, follower, lambda: act(bench, follower))


# --- parked requests ---


def test_a_parked_join_outlives_the_session(bench):
    """known-mistakes, SeaweedFS: parked joiners are expired too."""
    leader, follower = bench.stable(members=2, session_timeout_ms=50_000)
    joining = bench.join("g", follower, protocols={"range": b"new"}, session_timeout_ms=6_000)
    bench.advance(40_000)
    assert joining.parked
    bench.join("g", leader)
    assert joining.response.generation == 2
    assert bench.timer(SessionExpires("g", follower)) == 6_000


def test_a_parked_sync_outlives_the_session(bench):
    joins = [bench.handshake(session_timeout_ms=50_000), bench.handshake(session_timeout_ms=6_000)]
    bench.advance(0)
    leader, follower = (call.response.member_id for call in joins)
    syncing = bench.sync("g", follower, 1)
    bench.advance(40_000)
    assert syncing.parked
    bench.sync("g", leader, 1, {follower: b"two"})
    assert syncing.response.assignment == b"two"
    assert bench.timer(SessionExpires("g", follower)) == 6_000


def test_a_parked_newcomer_has_five_minutes_instead_of_its_session(bench):
    (member_id,) = bench.stable(session_timeout_ms=1_800_000, rebalance_timeout_ms=1_800_000)
    newcomer = bench.handshake(session_timeout_ms=6_000, rebalance_timeout_ms=1_800_000)
    bench.advance(299_999)
    assert newcomer.parked
    assert SessionExpires("g", newcomer.request.member_id) in bench.advance(1)
    assert newcomer.response == JoinGroupResponse(error=ErrorCode.unknown_member_id)
    assert bench.join("g", member_id).response.generation == 2


def test_a_newcomer_has_its_session_from_its_first_answer_on(bench):
    (member_id,) = bench.stable()
    newcomer = bench.handshake(session_timeout_ms=6_000)
    bench.join("g", member_id)
    assert newcomer.response.generation == 2
    assert bench.timer(SessionExpires("g", newcomer.response.member_id)) == 6_000


# --- when a session ends ---


def test_the_others_rebalance_and_another_one_leads(bench):
    """known-mistakes, SeaweedFS: survivors are neither rebalanced nor given a new leader."""
    leader, follower = bench.stable(members=2)
    assert survives(bench, follower, lambda: bench.heartbeat("g", follower, 1))
    assert leader not in bench.group().sessions
    assert bench.heartbeat("g", follower, 1).error == "rebalance_in_progress"
    assert bench.join("g", follower).response.leader == follower


def test_after_the_last_one_the_group_is_empty_one_generation_on(bench):
    bench.stable()
    bench.advance(10_000)
    value = GroupMetadataValue("consumer", 2, None, None, bench.now, ())
    assert bench.log[-1] == GroupMetadataRecord(GroupMetadataKey("g"), value)
    assert bench.state() is State.EMPTY


def test_between_join_and_sync_the_parked_syncs_are_answered_27(bench):
    joins = [bench.handshake(session_timeout_ms=6_000), bench.handshake(session_timeout_ms=50_000)]
    bench.advance(0)
    leader, follower = (call.response.member_id for call in joins)
    syncing = bench.sync("g", follower, 1)
    assert bench.advance(6_000) == [SessionExpires("g", leader)]
    assert syncing.response.error is ErrorCode.rebalance_in_progress
    assert bench.join("g", follower).response.leader == follower


def test_a_session_ends_to_the_millisecond_and_not_in_a_sweep(bench):
    """known-mistakes, SeaweedFS: expiry only in a 30 s sweep."""
    ids = bench.stable(members=3)
    for ms, member_id in zip((1_000, 2_500, 2_501), ids, strict=True):
        bench.advance(ms)
        bench.heartbeat("g", member_id, 1)
    ends = [bench.group().sessions[member_id].deadline - bench.now for member_id in ids]
    for ms, member_id in zip((ends[0], ends[1] - ends[0], ends[2] - ends[1]), ids, strict=True):
        bench.advance(ms - 1)
        assert member_id in bench.group().sessions
        bench.advance(1)
        assert member_id not in bench.group().sessions


def test_a_timer_of_somebody_who_is_gone_does_nothing(bench):
    (member_id,) = bench.stable()
    bench.leave("g", member_id)
    logged = len(bench.log)
    for group in ("g", "never was"):
        assert bench.post(TimerFired(SessionExpires(group, member_id))).records == ()
    assert len(bench.log) == logged


@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_each_member_has_the_session_that_it_asked_for(bench, session_timeout_ms):
    (member_id,) = bench.stable(session_timeout_ms=session_timeout_ms)
    bench.advance(session_timeout_ms - 1)
    assert member_id in bench.group().sessions
    bench.advance(1)
    assert member_id not in bench.group().sessions
