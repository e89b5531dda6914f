"""Rules of one member of a classic group, event by event."""

import itertools

import pytest

from client.membership.bench import MembershipBench, joined_member, tp, tps
from kohort.client.group_errors import CoordinatorUnavailableError
from kohort.client.membership.events import (
    Abandon,
    Assign,
    End,
    EndPartitions,
    ForgetCoordinator,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Left,
    Raise,
    Send,
    Start,
    SyncGroup,
    SyncGroupResponse,
)
from kohort.client.membership.state import Phase
from kohort.errors import ErrorCode
from kohort.protocol.subscription import decode_subscription

FATAL = [
    ErrorCode.fenced_instance_id,
    ErrorCode.group_authorization_failed,
    ErrorCode.invalid_session_timeout,
    ErrorCode.inconsistent_group_protocol,
    ErrorCode.group_max_size_reached,
    ErrorCode.unsupported_version,
    ErrorCode.invalid_group_id,
]
PASSING = [
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.unknown_server_error,
]


@pytest.fixture
def bench():
    return MembershipBench()


@pytest.fixture
def member():
    return MembershipBench().stable(0, 1)


@pytest.fixture
def cooperative():
    return MembershipBench(cooperative=True).stable(0, 1)


def owned(request):
    return decode_subscription(request.protocols[0][1]).owned


# --- joining ---


def test_the_handshake_keeps_the_id(bench):
    bench.join()
    assert bench.request.member_id == ""
    bench.join_answer(ErrorCode.member_id_required, member_id="m1")
    assert bench.request.member_id == "m1"


def test_a_follower_syncs_without_assignments(bench):
    bench.join()
    bench.joined(generation=4, leader="other", member_id="m1")
    assert bench.request == SyncGroup(generation=4, member_id="m1", protocol="range")


def test_a_leader_assigns_before_it_syncs(bench):
    bench.join()
    bench.joined(generation=4, leader="m1", member_id="m1", members=(joined_member("m1"),))
    assert bench.action == Assign(generation=4, protocol="range", members=(joined_member("m1"),))
    bench.do(bench.member.assigned(bench.now, 4, {"m1": b"x"}))
    assert bench.request.assignments == (("m1", b"x"),)


def test_a_leader_that_may_skip_the_assignment_does_not_assign_but_leads(bench):
    bench.join()
    bench.joined(leader="m1", member_id="m1", skip_assignment=True)
    assert bench.request.assignments == ()
    bench.synced(0)
    assert bench.member.is_leader


def test_an_assignment_of_an_older_generation_is_not_sent(bench):
    bench.join()
    bench.joined(generation=4, leader="m1", member_id="m1")
    bench.heartbeat(ErrorCode.unknown_member_id)
    assert bench.do(bench.member.assigned(bench.now, 4, {"m1": b"x"})) == ()


def test_a_synced_generation_is_started(bench):
    bench.join()
    bench.joined(generation=7)
    bench.synced(2, 3)
    grant = bench.action.grant
    assert (grant.generation, grant.member_id, grant.assignment, grant.added) == (
        7,
        "m1",
        tps(2, 3),
        tps(2, 3),
    )


def test_a_member_without_partitions_has_a_generation(bench):
    bench.join()
    bench.joined()
    bench.answer(SyncGroup, SyncGroupResponse(assignment=b""))
    assert bench.action.grant.assignment == ()


def test_an_assignment_that_cannot_be_decoded_is_raised(bench):
    bench.join()
    bench.joined()
    bench.answer(SyncGroup, SyncGroupResponse(assignment=b"\0"))
    assert isinstance(bench.action, Raise)


@pytest.mark.parametrize("asked", ["join", "sync"])
@pytest.mark.parametrize("code", FATAL)
def test_a_fatal_error_code_is_raised_with_advice(bench, asked, code):
    bench.join()
    if asked == "join":
        bench.join_answer(code)
    else:
        bench.joined()
        bench.sync_answer(code)
    assert isinstance(bench.action, Raise)
    assert bench.action.error.code is code
    assert code.name.upper() in str(bench.action.error)
    assert len(str(bench.action.error)) > len(code.name) + 40
    assert bench.member.deadline is None


