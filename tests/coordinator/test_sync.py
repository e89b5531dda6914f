"""SyncGroup: who waits, who is refused, and how the leader's assignment makes the generation
stable.
"""

import pytest

from kohort.coordinator.classic import State
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
)
from kohort.coordinator.responses import SyncGroupResponse
from kohort.coordinator.result import JoinPhaseEnds, SessionExpires, SyncPhaseEnds
from kohort.coordinator_common import Cancel
from kohort.errors import ErrorCode
from kohort.testing.bench import Bench
from kohort.types import Reply

EVERY_VERSION = range(6)


def completing(bench, members=2, **options):
    """A group between join and sync in generation 1; its member ids, the leader's first."""
    calls = [bench.handshake(**options) for _ in range(members)]
    bench.advance(0)
    assert bench.state() is State.COMPLETING_REBALANCE
    leader = calls[0].response.leader
    return sorted(
        (call.response.member_id for call in calls), key=lambda member_id: member_id != leader
    )


def assigned(data):
    return SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=data)


# --- refusals, in Kafka's order ---


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_an_empty_group_id_is_invalid(bench, version):
    assert bench.sync("", "m", 1, version=version).response == SyncGroupResponse(
        error=ErrorCode.invalid_group_id
    )


@pytest.mark.parametrize("missing", [{"protocol_type": None}, {"protocol_name": None}])
def test_version_5_must_name_type_and_protocol_both(bench, missing):
    """§3: before the member and the generation are looked at."""
    assert bench.sync("g", "nobody", 9, **missing).error == "inconsistent_group_protocol"
    (leader,) = completing(bench, 1)
    assert bench.sync("g", leader, 1, **missing).error == "inconsistent_group_protocol"
    assert bench.sync("g", leader, 1, version=4, **missing).error == "none"


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_a_member_of_an_unknown_group_is_unknown(bench, version):
    assert bench.sync("g", "m", 1, version=version).response == SyncGroupResponse(
        error=ErrorCode.unknown_member_id
    )
    assert bench.state() is State.DEAD


def test_version_5_must_name_them_even_before_the_group_id(bench):
    assert bench.sync("", "m", 1, protocol_type=None).error == "inconsistent_group_protocol"


def test_a_member_of_an_empty_group_is_unknown(bench):
    (member_id,) = bench.stable()
    bench.leave("g", member_id)
    assert bench.sync("g", member_id, 2).error == "unknown_member_id"


def test_a_pending_id_is_no_member_yet(bench):
    bench.stable()
    pending = bench.join().response.member_id
    assert bench.sync("g", pending, 1).error == "unknown_member_id"


def test_the_member_is_checked_before_the_generation_and_that_before_the_protocol(bench):
    (leader,) = completing(bench, 1)
    assert bench.sync("g", "nobody", 9, protocol_name="other").error == "unknown_member_id"
    assert bench.sync("g", leader, 9, protocol_name="other").error == "illegal_generation"
    assert bench.sync("g", leader, 1, protocol_name="other").error == "inconsistent_group_protocol"


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_another_generation_is_illegal(bench, generation):
    """known-mistakes, Tansu: wrong generation in SyncGroup answered 27."""
    (leader,) = completing(bench, 1)
    assert bench.sync("g", leader, generation).error == "illegal_generation"


@pytest.mark.parametrize("other", [{"protocol_type": "connect"}, {"protocol_name": "sticky"}])
def test_another_type_or_protocol_than_chosen_is_inconsistent(bench, other):
    (leader,) = completing(bench, 1)
    assert bench.sync("g", leader, 1, **other).error == "inconsistent_group_protocol"
    assert bench.sync("g", leader, 1).error == "none"
    assert bench.sync("g", leader, 1, **other).error == "inconsistent_group_protocol"


def test_in_the_join_phase_a_rebalance_is_in_progress(bench):
    leader, follower = bench.stable(members=2)
    bench.join("g", leader)
    assert bench.sync("g", follower, 1).response == SyncGroupResponse(
        error=ErrorCode.rebalance_in_progress
    )
    assert bench.sync("g", follower, 2).error == "illegal_generation"


def test_in_the_join_phase_the_protocol_is_that_of_the_generation_before(bench):
    leader, follower = bench.stable(members=2)
    bench.join("g", leader)
    assert (
        bench.sync("g", follower, 1, protocol_name="sticky").error == "inconsistent_group_protocol"
    )


# --- the sync phase ---


