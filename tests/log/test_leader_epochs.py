"""Leader epochs of a log: which epoch a record is of, and where each ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