@pytest.mark.parametrize("code", PASSING)
def test_a_retriable_error_code_is_retried_with_the_same_member_id(bench, code):
    bench.join()
    bench.join_answer(ErrorCode.member_id_required, member_id="m1")
    bench.join_answer(code)
    assert (ForgetCoordinator() in bench.actions) == (
        code in (ErrorCode.coordinator_not_available, ErrorCode.not_coordinator)
    )
    before = bench.now
    bench.advance()
    assert bench.request.member_id == "m1"
    assert 80 <= bench.now - before <= 120


def test_an_unknown_member_id_is_dropped(bench):
    bench.join()
    bench.join_answer(ErrorCode.member_id_required, member_id="m1")
    bench.join_answer(ErrorCode.unknown_member_id)
    bench.advance()
    assert bench.request.member_id == ""


def test_a_repeated_member_id_required_is_retried_after_a_pause(bench):
    bench.join()
    bench.join_answer(ErrorCode.member_id_required, member_id="m1")
    bench.join_answer(ErrorCode.member_id_required, member_id="m2")
    assert bench.actions == ()
    bench.advance()
    assert bench.request.member_id == "m1"


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.illegal_generation, "m1"), (ErrorCode.unknown_member_id, "")]
)
def test_a_member_whose_sync_is_too_late_rejoins(bench, code, member_id):
    bench.join()
    bench.joined()
    bench.sync_answer(code)
    bench.advance()
    assert bench.request.member_id == member_id


def test_a_member_whose_sync_meets_a_new_rebalance_rejoins_at_once(bench):
    bench.join()
    bench.joined()
    bench.sync_answer(ErrorCode.rebalance_in_progress)
    assert isinstance(bench.request, JoinGroup)


def test_pauses_grow_to_the_backoff_and_the_error_lists_the_tries(bench):
    bench.join()
    pauses = []
    while not isinstance(bench.actions[-1], Raise):
        bench.fail(JoinGroup)
        if not isinstance(bench.actions[-1], Raise):
            before = bench.now
            bench.advance()
            pauses.append(bench.now - before)
    assert all(80 <= pause <= 6_000 for pause in pauses)
    assert max(pauses) > 4_000
    assert sum(pauses) >= bench.config.retry_timeout_ms
    error = bench.actions[-1].error
    assert isinstance(error, CoordinatorUnavailableError)
    assert f"{len(pauses) + 1} tries" in str(error)
    assert "connection refused" in str(error)


