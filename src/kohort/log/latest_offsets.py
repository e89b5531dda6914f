"""The map of compaction: the offset of each key's last record.

It holds millions of keys. One dict of that size holds the interpreter's lock for 100 ms when it
grows and when it goes, and the event loop waits. Hence many small ones.
"""

from collections.abc import Mapping
from typing import Final

_PARTS: Final = 1024


class LatestOffsets:
    """Key → offset, in parts by the hash of the key."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[dict[bytes, int]] = [{} for _ in range(_PARTS)]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def update(self, offsets: Mapping[bytes, int]) -> None:
        """Set the offsets of these keys."""
        parts = self._parts
        for key, offset in offsets.items():
            parts[hash(key) % _PARTS][key] = offset

    def get(self, key: bytes) -> int:
        """The offset of the last record with that key, -1 if there is none."""
        return self._parts[hash(key) % _PARTS].get(key, -1)

    def clear(self) -> None:
        """Forget all keys, part by part."""
        for part in self._parts:
            part.clear()
