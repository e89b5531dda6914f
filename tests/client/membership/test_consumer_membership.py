"""What a member of the consumer protocol does, state by state and error by error (KIP-848)."""

from uuid import UUID

import pytest

from client.membership.bench import TOPIC, tp, tps
from client.membership.consumer_bench import INTERVAL_MS, TOPIC_ID, ConsumerBench, ids
from kohort.client.group_errors import CoordinatorUnavailableError
from kohort.client.membership.consumer_state import ConsumerPhase
from kohort.client.membership.events import (
    End,
    EndPartitions,
    ForgetCoordinator,
    Left,
    Raise,
)
from kohort.errors import ErrorCode
from kohort.types import TopicPartition

OTHER_ID = UUID(int=2)


def test_a_join_has_epoch_0_and_all_fields():
    bench = ConsumerBench(topics=["b", "a"], rack="r1", remote_assignor="range")
    bench.join()
    request = bench.request
    assert (request.member_id, request.epoch) == ("m1", 0)
    assert (request.topics, request.pattern) == (("a", "b"), None)
    assert (request.rack, request.assignor) == ("r1", "range")
    assert request.rebalance_timeout_ms == bench.config.rebalance_timeout_ms
    assert request.owned == frozenset()
    assert bench.member.phase is ConsumerPhase.JOINING


def test_a_pattern_is_sent_unchanged_and_without_topics():
    bench = ConsumerBench(pattern=r"(?<y>\Qa\E)")
    bench.join()
    assert (bench.request.topics, bench.request.pattern) == ((), r"(?<y>\Qa\E)")


def test_an_assignment_is_resolved_started_and_acknowledged_at_once():
    bench = ConsumerBench()
    bench.join()
    bench.answer(epoch=4, assignment=ids(0, 1))
    assert bench.asked_names == [{TOPIC_ID}]
    assert bench.member.phase is ConsumerPhase.RECONCILING
    bench.named()
    (grant,) = bench.grants
    assert (grant.generation, grant.assignment, grant.added) == (4, tps(0, 1), tps(0, 1))
    assert grant.topic_ids == {TOPIC: TOPIC_ID}
    request = bench.request
    assert (request.epoch, request.owned, request.topics) == (4, ids(0, 1), None)
    assert bench.member.phase is ConsumerPhase.ACKNOWLEDGING
    bench.answer(epoch=4)
    assert bench.member.phase is ConsumerPhase.STABLE
    assert bench.member.deadline == bench.now + INTERVAL_MS


def test_an_empty_assignment_is_a_generation_and_acknowledged():
    bench = ConsumerBench().joined(epoch=3)
    assert bench.grants[0].assignment == ()
    assert bench.request.owned == frozenset()


def test_heartbeats_of_a_stable_member_have_no_optional_fields():
    bench = ConsumerBench().stable(0)
    request = bench.until_heartbeat()
    assert (request.topics, request.owned, request.rack) == (None, None, None)
    assert request.rebalance_timeout_ms == -1


def test_the_epoch_grows_within_a_generation():
    bench = ConsumerBench().stable(0, epoch=2)
    bench.heartbeat(epoch=3)
    assert (bench.actions, bench.member.generation) == ((), 3)


def test_new_partitions_are_added_without_stopping_the_others():
    bench = ConsumerBench().stable(0)
    bench.heartbeat(epoch=2, assignment=ids(0, 1))
    (grant,) = bench.grants
    assert (grant.added, grant.kept, grant.revoked) == (tps(1), tps(0), ())
    assert bench.ends == []
    assert bench.request.owned == ids(0, 1)


def test_revoked_partitions_drain_before_they_are_acknowledged():
    bench = ConsumerBench().stable(0, 1)
    bench.heartbeat(assignment=ids(0))
    assert bench.ends == [(End.REVOKED, tps(1))]
    assert (bench.grants[0].kept, bench.grants[0].revoked) == (tps(0), tps(1))
    for _ in range(2):
        assert bench.until_heartbeat().owned is None  # one that is left out would be released
        bench.answer()
    bench.drained()
    assert bench.request.owned == ids(0)


