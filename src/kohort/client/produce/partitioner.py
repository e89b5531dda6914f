"""Chooses the partition of a record by Java's defaults, so that all clients agree where a key is.

A record with a key goes to the partition of the key's murmur2 hash (Kafka's BuiltInPartitioner).
One without a key goes to the sticky partition, which changes after a batch's worth of bytes
(KIP-794): full batches of few partitions are cheaper than small ones of all.
"""

import random
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

Partitioner = Callable[[str, bytes | None, int], int | None]
"""(topic, key, number of partitions) -> partition; None: the sticky partition."""

_MASK: Final = 0xFFFFFFFF
_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C


@lru_cache(maxsize=1 << 16)
def murmur2(data: bytes) -> int:
    """Kafka's Utils.murmur2, as an unsigned number of 32 bits."""
    length = len(data)
    h = _SEED ^ length
    words = length >> 2
    for k in _words(words).unpack_from(data):
        k = k * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    rest = data[words << 2 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


@lru_cache(maxsize=1 << 10)
def _words(count: int) -> Struct:
    return Struct(f"<{count}I")


def murmur2_partitioner(_topic: str, key: bytes | None, partitions: int) -> int | None:
    """Java's default partitioner."""
    return None if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions


class Sticky:
    """The present partition for a topic's records without a key."""

    __slots__ = ("_choose", "_current", "_produced", "_stay_bytes")

    def __init__(
        self, stay_bytes: int, choose: Callable[[Sequence[int]], int] = random.choice
    ) -> None:
        self._stay_bytes = stay_bytes
        self._choose = choose
        self._current = -1
        self._produced = 0

    def next(self, size: int, available: Sequence[int]) -> int:
        """The partition for a record of `size` bytes, out of those that have a leader."""
        if self._produced >= self._stay_bytes or self._current not in available:
            others = [each for each in available if each != self._current]
            self._current = self._choose(others or available)
            self._produced = 0
        self._produced += size
        return self._current