def test_tries_are_counted_from_the_last_success(bench):
    bench.join()
    bench.fail(JoinGroup)
    bench.advance()
    bench.joined()
    bench.synced(0)
    bench.advance(bench.config.retry_timeout_ms * 2 // 100)
    assert bench.member.tries.failures == 0


def test_waiting_for_slow_members_is_no_failure(bench):
    bench.join()
    for _ in range(100):
        bench.advance(60_000)
        bench.fail(JoinGroup, "no answer within 60 s", sent=True)
        assert isinstance(bench.request, JoinGroup)
    assert bench.reports[-2].event == "waiting"


def test_deadlines_of_join_and_sync_are_kafka_gos(bench):
    bench.join()
    assert bench.action.timeout_ms == 30_000 + bench.config.rebalance_timeout_ms
    bench.joined()
    assert bench.action.timeout_ms == 30_000 + bench.config.session_timeout_ms


# --- heartbeats ---


def test_heartbeats_follow_each_other(member):
    sent = []
    for _ in range(4):
        member.until_heartbeat()
        sent.append(member.now)
        member.heartbeat()
    assert [b - a for a, b in itertools.pairwise(sent)] == [3_000] * 3


def test_a_late_heartbeat_does_not_delay_the_next_ones(member):
    member.heartbeat()
    due = member.member.deadline
    member.now = due + 40
    member.do(member.member.tick(member.now))
    member.heartbeat()
    assert member.member.deadline == due + 3_000


def test_the_leader_sends_heartbeats_while_it_assigns(bench):
    bench.join()
    bench.joined(leader="m1", member_id="m1")
    bench.heartbeat()
    assert bench.ends == []


def test_one_error_ends_no_generation(member):
    for code in PASSING:
        member.heartbeat(code)
        assert member.ends == []
    member.until_heartbeat()
    member.fail(Heartbeat)
    assert member.ends == []
    member.heartbeat()
    assert member.member.phase is Phase.STABLE


def test_a_failed_heartbeat_is_retried_soon(member):
    member.until_heartbeat()
    member.fail(Heartbeat)
    before = member.now
    member.advance()
    assert isinstance(member.request, Heartbeat)
    assert member.now - before <= 120


def test_a_silent_connection_leaves_time_for_another_try(member):
    member.until_heartbeat()
    assert member.action.timeout_ms <= member.config.session_timeout_ms // 3


def test_all_partitions_are_lost_when_the_session_expires(member):
    started = member.now
    while not member.ends:
        member.until_heartbeat()
        member.fail(Heartbeat)
        if not member.ends:
            member.advance()
    assert member.ends == [(End.LOST, None)]
    assert (
        member.now - started
        == member.config.session_timeout_ms - member.config.heartbeat_interval_ms
    )
    assert "no heartbeat got a response for 30000 ms" in member.actions[-1].cause
    assert not any(isinstance(action, Send) for action in member.actions)
    member.drained()
    assert member.request.member_id == "m1"
    assert owned(member.request) == ()


def test_a_blocked_event_loop_is_named(member):
    member.now += 50_000
    member.do(member.member.tick(member.now))
    assert "the event loop was blocked for 23000 ms" in member.actions[-1].cause


def test_the_session_starts_when_the_answered_heartbeat_was_sent(member):
    member.until_heartbeat()
    sent = member.now
    member.now += 9_000
    member.heartbeat()
    assert member.member.session.alive_until == sent + 30_000


def test_a_new_generation_renews_the_session_at_once(bench):
    """SyncGroup does not renew that of a member of a stable group, and nobody knows when the join
    was answered.
    """
    bench.stable(0)
    synced = bench.now
    bench.until_heartbeat()
    assert bench.now == synced
    assert bench.member.session.alive_until == synced - 3_000 + 30_000
    bench.heartbeat()
    assert bench.member.session.alive_until == synced + 30_000


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.illegal_generation, "m1"), (ErrorCode.unknown_member_id, "")]
)
def test_a_generation_that_the_broker_ended_is_lost(member, code, member_id):
    member.heartbeat(code)
    assert member.ends == [(End.LOST, None)]
    assert member.actions[-1].drain_ms == 0
    member.drained()
    assert member.request.member_id == member_id


@pytest.mark.parametrize("code", FATAL)
def test_a_fatal_error_code_of_a_heartbeat_is_raised(member, code):
    member.heartbeat(code)
    assert member.ends == [(End.LOST, None)]
    assert isinstance(member.actions[-1], Raise)


def test_the_response_to_an_old_heartbeat_does_not_affect_the_new_generation():
    bench = MembershipBench(cooperative=True).stable(0)
    bench.heartbeat(ErrorCode.rebalance_in_progress)
    bench.until_heartbeat()
    bench.joined(generation=2)
    assert (
        bench.do(bench.member.responded(bench.now, bench.pending(Heartbeat), SyncGroupResponse()))
        == ()
    )
    bench.synced(0)
    assert bench.grants[0].generation == 2


# --- revocation, eager ---


def test_a_rebalance_drains_before_it_joins(member):
    member.heartbeat(ErrorCode.rebalance_in_progress)
    assert member.ends == [(End.REVOKED, None)]
    assert not any(isinstance(action, Send) for action in member.actions)
    member.drained()
    assert (member.request.member_id, owned(member.request)) == ("m1", ())