def test_a_newer_assignment_replaces_the_one_that_waits():
    bench = ConsumerBench().stable(0, 1, 2)
    bench.heartbeat(assignment=ids(0, 1))
    bench.heartbeat(assignment=ids(0, 3))
    assert bench.actions == ()
    bench.drained()
    assert bench.ends == [(End.REVOKED, tps(1))]
    bench.drained()
    assert bench.grants[0].assignment == tps(0, 3)
    assert bench.request.owned == ids(0, 3)


def test_an_assignment_that_arrives_with_the_acknowledgement_is_acknowledged_itself():
    bench = ConsumerBench().joined(0)
    bench.answer(epoch=2, assignment=ids(0, 1))
    assert bench.request.owned == ids(0, 1)
    bench.answer(epoch=2)
    assert bench.member.phase is ConsumerPhase.STABLE


def test_an_equal_assignment_is_acknowledged_without_a_generation():
    bench = ConsumerBench().stable(0)
    bench.heartbeat(assignment=ids(0))
    assert bench.grants == []
    assert bench.request.owned == ids(0)


def test_after_a_lost_response_the_next_heartbeat_has_all_fields():
    bench = ConsumerBench().stable(0, 1)
    bench.heartbeat(assignment=ids(0))
    bench.until_heartbeat()
    bench.fail()
    request = bench.until_heartbeat()
    assert request.topics == (TOPIC,)
    assert request.rebalance_timeout_ms == bench.config.rebalance_timeout_ms
    assert request.owned == ids(0, 1)  # it drains still
    bench.answer()
    assert bench.until_heartbeat().topics is None


@pytest.mark.parametrize(
    "code", [ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator]
)
def test_after_a_retriable_error_the_next_heartbeat_has_all_fields(code):
    bench = ConsumerBench().stable(0)
    bench.heartbeat(code)
    assert bench.ends == []
    assert (ForgetCoordinator() in bench.actions) == (code is ErrorCode.not_coordinator)
    assert bench.until_heartbeat().owned == ids(0)


@pytest.mark.parametrize("code", [ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch])
def test_a_fenced_member_loses_all_partitions_and_rejoins_with_its_id(code):
    bench = ConsumerBench().stable(0, 1)
    bench.heartbeat(code)
    assert bench.ends == [(End.LOST, None)]
    assert bench.requests == []
    assert bench.member.generation == -1
    bench.drained()
    if code is ErrorCode.fenced_member_epoch:
        assert bench.request.epoch == -1
        bench.answer(epoch=-1)
    assert (bench.request.epoch, bench.request.member_id) == (0, "m1")
    assert bench.request.owned == frozenset()
    bench.answer(epoch=7, assignment=ids(1))
    assert bench.grants[0].added == tps(1)


@pytest.mark.parametrize("instance_id", [None, "i"])
@pytest.mark.parametrize("how", ["fenced", "without responses for a session"])
def test_a_member_that_the_group_may_have_leaves_before_it_rejoins(how, instance_id):
    """Its next epoch is another one: a commit from before it is refused, if it comes only now.

    That holds for a static member as well, whose return after -2 would let it keep what it had.
    """
    bench = ConsumerBench(instance_id=instance_id).stable(0)
    if how == "fenced":
        bench.heartbeat(ErrorCode.fenced_member_epoch)
    while not bench.ends:
        bench.fail() if bench.sent else bench.advance()
    bench.drained()
    assert bench.request.epoch == -1
    bench.fail()
    assert bench.until_heartbeat().epoch == -1
    bench.answer(epoch=-1)
    assert bench.request.epoch == 0


def test_a_static_member_that_is_unknown_joins_at_once():
    bench = ConsumerBench(instance_id="i").stable(0)
    bench.heartbeat(ErrorCode.unknown_member_id)
    bench.drained()
    assert bench.request.epoch == 0


@pytest.mark.parametrize("code", [ErrorCode.none, ErrorCode.unknown_member_id])
def test_a_static_member_whose_join_got_no_response_leaves_before_the_next(code):
    """Its first join may have made it a member: the second would get UNRELEASED_INSTANCE_ID."""
    bench = ConsumerBench(instance_id="i")
    bench.join()
    bench.fail()
    assert bench.until_heartbeat().epoch == -2
    bench.answer(code)
    assert bench.request.epoch == 0


