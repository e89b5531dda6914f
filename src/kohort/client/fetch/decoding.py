"""Decodes record batches into `Record` tuples: 0.7 µs a record in Python, 0.25 by machine code.

Arrow is ten times as fast (`Batch.to_arrow`); this is for callers that want objects. The loop in
Python is one function on purpose: a call costs as much as a field. Numbers of one and two bytes,
nearly all of them, are read in place; `read_zigzag_varint` reads longer ones.
"""

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, TypeVar

from kohort.client.fetch.machine_code import machine_code
from kohort.client.record import Record, TimestampType
from kohort.errors import KafkaError
from kohort.protocol.aborted_transactions import committed_batches
from kohort.protocol.batch_format import Header, inflate
from kohort.protocol.compression import Buffer
from kohort.protocol.records import Header as RecordHeader
from kohort.protocol.records import invalid, read_raw_varint, read_zigzag_varint
from kohort.types import TopicPartition

if TYPE_CHECKING:
    from kohort.columnar.fields import Fields

_ZIGZAG: Final = [(raw >> 1) ^ -(raw & 1) for raw in range(1 << 14)]
"""Values of varints of one and two bytes: the lookup is faster than three operations."""
_T = TypeVar("_T")
_TIMESTAMP_TYPES: Final = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)


def decode(
    tp: TopicPartition,
    data: Buffer,
    from_offset: int,
    to_offset: int,
    aborted: Collection[tuple[int, int]] = (),
) -> Iterator[Iterable[Record]]:
    """The records with offsets in [from_offset, to_offset), decoded some at a time on demand.

    Raises KafkaError for bytes that are no records. No CRC is checked.
    """
    decoder = machine_code.decoder
    if decoder is not None and len(data) >= machine_code.min_bytes:
        try:
            for fields in decoder.read_fields(data, from_offset, to_offset, aborted):
                if fields.offsets:
                    yield _records_of(tp, fields)
                    from_offset = fields.offsets[-1] + 1
            return
        except KafkaError:
            pass  # decoded below, which raises the error of the first bad record
    yield from decode_in_python(tp, data, from_offset, to_offset, aborted)


def _records_of(tp: TopicPartition, fields: "Fields") -> Iterator[Record]:
    """Records, created one by one: the garbage collector visits only those that are kept."""
    topic, partition = tp
    headers: Iterable[tuple[RecordHeader, ...]] = repeat(())
    if any(fields.headers):
        headers = [() if encoded is None else _all_headers(encoded) for encoded in fields.headers]
    rows = zip(
        repeat(topic),
        repeat(partition),
        fields.offsets,
        fields.timestamps,
        _repeated_per_record(
            [(rows, _TIMESTAMP_TYPES[is_append_time]) for rows, is_append_time, _ in fields.batches]
        ),
        fields.keys,
        fields.values,
        headers,
        _repeated_per_record([(rows, epoch) for rows, _, epoch in fields.batches]),
        strict=False,  # some repeat
    )
    return map(tuple.__new__, repeat(Record), rows)


def _repeated_per_record(batches: list[tuple[int, _T]]) -> Iterable[_T]:
    """The value of each record's batch; an endless repetition if all are equal."""
    if len({value for _, value in batches}) == 1:
        return repeat(batches[0][1])
    return chain.from_iterable(repeat(value, rows) for rows, value in batches)


def _all_headers(encoded: bytes) -> tuple[RecordHeader, ...]:
    try:
        headers, end = _headers(encoded, 0)
    except IndexError:
        end = -1
    if end != len(encoded):
        raise invalid("the length of a record is not that of its fields")
    return headers


def decode_in_python(
    tp: TopicPartition,
    data: Buffer,
    from_offset: int,
    to_offset: int,
    aborted: Collection[tuple[int, int]] = (),
) -> Iterator[list[Record]]:
    """`decode` without machine code, batch by batch."""
    for position, header in committed_batches(data, aborted):
        if header.last_offset < from_offset:
            continue
        if header.base_offset >= to_offset:
            break
        try:
            records = _records(tp, header, inflate(memoryview(data)[position:], header))
        except KafkaError as error:
            raise KafkaError(
                error.code, (f"{tp}, batch at offset {header.base_offset}: {error.message}")
            ) from None
        if header.base_offset < from_offset or header.last_offset >= to_offset:
            records = [record for record in records if from_offset <= record.offset < to_offset]
        machine_code.decoded(len(records))
        yield records


