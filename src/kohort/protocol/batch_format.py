"""The layout of a record batch, format v2 (Kafka's DefaultRecordBatch), and its header.

    base offset            int64   set by the log                 } outside the CRC: a produced
    length                 int32   bytes that follow this field   } batch is stored by writing a
    partition leader epoch int32   set by the log                 } new start before its bytes
    magic                  int8    2
    crc                    uint32  CRC-32C of all that follows
    attributes             int16   codec (bits 0-2), LogAppendTime (3), transactional (4),
                                   control (5), delete horizon (6)
    last offset delta      int32   of the last record as produced, also after compaction
    base timestamp         int64   of the first record, or the delete horizon (KIP-534); ms
    max timestamp          int64   the append time where bit 3 is set; ms
    producer id, epoch, base sequence: int64, int16, int32, all -1 unless the producer is idempotent
    count                  int32   records in the batch

and then the records, compressed together by the codec.

The header is read with one `unpack_from`; code that only forwards a batch reads nothing else.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.compression import Buffer, decompress

MAGIC = 2
HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
START = struct.Struct(">qii")
"""Base offset, length, leader epoch: the part that the log overwrites, outside the CRC."""
SIZE_AT = 8
SIZE_OVERHEAD = 12
MAGIC_AT = 16
ATTRIBUTES_AT = 21

CODEC_BITS = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

ABORT_KEY = b"\0\0\0\0"
"""The key of a control record that aborts a transaction: version 0, type 0."""
COMMIT_KEY = b"\0\0\0\1"
"""The key of a control record that commits a transaction: version 0, type 1."""
MARKER = struct.Struct(">hi")
"""The value of such a control record: version 0, coordinator epoch."""

NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1
MAX_SEQUENCE = 2**31 - 1

int32 = struct.Struct(">i")
_new_tuple = tuple.__new__  # a third of the time of `Header._make`, for every batch


class Header(NamedTuple):
    """The 61 bytes before the records."""

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + SIZE_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; 0 follows 2^31-1."""
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_BITS

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon(self) -> int | None:
        """Time (ms) from which compaction may drop the batch's tombstones, if it has seen them."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def increment_sequence(sequence: int, increment: int) -> int:
    """Sequence numbers of producers run from 0 to 2^31-1 and start again."""
    return (sequence + increment) & MAX_SEQUENCE


def read_header(data: Buffer, position: int = 0) -> Header:
    """The header at `position`. Raises KafkaError CORRUPT_MESSAGE if `data` ends before it does."""
    try:
        return _new_tuple(Header, HEADER.unpack_from(data, position))
    except struct.error:
        raise KafkaError(ErrorCode.corrupt_message, "a batch shorter than its header") from None


def iterate(data: Buffer, position: int = 0) -> Iterator[tuple[int, Header]]:
    """(position, header) of each whole batch in `data` from `position` on.

    A truncated last batch is left out, because a Fetch response may end with one. Raises
    KafkaError where no batch can be read: UNSUPPORTED_FOR_MESSAGE_FORMAT for a magic other than 2,
    else CORRUPT_MESSAGE. `columnar.kernels.scan` is the same walk in machine code, and
    `log.scan.whole_batches` reads lengths alone; tests compare them with this one.
    """
    end, unpack = len(data), HEADER.unpack_from
    while position + HEADER_SIZE <= end:
        header = _new_tuple(Header, unpack(data, position))
        if header.magic != MAGIC:
            raise KafkaError(
                ErrorCode.unsupported_for_message_format,
                f"batch at offset {header.base_offset}: message format v{header.magic};"
                " only v2 (Kafka 0.11) is read",
            )
        if header.length < HEADER_SIZE - SIZE_OVERHEAD:
            raise KafkaError(
                ErrorCode.corrupt_message,
                f"batch at offset {header.base_offset}: a record batch of {header.size} bytes",
            )
        following = position + header.length + SIZE_OVERHEAD
        if following > end:
            return
        yield position, header
        position = following


def crc_is_right(batch: Buffer, header: Header) -> bool:
    """Whether the CRC of one batch matches its bytes."""
    return crc32c(memoryview(batch)[ATTRIBUTES_AT : header.size]) == header.crc


def inflate(batch: Buffer, header: Header) -> bytes:
    """Decompress the records of a batch. Raises KafkaError CORRUPT_MESSAGE or MESSAGE_TOO_LARGE."""
    if not header.record_count:
        # compaction may have emptied the batch, and what an empty payload is depends on the codec
        return b""
    return bytes(decompress(header.codec, memoryview(batch)[HEADER_SIZE : header.size]))
