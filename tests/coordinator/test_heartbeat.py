"""Heartbeat: fine, or why not; the member, then the generation, then the state."""

import pytest

from kohort.coordinator.classic import State
from kohort.coordinator.responses import HeartbeatResponse
from kohort.coordinator.result import Result
from kohort.types import Reply


def test_an_empty_group_id_is_invalid(bench):
    assert bench.heartbeat("", "m", 1).error == "invalid_group_id"


def test_a_member_of_an_unknown_group_is_unknown(bench):
    """known-mistakes, SeaweedFS: unknown group answered 24, which is fatal for clients."""
    assert bench.heartbeat("g", "m", 1).error == "unknown_member_id"
    assert bench.state() is State.DEAD


def test_a_member_of_an_empty_group_is_unknown(bench):
    (member_id,) = bench.stable()
    bench.leave("g", member_id)
    assert bench.heartbeat("g", member_id, 1).error == "unknown_member_id"


def test_a_member_of_a_simple_group_is_unknown(bench):
    bench.commit("g", {("t", 0): 1})
    assert bench.heartbeat("g", "m", -1).error == "unknown_member_id"


def test_a_pending_id_is_no_member_yet(bench):
    bench.stable()
    assert bench.heartbeat("g", bench.join().response.member_id, 1).error == "unknown_member_id"


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_another_generation_is_illegal(bench, generation):
    (member_id,) = bench.stable()
    assert bench.heartbeat("g", member_id, generation).error == "illegal_generation"


def test_the_member_is_checked_before_the_generation(bench):
    bench.stable()
    assert bench.heartbeat("g", "nobody", 9).error == "unknown_member_id"


def test_the_generation_is_checked_before_the_state(bench):
    leader, follower = bench.stable(members=2)
    bench.join("g", leader)
    assert bench.heartbeat("g", follower, 2).error == "illegal_generation"
    assert bench.heartbeat("g", follower, 1).error == "rebalance_in_progress"


def test_in_stable_a_heartbeat_is_fine_and_nothing_but_its_answer(bench):
    (member_id,) = bench.stable()
    call = bench.heartbeat("g", member_id, 1)
    assert call.result == Result(replies=(Reply(call.request.on_response, HeartbeatResponse()),))


def test_between_join_and_sync_a_heartbeat_is_fine(bench):
    """known-mistakes, Kafka of 2017 and librdkafka's mock: 27 in CompletingRebalance."""
    joining = bench.handshake()
    bench.advance(0)
    assert bench.state() is State.COMPLETING_REBALANCE
    assert bench.heartbeat("g", joining.response.member_id, 1).error == "none"


def test_members_parked_in_the_join_phase_get_rebalance_in_progress_too(bench):
    leader, _ = bench.stable(members=2)
    bench.join("g", leader)
    assert bench.heartbeat("g", leader, 1).error == "rebalance_in_progress"


def test_after_the_round_the_old_generation_is_illegal(bench):
    leader, follower = bench.stable(members=2)
    bench.join("g", leader)
    bench.join("g", follower)
    assert bench.heartbeat("g", follower, 1).error == "illegal_generation"
    assert bench.heartbeat("g", follower, 2).error == "none"
