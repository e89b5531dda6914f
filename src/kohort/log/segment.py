"""A segment: consecutive batches from its base offset up to the next segment, with a sparse index.

Only the last segment of a log, the active one, is appended to; the others never change. A segment
is named by its base offset and holds only batches, so any tool that reads Kafka's `.log` files
reads it.

A position is found in up to three steps. A read usually starts where another one ended, and such
positions are remembered. Otherwise the index gives a batch shortly before, from which headers are
stepped over.
"""

from collections.abc import Iterator

from kohort.log import scan
from kohort.log.index import SegmentIndex
from kohort.log.storage import Store
from kohort.protocol.batches import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    Buffer,
    Header,
    Record,
    decode_records,
    read_header,
)

_REMEMBERED = 16
LARGEST = 2**31 - 1
"""Bytes, and offsets, that fit into a segment: its index counts in int32."""


class Segment:
    """One segment of a log."""

    __slots__ = (
        "_index", "_interval", "_max_timestamp", "_max_timestamp_offset", "_remembered", "_resumed", "_since_entry",
        "base_offset", "created", "end_offset", "first_timestamp", "log", "modified", "unsynced",
    )  # fmt: skip

    def __init__(
        self, base_offset: int, log: Store, index: SegmentIndex, interval: int = 4096
    ) -> None:
        self.base_offset = base_offset
        self.end_offset = base_offset
        """Offset after the last one; of a segment that was found on disk, the next segment's base.
        """
        self.log = log
        self.first_timestamp = NO_TIMESTAMP
        """Max timestamp of the first batch: `segment.ms` counts from it."""
        self.created = self.modified = 0
        """When its first and its last batch were appended (ms), as far as is known."""
        self.unsynced = False
        """Appended to since it was last made durable."""
        self._index = index
        self._interval = interval
        self._resumed = not log.size
        """Whether index and timestamps are up to date, as those of the active segment always are.
        """
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._since_entry = 0
        self._remembered: dict[int, int] | None = None

    def __repr__(self) -> str:
        return f"<Segment [{self.base_offset}, {self.end_offset}) {self.log.size} bytes>"

    @property
    def size(self) -> int:
        """Bytes of its batches."""
        return self.log.size

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp of its batches (ms), -1 if there is none."""
        if not self._resumed:
            self.resume()
        return self._max_timestamp

    # Writing

    def append(
        self, parts: tuple[Buffer, ...], size: int, last_offset: int, max_timestamp: int, now: int
    ) -> None:
        """Write one batch of `size` bytes at the end.

        Raises OSError, and the segment is as before.
        """
        position = self.log.size
        self.log.append(parts)
        self.unsynced = True
        self.modified = now
        if not position:
            self.created = now
        self.note(position, size, last_offset, max_timestamp)

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Record a batch that is in the log: just appended, or found by recovery."""
        self.end_offset = last_offset + 1
        if not position:
            self.first_timestamp = max_timestamp
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self._since_entry > self._interval:
            base = self.base_offset
            self._index.add(
                last_offset - base, position, self._max_timestamp, self._max_timestamp_offset - base
            )
            self._since_entry = 0
        self._since_entry += size

    def seal(self) -> None:
        """Complete the index of a segment that is not appended to any more."""
        if self._max_timestamp >= 0:
            self._index.add_time(self._max_timestamp, self._max_timestamp_offset - self.base_offset)
        self._index.write()

    # Reading

    def read(self, offset: int, max_bytes: int, at_least_one: bool) -> bytes | memoryview:
        """Whole batches from the one that holds `offset`, or follows it, on; as `Log.read`."""
        remembered = self._remembered
        position = remembered.get(offset) if remembered is not None else None
        if position is None:
            position = self.position(offset)
        available = self.log.size - position
        if available <= max_bytes:
            self._remember(self.end_offset, position + available)
            return self.log.read(position, available)
        return self._read_some(position, max_bytes, at_least_one)

    def _read_some(self, position: int, max_bytes: int, at_least_one: bool) -> bytes | memoryview:
        data = self.log.read(position, max(max_bytes, HEADER_SIZE))
        limit = position + max_bytes
        while True:
            start = self._last_entry_in(data, position, limit)
            last, end = scan.whole_batches(data, start, max_bytes)
            if end:
                self._remember(read_header(data, last).last_offset + 1, position + end)
                return memoryview(data)[:end]
            if not start:
                return self.log.read(position, read_header(data).size) if at_least_one else b""
            limit = position + start - 1  # the entry is the batch that does not fit

    def _last_entry_in(self, data: bytes, position: int, limit: int) -> int:
        """Position in `data` of the last indexed batch up to `limit`; 0 if there is none.

        `data` starts at `position`. Only the batches that follow have to be stepped over.
        """
        while True:
            entry = self._index.offsets.floor(limit, column=1)
            if entry is None or entry[1] <= position:
                return 0
            start = entry[1] - position
            if start + HEADER_SIZE > len(data):
                limit = entry[1] - 1  # it would not fit
            elif self._is_header_of(entry, read_header(data, start)):
                return start
            else:
                self.rebuild_index()

    def _remember(self, offset: int, position: int) -> None:
        remembered = self._remembered
        if remembered is None:
            remembered = self._remembered = {}
        elif len(remembered) >= _REMEMBERED:
            del remembered[next(iter(remembered))]
        remembered[offset] = position

    def position(self, offset: int) -> int:
        """Position of the batch that holds or follows `offset`.

        The size of the segment if there is none.
        """
        if not self._resumed:
            self.resume()
        entry = self._index.offsets.floor(offset - self.base_offset)
        if entry is not None and not self._is_batch(entry):
            self.rebuild_index()
            entry = self._index.offsets.floor(offset - self.base_offset)
        for position, header in self.headers(0 if entry is None else entry[1]):
            if header.last_offset >= offset:
                return position
        return self.log.size

    def headers(self, position: int = 0) -> Iterator[tuple[int, Header]]:
        """(position, header) of every batch from `position` on.

        Raises KafkaError CORRUPT_MESSAGE.
        """
        return scan.headers(self.log, position)

    # Timestamps

    def offset_for_timestamp(self, timestamp: int, start_offset: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with that timestamp or a later one.

        Records before `start_offset` do not count.
        """
        if self.max_timestamp < timestamp:
            return None
        earlier = self._index.times.floor(timestamp - 1)
        known = self.base_offset if earlier is None else self.base_offset + earlier[1]
        for position, header in self.headers(self.position(max(known, start_offset))):
            if header.max_timestamp >= timestamp:
                for record in self._records(position, header):
                    if record.timestamp >= timestamp and record.offset >= start_offset:
                        return record.offset, record.timestamp
        return None

    def latest_record(self, start_offset: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with the largest timestamp.

        Records before `start_offset` do not count.
        """
        if start_offset <= self.base_offset:
            found = self.offset_for_timestamp(self.max_timestamp, start_offset)
            if found is not None:
                return found
        # The batch with the largest timestamp may begin before `start_offset`, or its header may
        # not be true.
        batches = sorted(
            self.headers(self.position(start_offset)), key=lambda batch: -batch[1].max_timestamp
        )
        best: tuple[int, int] | None = None
        for position, header in batches:
            if best is not None and header.max_timestamp < best[1]:
                break
            for record in self._records(position, header):
                found = record.offset, record.timestamp
                if record.offset >= start_offset and (
                    best is None or (-found[1], found[0]) < (-best[1], best[0])
                ):
                    best = found
        return best

    def _records(self, position: int, header: Header) -> Iterator[Record]:
        return decode_records(self.log.read(position, header.size))

    # Recovery

    def resume(self) -> None:
        """Load the index of a segment that was found on disk, or rebuild it if it is wrong."""
        self._resumed = True
        if self._last_entry() is None:
            self.rebuild_index()

    def _last_entry(self) -> int | None:
        """Load the index; returns the position of its last entry, None if the index is unusable."""
        try:
            latest, offset = self._index.resume()
        except ValueError:
            return None
        entry = self._index.offsets.last()
        if latest < 0 or (entry is not None and not self._is_batch(entry)):
            return None
        self._max_timestamp, self._max_timestamp_offset = latest, self.base_offset + offset
        return 0 if entry is None else entry[1]

    def rebuild_index(self) -> None:
        """Rebuild the index from the segment. Raises OSError."""
        self._resumed = True
        end_offset = self.end_offset
        self._index.clear()
        self._max_timestamp, self._since_entry = NO_TIMESTAMP, 0
        for position, header in self.headers():
            self.note(position, header.size, header.last_offset, header.max_timestamp)
        self.end_offset = end_offset
        self.seal()

    def recover(self, *, everything: bool) -> int:
        """Cut off the damaged end, and get ready to append; returns the bytes cut off.

        Batches are checked by their CRC from the last index entry on. With `everything` they are
        checked from the first, for after a crash of the machine any page may be missing. Raises
        OSError.
        """
        entry = 0 if everything else self._last_entry() or 0
        if entry:
            self.first_timestamp = read_header(self.log.read(0, HEADER_SIZE)).max_timestamp
        else:
            self._index.clear()
            self._max_timestamp, self._since_entry = NO_TIMESTAMP, 0
        self._resumed = True
        self.end_offset = self.base_offset
        position = entry
        for start, header, _ in scan.intact(self.log, entry, self.base_offset):
            self.note(start, header.size, header.last_offset, header.max_timestamp)
            position = start + header.size
        if entry and position == entry:
            # the batch that the index names is broken, and so is the index
            return self.recover(everything=True)
        cut = self.log.size - position
        self.log.truncate(position)
        return cut

    def _is_batch(self, entry: tuple[int, int]) -> bool:
        """Whether the index entry (relative last offset, position) is true."""
        position = entry[1]
        if not 0 <= position <= self.log.size - HEADER_SIZE:
            return False
        return self._is_header_of(entry, read_header(self.log.read(position, HEADER_SIZE)))

    def _is_header_of(self, entry: tuple[int, int], header: Header) -> bool:
        return scan.is_plausible(header) and header.last_offset == self.base_offset + entry[0]

    def close(self) -> None:
        """Close the files, after writing the index as far as possible."""
        self._index.write()
        self._index.close()
        self.log.close()
