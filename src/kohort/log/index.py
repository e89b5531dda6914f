"""The sparse index of a segment, in Kafka's formats: an entry per `index.interval.bytes` (4 KiB).

    .index      (relative offset: int32, position: int32)     last offset of a batch, and its start
    .timeindex  (timestamp: int64, relative offset: int32)    largest timestamp up to that batch

Entries are searched in the file, so an unused index takes no memory. The rows around the last
lookup are kept (4 KiB). A sequential reader finds its next entry there, and only about every 500th
entry costs a search of some ten small reads. The last few entries are buffered and written
together, so an append seldom costs a second write. After a crash at most these entries are missing,
and the end of the segment is scanned from the last entry on.

An index only saves work. It is checked where it is used, and rebuilt from the segment if it is
missing or wrong.
"""

import contextlib
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Any

from kohort.log.stores import Store

_KEPT_BACK = 16
ROWS_PER_BLOCK = 512
"""Rows that are read at once."""


class SparseIndex:
    """Rows of (number, number), rising, in a store."""

    __slots__ = ("_block", "_block_start", "_pending", "_row", "store")

    def __init__(self, store: Store, row: Struct) -> None:
        self.store = store
        self._row = row
        self._pending = bytearray()
        self._block = b""
        """The rows that were read last, from row `_block_start` on."""
        self._block_start = 0

    def __len__(self) -> int:
        return (self.store.size + len(self._pending)) // self._row.size

    def __getitem__(self, number: int) -> tuple[int, int]:
        position = number * self._row.size
        stored = self.store.size
        row: Any = (
            self._row.unpack(self._stored(position, self._row.size))
            if position < stored
            else self._row.unpack_from(self._pending, position - stored)
        )
        return row[0], row[1]

    def _stored(self, position: int, size: int) -> bytes:
        """The rows that are stored from `position` on, `size` bytes or less.

        Rows lost to a truncation of the file are read as (-1, -1), which is the row of no batch.
        """
        size = max(min(size, self.store.size - position), 0)
        return self.store.read(position, size).ljust(size, b"\xff") if size else b""

    def add(self, first: int, second: int) -> None:
        self._pending += self._row.pack(first, second)

    @property
    def has_pending(self) -> bool:
        """Whether rows are not in the store yet."""
        return bool(self._pending)

    @property
    def is_due(self) -> bool:
        return len(self._pending) >= _KEPT_BACK * self._row.size

    def write(self) -> None:
        if self._pending:
            self.store.append((bytes(self._pending),))
            self._pending.clear()

    def floor(self, target: int, column: int = 0) -> tuple[int, int] | None:
        """The last row whose `column` is at most `target`."""
        if not self._block_decides(target, column):
            self._read_block(target, column)
        block, row = self._block, self._row
        rows = range(0, len(block), row.size)
        after = bisect_right(rows, target, key=lambda start: row.unpack_from(block, start)[column])
        if not after:
            return None
        last_row: Any = row.unpack_from(block, rows[after - 1])
        return last_row[0], last_row[1]

    def _block_decides(self, target: int, column: int) -> bool:
        """Whether the wanted row is in the block.

        A row that is not beyond the target must precede it, or it is the first row of all. A row
        that is beyond the target must follow it, or it is the last.
        """
        block, row, start = self._block, self._row, self._block_start
        if not block or (start and row.unpack_from(block)[column] > target):
            return False
        is_last = start + len(block) // row.size == len(self)
        return is_last or bool(row.unpack_from(block, len(block) - row.size)[column] > target)

    def _read_block(self, target: int, column: int) -> None:
        starts = range(ROWS_PER_BLOCK, len(self), ROWS_PER_BLOCK)
        start = ROWS_PER_BLOCK * bisect_right(
            starts, target, key=lambda number: self[number][column]
        )
        # The first row of the next block shows that the wanted row is not after this block.
        position, size = start * self._row.size, (ROWS_PER_BLOCK + 1) * self._row.size
        stored = self._stored(position, size)
        unstored = position + len(stored) - self.store.size
        self._block = stored + self._pending[unstored : unstored + size - len(stored)]
        self._block_start = start

    def last(self) -> tuple[int, int] | None:
        return self[len(self) - 1] if len(self) else None

    def clear(self) -> None:
        self.store.truncate(0)
        self._pending.clear()
        self._block = b""

    def cut(self, target: int, column: int = 0) -> None:
        """Forget the rows whose `column` is `target` or more. Raises OSError."""
        self.write()
        rows = range(len(self))
        after = bisect_left(rows, target, key=lambda number: self[number][column])
        self.store.truncate(after * self._row.size)
        self._block = b""


class SegmentIndex:
    """Both indexes of one segment. Offsets are relative to its base."""

    __slots__ = ("_latest", "offsets", "times")

    def __init__(self, offsets: Store, times: Store) -> None:
        self.offsets = SparseIndex(offsets, OFFSET_ROW)
        self.times = SparseIndex(times, TIME_ROW)
        self._latest = -1

    def add(
        self, offset: int, position: int, max_timestamp: int, max_timestamp_offset: int
    ) -> None:
        """One more entry: a batch, and the largest timestamp of the segment so far."""
        self.offsets.add(offset, position)
        self.add_time(max_timestamp, max_timestamp_offset)
        if self.offsets.is_due:
            self.write()

    def add_time(self, max_timestamp: int, offset: int) -> None:
        if max_timestamp > self._latest:
            self.times.add(max_timestamp, offset)
            self._latest = max_timestamp

    def write(self) -> None:
        """Bring the entries to their files.

        What cannot be written now is kept for the next time.
        """
        if not (self.times.has_pending or self.offsets.has_pending):
            return
        # Times first: the tail that is scanned after a crash begins at the last row of `offsets`.
        with contextlib.suppress(OSError):
            self.times.write()
            self.offsets.write()

    def clear(self) -> None:
        """Forget everything. Raises OSError."""
        self.offsets.clear()
        self.times.clear()
        self._latest = -1

    def cut(self, offset: int) -> None:
        """Forget the entries of batches that end at `offset` or later. Raises OSError."""
        self.offsets.cut(offset)
        self.times.cut(offset, column=1)

    def resume(self) -> tuple[int, int]:
        """(largest timestamp, its offset) of the files' content, (-1, 0) if they are empty.

        `add` continues from there. Raises ValueError if the files are no index.
        """
        if self.offsets.store.size % OFFSET_ROW.size or self.times.store.size % TIME_ROW.size:
            raise ValueError("half a row")
        latest = self.times.last() or (-1, 0)
        self._latest = latest[0]
        return latest

    @property
    def is_stored(self) -> bool:
        """Whether its files hold anything."""
        return bool(self.offsets.store.size or self.times.store.size)

    def close(self) -> None:
        self.offsets.store.close()
        self.times.store.close()


OFFSET_ROW = Struct(">ii")
TIME_ROW = Struct(">qi")