def _records(tp: TopicPartition, batch: Header, data: bytes) -> list[Record]:
    topic, partition = tp
    base_offset, base_timestamp, epoch = (
        batch.base_offset,
        batch.base_timestamp,
        batch.partition_leader_epoch,
    )
    kind = TimestampType.LOG_APPEND_TIME if batch.is_log_append_time else TimestampType.CREATE_TIME
    zigzag = _ZIGZAG
    records: list[Record] = []
    append, make = records.append, tuple.__new__
    none: tuple[RecordHeader, ...] = ()
    position, end = 0, len(data)
    try:
        for _ in range(batch.record_count):
            # length: size of the fields that follow
            if (size := data[position]) < 128:
                position += 1
            elif (high := data[position + 1]) < 128:
                size = size & 127 | high << 7
                position += 2
            else:
                size, position = read_raw_varint(data, position)
            record_end = position + (size >> 1)
            position += 1  # attributes, which are unused
            if (byte := data[position]) < 128:
                timestamp = base_timestamp + zigzag[byte]
                position += 1
            else:
                delta, position = read_zigzag_varint(data, position)
                timestamp = base_timestamp + delta
            if (byte := data[position]) < 128:
                offset = base_offset + zigzag[byte]
                position += 1
            elif (high := data[position + 1]) < 128:
                offset = base_offset + zigzag[byte & 127 | high << 7]
                position += 2
            else:
                delta, position = read_zigzag_varint(data, position)
                offset = base_offset + delta
            if (size := data[position]) < 128:
                position += 1
            else:
                size, position = read_raw_varint(data, position)
            if size & 1:  # negative
                key = None
            else:
                begin = position
                position += size >> 1
                key = data[begin:position]
            if (size := data[position]) < 128:
                position += 1
            elif (high := data[position + 1]) < 128:
                size = size & 127 | high << 7
                position += 2
            else:
                size, position = read_raw_varint(data, position)
            if size & 1:
                value = None
            else:
                begin = position
                position += size >> 1
                value = data[begin:position]
            if data[position] == 0:
                headers = none
                position += 1
            else:
                headers, position = _headers(data, position)
            if position != record_end:
                raise invalid("the length of a record is not that of its fields")
            append(
                make(
                    Record, (topic, partition, offset, timestamp, kind, key, value, headers, epoch)
                )
            )
    except IndexError:
        raise invalid(f"the batch ends before its {batch.record_count} records do") from None
    if position != end:
        raise invalid(f"the batch has bytes after its {batch.record_count} records")
    if batch.is_log_append_time:
        return [record._replace(timestamp=batch.max_timestamp) for record in records]
    return records


def _headers(data: bytes, position: int) -> tuple[tuple[RecordHeader, ...], int]:
    count, position = read_zigzag_varint(data, position)
    if count < 0:
        raise invalid("a record with a negative number of headers")
    headers: list[RecordHeader] = []
    for _ in range(count):  # ends with the data: each has two bytes at least
        if (size := data[position]) < 128 and not size & 1:
            size, position = size >> 1, position + 1
        else:
            size, position = read_zigzag_varint(data, position)
            if size < 0:
                raise invalid("a header without a name")
        name = (
            data[position : position + size].decode(errors="surrogateescape")
            if size > 64
            else _short_name(data[position : position + size])
        )
        position += size
        if (size := data[position]) < 128 and not size & 1:
            size, position = size >> 1, position + 1
        else:
            size, position = read_zigzag_varint(data, position)
        headers.append((name, None if size < 0 else data[position : position + size]))
        position += max(size, 0)
    if position > len(data):
        raise IndexError
    return tuple(headers), position


@lru_cache(maxsize=1 << 10)
def _short_name(name: bytes) -> str:
    """Cached: most records have the same few names."""
    return name.decode(errors="surrogateescape")
