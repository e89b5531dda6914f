"""The aborted transactions of a segment, in Kafka's format: the file `.txnindex`, 34 bytes each.

    version int16 (0), producer id int64, first offset int64, marker offset int64,
    last stable offset int64 when the marker was written

in the order of the markers, which are all in the segment. A transaction without records in this
partition has no entry. The file exists once there is an entry.

Entries are written right after their marker. An entry that a crash took, or one that is not as it
was written, is found when the log is opened: the snapshot of the producers has size and CRC of each
index, and the batches behind the snapshot tell the rest.
"""

import errno
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from kohort.log.stores import MemoryStore, Store

TXNINDEX: Final = ".txnindex"
_VERSION: Final = 0
_ENTRY = Struct(">hqqqq")
_BLOCK: Final = 512
"""Entries that are read at once."""
_BLOCK_BYTES: Final = _BLOCK * _ENTRY.size
_FIRST_OFFSETS = Struct(">" + _BLOCK * "10x q 16x")


class AbortedTransaction(NamedTuple):
    """An aborted transaction in one partition."""

    producer_id: int
    first_offset: int
    marker_offset: int
    last_stable_offset: int
    """First offset of the transactions that were open at the marker, else that after the marker."""


class IndexState(NamedTuple):
    """An index as it was at some time: it only grows."""

    size: int = 0
    """Bytes."""
    crc: int = 0


class TruncatedIndexError(OSError):
    """The index file was truncated while the log was open; reopening the log rebuilds it."""


class _Block(NamedTuple):
    """Summary of a full block of entries: a search skips blocks by it."""

    first_offset: int
    """The smallest one."""
    last_stable_offset: int
    """The largest one, that of the last entry: it never goes back."""


class AbortedIndex:
    """The aborted transactions of one segment."""

    __slots__ = ("_blocks", "_state", "store")

    def __init__(self, store: Store) -> None:
        self.store = store
        self._state: IndexState | None = None
        """None: not read yet."""
        self._blocks: dict[int, _Block] = {}
        """The full blocks, by number, except those that were not read yet."""

    def add(self, transaction: AbortedTransaction) -> None:
        """One more, with the last marker so far. Raises OSError."""
        size, crc = self.state()
        entry = _ENTRY.pack(_VERSION, *transaction)
        self.store.append((entry,))
        size += len(entry)
        self._state = IndexState(size, crc32c(entry, crc))
        if not size % _BLOCK_BYTES:
            self._measure(size // _BLOCK_BYTES - 1)

    def state(self) -> IndexState:
        """Size and CRC of the whole index. Raises OSError."""
        if self._state is None:
            size = self.store.size
            self._state = IndexState(size, crc32c(self._read(0, size)) if size else 0)
        return self._state

    def begins_with(self, state: IndexState) -> bool:
        """Whether the index was once in that state, and grew since. Raises OSError.

        It is read for that, and measured, so that the first reader need not wait.
        """
        if self.store.size < state.size:
            return False
        if state.size and crc32c(self._read(0, state.size)) != state.crc:
            return False
        for number in range(state.size // _BLOCK_BYTES):
            self._measure(number)
        return True

    def entries(self) -> Iterator[AbortedTransaction]:
        """All of them. Raises OSError."""
        for number in range(self._block_count):
            yield from self._read_block(number)

    @property
    def _block_count(self) -> int:
        return -(-self.store.size // _BLOCK_BYTES)

    def _read_block(self, number: int) -> list[AbortedTransaction]:
        stored = self._read(number * _BLOCK_BYTES, _BLOCK_BYTES)
        whole = memoryview(stored)[: len(stored) - len(stored) % _ENTRY.size]
        return [AbortedTransaction._make(entry[1:]) for entry in _ENTRY.iter_unpack(whole)]

    def between(self, offset: int, end: int) -> Iterator[AbortedTransaction]:
        """The transactions of which a reader of [offset, end) has to know, and the one that ends.

        They begin before `end`, and have their marker at `offset` or behind. The last one that is
        given may have begun behind if its last stable offset is `end` or more: later segments
        have none then. Raises OSError.
        """
        first = self._first_ended_since(offset)
        for number in range(first // _BLOCK, self._block_count):
            # one long transaction may hold back the last stable offset of very many others
            block = self._blocks.get(number) or self._measure(number)
            if block and block.first_offset >= end > block.last_stable_offset:
                continue
            for transaction in self._read_block(number)[max(first - number * _BLOCK, 0) :]:
                if transaction.first_offset < end or transaction.last_stable_offset >= end:
                    yield transaction
                if transaction.last_stable_offset >= end:
                    return

    def _measure(self, number: int) -> _Block | None:
        """The summary of a block; None for one that is not full."""
        stored = self._read(number * _BLOCK_BYTES, _BLOCK_BYTES)
        if len(stored) < _BLOCK_BYTES:
            return None
        last = _ENTRY.unpack_from(stored, _BLOCK_BYTES - _ENTRY.size)
        measured = self._blocks[number] = _Block(min(_FIRST_OFFSETS.unpack(stored)), last[-1])
        return measured

    def _first_ended_since(self, offset: int) -> int:
        """Number of the first entry whose marker is at `offset` or behind."""
        low, high = 0, self.store.size // _ENTRY.size
        while low < high:
            middle = (low + high) // 2
            entry = _ENTRY.unpack(self._read(middle * _ENTRY.size, _ENTRY.size))
            if entry[3] < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def replace_from(
        self, state: IndexState | None, expected: Sequence[AbortedTransaction]
    ) -> None:
        """Replace the entries after `state` (None: all) by `expected`, unless they are equal.

        Raises OSError.
        """
        state = state or IndexState()
        content = b"".join(_ENTRY.pack(_VERSION, *transaction) for transaction in expected)
        size = state.size + len(content)
        if self.store.size == size and self.store.read(state.size, len(content)) == content:
            return
        self.store.truncate(state.size)
        if content:
            self.store.append((content,))
        self._state = None
        self._blocks.clear()

    def cut(self, end_offset: int) -> None:
        """Forget the transactions whose marker is at `end_offset` or behind. Raises OSError."""
        self.store.truncate(self._first_ended_since(end_offset) * _ENTRY.size)
        self._state = None
        self._blocks.clear()

    def copy(self) -> "AbortedIndex":
        """The entries of now, for another thread. Raises OSError."""
        return AbortedIndex(MemoryStore(bytearray(self._read(0, self.store.size))))

    def _read(self, position: int, size: int) -> bytes:
        """At most `size` bytes from `position` on. Raises TruncatedIndexError, OSError."""
        size = min(size, self.store.size - position)
        stored = self.store.read(position, size)
        if len(stored) < size:
            raise TruncatedIndexError(
                errno.EIO, "the file is shorter than it was", self.store.file()
            )
        return stored

    def close(self) -> None:
        self.store.close()
