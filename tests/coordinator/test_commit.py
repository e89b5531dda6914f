"""OffsetCommit: who may commit, and what is stored."""

from uuid import UUID

import pytest

from kohort.coordinator.classic import State
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.records import (
    NO_TIMESTAMP,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
    decode,
    encode,
)
from kohort.coordinator.requests import OffsetToCommit
from kohort.coordinator.responses import OffsetCommitResponse
from kohort.coordinator.result import Result
from kohort.errors import ErrorCode
from kohort.testing.bench import Bench
from kohort.types import Reply, TopicPartition

T0 = ("t", 0)
TOPIC_ID = UUID("01234567-89ab-cdef-0edc-ba9876543210")


def outcome(call):
    """The one error that every partition is answered."""
    (error,) = {error for _, error in call.response.results}
    return error.name


def commit(bench, member_id="", generation=-1, **options):
    return outcome(
        bench.commit("g", {T0: 7}, member_id=member_id, generation=generation, **options)
    )


def stored(bench, *partition):
    return bench.fetch("g", partition or T0).response.offsets[0].offset


# --- no group yet ---


def test_generation_minus_1_makes_a_simple_group(bench):
    call = bench.commit("g", {T0: OffsetToCommit("t", 0, 7, 3, "note"), ("u", 1): 8})
    records = (
        OffsetCommitRecord(
            OffsetCommitKey("g", "t", 0), OffsetCommitValue(7, 3, "note", bench.now)
        ),
        OffsetCommitRecord(OffsetCommitKey("g", "u", 1), OffsetCommitValue(8, -1, "", bench.now)),
    )
    results = ((TopicPartition("t", 0), ErrorCode.none), (TopicPartition("u", 1), ErrorCode.none))
    assert tuple(row for columns in call.result.records for row in columns.rows()) == records
    assert (
        call.result[1:]
        == Result(replies=(Reply(call.request.on_response, OffsetCommitResponse(results)),))[1:]
    )
    assert bench.state() is State.EMPTY
    assert bench.group().protocol_type == ""


def test_the_empty_group_id_is_one_like_any(bench):
    """§1, Common order of checks."""
    assert outcome(bench.commit("", {T0: 7})) == "none"
    assert bench.fetch("", T0).response.offsets[0].offset == 7


@pytest.mark.parametrize(("version", "error"), [(v, "illegal_generation") for v in range(2, 9)]
                         + [(v, "group_id_not_found") for v in (9, 10)])  # fmt: skip
def test_a_generation_in_an_unknown_group_is_refused(bench, version, error):
    assert commit(bench, "m", 0, version=version) == error
    assert bench.state() is State.DEAD


def test_if_every_partition_is_refused_no_group_is_made(bench):
    """§3, Commits."""
    call = bench.commit("g", {T0: OffsetToCommit("t", 0, 7, metadata="x" * 4_097)})
    assert outcome(call) == "offset_metadata_too_large"
    assert bench.state() is State.DEAD


def test_a_group_id_that_the_log_cannot_hold_is_invalid(bench):
    call = bench.commit("g" * 32_768, {T0: 7})
    assert outcome(call) == "invalid_group_id"
    assert call.result.records == ()


# --- by state ---


@pytest.mark.parametrize("member_id", ["", "anybody"])
def test_generation_minus_1_is_accepted_in_an_empty_group_whatever_the_member(bench, member_id):
    (left,) = bench.stable()
    bench.leave("g", left)
    assert commit(bench, member_id) == "none"
    assert commit(bench, left) == "none"


def test_a_member_that_left_an_empty_group_is_unknown_with_its_generation(bench):
    """§3, Commits."""
    (left,) = bench.stable()
    bench.leave("g", left)
    assert commit(bench, left, 1) == "unknown_member_id"
    assert commit(bench, left, 2) == "unknown_member_id"


def test_generation_minus_1_without_a_member_is_unknown_to_a_live_group(bench):
    bench.stable()
    assert commit(bench) == "unknown_member_id"
    assert commit(bench, "nobody") == "unknown_member_id"


def test_generation_minus_1_of_a_member_is_illegal_in_a_live_group(bench):
    (member_id,) = bench.stable()
    assert commit(bench, member_id) == "illegal_generation"


def test_generation_minus_1_with_an_instance_id_only_is_fenced_in_a_live_group(bench):
    """§3, Commits."""
    bench.join(instance_id="i")
    bench.advance(0)
    assert commit(bench, instance_id="i") == "fenced_instance_id"
    assert commit(bench, instance_id="other") == "unknown_member_id"


def test_the_member_is_checked_before_the_generation(bench):
    (member_id,) = bench.stable()
    assert commit(bench, "nobody", 9) == "unknown_member_id"
    assert commit(bench, member_id, 9) == "illegal_generation"
    assert commit(bench, member_id, 0) == "illegal_generation"


def test_a_member_commits_in_stable(bench):
    (member_id,) = bench.stable()
    assert commit(bench, member_id, 1) == "none"
    assert stored(bench) == 7


def test_between_join_and_sync_nobody_commits(bench):
    joining = bench.handshake()
    bench.advance(0)
    assert commit(bench, joining.response.member_id, 1) == "rebalance_in_progress"
    assert stored(bench) == -1


def test_in_the_join_phase_commits_of_the_generation_before_are_stored(bench):
    leader, follower = bench.stable(members=2)
    bench.join("g", leader)
    assert bench.state() is State.PREPARING_REBALANCE
    assert commit(bench, follower, 1) == "none"
    assert commit(bench, follower, 2) == "illegal_generation"


def test_a_commit_of_the_generation_before_is_refused_once_the_next_is_there(bench):
    leader, follower = bench.stable(members=2)
    bench.join("g", leader)
    bench.join("g", follower)
    assert commit(bench, follower, 1) == "illegal_generation"


