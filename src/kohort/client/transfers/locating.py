"""Finds the offset of another cluster's partition in this one, where offsets have other numbers.

1. A topic with the same id is the same topic: the number is right.
2. The record at the offset is looked for by its hash, among the records from the first one on that
   is not older. Records with the same key and value are told apart by their times and by the record
   before. At the end of the log there is no such record, and compaction may have removed it here:
   then the record before is looked for, and the offset is behind it.
3. Else the time decides. Of the offsets by the time of both records the earlier one is taken: the
   group may read records again, but skips none.

The record that is looked for is not older than itself, so it is never before the first record that
ListOffsets finds, even if timestamps do not ascend.
"""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from uuid import UUID

from kohort.client.admin import Admin
from kohort.client.record import Record
from kohort.client.transfers.export import ExportedOffset
from kohort.client.transfers.marks import RecordMark, hash_of
from kohort.client.transfers.reading import read_range
from kohort.errors import unless_error
from kohort.types import TopicPartition

SEARCHED_RECORDS: Final = 10_000
Method: TypeAlias = Literal["exact", "by time", "same offset", "unknown"]


@dataclass(frozen=True, slots=True)
class Located:
    """Where the group goes on in this cluster."""

    method: Method
    offset: int | None
    """None if the method is "unknown"."""
    reason: str = ""
    """Why it is not exact."""


@dataclass(frozen=True, slots=True)
class Match:
    """A record here that has the hash of the one that is looked for."""

    offset: int
    has_time: bool
    follows: bool
    """Whether the record before it has the hash that it had there."""

    @property
    def score(self) -> int:
        return 2 * self.follows + self.has_time


async def locate(
    admin: Admin, exported: ExportedOffset, topic_id: UUID | None, ends: tuple[int, int]
) -> Located:
    """The offset of an exported commit here. Raises KohortError.

    `topic_id`: of the topic here. `ends`: log start and last stable offset.
    """
    if topic_id is not None and exported.topic_id == topic_id:
        return Located("exact", exported.commit.offset)
    if exported.before is None and exported.at is None:
        return Located("unknown", None, "the export has no record around the offset")
    ambiguous = []
    for mark, before in ((exported.at, exported.before), (exported.before, None)):
        if mark is None:
            continue
        step = 0 if mark is exported.at else 1
        matches = best(await _matches(admin, exported.partition, mark, before, ends))
        if len(matches) == 1:
            return Located("exact", matches[0].offset + step)
        ambiguous += [match.offset + step for match in matches]
    if ambiguous:
        return Located("by time", min(ambiguous), "several records are alike; the first of them")
    return await _by_time(admin, exported, ends)


def best(matches: Sequence[Match]) -> list[Match]:
    """The matches with the best score, if there are any."""
    highest = max((match.score for match in matches), default=0)
    return [match for match in matches if match.score == highest]


async def _matches(
    admin: Admin,
    tp: TopicPartition,
    mark: RecordMark,
    before: RecordMark | None,
    ends: tuple[int, int],
) -> list[Match]:
    """All records with the mark's hash among those that are searched.

    The search ends early behind a record that is the one for certain.
    """
    start = await _first_since(admin, tp, mark, ends)
    matches: list[Match] = []
    searched, previous = 0, None
    # One record more at the beginning, whose follower is the first candidate.
    async with aclosing(read_range(admin.cluster, tp, max(start - 1, ends[0]), ends[1])) as records:
        async for record in records:
            hash = hash_of(record.key, record.value)
            if record.offset >= start:
                searched += 1
                if hash == mark.hash:
                    matches.append(_match(record, mark, before, previous))
                if searched == SEARCHED_RECORDS or _is_certain(matches, record, mark):
                    break
            previous = hash
    return matches


def _match(
    record: Record, mark: RecordMark, before: RecordMark | None, previous: str | None
) -> Match:
    follows = before is not None and previous == before.hash
    return Match(record.offset, record.timestamp == mark.timestamp, follows)


def _is_certain(matches: Sequence[Match], record: Record, mark: RecordMark) -> bool:
    """Whether a match is complete, and no record is as old any more."""
    return record.timestamp > mark.timestamp and any(match.score == 3 for match in matches)


async def _first_since(
    admin: Admin, tp: TopicPartition, mark: RecordMark, ends: tuple[int, int]
) -> int:
    """The first offset whose record is not older; the end if there is none."""
    start, end = ends
    if mark.timestamp < 0:
        return start
    offset = unless_error((await admin.list_offsets({tp: mark.timestamp}))[tp]).offset
    return end if offset < 0 else min(max(offset, start), end)


async def _by_time(admin: Admin, exported: ExportedOffset, ends: tuple[int, int]) -> Located:
    marks = [mark for mark in (exported.at, exported.before) if mark and mark.timestamp >= 0]
    if not marks:
        return Located("unknown", None, "the records around the offset have no timestamp")
    candidates = [await _first_since(admin, exported.partition, mark, ends) for mark in marks]
    return Located("by time", min(candidates), "no record here is the one at the offset")
