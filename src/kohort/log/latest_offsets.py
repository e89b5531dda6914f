"""The map of compaction: the offset of each key's last record (Kafka's SkimpyOffsetMap).

It is a hash table of fixed size outside the heap of Python, with a digest in place of each key. Its
size does not depend on how long the keys are, and all of it goes back to the operating system at
the end: a dict of millions of keys leaves holes that other objects keep from being freed. Nothing
in it takes the interpreter's lock for longer than one key does.
"""

from collections.abc import Iterable
from hashlib import blake2b
from mmap import mmap
from struct import Struct
from typing import Final

_DIGEST: Final = Struct("=QQ")
_WORDS: Final = 3
"""Words of a slot: the two of the digest, and the offset + 1, which is 0 in a free slot."""
_WORD_BYTES: Final = 8
_MAX_LOAD: Final = 0.75


class LatestOffsets:
    """Key → offset, for at most so many keys."""

    __slots__ = ("_mapped", "_mask", "_most", "_table", "room")

    def __init__(self, max_keys: int) -> None:
        slots = 1
        while slots * _MAX_LOAD < max_keys:
            slots *= 2
        self._mask = slots - 1
        self._most = self.room = max_keys
        """Number of further keys for which there is room."""
        self._mapped = mmap(-1, slots * _WORDS * _WORD_BYTES)
        self._table = memoryview(self._mapped).cast("Q")

    def __len__(self) -> int:
        return self._most - self.room

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self._table.nbytes

    def update(self, offsets: Iterable[tuple[bytes, int]]) -> None:
        """Set the offsets of these keys, for which there must be room."""
        table, find = self._table, self._find
        for key, offset in offsets:
            position, first, second = find(key)
            if not table[position + 2]:
                self.room -= 1
                table[position], table[position + 1] = first, second
            table[position + 2] = offset + 1

    def get(self, key: bytes) -> int:
        """The offset of the last record with that key, -1 if there is none."""
        return self._table[self._find(key)[0] + 2] - 1

    def _find(self, key: bytes) -> tuple[int, int, int]:
        """Position of the key's slot, or of a free one for it, and the key's digest."""
        first, second = _DIGEST.unpack(blake2b(key, digest_size=_DIGEST.size).digest())
        table, mask = self._table, self._mask
        slot, step = first & mask, second | 1  # an odd step leads to every slot
        while True:
            position = slot * _WORDS
            if not table[position + 2] or (
                table[position] == first and table[position + 1] == second
            ):
                return position, first, second
            slot = (slot + step) & mask

    def close(self) -> None:
        """Free the memory. Nothing else may be called afterwards."""
        self._table.release()
        self._mapped.close()
