"""OffsetFetch: what was committed, or -1."""

from uuid import UUID

from kohort.coordinator.classic import State
from kohort.coordinator.requests import OffsetToCommit
from kohort.coordinator.responses import FetchedOffset, OffsetFetchResponse
from kohort.coordinator.result import Result

OLD, NEW = UUID(int=1), UUID(int=2)


def fetched(call):
    return call.response.offsets


def test_an_unknown_group_is_no_error(bench):
    """-1, epoch -1 and no metadata for each partition asked for, nothing for "all"."""
    assert bench.fetch("g", ("t", 0), ("u", 3)).response == OffsetFetchResponse(
        offsets=(FetchedOffset("t", 0, -1, -1, ""), FetchedOffset("u", 3, -1, -1, ""))
    )
    assert bench.fetch("g", everything=True).response == OffsetFetchResponse()
    assert bench.state() is State.DEAD


def test_a_partition_that_was_never_committed_is_minus_1(bench):
    bench.commit("g", {("t", 0): 7})
    assert fetched(bench.fetch("g", ("t", 1), ("t", 0))) == (
        FetchedOffset("t", 1),
        FetchedOffset("t", 0, 7),
    )


def test_offset_epoch_and_metadata_come_back(bench):
    bench.commit("g", {("t", 0): OffsetToCommit("t", 0, 7, 3, "note")})
    assert fetched(bench.fetch("g", ("t", 0))) == (FetchedOffset("t", 0, 7, 3, "note"),)


def test_all_that_was_committed_comes_back_without_naming_it(bench):
    bench.commit("g", {("t", 0): 1, ("t", 1): 2})
    bench.commit("g", {("u", 0): 3})
    assert set(fetched(bench.fetch("g", everything=True))) == {
        FetchedOffset("t", 0, 1),
        FetchedOffset("t", 1, 2),
        FetchedOffset("u", 0, 3),
    }


def test_naming_no_partition_gives_none(bench):
    bench.commit("g", {("t", 0): 1})
    assert fetched(bench.fetch("g")) == ()


def test_groups_do_not_see_each_others_offsets(bench):
    bench.commit("g", {("t", 0): 1})
    assert fetched(bench.fetch("h", ("t", 0))) == (FetchedOffset("t", 0),)


def test_a_fetch_is_nothing_but_its_answer(bench):
    bench.stable()
    call = bench.fetch("g", ("t", 0))
    assert call.result == Result(replies=call.result.replies)


def test_offsets_outlive_their_members(bench):
    """known-mistakes, SeaweedFS: committed offsets deleted after 30 idle minutes."""
    (member_id,) = bench.stable()
    bench.commit("g", {("t", 0): 7}, member_id=member_id, generation=1)
    bench.leave("g", member_id)
    bench.advance(24 * 3_600_000)
    bench.expire_offsets()
    assert fetched(bench.fetch("g", ("t", 0))) == (FetchedOffset("t", 0, 7),)


def test_offsets_outlive_the_coordinator(bench):
    bench.commit("g", {("t", 0): OffsetToCommit("t", 0, 7, 3, "note")})
    bench.restart()
    assert fetched(bench.fetch("g", ("t", 0))) == (FetchedOffset("t", 0, 7, 3, "note"),)


def test_the_offset_of_a_topic_that_had_another_id_is_not_shown(bench):
    """Version 10."""
    bench.commit("g", {("t", 0): OffsetToCommit("t", 0, 7, topic_id=OLD)})
    assert fetched(bench.fetch("g", ("t", 0), topic_ids={"t": NEW})) == (FetchedOffset("t", 0),)
    assert fetched(bench.fetch("g", ("t", 0), topic_ids={"t": OLD})) == (FetchedOffset("t", 0, 7),)
    assert fetched(bench.fetch("g", ("t", 0))) == (FetchedOffset("t", 0, 7),)
    assert fetched(bench.fetch("g", everything=True, topic_ids={"t": NEW})) == ()
    assert fetched(bench.fetch("g", everything=True, topic_ids={"t": OLD, "u": NEW})) == (
        FetchedOffset("t", 0, 7),
    )


def test_an_offset_that_was_stored_without_a_topic_id_is_shown_for_any(bench):
    bench.commit("g", {("t", 0): 7})
    assert fetched(bench.fetch("g", ("t", 0), topic_ids={"t": NEW})) == (FetchedOffset("t", 0, 7),)


def test_the_offsets_of_a_deleted_topic_are_gone(bench):
    """§3, OffsetFetch."""
    bench.commit("g", {("t", 0): 7, ("u", 0): 8})
    bench.delete_topics("t")
    assert fetched(bench.fetch("g", everything=True)) == (FetchedOffset("u", 0, 8),)