def test_a_follower_is_parked_until_the_leader_assigns(bench):
    leader, follower = completing(bench)
    syncing = bench.sync("g", follower, 1)
    assert syncing.parked
    assert syncing.result.records == ()
    leading = bench.sync("g", leader, 1, {leader: b"one", follower: b"two"})
    assert leading.response == assigned(b"one")
    assert syncing.response == assigned(b"two")
    assert bench.state() is State.STABLE


def test_the_leaders_sync_is_one_record_and_answers_everybody_who_waits(bench):
    leader, follower = completing(bench)
    syncing = bench.sync("g", follower, 1)
    bench.advance(2_000)
    leading = bench.sync("g", leader, 1, {leader: b"one", follower: b"two"})

    def member(member_id, assignment):
        return MemberMetadata(
            member_id, None, "client", "/127.0.0.1", 60_000, 10_000, b"range-metadata", assignment
        )

    value = GroupMetadataValue(
        "consumer",
        1,
        "range",
        leader,
        bench.now,
        (member(leader, b"one"), member(follower, b"two")),
    )
    assert leading.result.records == (GroupMetadataRecord(GroupMetadataKey("g"), value),)
    assert leading.result.replies == (
        Reply(syncing.request.on_response, assigned(b"two")),
        Reply(leading.request.on_response, assigned(b"one")),
    )
    assert leading.result.timers == (Cancel(SyncPhaseEnds("g")),)
    assert [bench.group().sessions[m].deadline - bench.now for m in (leader, follower)] == [
        10_000,
        10_000,
    ]


def test_members_that_the_leaders_list_lacks_get_empty_bytes(bench):
    leader, follower = completing(bench)
    syncing = bench.sync("g", follower, 1)
    assert bench.sync("g", leader, 1, {}).response == assigned(b"")
    assert syncing.response == assigned(b"")


def test_the_last_duplicate_counts_and_unknown_members_are_ignored(bench):
    """§3, SyncGroup."""
    leader, follower = completing(bench)
    assignments = [(follower, b"first"), ("stranger", b"?"), (follower, b"last"), (leader, b"mine")]
    assert bench.sync("g", leader, 1, assignments).response == assigned(b"mine")
    assert bench.sync("g", follower, 1).response == assigned(b"last")
    assert {member.member_id for member in bench.log[-1].value.members} == {leader, follower}


def test_the_list_of_a_follower_is_ignored(bench):
    """§3, SyncGroup."""
    leader, follower = completing(bench)
    syncing = bench.sync("g", follower, 1, {leader: b"x", follower: b"x"})
    bench.sync("g", leader, 1, {leader: b"one", follower: b"two"})
    assert syncing.response == assigned(b"two")


def test_in_stable_everybody_gets_the_stored_assignment_whatever_is_sent(bench):
    leader, follower = bench.stable(members=2)
    for member_id in (leader, follower):
        call = bench.sync("g", member_id, 1, {leader: b"other", follower: b"other"})
        assert call.response == assigned(member_id.encode())
        assert call.result.records == ()


def test_the_latest_of_two_parked_syncs_of_one_member_gets_the_assignment(bench):
    """§3, Parked requests. Kafka never answers the older one; nobody is served by silence."""
    leader, follower = completing(bench)
    older, newer = bench.sync("g", follower, 1), bench.sync("g", follower, 1)
    assert older.response == SyncGroupResponse(error=ErrorCode.rebalance_in_progress)
    bench.sync("g", leader, 1, {follower: b"two"})
    assert newer.response == assigned(b"two")


def test_the_parked_sync_of_a_member_that_leaves_is_answered_unknown(bench):
    """§3, Parked requests: Kafka never answers it."""
    _, follower = completing(bench)
    syncing = bench.sync("g", follower, 1)
    bench.leave("g", follower)
    assert syncing.response == SyncGroupResponse(error=ErrorCode.unknown_member_id)


def test_a_newcomer_between_join_and_sync_starts_over(bench):
    """known-mistakes, SeaweedFS: a joiner between the leader's snapshot and its SyncGroup stays
    unassigned for ever.
    """
    leader, follower = completing(bench)
    syncing = bench.sync("g", follower, 1)
    newcomer = bench.handshake()
    assert syncing.response.error is ErrorCode.rebalance_in_progress
    assert bench.sync("g", leader, 1, {leader: b"all"}).error == "rebalance_in_progress"
    leading = bench.join("g", leader)
    bench.join("g", follower)
    assert len(leading.response.members) == 3
    assert newcomer.response.generation == 2


