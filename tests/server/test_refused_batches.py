"""Which refused batches are remembered, and for how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.errors import ErrorCode
from kohort.protocol.batch_format import MAX_SEQUENCE
from kohort.protocol.batches import increment_sequence
from kohort.server.refused_batches import MAX_SENDERS, NumberedBatch, RefusedBatches
from server.handlers.bench import batch_of

NOT_LEADER = ErrorCode.not_leader_or_follower
GAP = ErrorCode.out_of_order_sequence_number
NONE = ErrorCode.none


def numbered(sequence: int, *, epoch: int = 0, producer_id: int = 1) -> NumberedBatch:
    return NumberedBatch(("orders", 0, producer_id), epoch, sequence)


def refused_at(sequence: int) -> RefusedBatches:
    refused = RefusedBatches()
    refused.add(numbered(sequence), NOT_LEADER)
    return refused


@pytest.mark.parametrize(
    ("sequence", "awaited"), [(6, 5), (5 + (1 << 29), 5), (5, None), (4, None), (0, None)]
)
def test_later_batches_wait_for_that_one(sequence: int, awaited: int | None) -> None:
    assert refused_at(5).before(numbered(sequence)) == awaited


def test_a_batch_that_was_retried_is_not_awaited() -> None:
    refused = refused_at(5)
    assert refused.before(numbered(5)) is None
    assert refused.before(numbered(6)) is None
    assert not refused


def test_each_one_that_was_refused_is_waited_for() -> None:
    """A producer sends the first again, and new ones, before it gets the response to the second."""
    refused = refused_at(5)
    assert refused.before(numbered(6)) == 5
    assert refused.error_of(numbered(6), GAP) is NOT_LEADER
    assert refused.before(numbered(5)) is None
    assert refused.before(numbered(7)) == 6
    assert refused.error_of(numbered(7), GAP) is NOT_LEADER
    assert [refused.before(numbered(6)), refused.before(numbered(7))] == [None, None]
    assert refused.before(numbered(8)) is None


@given(st.integers(0, MAX_SEQUENCE), st.integers(1, 1000))
def test_sequences_start_again_behind_the_largest(sequence: int, ahead: int) -> None:
    later = increment_sequence(sequence, ahead)
    assert refused_at(sequence).before(numbered(later)) == sequence
    assert refused_at(later).before(numbered(sequence)) is None


def test_a_new_epoch_counts_by_itself() -> None:
    refused = refused_at(5)
    assert refused.before(numbered(6, epoch=1)) is None
    assert not refused


def test_an_old_epoch_changes_nothing() -> None:
    refused = RefusedBatches()
    refused.add(numbered(0, epoch=2), NOT_LEADER)
    refused.add(numbered(5, epoch=1), NOT_LEADER)
    assert refused.before(numbered(6, epoch=1)) is None
    assert refused.before(numbered(1, epoch=2)) == 0


def test_other_producers_and_partitions_do_not_wait() -> None:
    refused = refused_at(5)
    assert refused.before(numbered(6, producer_id=2)) is None
    assert refused.before(NumberedBatch(("orders", 1, 1), 0, 6)) is None
    assert refused.before(NumberedBatch(("others", 0, 1), 0, 6)) is None
    assert refused.before(numbered(6)) == 5


def test_the_earliest_one_is_remembered() -> None:
    refused = refused_at(5)
    for sequence in (6, 3, 4):
        refused.add(numbered(sequence), ErrorCode.kafka_storage_error)
    assert refused.before(numbered(5)) == 3
    assert refused.error_of(numbered(5), GAP) is ErrorCode.kafka_storage_error


def test_five_batches_can_be_on_their_way() -> None:
    refused = refused_at(5)
    for sequence in (6, 7, 8, 9, 10):
        assert refused.before(numbered(sequence)) == 5
        assert refused.error_of(numbered(sequence), GAP) is NOT_LEADER
    assert refused.before(numbered(11)) is None
    assert not refused


def test_one_that_comes_again_does_not_wait_for_those_refused_before_it() -> None:
    """A producer sends them again in their order, so another leader took the first."""
    refused = refused_at(5)
    for sequence in (6, 7):
        refused.before(numbered(sequence))
        refused.error_of(numbered(sequence), GAP)
    assert [refused.before(numbered(6)), refused.before(numbered(7))] == [None, None]
    assert not refused


def test_one_that_comes_again_waits_for_what_was_refused_again_before_it() -> None:
    refused = refused_at(5)
    refused.error_of(numbered(6), GAP)
    refused.before(numbered(5))
    refused.add(numbered(5), NOT_LEADER)
    assert refused.before(numbered(6)) == 5


def test_refused_batches_are_awaited_in_the_order_of_their_sequences() -> None:
    refused = refused_at(5)
    for sequence in (6, 7, 8, 9):
        refused.before(numbered(sequence))
        refused.error_of(numbered(sequence), GAP)
    assert refused.before(numbered(5)) is None
    assert [refused.before(numbered(10)) for _ in range(2)] == [6, 6]


def test_an_appended_batch_ends_the_wait_for_those_before_it() -> None:
    """Another leader has them."""
    refused = refused_at(5)
    refused.add(numbered(8), NOT_LEADER)
    assert refused.before(numbered(6)) == 5
    assert refused.error_of(numbered(6), NONE) is NONE
    assert refused.before(numbered(7)) is None
    assert refused.before(numbered(9)) == 8


def test_batches_appended_by_another_leader_are_awaited_for_some_responses_only() -> None:
    """Two that were refused long ago, of which this node saw no more."""
    refused = refused_at(5)
    refused.add(numbered(50), NOT_LEADER)
    refused.add(numbered(500), NOT_LEADER)
    for sequence in (501, 502, 503, 504):
        assert refused.before(numbered(sequence)) is not None
        assert refused.error_of(numbered(sequence), GAP) is NOT_LEADER
    assert refused.before(numbered(500)) is None
    assert refused.before(numbered(505)) == 501


@pytest.mark.parametrize("error", [ErrorCode.corrupt_message, ErrorCode.invalid_txn_state])
def test_other_errors_stay_and_the_wait_goes_on(error: ErrorCode) -> None:
    refused = refused_at(5)
    assert refused.error_of(numbered(6), error) is error
    assert refused.before(numbered(7)) == 5


def test_the_oldest_of_very_many_is_forgotten() -> None:
    refused = RefusedBatches()
    for producer_id in range(MAX_SENDERS + 1):
        refused.add(numbered(5, producer_id=producer_id), NOT_LEADER)
    assert len(refused) == MAX_SENDERS
    assert refused.before(numbered(6, producer_id=0)) is None
    assert refused.before(numbered(6, producer_id=1)) == 5


def test_one_that_is_refused_again_is_not_the_oldest() -> None:
    refused = RefusedBatches()
    for producer_id in range(MAX_SENDERS):
        refused.add(numbered(5, producer_id=producer_id), NOT_LEADER)
    refused.add(numbered(7, producer_id=0), NOT_LEADER)
    refused.add(numbered(5, producer_id=MAX_SENDERS), NOT_LEADER)
    assert refused.before(numbered(8, producer_id=0)) == 5
    assert refused.before(numbered(6, producer_id=1)) is None


IDEMPOTENT = batch_of(b"a", producer_id=3, producer_epoch=2, base_sequence=9)


def test_the_producer_of_a_batch() -> None:
    assert NumberedBatch.read("orders", 4, IDEMPOTENT) == (("orders", 4, 3), 2, 9)


@pytest.mark.parametrize(
    "records",
    [
        None,
        b"",
        IDEMPOTENT[:60],
        IDEMPOTENT[:16] + b"\1" + IDEMPOTENT[17:],
        batch_of(b"a"),
        batch_of(b"a", producer_id=3, producer_epoch=2, base_sequence=-1),
    ],
)
def test_batches_without_a_sequence(records: bytes | None) -> None:
    assert NumberedBatch.read("orders", 0, records) is None


@given(st.binary(max_size=100))
def test_any_bytes_are_read(records: bytes) -> None:
    NumberedBatch.read("orders", 0, records)