FATAL = [
    ErrorCode.group_authorization_failed,
    ErrorCode.unsupported_version,
    ErrorCode.invalid_request,
    ErrorCode.group_max_size_reached,
    ErrorCode.fenced_instance_id,
    ErrorCode.unreleased_instance_id,
    ErrorCode.unsupported_assignor,
    ErrorCode.invalid_regular_expression,
    ErrorCode.group_id_not_found,
    ErrorCode.unknown_server_error,
]


@pytest.mark.parametrize("code", FATAL)
@pytest.mark.parametrize("stable", [False, True])
def test_other_errors_end_the_membership(code, stable):
    bench = ConsumerBench()
    if stable:
        bench.stable(0)
        bench.until_heartbeat()
    else:
        bench.join()
    bench.answer(code, message="because")
    raised = bench.actions[-1]  # type: ignore[misc]
    assert isinstance(raised, Raise)
    assert raised.error.code is code
    assert "because" in str(raised.error)
    assert bench.ends == ([(End.LOST, None)] if stable else [])
    assert bench.member.is_over
    bench.drained()
    assert (bench.actions, bench.member.deadline) == ((), None)


def test_a_topic_that_may_not_be_described_ends_a_join():
    bench = ConsumerBench()
    bench.join()
    bench.answer(ErrorCode.topic_authorization_failed)
    assert isinstance(bench.actions[-1], Raise)  # type: ignore[misc]


def test_a_topic_that_may_no_longer_be_described_is_logged_and_ends_nothing():
    bench = ConsumerBench().stable(0)
    bench.heartbeat(ErrorCode.topic_authorization_failed)
    assert bench.actions == ()
    assert "TOPIC_AUTHORIZATION_FAILED" in bench.reports[-1].detail
    assert bench.until_heartbeat().owned == ids(0)


def test_without_responses_for_a_session_all_partitions_are_lost():
    """Kafka's consumer does not count its session; two members would work on one partition."""
    bench = ConsumerBench(session_timeout_ms=30_000, rebalance_timeout_ms=60_000).stable(0)
    answered = bench.now
    while not bench.ends:
        bench.fail() if bench.sent else bench.advance()
    assert bench.ends == [(End.LOST, None)]
    assert bench.now - answered == 30_000


def test_the_session_starts_when_the_acknowledged_heartbeat_was_sent():
    bench = ConsumerBench(session_timeout_ms=30_000).stable(0)
    bench.until_heartbeat()
    sent = bench.now
    bench.advance(4_000)
    bench.answer()
    assert bench.member.session.alive_until == sent + 30_000


def test_a_session_lasts_three_intervals_at_least():
    bench = ConsumerBench(session_timeout_ms=6_000, heartbeat_interval_ms=1_000).stable(0)
    assert bench.member.session.alive_until == bench.now + 3 * INTERVAL_MS


def test_a_drain_ends_before_the_rebalance_timeout_of_the_first_response_that_was_lost():
    bench = ConsumerBench(rebalance_timeout_ms=30_000).stable(0, 1)
    bench.until_heartbeat()
    first = bench.now
    bench.advance(9_000)
    bench.fail()
    bench.until_heartbeat()
    assert bench.now - first > 9_000
    bench.answer(assignment=ids(0))
    assert bench.drain_ms == [min(20_000, 30_000 - 500 - (bench.now - first))]


def test_heartbeats_during_a_drain_do_not_prolong_it():
    bench = ConsumerBench(rebalance_timeout_ms=15_000, drain_timeout_ms=10_000).stable(0, 1)
    bench.heartbeat(assignment=ids(0))
    revoked = bench.now
    bench.heartbeat()
    assert bench.now > revoked
    bench.leave()
    assert bench.drain_ms == [15_000 - 500 - (bench.now - revoked)]


def test_a_revocation_that_cannot_be_acknowledged_in_time_costs_all_partitions():
    """The coordinator removes the member then, though its session is not over."""
    bench = ConsumerBench(rebalance_timeout_ms=15_000, session_timeout_ms=30_000).stable(0, 1)
    bench.heartbeat(assignment=ids(0))
    revoked = bench.now
    bench.drained()
    while not bench.ends:
        bench.fail() if bench.sent else bench.advance()
    assert (bench.ends, bench.now - revoked) == ([(End.LOST, None)], 15_000)


