"""The sparse index of a segment: one entry for every 4 KiB or so (`index.interval.bytes`), in Kafka's file formats.

    .index      (offset: int32 relative to the segment, position: int32)     last offset of a batch, and where it starts
    .timeindex  (timestamp: int64, offset: int32 relative to the segment)    largest timestamp up to that batch

Entries are searched where they lie: a lookup is some twenty 8-byte reads, and costs no memory. The last few entries
are kept back and written together, so an append seldom costs a second write; after a crash at most that many entries
are missing, and the end of the segment is scanned from the last one on.

An index only saves work. It is checked where it is used, and made anew from the segment when it is missing or wrong.
"""

import contextlib
from bisect import bisect_right
from struct import Struct
from typing import Any

from kohort.log.storage import Store

_KEPT_BACK = 16


class SparseIndex:
    """Rows of (number, number), rising, in a store."""

    __slots__ = ("_pending", "_row", "store")

    def __init__(self, store: Store, row: Struct) -> None:
        self.store = store
        self._row = row
        self._pending = bytearray()

    def __len__(self) -> int:
        return (self.store.size + len(self._pending)) // self._row.size

    def __getitem__(self, number: int) -> tuple[int, int]:
        position = number * self._row.size
        stored = self.store.size
        row: Any = (
            self._row.unpack(self.store.read(position, self._row.size))
            if position < stored
            else self._row.unpack_from(self._pending, position - stored)
        )
        return row[0], row[1]

    def add(self, first: int, second: int) -> None:
        self._pending += self._row.pack(first, second)

    @property
    def is_due(self) -> bool:
        return len(self._pending) >= _KEPT_BACK * self._row.size

    def write(self) -> None:
        if self._pending:
            self.store.append((bytes(self._pending),))
            self._pending.clear()

    def floor(self, target: int, column: int = 0) -> tuple[int, int] | None:
        """The last row whose `column` is at most `target`."""
        after = bisect_right(range(len(self)), target, key=lambda number: self[number][column])
        return self[after - 1] if after else None

    def last(self) -> tuple[int, int] | None:
        return self[len(self) - 1] if len(self) else None

    def clear(self) -> None:
        self.store.truncate(0)
        self._pending.clear()


class SegmentIndex:
    """Both indexes of one segment. Offsets are relative to its base."""

    __slots__ = ("_latest", "offsets", "times")

    def __init__(self, offsets: Store, times: Store) -> None:
        self.offsets = SparseIndex(offsets, OFFSET_ROW)
        self.times = SparseIndex(times, TIME_ROW)
        self._latest = -1

    def add(self, offset: int, position: int, max_timestamp: int, max_timestamp_offset: int) -> None:
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
        """Bring the entries to their files. What cannot be written now is kept for the next time."""
        # Times first: the tail that is scanned after a crash begins at the last row of `offsets`.
        with contextlib.suppress(OSError):
            self.times.write()
            self.offsets.write()

    def clear(self) -> None:
        """Forget everything. Raises OSError."""
        self.offsets.clear()
        self.times.clear()
        self._latest = -1

    def resume(self) -> tuple[int, int]:
        """(largest timestamp, its offset) of what the files hold, (-1, 0) if nothing; `add` goes on from there.

        Raises ValueError if the files are no index.
        """
        if self.offsets.store.size % OFFSET_ROW.size or self.times.store.size % TIME_ROW.size:
            raise ValueError("half a row")
        latest = self.times.last() or (-1, 0)
        self._latest = latest[0]
        return latest

    def close(self) -> None:
        self.offsets.store.close()
        self.times.store.close()


OFFSET_ROW = Struct(">ii")
TIME_ROW = Struct(">qi")
