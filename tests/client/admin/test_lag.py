"""What lag is: the cases that tools get wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.client.admin.lag import PartitionLag
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.types import TopicPartition

P = TopicPartition("orders", 0)


def partition_lag(committed: int | None, start: int | None, end: int | None) -> PartitionLag:
    at = None if committed is None else OffsetAndMetadata(offset=committed)
    return PartitionLag(partition=P, committed=at, start=start, end=end)


@pytest.mark.parametrize(
    ("committed", "start", "end", "lag", "note"),
    [
        (40, 0, 100, 60, ""),
        (100, 0, 100, 0, ""),
        (0, 0, 0, 0, ""),
        (None, 0, 100, None, ""),  # never the whole log, never 0
        (40, None, None, None, "the partition does not exist, or has no leader"),
        (40, 90, 100, 10, "50 offsets were removed from the log before they were read"),
        (40, 100, 100, 0, "60 offsets were removed from the log before they were read"),
        (140, 0, 100, 0, "the commit is 40 beyond the end of the log: was the topic recreated?"),
    ],
)
def test_lag_of_each_state_of_a_partition(
    committed: int | None, start: int | None, end: int | None, lag: int | None, note: str
) -> None:
    at = partition_lag(committed, start, end)
    assert (at.lag, at.note) == (lag, note)
    assert at.as_dict()["lag"] == lag


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_lag_is_between_zero_and_the_size_of_the_log(
    committed: int, start: int, length: int
) -> None:
    at = partition_lag(committed, start, start + length)
    assert at.lag is not None
    assert 0 <= at.lag <= length
    assert min(at.lost, at.beyond) == 0
