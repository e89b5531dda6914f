"""A batch of records of one partition on its way into the log.

Records are encoded when they are appended, and compressed when the batch is closed. The header,
with producer id and sequence, is encoded for each attempt, as these may change in between.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from kohort.client.produce.delivery import BatchOutcome, Delivery
from kohort.protocol.batch_format import (
    ATTRIBUTES_AT,
    HEADER,
    HEADER_SIZE,
    MAGIC,
    NO_PRODUCER_ID,
    SIZE_OVERHEAD,
    TRANSACTIONAL,
)
from kohort.protocol.compression import Buffer, Codec, compress, decompress
from kohort.protocol.records import SMALL_VARINTS, Header, decode, encode_headers, encode_varint
from kohort.types import TopicPartition

NO_SEQUENCE: Final = -1

_NULL: Final = encode_varint(-1)
_SMALL: Final = len(SMALL_VARINTS)
_NONE_AND_ZERO: Final = b"\0"
_CRC_AT: Final = ATTRIBUTES_AT - 4


class ProducerId(NamedTuple):
    """Id and epoch of an idempotent producer (KIP-98)."""

    id: int
    epoch: int


NOBODY: Final = ProducerId(NO_PRODUCER_ID, -1)


class ProduceBatch:
    """A batch that takes records until `close`, and is then sent, perhaps several times."""

    __slots__ = (
        "_is_encoded",
        "_is_transactional",
        "_level",
        "_max_timestamp",
        "_parts",
        "_payload",
        "attempts",
        "base_timestamp",
        "codec",
        "count",
        "created",
        "halves",
        "last_error",
        "number",
        "outcome",
        "producer",
        "sequence",
        "size",
        "tp",
    )

    def __init__(
        self,
        tp: TopicPartition,
        number: int,
        codec: Codec,
        created: float,
        base_timestamp: int,
        level: int | None = None,
        *,
        is_transactional: bool = False,
    ) -> None:
        self.tp = tp
        self.number = number
        """Batches of a partition are sent in the order of their numbers."""
        self.codec = codec
        self._level = level
        self._is_transactional = is_transactional
        self.created = created
        """By the loop's clock."""
        self.base_timestamp = base_timestamp
        self._max_timestamp = base_timestamp
        self.count = 0
        self.size = HEADER_SIZE
        """In bytes, before compression."""
        self._parts: list[bytes] = []
        self._payload: Buffer | None = None
        self.producer = NOBODY
        self.sequence = NO_SEQUENCE
        self.attempts = 0
        self.last_error: Exception | None = None
        self.outcome = BatchOutcome(tp)
        self.halves: tuple[ProduceBatch, ProduceBatch] | None = None
        """The two batches that replace it if it was too large."""
        self._is_encoded = False

    def __repr__(self) -> str:
        return (
            f"<ProduceBatch {self.tp} #{self.number} {self.count} records, sequence "
            f"{self.sequence}>"
        )

    @property
    def is_closed(self) -> bool:
        return self._payload is not None

    @property
    def unobserved_failures(self) -> int:
        """Number of failed records whose error was not raised to a caller and is not awaited."""
        observed = self.outcome.observed | self.outcome.awaited.keys()
        if self._is_encoded:  # one delivery for all
            return 0 if observed else self.count
        return self.count - len(observed)

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
        return Delivery(self.outcome, count, timestamp)

    def append_encoded(
        self, payload: Buffer, size: int, count: int, max_timestamp: int
    ) -> Delivery:
        """Append records that are encoded and compressed already, and close.

        The records take `size` bytes uncompressed, with deltas from 0 and from the base timestamp.
        """
        self._payload = payload
        self._is_encoded = True
        self.count = count
        self.size += size
        self._max_timestamp = max(self.base_timestamp, max_timestamp)
        return Delivery(self.outcome, 0, self.base_timestamp)

    def close(self) -> None:
        """Compress the records; nothing can be appended any more. Idempotent."""
        if self._payload is None:
            self._payload = compress(self.codec, b"".join(self._parts), self._level)
            self._parts.clear()

    @property
    def sent_size(self) -> int:
        """Size of the closed batch in bytes."""
        return HEADER_SIZE + len(self._payload or b"")

    def encoded(self) -> tuple[bytes, Buffer]:
        """Header and records of the closed batch."""
        payload = self._payload
        assert payload is not None, "the batch is open"
        length, last_delta = HEADER_SIZE - SIZE_OVERHEAD + len(payload), self.count - 1
        attributes = self.codec | (TRANSACTIONAL if self._is_transactional else 0)
        head = bytearray(
            HEADER.pack(
                0, length, -1, MAGIC, 0, attributes, last_delta, self.base_timestamp,
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
            half = ProduceBatch(
                self.tp,
                self.number,
                self.codec,
                self.created,
                chosen[0].timestamp,
                self._level,
                is_transactional=self._is_transactional,
            )
            for record in chosen:
                half.append(record.key, record.value, record.headers, record.timestamp)
            half.close()
            halves.append(half)
        first, second = halves
        self.outcome.split(first.outcome, second.outcome, first.count)
        self.halves = first, second
        return self.halves

    def succeed(self, base_offset: int, append_time: int) -> None:
        """The batch is in the log from `base_offset` on (-1: unknown)."""
        self.outcome.succeed(base_offset, append_time)

    def fail(self, error: Exception) -> None:
        """The batch is given up with that error."""
        self.outcome.fail(error)
        self._parts.clear()
        self._payload = b""
