"""Mistakes that shipped in other coordinators, one test for each, grouped by coordinator."""

import pytest

from kohort.coordinator.classic import State
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.requests import OffsetToCommit
from kohort.coordinator.responses import JoinGroupResponse
from kohort.coordinator.result import JoinPhaseEnds, SessionExpires, SyncPhaseEnds
from kohort.errors import ErrorCode
from kohort.protocol.subscription import Subscription, encode_subscription
from kohort.testing.bench import Bench
from kohort.types import TopicPartition

# --- SeaweedFS gateway ---


def test_two_consumers_of_one_process_are_two_members(bench):
    """There: ids hashed from client id and host, members deduplicated by client id."""
    joins = [bench.handshake(client_id="same", connection=1) for _ in range(2)]
    bench.advance(0)
    assert len({joining.response.member_id for joining in joins}) == 2
    assert len(bench.group().sessions) == 2


def test_a_session_ends_in_time_and_the_survivor_rebalances_as_the_leader(bench):
    """There: expiry in a 30 s sweep, survivors neither rebalanced nor given a new leader."""
    leader, follower = bench.stable(members=2)
    bench.advance(9_000)
    bench.heartbeat("g", follower, 1)
    bench.advance(1_000)
    assert bench.heartbeat("g", follower, 1).error == "rebalance_in_progress"
    assert bench.join("g", follower).response.leader == follower != leader


def test_a_parked_joiner_is_not_expired(bench):
    leader, follower = bench.stable(members=2, session_timeout_ms=60_000)
    joining = bench.join("g", follower, protocols={"range": b"new"}, session_timeout_ms=6_000)
    bench.advance(30_000)
    assert joining.parked
    assert bench.join("g", leader).response.generation == 2


def test_the_instance_id_of_an_expired_member_is_free(bench):
    bench.join(instance_id="i")
    bench.advance(0)
    bench.advance(60_000)
    assert bench.group().instances == {}
    assert bench.join(instance_id="i").parked


def test_committed_offsets_survive_idle_days(bench):
    bench.commit("g", {("t", 0): 7})
    for _ in range(6):
        bench.advance(24 * 3_600_000)
        bench.expire_offsets()
    assert bench.fetch("g", ("t", 0)).response.offsets[0].offset == 7


def test_the_assignor_can_be_changed_member_by_member(bench):
    """There: one metadata blob per member, so no vote."""
    old, both, new = {"range": b""}, {"sticky": b"", "range": b""}, {"sticky": b""}
    a, b = bench.stable(members=2, protocols=old)
    chosen = []
    for changing, protocols, other, others in (
        (a, both, b, old),
        (b, both, a, both),
        (a, new, b, both),
        (b, new, a, new),
    ):
        bench.join("g", changing, protocols=protocols)
        chosen.append(bench.join("g", other, protocols=others).response.protocol_name)
    assert chosen == ["range", "sticky", "sticky", "sticky"]


def test_an_administrator_removes_static_members_in_one_batch(bench):
    """There: removal by instance id refused, the batch dropped."""
    for instance_id in "abc":
        bench.join(instance_id=instance_id)
    bench.advance(0)
    call = bench.leave("g", ("", "a"), ("", "c"), version=3)
    assert [member.error for member in call.response.members] == [ErrorCode.none] * 2
    assert set(bench.group().instances) == {"b"}


def test_an_unknown_group_is_an_unknown_member_not_an_invalid_group(bench):
    """24 is fatal for clients; 25 makes them join."""
    assert bench.heartbeat("g", "m", 1).error == "unknown_member_id"
    assert bench.sync("g", "m", 1).error == "unknown_member_id"
    assert bench.join("g", "m").error == "unknown_member_id"
    assert bench.leave("g", "m").response.members[0].error is ErrorCode.unknown_member_id


def test_a_leave_does_not_move_the_generation_until_the_round_completes(bench):
    """There: survivors get 22 instead of 27, and valid commits are refused."""
    leader, follower = bench.stable(members=2)
    bench.leave("g", leader)
    assert bench.heartbeat("g", follower, 1).error == "rebalance_in_progress"
    committed = bench.commit("g", {("t", 0): 1}, member_id=follower, generation=1).response
    assert committed.results == ((TopicPartition("t", 0), ErrorCode.none),)


def test_a_rejoin_keeps_the_stored_assignment(bench):
    leader, follower = bench.stable(members=2)
    bench.join("g", follower)
    assert bench.sync("g", follower, 1).response.assignment == follower.encode()
    bench.join("g", leader)
    assert {m.member_id: m.assignment for m in bench.describe("g").response.members} == {
        leader: leader.encode(),
        follower: follower.encode(),
    }


def test_a_follower_in_mid_rebalance_waits_instead_of_getting_nothing(bench):
    leader, follower = bench.stable(members=2)
    bench.join("g", leader)
    assert bench.sync("g", follower, 1).error == "rebalance_in_progress"
    bench.join("g", follower)
    syncing = bench.sync("g", follower, 2)
    assert syncing.parked
    bench.sync("g", leader, 2, {follower: b"mine"})
    assert syncing.response.assignment == b"mine"


