"""Validation of a produced payload, in the order of Kafka's ProduceRequest and LogValidator.

All fields of the header and the CRC are always checked. Of the records:

- Their number and lengths are always checked. A batch with a wrong count or broken records would
  stop every consumer of the partition. That costs 0.15 µs a record, and decompression of a
  compressed batch.
- Their largest timestamp is always looked for (at most 0.2 µs a record), unless the topic has
  LogAppendTime. A header with another max timestamp is corrected, as Kafka does: retention by time
  and ListOffsets by timestamp go by it.
- Their keys and each timestamp (1 µs a record) are checked only where the response depends on them.
  That is on a compacted topic, which refuses records without a key; when
  `message.timestamp.before.max.ms` is set; and when the header's timestamps are out of range, or
  not those of its records.

- Their offset deltas are checked in a compressed batch (0.3 µs a record), which is refused if they
  are not 0, 1, 2, …. Under another codec Kohort renumbers the records. A batch that was and stays
  uncompressed is stored with the deltas that it has. All three were observed on Kafka 4.4.

Three error codes are unexpected, and were observed on Kafka 4.4. Records that do not decompress are
UNKNOWN_SERVER_ERROR. A truncated batch is INVALID_RECORD, as there is no whole batch. A truncated
second batch is dropped without an error.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol import records
from kohort.protocol.batch_format import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    SIZE_AT,
    SIZE_OVERHEAD,
    Header,
    crc_is_right,
    int32,
    read_header,
)
from kohort.protocol.batch_writing import recompress, replace_timestamps
from kohort.protocol.compression import MAX_DECOMPRESSED, MAX_INFLATED, Buffer, Codec, decompress

_SMALLEST = 14
"""Bytes that the oldest format needs after its length: less is no message of any format."""

FOREVER = 2**63 - 1

QUICK_BYTES: Final = 2 * 1024 * 1024
"""Size, compressed or not, up to which a batch is quick to validate."""
QUICK_RECORDS: Final = 20_000
"""Records that are quick to measure."""
QUICK_READ: Final = 4_000
"""Records whose keys and timestamps are quick to check."""
QUICK_COMPRESSED: Final = 128 * 1024
"""Bytes that are quick to compress."""
_MAX_RECORD_ERRORS: Final = 1_000
"""Refused records of a batch that its response names, the first ones."""
_ABANDONED_CHECK_RECORDS: Final = 1_024
"""Records that are read before it is checked again whether the request was abandoned."""


class HeavyBatchError(Exception):
    """Validation of this batch may block the event loop too long: use another thread."""


class AbandonedError(Exception):
    """The request of this validation was abandoned."""


@dataclass(slots=True)
class Effort:
    """Work that validation may still do for one request."""

    inflated: int = MAX_INFLATED
    """Bytes that batches may still have after decompression; beyond it, MESSAGE_TOO_LARGE."""
    quick: bool = field(default=False, kw_only=True)
    """Whether to raise `HeavyBatchError` rather than to work for more than a few milliseconds."""
    abandoned: bool = field(default=False, init=False)
    """Set, from any thread, to end a validation in progress with `AbandonedError`."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The topic configs that validation depends on, with Kafka's defaults."""

    max_message_bytes: int = 1_048_588
    max_decompressed_bytes: int = MAX_DECOMPRESSED
    """Largest size of a record of a compressed batch, without the length in front of it."""
    compacted: bool = False
    """`cleanup.policy` has "compact": every record needs a key."""
    log_append_time: bool = False
    """`message.timestamp.type` is LogAppendTime: the producer's timestamps are ignored."""
    timestamp_before_max_ms: int = FOREVER
    timestamp_after_max_ms: int = 3_600_000
    compression: Codec | None = None
    """The codec that batches are stored with; None: the producer's."""


class RecordError(NamedTuple):
    """One entry of `record_errors` in a Produce response (KIP-467)."""

    batch_index: int
    message: str


class PayloadError(KafkaError):
    """The payload is not one batch that this request may contain.

    Kafka refuses it before the log.
    """


