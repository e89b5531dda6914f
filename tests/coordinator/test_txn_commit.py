"""Offsets committed in transactions: TxnOffsetCommit, markers, and what pending offsets hold up."""

import pytest

from kohort.coordinator.classic import State
from kohort.coordinator.config import PENDING_GROUP_WEIGHT, GroupCoordinatorConfig
from kohort.coordinator.records import TransactionMarker
from kohort.coordinator.requests import OffsetToCommit
from kohort.testing.bench import Bench

T0, T1 = ("t", 0), ("t", 1)
RETENTION = GroupCoordinatorConfig(initial_rebalance_delay_ms=0, offsets_retention_ms=60_000)


def errors(call):
    return [error.name for _, error in call.response.results]


def fetched(bench, *partitions, stable=False, group="g"):
    offsets = bench.fetch(group, *partitions, require_stable=stable).response.offsets
    return [each.error.name if each.error else each.offset for each in offsets]


# --- who may commit ---


def test_a_simple_group_is_made(bench):
    assert errors(bench.txn_commit("g", {T0: 5})) == ["none"]
    assert bench.state() is State.EMPTY
    assert bench.describe("g").error == "none"


@pytest.mark.parametrize(
    ("version", "named", "error"),
    [
        (5, {"generation": 0}, "illegal_generation"),
        (5, {"generation": 3, "member_id": "m"}, "illegal_generation"),
        (5, {"member_id": "m"}, "none"),
        (6, {"generation": 0}, "group_id_not_found"),
        (6, {"generation": 3, "member_id": "m"}, "group_id_not_found"),
        (6, {"member_id": "m"}, "none"),
    ],
)
def test_an_unknown_group_has_no_generation(bench, version, named, error):
    assert errors(bench.txn_commit("g", {T0: 5}, version=version, **named)) == [error]
    assert (bench.state() is State.EMPTY) == (error == "none")


@pytest.mark.parametrize("group", ["", "g" * 40_000])
def test_a_group_id_must_be_one_that_the_log_can_hold(bench, group):
    assert errors(bench.txn_commit(group, {T0: 5})) == ["invalid_group_id"]


def test_a_member_commits_in_its_generation(bench):
    (member,) = bench.stable()
    assert errors(bench.txn_commit("g", {T0: 5}, member_id=member, generation=1)) == ["none"]


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ({}, "none"),
        ({"generation": -1, "instance_id": "i"}, "unknown_member_id"),
        ({"generation": -1, "member_id": "stranger"}, "unknown_member_id"),
        ({"generation": 1, "member_id": "stranger"}, "unknown_member_id"),
        ({"generation": 1}, "unknown_member_id"),
        ({"generation": 1, "member_id": "stranger", "instance_id": "s"}, "fenced_instance_id"),
    ],
)
def test_a_live_group_refuses_commits_of_wrong_members_and_generations(bench, named, error):
    join = bench.join(instance_id="s")
    bench.advance(0)
    bench.sync("g", join.response.member_id, 1)
    assert errors(bench.txn_commit("g", {T0: 5}, **named)) == [error]


def test_an_old_generation_is_refused(bench):
    (member,) = bench.stable()
    for generation in (0, 2, -1):
        commit = bench.txn_commit("g", {T0: 5}, member_id=member, generation=generation)
        assert errors(commit) == ["illegal_generation"]


def test_an_empty_group_with_a_generation_takes_none_and_refuses_others(bench):
    (member,) = bench.stable()
    bench.leave("g", member)
    assert errors(bench.txn_commit("g", {T0: 5}, member_id="whoever")) == ["none"]
    gone = bench.txn_commit("g", {T0: 5}, member_id=member, generation=1)
    assert errors(gone) == ["unknown_member_id"]


def test_the_sync_phase_refuses_no_commit(bench):
    join = bench.handshake()
    bench.advance(0)
    assert bench.state() is State.COMPLETING_REBALANCE
    member = join.response.member_id
    assert errors(bench.txn_commit("g", {T0: 5}, member_id=member, generation=1)) == ["none"]
    assert errors(bench.commit("g", {T0: 5}, member_id=member, generation=1)) == [
        "rebalance_in_progress"
    ]


def test_a_commit_in_a_transaction_is_no_sign_of_life(bench):
    (member,) = bench.stable(session_timeout_ms=10_000)
    bench.advance(9_000)
    bench.txn_commit("g", {T0: 5}, member_id=member, generation=1)
    bench.advance(1_000)
    assert bench.state() is State.EMPTY


def test_metadata_that_is_too_large_refuses_its_partition_alone(bench):
    large = OffsetToCommit("t", 1, 6, metadata="m" * 4_097)
    assert errors(bench.txn_commit("g", {T0: 5, T1: large})) == [
        "none",
        "offset_metadata_too_large",
    ]
    bench.end_transaction()
    assert fetched(bench, T0, T1) == [5, -1]


