"""Coverage of a log partition: what was read, and where compaction removed records.

The first record whose key occurred before is where the log is complete from: below it, the cleaner
leaves each key once. If transactions are open there, the log is complete behind their ends: the
cleaner keeps the last record of a key, and may have removed what was in force before theirs.
Up to the first hole (an offset that is missing) nothing was removed either.

A hole behind that begins another gap: the log was compacted, or retention took records, after what
is before the hole had been read. From the hole on the rule is applied anew.

Compaction leaves the last record of each key, retention does not. So behind a hole of retention a
key without a record may have had one: `Gap.is_data_loss`.

Damage is another matter. It takes the last records of keys too, and no later record tells which
keys. So the log is not complete behind it any more.
"""

from bisect import insort
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from kohort.columnar import commit_kernels as ck
from kohort.columnar import commit_tables as fk
from kohort.history.gaps import Gap
from kohort.history.last_record import LastRecord
from kohort.history.record_table import RecordTable

Array: TypeAlias = Any

_NEVER: Final = 2**63 - 1
_COLUMNS: Final = (
    "first", "end", "batches", "records", "control_records", "first_hole", "holes",
    "complete_from", "complete_from_time", "errors", "first_time", "last_time",
)  # fmt: skip
_TIMES: Final = ("complete_from_time", "first_time", "last_time")


