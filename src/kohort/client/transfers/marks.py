"""What tells a record in another cluster: its time, and a hash of its key and value.

The hash is XXH64 of the key and the value, each behind its length as 8 bytes (big-endian; -1:
null). Headers do not count, as tools that mirror topics add some.
"""

from dataclasses import dataclass
from typing import Final

import xxhash

from kohort.client.record import Record

HASH: Final = "xxh64"
HASH_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class RecordMark:
    """A record of one cluster, as it is looked for in another one."""

    offset: int
    timestamp: int
    """In ms since 1970; -1: none."""
    hash: str
    """16 hexadecimal digits."""


def mark_of(record: Record) -> RecordMark:
    return RecordMark(record.offset, record.timestamp, hash_of(record.key, record.value))


def hash_of(key: bytes | None, value: bytes | None) -> str:
    state = xxhash.xxh64()
    for part in (key, value):
        size = -1 if part is None else len(part)
        state.update(size.to_bytes(8, "big", signed=True))
        state.update(b"" if part is None else part)
    return state.hexdigest()
