"""Specifications of a reset (`--to-…`, `--shift-by`), applied to one partition without I/O.

The rules are those of Kafka's ConsumerGroupCommand. A new offset before the log's start or after
its end becomes that limit, with a warning. A time after the last record means the end of the log. A
partition without a commit is "currently" at the end. Only a shift needs a commit to start from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from kohort.client.admin import PartitionLag
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.errors import KohortError
from kohort.types import GroupId, TopicPartition


class NoCommitError(KohortError):
    """A shift of a partition without a commit of the group."""


@dataclass(frozen=True, slots=True)
class ToEarliest:
    def __str__(self) -> str:
        return "to-earliest"


@dataclass(frozen=True, slots=True)
class ToLatest:
    def __str__(self) -> str:
        return "to-latest"


@dataclass(frozen=True, slots=True)
class ToCurrent:
    def __str__(self) -> str:
        return "to-current"


@dataclass(frozen=True, slots=True)
class ToOffset:
    offset: int

    def __str__(self) -> str:
        return f"to-offset {self.offset}"


@dataclass(frozen=True, slots=True)
class ShiftBy:
    offsets: int

    def __str__(self) -> str:
        return f"shift-by {self.offsets}"


@dataclass(frozen=True, slots=True)
class ToTime:
    """To the first record that is not older than this time."""

    at_ms: int
    label: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.label or f"to-datetime {self.at_ms}"


@dataclass(frozen=True, slots=True)
class ToOffsets:
    """To an offset for each partition, from a CSV file."""

    offsets: Mapping[tuple[GroupId, TopicPartition], int]
    label: str = field(default="from-file", compare=False)

    def __str__(self) -> str:
        return self.label


Specification: TypeAlias = (
    ToEarliest | ToLatest | ToCurrent | ToOffset | ShiftBy | ToTime | ToOffsets
)


def new_offset(
    specification: Specification,
    group: GroupId,
    lag: PartitionLag,
    offset_by_time: int | None = None,
) -> tuple[OffsetAndMetadata, str]:
    """The offset to commit, and a warning; "" if there is none.

    The ends of the log must be known. `offset_by_time`: the result of ListOffsets for a time,
    None if no record is as recent. An unchanged offset keeps its leader epoch and metadata. Raises
    NoCommitError.
    """
    assert lag.start is not None, lag
    assert lag.end is not None, lag
    offset, warning = _requested_offset(
        specification, group, lag, lag.start, lag.end, offset_by_time
    )
    if isinstance(specification, ToCurrent):
        # As in Kafka: the commit is kept, even outside the log.
        return (lag.committed or OffsetAndMetadata(offset=offset)), warning
    if offset < lag.start:
        warning = f"offset {offset} is before the log's start; set to {lag.start}"
    elif offset > lag.end:
        warning = f"offset {offset} is beyond the log's end; set to {lag.end}"
    offset = min(max(offset, lag.start), lag.end)
    if lag.committed is not None and lag.committed.offset == offset:
        return lag.committed, warning
    return OffsetAndMetadata(offset=offset), warning


def _requested_offset(
    specification: Specification,
    group: GroupId,
    lag: PartitionLag,
    start: int,
    end: int,
    offset_by_time: int | None,
) -> tuple[int, str]:
    match specification:
        case ToEarliest():
            return start, ""
        case ToLatest():
            return end, ""
        case ToCurrent():
            return (
                (end, "there is no commit; set to the log's end")
                if lag.committed is None
                else (_current(lag), "")
            )
        case ToOffset(offset):
            return offset, ""
        case ShiftBy(offsets):
            return _current(lag) + offsets, ""
        case ToTime():
            return (
                (end, "no record is as new; set to the log's end")
                if offset_by_time is None
                else (offset_by_time, "")
            )
        case ToOffsets(by_partition):
            return by_partition[group, lag.partition], ""


def _current(lag: PartitionLag) -> int:
    if lag.committed is None:
        raise NoCommitError(f"{lag.partition}: cannot be shifted, the group has no commit in it")
    return lag.committed.offset