def test_a_joiner_after_the_leaders_snapshot_is_not_left_unassigned(bench):
    (leader,) = bench.stable()
    bench.join("g", leader)
    newcomer = bench.handshake()
    assert bench.sync("g", leader, 2, {leader: b"all"}).error == "rebalance_in_progress"
    leading = bench.join("g", leader)
    assert {member.member_id for member in leading.response.members} == {
        leader,
        newcomer.response.member_id,
    }


# --- Takhin ---


def test_after_a_restart_the_generation_goes_on_and_the_members_with_it(bench):
    """There: the generation starts again, and old members commit into the new group."""
    leader, follower = bench.stable(members=2)
    bench.join("g", leader)
    bench.join("g", follower)
    bench.sync("g", leader, 2)
    bench.restart()
    assert bench.heartbeat("g", follower, 2).error == "none"
    assert bench.heartbeat("g", follower, 1).error == "illegal_generation"
    bench.advance(10_000)
    joining = bench.handshake()
    bench.advance(0)
    assert joining.response.generation == 4
    committed = bench.commit("g", {("t", 0): 1}, member_id=follower, generation=2).response
    assert committed.results[0][1] is ErrorCode.unknown_member_id


def test_the_assigning_leader_sees_owned_partitions_generation_rack_and_instance(bench):
    metadata = encode_subscription(
        Subscription(
            topics=("t",), user_data=b"u", owned=(TopicPartition("t", 1),), generation=3, rack="r"
        )
    )
    joining = bench.join(instance_id="i", protocols={"sticky": metadata})
    bench.advance(0)
    (member,) = joining.response.members
    assert (member.metadata, member.instance_id) == (metadata, "i")


def test_a_commit_of_many_partitions_is_one_append_with_epoch_and_metadata(bench):
    offsets = {
        ("t", p): OffsetToCommit("t", p, 10 * p, leader_epoch=p, metadata=str(p)) for p in range(5)
    }
    call = bench.commit("g", offsets)
    rows = [row for columns in call.result.records for row in columns.rows()]
    assert [(r.value.offset, r.value.leader_epoch, r.value.metadata) for r in rows] == [
        (10 * p, p, str(p)) for p in range(5)
    ]


# --- Apache Kafka of 2017 ---


def test_a_retried_join_with_an_empty_id_makes_no_other_member(bench):
    for _ in range(3):
        bench.join()
    assert bench.state() is State.EMPTY
    assert not bench.group().sessions


def test_a_group_that_starts_has_one_rebalance_not_one_for_each_member():
    bench = Bench(GroupCoordinatorConfig(initial_rebalance_delay_ms=3_000))
    joins = []
    for _ in range(5):
        joins.append(bench.handshake())
        bench.advance(500)
    bench.advance(6_000)
    assert {joining.response.generation for joining in joins} == {1}


def test_a_silent_leader_does_not_block_the_group(bench):
    joins = [bench.handshake(session_timeout_ms=600_000) for _ in range(2)]
    bench.advance(0)
    leader = joins[0].response.leader
    (follower,) = {joining.response.member_id for joining in joins} - {leader}
    syncing = bench.sync("g", follower, 1)
    assert SyncPhaseEnds("g") in bench.advance(60_000)
    assert syncing.response.error is ErrorCode.rebalance_in_progress
    assert bench.join("g", follower).response.leader == follower


def test_a_rejoin_updates_both_timeouts(bench):
    leader, follower = bench.stable(members=2)
    for member_id in (leader, follower):
        bench.join("g", member_id, session_timeout_ms=7_000, rebalance_timeout_ms=5_000)
    assert bench.timer(SyncPhaseEnds("g")) == 5_000
    assert {session.session_timeout_ms for session in bench.group().sessions.values()} == {7_000}


def test_a_static_laggard_keeps_its_place(bench):
    for instance_id in "ab":
        bench.join(instance_id=instance_id, session_timeout_ms=600_000)
    bench.advance(0)
    leader, absent = bench.group().instances["a"], bench.group().instances["b"]
    bench.sync("g", leader, 1, instance_id="a")
    bench.sync("g", absent, 1, instance_id="b")
    joining = bench.join("g", leader, instance_id="a", session_timeout_ms=600_000)
    bench.advance(60_000)
    assert joining.response.generation == 2
    assert bench.heartbeat("g", absent, 2, instance_id="b").error == "none"


@pytest.mark.parametrize(
    "refused",
    [
        lambda bench: bench.join(""),
        lambda bench: bench.join(session_timeout_ms=1),
        lambda bench: bench.join("g", "nobody"),
        lambda bench: bench.join(protocol_type="connect"),
        lambda bench: bench.join(),
    ],
    ids=["24", "26", "25", "23", "79"],
)
def test_an_error_carries_generation_minus_1_and_no_protocol(bench, refused):
    bench.stable()
    response = refused(bench).response
    assert response.error is not ErrorCode.none
    assert response == JoinGroupResponse(error=response.error, member_id=response.member_id)
    assert (response.generation, response.protocol_name, response.leader) == (-1, None, "")


# --- librdkafka's mock, Tansu 0.6 ---


