"""What is answered to idempotent producers. The answers were seen on a running Kafka 4.4."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.errors import ErrorCode, KafkaError
from kohort.log.aborted_index import IndexState
from kohort.log.memory import memory_log
from kohort.log.producer_states import ProducerStates, load_snapshot
from kohort.protocol import batches

from .conftest import NOW, ORDERS, from_producer

OUT_OF_ORDER = ErrorCode.out_of_order_sequence_number
FENCED = ErrorCode.invalid_producer_epoch
MAX = 2**31 - 1


def produce(log, epoch, sequence, count):
    """The offset that is answered, negative if the batch is a duplicate, or the error."""
    try:
        appended = log.append(from_producer(1, epoch, sequence, count), NOW)
    except KafkaError as error:
        return error.code
    return -appended.base_offset if appended.duplicate else appended.base_offset


FIVE = [((0, at, 1), at) for at in range(1, 6)]
TABLE = {
    "in order": [((0, 0, 2), 0), ((0, 2, 1), 2), ((0, 3, 1), 3)],
    "an unknown producer may start anywhere": [((4, 5, 2), 0), ((4, 7, 1), 2)],
    "a gap": [((0, 0, 2), 0), ((0, 3, 1), OUT_OF_ORDER), ((0, 2, 1), 2)],
    "a duplicate": [((0, 0, 1), 0), ((0, 1, 2), 1), ((0, 1, 2), -1), ((0, 3, 1), 3)],
    "an overlap is no duplicate": [
        ((0, 0, 3), 0),
        ((0, 0, 2), OUT_OF_ORDER),
        ((0, 1, 2), OUT_OF_ORDER),
    ],
    "the same start, but longer": [((0, 5, 2), 0), ((0, 5, 3), OUT_OF_ORDER)],
    "the last five are remembered": [((0, 0, 1), 0), *FIVE, ((0, 1, 1), -1), ((0, 5, 1), -5)],
    "the sixth last is not": [((0, 0, 1), 0), *FIVE, ((0, 0, 1), OUT_OF_ORDER)],
    "a new epoch starts at 0": [
        ((0, 0, 1), 0),
        ((1, 1, 1), OUT_OF_ORDER),
        ((1, 0, 1), 1),
        ((1, 1, 1), 2),
    ],
    "an old epoch is fenced": [
        ((3, 0, 1), 0),
        ((2, 0, 1), FENCED),
        ((2, 1, 1), FENCED),
        ((3, 1, 1), 1),
    ],
    "also its duplicates": [((0, 0, 1), 0), ((1, 0, 1), 1), ((0, 0, 1), FENCED)],
    "0 follows the largest": [((0, MAX - 1, 2), 0), ((0, 0, 1), 2), ((0, MAX - 1, 2), 0)],
    "within a batch too": [
        ((0, MAX - 1, 4), 0),
        ((0, 2, 1), 4),
        ((0, 2, 1), -4),
        ((0, 0, 1), OUT_OF_ORDER),
    ],
    "epoch -1 is not checked": [
        ((-1, 0, 1), 0),
        ((-1, 7, 1), 1),
        ((0, 0, 1), 2),
        ((-1, 0, 1), FENCED),
    ],
}


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_idempotent_produce_requests_get_the_responses_of_kafka(row):
    log = memory_log(ORDERS)
    for (epoch, sequence, count), answer in row:
        assert produce(log, epoch, sequence, count) == answer


def test_an_unknown_producer_begins_with_the_batch_that_is_awaited():
    log = memory_log(ORDERS)
    with pytest.raises(KafkaError) as refused:
        log.append(from_producer(1, 0, 7), NOW, awaited=5)
    assert refused.value.code is OUT_OF_ORDER
    assert [produce(log, 0, 5, 2), produce(log, 0, 7, 1)] == [0, 2]


def test_a_batch_that_continues_the_sequence_is_accepted_whatever_is_awaited():
    """Another leader took the batch that is awaited."""
    log = memory_log(ORDERS)
    produce(log, 0, 5, 2)
    assert log.append(from_producer(1, 0, 7), NOW, awaited=3).base_offset == 2
    assert log.append(from_producer(1, 0, 7), NOW, awaited=3).duplicate


def test_an_unknown_producer_begins_with_its_first_batch_at_a_new_leader():
    log = memory_log(ORDERS)
    log.in_leader_transition = True
    with pytest.raises(KafkaError) as refused:
        log.append(from_producer(1, 0, 2), NOW)
    assert refused.value.code is ErrorCode.not_leader_or_follower
    assert [produce(log, 0, 0, 2), produce(log, 0, 2, 1), produce(log, 0, 5, 1)] == [
        *(0, 2),
        OUT_OF_ORDER,
    ]
    log.in_leader_transition = False
    assert log.append(from_producer(2, 0, 7), NOW).base_offset == 3


def test_producers_do_not_mix():
    log = memory_log(ORDERS)
    for producer_id in range(20):
        assert log.append(from_producer(producer_id, 0, 5), NOW).base_offset == producer_id
    for producer_id in range(20):
        assert log.append(from_producer(producer_id, 0, 5), NOW).duplicate


class TestSnapshot:
    @settings(max_examples=examples(50))
    @given(
        st.lists(
            st.tuples(
                st.integers(0, 4),
                st.integers(0, 3),
                st.integers(0, MAX),
                st.integers(1, 5),
                st.integers(0, 2**40),
                st.sampled_from([0, batches.TRANSACTIONAL]),
            ),
            max_size=40,
        )
    )
    def test_snapshot_round_trip(self, sent):
        producers = ProducerStates()
        for at, (producer_id, epoch, sequence, count, now, attributes) in enumerate(sent):
            sent_batch = from_producer(producer_id, epoch, sequence, count, attributes=attributes)
            producers.add(batches.read_header(sent_batch), 10 * at, NOW, now)
        indexes = {0: IndexState(34, 7), 90: IndexState(68, 2**32 - 1)}
        again = load_snapshot(producers.dump(77, indexes))
        assert (again.end_offset, again.indexes) == (77, indexes)
        assert again.producers.dump(77, indexes) == producers.dump(77, indexes)
        assert list(again.producers.active()) == list(producers.active())
        assert again.producers.last_offsets() == producers.last_offsets()
        assert again.producers.first_unstable(10**9) == producers.first_unstable(10**9)

    def test_cut_or_changed_snapshot_is_refused(self):
        producers = ProducerStates()
        producers.add(batches.read_header(from_producer(1, 0, 0)), 0, NOW, NOW)
        snapshot = producers.dump(1, {0: IndexState(34, 7)})
        for end in range(len(snapshot)):
            with pytest.raises(ValueError, match="snapshot"):
                load_snapshot(snapshot[:end])
        for at in range(len(snapshot)):
            with pytest.raises(ValueError, match="snapshot"):
                load_snapshot(snapshot[:at] + bytes([snapshot[at] ^ 1]) + snapshot[at + 1 :])
