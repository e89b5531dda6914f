"""LeaveGroup: who leaves with which answer, and what of it rebalances those who stay."""

import pytest

from kohort.coordinator.classic import State
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.journal import Cause
from kohort.coordinator.records import GroupMetadataKey, GroupMetadataRecord, GroupMetadataValue
from kohort.coordinator.responses import JoinGroupResponse, LeaveGroupResponse, LeftMember
from kohort.coordinator.result import JoinPhaseEnds, SessionExpires, SyncPhaseEnds
from kohort.coordinator_common import Cancel, Timer
from kohort.errors import ErrorCode
from kohort.testing.bench import Bench

EVERY_VERSION = range(6)


def left(*members):
    """The answer with (member id, instance id, error's name) for each member."""
    return LeaveGroupResponse(
        members=tuple(LeftMember(m, i, ErrorCode[error]) for m, i, error in members)
    )


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_an_empty_group_id_is_invalid(bench, version):
    assert bench.leave("", "m", version=version).response == LeaveGroupResponse(
        error=ErrorCode.invalid_group_id
    )


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_members_of_an_unknown_group_are_unknown_each(bench, version):
    call = bench.leave("g", "a", ("b", "i"), ("", "i"), version=version)
    assert call.response == left(
        ("a", None, "unknown_member_id"),
        ("b", "i", "unknown_member_id"),
        ("", "i", "unknown_member_id"),
    )
    assert bench.state() is State.DEAD


def test_members_of_an_empty_group_are_unknown(bench):
    (member_id,) = bench.stable()
    bench.leave("g", member_id)
    call = bench.leave("g", member_id)
    assert call.response == left((member_id, None, "unknown_member_id"))
    assert call.result.records == ()


def test_a_member_leaves_and_the_others_rebalance(bench):
    leader, follower = bench.stable(members=2)
    call = bench.leave("g", follower)
    assert call.response == left((follower, None, "none"))
    assert call.result.records == ()
    assert call.result.timers == (
        Cancel(SessionExpires("g", follower)),
        Cancel(SyncPhaseEnds("g")),
        Timer(JoinPhaseEnds("g"), bench.now + 60_000),
    )
    assert bench.heartbeat("g", leader, 1).error == "rebalance_in_progress"
    assert bench.heartbeat("g", follower, 1).error == "unknown_member_id"


def test_the_generation_moves_when_the_round_completes_not_at_the_leave(bench):
    """known-mistakes, SeaweedFS: survivors get 22 instead of 27 and valid commits are refused."""
    leader, follower = bench.stable(members=2)
    bench.leave("g", follower)
    assert bench.heartbeat("g", leader, 1).error == "rebalance_in_progress"
    call = bench.commit("g", {("t", 0): 5}, member_id=leader, generation=1)
    assert call.response.results[0][1] is ErrorCode.none
    assert bench.join("g", leader).response.generation == 2


def test_when_the_leader_leaves_another_one_leads(bench):
    leader, follower = bench.stable(members=2)
    bench.leave("g", leader)
    assert bench.join("g", follower).response.leader == follower


def test_a_leave_between_join_and_sync_starts_over(bench):
    joins = [bench.handshake() for _ in range(2)]
    bench.advance(0)
    bench.leave("g", joins[1].response.member_id)
    assert bench.state() is State.PREPARING_REBALANCE
    assert bench.join("g", joins[0].response.member_id).response.generation == 2


def test_a_leave_of_the_last_awaited_member_ends_the_join_phase(bench):
    leader, follower = bench.stable(members=2)
    joining = bench.join("g", leader)
    bench.leave("g", follower)
    assert joining.response.generation == 2


def test_the_parked_join_of_a_member_that_leaves_is_answered_unknown(bench):
    leader, follower = bench.stable(members=2)
    joining = bench.join("g", follower, protocols={"range": b"new"})
    bench.leave("g", follower)
    assert joining.response == JoinGroupResponse(error=ErrorCode.unknown_member_id)
    assert bench.join("g", leader).response.generation == 2


def test_when_the_last_member_leaves_the_group_is_empty_one_generation_on(bench):
    (member_id,) = bench.stable()
    call = bench.leave("g", member_id)
    value = GroupMetadataValue("consumer", 2, None, None, bench.now, ())
    assert call.result.records == (GroupMetadataRecord(GroupMetadataKey("g"), value),)
    assert bench.state() is State.EMPTY


