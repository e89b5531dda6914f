"""What is known of a log partition: what was read, and where compaction removed records.

The first record whose key occurred before is where the log is complete from: below it, the cleaner
leaves each key once. If transactions are open there, the log is complete behind their ends: the
cleaner keeps the last record of a key, and may have removed what was in force before theirs.
Up to the first hole (an offset that is missing) nothing was removed either.
"""

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from kohort.columnar import commit_kernels as ck
from kohort.columnar import commit_tables as fk
from kohort.history.record_table import RecordTable

Array: TypeAlias = Any

_NEVER: Final = 2**63 - 1
_COLUMNS: Final = (
    "first", "end", "batches", "records", "control_records", "first_hole", "holes",
    "complete_from", "complete_from_time", "errors", "first_time", "last_time",
)  # fmt: skip


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
    first_hole: int | None = None
    holes: int = 0
    complete_from: int | None = None
    complete_from_time: int | None = None
    errors: int = 0
    first_time: int | None = None
    last_time: int | None = None
    """Running maximum."""
    seen: set[bytes] = field(default_factory=set)
    """Keys that occurred, but those of offsets; empty once one has occurred again."""
    repeated_from: int | None = None
    """Log offset of the first record whose key occurred before."""
    open_then: set[int] = field(default_factory=set)
    """Producers of transactions that were open there, and are still."""

    def add(self, table: RecordTable) -> None:
        """Count the records of a call, one or more."""
        rows = table.rows[:, table.first :]
        offsets, times = rows[fk.LOG_OFFSET], rows[fk.TIME]
        expected = np.empty_like(offsets)
        expected[0], expected[1:] = self.end, offsets[:-1] + 1
        holes = np.flatnonzero(offsets != expected)
        if len(holes) and self.first_hole is None:
            self.first_hole = int(offsets[holes[0]])
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
        if self.complete_from is None:
            self._find_complete_from(table)

    def _count_batches(self, batches: Array) -> None:
        changes = int(np.count_nonzero(batches[1:] != batches[:-1]))
        self.batches += changes + int(batches[0] != self.last_batch)
        self.last_batch = int(batches[-1])

    def _find_complete_from(self, table: RecordTable) -> None:
        start = table.first
        if self.repeated_from is None:
            start = self._find_repeated_key(table)
            if start == table.rows.shape[1]:
                return
            self.repeated_from = int(table.rows[fk.LOG_OFFSET, start])
            self.seen.clear()
            self.open_then = _open_transactions(table.rows[:, :start])
            if not self.open_then:
                self.complete_from = self.repeated_from
                self.complete_from_time = int(table.rows[fk.TIME, start])
        for row in (start + np.flatnonzero(_ends(table.rows[:, start:]))).tolist():
            if not self.open_then:
                return
            self.open_then.discard(int(table.rows[fk.PRODUCER_ID, row]))
            if not self.open_then:
                self.complete_from = int(table.rows[fk.LOG_OFFSET, row]) + 1
                self.complete_from_time = int(table.rows[fk.TIME, row])

    def _find_repeated_key(self, table: RecordTable) -> int:
        """The first record whose key occurred before; the end if there is none."""
        rows = table.rows
        repeated = np.flatnonzero(rows[fk.SEEN, table.first :])
        end = table.first + int(repeated[0]) if len(repeated) else int(rows.shape[1])
        classes = rows[ck.CLASS, table.first : end]
        others = np.flatnonzero((classes == ck.OTHER) | (classes == ck.BAD_KEY))
        for row in (table.first + others).tolist():
            key = table.keys.at(row - table.first)
            if key is None:
                continue
            if key in self.seen:
                return int(row)
            self.seen.add(key)
        return end

    def are_exact(self, offsets: Array) -> Array:
        """Whether nothing that matters is missing before these log offsets."""
        hole = _NEVER if self.first_hole is None else self.first_hole
        complete = _NEVER if self.complete_from is None else self.complete_from
        return (offsets < hole) | (offsets >= complete)

    def is_exact(self, offset: int) -> bool:
        return bool(self.are_exact(offset))

    def exact_since(self, offset: int) -> int | None:
        """Log offset from which on nothing that matters is missing up to this one; None: not even
        just before it."""
        hole = _NEVER if self.first_hole is None else self.first_hole
        if self.complete_from is not None and offset >= self.complete_from:
            return 0 if hole >= self.complete_from else self.complete_from
        return 0 if offset < hole else None

    def row(self) -> dict[str, Any]:
        """Of the table `coverage`, without what the state adds."""
        return {name: getattr(self, name) for name in _COLUMNS} | {"bytes": self.bytes_read}


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