def test_the_drain_fits_into_the_rebalance_timeout(member):
    member.heartbeat(ErrorCode.rebalance_in_progress)
    assert (
        member.action.drain_ms + member.config.heartbeat_interval_ms
        <= member.config.rebalance_timeout_ms
    )


def test_the_drain_is_shorter_when_the_group_has_been_waiting_while_heartbeats_failed(bench):
    bench.stable(0).heartbeat()
    heard = bench.now
    assert bench.let_pass(20_000) == []
    bench.heartbeat(ErrorCode.rebalance_in_progress)
    (end,) = (action for action in bench.actions if isinstance(action, EndPartitions))
    assert end.end is End.REVOKED
    assert bench.now + end.drain_ms == heard + 30_000 - 500


def test_draining_partitions_are_lost_at_the_rebalance_timeout():
    bench = MembershipBench(rebalance_timeout_ms=10_000, drain_timeout_ms=7_000).stable(0)
    bench.heartbeat()
    assert bench.let_pass(9_900, heartbeats=ErrorCode.rebalance_in_progress) == [
        (End.REVOKED, None)
    ]
    assert bench.let_pass(100, heartbeats=ErrorCode.rebalance_in_progress) == [(End.LOST, None)]


def test_a_rebalance_timeout_that_is_shorter_than_the_session_bounds_it():
    """A rebalance can begin, and end without this member, before its session is over."""
    bench = MembershipBench(session_timeout_ms=30_000, rebalance_timeout_ms=10_000).stable(0)
    started = bench.now
    caused = bench.advance(30_000)
    assert [each.end for each in caused if isinstance(each, EndPartitions)] == [End.LOST]
    assert "the group waits 10000 ms for a member" in caused[-1].cause
    assert bench.member.generation == -1
    assert bench.now - started == 30_000


def test_heartbeats_continue_during_a_drain(member):
    member.heartbeat(ErrorCode.rebalance_in_progress)
    for _ in range(3):
        member.heartbeat(ErrorCode.rebalance_in_progress)
        assert member.ends == []


@pytest.mark.parametrize("code", [ErrorCode.illegal_generation, ErrorCode.unknown_member_id])
def test_draining_partitions_are_lost_when_the_group_did_not_wait(member, code):
    member.heartbeat(ErrorCode.rebalance_in_progress)
    member.heartbeat(code)
    assert member.ends == [(End.LOST, None)]
    member.drained()
    assert isinstance(member.request, JoinGroup)


def test_a_refused_commit_ends_the_generation(member):
    member.do(member.member.fenced(member.now, 1, ErrorCode.unknown_member_id))
    assert member.ends == [(End.LOST, None)]


def test_a_refused_commit_of_an_older_generation_is_ignored(member):
    assert member.do(member.member.fenced(member.now, 0, ErrorCode.illegal_generation)) == ()


# --- cooperative ---


def test_cooperative_members_join_with_their_owned_partitions(cooperative):
    cooperative.heartbeat(ErrorCode.rebalance_in_progress)
    assert cooperative.ends == []
    assert owned(cooperative.request) == tps(0, 1)
    assert decode_subscription(cooperative.request.protocols[0][1]).generation == 1


def test_partitions_in_both_assignments_are_not_interrupted(cooperative):
    cooperative.heartbeat(ErrorCode.rebalance_in_progress)
    cooperative.joined(generation=2)
    cooperative.synced(1, 2)
    start, end = cooperative.actions
    assert (start.grant.kept, start.grant.added, start.grant.revoked) == (tps(1), tps(2), tps(0))
    assert (end.end, end.partitions) == (End.REVOKED, tps(0))


def test_revoked_partitions_are_drained_before_the_next_join(cooperative):
    cooperative.heartbeat(ErrorCode.rebalance_in_progress)
    cooperative.joined(generation=2)
    cooperative.synced(1)
    cooperative.heartbeat(ErrorCode.rebalance_in_progress)
    assert cooperative.actions == ()
    cooperative.drained()
    assert owned(cooperative.request) == tps(1)


