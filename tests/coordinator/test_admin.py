"""DescribeGroups, ListGroups, DeleteGroups, OffsetDelete, and the offsets of deleted topics."""

import pytest

from kohort.coordinator.classic import State
from kohort.coordinator.offsets import offset_tombstone
from kohort.coordinator.records import GroupMetadataKey, GroupMetadataRecord
from kohort.coordinator.responses import (
    DeleteGroupResponse,
    DescribedMember,
    DescribeGroupResponse,
    ListedGroup,
    OffsetDeleteResponse,
)
from kohort.coordinator.result import SessionExpires
from kohort.errors import ErrorCode
from kohort.protocol.subscription import Subscription, encode_subscription
from kohort.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
NONE = ErrorCode.none


def subscribed(*topics):
    """Protocols of a consumer of these topics."""
    return {"range": encode_subscription(Subscription(topics=topics))}


def described(member_id, metadata=b"", assignment=b"", instance_id=None):
    return DescribedMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id="client",
        client_host="/127.0.0.1",
        metadata=metadata,
        assignment=assignment,
    )


# --- DescribeGroups ---


@pytest.mark.parametrize("version", range(6))
def test_up_to_version_5_an_unknown_group_is_dead(bench, version):
    assert bench.describe("g", version=version).response == DescribeGroupResponse(
        group="g", state="Dead"
    )


def test_from_version_6_on_an_unknown_group_is_not_found(bench):
    assert bench.describe("g", version=6).response == DescribeGroupResponse(
        error=ErrorCode.group_id_not_found,
        error_message="Group g not found.",
        group="g",
        state="Dead",
    )


def test_a_stable_group_shows_metadata_and_assignments(bench):
    leader, follower = bench.stable(members=2)
    assert bench.describe("g").response == DescribeGroupResponse(
        group="g",
        state="Stable",
        protocol_type="consumer",
        protocol="range",
        members=(
            described(leader, b"range-metadata", leader.encode()),
            described(follower, b"range-metadata", follower.encode()),
        ),
    )


def test_a_rebalancing_group_shows_neither_protocol_nor_metadata(bench):
    """§3, Describe: the assignments shown are still those of before, in Preparing and in
    Completing.
    """
    leader, follower = bench.stable(members=2)
    members = (
        described(leader, assignment=leader.encode()),
        described(follower, assignment=follower.encode()),
    )
    common = {"group": "g", "protocol_type": "consumer", "protocol": "", "members": members}
    bench.join("g", leader)
    assert bench.describe("g").response == DescribeGroupResponse(
        state="PreparingRebalance", **common
    )
    bench.join("g", follower)
    assert bench.describe("g").response == DescribeGroupResponse(
        state="CompletingRebalance", **common
    )


def test_members_that_wait_for_their_first_generation_are_shown(bench):
    joining = bench.handshake()
    assert bench.describe("g").response == DescribeGroupResponse(
        group="g",
        state="PreparingRebalance",
        protocol_type="consumer",
        members=(described(joining.request.member_id),),
    )


def test_an_empty_group_keeps_its_protocol_type(bench):
    (member_id,) = bench.stable()
    bench.leave("g", member_id)
    assert bench.describe("g").response == DescribeGroupResponse(
        group="g", state="Empty", protocol_type="consumer"
    )


def test_a_simple_group_is_empty_and_has_no_protocol_type(bench):
    bench.commit("g", {("t", 0): 1})
    assert bench.describe("g").response == DescribeGroupResponse(group="g", state="Empty")


def test_a_group_of_pending_ids_shows_empty(bench):
    """§3, Pending ids."""
    bench.join()
    assert bench.describe("g").response == DescribeGroupResponse(group="g", state="Empty")


def test_instance_ids_are_shown(bench):
    joining = bench.join(instance_id="i")
    assert bench.describe("g").response.members == (described("i-0001", instance_id="i"),)
    assert joining.parked


# --- ListGroups ---


