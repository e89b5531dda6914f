"""A batch of records of one partition on its way into the log, and the outcome of each record.

Records are encoded when they are appended, and compressed when the batch is closed. The header,
with producer id and sequence, is encoded for each attempt, as these may change in between.
"""

import asyncio
from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from kohort.protocol.batch_format import (
    ATTRIBUTES_AT,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    NO_PRODUCER_ID,
    SIZE_OVERHEAD,
)
from kohort.protocol.compression import Codec, compress, decompress
from kohort.protocol.records import SMALL_VARINTS, Header, decode, encode_headers, encode_varint
from kohort.types import TopicPartition

NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1

_NULL: Final = encode_varint(-1)
_SMALL: Final = len(SMALL_VARINTS)
_NONE_AND_ZERO: Final = b"\0"
_CRC_AT: Final = ATTRIBUTES_AT - 4


class ProducerId(NamedTuple):
    """Id and epoch of an idempotent producer (KIP-98)."""

    id: int
    epoch: int


NOBODY: Final = ProducerId(NO_PRODUCER_ID, -1)


class RecordMetadata(NamedTuple):
    """The place of a record in the log."""

    topic: str
    partition: int
    offset: int
    """-1 if the broker did not report it: with acks=0, or if the batch was a duplicate."""
    timestamp: int
    """In ms; the broker's own if the topic has log append time."""


