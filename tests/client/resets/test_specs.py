"""Which offset each reset specification means, partition by partition."""

import pytest

from kohort.client.admin.lag import PartitionLag
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.resets.specs import (
    NoCommitError,
    ShiftBy,
    Specification,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToOffsets,
    ToTime,
    new_offset,
)
from kohort.types import GroupId, TopicPartition

P = TopicPartition("orders", 0)
G = GroupId("g")


def at(committed: int | None = 50, start: int = 10, end: int = 100) -> PartitionLag:
    said = (
        None
        if committed is None
        else OffsetAndMetadata(offset=committed, leader_epoch=3, metadata="by hand")
    )
    return PartitionLag(partition=P, committed=said, start=start, end=end)


@pytest.mark.parametrize(
    ("wanted", "partition_lag", "found", "offset", "warning"),
    [
        (ToEarliest(), at(), None, 10, ""),
        (ToLatest(), at(), None, 100, ""),
        (ToOffset(70), at(), None, 70, ""),
        (ToOffset(9), at(), None, 10, "offset 9 is before the log's start; set to 10"),
        (ToOffset(101), at(), None, 100, "offset 101 is beyond the log's end; set to 100"),
        (ToOffset(100), at(), None, 100, ""),
        (ShiftBy(5), at(), None, 55, ""),
        (ShiftBy(-5), at(), None, 45, ""),
        (ShiftBy(-41), at(), None, 10, "offset 9 is before the log's start; set to 10"),
        (ShiftBy(51), at(), None, 100, "offset 101 is beyond the log's end; set to 100"),
        (ToCurrent(), at(None), None, 100, "there is no commit; set to the log's end"),
        (ToCurrent(), at(5), None, 5, ""),  # kept, though the log starts later: so does Kafka
        (ToTime(1), at(), 33, 33, ""),
        (ToTime(1), at(), None, 100, "no record is as new; set to the log's end"),
        (ToOffsets({(G, P): 44}), at(), None, 44, ""),
        (
            ToOffsets({(G, P): 444}),
            at(),
            None,
            100,
            "offset 444 is beyond the log's end; set to 100",
        ),
    ],
)
def test_new_offset_of_each_specification(
    wanted: Specification, partition_lag: PartitionLag, found: int | None, offset: int, warning: str
) -> None:
    new, said = new_offset(wanted, G, partition_lag, found)
    assert (new.offset, said) == (offset, warning)


def test_a_shift_needs_a_commit() -> None:
    with pytest.raises(
        NoCommitError, match=("orders-0: cannot be shifted, the group has no commit in it")
    ):
        new_offset(ShiftBy(1), G, at(None))


@pytest.mark.parametrize("wanted", [ToCurrent(), ToOffset(50), ShiftBy(0)])
def test_an_unchanged_offset_keeps_its_epoch_and_metadata(wanted: Specification) -> None:
    assert new_offset(wanted, G, at())[0] == at().committed


def test_a_changed_offset_has_no_epoch_and_metadata() -> None:
    assert new_offset(ShiftBy(1), G, at())[0] == OffsetAndMetadata(offset=51)