@pytest.fixture
def groups(bench):
    """A stable, an empty, a simple and a preparing group."""
    bench.stable("stable")
    (member_id,) = bench.stable("empty", protocol_type="connect")
    bench.leave("empty", member_id)
    bench.commit("simple", {("t", 0): 1})
    bench.handshake("preparing")
    return bench


def listed(call):
    return {group.group for group in call.response.groups}


def test_all_groups_are_listed(groups):
    assert set(groups.list_groups().response.groups) == {
        ListedGroup("stable", "consumer", "Stable", "classic"),
        ListedGroup("empty", "connect", "Empty", "classic"),
        ListedGroup("simple", "", "Empty", "classic"),
        ListedGroup("preparing", "consumer", "PreparingRebalance", "classic"),
    }


@pytest.mark.parametrize(
    ("states", "found"),
    [
        (["Stable"], {"stable"}),
        (["stable"], {"stable"}),
        (["EMPTY", "preparingrebalance"], {"empty", "simple", "preparing"}),
        (["Dead"], set()),
        (["no such state"], set()),
    ],
)
def test_states_are_filtered_in_any_case(groups, states, found):
    assert listed(groups.list_groups(states=states)) == found


@pytest.mark.parametrize(
    ("types", "count"),
    [(["classic"], 4), (["Classic", "consumer"], 4), (["consumer"], 0), (["share"], 0)],
)
def test_types_are_filtered_in_any_case(groups, types, count):
    assert len(listed(groups.list_groups(types=types))) == count


def test_state_and_type_must_both_fit(groups):
    assert listed(groups.list_groups(states=["stable"], types=["classic"])) == {"stable"}
    assert listed(groups.list_groups(states=["stable"], types=["consumer"])) == set()


def test_a_deleted_group_is_not_listed(groups):
    groups.delete("simple")
    assert "simple" not in listed(groups.list_groups())


# --- DeleteGroups ---


def test_an_unknown_group_is_not_found(bench):
    assert bench.delete("g").response == DeleteGroupResponse(ErrorCode.group_id_not_found)


def test_a_group_with_members_is_not_empty(bench):
    leader, follower = bench.stable(members=2)
    assert bench.delete("g").error == "non_empty_group"
    bench.join("g", leader)
    assert bench.state() is State.PREPARING_REBALANCE
    assert bench.delete("g").error == "non_empty_group"
    bench.join("g", follower)
    assert bench.state() is State.COMPLETING_REBALANCE
    assert bench.delete("g").error == "non_empty_group"


def test_an_empty_group_goes_with_all_its_offsets(bench):
    (member_id,) = bench.stable()
    bench.commit("g", {("t", 0): 1, ("u", 0): 2}, member_id=member_id, generation=1)
    bench.leave("g", member_id)
    call = bench.delete("g")
    assert call.response == DeleteGroupResponse()
    assert call.result.records == (
        offset_tombstone("g", T0),
        offset_tombstone("g", U0),
        GroupMetadataRecord(GroupMetadataKey("g"), None),
    )
    assert bench.state() is State.DEAD
    assert bench.fetch("g", ("t", 0)).response.offsets[0].offset == -1
    assert bench.delete("g").error == "group_id_not_found"


def test_a_simple_group_can_be_deleted(bench):
    bench.commit("g", {("t", 0): 1})
    assert bench.delete("g").error == "none"
    assert bench.state() is State.DEAD


def test_a_group_of_pending_ids_can_be_deleted_and_the_ids_are_unknown_then(bench):
    """§3, Pending ids."""
    pending = bench.join().response.member_id
    assert bench.delete("g").error == "none"
    assert bench.state() is State.DEAD
    assert bench.join("g", pending).error == "unknown_member_id"
    bench.join()
    assert bench.join("g", pending).error == "unknown_member_id"
    assert SessionExpires("g", pending) in bench.advance(10_000)


def test_a_group_that_was_deleted_begins_again_with_generation_1(bench):
    (member_id,) = bench.stable()
    bench.leave("g", member_id)
    bench.delete("g")
    joining = bench.handshake()
    bench.advance(0)
    assert joining.response.generation == 1


# --- OffsetDelete ---


