"""JoinGroup, before and without a rebalance: who is let in, and who is refused with which code."""

import pytest

from kohort.coordinator.classic import State
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.records import GroupMetadataKey, GroupMetadataRecord, GroupMetadataValue
from kohort.coordinator.responses import JoinedMember, JoinGroupResponse
from kohort.coordinator.result import JoinPhaseEnds, Reply, Result, SessionExpires, SyncPhaseEnds
from kohort.coordinator_common import Cancel, Timer
from kohort.errors import ErrorCode
from kohort.testing.bench import Bench

EVERY_VERSION = range(10)
SMALL = GroupCoordinatorConfig(initial_rebalance_delay_ms=0, max_size=2)


# --- before the group is looked at ---


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_an_empty_group_id_is_invalid(bench, version):
    call = bench.join("", version=version)
    assert call.response == JoinGroupResponse(error=ErrorCode.invalid_group_id)
    assert not bench.shard.groups


def test_the_group_id_is_checked_before_everything_else(bench):
    assert bench.join("", "nobody", session_timeout_ms=1, protocols={}).error == "invalid_group_id"


@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001, 0, -1])
def test_a_session_timeout_out_of_range_is_refused_and_makes_no_group(bench, session_timeout_ms):
    call = bench.join(session_timeout_ms=session_timeout_ms)
    assert call.error == "invalid_session_timeout"
    assert call.result.records == ()
    assert not bench.shard.groups


@pytest.mark.parametrize("session_timeout_ms", [6_000, 1_800_000])
def test_the_limits_of_the_session_timeout_are_accepted(bench, session_timeout_ms):
    assert bench.join(session_timeout_ms=session_timeout_ms).error == "member_id_required"


def test_the_session_timeout_is_checked_before_the_member_id(bench):
    assert bench.join(member_id="nobody", session_timeout_ms=1).error == "invalid_session_timeout"


def test_the_session_timeout_is_checked_before_the_protocols(bench):
    bench.stable()
    assert (
        bench.join(protocol_type="connect", session_timeout_ms=1).error == "invalid_session_timeout"
    )


@pytest.mark.parametrize(
    "what",
    [
        {"client_id": "c" * 32_767},
        {"instance_id": "i" * 32_767},
        {"protocol_type": "t" * 32_768},
        {"protocols": {"p" * 32_768: b""}},
        {"protocols": {"p": b"", "q": bytes(1_048_589)}},
    ],
    ids=lambda what: next(iter(what)),
)
def test_a_join_that_the_group_log_cannot_hold_is_an_invalid_request(bench, what):
    assert bench.join(**what).error == "invalid_request"
    assert not bench.shard.groups


# --- no group yet ---


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_an_unknown_member_id_makes_no_group(bench, version):
    call = bench.join("g", "nobody", version=version)
    assert call.response == JoinGroupResponse(error=ErrorCode.unknown_member_id, member_id="nobody")
    assert call.result.records == ()
    assert bench.state() is State.DEAD


def test_an_empty_member_id_makes_the_group_and_logs_it_with_generation_0(bench):
    call = bench.join()
    made = GroupMetadataRecord(
        GroupMetadataKey("g"), GroupMetadataValue("", 0, None, None, bench.now, ())
    )
    answer = JoinGroupResponse(error=ErrorCode.member_id_required, member_id="client-0001")
    assert call.result == Result(
        records=(made,),
        replies=(Reply(call.request.on_response, answer),),
        timers=(Timer(SessionExpires("g", "client-0001"), bench.now + 10_000),),
    )
    assert bench.state() is State.EMPTY


def test_a_group_is_logged_once_however_often_it_is_asked_for_an_id(bench):
    bench.join()
    assert bench.join().result.records == ()


def test_a_first_join_that_is_refused_makes_the_group_too(bench):
    """As in Kafka, which has made the group by the time it looks at the protocols."""
    assert bench.join(protocol_type="").error == "inconsistent_group_protocol"
    assert bench.state() is State.EMPTY
    assert len(bench.log) == 1