def test_during_the_initial_delay_the_group_stays_preparing_without_members():
    bench = Bench(GroupCoordinatorConfig())
    joining = bench.handshake()
    call = bench.leave("g", joining.request.member_id)
    assert call.result.records == ()
    assert bench.state() is State.PREPARING_REBALANCE
    assert bench.timer(JoinPhaseEnds("g")) == 3_000


# --- several members ---


def test_many_members_leave_in_one_rebalance(bench):
    """known-mistakes, SeaweedFS: admin removal by instance id refused, the batch dropped."""
    leader, b, c = bench.stable(members=3)
    call = bench.leave("g", b, "nobody", c)
    assert call.response == left(
        (b, None, "none"), ("nobody", None, "unknown_member_id"), (c, None, "none")
    )
    assert bench.join("g", leader).response.generation == 2


def test_all_members_leave_in_one_request(bench):
    ids = bench.stable(members=3)
    call = bench.leave("g", *ids)
    assert [member.error for member in call.response.members] == [ErrorCode.none] * 3
    assert [record.value.generation for record in call.result.records] == [2]


def test_a_member_named_twice_leaves_once(bench):
    member_id, _ = bench.stable(members=2)
    call = bench.leave("g", member_id, member_id)
    assert [member.error.name for member in call.response.members] == ["none", "unknown_member_id"]


def test_without_a_removal_nothing_happens(bench):
    bench.stable()
    bench.leave("g", "nobody", ("", None), ("", "i"))
    assert bench.state() is State.STABLE
    assert bench.leave("g").response == left()


# --- static members ---


def test_an_administrator_removes_a_static_member_by_its_instance_id(bench):
    """The answer repeats the empty member id that was asked for."""
    bench.join(instance_id="i")
    bench.advance(0)
    call = bench.leave("g", ("", "i"), version=3)
    assert call.response == left(("", "i", "none"))
    assert bench.state() is State.EMPTY
    assert bench.group().instances == {}


def test_an_empty_member_id_needs_a_known_instance(bench):
    bench.join(instance_id="i")
    bench.advance(0)
    call = bench.leave("g", ("", "other"), ("", None))
    assert call.response == left(
        ("", "other", "unknown_member_id"), ("", None, "unknown_member_id")
    )


def test_an_instance_of_another_member_is_fenced(bench):
    joining = bench.join(instance_id="i")
    bench.advance(0)
    call = bench.leave("g", ("other", "i"), (joining.response.member_id, "j"))
    assert call.response == left(
        ("other", "i", "fenced_instance_id"), (joining.response.member_id, "j", "unknown_member_id")
    )


@pytest.mark.parametrize("instance_id", ["i", None])
def test_a_static_member_leaves_by_its_member_id_with_its_instance_id_or_without(
    bench, instance_id
):
    joining = bench.join(instance_id="i")
    bench.advance(0)
    member_id = joining.response.member_id
    assert bench.leave("g", (member_id, instance_id)).response == left(
        (member_id, instance_id, "none")
    )


# --- pending ids ---


def test_a_pending_id_leaves(bench):
    pending = bench.join().response.member_id
    call = bench.leave("g", pending)
    assert call.response == left((pending, None, "none"))
    assert call.result.timers == (Cancel(SessionExpires("g", pending)),)
    assert bench.join("g", pending).error == "unknown_member_id"
    assert bench.state() is State.EMPTY


def test_a_pending_id_that_leaves_rebalances_a_stable_group(bench):
    """§3, Pending ids."""
    (member_id,) = bench.stable()
    bench.leave("g", bench.join().response.member_id)
    assert bench.heartbeat("g", member_id, 1).error == "rebalance_in_progress"


# --- what the journal keeps ---


def test_the_reason_of_a_leave_is_kept(bench):
    """KIP-800."""
    leader, follower = bench.stable(members=2, client_id="web")
    bench.leave("g", follower, reason="the consumer is being closed")
    bench.join("g", leader)
    bench.sync("g", leader, 2)
    assert bench.journal[-1].causes == (
        Cause("left", follower, "web", "the consumer is being closed"),
    )
