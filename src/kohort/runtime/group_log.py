"""Between a shard's records and the batches of its log."""

from collections.abc import Iterable, Iterator, Sequence

from kohort.coordinator.records import CorruptRecordError, Record, decode, encode
from kohort.log.base import Log
from kohort.protocol.batches import decode_records, iterate, pack
from kohort.types import Instant

_READ_BYTES = 1 << 20
_BATCH_BYTES = 1 << 19


def append_records(log: Log, decisions: Iterable[Sequence[Record]], now: Instant) -> None:
    """Append what several events decided, in that order: the records of one event and one group in one batch, always.

    (Expiry, or a topic that is deleted, concerns thousands of groups in one event; they need no common batch.)
    Raises OSError or KafkaError if the log refuses; what was appended by then stays.
    """
    pairs: list[tuple[bytes | None, bytes | None]] = []
    size = 0
    for records in decisions:
        group = None
        for record in records:
            if size > _BATCH_BYTES and record.key.group != group:
                log.append(pack(pairs, now), now)
                pairs, size = [], 0
            group = record.key.group
            key, value = encode(record)
            pairs.append((key, value))
            size += len(key) + len(value or b"")
    if pairs:
        log.append(pack(pairs, now), now)


def read_records(log: Log) -> Iterator[list[Record]]:
    """All records of the log, some at a time. What is not of the classic protocol is passed over.

    Raises CorruptRecordError if a record does not follow the schema.
    """
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, _READ_BYTES)
        found: list[Record] = []
        for position, header in iterate(data):
            offset = header.last_offset + 1
            if not header.is_control:
                found += _group_records(data, position)
        yield found


def _group_records(data: bytes | memoryview, position: int) -> Iterator[Record]:
    for raw in decode_records(data, position):
        if raw.key is None:
            raise CorruptRecordError(f"record {raw.offset} of __consumer_offsets has no key")
        record = decode(raw.key, raw.value)
        if record is not None:
            yield record
