"""Record batches, format v2: the unit that is produced, stored, fetched and compacted.

Batches are bytes everywhere. `validate` checks those of a client, and a log stores and returns
them. `Header` is read without the records, `decode_records` reads the records, `build` and `pack`
create batches.

The layout is described in `batch_format`, a record's in `records`.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol import records
from kohort.protocol.batch_format import (
    ABORT_KEY,
    CODEC_BITS,
    COMMIT_KEY,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MARKER,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    SIZE_OVERHEAD,
    TRANSACTIONAL,
    Header,
    crc_is_right,
    increment_sequence,
    inflate,
    iterate,
    read_header,
)
from kohort.protocol.batch_validation import (
    AbandonedError,
    Effort,
    HeavyBatchError,
    InvalidRecordsError,
    PayloadError,
    Rules,
    validate,
)
from kohort.protocol.batch_writing import (
    build,
    control_batch,
    head,
    pack,
    replace_records,
    set_delete_horizon,
    stamp_append_time,
)
from kohort.protocol.compression import Buffer, Codec
from kohort.protocol.records import Record, encode_pair, encode_run, key_head

__all__ = [
    "ABORT_KEY",
    "CODEC_BITS",
    "COMMIT_KEY",
    "CONTROL",
    "DELETE_HORIZON",
    "HEADER_SIZE",
    "LOG_APPEND_TIME",
    "NO_PRODUCER_ID",
    "NO_TIMESTAMP",
    "SIZE_OVERHEAD",
    "TRANSACTIONAL",
    "AbandonedError",
    "Buffer",
    "Codec",
    "Effort",
    "EndTransactionMarker",
    "Header",
    "HeavyBatchError",
    "InvalidRecordsError",
    "PayloadError",
    "Record",
    "Rules",
    "build",
    "control_batch",
    "crc_is_right",
    "decode_records",
    "encode_pair",
    "encode_run",
    "head",
    "increment_sequence",
    "inflate",
    "iterate",
    "key_head",
    "pack",
    "read_header",
    "read_marker",
    "replace_records",
    "set_delete_horizon",
    "stamp_append_time",
    "validate",
]


def decode_records(batch: Buffer, position: int = 0) -> Iterator[Record]:
    """The records of the batch at `position`, in order.

    Raises KafkaError (CORRUPT_MESSAGE, INVALID_RECORD) if they contradict the header. The CRC is
    not checked.
    """
    header = read_header(batch, position)
    content = inflate(memoryview(batch)[position:], header)
    decoded = records.decode(
        content, 0, header.record_count, header.base_offset, header.base_timestamp
    )
    if header.is_log_append_time:
        return (record._replace(timestamp=header.max_timestamp) for record in decoded)
    return decoded


class EndTransactionMarker(NamedTuple):
    """The content of a control batch that ends a transaction."""

    commit: bool
    coordinator_epoch: int


def read_marker(batch: Buffer, position: int = 0) -> EndTransactionMarker | None:
    """The marker of the control batch at `position`; None if it does not end a transaction.

    Raises KafkaError (CORRUPT_MESSAGE, INVALID_RECORD) if the batch cannot be read.
    """
    record = next(decode_records(batch, position), None)
    if record is None or record.key not in (ABORT_KEY, COMMIT_KEY):
        return None
    try:
        _, coordinator_epoch = MARKER.unpack_from(record.value or b"")
    except struct.error:
        raise KafkaError(ErrorCode.invalid_record, "a marker without coordinator epoch") from None
    return EndTransactionMarker(record.key == COMMIT_KEY, coordinator_epoch)