def test_heartbeats_continue_while_a_cooperative_member_joins(cooperative):
    cooperative.heartbeat(ErrorCode.rebalance_in_progress)
    for _ in range(30):
        cooperative.heartbeat(ErrorCode.rebalance_in_progress)
        assert cooperative.actions == ()
    assert cooperative.member.phase is Phase.JOINING


def test_a_cooperative_member_whose_joins_fail_loses_its_partitions_despite_heartbeats(
    cooperative,
):
    """The group waits for its join, not for its heartbeats."""
    cooperative.heartbeat()
    assert (
        cooperative.let_pass(29_900, heartbeats=ErrorCode.rebalance_in_progress, joins_fail=True)
        == []
    )
    assert cooperative.let_pass(
        100, heartbeats=ErrorCode.rebalance_in_progress, joins_fail=True
    ) == [(End.LOST, None)]
    cause = next(report.detail for report in cooperative.reports if report.event == "lost")
    assert "the group waits 30000 ms for a member" in cause


def test_a_cooperative_member_without_any_response_loses_its_partitions(cooperative):
    cooperative.heartbeat(ErrorCode.rebalance_in_progress)
    caused = cooperative.advance(40_000)
    assert [each.end for each in caused if isinstance(each, EndPartitions)] == [End.LOST]
    assert any(isinstance(each, Abandon) for each in caused)


def test_illegal_generation_is_ignored_while_the_join_is_in_flight(cooperative):
    cooperative.heartbeat(ErrorCode.rebalance_in_progress)
    cooperative.heartbeat(ErrorCode.illegal_generation)
    assert cooperative.actions == ()
    cooperative.joined(generation=2)
    assert cooperative.request.generation == 2


def test_unknown_member_id_while_the_join_is_in_flight_loses_the_membership(cooperative):
    cooperative.heartbeat(ErrorCode.rebalance_in_progress)
    cooperative.heartbeat(ErrorCode.unknown_member_id)
    assert cooperative.ends == [(End.LOST, None)]
    cooperative.drained()
    assert (cooperative.request.member_id, owned(cooperative.request)) == ("", ())


# --- topics ---


def test_changed_topics_rebalance(member):
    member.do(member.member.rejoin(member.now, "topics changed"))
    assert member.ends == [(End.REVOKED, None)]
    member.drained()
    assert member.request.reason == "topics changed"


def test_topics_that_change_during_a_rebalance_cause_another_one(bench):
    bench.join()
    assert bench.do(bench.member.rejoin(bench.now, "topics changed")) == ()
    bench.joined()
    bench.synced(0)
    assert bench.ends == [(End.REVOKED, None)]
    bench.drained()
    assert bench.request.reason == "topics changed"


def test_deleted_partitions_are_lost_and_the_others_kept(cooperative):
    cooperative.do(cooperative.member.lose(cooperative.now, tps(1), "topic deleted"))
    assert cooperative.ends == [(End.LOST, tps(1))]
    cooperative.drained()
    assert owned(cooperative.request) == tps(0)


def test_an_eager_member_revokes_the_others_when_some_are_deleted(member):
    member.do(member.member.lose(member.now, tps(1), "topic deleted"))
    assert member.ends == [(End.LOST, tps(1)), (End.REVOKED, None)]
    member.drained()
    assert isinstance(member.request, JoinGroup)


# --- the application ---


def test_leaving_drains_and_sends_the_reason(member):
    member.do(member.member.leave(member.now, "SIGTERM"))
    assert member.ends == [(End.CLOSED, None)]
    member.drained()
    assert member.request == LeaveGroup(member_id="m1", reason="SIGTERM")
    member.leave_answer()
    assert member.action == Left()
    assert member.member.deadline is None


def test_a_static_member_does_not_leave():
    bench = MembershipBench(instance_id="i1").stable(0)
    bench.do(bench.member.leave(bench.now, "bye"))
    bench.drained()
    assert bench.action == Left()


def test_a_static_member_leaves_if_configured():
    bench = MembershipBench(instance_id="i1", leave_group_on_close=True).stable(0)
    bench.do(bench.member.leave(bench.now, "bye"))
    bench.drained()
    assert isinstance(bench.request, LeaveGroup)


