"""Leader epochs of a log: which epoch a record is of, and where each ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.log.leader_epoch_checkpoint import decode, encode
from kohort.log.leader_epochs import ONLY, EpochEndOffset, LeaderEpochs

KNOWN = LeaderEpochs(7, 30, [(1, 0), (1, 5), (2, 10), (5, 20), (5, 25)])


@pytest.mark.parametrize(
    ("offset", "epoch"), [(0, 1), (9, 1), (10, 2), (19, 2), (20, 5), (29, 5), (30, 7), (99, 7)]
)
def test_the_epoch_of_a_record(offset, epoch):
    assert KNOWN.at(offset) == epoch


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (-1, (-1, -1)),
        (0, (0, 0)),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (2, 20)),
        (5, (5, 30)),
        (6, (5, 30)),
        (7, (7, 40)),
        (8, (-1, -1)),
    ],
)
def test_the_end_of_an_epoch(epoch, end):
    """As LeaderEpochFileCache.endOffsetFor says it."""
    assert KNOWN.end_of(epoch, 0, 40) == EpochEndOffset(*end)


@given(st.integers(0, 8), st.integers(0, 30))
def test_the_end_of_an_epoch_whose_records_are_gone(epoch, start):
    """As if the log began at its start offset, as in Kafka."""
    rest = [(KNOWN.at(start), start), *((e, o) for e, o in [(2, 10), (5, 20)] if o > start)]
    assert KNOWN.end_of(epoch, start, 40) == LeaderEpochs(7, 30, rest).end_of(epoch, 0, 40)


def test_one_leader_for_good():
    assert (ONLY.current, ONLY.at(0), ONLY.at(5)) == (0, 0, 0)
    assert ONLY.end_of(0, 2, 9) == (0, 9)
    assert ONLY.end_of(1, 2, 9) == ONLY.end_of(-1, 2, 9) == (-1, -1)


class KafkaEpochs:
    """LeaderEpochFileCache as it is in Apache Kafka 4.4."""

    def __init__(self):
        self.entries = []

    def assign(self, epoch, start_offset):
        if not self.entries or epoch > self.entries[-1][0]:
            self.entries = [entry for entry in self.entries if entry[1] < start_offset]
            self.entries.append((epoch, start_offset))

    def truncate_from_start(self, start_offset):
        before = [entry for entry in self.entries if entry[1] <= start_offset]
        if before:
            rest = self.entries[len(before) :]
            self.entries = [(before[-1][0], start_offset), *rest]

    def end_offset_for(self, epoch, end_offset):
        if epoch < 0 or epoch > self.entries[-1][0]:
            return -1, -1
        if epoch == self.entries[-1][0]:
            return epoch, end_offset
        following = next(entry for entry in self.entries if entry[0] > epoch)
        floor = [entry for entry in self.entries if entry[0] <= epoch]
        return (floor[-1][0] if floor else epoch), following[1]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), max_size=8),
    st.integers(0, 2),
    st.integers(0, 80),
)
def test_epochs_are_those_of_kafka(batches, newer, start_offset):
    """Batches, each of a later epoch or the same one; a new leader; records that were deleted."""
    kafka, known, epoch, end_offset = KafkaEpochs(), [], 0, 0
    for later, count in batches:
        epoch += later
        kafka.assign(epoch, end_offset)
        known.append((epoch, end_offset))
        end_offset += count
    current = epoch + newer
    kafka.assign(current, end_offset)
    start_offset = min(start_offset, end_offset)
    kafka.truncate_from_start(start_offset)
    epochs = LeaderEpochs(current, end_offset, known)
    assert epochs.entries(start_offset) == tuple(kafka.entries)
    again = LeaderEpochs.of(epochs.entries(start_offset))
    for asked in range(-1, current + 2):
        expected = kafka.end_offset_for(asked, end_offset)
        assert epochs.end_of(asked, start_offset, end_offset) == expected
        assert again.end_of(asked, start_offset, end_offset) == expected


class TestTheFile:
    KAFKAS = b"0\n3\n0 0\n2 3\n6 6\n"
    """As Apache Kafka 4.3.0 wrote it."""

    def test_leader_epoch_checkpoint_has_kafkas_format(self):
        assert decode(self.KAFKAS) == ((0, 0), (2, 3), (6, 6))
        assert encode(decode(self.KAFKAS)) == self.KAFKAS

    @pytest.mark.parametrize("size", range(len(KAFKAS)))
    def test_cut_leader_epoch_checkpoint_is_refused(self, size):
        with pytest.raises(ValueError):
            decode(self.KAFKAS[:size])

    @pytest.mark.parametrize(
        "content",
        [
            b"1\n1\n0 0\n",
            b"0\n2\n0 0\n",
            b"0\n1\n0 0 0\n",
            b"0\n1\n0 x\n",
            b"0\n1\n-1 0\n",
            b"0\n2\n1 0\n1 5\n",
            b"0\n2\n1 5\n2 5\n",
            b"\xff\n",
        ],
    )
    def test_false_leader_epoch_checkpoint_is_refused(self, content):
        with pytest.raises(ValueError):
            decode(content)