class InvalidRecordsError(KafkaError):
    """Records are refused, and with them their batch; `record_errors` has each of them."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...]
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def validate(
    payload: Buffer, rules: Rules, now: int, *, zstd: bool = True, effort: Effort | None = None
) -> Buffer:
    """The one batch of a partition in a Produce request (v3+), ready for `Log.append`.

    `now` is in ms; `zstd` is False for Produce below v7, whose clients may not use it (KIP-110).
    Whether a producer may write a transactional batch is not decided here. Raises KafkaError with
    the partition's code: INVALID_RECORD (as `PayloadError` if there is not one batch),
    INVALID_RECORD or INVALID_TIMESTAMP as `InvalidRecordsError`, CORRUPT_MESSAGE,
    MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE, UNKNOWN_SERVER_ERROR. Also raises
    HeavyBatchError and AbandonedError, as `effort` says.
    """
    effort = Effort() if effort is None else effort
    batch = _only_batch(payload)
    header = read_header(batch)
    if not zstd and header.codec == Codec.ZSTD:
        raise PayloadError(ErrorCode.unsupported_compression_type, "zstd needs Produce v7")
    if header.base_offset:
        raise records.invalid(f"base offset {header.base_offset} instead of 0")
    _validate_size(batch, rules)
    must_read = _must_read(header, rules, now)
    if effort.quick and (
        len(batch) > QUICK_BYTES
        or header.record_count > (QUICK_READ if must_read else QUICK_RECORDS)
    ):
        raise HeavyBatchError
    if not crc_is_right(batch, header):
        raise KafkaError(ErrorCode.corrupt_message, "the CRC is not that of the batch")
    _validate_header(header)
    content, start = _records(batch, header, effort)
    if not must_read:
        # The largest timestamp of the records counts, not the header's.
        latest = header.base_timestamp + records.measure(content, start, header.record_count)
        must_read = not rules.log_append_time and latest != header.max_timestamp
        if must_read and effort.quick and header.record_count > QUICK_READ:
            raise HeavyBatchError
    if must_read:
        raw_records = records.walk(content, start, header.record_count)
        batch = _validate_records(batch, header, _unless_abandoned(raw_records, effort), rules, now)
    if header.codec and len(content) > rules.max_decompressed_bytes:
        records.validate_sizes(content, header.record_count, rules.max_decompressed_bytes)
    if rules.compression is not None and rules.compression != header.codec:
        if effort.quick and len(content) - start > QUICK_COMPRESSED:
            raise HeavyBatchError
        stored = _numbered(content, start, header)
        batch = recompress(read_header(batch), stored, rules.compression)
        _validate_size(batch, rules)
    elif header.codec and not records.are_numbered(content, start, header.record_count):
        raise KafkaError(
            ErrorCode.unknown_server_error, "the offset deltas of the records are not 0, 1, 2, …"
        )
    if effort.quick and header.codec:  # not before: a heavy batch is decompressed again
        effort.inflated -= len(content)
    return batch


def _only_batch(payload: Buffer) -> Buffer:
    """The first batch, if no second one follows.

    Trailing bytes that cannot be a batch are dropped.
    """
    size = _batch_size(payload, 0)
    if size is None:
        raise PayloadError(ErrorCode.invalid_record, "no whole batch in the partition's records")
    if payload[MAGIC_AT] != MAGIC:
        raise PayloadError(
            ErrorCode.invalid_record,
            f"magic {payload[MAGIC_AT]}, Produce v3 and later need {MAGIC}",
        )
    if size < HEADER_SIZE:
        raise KafkaError(
            ErrorCode.corrupt_message, (f"a batch of {size} bytes is shorter than its header")
        )
    if size == len(payload):
        return payload
    if _batch_size(payload, size) is not None:
        raise PayloadError(
            ErrorCode.invalid_record, ("more than one batch in the partition's records")
        )
    return memoryview(payload)[:size]


def _batch_size(payload: Buffer, position: int) -> int | None:
    """Bytes of the batch at `position`, None if there is no whole one."""
    remaining = len(payload) - position
    if remaining < SIZE_OVERHEAD:
        return None
    (length,) = int32.unpack_from(payload, position + SIZE_AT)
    if length < _SMALLEST:
        raise PayloadError(
            ErrorCode.corrupt_message, (f"a batch of {length} bytes is too short to be one")
        )
    if remaining <= MAGIC_AT:
        return None
    if payload[position + MAGIC_AT] > MAGIC:
        raise PayloadError(
            ErrorCode.corrupt_message, (f"magic {payload[position + MAGIC_AT]} does not exist")
        )
    size: int = length + SIZE_OVERHEAD
    return size if size <= remaining else None


def _validate_size(batch: Buffer, rules: Rules) -> None:
    if len(batch) > rules.max_message_bytes:
        raise KafkaError(
            ErrorCode.message_too_large, (f"{len(batch)} bytes, at most {rules.max_message_bytes}")
        )


def _validate_header(header: Header) -> None:
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        raise records.invalid(
            f"{header.record_count} records with a last offset delta of {header.last_offset_delta}"
        )
    if header.is_control:
        raise records.invalid("control records are not for clients to write")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise records.invalid(f"sequence {header.base_sequence} of producer {header.producer_id}")
    if header.codec > Codec.ZSTD:
        raise KafkaError(
            ErrorCode.unknown_server_error, (f"compression type {header.codec} does not exist")
        )


def _records(batch: Buffer, header: Header, effort: Effort) -> tuple[Buffer, int]:
    """Bytes that hold the batch's records, decompressed, and where in them these start."""
    if not header.codec:
        # Not copied: most producers do not compress, and a copy is a tenth of the work.
        return batch, HEADER_SIZE
    limit = min(MAX_INFLATED, effort.inflated)
    if effort.quick:
        limit = min(limit, QUICK_BYTES)
    try:
        inflated = decompress(header.codec, memoryview(batch)[HEADER_SIZE : header.size], limit)
    except KafkaError as error:
        if effort.quick and error.code is ErrorCode.message_too_large:
            raise HeavyBatchError from None
        code = (
            ErrorCode.unknown_server_error
            if error.code is ErrorCode.corrupt_message
            else error.code
        )
        raise KafkaError(code, error.message) from None
    if not effort.quick:
        effort.inflated -= len(inflated)
    return inflated, 0


