"""Specifications of a reset (`--to-…`, `--shift-by`), decided for one partition without I/O.

The rules are those of Kafka's ConsumerGroupCommand. A new offset before the log's start or behind
its end becomes that end, with a warning. A time after the last record means the end of the log. A
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
    """A shift of a partition in which the group has committed nothing."""


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
    """To the first record that is not older than this."""

    at_ms: int
    told: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.told or f"to-datetime {self.at_ms}"


@dataclass(frozen=True, slots=True)
class ToOffsets:
    """To an offset for each partition, as a CSV file has them."""

    offsets: Mapping[tuple[GroupId, TopicPartition], int]
    told: str = field(default="from-file", compare=False)

    def __str__(self) -> str:
        return self.told


Specification: TypeAlias = (
    ToEarliest | ToLatest | ToCurrent | ToOffset | ShiftBy | ToTime | ToOffsets
)


def new_offset(
    wanted: Specification, group: GroupId, at: PartitionLag, found: int | None = None
) -> tuple[OffsetAndMetadata, str]:
    """The offset to commit, and a warning; "" if there is none.

    The ends of the log must be known. `found`: the result of ListOffsets for a time, None when no
    record is as recent. An unchanged offset keeps its leader epoch and metadata. Raises
    NoCommitError.
    """
    assert at.start is not None, at
    assert at.end is not None, at
    offset, warning = _asked_for(wanted, group, at, at.start, at.end, found)
    if isinstance(wanted, ToCurrent):
        # As in Kafka: the commit is kept, even outside the log.
        return (at.committed or OffsetAndMetadata(offset=offset)), warning
    if offset < at.start:
        warning = f"offset {offset} is before the log's start; set to {at.start}"
    elif offset > at.end:
        warning = f"offset {offset} is beyond the log's end; set to {at.end}"
    offset = min(max(offset, at.start), at.end)
    if at.committed is not None and at.committed.offset == offset:
        return at.committed, warning
    return OffsetAndMetadata(offset=offset), warning


def _asked_for(
    wanted: Specification, group: GroupId, at: PartitionLag, start: int, end: int, found: int | None
) -> tuple[int, str]:
    match wanted:
        case ToEarliest():
            return start, ""
        case ToLatest():
            return end, ""
        case ToCurrent():
            return (
                (end, "nothing is committed; set to the log's end")
                if at.committed is None
                else (_current(at), "")
            )
        case ToOffset(offset):
            return offset, ""
        case ShiftBy(offsets):
            return _current(at) + offsets, ""
        case ToTime():
            return (
                (end, "no record is as new; set to the log's end") if found is None else (found, "")
            )
        case ToOffsets(by_partition):
            return by_partition[group, at.partition], ""


def _current(at: PartitionLag) -> int:
    if at.committed is None:
        raise NoCommitError(
            f"{at.partition}: cannot be shifted, the group has committed nothing there"
        )
    return at.committed.offset
