"""Which partition of `__consumer_offsets` holds a group."""

from functools import lru_cache


@lru_cache(maxsize=16_384)
def partition_for(group: str, partitions: int) -> int:
    """abs(String.hashCode(group)) mod partitions: Kafka's GroupCoordinatorService.partitionFor."""
    code = java_hash_code(group)
    return 0 if code == -(2**31) else abs(code) % partitions


def java_hash_code(text: str) -> int:
    """Java's String.hashCode, which counts UTF-16 units."""
    code = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code - 2**32 if code >= 2**31 else code