# --- an Empty group ---


@pytest.mark.parametrize(
    "what", [{"protocol_type": ""}, {"protocols": {}}], ids=["no type", "no protocols"]
)
def test_an_empty_group_needs_a_protocol_type_and_protocols(bench, what):
    bench.join()
    assert bench.join(**what).response == JoinGroupResponse(
        error=ErrorCode.inconsistent_group_protocol
    )


def test_the_id_of_a_member_that_left_is_unknown_to_the_empty_group(bench):
    (member_id,) = bench.stable()
    bench.leave("g", member_id)
    assert bench.state() is State.EMPTY
    assert bench.join("g", member_id).error == "unknown_member_id"


def test_the_size_limit_is_not_asked_in_an_empty_group():
    bench = Bench(GroupCoordinatorConfig(initial_rebalance_delay_ms=0, max_size=1))
    assert [bench.join().error for _ in range(3)] == ["member_id_required"] * 3


def test_an_empty_group_takes_another_protocol_type(bench):
    (member_id,) = bench.stable()
    bench.leave("g", member_id)
    joining = bench.handshake(protocol_type="connect")
    bench.advance(0)
    assert joining.response.protocol_type == "connect"


# --- the protocols of a group with members ---


def test_another_protocol_type_is_inconsistent(bench):
    bench.stable()
    assert bench.join(protocol_type="connect").error == "inconsistent_group_protocol"


def test_a_protocol_that_only_some_members_offer_does_not_let_anybody_in(bench):
    bench.handshake(protocols={"x": b"", "y": b""})
    bench.handshake(protocols={"y": b"", "z": b""})
    bench.advance(0)
    assert bench.join(protocols={"x": b"", "z": b""}).error == "inconsistent_group_protocol"
    assert bench.join(protocols={"z": b"", "y": b""}).error == "member_id_required"


def test_no_protocols_are_inconsistent(bench):
    bench.stable()
    assert bench.join(protocols={}).error == "inconsistent_group_protocol"


def test_the_protocols_are_checked_before_the_member_id(bench):
    bench.stable()
    assert (
        bench.join("g", "nobody", protocols={"other": b""}).error == "inconsistent_group_protocol"
    )
    assert bench.join("g", "nobody").error == "unknown_member_id"


def test_a_sole_member_that_changes_all_its_protocols_is_inconsistent_with_itself(bench):
    """§3, Votes."""
    (member_id,) = bench.stable()
    assert (
        bench.join("g", member_id, protocols={"other": b""}).error == "inconsistent_group_protocol"
    )
    assert bench.heartbeat("g", member_id, 1).error == "none"


def test_a_refusal_disturbs_nobody(bench):
    ids = bench.stable(members=2)
    bench.join(protocol_type="connect")
    bench.join("g", "nobody")
    assert bench.state() is State.STABLE
    assert [bench.heartbeat("g", member_id, 1).error for member_id in ids] == ["none", "none"]


# --- the member-id handshake ---


@pytest.mark.parametrize("version", range(4, 10))
def test_from_version_4_on_a_new_member_is_given_an_id_first(bench, version):
    call = bench.join(version=version, client_id="web")
    assert call.response == JoinGroupResponse(
        error=ErrorCode.member_id_required, member_id="web-0001"
    )
    assert bench.state() is State.EMPTY
    assert bench.timer(SessionExpires("g", "web-0001")) == 10_000


@pytest.mark.parametrize("version", range(4))
def test_before_version_4_a_new_member_is_added_at_once(bench, version):
    call = bench.join(version=version)
    assert call.parked
    bench.advance(0)
    assert call.response.generation == 1
    assert call.response.member_id == "client-0001"


def test_every_handshake_gives_another_id(bench):
    first, second = bench.join().response.member_id, bench.join().response.member_id
    assert first != second
    assert bench.join("g", first).parked
    assert bench.join("g", second).parked