def test_a_refused_commit_stores_nothing(bench):
    bench.stable()
    assert bench.commit("g", {T0: 7}, member_id="nobody", generation=1).result.records == ()
    assert stored(bench) == -1


# --- what is stored ---


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("x" * 4_096, "none"),
        ("x" * 4_097, "offset_metadata_too_large"),
        ("é" * 4_096, "none"),
        ("\U0001f600" * 2_048, "none"),
        ("\U0001f600" * 2_049, "offset_metadata_too_large"),
        (None, "none"),
        ("", "none"),
    ],
    ids=[
        "limit",
        "beyond",
        "limit of two bytes each",
        "limit of pairs",
        "pairs beyond",
        "null",
        "empty",
    ],
)
def test_metadata_is_limited_in_utf16_units(bench, metadata, error):
    call = bench.commit("g", {T0: OffsetToCommit("t", 0, 7, metadata=metadata)})
    assert outcome(call) == error


def test_only_the_partition_with_too_much_metadata_is_refused(bench):
    offsets = {T0: OffsetToCommit("t", 0, 7, metadata="x" * 4_097), ("t", 1): 8}
    call = bench.commit("g", offsets)
    assert call.response.results == (
        (TopicPartition("t", 0), ErrorCode.offset_metadata_too_large),
        (TopicPartition("t", 1), ErrorCode.none),
    )
    assert (stored(bench, "t", 0), stored(bench, "t", 1)) == (-1, 8)


def test_values_of_one_size_that_follow_each_other_are_columns(bench):
    """The records of a commit are in the order of the request, whatever they are."""
    notes = {
        ("t", 0): "",
        ("t", 1): "",
        ("t", 2): "note",
        ("u", 0): "",
        ("t", 3): "",
        ("t", 4): "note",
    }
    offsets = {
        at: OffsetToCommit(*at, 10 * n, metadata=note) for n, (at, note) in enumerate(notes.items())
    }
    call = bench.commit("g", offsets)
    assert [list(columns.partitions) for columns in call.result.records] == [
        [0, 1],
        [2],
        [0],
        [3],
        [4],
    ]
    assert [(*row.key[1:], row.value.offset, row.value.metadata) for row in bench.log] == [
        (*at, 10 * n, note) for n, (at, note) in enumerate(notes.items())
    ]


def test_null_metadata_is_stored_as_empty(bench):
    bench.commit("g", {T0: OffsetToCommit("t", 0, 7, metadata=None)})
    assert bench.log[-1].value.metadata == ""


@pytest.mark.parametrize("offset", [0, -1, -(2**63), 2**63 - 1])
def test_any_offset_is_stored_negative_ones_too(bench, offset):
    """§3, Commits."""
    bench.commit("g", {T0: offset})
    assert decode(*encode(bench.log[-1])).value.offset == offset


def test_the_last_of_two_offsets_of_one_partition_wins(bench):
    """§3, Commits."""
    offsets = {("a", 0): OffsetToCommit("t", 0, 1), ("b", 0): OffsetToCommit("t", 0, 2)}
    call = bench.commit("g", offsets)
    assert call.response.results == ((TopicPartition("t", 0), ErrorCode.none),) * 2
    assert stored(bench) == 2


def test_an_older_offset_overwrites_a_newer_one(bench):
    for offset in (9, 3):
        bench.commit("g", {T0: offset})
    assert stored(bench) == 3


def test_the_topic_id_is_stored(bench):
    bench.commit("g", {T0: OffsetToCommit("t", 0, 7, topic_id=TOPIC_ID)})
    assert decode(*encode(bench.log[-1])).value.topic_id == TOPIC_ID


def test_a_commit_of_nothing_is_answered_with_nothing(bench):
    assert bench.commit("g", {}).response == OffsetCommitResponse(())


# --- the retention of versions 2 to 4 ---


def test_a_retention_is_stored_as_the_time_of_expiry(bench):
    bench.commit("g", {T0: 7}, version=2, retention_ms=60_000)
    value = bench.log[-1].value
    assert value.expire_timestamp == bench.now + 60_000
    assert encode(bench.log[-1])[1][:2] == b"\x00\x01"


def test_retention_minus_1_leaves_it_to_the_broker(bench):
    bench.commit("g", {T0: 7}, version=2, retention_ms=-1)
    assert bench.log[-1].value.expire_timestamp == NO_TIMESTAMP


@pytest.mark.parametrize("retention_ms", [0, 2**63 - 1, -(2**63), -5])
def test_any_retention_can_be_logged(bench, retention_ms):
    bench.commit(
        "g",
        {T0: OffsetToCommit("t", 0, 7, topic_id=TOPIC_ID)},
        version=2,
        retention_ms=retention_ms,
    )
    assert decode(*encode(bench.log[-1])) == bench.log[-1]


def test_an_offset_metadata_limit_of_its_own():
    bench = Bench(GroupCoordinatorConfig(offset_metadata_max_bytes=3))
    assert (
        outcome(bench.commit("g", {T0: OffsetToCommit("t", 0, 7, metadata="abcd")}))
        == "offset_metadata_too_large"
    )
    assert outcome(bench.commit("g", {T0: OffsetToCommit("t", 0, 7, metadata="abc")})) == "none"


def test_metadata_that_the_log_cannot_hold_is_too_large_whatever_the_limit():
    bench = Bench(GroupCoordinatorConfig(offset_metadata_max_bytes=2**31 - 1))
    call = bench.commit("g", {T0: OffsetToCommit("t", 0, 7, metadata="é" * 32_767)}, retention_ms=5)
    assert outcome(call) == "offset_metadata_too_large"
