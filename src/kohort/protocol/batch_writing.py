"""Writing record batches: built from records, stamped by the log, thinned out by compaction."""

from collections.abc import Iterable, Sequence
from struct import Struct

from crc32c import crc32c

from kohort.protocol import records
from kohort.protocol.batch_format import (
    ABORT_KEY,
    CODEC_BITS,
    COMMIT_KEY,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    MARKER,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    SIZE_OVERHEAD,
    TRANSACTIONAL,
    Header,
)
from kohort.protocol.compression import Buffer, Codec, compress
from kohort.protocol.records import Record

_crc = Struct(">I")
_head = Struct(">qiib")
_head_with_crc = Struct(">qiibI")
_body = Struct(">hiqqqhii")


def build(
    content: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
) -> bytes:
    """Build a batch of `content`, whose records get consecutive offsets from `base_offset` on.

    The records' own offsets are ignored. `attributes` are further bits, such as TRANSACTIONAL.
    Raises ValueError if there are no records.
    """
    if not content:
        raise ValueError("a batch has at least one record")
    base_timestamp = content[0].timestamp
    payload = b"".join(
        [records.encode(record, delta, base_timestamp) for delta, record in enumerate(content)]
    )
    body = _body.pack(attributes | codec, len(content) - 1, base_timestamp,
    max(record.timestamp for record in content),
                      producer_id, producer_epoch, base_sequence, len(content))  # fmt: skip
    return _assemble(base_offset, -1, body, compress(codec, payload))


def control_batch(
    producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int, timestamp: int
) -> bytes:
    """The batch that ends a transaction of a producer: one control record, its marker (KIP-98).

    `timestamp` in ms since the epoch.
    """
    key, value = COMMIT_KEY if commit else ABORT_KEY, MARKER.pack(0, coordinator_epoch)
    return build(
        [Record(key, value, timestamp=timestamp)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=TRANSACTIONAL | CONTROL,
    )


def pack(
    pairs: Iterable[tuple[bytes | None, bytes | None]],
    timestamp: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
) -> bytes:
    """`build` of (key, value) pairs with one timestamp and no headers, four times as fast.

    It is for group state.
    """
    encoded = [records.encode_pair(key, value, delta) for delta, (key, value) in enumerate(pairs)]
    if not encoded:
        raise ValueError("a batch has at least one record")
    content = b"".join(encoded)
    return head(0, -1, content, len(encoded), timestamp, producer_id=producer_id) + content


def head(
    base_offset: int,
    leader_epoch: int,
    content: bytes,
    count: int,
    timestamp: int,
    attributes: int = 0,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
) -> bytes:
    """The header of a batch with `content`: `count` encoded, uncompressed records.

    All of them have that timestamp.
    """
    body = _body.pack(
        *(attributes, count - 1, timestamp, timestamp, producer_id, producer_epoch, -1, count)
    )
    length = HEADER_SIZE - SIZE_OVERHEAD + len(content)
    return (
        _head_with_crc.pack(base_offset, length, leader_epoch, MAGIC, crc32c(content, crc32c(body)))
        + body
    )


def _assemble(base_offset: int, leader_epoch: int, body: bytes, payload: bytes) -> bytes:
    length = HEADER_SIZE - SIZE_OVERHEAD + len(payload)
    crc = _crc.pack(crc32c(payload, crc32c(body)))
    return b"".join((_head.pack(base_offset, length, leader_epoch, MAGIC), crc, body, payload))


def stamp_append_time(batch: Buffer, header: Header, now: int) -> bytes:
    """The header of `batch` as a log with `message.timestamp.type=LogAppendTime` stores it.

    The records keep their deltas; a reader uses the append time (ms) for all of them.
    """
    return replace_timestamps(batch, header, header.attributes | LOG_APPEND_TIME, now)


def replace_timestamps(batch: Buffer, header: Header, attributes: int, max_timestamp: int) -> bytes:
    """The 61 bytes of `header` with other attributes, another max timestamp and a new CRC."""
    body = _body.pack(attributes, header.last_offset_delta, header.base_timestamp, max_timestamp,
                      header.producer_id, header.producer_epoch, header.base_sequence,
                      header.record_count)  # fmt: skip
    crc = _crc.pack(crc32c(memoryview(batch)[HEADER_SIZE : header.size], crc32c(body)))
    return b"".join(
        (
            _head.pack(header.base_offset, header.length, header.partition_leader_epoch, MAGIC),
            crc,
            body,
        )
    )


def with_producer(batch: Buffer, header: Header, producer_id: int, producer_epoch: int) -> bytes:
    """The batch with another producer id and epoch; its records stay as they are."""
    body = _body.pack(header.attributes, header.last_offset_delta, header.base_timestamp,
                      header.max_timestamp, producer_id, producer_epoch, header.base_sequence,
                      header.record_count)  # fmt: skip
    payload = bytes(memoryview(batch)[HEADER_SIZE : header.size])
    return _assemble(header.base_offset, header.partition_leader_epoch, body, payload)


def recompress(header: Header, content: Buffer, codec: Codec) -> bytes:
    """The batch `header` is of, with its records (`content`, decompressed) under another codec."""
    attributes = header.attributes & ~CODEC_BITS | codec
    return _rewrite(
        header, attributes, header.max_timestamp, header.record_count, compress(codec, content)
    )


def replace_records(header: Header, content: Buffer, count: int, max_timestamp: int) -> bytes:
    """The batch of `header` with only the `count` records of `content` (bytes as in the old batch).

    Compaction writes it. Offsets, sequences, producer and codec stay the same; a batch without
    records keeps its header for them.
    """
    if not count:
        attributes = header.attributes & ~(CODEC_BITS | DELETE_HORIZON)
        return _rewrite(
            header._replace(base_timestamp=NO_TIMESTAMP), attributes, max_timestamp, 0, b""
        )
    return _rewrite(
        header, header.attributes, max_timestamp, count, compress(Codec(header.codec), content)
    )


def set_delete_horizon(
    header: Header, kept_records: Iterable[tuple[int, Record]], horizon: int
) -> bytes:
    """`replace_records` with (offset delta, record) pairs, for tombstones new to compaction.

    The base timestamp is replaced by the time (ms) from which on they may be dropped (KIP-534), so
    the timestamp of every record is encoded again.
    """
    payload = bytearray()  # record by record: a list of them all takes long to free
    count, timestamp = 0, NO_TIMESTAMP
    for delta, record in kept_records:
        payload += records.encode(record, delta, horizon)
        count, timestamp = count + 1, max(timestamp, record.timestamp)
    if header.is_log_append_time:
        timestamp = header.max_timestamp
    attributes = header.attributes | DELETE_HORIZON
    moved = header._replace(base_timestamp=horizon)
    return _rewrite(moved, attributes, timestamp, count, compress(Codec(header.codec), payload))


def _rewrite(
    header: Header, attributes: int, max_timestamp: int, count: int, payload: bytes
) -> bytes:
    body = _body.pack(attributes, header.last_offset_delta, header.base_timestamp, max_timestamp,
                      header.producer_id, header.producer_epoch, header.base_sequence,
                      count)  # fmt: skip
    return _assemble(header.base_offset, header.partition_leader_epoch, body, payload)
