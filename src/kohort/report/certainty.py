"""What the history does not know of a group: stretches of time, and sentences that say why.

A gap of `coverage` is one of offsets, from the first record behind a hole to where the log is
complete again. The times of the group's own records around it bound the time in which something of
the group may be missing.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.history_files.group_history import GroupHistory
from kohort.report.names import counted
from kohort.report.spans import Span, clock, clock_range, milliseconds

COMPACTED: Final = "compaction had removed records before they were collected"
BETWEEN_BUILDS: Final = "records were removed between two builds"

_OWN_RECORDS: Final = (
    ("generations", "log_offset", "time"),
    ("assignments", "from_offset", "from"),
    ("members", "from_offset", "from"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unknown:
    """A time of which records are missing."""

    since: int
    until: int
    why: str


def unknown_times(history: GroupHistory, span: Span) -> list[Unknown]:
    """The parts of the span in which the history may lack records of the group, in order."""
    found = [
        unknown
        for coverage in history.coverage
        for unknown in _of_log_partition(history, coverage, span)
        if unknown.since < unknown.until
    ]
    return sorted(found, key=lambda unknown: unknown.since)


def _of_log_partition(
    history: GroupHistory, coverage: dict[str, Any], span: Span
) -> Iterator[Unknown]:
    if not coverage["gaps"]:
        return
    positions = _positions(history, coverage["log_partition"])
    offsets = [offset for offset, _ in positions]
    for gap in coverage["gaps"]:
        before = bisect_left(offsets, gap["hole"])
        since = positions[before - 1][1] if before and gap["is_later"] else span.since
        until = _complete_from(coverage, gap, positions, offsets, span)
        why = BETWEEN_BUILDS if gap["is_later"] else COMPACTED
        yield Unknown(max(since, span.since), min(until, span.until), why)


def _complete_from(
    coverage: dict[str, Any],
    gap: dict[str, Any],
    positions: Sequence[tuple[int, int]],
    offsets: Sequence[int],
    span: Span,
) -> int:
    if gap["complete_from"] is None:
        return span.until
    time = coverage["complete_from_time"]
    if time is not None and gap["complete_from"] == coverage["complete_from"]:
        return milliseconds(time)
    after = bisect_left(offsets, gap["complete_from"])
    return positions[after][1] if after < len(positions) else span.until


def _positions(history: GroupHistory, log_partition: int) -> list[tuple[int, int]]:
    """Log offsets and times of the group's records, as far as the rows have them, in order."""
    of_rows = (
        (row[offset], milliseconds(row[time]))
        for table, offset, time in _OWN_RECORDS
        for row in getattr(history, table)
        if row["log_partition"] == log_partition and row[time] is not None
    )
    return sorted(chain(of_rows, _of_minutes(history.minutes, log_partition)))


def _of_minutes(minutes: pa.Table, log_partition: int) -> Iterator[tuple[int, int]]:
    own = minutes.filter(pc.equal(minutes["log_partition"], log_partition))
    offsets = own["log_offset"].to_numpy().tolist()
    times = own["minute"].cast(pa.int64()).to_numpy() // 1_000
    return zip(offsets, times.tolist(), strict=True)


def sentences(history: GroupHistory, span: Span, unknown: Sequence[Unknown]) -> list[str]:
    """What a reader has to know before trusting the page, the worst first."""
    found = [_sentence(one, span) for one in unknown]
    if not found:
        sure = "Commits, members and owners are complete: what is not shown did not happen."
        found = [sure] if history.is_complete else ["Records of this time may be missing."]
    if history.end is not None and (end := milliseconds(history.end)) > span.until:
        found.append(
            f"Nothing happened later, up to the end of the history at {clock(end, span.length)}."
        )
    incomplete = sum(not row["complete"] for row in history.rebalances)
    if incomplete:
        total = counted(len(history.rebalances), "rebalance")
        found.append(f"Of {incomplete:,} of {total} it is not known who joined and who departed.")
    inferred = sum(
        len(row[column] or ())
        for row in history.rebalances
        for column in ("left", "vanished", "out_of_poll_loop")
    )
    if inferred:
        found.append(
            "How members departed is inferred from the time of their last commits; Kafka logs no "
            "cause."
        )
    return found


def _sentence(unknown: Unknown, span: Span) -> str:
    if unknown.until >= span.until and unknown.since <= span.since:
        return f"All of this time is uncertain: {unknown.why}."
    if unknown.since <= span.since:
        return (
            f"What happened before {clock(unknown.until, span.length)} is not known: {unknown.why}."
        )
    times = clock_range(unknown.since, unknown.until)
    return f"What happened from {times} is not known: {unknown.why}."