class Delivery:
    """The outcome of one record: await it for its RecordMetadata, or for the error of its delivery.

    It need not be awaited: `Producer.flush` raises errors of deliveries that were not.
    """

    __slots__ = ("_batch", "_index", "_timestamp")

    def __init__(self, batch: "ProduceBatch", index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        batch, index = self._batch, self._index
        while True:
            batch.is_awaited = True
            if not batch.done.done():
                # Shielded: many callers wait for this future, and one of them may be cancelled.
                yield from asyncio.shield(batch.done).__await__()
            base_offset, append_time = batch.done.result()
            if batch.halves is None:
                break
            first, second = batch.halves
            batch, index = (first, index) if index < first.count else (second, index - first.count)
        offset = base_offset + index if base_offset >= 0 else NO_OFFSET
        topic, partition = batch.tp
        return RecordMetadata(
            topic, partition, offset, self._timestamp if append_time < 0 else append_time
        )

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.done.done()


class ProduceBatch:
    """A batch that takes records until `close`, and is then sent, perhaps several times."""

    __slots__ = (
        "_max_timestamp",
        "_parts",
        "_payload",
        "attempts",
        "base_timestamp",
        "codec",
        "count",
        "created",
        "done",
        "halves",
        "is_awaited",
        "last_error",
        "number",
        "producer",
        "sequence",
        "size",
        "tp",
    )

    def __init__(
        self, tp: TopicPartition, number: int, codec: Codec, created: float, base_timestamp: int
    ) -> None:
        self.tp = tp
        self.number = number
        """Batches of a partition are sent in the order of their numbers."""
        self.codec = codec
        self.created = created
        """By the loop's clock."""
        self.base_timestamp = base_timestamp
        self._max_timestamp = base_timestamp
        self.count = 0
        self.size = HEADER_SIZE
        """In bytes, before compression."""
        self._parts: list[bytes] = []
        self._payload: bytes | None = None
        self.producer = NOBODY
        self.sequence = NO_SEQUENCE
        self.attempts = 0
        self.last_error: Exception | None = None
        self.done: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        """Base offset and append time (-1: the create time counts)."""
        self.is_awaited = False
        self.halves: tuple[ProduceBatch, ProduceBatch] | None = None
        """The two batches that replace it if it was too large."""

    def __repr__(self) -> str:
        return (
            f"<ProduceBatch {self.tp} #{self.number} {self.count} records, sequence "
            f"{self.sequence}>"
        )

    @property
    def is_closed(self) -> bool:
        return self._payload is not None

    def append(
        self, key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp: int
    ) -> Delivery:
        """Append one more record; the caller keeps to the batch size."""
        delta = timestamp - self.base_timestamp
        count = self.count
        stamp = SMALL_VARINTS[delta] if 0 <= delta < _SMALL else encode_varint(delta)
        number = SMALL_VARINTS[count] if count < _SMALL else encode_varint(count)
        if key is None:
            key_size, key = _NULL, b""
        else:
            key_size = SMALL_VARINTS[len(key)] if len(key) < _SMALL else encode_varint(len(key))
        if value is None:
            value_size, value = _NULL, b""
        else:
            value_size = (
                SMALL_VARINTS[len(value)] if len(value) < _SMALL else encode_varint(len(value))
            )
        tail = _NONE_AND_ZERO if not headers else encode_headers(headers)
        size = (
            1
            + len(stamp)
            + len(number)
            + len(key_size)
            + len(key)
            + len(value_size)
            + len(value)
            + len(tail)
        )
        length = SMALL_VARINTS[size] if size < _SMALL else encode_varint(size)
        self._parts += (
            length,
            _NONE_AND_ZERO,
            stamp,
            number,
            key_size,
            key,
            value_size,
            value,
            tail,
        )
        self.count = count + 1
        self.size += size + len(length)
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        return Delivery(self, count, timestamp)

    def append_encoded(self, payload: bytes, size: int, count: int, max_timestamp: int) -> Delivery:
        """Append records that are encoded and compressed already, and close.

        The records take `size` bytes uncompressed, with deltas from 0 and from the base timestamp.
        """
        self._payload = payload
        self.count = count
        self.size += size
        self._max_timestamp = max(self.base_timestamp, max_timestamp)
        return Delivery(self, 0, self.base_timestamp)

    def close(self) -> None:
        """Compress the records; nothing can be appended any more. Idempotent."""
        if self._payload is None:
            self._payload = compress(self.codec, b"".join(self._parts))
            self._parts.clear()

    @property
    def sent_size(self) -> int:
        """Size of the closed batch in bytes."""
        return HEADER_SIZE + len(self._payload or b"")

    def encoded(self) -> tuple[bytes, bytes]:
        """Header and records of the closed batch."""
        payload = self._payload
        assert payload is not None, "the batch is open"
        length, last_delta = HEADER_SIZE - SIZE_OVERHEAD + len(payload), self.count - 1
        head = bytearray(
            HEADER.pack(
                0, length, -1, MAGIC, 0, self.codec, last_delta, self.base_timestamp,
                self._max_timestamp, *self.producer, self.sequence, self.count,
            )
        )  # fmt: skip
        crc = crc32c(payload, crc32c(memoryview(head)[ATTRIBUTES_AT:]))
        head[_CRC_AT:ATTRIBUTES_AT] = crc.to_bytes(4, "big")
        return bytes(head), payload

    def split(self) -> "tuple[ProduceBatch, ProduceBatch]":
        """Replace the batch by two with half the records each; deliveries and sequences follow."""
        content = bytes(decompress(self.codec, self._payload or b""))
        records = list(decode(content, 0, self.count, 0, self.base_timestamp))
        middle = self.count // 2
        halves = []
        for chosen in (records[:middle], records[middle:]):
            half = ProduceBatch(self.tp, self.number, self.codec, self.created, chosen[0].timestamp)
            for record in chosen:
                half.append(record.key, record.value, record.headers, record.timestamp)
            half.close()
            half.is_awaited = self.is_awaited
            halves.append(half)
        self.halves = halves[0], halves[1]
        self.done.set_result((NO_OFFSET, -1))
        return self.halves

    async def settled(self) -> None:
        """Wait until the outcome of all its records is known."""
        await asyncio.wait([self.done])
        for half in self.halves or ():
            await half.settled()

    def succeed(self, base_offset: int, append_time: int) -> None:
        """The batch is in the log from `base_offset` on (-1: unknown)."""
        if not self.done.done():
            self.done.set_result((base_offset, append_time))
            self._payload = b""  # the application may keep deliveries for long

    def fail(self, error: Exception) -> None:
        """The batch is given up with that error."""
        if not self.done.done():
            self.done.set_exception(error)
            self._parts.clear()
            self._payload = b""
            self.done.exception()  # mark it as read: `flush` raises it if no caller awaited it
