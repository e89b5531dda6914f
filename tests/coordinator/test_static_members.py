"""Static members (KIP-345): who is let in, who is fenced, and when a restart goes unnoticed
(KIP-814).
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
from kohort.coordinator.responses import JoinedMember, JoinGroupResponse, SyncGroupResponse
from kohort.coordinator.result import Result, SessionExpires
from kohort.coordinator_common import Cancel, Timer
from kohort.errors import ErrorCode
from kohort.testing.bench import Bench
from kohort.types import Reply

XY = {"x": b"", "y": b""}
YX = {"y": b"", "x": b""}


def static_group(bench, *instances, **options):
    """A stable group of these instances; their member ids, the first one's being the leader's."""
    joins = [bench.join(instance_id=instance, **options) for instance in instances]
    bench.advance(0)
    ids = [call.response.member_id for call in joins]
    assert joins[0].response.leader == ids[0]
    name = joins[0].response.protocol_name
    for instance, member_id in reversed(list(zip(instances, ids, strict=True))):
        assigned = {m: m.encode() for m in ids} if member_id == ids[0] else {}
        bench.sync("g", member_id, 1, assigned, instance_id=instance, protocol_name=name)
    return ids


# --- joining ---


@pytest.mark.parametrize("version", range(5, 10))
def test_a_static_member_is_let_in_at_its_first_join(bench, version):
    joining = bench.join(instance_id="i", version=version)
    assert joining.parked
    bench.advance(0)
    assert joining.response.member_id == "i-0001"


def test_the_empty_instance_id_is_one_like_any(bench):
    """§3."""
    (member_id,) = static_group(bench, "")
    assert member_id == "-0001"
    assert bench.heartbeat("g", member_id, 1, instance_id="").error == "none"
    assert bench.describe("g").response.members[0].instance_id == ""


def test_an_instance_id_belongs_to_its_group(bench):
    (member_id,) = static_group(bench, "i")
    bench.join("h", instance_id="i")
    assert bench.heartbeat("g", member_id, 1, instance_id="i").error == "none"


def test_static_and_dynamic_members_share_a_group(bench):
    (member_id,) = static_group(bench, "i")
    joining = bench.handshake()
    bench.join("g", member_id, instance_id="i")
    bench.advance(0)
    assert [(m.member_id, m.instance_id) for m in bench.group().sessions.values()] == [
        (member_id, "i"),
        (joining.response.member_id, None),
    ]


def test_a_new_instance_rebalances_the_group(bench):
    static_group(bench, "a")
    assert bench.join(instance_id="b").parked
    assert bench.state() is State.PREPARING_REBALANCE


# --- restarts that nobody notices ---


def test_a_follower_that_comes_back_has_a_new_id_in_the_same_generation(bench):
    """The client id stays that of the first join, as in Kafka."""
    a, b = static_group(bench, "a", "b")
    call = bench.join(instance_id="b", client_id="again")
    assert call.result == Result(
        records=(
            GroupMetadataRecord(
                GroupMetadataKey("g"),
                GroupMetadataValue(
                    "consumer",
                    1,
                    "range",
                    a,
                    bench.now,
                    (
                        MemberMetadata(
                            a,
                            "a",
                            "client",
                            "/127.0.0.1",
                            60_000,
                            10_000,
                            b"range-metadata",
                            a.encode(),
                        ),
                        MemberMetadata(
                            "b-0003",
                            "b",
                            "client",
                            "/127.0.0.1",
                            60_000,
                            10_000,
                            b"range-metadata",
                            b.encode(),
                        ),
                    ),
                ),
            ),
        ),
        replies=(
            Reply(
                call.request.on_response,
                JoinGroupResponse(
                    generation=1,
                    protocol_type="consumer",
                    protocol_name="range",
                    leader=a,
                    member_id="b-0003",
                ),
            ),
        ),
        timers=(
            Cancel(SessionExpires("g", b)),
            Timer(SessionExpires("g", "b-0003"), bench.now + 10_000),
        ),
    )
    assert bench.heartbeat("g", a, 1, instance_id="a").error == "none"
    assert bench.sync("g", "b-0003", 1, instance_id="b").response.assignment == b.encode()


def test_a_leader_that_comes_back_is_told_to_skip_the_assignment(bench):
    _, b = static_group(bench, "a", "b")
    call = bench.join(instance_id="a")
    assert call.response == JoinGroupResponse(
        generation=1,
        protocol_type="consumer",
        protocol_name="range",
        leader="a-0003",
        skip_assignment=True,
        member_id="a-0003",
        members=(
            JoinedMember(member_id=b, instance_id="b", metadata=b"range-metadata"),
            JoinedMember(member_id="a-0003", instance_id="a", metadata=b"range-metadata"),
        ),
    )
    assert bench.log[-1].value.leader == "a-0003"
    assert bench.state() is State.STABLE


@pytest.mark.parametrize("version", range(5, 9))
def test_before_version_9_a_leader_that_comes_back_is_told_the_old_leader_id(bench, version):
    """So that it does not assign; it leads all the same, as its next join shows."""
    a, _ = static_group(bench, "a", "b")
    call = bench.join(instance_id="a", version=version)
    assert call.response == JoinGroupResponse(
        generation=1, protocol_type="consumer", protocol_name="range", leader=a, member_id="a-0003"
    )
    assert bench.group().leader == "a-0003"
    assert bench.join("g", "a-0003", instance_id="a").parked


def test_other_metadata_under_the_chosen_protocol_keeps_the_generation(bench):
    """§3."""
    static_group(bench, "a", "b")
    call = bench.join(instance_id="b", protocols={"range": b"new"}, session_timeout_ms=7_000)
    assert call.response.generation == 1
    renewed = bench.log[-1].value.members[1]
    assert (renewed.subscription, renewed.session_timeout_ms) == (b"new", 7_000)


def test_a_restart_survives_the_coordinators_own(bench):
    static_group(bench, "a", "b")
    again = bench.join(instance_id="b").response.member_id
    bench.restart()
    assert bench.heartbeat("g", again, 1, instance_id="b").error == "none"
    assert bench.heartbeat("g", "b-0002", 1, instance_id="b").error == "fenced_instance_id"


def test_a_restart_writes_no_entry_in_the_journal(bench):
    static_group(bench, "a", "b")
    written = list(bench.journal)
    bench.join(instance_id="b")
    assert bench.journal == written


# --- restarts that rebalance ---


def test_a_restart_after_which_another_protocol_is_chosen_rebalances(bench):
    static_group(bench, "a", protocols=XY)
    call = bench.join(instance_id="a", protocols=YX)
    assert (call.response.generation, call.response.protocol_name) == (2, "y")


def test_a_follower_whose_restart_changes_the_vote_rebalances(bench):
    a, _ = static_group(bench, "a", "b", protocols=XY)
    again = bench.join(instance_id="b", protocols={"y": b""})
    assert again.parked
    assert bench.heartbeat("g", a, 1, instance_id="a").error == "rebalance_in_progress"
    bench.join("g", a, instance_id="a", protocols=XY)
    assert again.response.protocol_name == "y"


def test_a_restart_between_join_and_sync_starts_over(bench):
    joins = [bench.join(instance_id=instance) for instance in "abc"]
    bench.advance(0)
    a, b, c = (call.response.member_id for call in joins)
    syncing_b, syncing_c = (
        bench.sync("g", b, 1, instance_id="b"),
        bench.sync("g", c, 1, instance_id="c"),
    )
    again = bench.join(instance_id="b")
    assert syncing_b.response == SyncGroupResponse(error=ErrorCode.fenced_instance_id)
    assert syncing_c.response == SyncGroupResponse(error=ErrorCode.rebalance_in_progress)
    bench.join("g", a, instance_id="a")
    bench.join("g", c, instance_id="c")
    assert again.response.generation == 2


def test_a_leader_that_restarts_between_join_and_sync_leads_the_next_round(bench):
    joins = [bench.join(instance_id=instance) for instance in "ab"]
    bench.advance(0)
    again = bench.join(instance_id="a")
    bench.join("g", joins[1].response.member_id, instance_id="b")
    assert again.response.leader == again.response.member_id == "a-0003"


def test_in_the_join_phase_a_restart_counts_for_the_member(bench):
    a, b, c = static_group(bench, "a", "b", "c")
    old = bench.join("g", b, instance_id="b", protocols={"range": b"new"})
    again = bench.join(instance_id="b")
    assert old.response == JoinGroupResponse(error=ErrorCode.fenced_instance_id, member_id=b)
    bench.join("g", a, instance_id="a")
    assert again.parked
    bench.join("g", c, instance_id="c")
    assert again.response.generation == 2


def test_the_last_awaited_member_that_comes_back_ends_the_join_phase(bench):
    a, _ = static_group(bench, "a", "b")
    joining = bench.join("g", a, instance_id="a")
    again = bench.join(instance_id="b")
    assert [joining.response.generation, again.response.generation] == [2, 2]


def test_a_restart_of_a_member_that_is_new_is_not_expired_while_it_waits(bench):
    """The newcomer's first join is parked for longer than its session, its restart too."""
    bench.stable(session_timeout_ms=90_000, rebalance_timeout_ms=90_000)
    bench.join(instance_id="i")
    again = bench.join(instance_id="i")
    bench.advance(60_000)
    assert again.parked