def _unless_abandoned(
    raw_records: Iterable[records.RawRecord], effort: Effort
) -> Iterator[records.RawRecord]:
    for index, record in enumerate(raw_records):
        if index % _ABANDONED_CHECK_RECORDS == 0 and effort.abandoned:
            raise AbandonedError
        yield record


def _numbered(content: Buffer, start: int, header: Header) -> Buffer:
    """The records under another codec: Kafka numbers them anew then."""
    if records.are_numbered(content, start, header.record_count):
        return memoryview(content)[start:]
    return records.numbered(content, start, header.record_count)


def _must_read(header: Header, rules: Rules, now: int) -> bool:
    if rules.compacted or header.is_log_append_time:
        return True
    if rules.log_append_time:
        return False
    latest = max(header.base_timestamp, header.max_timestamp)
    return (
        rules.timestamp_before_max_ms != FOREVER
        or header.base_timestamp > header.max_timestamp
        or latest > now + rules.timestamp_after_max_ms
    )


def _validate_records(
    batch: Buffer, header: Header, raw_records: Iterable[records.RawRecord], rules: Rules, now: int
) -> Buffer:
    """Check every record; returns the batch, with a corrected max timestamp if it was wrong."""
    earliest, latest = now - rules.timestamp_before_max_ms, now + rules.timestamp_after_max_ms
    refused: list[RecordError] = []
    refused_count = 0
    code = ErrorCode.invalid_record
    largest = NO_TIMESTAMP
    stamped = header.max_timestamp if header.is_log_append_time else None
    for index, (_, _, timestamp_delta, _, key, _, _) in enumerate(raw_records):
        is_reported = len(refused) < _MAX_RECORD_ERRORS
        timestamp = stamped if stamped is not None else header.base_timestamp + timestamp_delta
        largest = max(largest, timestamp)
        if rules.compacted and key is None:
            refused_count += 1
            if is_reported:
                why = "a compacted topic takes no record without a key"
                refused.append(RecordError(index, why))
        elif not rules.log_append_time and timestamp != NO_TIMESTAMP:
            if not earliest <= timestamp <= latest:
                refused_count += 1
                if is_reported:
                    why = f"timestamp {timestamp} is not between {earliest} and {latest}"
                    refused.append(RecordError(index, why))
                code = ErrorCode.invalid_timestamp
        elif stamped is not None:
            refused_count += 1
            if is_reported:
                why = "the timestamp type LogAppendTime is not for producers to set"
                refused.append(RecordError(index, why))
            code = ErrorCode.invalid_timestamp
    if refused:
        raise InvalidRecordsError(
            code, f"{refused_count} of {header.record_count} records are refused", tuple(refused)
        )
    if rules.log_append_time or (largest == header.max_timestamp and stamped is None):
        return batch
    corrected = replace_timestamps(batch, header, header.attributes & ~LOG_APPEND_TIME, largest)
    return corrected + memoryview(batch)[HEADER_SIZE:]