def test_leaving_with_a_join_in_flight_removes_the_pending_member_id(bench):
    bench.join()
    bench.join_answer(ErrorCode.member_id_required, member_id="m1")
    bench.do(bench.member.leave(bench.now, "bye"))
    assert isinstance(bench.actions[0], Abandon)
    assert bench.request.member_id == "m1"


def test_leaving_without_a_member_id_ends_at_once(bench):
    bench.join()
    bench.do(bench.member.leave(bench.now, "bye"))
    assert bench.actions[-1] == Left()


def test_leaving_during_a_retry_pause_is_immediate(bench):
    bench.join()
    bench.fail(JoinGroup)
    bench.do(bench.member.leave(bench.now, "bye"))
    assert bench.action == Left()


def test_a_failed_leave_is_retried_for_a_short_time(member):
    member.do(member.member.leave(member.now, "bye"))
    member.drained()
    started = member.now
    while Left() not in member.actions:
        member.fail(LeaveGroup)
        if Left() not in member.actions:
            member.advance()
    assert 4_000 <= member.now - started <= 5_000


def test_a_rebalance_does_not_stop_a_leave(member):
    member.do(member.member.leave(member.now, "bye"))
    member.heartbeat(ErrorCode.rebalance_in_progress)
    assert member.actions == ()
    member.drained()
    assert isinstance(member.request, LeaveGroup)


def test_a_cooperative_member_that_leaves_still_follows_the_rebalance_for_its_last_commits(
    cooperative,
):
    cooperative.heartbeat(ErrorCode.rebalance_in_progress)
    cooperative.do(cooperative.member.leave(cooperative.now, "bye"))
    assert cooperative.ends == [(End.CLOSED, None)]
    cooperative.joined(generation=2)
    cooperative.synced(0, 1)
    assert (cooperative.grants, cooperative.member.generation) == ([], 2)
    cooperative.drained()
    assert isinstance(cooperative.request, LeaveGroup)


def test_a_failed_application_does_not_rejoin_until_join(member):
    member.do(member.member.abort(member.now, "task failed"))
    assert member.ends == [(End.CLOSED, None)]
    member.drained()
    assert member.actions == ()
    member.heartbeat(ErrorCode.rebalance_in_progress)
    assert member.actions == ()
    member.join()
    member.advance(5_000)  # it pauses, so that it does not make the others rebalance all the time
    assert member.pending(JoinGroup)
    assert {each.request.member_id for each in member.sent.values()} == {"m1"}


def test_no_event_causes_actions_after_the_end(member):
    member.heartbeat(ErrorCode.fenced_instance_id)
    for event in (member.member.drained, member.member.tick, member.member.join):
        assert member.do(event(member.now)) == ()
    assert member.do(member.member.leave(member.now, "bye")) == ()


def test_a_response_to_an_abandoned_request_is_ignored(bench):
    bench.join()
    number = bench.action.number
    bench.fail(JoinGroup)
    assert bench.do(bench.member.responded(bench.now, number, SyncGroupResponse())) == ()


def test_a_grant_distinguishes_kept_added_and_revoked_partitions():
    grant = MembershipBench(cooperative=True).stable(3).history[-1]
    assert isinstance(grant, Start)
    assert grant.grant.added == (tp(3),)


def test_an_abort_during_a_join_does_not_leave_the_group(cooperative):
    cooperative.heartbeat(ErrorCode.rebalance_in_progress)
    cooperative.do(cooperative.member.abort(cooperative.now, "a task failed"))
    cooperative.drained()
    cooperative.joined(2)
    cooperative.synced(0, 1)
    cooperative.join()  # as the application does when it wants the next generation
    cooperative.heartbeat(ErrorCode.rebalance_in_progress)  # the others do not wait for its pause
    cooperative.joined(2)
    cooperative.synced(0, 1)
    assert cooperative.grants
    cooperative.heartbeat(ErrorCode.rebalance_in_progress)
    assert cooperative.pending(JoinGroup)