# --- fencing ---


def fenced_and_unknown(bench, member_id, instance):
    """What this id hears, with the instance id or without."""
    return [
        bench.heartbeat("g", member_id, 1, instance_id=instance).error,
        bench.sync("g", member_id, 1, instance_id=instance).error,
        bench.join("g", member_id, instance_id=instance).error,
        bench.commit("g", {("t", 0): 1}, member_id=member_id, generation=1, instance_id=instance)
        .response.results[0][1]
        .name,
        bench.leave("g", (member_id, instance)).response.members[0].error.name,
    ]


def test_the_old_id_is_fenced_with_the_instance_id_and_unknown_without(bench):
    """§3."""
    _, b = static_group(bench, "a", "b")
    again = bench.join(instance_id="b").response.member_id
    assert fenced_and_unknown(bench, b, "b") == ["fenced_instance_id"] * 5
    assert fenced_and_unknown(bench, b, None) == ["unknown_member_id"] * 5
    assert bench.heartbeat("g", again, 1, instance_id="b").error == "none"


def test_a_member_with_anothers_instance_id_is_fenced(bench):
    a, b = static_group(bench, "a", "b")
    assert fenced_and_unknown(bench, a, "b") == ["fenced_instance_id"] * 5
    assert fenced_and_unknown(bench, "nobody", "b") == ["fenced_instance_id"] * 5
    assert bench.heartbeat("g", b, 1, instance_id="b").error == "none"