def test_a_pending_id_becomes_a_member(bench):
    member_id = bench.join().response.member_id
    joining = bench.join("g", member_id)
    bench.advance(0)
    assert joining.response == JoinGroupResponse(
        generation=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=member_id,
        member_id=member_id,
        members=(JoinedMember(member_id=member_id, instance_id=None, metadata=b"range-metadata"),),
    )


def test_a_pending_id_may_be_used_by_an_older_version_and_from_another_connection(bench):
    member_id = bench.join(connection=1).response.member_id
    assert bench.join("g", member_id, version=1, connection=2, client_id="other").parked


def test_a_pending_id_is_only_good_in_its_own_group(bench):
    member_id = bench.join("g").response.member_id
    bench.join("h")
    assert bench.join("h", member_id).error == "unknown_member_id"


def test_a_pending_id_that_names_an_instance_is_unknown(bench):
    """§3: Kafka answers UNKNOWN_SERVER_ERROR there."""
    member_id = bench.join().response.member_id
    call = bench.join("g", member_id, instance_id="i")
    assert call.response == JoinGroupResponse(
        error=ErrorCode.unknown_member_id, member_id=member_id
    )
    assert bench.join("g", member_id).parked


def test_a_pending_id_that_expired_is_unknown(bench):
    member_id = bench.join(session_timeout_ms=6_000).response.member_id
    assert bench.advance(5_999) == []
    assert bench.advance(1) == [SessionExpires("g", member_id)]
    assert bench.join("g", member_id).error == "unknown_member_id"


def test_a_member_is_logged_with_the_client_that_joined(bench):
    member_id = bench.join(client_id="first").response.member_id
    joining = bench.join("g", member_id, client_id="second")
    bench.advance(0)
    bench.sync("g", member_id, joining.response.generation)
    assert bench.describe("g").response.members[0].client_id == "second"


def test_without_a_client_id_the_member_id_begins_with_the_dash(bench):
    assert bench.join(client_id="").response.member_id == "-0001"


# --- known members ---


def test_an_unknown_member_id_is_unknown_to_a_live_group(bench):
    bench.stable()
    assert bench.join("g", "nobody").response == JoinGroupResponse(
        error=ErrorCode.unknown_member_id, member_id="nobody"
    )


def test_a_join_again_in_preparing_updates_protocols_and_both_timeouts(bench):
    leader, follower = bench.stable(members=2)
    bench.join("g", leader)
    joining = bench.join(
        "g",
        follower,
        protocols={"range": b"new"},
        session_timeout_ms=7_000,
        rebalance_timeout_ms=8_000,
    )
    session = bench.group().sessions[follower]
    assert (session.protocols, session.session_timeout_ms, session.rebalance_timeout_ms) == (
        (("range", b"new"),),
        7_000,
        8_000,
    )
    assert joining.response.generation == 2
    assert bench.timer(SessionExpires("g", follower)) == 7_000


def test_a_lost_answer_in_completing_is_given_again_with_the_members_to_the_leader_only(bench):
    joins = [bench.handshake() for _ in range(2)]
    bench.advance(0)
    for joining in joins:
        again = bench.join("g", joining.response.member_id)
        assert again.response == joining.response
        assert again.result.timers == ()
    leading = [
        joining for joining in joins if joining.response.leader == joining.response.member_id
    ]
    assert [len(joining.response.members) for joining in leading] == [2]
    assert bench.state() is State.COMPLETING_REBALANCE


@pytest.mark.parametrize(
    "protocols", [{"range": b"new"}, {"range": b"range-metadata", "sticky": b""}]
)
def test_a_changed_join_in_completing_rebalances(bench, protocols):
    joining = bench.handshake()
    bench.advance(0)
    again = bench.join("g", joining.response.member_id, protocols=protocols)
    assert again.response.generation == 2


def test_an_unchanged_join_of_the_leader_rebalances_a_stable_group(bench):
    """How a leader announces that the partitions of a topic changed."""
    leader, _ = bench.stable(members=2)
    assert bench.join("g", leader).parked
    assert bench.state() is State.PREPARING_REBALANCE


