"""`-o`: start and end of consuming, in kcat's form.

The forms are `beginning`, `end`, `stored` (the group's committed offset), an offset, `-N` (the last
N of each partition), `s@MS` (from the first record that is not older) and `e@MS` (up to that
record). Offsets outside the log become its nearest end.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from kohort.client.admin import Admin
from kohort.errors import ConfigError, KohortError, unless_error
from kohort.types import GroupId, TopicPartition

BEGINNING: Final = "beginning"
END: Final = "end"
STORED: Final = "stored"
_NUMBER: Final = re.compile(r"-?\d+")
_TIME: Final = re.compile(r"([se])@(\d+)")


@dataclass(frozen=True, slots=True)
class FromTime:
    at_ms: int


Start: TypeAlias = Literal["beginning", "end", "stored"] | int | FromTime
"""A negative number counts from the end."""


@dataclass(frozen=True, slots=True)
class Span:
    """Start and end of consuming."""

    start: Start | None = None
    """None: without `-o`."""
    stop_ms: int | None = None
    """Timestamp from which records are not consumed (ms)."""


def parse(bounds: Sequence[str]) -> Span:
    """Raises ConfigError."""
    start: Start | None = None
    stop_ms: int | None = None
    for word in bounds:
        time = _TIME.fullmatch(word)
        if time is not None and time[1] == "e":
            stop_ms = int(time[2])
        elif time is not None:
            start = FromTime(int(time[2]))
        else:
            start = _start(word)
    return Span(start, stop_ms)


def _start(word: str) -> Start:
    if _NUMBER.fullmatch(word):
        return int(word)
    match word:
        case "beginning":
            return "beginning"
        case "end":
            return "end"
        case "stored":
            return "stored"
    raise ConfigError(f"-o {word}: is not beginning, end, stored, an offset, -N, s@MS or e@MS")


async def start_offsets(
    admin: Admin, start: Start, partitions: Iterable[TopicPartition], group: str = ""
) -> dict[TopicPartition, int]:
    """The start offset of each partition. Raises KohortError if one cannot be read."""
    requested = list(partitions)
    ends = await admin.ends(requested)
    if missing := [tp for tp in requested if tp not in ends]:
        raise KohortError(f"{', '.join(map(str, missing))}: no such partition, or it has no leader")
    if isinstance(start, FromTime):
        return await _at_time(admin, start.at_ms, ends)
    if start == STORED:
        return await _stored(admin, GroupId(group), ends)
    return {tp: _within(start, *bounds) for tp, bounds in ends.items()}


def _within(start: Start, first: int, end: int) -> int:
    if isinstance(start, int):
        return min(max(end + start if start < 0 else start, first), end)
    return end if start == END else first


async def _at_time(
    admin: Admin, at_ms: int, ends: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    offsets = await admin.list_offsets(dict.fromkeys(ends, at_ms))
    by_time = {tp: unless_error(offset).offset for tp, offset in offsets.items()}
    return {tp: by_time[tp] if by_time[tp] >= 0 else end for tp, (_, end) in ends.items()}


async def _stored(
    admin: Admin, group: GroupId, ends: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, int]:
    """Committed offsets; the beginning of partitions without one."""
    committed = unless_error((await admin.committed([group], list(ends)))[group])
    return {
        tp: _within(committed[tp].offset if tp in committed else BEGINNING, *bounds)
        for tp, bounds in ends.items()
    }