def test_a_revocation_whose_response_was_lost_must_be_acknowledged_in_time():
    bench = ConsumerBench(rebalance_timeout_ms=15_000, session_timeout_ms=30_000).stable(0, 1)
    bench.until_heartbeat()
    sent = bench.now
    while not bench.ends:
        bench.fail() if bench.sent else bench.advance()
    assert (bench.ends, bench.now - sent) == ([(End.LOST, None)], 15_000)


def test_partitions_of_topics_without_a_name_wait_for_it():
    bench = ConsumerBench()
    bench.join()
    bench.answer(assignment=ids(0) | ids(0, topic_id=OTHER_ID))
    bench.named({TOPIC_ID: TOPIC})
    assert bench.grants[0].assignment == tps(0)
    # A partition that is left out might be another member's when its name is known.
    assert bench.request.owned == ids(0) | ids(0, topic_id=OTHER_ID)
    bench.answer()
    assert bench.until_asked_names() == [{OTHER_ID}]
    bench.named({OTHER_ID: "other"})
    assert bench.grants[0].added == (TopicPartition("other", 0),)
    bench.answer()
    assert bench.request.owned == ids(0) | ids(0, topic_id=OTHER_ID)


def test_revoking_does_not_wait_for_names():
    bench = ConsumerBench().stable(0)
    bench.heartbeat(assignment=ids(0, topic_id=OTHER_ID))
    assert bench.asked_names == [{OTHER_ID}]
    assert bench.ends == [(End.REVOKED, tps(0))]


def test_a_recreated_topic_is_revoked_before_it_is_added():
    bench = ConsumerBench().stable(0)
    bench.heartbeat(assignment=ids(0, topic_id=OTHER_ID))
    bench.named({OTHER_ID: TOPIC})
    assert bench.grants == []
    bench.drained()
    assert bench.grants[0].added == tps(0)
    assert bench.grants[0].topic_ids == {TOPIC: OTHER_ID}


def test_a_lost_partition_that_stays_assigned_is_added_when_its_topic_is_resolved():
    bench = ConsumerBench().stable(0, 1)
    bench.lose(0)
    assert bench.ends == [(End.LOST, tps(0))]
    assert bench.asked_names == [{TOPIC_ID}]
    bench.named({})
    bench.drained()
    assert bench.grants == []
    bench.until_asked_names()
    bench.named()
    assert (bench.grants[0].added, bench.grants[0].kept) == (tps(0), tps(1))


def test_another_subscription_is_sent_at_once_and_alone():
    bench = ConsumerBench().stable(0)
    bench.subscribed.topics = ("new",)
    bench.do(bench.member.rejoin(bench.now, "changed"))
    request = bench.request
    assert (request.topics, request.owned, request.rebalance_timeout_ms) == (("new",), None, -1)
    bench.answer()
    assert bench.until_heartbeat().topics is None


def test_a_subscription_that_changes_during_a_heartbeat_follows_it():
    bench = ConsumerBench().stable(0)
    bench.until_heartbeat()
    bench.subscribed.topics = ("new",)
    bench.do(bench.member.rejoin(bench.now, "changed"))
    assert bench.requests == []
    bench.answer()
    assert bench.request.topics == ("new",)


def test_leaving_sends_the_leave_after_the_drain():
    bench = ConsumerBench().stable(0)
    bench.leave()
    assert bench.ends == [(End.CLOSED, None)]
    assert bench.requests == []
    assert bench.until_heartbeat().epoch == 1  # the session goes on while it drains
    bench.answer()
    bench.drained()
    assert bench.request.epoch == -1
    bench.answer(epoch=-1)
    assert bench.actions == (Left(),)


@pytest.mark.parametrize(("leave_group_on_close", "epoch"), [(None, -2), (True, -1), (False, None)])
def test_a_static_member_leaves_with_minus_2_unless_configured(leave_group_on_close, epoch):
    bench = ConsumerBench(instance_id="i", leave_group_on_close=leave_group_on_close).stable(0)
    bench.leave()
    bench.drained()
    assert [request.epoch for request in bench.requests] == ([] if epoch is None else [epoch])
    assert (Left() in bench.actions) == (epoch is None)


