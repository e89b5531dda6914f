"""Maps a group or transactional id to its partition of the coordinator's topic."""

from functools import lru_cache

_CACHED_CHARS = 255
"""Longer ids are legal and rare: they must not fill a cache that counts entries."""


def partition_for(key: str, partitions: int) -> int:
    """abs(String.hashCode(key)) mod partitions: Kafka's GroupCoordinatorService.partitionFor."""
    return (
        _cached(key, partitions) if len(key) <= _CACHED_CHARS else _partition_for(key, partitions)
    )


def _partition_for(key: str, partitions: int) -> int:
    code = java_hash_code(key)
    return 0 if code == -(2**31) else abs(code) % partitions


_cached = lru_cache(maxsize=16_384)(_partition_for)


def java_hash_code(text: str) -> int:
    """Java's String.hashCode, which counts UTF-16 units."""
    code = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code - 2**32 if code >= 2**31 else code
