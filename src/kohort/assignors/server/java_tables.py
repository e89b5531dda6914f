"""Iteration orders of Java's hash tables, on which the assignments of Kafka's assignors depend.

A `HashMap` or `HashSet` is iterated by bucket, and within a bucket by insertion. The bucket is the
low bits of the spread hash, so the order depends on the capacity: a power of two that grows with
the entries and never shrinks. Buckets with eight or more entries, which Java turns into trees, are
treated as any other.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar
from uuid import UUID

from kohort.assignors.base import java_order

K = TypeVar("K")

DEFAULT_CAPACITY = 16
_WORD = 0xFFFF_FFFF
_UNSPREAD = 1 << 16
"""Smaller numbers are their own spread hash."""


def string_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned number: over UTF-16 code units."""
    result = 0
    if text.isascii():
        for unit in text.encode():
            result = 31 * result + unit & _WORD
    else:
        units = java_order(text)
        for high, low in zip(units[::2], units[1::2], strict=True):
            result = 31 * result + (high << 8 | low) & _WORD
    return result


@lru_cache(maxsize=16_384)
def uuid_hash(value: UUID) -> int:
    """`Uuid.hashCode` of Kafka, as an unsigned number."""
    bits = value.int
    return (bits ^ bits >> 32 ^ bits >> 64 ^ bits >> 96) & _WORD


def table_capacity(size: int) -> int:
    """Number of buckets of `new HashMap(size)`."""
    return 1 << (size - 1).bit_length() if size > 1 else 1


def roomy_capacity(entries: int) -> int:
    """Number of buckets of `new HashMap(entries / 0.75 + 1)`, which need not grow."""
    return table_capacity(int(entries / 0.75 + 1))


def copy_capacity(entries: int) -> int:
    """Number of buckets of `new HashSet(collection)`."""
    return max(DEFAULT_CAPACITY, roomy_capacity(entries))


def grown(capacity: int, entries: int) -> int:
    """Number of buckets of a table after it had this number of entries."""
    while 4 * entries > 3 * capacity:
        capacity *= 2
    return capacity


def by_bucket(keys: Iterable[K], hash_of: Callable[[K], int], capacity: int) -> list[K]:
    """Iteration order of a table of `capacity` buckets with these keys, inserted in this order."""
    inserted = list(keys)
    mask = capacity - 1
    buckets = [(code ^ code >> 16) & mask for code in map(hash_of, inserted)]
    return [inserted[index] for index in sorted(range(len(inserted)), key=buckets.__getitem__)]


def string_set_order(strings: Iterable[str]) -> list[str]:
    """Iteration order of `new HashSet<String>(list)`."""
    unique = list(dict.fromkeys(strings))
    return by_bucket(unique, string_hash, copy_capacity(len(unique)))


def partition_order(partitions: Iterable[int], capacity: int) -> tuple[int, ...]:
    """Iteration order of a set of `capacity` buckets with these partitions, inserted in order."""
    numbers = tuple(partitions)
    if len(numbers) < 2:
        return numbers
    highest, mask = max(numbers), capacity - 1
    if highest < capacity:
        return tuple(sorted(numbers))
    if highest < _UNSPREAD:
        return tuple(sorted(numbers, key=mask.__and__))
    return tuple(sorted(numbers, key=lambda partition: (partition ^ partition >> 16) & mask))


def consecutive_order(partitions: tuple[int, ...]) -> tuple[int, ...]:
    """`partition_order` of ascending partitions without gaps, in a set that has grown with them."""
    capacity = grown(DEFAULT_CAPACITY, len(partitions))
    if partitions[-1] >= _UNSPREAD:
        return partition_order(partitions, capacity)
    # They are fewer than the buckets, so the first bucket occurs at most once.
    first = -partitions[0] % capacity
    return partitions[first:] + partitions[:first]