def delete_offsets(bench, *partitions):
    return bench.delete_offsets("g", *partitions)


def results(*pairs):
    return OffsetDeleteResponse(results=pairs)


def test_offsets_of_the_empty_group_id_are_invalid_and_of_an_unknown_group_not_found(bench):
    assert bench.delete_offsets("", T0).response == OffsetDeleteResponse(
        error=ErrorCode.invalid_group_id
    )
    assert delete_offsets(bench, T0).response == OffsetDeleteResponse(
        error=ErrorCode.group_id_not_found
    )


def test_offsets_of_an_empty_group_are_deleted_whether_they_are_there_or_not(bench):
    bench.commit("g", {("t", 0): 1, ("u", 0): 2})
    call = delete_offsets(bench, T0, T1)
    assert call.response == results((T0, NONE), (T1, NONE))
    assert call.result.records == (offset_tombstone("g", T0),)
    assert [offset.offset for offset in bench.fetch("g", T0, U0).response.offsets] == [-1, 2]


def test_a_simple_group_without_offsets_stays_until_the_next_check(bench):
    bench.commit("g", {("t", 0): 1})
    delete_offsets(bench, T0)
    assert bench.state() is State.EMPTY
    bench.expire_offsets()
    assert bench.state() is State.DEAD


def test_a_group_of_another_type_with_members_is_not_empty(bench):
    (member_id,) = bench.stable(protocol_type="connect")
    assert delete_offsets(bench, T0).response == OffsetDeleteResponse(
        error=ErrorCode.non_empty_group
    )
    bench.leave("g", member_id)
    assert delete_offsets(bench, T0).response == results((T0, NONE))


def test_a_subscribed_topic_keeps_its_offsets(bench):
    bench.commit("g", {("t", 0): 1, ("u", 0): 2})
    bench.stable(protocols=subscribed("t"))
    assert delete_offsets(bench, T0, U0).response == results(
        (T0, ErrorCode.group_subscribed_to_topic), (U0, NONE)
    )
    assert [offset.offset for offset in bench.fetch("g", T0, U0).response.offsets] == [1, -1]


def test_topics_of_any_members_subscription_count_as_subscribed(bench):
    bench.handshake(protocols=subscribed("t"))
    bench.handshake(protocols=subscribed("u", "v"))
    bench.advance(0)
    assert delete_offsets(bench, T0, U0, ("w", 0)).response.results == (
        (T0, ErrorCode.group_subscribed_to_topic),
        (U0, ErrorCode.group_subscribed_to_topic),
        (TopicPartition("w", 0), NONE),
    )


def test_a_subscription_that_cannot_be_read_keeps_every_offset(bench):
    bench.commit("g", {("t", 0): 1})
    bench.stable(protocols={"range": b"\x00"})
    call = delete_offsets(bench, T0, U0)
    assert call.response == results(
        (T0, ErrorCode.group_subscribed_to_topic), (U0, ErrorCode.group_subscribed_to_topic)
    )
    assert call.result.records == ()


def test_subscriptions_of_former_members_of_an_empty_group_do_not_count(bench):
    (member_id,) = bench.stable(protocols=subscribed("t"))
    bench.leave("g", member_id)
    assert delete_offsets(bench, T0).response == results((T0, NONE))


# --- deleted topics ---


def test_a_deleted_topic_takes_its_offsets_from_every_group(bench):
    bench.commit("g", {("t", 0): 1, ("t", 1): 2, ("u", 0): 3})
    bench.commit("h", {("t", 0): 4})
    result = bench.delete_topics("t", "not committed")
    assert result.records == (
        offset_tombstone("g", T0),
        offset_tombstone("g", T1),
        offset_tombstone("h", T0),
    )
    assert bench.fetch("g", everything=True).response.offsets[0].topic == "u"


def test_a_group_with_members_stays_when_its_topic_goes(bench):
    (member_id,) = bench.stable()
    bench.commit("g", {("t", 0): 1}, member_id=member_id, generation=1)
    bench.delete_topics("t")
    assert bench.heartbeat("g", member_id, 1).error == "none"