def test_unknown_ids_are_refused_whether_the_group_is_there_or_not(bench):
    assert bench.join("g", "made-up").error == "unknown_member_id"
    bench.stable()
    assert bench.join("g", "made-up").error == "unknown_member_id"
    assert bench.heartbeat("g", "made-up", 1).error == "unknown_member_id"


def test_a_new_member_shakes_hands_first(bench):
    assert bench.join(version=4).error == "member_id_required"


def test_between_join_and_sync_a_heartbeat_is_fine(bench):
    joining = bench.handshake()
    bench.advance(0)
    assert bench.heartbeat("g", joining.response.member_id, 1).error == "none"


def test_a_session_of_one_millisecond_is_refused(bench):
    """Mock: it hangs. Tansu: it is accepted."""
    assert bench.join(session_timeout_ms=1).error == "invalid_session_timeout"


def test_the_empty_group_id_is_refused(bench):
    assert bench.join("").error == "invalid_group_id"


def test_a_foreign_protocol_type_is_refused(bench):
    bench.stable()
    assert bench.join(protocol_type="connect").error == "inconsistent_group_protocol"


def test_a_sync_of_another_generation_is_22_not_27(bench):
    joining = bench.handshake()
    bench.advance(0)
    assert bench.sync("g", joining.response.member_id, 7).error == "illegal_generation"


def test_a_static_member_is_fenced(bench):
    old = bench.join(instance_id="i")
    bench.advance(0)
    bench.join(instance_id="i")
    bench.advance(0)
    assert (
        bench.heartbeat("g", old.response.member_id, 1, instance_id="i").error
        == "fenced_instance_id"
    )


def test_parked_requests_are_answered_by_an_event_and_not_by_a_sleep(bench):
    leader, follower = bench.stable(members=2)
    joining = bench.join("g", leader)
    answered_by = bench.join("g", follower).result
    assert joining.request.on_response in {reply.on_response for reply in answered_by.replies}


def test_a_rebalance_has_a_timer(bench):
    leader, _ = bench.stable(members=2)
    joining = bench.join("g", leader, session_timeout_ms=600_000)
    assert bench.timer(JoinPhaseEnds("g")) == 60_000
    bench.advance(60_000)
    assert joining.response.generation == 2


# --- Apache Kafka 4.3 ---


@pytest.mark.parametrize(
    "metadata",
    [b"\x00\x00\x7f\xff\xff\xff", b"\x00\x00\xff\xff\xff\xff", b"\xff\xff", b""],
    ids=["impossible array length", "negative array length", "negative version", "empty"],
)
def test_bytes_that_are_no_subscription_do_not_wedge_a_group(bench, metadata):
    """There: the join is never answered, for good (§3)."""
    bench.commit("g", {("t", 0): 1})
    (member_id,) = bench.stable(protocols={"range": metadata})
    assert bench.heartbeat("g", member_id, 1).error == "none"
    assert bench.expire_offsets().records == ()
    assert (
        bench.delete_offsets("g", ("t", 0)).response.results[0][1]
        is ErrorCode.group_subscribed_to_topic
    )
    assert bench.join("g", member_id, protocols={"range": metadata}).response.generation == 2


def test_a_protocol_named_twice_does_not_wedge_a_group(bench):
    joining = bench.handshake(protocols=[("range", b"a"), ("range", b"b")])
    bench.advance(0)
    assert joining.response.protocol_name == "range"
    assert bench.leave("g", joining.response.member_id).response.members[0].error is ErrorCode.none
    assert bench.state() is State.EMPTY


# --- librdkafka#5570: a handshake that was abandoned stalls the group ---


@pytest.fixture
def stalled(bench):
    """A member waits, and so does an id that was handed out to connection 7."""
    (member_id,) = bench.stable()
    pending = bench.join(connection=7, session_timeout_ms=60_000).response.member_id
    joining = bench.join("g", member_id)
    assert joining.parked
    return bench, joining, pending


def test_an_id_whose_connection_closed_is_not_waited_for_and_still_good(stalled):
    bench, joining, pending = stalled
    bench.disconnect(7)
    assert joining.response.generation == 2
    assert bench.join("g", pending).parked


def test_an_id_whose_client_asked_again_is_not_waited_for_and_still_good(stalled):
    bench, joining, pending = stalled
    second = bench.join(connection=7, session_timeout_ms=60_000).response.member_id
    assert joining.parked
    assert bench.join("g", second).response.generation == 2
    assert joining.response.generation == 2
    assert bench.join("g", pending).parked


def test_an_id_of_another_connection_or_client_is_waited_for_still(stalled):
    bench, joining, pending = stalled
    bench.disconnect(8)
    other = bench.join(connection=7, client_id="other").response.member_id
    bench.leave("g", other)
    assert joining.parked
    assert bench.join("g", pending).response.generation == 2


def test_a_pending_id_of_a_stalled_group_expires_all_the_same(stalled):
    bench, _, pending = stalled
    bench.disconnect(7)
    for _ in range(6):
        bench.advance(10_000)
    assert bench.timer(SessionExpires("g", pending)) is None
    assert bench.join("g", pending).error == "unknown_member_id"
