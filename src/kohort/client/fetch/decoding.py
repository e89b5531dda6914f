"""Decodes record batches into `Record` tuples: 0.7 µs a record in Python, 0.25 by machine code.

Arrow is ten times as fast (`Batch.to_arrow`); this is for callers that want objects. The loop in
Python is one function on purpose: a call costs as much as a field. Numbers of one and two bytes,
nearly all there are, are read in place; `read_zigzag_varint` reads the rest.
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
"""What varints of one and two bytes mean: looking it up is faster than three operations."""
_T = TypeVar("_T")
_KINDS: Final = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)


def decode(
    tp: TopicPartition,
    data: Buffer,
    from_offset: int,
    to_offset: int,
    aborted: Collection[tuple[int, int]] = (),
) -> Iterator[Iterable[Record]]:
    """The records with offsets in [from_offset, to_offset), decoded some at a time on demand.

    Raises KafkaError for what is no record, but checks no CRC.
    """
    decoder = machine_code.decoder
    if decoder is not None and len(data) >= machine_code.least_bytes:
        try:
            for fields in decoder.read_fields(data, from_offset, to_offset, aborted):
                if fields.offsets:
                    yield _records_of(tp, fields)
                    from_offset = fields.offsets[-1] + 1
            return
        except KafkaError:
            pass  # the rest, and what is wrong with it, is told below
    yield from decode_in_python(tp, data, from_offset, to_offset, aborted)


def _records_of(tp: TopicPartition, fields: "Fields") -> Iterator[Record]:
    """Records that are made one by one, so that the garbage collector meets only those kept."""
    topic, partition = tp
    headers: Iterable[tuple[RecordHeader, ...]] = repeat(())
    if any(fields.headers):
        headers = [() if each is None else _all_headers(each) for each in fields.headers]
    rows = zip(
        repeat(topic),
        repeat(partition),
        fields.offsets,
        fields.timestamps,
        _of_each([(rows, _KINDS[is_append_time]) for rows, is_append_time, _ in fields.batches]),
        fields.keys,
        fields.values,
        headers,
        _of_each([(rows, epoch) for rows, _, epoch in fields.batches]),
        strict=False,  # some repeat
    )
    return map(tuple.__new__, repeat(Record), rows)


def _of_each(batches: list[tuple[int, _T]]) -> Iterable[_T]:
    """For each record what its batch has; for ever if all have the same."""
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
            records = [each for each in records if from_offset <= each.offset < to_offset]
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
    found: list[Record] = []
    append, make = found.append, tuple.__new__
    none: tuple[RecordHeader, ...] = ()
    at, end = 0, len(data)
    try:
        for _ in range(batch.record_count):
            # length: bytes of the rest, which its fields have to fill
            if (size := data[at]) < 128:
                at += 1
            elif (more := data[at + 1]) < 128:
                size = size & 127 | more << 7
                at += 2
            else:
                size, at = read_raw_varint(data, at)
            stop = at + (size >> 1)
            at += 1  # attributes, which mean nothing yet
            if (byte := data[at]) < 128:
                timestamp = base_timestamp + zigzag[byte]
                at += 1
            else:
                delta, at = read_zigzag_varint(data, at)
                timestamp = base_timestamp + delta
            if (byte := data[at]) < 128:
                offset = base_offset + zigzag[byte]
                at += 1
            elif (more := data[at + 1]) < 128:
                offset = base_offset + zigzag[byte & 127 | more << 7]
                at += 2
            else:
                delta, at = read_zigzag_varint(data, at)
                offset = base_offset + delta
            if (size := data[at]) < 128:
                at += 1
            else:
                size, at = read_raw_varint(data, at)
            if size & 1:  # negative
                key = None
            else:
                begin = at
                at += size >> 1
                key = data[begin:at]
            if (size := data[at]) < 128:
                at += 1
            elif (more := data[at + 1]) < 128:
                size = size & 127 | more << 7
                at += 2
            else:
                size, at = read_raw_varint(data, at)
            if size & 1:
                value = None
            else:
                begin = at
                at += size >> 1
                value = data[begin:at]
            if data[at] == 0:
                headers = none
                at += 1
            else:
                headers, at = _headers(data, at)
            if at != stop:
                raise invalid("the length of a record is not that of its fields")
            append(
                make(
                    Record, (topic, partition, offset, timestamp, kind, key, value, headers, epoch)
                )
            )
    except IndexError:
        raise invalid(f"the batch ends before its {batch.record_count} records do") from None
    if at != end:
        raise invalid(f"the batch goes on after its {batch.record_count} records")
    if batch.is_log_append_time:
        return [record._replace(timestamp=batch.max_timestamp) for record in found]
    return found


def _headers(data: bytes, at: int) -> tuple[tuple[RecordHeader, ...], int]:
    count, at = read_zigzag_varint(data, at)
    if count < 0:
        raise invalid("a record with a negative number of headers")
    found: list[RecordHeader] = []
    for _ in range(count):  # ends with the data: each takes two bytes at least
        if (size := data[at]) < 128 and not size & 1:
            size, at = size >> 1, at + 1
        else:
            size, at = read_zigzag_varint(data, at)
            if size < 0:
                raise invalid("a header without a name")
        name = (
            data[at : at + size].decode(errors="surrogateescape")
            if size > 64
            else _short_name(data[at : at + size])
        )
        at += size
        if (size := data[at]) < 128 and not size & 1:
            size, at = size >> 1, at + 1
        else:
            size, at = read_zigzag_varint(data, at)
        found.append((name, None if size < 0 else data[at : at + size]))
        at += max(size, 0)
    if at > len(data):
        raise IndexError
    return tuple(found), at


@lru_cache(maxsize=1 << 10)
def _short_name(name: bytes) -> str:
    """The same few names come again and again."""
    return name.decode(errors="surrogateescape")
