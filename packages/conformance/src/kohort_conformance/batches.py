"""Record batches (magic 2) for scenarios: build, damage and describe them.

Deliberately not Kohort's own writer: what judges a server must not share code with it. Every part
of the header can be set by hand, since most produce scenarios are about batches that are wrong in
one place. The CRC (CRC-32C) covers everything after itself, so a spoiled part before it goes
undetected by the CRC, one after it does not.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from crc32c import crc32c

from kohort_conformance.plain import Plain

HEADER = struct.Struct(">qiibIhiqqqhii")
"""base offset, length, leader epoch, magic, crc, attributes, last offset delta, base and max
timestamp, producer id, producer epoch, base sequence, record count.
"""
AFTER_LENGTH = 12
AFTER_CRC = 21
COMPRESSION = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


@dataclass(frozen=True)
class BatchRecord:
    """One record; `timestamp` in ms, relative to nothing."""

    value: bytes | None = b"value"
    key: bytes | None = None
    timestamp: int = 1_000
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True)
class RecordBatch:
    """A batch to send; the fields that are None are computed, as a correct producer would."""

    records: Sequence[BatchRecord] = field(default_factory=lambda: (BatchRecord(),))
    base_offset: int = 0
    leader_epoch: int = -1
    magic: int = 2
    attributes: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    crc: int | None = None
    length: int | None = None
    count: int | None = None
    last_offset_delta: int | None = None
    body: bytes | None = None

    def encode(self) -> bytes:
        base = self.records[0].timestamp if self.records else 0
        body = self.body if self.body is not None else _encode_records(self.records, base)
        count = len(self.records) if self.count is None else self.count
        last = count - 1 if self.last_offset_delta is None else self.last_offset_delta
        newest = max((record.timestamp for record in self.records), default=0)
        after_crc = (
            struct.pack(">hiqqqhii", self.attributes, last, base, newest, *self._producer(), count)
            + body
        )
        crc = crc32c(after_crc) if self.crc is None else self.crc
        length = 9 + len(after_crc) if self.length is None else self.length
        return (
            struct.pack(">qiibI", self.base_offset, length, self.leader_epoch, self.magic, crc)
            + after_crc
        )

    def _producer(self) -> tuple[int, int, int]:
        return self.producer_id, self.producer_epoch, self.base_sequence


def records(*values: bytes, timestamp: int = 1_000) -> tuple[BatchRecord, ...]:
    """Records without keys, one ms apart."""
    return tuple(BatchRecord(value, timestamp=timestamp + n) for n, value in enumerate(values))


def _encode_records(items: Sequence[BatchRecord], base_timestamp: int) -> bytes:
    out = bytearray()
    for delta, item in enumerate(items):
        body = bytearray(b"\0") + _varint(item.timestamp - base_timestamp) + _varint(delta)
        body += _nullable(item.key) + _nullable(item.value) + _varint(len(item.headers))
        for name, value in item.headers:
            body += _nullable(name.encode()) + _nullable(value)
        out += _varint(len(body)) + body
    return bytes(out)


def _nullable(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value


def _varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def describe(data: bytes) -> list[Plain]:
    """Header by header what is in a Fetch response.

    A batch that a byte limit cuts off is listed only when there is no whole one before it: no
    client can use it, so a server may as well leave it out.
    """
    found: list[Plain] = []
    at = 0
    while at < len(data):
        parts = HEADER.unpack_from(data, at) if len(data) - at >= HEADER.size else None
        end = at + AFTER_LENGTH + parts[1] if parts else len(data) + 1
        if parts is None or end > len(data):
            return found or [{"cut_off_after": len(data)}]
        crc_holds = crc32c(data[at + AFTER_CRC : end]) == parts[4]
        found.append(_describe_one(parts, crc_holds))
        at = end
    return found


def _describe_one(parts: tuple[int, ...], crc_holds: bool) -> Plain:
    names = (
        "base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta",
        "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence",
        "count",
    )  # fmt: skip
    told: dict[str, Plain] = dict(zip(names, parts, strict=True))
    told["crc"] = "holds" if crc_holds else "is wrong"
    return told
