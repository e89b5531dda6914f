"""How a rebalance goes: the initial delay, who is waited for and how long, and what each member is
told at its end.
"""

import pytest

from kohort.coordinator.classic import State
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.records import GroupMetadataKey, GroupMetadataRecord, GroupMetadataValue
from kohort.coordinator.responses import JoinedMember, JoinGroupResponse, SyncGroupResponse
from kohort.coordinator.result import JoinPhaseEnds, SessionExpires, SyncPhaseEnds
from kohort.errors import ErrorCode
from kohort.testing.bench import Bench

DELAYED = GroupCoordinatorConfig(initial_rebalance_delay_ms=3_000)


def empty_group(bench, generation, protocol_type="consumer"):
    """The record of a group that nobody is left in."""
    value = GroupMetadataValue(protocol_type, generation, None, None, bench.now, ())
    return GroupMetadataRecord(GroupMetadataKey("g"), value)


def keep_alive(bench, ids, generation, ms):
    """Heartbeats of these members for `ms`, which sessions of 10 s need."""
    for _ in range(ms // 5_000):
        bench.advance(5_000)
        for member_id in ids:
            bench.heartbeat("g", member_id, generation)


# --- the initial delay (KIP-134) ---


def test_the_first_round_waits_for_the_initial_delay():
    bench = Bench(DELAYED)
    joining = bench.handshake()
    assert bench.advance(2_999) == []
    assert joining.parked
    bench.advance(1)
    assert joining.response.generation == 1


def test_every_new_member_extends_the_delay_by_as_much_once_the_first_is_over():
    bench = Bench(DELAYED)
    first = bench.handshake()
    bench.advance(1_000)
    second = bench.handshake()
    bench.advance(2_000)
    assert first.parked
    bench.advance(1_000)
    third = bench.handshake()
    bench.advance(2_000)
    assert second.parked
    bench.advance(3_000)
    assert {call.response.generation for call in (first, second, third)} == {1}


def test_without_another_new_member_the_delay_is_not_extended():
    bench = Bench(DELAYED)
    joining = bench.handshake()
    bench.advance(1_000)
    bench.join("g", joining.request.member_id, protocols={"range": b"changed"})
    bench.advance(2_000)
    assert bench.state() is State.COMPLETING_REBALANCE


def test_the_extension_is_bounded_by_the_longest_rebalance_timeout():
    """3 s, then what is left of 7 s in parts of 3 s: 3, 3 and 1."""
    bench = Bench(DELAYED)
    first = bench.handshake(rebalance_timeout_ms=7_000)
    began = bench.now
    while first.parked:
        bench.advance(500)
        bench.handshake(rebalance_timeout_ms=7_000)
    assert bench.now - began == 7_000


def test_a_rebalance_timeout_within_the_delay_is_not_extended():
    bench = Bench(DELAYED)
    first = bench.handshake(rebalance_timeout_ms=2_000)
    bench.advance(1_000)
    bench.handshake(rebalance_timeout_ms=2_000)
    bench.advance(2_000)
    assert first.response.generation == 1


def test_pending_ids_do_not_hold_up_the_first_round():
    bench = Bench(DELAYED)
    joining = bench.handshake()
    bench.join()
    bench.advance(3_000)
    assert joining.response.generation == 1


def test_a_group_that_everybody_left_during_the_delay_gives_the_next_joiner_generation_1():
    """§1.5."""
    bench = Bench(DELAYED)
    joining = bench.handshake()
    bench.leave("g", joining.request.member_id)
    assert joining.response.error is ErrorCode.unknown_member_id
    assert bench.state() is State.PREPARING_REBALANCE
    assert len(bench.log) == 1
    next_joining = bench.handshake()
    bench.advance(6_000)
    assert next_joining.response.generation == 1


def test_a_delay_that_ends_without_any_member_leaves_the_group_empty_in_generation_1():
    bench = Bench(DELAYED)
    joining = bench.handshake()
    bench.leave("g", joining.request.member_id)
    bench.advance(3_000)
    assert bench.state() is State.EMPTY
    assert bench.log[-1] == empty_group(bench, 1)


def test_a_group_that_was_empty_has_the_delay_again():
    bench = Bench(DELAYED)
    (member_id,) = bench.stable()
    bench.leave("g", member_id)
    joining = bench.handshake()
    assert bench.timer(JoinPhaseEnds("g")) == 3_000
    bench.advance(3_000)
    assert joining.response.generation == 3


def test_later_rounds_have_no_delay():
    bench = Bench(DELAYED)
    (member_id,) = bench.stable()
    newcomer = bench.handshake()
    bench.join("g", member_id)
    assert newcomer.response.generation == 2


# --- who is waited for ---


def test_the_join_phase_ends_as_soon_as_every_member_has_joined_again(bench):
    a, b, c = bench.stable(members=3)
    calls = [bench.join("g", a), bench.join("g", b)]
    assert all(call.parked for call in calls)
    calls.append(bench.join("g", c))
    assert [call.response.generation for call in calls] == [2, 2, 2]


def test_the_join_phase_is_as_long_as_the_longest_rebalance_timeout(bench):
    a = bench.handshake(rebalance_timeout_ms=1_000)
    b = bench.handshake(rebalance_timeout_ms=9_000)
    bench.advance(0)
    bench.join("g", a.response.member_id, protocols={"range": b"new"}, rebalance_timeout_ms=1_000)
    assert bench.timer(JoinPhaseEnds("g")) == 9_000
    assert b.response.member_id in bench.group().sessions
    bench.advance(9_000)
    assert b.response.member_id not in bench.group().sessions


def test_a_rejoin_with_other_timeouts_is_held_to_those(bench):
    """known-mistakes, Kafka of 2017: rejoin does not update timeouts."""
    leader, follower = bench.stable(members=2)
    bench.join("g", leader, rebalance_timeout_ms=2_000)
    bench.join("g", follower, rebalance_timeout_ms=2_000)
    assert bench.timer(SyncPhaseEnds("g")) == 2_000
    bench.sync("g", leader, 2)
    bench.sync("g", follower, 2)
    bench.join("g", leader, rebalance_timeout_ms=2_000)
    assert bench.timer(JoinPhaseEnds("g")) == 2_000


def test_dynamic_members_that_did_not_rejoin_are_removed(bench):
    leader, follower = bench.stable(members=2, session_timeout_ms=90_000)
    joining = bench.join("g", leader, session_timeout_ms=90_000)
    bench.advance(59_999)
    assert joining.parked
    assert bench.heartbeat("g", follower, 1).error == "rebalance_in_progress"
    bench.advance(1)
    assert joining.response.members == (
        JoinedMember(member_id=leader, instance_id=None, metadata=b"range-metadata"),
    )
    assert bench.heartbeat("g", follower, 1).error == "unknown_member_id"
    assert bench.timer(SessionExpires("g", follower)) is None
    assert bench.join("g", follower).error == "unknown_member_id"


def test_static_members_that_did_not_rejoin_stay(bench):
    """known-mistakes, Kafka of 2017: laggards removed even if static."""
    a, b = (bench.join(instance_id=name, session_timeout_ms=90_000) for name in ("a", "b"))
    bench.advance(0)
    leader, absent = a.response.member_id, b.response.member_id
    bench.sync("g", leader, 1, instance_id="a")
    bench.sync("g", absent, 1, instance_id="b")
    joining = bench.join("g", leader, instance_id="a", session_timeout_ms=90_000)
    bench.advance(60_000)
    assert joining.response.generation == 2
    assert [member.member_id for member in joining.response.members] == [leader, absent]
    assert bench.heartbeat("g", absent, 2, instance_id="b").error == "none"


def test_an_absent_leader_is_followed_by_a_member_that_joined(bench):
    leader, follower = bench.stable(members=2)
    newcomer = bench.handshake()
    joining = bench.join("g", follower)
    keep_alive(bench, [leader], 1, 60_000)
    new_leader = joining.response.leader
    assert new_leader in (follower, newcomer.response.member_id)
    assert newcomer.response.leader == new_leader
    assert [
        len(call.response.members)
        for call in (joining, newcomer)
        if call.response.member_id == new_leader
    ] == [2]
    assert [
        call.response.members
        for call in (joining, newcomer)
        if call.response.member_id != new_leader
    ] == [()]


def test_an_absent_static_leader_is_followed_too(bench):
    a, b = (bench.join(instance_id=name, session_timeout_ms=90_000) for name in ("a", "b"))
    bench.advance(0)
    leader, follower = a.response.leader, b.response.member_id
    assert leader == a.response.member_id
    rejoining = bench.join("g", follower, instance_id="b", protocols={"range": b"new"})
    bench.advance(60_000)
    assert rejoining.response.leader == follower
    assert [member.member_id for member in rejoining.response.members] == [leader, follower]


def test_a_join_phase_in_which_nobody_rejoined_goes_on_with_the_static_members(bench):
    a, b = (bench.join(instance_id=name, rebalance_timeout_ms=8_000) for name in ("a", "b"))
    bench.advance(0)
    pending = bench.join().response.member_id
    for call, name in ((a, "a"), (b, "b")):
        bench.sync("g", call.response.member_id, 1, instance_id=name)
    bench.leave("g", pending)
    assert bench.state() is State.PREPARING_REBALANCE
    assert bench.advance(8_000) == [JoinPhaseEnds("g")]
    assert bench.state() is State.PREPARING_REBALANCE
    assert bench.timer(JoinPhaseEnds("g")) == 8_000
    again = [
        bench.join("g", call.response.member_id, instance_id=name)
        for call, name in ((a, "a"), (b, "b"))
    ]
    assert [call.response.generation for call in again] == [2, 2]


# --- pending ids ---


def test_a_pending_id_holds_up_the_join_phase_until_it_joins(bench):
    (member_id,) = bench.stable()
    pending = bench.join().response.member_id
    joining = bench.join("g", member_id)
    assert joining.parked
    assert bench.join("g", pending).response.generation == 2
    assert joining.response.generation == 2


def test_a_pending_id_holds_up_the_join_phase_until_it_leaves(bench):
    (member_id,) = bench.stable()
    pending = bench.join().response.member_id
    joining = bench.join("g", member_id)
    assert bench.leave("g", pending).response.members[0].error is ErrorCode.none
    assert joining.response.generation == 2


def test_a_pending_id_holds_up_the_join_phase_until_its_session_timer_fires(bench):
    (member_id,) = bench.stable()
    pending = bench.join(session_timeout_ms=6_000).response.member_id
    joining = bench.join("g", member_id)
    bench.advance(5_999)
    assert joining.parked
    assert bench.advance(1) == [SessionExpires("g", pending)]
    assert joining.response.generation == 2


def test_a_pending_id_holds_up_the_join_phase_no_longer_than_the_rebalance_timeout(bench):
    (member_id,) = bench.stable(rebalance_timeout_ms=2_000)
    pending = bench.join(session_timeout_ms=60_000).response.member_id
    joining = bench.join("g", member_id, rebalance_timeout_ms=2_000)
    bench.advance(2_000)
    assert joining.response.generation == 2
    assert bench.join("g", pending).parked


# --- what a round that is disturbed does ---


def test_a_rebalance_in_completing_answers_the_parked_syncs_27_and_forgets_the_sync_timer(bench):
    joins = [bench.handshake() for _ in range(3)]
    bench.advance(0)
    leader = joins[0].response.leader
    follower, other = (
        call.response.member_id for call in joins if call.response.member_id != leader
    )
    syncing = bench.sync("g", follower, 1)
    assert syncing.parked
    changed = bench.join("g", other, protocols={"range": b"new"})
    assert syncing.response == SyncGroupResponse(error=ErrorCode.rebalance_in_progress)
    assert bench.timer(SyncPhaseEnds("g")) is None
    assert bench.timer(JoinPhaseEnds("g")) == 60_000
    assert changed.parked


def test_a_member_whose_parked_sync_was_answered_27_has_its_session_again(bench):
    """Its timer may have fired, to no effect, while the request was parked."""
    joins = [bench.handshake(rebalance_timeout_ms=300_000) for _ in range(3)]
    bench.advance(0)
    leader = joins[0].response.leader
    follower, other = (
        call.response.member_id for call in joins if call.response.member_id != leader
    )
    bench.sync("g", follower, 1)
    keep_alive(bench, [leader, other], 1, 20_000)
    bench.leave("g", other)
    assert bench.timer(SessionExpires("g", follower)) == 10_000
    keep_alive(bench, [leader], 1, 10_000)
    assert set(bench.group().sessions) == {leader}


def test_a_round_that_was_not_synced_is_the_base_of_its_successor(bench):
    leader, follower = bench.stable(members=2)
    bench.join("g", leader)
    bench.join("g", follower)
    assert bench.group().generation == 2
    bench.join("g", follower, protocols={"range": b"new"})
    assert bench.heartbeat("g", leader, 2).error == "rebalance_in_progress"
    assert bench.heartbeat("g", leader, 1).error == "illegal_generation"
    assert bench.join("g", leader).response.generation == 3


def test_a_round_that_was_not_synced_leaves_no_trace_in_the_log(bench):
    leader, follower = bench.stable(members=2)
    logged = list(bench.log)
    bench.join("g", leader)
    bench.join("g", follower)
    assert bench.log == logged
    bench.restart()
    assert bench.group().generation == 1


# --- its end ---


def test_all_members_get_the_generation_and_only_the_leader_the_members(bench):
    joins = [bench.handshake(client_id=name, protocols={"range": name.encode()}) for name in "ab"]
    bench.advance(0)
    a, b = (call.response.member_id for call in joins)
    common = {"generation": 1, "protocol_type": "consumer", "protocol_name": "range", "leader": a}
    everyone = (
        JoinedMember(member_id=a, instance_id=None, metadata=b"a"),
        JoinedMember(member_id=b, instance_id=None, metadata=b"b"),
    )
    assert joins[0].response == JoinGroupResponse(member_id=a, members=everyone, **common)
    assert joins[1].response == JoinGroupResponse(member_id=b, members=(), **common)


def test_the_answers_restart_every_session(bench):
    leader, follower = bench.stable(members=2)
    bench.advance(4_000)
    bench.join("g", leader)
    bench.advance(4_000)
    bench.join("g", follower)
    assert [
        bench.group().sessions[member_id].deadline - bench.now for member_id in (leader, follower)
    ] == [10_000] * 2


def test_when_nobody_is_left_the_group_is_empty_one_generation_on_and_logged_so(bench):
    (member_id,) = bench.stable()
    call = bench.leave("g", member_id)
    assert call.result.records == (empty_group(bench, 2),)
    assert bench.state() is State.EMPTY
    assert list(bench.timers) == []


def test_an_awaited_member_whose_session_ends_no_longer_holds_up_the_join_phase(bench):
    leader, follower = bench.stable(members=2)
    joining = bench.join("g", leader)
    assert set(bench.advance(10_000)) == {
        SessionExpires("g", follower),
        SessionExpires("g", leader),
    }
    assert joining.response.generation == 2
    assert set(bench.group().sessions) == {leader}


@pytest.mark.parametrize("members", [1, 2, 40])
def test_one_result_answers_every_parked_member(bench, members):
    ids = bench.stable(members=members)
    *_, last = [bench.join("g", member_id) for member_id in ids]
    assert len(last.result.replies) == members
    assert len({reply.on_response for reply in last.result.replies}) == members