def test_an_unknown_instance_id_is_unknown(bench):
    (a,) = static_group(bench, "a")
    assert fenced_and_unknown(bench, a, "other") == ["unknown_member_id"] * 5


def test_a_dynamic_member_does_not_become_static(bench):
    (member_id,) = bench.stable()
    assert fenced_and_unknown(bench, member_id, "i") == ["unknown_member_id"] * 5
    assert bench.join(instance_id="i").parked
    assert len(bench.group().sessions) == 2


def test_a_static_member_that_does_not_name_its_instance_stays_who_it_is(bench):
    _, b = static_group(bench, "a", "b")
    assert bench.join("g", b).response.generation == 1
    assert bench.heartbeat("g", b, 1).error == "none"
    assert bench.group().instances["b"] == b


def test_a_restart_that_is_refused_leaves_the_old_id_good(bench):
    _, b = static_group(bench, "a", "b")
    assert (
        bench.join(instance_id="b", protocols={"other": b""}).error == "inconsistent_group_protocol"
    )
    assert (
        bench.join(instance_id="b", protocol_type="connect").error == "inconsistent_group_protocol"
    )
    assert bench.heartbeat("g", b, 1, instance_id="b").error == "none"


def test_a_restart_in_a_full_group_is_one_too_many():
    """§3: the empty member id counts as new."""
    bench = Bench(GroupCoordinatorConfig(initial_rebalance_delay_ms=0, max_size=2))
    _, b = static_group(bench, "a", "b")
    assert bench.join(instance_id="b").response == JoinGroupResponse(
        error=ErrorCode.group_max_size_reached
    )
    assert bench.heartbeat("g", b, 1, instance_id="b").error == "none"


# --- going ---


def test_after_a_leave_the_instance_id_is_free(bench):
    a, b = static_group(bench, "a", "b")
    bench.leave("g", (b, "b"))
    assert bench.join("g", a, instance_id="a").response.generation == 2
    bench.sync("g", a, 2, instance_id="a")
    assert bench.join(instance_id="b").parked
    assert bench.state() is State.PREPARING_REBALANCE


def test_a_session_that_ends_frees_the_instance_id(bench):
    """known-mistakes, SeaweedFS: static instance mappings dangle after expiry."""
    (member_id,) = static_group(bench, "i")
    assert bench.advance(10_000) == [SessionExpires("g", member_id)]
    assert bench.group().instances == {}
    assert bench.heartbeat("g", member_id, 1, instance_id="i").error == "unknown_member_id"
    assert bench.join(instance_id="i").parked


def test_a_static_member_that_is_gone_keeps_its_place_until_its_session_ends(bench):
    a, b = static_group(bench, "a", "b", rebalance_timeout_ms=1_000)
    joining = bench.join("g", a, instance_id="a", rebalance_timeout_ms=1_000)
    bench.advance(1_000)
    assert joining.response.generation == 2
    bench.sync("g", a, 2, {a: b"all", b: b"none"}, instance_id="a")
    assert bench.sync("g", b, 2, instance_id="b").response.assignment == b"none"
    for _ in range(2):
        bench.advance(5_000)
        bench.heartbeat("g", a, 2, instance_id="a")
    assert set(bench.group().sessions) == {a}
