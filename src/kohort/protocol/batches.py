"""Record batches, format v2: the unit that is produced, stored, fetched and compacted.

Batches are bytes everywhere. `validate` checks those of a client, and a log stores and returns
them. `Header` is read without the records, `decode_records` reads the records, `build` and `pack`
create batches.

The layout is described in `batch_format`, a record's in `records`.
"""

from collections.abc import Iterator

from kohort.protocol import records
from kohort.protocol.batch_format import (
    ABORT_KEY,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
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
    "CONTROL",
    "DELETE_HORIZON",
    "HEADER_SIZE",
    "LOG_APPEND_TIME",
    "NO_PRODUCER_ID",
    "NO_TIMESTAMP",
    "TRANSACTIONAL",
    "AbandonedError",
    "Buffer",
    "Codec",
    "Effort",
    "Header",
    "HeavyBatchError",
    "InvalidRecordsError",
    "PayloadError",
    "Record",
    "Rules",
    "build",
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
    found = records.decode(
        content, 0, header.record_count, header.base_offset, header.base_timestamp
    )
    if header.is_log_append_time:
        return (record._replace(timestamp=header.max_timestamp) for record in found)
    return found