@dataclass(slots=True)
class Coverage:
    """Counts of a log partition up to `end`. Times are in µs; None: no record yet."""

    first: int | None = None
    end: int = 0
    bytes_read: int = 0
    batches: int = 0
    last_batch: int = -1
    records: int = 0
    control_records: int = 0
    holes: int = 0
    last_hole: int = -1
    """Offset of the first record behind it."""
    compaction_gaps: list[Gap] = field(default_factory=list)
    """Gaps that begin with a hole, as compaction leaves it."""
    damaged_from: list[int] = field(default_factory=list)
    """First offset of each range that damage took, ascending."""
    complete_from: int | None = None
    """By holes alone; `row` has it only if there is no damage."""
    complete_from_time: int | None = None
    errors: int = 0
    first_time: int | None = None
    last_time: int | None = None
    """Running maximum."""
    seen: dict[bytes, int] = field(default_factory=dict)
    """Keys but those of offsets → last offset; none before the last hole, or once one has occurred
    again."""
    repeated_from: int | None = None
    """Log offset of the first record whose key occurred since the last hole."""
    open_then: set[int] = field(default_factory=set)
    """Producers of transactions that were open there, and are still."""
    after_pause: bool = False
    """Whether the log may have been compacted since the last record was read."""
    log_start: int | None = 0
    """First offset that the log has: retention took those before it. None: it is unknown, as of
    archives, and any hole may be data loss."""
    first_loss: int = _NEVER
    """Offset from which on a key without a record may have had one that retention took."""
    last_record: LastRecord | None = None

    @property
    def gaps(self) -> list[Gap]:
        """All gaps, by their beginnings. Those of damage have no end."""
        damaged = [
            Gap(offset, None, is_later=True, is_data_loss=True) for offset in self.damaged_from
        ]
        return sorted([*self.compaction_gaps, *damaged], key=lambda gap: gap.hole)

    @property
    def first_hole(self) -> int | None:
        return self.compaction_gaps[0].hole if self.compaction_gaps else None

    def lose(self, offset: int) -> None:
        """Damage took the records from this offset on, up to the next one that is read."""
        if offset not in self.damaged_from:
            insort(self.damaged_from, offset)

    @property
    def known_gaps(self) -> list[Gap]:
        """All gaps; what retention took of the end of the log is one, too."""
        if (self.log_start or 0) <= self.end:
            return self.gaps
        is_later = self.first is not None
        return [*self.gaps, Gap(self.end, None, is_later, is_data_loss=True)]

    @property
    def seen_since(self) -> int:
        """Which keys occurred before this offset does not matter any more."""
        return self.last_hole if self.repeated_from is None else _NEVER

    def add(self, table: RecordTable) -> None:
        """Count the records of a call, one or more."""
        rows = table.rows[:, table.first :]
        offsets, times = rows[fk.LOG_OFFSET], rows[fk.TIME]
        expected = np.empty_like(offsets)
        expected[0], expected[1:] = self.end, offsets[:-1] + 1
        holes = np.flatnonzero(offsets != expected)
        losses = holes[self._are_losses(expected[holes])]
        self.holes += len(holes)
        if self.first is None:
            self.first, self.first_time = int(offsets[0]), int(times[0])
        self.end = int(offsets[-1]) + 1
        latest = int(times.max())
        self.last_time = latest if self.last_time is None else max(self.last_time, latest)
        self.records += len(offsets)
        self.control_records += int(np.count_nonzero(rows[ck.CLASS] == ck.CONTROL))
        self.bytes_read += sum(
            int(each.ends[-1]) - int(each.ends[0]) for each in (table.keys, table.values)
        )
        self._count_batches(rows[fk.BATCH_OFFSET])
        self._find_gaps(table, holes, losses)

    def _are_losses(self, starts: Array) -> Array:
        """Which of the holes that begin there retention made, at least in part."""
        if self.log_start is None:
            return np.ones(len(starts), np.bool_)
        are_before: Array = starts < self.log_start
        return are_before

    def _count_batches(self, batches: Array) -> None:
        changes = int(np.count_nonzero(batches[1:] != batches[:-1]))
        self.batches += changes + int(batches[0] != self.last_batch)
        self.last_batch = int(batches[-1])

    def _find_gaps(self, table: RecordTable, holes: Array, losses: Array) -> None:
        """`holes`: the records of the call that do not follow the one before; `losses`: those of
        data loss."""
        after_pause, self.after_pause = self.after_pause, False
        if not len(holes) and self.complete_from is not None:
            return
        rows = table.rows[:, table.first :]
        since: Array = np.full(rows.shape[1], -1)
        since[holes] = rows[fk.LOG_OFFSET, holes]
        since[0] = max(self.last_hole, since[0])
        since = np.maximum.accumulate(since)
        self.last_hole = int(since[-1])
        # A record whose key occurred since the last hole; `SEEN` is -1 for others.
        repeated = np.flatnonzero((rows[fk.SEEN] >= since) & (rows[fk.SEEN] >= 0))
        is_paused = after_pause and len(holes) > 0 and int(holes[0]) == 0
        at, end = 0, rows.shape[1]
        unseen = 0  # the holes from here on begin or renew no gap yet
        while at < end:
            opens = self.complete_from is not None or not self.compaction_gaps or is_paused
            waits = self.repeated_from is not None and self.complete_from is None
            limit = _next(holes if opens or waits else losses, max(at, unseen), end)
            if self.complete_from is None:
                if waits:
                    found = self._wait_for_ends(rows, at, limit)
                else:
                    found = self._find_repeated(table, since, at, _next(repeated, at, limit), limit)
                if found < limit:
                    at = found + 1
                    continue
            if limit < end:
                is_loss = bool(np.isin(limit, losses))
                if opens or is_loss:
                    hole = int(rows[fk.LOG_OFFSET, limit])
                    is_later = self.complete_from is not None or is_paused
                    is_later |= is_loss and hole != self.first
                    self._open_gap(hole, is_later=is_later, is_data_loss=is_loss)
                self.repeated_from, is_paused = None, False
                self.open_then.clear()
                unseen = limit + 1
            at = limit
        self.seen = {key: offset for key, offset in self.seen.items() if offset >= self.last_hole}

    def _open_gap(self, hole: int, *, is_later: bool, is_data_loss: bool) -> None:
        self._end_gap(hole)
        self.compaction_gaps.append(Gap(hole, None, is_later, is_data_loss))
        if is_data_loss:
            self.first_loss = min(self.first_loss, hole)
        self.complete_from = self.complete_from_time = None

    def _close_gap(self, offset: int, time: int) -> None:
        self.complete_from, self.complete_from_time = offset, time
        self._end_gap(offset)

    def _end_gap(self, offset: int) -> None:
        if self.compaction_gaps and self.compaction_gaps[-1].complete_from is None:
            self.compaction_gaps[-1] = self.compaction_gaps[-1]._replace(complete_from=offset)

    def _find_repeated(
        self, table: RecordTable, since: Array, start: int, end: int, limit: int
    ) -> int:
        """The first record from `start` on whose key occurred; `end`: of offsets; `limit`: none."""
        rows = table.rows[:, table.first :]
        classes = rows[ck.CLASS, start:end]
        others = start + np.flatnonzero((classes == ck.OTHER) | (classes == ck.BAD_KEY))
        for row in others.tolist():
            key = table.keys.at(row)
            if key is None:
                continue
            if self.seen.get(key, -1) >= max(since[row], 0):
                end = int(row)
                break
            self.seen[key] = int(rows[fk.LOG_OFFSET, row])
        if end < limit:
            self.repeated_from = int(rows[fk.LOG_OFFSET, end])
            self.seen.clear()
            self.open_then = _open_transactions(table.rows[:, : table.first + end])
            if not self.open_then:
                self._close_gap(self.repeated_from, int(rows[fk.TIME, end]))
        return end

    def _wait_for_ends(self, rows: Array, start: int, limit: int) -> int:
        """The record that ends the last of the transactions that were open; `limit`: none."""
        for row in (start + np.flatnonzero(_ends(rows[:, start:limit]))).tolist():
            self.open_then.discard(int(rows[fk.PRODUCER_ID, row]))
            if not self.open_then:
                self._close_gap(int(rows[fk.LOG_OFFSET, row]) + 1, int(rows[fk.TIME, row]))
                return int(row)
        return limit

    def are_exact(self, offsets: Array) -> Array:
        """Whether nothing that matters is missing before these log offsets."""
        gaps = self.compaction_gaps
        holes = np.array([-1, *(gap.hole for gap in gaps)])
        ends = (_NEVER if gap.complete_from is None else gap.complete_from for gap in gaps)
        # These gaps ascend: the last one that begins before an offset decides.
        exact: Array = (
            offsets >= np.array([-1, *ends])[np.searchsorted(holes, offsets, "right") - 1]
        )
        return exact & (offsets < self.damaged_from[0]) if self.damaged_from else exact

    def are_last(self, records: Array, offsets: Array) -> Array:
        """Whether the records at `records` can be the last ones of their keys before `offsets`.

        Not if a later gap is between. Records below 0 are none.
        """
        later = np.array([-1, *(gap.hole for gap in self.gaps if gap.is_later)])
        return (records < 0) | (records >= later[np.searchsorted(later, offsets, "right") - 1])

    def is_exact(self, offset: int) -> bool:
        return bool(self.are_exact(np.int64(offset)))

    def exact_since(self, offset: int) -> int | None:
        """Log offset from which on nothing that matters is missing up to this one; None: not even
        just before it."""
        if self.damaged_from and offset >= self.damaged_from[0]:
            return None
        for gap in reversed(self.compaction_gaps):
            if offset >= gap.hole:
                complete = gap.complete_from
                return None if complete is None or offset < complete else complete
        return 0

    def exact_since_now(self) -> int | None:
        """`exact_since` of the end of the log, where damage may have taken what came last."""
        return None if self.damaged_from else self.exact_since(self.end - 1)

    def row(self) -> dict[str, Any]:
        """Of the table `coverage`, without what the state adds."""
        gaps = [gap._asdict() for gap in self.known_gaps]
        row = {name: getattr(self, name) for name in _COLUMNS}
        row |= {name: None for name in _TIMES if (row[name] or 0) < 0}
        if self.damaged_from:
            row |= {"complete_from": None, "complete_from_time": None}
        return row | {"bytes": self.bytes_read, "gaps": gaps}


def _next(rows: Array, start: int, end: int) -> int:
    """The first of `rows`, which ascend, from `start` on and below `end`; else `end`."""
    at = int(np.searchsorted(rows, start))
    return min(int(rows[at]), end) if at < len(rows) else end


def _ends(rows: Array) -> Array:
    """Which records end a transaction."""
    return (rows[fk.MARKER] == fk.COMMIT_MARKER) | (rows[fk.MARKER] == fk.ABORT_MARKER)


def _open_transactions(rows: Array) -> set[int]:
    """Producers whose transactions are open behind these records."""
    is_record = (rows[ck.CLASS] == ck.COMMIT) & (rows[fk.IS_TRANSACTIONAL] == 1)
    is_end = _ends(rows)
    at = np.flatnonzero((is_record | is_end) & (rows[fk.PRODUCER_ID] >= 0))
    producers: set[int] = set()
    for producer, ends in zip(rows[fk.PRODUCER_ID, at].tolist(), is_end[at].tolist(), strict=True):
        if ends:
            producers.discard(producer)
        else:
            producers.add(producer)
    return producers
