"""Chooses the partition of a record by Java's defaults, so that all clients agree on a key's one.

A record with a key goes to the partition of the key's murmur2 hash (Kafka's BuiltInPartitioner).
One without a key goes to the sticky partition, which changes after a batch's worth of bytes
(KIP-794): full batches of few partitions are cheaper than small ones of all.

Other clients have other hashes: `partitioner_of` takes the names of librdkafka's property
`partitioner`. Records that are random there go to the sticky partition here.
"""

import random
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, get_args

from kohort.client.cluster import NO_LEADER, TopicMetadata
from kohort.client.config import Partitioner, PartitionerName
from kohort.client.produce.record_arguments import as_partition
from kohort.errors import ConfigError

_MASK: Final = 0xFFFFFFFF
_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C


@lru_cache(maxsize=1 << 16)
def murmur2(data: bytes) -> int:
    """Kafka's Utils.murmur2, as an unsigned number of 32 bits."""
    length = len(data)
    h = _SEED ^ length
    word_count = length >> 2
    for k in _words(word_count).unpack_from(data):
        k = k * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    tail = data[word_count << 2 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


@lru_cache(maxsize=1 << 10)
def _words(count: int) -> Struct:
    return Struct(f"<{count}I")


def murmur2_partitioner(_topic: str, key: bytes | None, partitions: int) -> int | None:
    """Java's default partitioner."""
    return None if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions


def fnv1a(data: bytes) -> int:
    """The FNV-1a hash of 32 bits as a positive number, as of Sarama's HashPartitioner."""
    h = 0x811C9DC5
    for byte in data:
        h = (h ^ byte) * 0x01000193 & _MASK
    return h if h < 1 << 31 else (1 << 32) - h


class RoundRobin:
    """The partitions of a topic in turn (Java's RoundRobinPartitioner)."""

    def __init__(self) -> None:
        self._turns: dict[str, int] = {}

    def __call__(self, topic: str, _key: bytes | None, partitions: int) -> int:
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        return turn % partitions


def partitioner_of(partitioner: Partitioner | PartitionerName) -> Partitioner:
    """The partitioner of that name, or the function itself. Raises ConfigError."""
    match partitioner:
        case "murmur2_random":
            return murmur2_partitioner
        case "murmur2":
            return lambda topic, key, count: murmur2_partitioner(topic, key or b"", count)
        case "consistent":
            return lambda _, key, count: zlib.crc32(key or b"") % count
        case "consistent_random":
            return lambda _, key, count: zlib.crc32(key) % count if key else None
        case "fnv1a":
            return lambda _, key, count: fnv1a(key or b"") % count
        case "fnv1a_random":
            return lambda _, key, count: None if key is None else fnv1a(key) % count
        case "random":
            return lambda *_: None
        case "round_robin":
            return RoundRobin()
    if callable(partitioner):
        return partitioner
    names = get_args(PartitionerName)
    raise ConfigError(f"partitioner {partitioner!r}: a function, or one of {', '.join(names)}")


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
            others = [partition for partition in available if partition != self._current]
            self._current = self._choose(others or available)
            self._produced = 0
        self._produced += size
        return self._current


class PartitionChooser:
    """Chooses partitions for the records of one producer that are sent without one."""

    def __init__(self, partitioner: Partitioner | PartitionerName, stay_bytes: int) -> None:
        """A sticky partition stays for `stay_bytes`. Raises ConfigError."""
        self._partitioner = partitioner_of(partitioner)
        self._stay_bytes = stay_bytes
        self._sticky: dict[str, Sticky] = {}

    def choose(self, topic: TopicMetadata, key: bytes | None, size: int) -> int:
        """The partition for a record of `size` bytes.

        Raises TypeError and ValueError for invalid results of the application's partitioner.
        """
        count = len(topic.partitions)
        chosen = self._partitioner(topic.name, key, count)
        if chosen is not None:
            if type(chosen) is not int:
                chosen = as_partition(chosen)
            if not 0 <= chosen < count:
                raise ValueError(
                    f"the partitioner chose partition {chosen!r} of topic {topic.name}, which has "
                    f"{count}"
                )
            return chosen
        sticky = self._sticky.get(topic.name)
        if sticky is None:
            sticky = self._sticky[topic.name] = Sticky(self._stay_bytes, random.choice)
        with_leader = [
            partition.index for partition in topic.partitions if partition.leader != NO_LEADER
        ]
        return sticky.next(size, with_leader or [partition.index for partition in topic.partitions])