def test_a_commit_too_large_for_one_batch_is_refused_as_a_whole():
    bench = Bench(GroupCoordinatorConfig(max_commit_bytes=600))
    many = {("t", number): 5 for number in range(20)}
    assert set(errors(bench.txn_commit("g", many))) == {"unknown_server_error"}
    long = {("t" * 200, number): 5 for number in range(4)}
    assert set(errors(bench.txn_commit("g", long))) == {"unknown_server_error"}
    assert bench.log == []


def test_a_transaction_has_a_limited_number_of_pending_offsets():
    bench = Bench(GroupCoordinatorConfig(max_pending_offsets=PENDING_GROUP_WEIGHT + 3))
    assert errors(bench.txn_commit("g", {T0: 5, T1: 5})) == ["none", "none"]
    refused = bench.txn_commit("h", {T0: 5, T1: 5})
    assert set(errors(refused)) == {"invalid_commit_offset_size"}
    assert errors(bench.txn_commit("h", {T0: 5})) == ["none"]
    assert errors(bench.txn_commit("h", {T0: 5, T1: 5}, producer_id=2)) == ["none", "none"]
    bench.end_transaction()
    assert errors(bench.txn_commit("g", {T0: 5, T1: 5})) == ["none", "none"]


# --- the end of a transaction ---


def test_an_offset_is_pending_until_the_marker(bench):
    bench.commit("g", {T0: 1})
    bench.txn_commit("g", {T0: 5, T1: 6})
    assert fetched(bench, T0, T1) == [1, -1]
    bench.end_transaction()
    assert fetched(bench, T0, T1) == [5, 6]


def test_an_aborted_transaction_leaves_what_was_there(bench):
    bench.commit("g", {T0: 1})
    bench.txn_commit("g", {T0: 5, T1: 6})
    bench.end_transaction(commit=False)
    assert fetched(bench, T0, T1, stable=True) == [1, -1]


def test_the_last_of_several_commits_counts(bench):
    bench.txn_commit("g", {T0: 5, T1: 5})
    bench.txn_commit("g", {T0: 7})
    bench.end_transaction()
    assert fetched(bench, T0, T1) == [7, 5]


def test_a_transaction_commits_for_several_groups_at_once(bench):
    bench.txn_commit("g", {T0: 5})
    bench.txn_commit("h", {T0: 6})
    bench.end_transaction()
    assert fetched(bench, T0) == [5]
    assert fetched(bench, T0, group="h") == [6]


def test_a_marker_ends_the_transaction_of_its_producer_alone(bench):
    bench.txn_commit("g", {T0: 5}, producer_id=1)
    bench.txn_commit("g", {T1: 6}, producer_id=2)
    bench.end_transaction(2)
    assert fetched(bench, T0, T1, stable=True) == ["unstable_offset_commit", 6]


def test_a_marker_without_pending_offsets_changes_nothing(bench):
    bench.commit("g", {T0: 1})
    bench.end_transaction(9)
    bench.txn_commit("g", {T0: 5})
    bench.end_transaction()
    bench.end_transaction(commit=False)
    assert fetched(bench, T0) == [5]


def test_a_later_commit_is_not_overwritten(bench):
    bench.txn_commit("g", {T0: 5, T1: 5})
    bench.commit("g", {T0: 9})
    bench.end_transaction()
    assert fetched(bench, T0, T1) == [9, 5]


def test_the_later_record_of_two_transactions_counts_whichever_ends_first(bench):
    bench.txn_commit("g", {T0: 5, T1: 6}, producer_id=1)
    bench.txn_commit("g", {T0: 7}, producer_id=2)
    bench.end_transaction(2)
    bench.end_transaction(1)
    assert fetched(bench, T0, T1) == [7, 6]
    bench.txn_commit("g", {T0: 15}, producer_id=1)
    bench.txn_commit("g", {T0: 17}, producer_id=2)
    bench.end_transaction(1)
    assert fetched(bench, T0) == [15]
    bench.end_transaction(2)
    assert fetched(bench, T0) == [17]


def test_an_offset_committed_after_its_earlier_one_was_superseded_counts(bench):
    bench.txn_commit("g", {T0: 5})
    bench.commit("g", {T0: 9})
    bench.txn_commit("g", {T0: 11})
    bench.end_transaction()
    assert fetched(bench, T0) == [11]


def test_a_restart_keeps_pending_offsets_and_their_order(bench):
    bench.txn_commit("g", {T0: 5, T1: 5}, producer_id=1)
    bench.txn_commit("g", {T0: 7}, producer_id=2)
    bench.commit("g", {T1: 9})
    bench.restart()
    assert fetched(bench, T0, T1, stable=True) == ["unstable_offset_commit"] * 2
    bench.end_transaction(2)
    bench.restart()
    bench.end_transaction(1)
    assert fetched(bench, T0, T1, stable=True) == [7, 9]


# --- what pending offsets hold up ---