def test_an_unchanged_join_of_a_follower_gets_the_current_generation(bench):
    leader, follower = bench.stable(members=2)
    call = bench.join("g", follower)
    assert call.response == JoinGroupResponse(
        generation=1,
        protocol_type="consumer",
        protocol_name="range",
        leader=leader,
        member_id=follower,
    )
    assert (call.result.records, call.result.timers) == ((), ())
    assert bench.state() is State.STABLE


@pytest.mark.parametrize(
    "protocols", [{"range": b"new"}, {"sticky": b"", "range": b"range-metadata"}]
)
def test_a_changed_join_of_a_follower_rebalances_a_stable_group(bench, protocols):
    _, follower = bench.stable(members=2)
    assert bench.join("g", follower, protocols=protocols).parked
    assert bench.state() is State.PREPARING_REBALANCE


def test_the_latest_of_two_parked_joins_of_one_member_gets_the_generation(bench):
    """§3, Parked requests. Kafka never answers the older one; here it learns that a join is under
    way.
    """
    leader, follower = bench.stable(members=2)
    older = bench.join("g", leader)
    newer = bench.join("g", leader)
    assert older.response == JoinGroupResponse(
        error=ErrorCode.rebalance_in_progress, member_id=leader
    )
    bench.join("g", follower)
    assert newer.response.generation == 2


def test_a_join_whose_connection_closed_still_counts(bench):
    """§3, Connections."""
    leader, follower = bench.stable(members=2)
    bench.join("g", leader, connection=7)
    bench.disconnect(7)
    assert bench.join("g", follower).response.generation == 2


# --- the size limit ---


@pytest.mark.parametrize("synced", [True, False], ids=["Stable", "Completing"])
def test_a_full_group_takes_no_unknown_member(synced):
    bench = Bench(SMALL)
    ids = bench.stable(members=2)
    if not synced:
        calls = [bench.join("g", member_id) for member_id in ids]
        assert [call.response.generation for call in calls] == [2, 2]
        assert bench.state() is State.COMPLETING_REBALANCE
    call = bench.join()
    assert call.response == JoinGroupResponse(error=ErrorCode.group_max_size_reached)
    assert bench.join("g", "nobody").error == "group_max_size_reached"
    assert not bench.join("g", ids[1]).parked


def test_in_preparing_room_goes_to_whoever_joins_first():
    """§3, Size limit: the late existing member is removed and answered 81, without a member id."""
    bench = Bench(SMALL)
    leader, follower = bench.stable(members=2)
    bench.join("g", leader)
    newcomer = bench.handshake()
    late = bench.join("g", follower)
    assert late.response == JoinGroupResponse(error=ErrorCode.group_max_size_reached)
    assert newcomer.response.generation == 2
    assert set(bench.group().sessions) == {leader, newcomer.response.member_id}


def test_in_preparing_an_awaiting_member_may_join_again_in_a_full_group():
    bench = Bench(SMALL)
    leader, follower = bench.stable(members=2)
    bench.join("g", follower, protocols={"range": b"new"})
    newcomer = bench.handshake()
    assert bench.join("g", follower, protocols={"range": b"newer"}).parked
    assert bench.join("g", leader).error == "group_max_size_reached"
    assert newcomer.response.generation == 2


# --- the timers of a join ---


def test_a_first_join_sets_and_cancels_timers(bench):
    member_id = bench.join().response.member_id
    joining = bench.join("g", member_id)
    # the id's own timer goes on as the member's, and sets itself again
    assert joining.result.timers == (
        Cancel(SyncPhaseEnds("g")),
        Timer(JoinPhaseEnds("g"), bench.now),
    )
    assert bench.advance(0) == [JoinPhaseEnds("g")]
    assert bench.timer(SessionExpires("g", member_id)) == 10_000
    assert bench.timer(SyncPhaseEnds("g")) == 60_000
    assert bench.timer(JoinPhaseEnds("g")) is None