def test_when_the_leader_leaves_before_it_synced_another_one_leads(bench):
    leader, follower = completing(bench)
    syncing = bench.sync("g", follower, 1)
    bench.leave("g", leader)
    assert syncing.response.error is ErrorCode.rebalance_in_progress
    assert bench.join("g", follower).response.leader == follower


# --- the pending-sync timer ---


def test_a_leader_that_never_syncs_is_removed_and_the_group_rebalances(bench):
    """known-mistakes, Kafka of 2017: no pending-sync timer, a silent leader blocks the group."""
    leader, follower = completing(bench, session_timeout_ms=90_000)
    syncing = bench.sync("g", follower, 1)
    assert bench.timer(SyncPhaseEnds("g")) == 60_000
    assert bench.advance(60_000) == [SyncPhaseEnds("g")]
    assert syncing.response.error is ErrorCode.rebalance_in_progress
    assert bench.heartbeat("g", leader, 1).error == "unknown_member_id"
    assert bench.join("g", follower).response.leader == follower


def test_a_follower_that_never_syncs_is_removed_though_the_group_is_stable(bench):
    """§3, SyncGroup: the timer runs on in Stable; heartbeats do not replace a sync."""
    leader, follower = completing(bench, rebalance_timeout_ms=8_000)
    bench.sync("g", leader, 1)
    assert bench.state() is State.STABLE
    bench.advance(7_999)
    assert bench.heartbeat("g", follower, 1).error == "none"
    assert bench.advance(1) == [SyncPhaseEnds("g")]
    assert bench.heartbeat("g", follower, 1).error == "unknown_member_id"
    assert bench.heartbeat("g", leader, 1).error == "rebalance_in_progress"


def test_when_nobody_syncs_everybody_is_removed_and_the_group_is_empty(bench):
    completing(bench, rebalance_timeout_ms=2_000)
    bench.advance(2_000)
    assert bench.state() is State.EMPTY
    assert bench.group().generation == 2
    assert list(bench.timers) == []


def test_the_timer_is_gone_once_everybody_has_synced(bench):
    leader, follower = completing(bench)
    bench.sync("g", leader, 1)
    assert bench.timer(SyncPhaseEnds("g")) == 60_000
    bench.sync("g", follower, 1)
    assert bench.timer(SyncPhaseEnds("g")) is None


def test_the_timer_is_gone_when_who_had_not_synced_left(bench):
    leader, follower = completing(bench)
    bench.sync("g", leader, 1)
    bench.leave("g", follower)
    assert bench.timer(SyncPhaseEnds("g")) is None
    bench.join("g", leader)
    assert bench.timer(SyncPhaseEnds("g")) == 60_000


def test_the_timer_takes_the_longest_rebalance_timeout(bench):
    for rebalance_timeout_ms in (1_000, 30_000, 2_000):
        bench.handshake(rebalance_timeout_ms=rebalance_timeout_ms)
    bench.advance(0)
    assert bench.timer(SyncPhaseEnds("g")) == 30_000


# --- what is too large for the log ---


def test_a_round_whose_record_is_too_large_fails_for_everybody_and_a_smaller_one_succeeds():
    """§3, SyncGroup."""
    bench = Bench(GroupCoordinatorConfig(initial_rebalance_delay_ms=0, max_record_bytes=1_000))
    leader, follower = completing(bench)
    syncing = bench.sync("g", follower, 1)
    leading = bench.sync("g", leader, 1, {follower: bytes(1_000)})
    failure = SyncGroupResponse(error=ErrorCode.unknown_server_error)
    assert (leading.response, syncing.response) == (failure, failure)
    assert leading.result.records == ()
    assert bench.state() is State.PREPARING_REBALANCE
    assert bench.timer(JoinPhaseEnds("g")) == 60_000
    assert {bench.timer(SessionExpires("g", m)) for m in (leader, follower)} == {10_000}
    bench.join("g", leader)
    assert bench.join("g", follower).response.generation == 2
    assert bench.sync("g", leader, 2, {follower: bytes(100)}).error == "none"


def test_assignments_of_a_hundred_kilobytes_are_stored_and_handed_out(bench):
    leader, follower = completing(bench)
    bench.sync("g", leader, 1, {follower: bytes(100_000)})
    assert bench.sync("g", follower, 1).response == assigned(bytes(100_000))