def test_require_stable_hides_offsets_of_open_transactions(bench):
    bench.commit("g", {T0: 1, T1: 2})
    bench.txn_commit("g", {T0: 5, ("u", 0): 6})
    assert fetched(bench, T0, T1, ("u", 0), ("u", 1), ("v", 0), stable=True) == [
        *("unstable_offset_commit", 2, "unstable_offset_commit", -1, -1)
    ]
    assert fetched(bench, T0, T1, ("u", 0)) == [1, 2, -1]
    unstable = bench.fetch("g", T0, require_stable=True).response.offsets[0]
    assert (unstable.offset, unstable.leader_epoch, unstable.metadata) == (-1, -1, "")


@pytest.mark.parametrize("count", [2, 600])
def test_a_fetch_of_everything_names_unstable_partitions_that_have_a_committed_offset(bench, count):
    bench.commit("g", {("t", number): number for number in range(count)})
    bench.txn_commit("g", {T0: 5, ("u", 0): 6})
    everything = list(bench.fetch("g", everything=True, require_stable=True).response.offsets)
    assert len(everything) == count
    assert everything[0].error.name == "unstable_offset_commit"
    assert {each.error.name for each in everything[1:]} == {"none"}
    assert not any(each.error for each in bench.fetch("g", everything=True).response.offsets)


def test_a_superseded_offset_keeps_its_partition_unstable(bench):
    bench.txn_commit("g", {T0: 5})
    bench.commit("g", {T0: 9})
    assert fetched(bench, T0, stable=True) == ["unstable_offset_commit"]
    bench.end_transaction(commit=False)
    assert fetched(bench, T0, stable=True) == [9]


def test_deleting_a_group_drops_its_pending_offsets(bench):
    bench.commit("g", {T0: 1})
    bench.txn_commit("g", {T0: 5, T1: 6})
    assert bench.delete("g").error == "none"
    assert bench.state() is State.DEAD
    bench.end_transaction()
    assert bench.state() is State.DEAD
    bench.restart()
    assert bench.state() is State.DEAD


def test_deleting_a_group_with_very_many_offsets_drops_its_pending_offsets(bench):
    bench.commit("g", {("t", number): 1 for number in range(1_001)})
    bench.txn_commit("g", {T0: 5, ("u", 0): 6})
    assert bench.delete("g").error == "none"
    bench.end_transaction()
    assert bench.state() is State.DEAD
    bench.restart()
    assert bench.state() is State.DEAD


def test_a_commit_after_the_group_was_deleted_makes_it_again(bench):
    bench.txn_commit("g", {T0: 5})
    bench.delete("g")
    bench.txn_commit("g", {T1: 6})
    bench.end_transaction()
    assert fetched(bench, T0, T1) == [-1, 6]


def test_deleting_an_offset_drops_the_pending_one(bench):
    bench.commit("g", {T0: 1})
    bench.txn_commit("g", {T0: 5, T1: 6, ("u", 0): 7})
    bench.delete_offsets("g", T0, T1)
    assert fetched(bench, T0, T1, ("u", 0), stable=True) == [-1, -1, "unstable_offset_commit"]
    bench.end_transaction()
    assert fetched(bench, T0, T1, ("u", 0)) == [-1, -1, 7]


def test_deleting_a_topic_drops_its_pending_offsets(bench):
    bench.commit("g", {T0: 1})
    bench.txn_commit("g", {T0: 5, T1: 6, ("u", 0): 7})
    assert len(bench.delete_topics("t").records) == 2
    assert not bench.delete_topics("t").records
    bench.end_transaction()
    assert fetched(bench, T0, T1, ("u", 0)) == [-1, -1, 7]


def test_neither_the_offset_nor_the_group_expires_during_a_transaction():
    bench = Bench(RETENTION)
    bench.commit("g", {T0: 1, T1: 2})
    bench.txn_commit("g", {T0: 5})
    bench.advance(60_000)
    bench.expire_offsets()
    assert fetched(bench, T0, T1) == [1, -1]
    bench.end_transaction(commit=False)
    bench.expire_offsets()
    assert bench.state() is State.DEAD


def test_a_group_with_nothing_but_pending_offsets_does_not_expire():
    bench = Bench(RETENTION)
    bench.txn_commit("g", {T0: 5})
    bench.advance(60_000)
    bench.expire_offsets()
    assert fetched(bench, T0, stable=True) == ["unstable_offset_commit"]
    bench.end_transaction()
    assert fetched(bench, T0) == [5]


def test_a_group_that_an_aborted_transaction_made_goes_with_the_next_check(bench):
    bench.txn_commit("g", {T0: 5})
    bench.end_transaction(commit=False)
    assert bench.state() is State.EMPTY
    bench.expire_offsets()
    assert bench.state() is State.DEAD


def test_the_log_holds_the_offsets_of_one_producer_and_the_marker(bench):
    call = bench.txn_commit("g", {T0: 5, T1: 6}, producer_id=7)
    (offsets,) = call.result.transactional
    assert (offsets.producer_id, offsets.producer_epoch) == (7, 0)
    assert [row.value.offset for row in offsets.commits.rows()] == [5, 6]
    assert call.result.records == ()
    bench.end_transaction(7)
    assert bench.log == [offsets, TransactionMarker(7, True)]