@pytest.mark.parametrize("code", [ErrorCode.unknown_member_id, ErrorCode.group_id_not_found])
def test_errors_of_leaving_are_a_success(code):
    bench = ConsumerBench().stable(0)
    bench.leave()
    bench.drained()
    bench.answer(code)
    assert bench.actions == (Left(),)


def test_leaving_ends_without_a_response():
    bench = ConsumerBench().stable(0)
    bench.leave()
    bench.drained()
    began = bench.now
    while not bench.member.is_over:
        bench.fail() if bench.sent else bench.advance()
    assert bench.now - began <= 5_000


def test_leaving_waits_for_the_response_to_the_heartbeat_in_flight():
    bench = ConsumerBench()
    bench.join()
    bench.leave()
    assert bench.requests == []
    bench.answer(assignment=ids(0))
    assert bench.grants == []
    assert bench.request.epoch == -1


def test_leaving_before_the_first_join_sends_nothing():
    bench = ConsumerBench()
    bench.leave()
    assert bench.actions == (Left(),)


def test_a_failed_application_stays_a_member_and_gets_its_partitions_back():
    bench = ConsumerBench().stable(0, 1)
    bench.abort()
    assert bench.ends == [(End.CLOSED, None)]
    bench.drained()
    bench.heartbeat(assignment=ids(0))
    assert bench.grants == []
    assert bench.request.owned == ids(0)
    bench.answer()
    bench.join()
    assert bench.until_granted().assignment == tps(0)


def test_the_pause_grows_with_each_failure_of_the_application():
    bench = ConsumerBench().stable(0)
    waits = []
    for _ in range(4):
        bench.abort()
        bench.drained()
        began = bench.now
        bench.join()
        bench.until_granted()
        waits.append(bench.now - began)
        if bench.sent is not None:
            bench.answer()
    assert waits == sorted(waits)
    assert waits[-1] > 1_000


def test_a_commit_that_is_refused_is_checked_by_a_heartbeat():
    bench = ConsumerBench().stable(0, epoch=3)
    for code in (ErrorCode.unknown_member_id, ErrorCode.stale_member_epoch):
        bench.do(bench.member.fenced(bench.now, 3, code))
        assert bench.request.owned == ids(0)
        assert bench.ends == []
        bench.answer(epoch=3)
    bench.do(bench.member.fenced(bench.now, 2, ErrorCode.unknown_member_id))
    assert bench.actions == ()


def test_a_first_join_fails_after_retry_timeout_ms_without_coordinator():
    bench = ConsumerBench(retry_timeout_ms=10_000)
    bench.join()
    began = bench.now
    while not bench.member.is_over:
        bench.fail() if bench.sent else bench.advance()
    assert bench.now - began <= 20_000
    (raised,) = [each for each in bench.history if isinstance(each, Raise)]
    assert isinstance(raised.error, CoordinatorUnavailableError)


def test_a_member_that_has_joined_retries_without_limit():
    bench = ConsumerBench(retry_timeout_ms=10_000).stable(0)
    until = bench.now + 100_000
    while bench.now < until:
        if any(isinstance(action, EndPartitions) for action in bench.actions):
            bench.drained()
        bench.fail() if bench.sent else bench.advance()
    assert not bench.member.is_over
    assert [report.event for report in bench.reports].count("unavailable") >= 3
    bench.until_heartbeat()
    bench.answer(epoch=-1)
    bench.answer(epoch=9, assignment=ids(0))
    assert bench.grants[0].assignment == (tp(0),)


def test_a_response_that_is_late_changes_nothing():
    bench = ConsumerBench(session_timeout_ms=15_000).stable(0)
    bench.until_heartbeat()
    late = bench.sent
    bench.advance(15_000)
    bench.drained()
    bench.sent = late
    bench.answer(epoch=5, assignment=ids(0, 1))
    assert bench.actions == ()
    assert bench.member.phase is ConsumerPhase.UNSUBSCRIBED
