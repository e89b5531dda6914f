"""The hash by which a consumer group detects changes of its topics (KIP-1101).

XXH3-64 over the fields of Kafka's stream, little-endian. A group's hash is stored in its record,
and Kafka computes the same value.
"""

import struct
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from xxhash import xxh3_64_intdigest

_MAGIC: Final = b"\0"
_LONG: Final = (1 << 64) - 1
NO_TOPICS: Final = 0
"""The hash of a group without existing topics."""


def topic_hash(topic_id: UUID, name: str, partitions: int, rack: str | None = None) -> int:
    """The signed hash of a topic with all replicas in this rack (`broker.rack`)."""
    racks = b"" if rack is None else struct.pack("<i", len(_units(rack)) // 2) + _string(rack)
    indices = struct.pack(f"<{partitions}i", *range(partitions))
    if racks:
        indices = b"".join(
            indices[position : position + 4] + racks for position in range(0, len(indices), 4)
        )
    id_words = struct.pack("<QQ", topic_id.int >> 64, topic_id.int & _LONG)
    head = _MAGIC + id_words + _string(name) + struct.pack("<i", partitions)
    return _hash(head + indices)


def group_hash(topics: Mapping[str, int]) -> int:
    """The signed hash of a group, from the hashes of its existing topics by name."""
    if not topics:
        return NO_TOPICS
    return _hash(struct.pack(f"<{len(topics)}q", *(topics[name] for name in sorted(topics))))


def _hash(data: bytes) -> int:
    digest = xxh3_64_intdigest(data)
    return digest - (1 << 64) if digest >> 63 else digest


def _units(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def _string(text: str) -> bytes:
    units = _units(text)
    return units + struct.pack("<i", len(units) // 2)
