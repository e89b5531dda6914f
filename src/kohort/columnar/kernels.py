"""The two loops that read: batch headers into a table, records into buffers of Arrow columns.

Both read untrusted bytes. Every read is checked against the end of its record, batch or buffer
first. A number that leads outside ends the loop, which returns the position. No byte is written
beyond the caller's buffers: a batch of n bytes holds at most n bytes of keys and values and n/7
records.

`protocol.batch_format` and `protocol.records` describe the layouts and do the same in Python;
`tests/columnar/test_decoding.py` compares them on random input.
"""

from typing import Any, Final, TypeAlias

import numpy as np

from kohort.columnar.compiling import (
    BYTES,
    INPUT,
    INT32,
    INT64,
    NUMBER,
    TABLE,
    copy,
    helper,
    kernel,
)

Array: TypeAlias = Any
"""A numpy array; its element type is in the kernel's signature."""
Number: TypeAlias = Any
"""An int64, whatever numpy calls it."""

# Columns of the table of batches.
POSITION: Final = 0
SIZE: Final = 1
BASE_OFFSET: Final = 2
ATTRIBUTES: Final = 3
LAST_OFFSET: Final = 4
BASE_TIMESTAMP: Final = 5
MAX_TIMESTAMP: Final = 6
PRODUCER_ID: Final = 7
COUNT: Final = 8
CRC: Final = 9
LEADER_EPOCH: Final = 10
PRODUCER_EPOCH: Final = 11
BATCH_COLUMNS: Final = 12

# Totals of the records read.
ROWS: Final = 0
KEY_BYTES: Final = 1
VALUE_BYTES: Final = 2
NULL_KEYS: Final = 3
NULL_VALUES: Final = 4
HEADERS: Final = 5
HEADER_BYTES: Final = 6
BARE: Final = 7
"""Records without headers."""
TOTALS: Final = 8

_HEADER_SIZE: Final = 61
# Bits of ATTRIBUTES.
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
_US_PER_MS: Final = 1000
_LATEST_MS: Final = (2**63 - 1) // _US_PER_MS


@helper
def big_endian(data: Array, position: Number, size: Number) -> Number:
    """`size` bytes as an unsigned number; the caller knows that they are there."""
    number = np.int64(0)
    for index in range(position, position + size):
        number = (number << 8) | np.int64(data[index])
    return number


@helper
def int32(data: Array, position: Number) -> Number:
    number = big_endian(data, position, 4)
    return number - (np.int64(1) << 32) if number >= np.int64(1) << 31 else number


@kernel(INPUT, TABLE)
def scan(data: Array, table: Array) -> Number:
    """Read the headers of the whole batches in `data` into `table`, as many as it has room for.

    Returns how many there are (call again with room for them); -1 - position where there is no
    batch.
    """
    end = len(data)
    position = np.int64(0)
    count = 0
    while end - position >= _HEADER_SIZE:
        length = int32(data, position + 8)
        if length < _HEADER_SIZE - 12 or data[position + 16] != 2:
            return -1 - position
        if length + 12 > end - position:
            break
        if count < len(table):
            row = table[count]
            row[POSITION] = position
            row[SIZE] = length + 12
            row[BASE_OFFSET] = big_endian(data, position, 8)
            row[LEADER_EPOCH] = int32(data, position + 12)
            row[CRC] = big_endian(data, position + 17, 4)
            row[ATTRIBUTES] = big_endian(data, position + 21, 2)
            row[LAST_OFFSET] = row[BASE_OFFSET] + int32(data, position + 23)
            row[BASE_TIMESTAMP] = big_endian(data, position + 27, 8)
            row[MAX_TIMESTAMP] = big_endian(data, position + 35, 8)
            row[PRODUCER_ID] = big_endian(data, position + 43, 8)
            row[PRODUCER_EPOCH] = big_endian(data, position + 51, 2)
            row[COUNT] = int32(data, position + 57)
        count += 1
        position += length + 12
    return count


@helper
def _varint(data: Array, position: Number, end: Number) -> tuple[Number, Number]:
    """The zigzag varint at `position` and its end; -1 as the end if it exceeds `end` or 64 bits."""
    raw = np.uint64(0)
    for shift in range(0, 70, 7):
        if position >= end:
            return 0, -1
        byte = data[position]
        position += 1
        if shift == 63 and byte > 1:
            return 0, -1
        raw |= np.uint64(byte & 0x7F) << np.uint64(shift)
        if byte < 128:
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), position
    return 0, -1


@helper
def small_varint(data: Array, position: Number, end: Number) -> tuple[Number, Number]:
    """`_varint`, sooner for the one or two bytes that nearly all numbers take."""
    if end - position < 2:
        return _varint(data, position, end)
    raw = np.int64(data[position])
    if raw < 128:
        return (raw >> 1) ^ -(raw & 1), position + 1
    more = np.int64(data[position + 1])
    if more < 128:
        raw = (raw & 0x7F) | (more << 7)
        return (raw >> 1) ^ -(raw & 1), position + 2
    return _varint(data, position, end)


@helper
def next_record(
    data: Array, position: Number, batch_end: Number
) -> tuple[Number, Number, Number, Number, Number, Number, Number]:
    """The fields of the record at `position`; its headers come behind the value.

    They are its end, the deltas of timestamp and offset, and position and size of key and value;
    the size is negative for null. The end is -1 if they exceed the record, or that its batch.
    """
    broken = -1, 0, 0, 0, 0, 0, 0
    length, position = small_varint(data, position, batch_end)
    if position < 0 or length < 0 or length > batch_end - position:
        return broken
    end = position + length
    timestamp, position = small_varint(data, position + 1, end)
    if position < 0:
        return broken
    delta, position = small_varint(data, position, end)
    if position < 0:
        return broken
    key_size, key = small_varint(data, position, end)
    if key < 0 or key_size > end - key:
        return broken
    value_size, value = small_varint(data, key + max(key_size, 0), end)
    if value < 0 or value_size > end - value:
        return broken
    return end, timestamp, delta, key, key_size, value, value_size


@helper
def _skip_headers(data: Array, position: Number, end: Number, totals: Array) -> Number:
    """The end of the headers at `position`, -1 if it is outside the record; adds to `totals`."""
    count, position = small_varint(data, position, end)
    if position < 0 or count < 0:
        return -1
    for _ in range(count):
        size, position = small_varint(data, position, end)
        if position < 0 or size < 0 or size > end - position:
            return -1
        position += size
        totals[HEADER_BYTES] += size
        size, position = small_varint(data, position, end)
        if position < 0 or size > end - position:
            return -1
        if size > 0:
            position += size
            totals[HEADER_BYTES] += size
    totals[HEADERS] += count
    return position


@helper
def _microseconds(timestamp: Number) -> Number:
    """`timestamp` (ms) in µs: the nearest that 64 bits hold, for a producer may send any number."""
    return min(max(timestamp, -_LATEST_MS), _LATEST_MS) * _US_PER_MS


@kernel(
    INPUT,
    TABLE,
    NUMBER,
    NUMBER,
    INT64,
    INT64,
    INT32,
    INT32,
    BYTES,
    BYTES,
    INT32,
    BYTES,
    BYTES,
    INT64,
    INT64,
)
def read_records(
    data: Array,
    batches: Array,
    from_offset: Number,
    to_offset: Number,
    offsets: Array,
    timestamps: Array,
    timestamp_types: Array,
    key_ends: Array,
    keys: Array,
    key_validity: Array,
    value_ends: Array,
    values: Array,
    value_validity: Array,
    headers_at: Array,
    totals: Array,
) -> Number:
    """Read the records of `batches` that are in [from_offset, to_offset) into columns.

    A batch's POSITION and SIZE are those of its decompressed records in `data`. `headers_at` has
    room for each record, or is empty if headers are not needed. Validity bitmaps are zeroed by the
    caller. Sets each batch's COUNT to the number of its records in the range. Returns -1, or the
    index of a batch that contradicts its header.
    """
    row = key_at = value_at = np.int64(0)
    key_ends[0] = value_ends[0] = 0
    wants_headers = len(headers_at) > 0
    for index in range(len(batches)):
        position = batches[index, POSITION]
        batch_end = position + batches[index, SIZE]
        base_offset = batches[index, BASE_OFFSET]
        base_timestamp = batches[index, BASE_TIMESTAMP]
        is_append_time = batches[index, ATTRIBUTES] & LOG_APPEND_TIME != 0
        append_time = _microseconds(batches[index, MAX_TIMESTAMP])
        first = row
        for _ in range(batches[index, COUNT]):
            end, timestamp, delta, key, key_size, value, value_size = next_record(
                data, position, batch_end
            )
            if end < 0:
                return index
            position = value + max(value_size, 0)
            offset = base_offset + delta
            in_range = offset >= from_offset and offset < to_offset
            if end - position == 1 and data[position] == 0:
                if in_range:
                    totals[BARE] += 1
            elif _skip_headers(data, position, end, totals) != end:
                return index
            if in_range:
                if wants_headers:
                    headers_at[row] = position
                offsets[row] = offset
                timestamps[row] = (
                    append_time if is_append_time else _microseconds(base_timestamp + timestamp)
                )
                timestamp_types[row] = 1 if is_append_time else 0
                if key_size >= 0:
                    copy(keys, key_at, data, key, key_size)
                    key_at += key_size
                    key_validity[row >> 3] |= np.uint8(1 << (row & 7))
                else:
                    totals[NULL_KEYS] += 1
                if value_size >= 0:
                    copy(values, value_at, data, value, value_size)
                    value_at += value_size
                    value_validity[row >> 3] |= np.uint8(1 << (row & 7))
                else:
                    totals[NULL_VALUES] += 1
                row += 1
                key_ends[row] = key_at
                value_ends[row] = value_at
            position = end
        if position != batch_end:
            return index
        batches[index, COUNT] = row - first
    totals[ROWS] = row
    totals[KEY_BYTES] = key_at
    totals[VALUE_BYTES] = value_at
    return -1


@kernel(INPUT, INT64, INT32, BYTES, INT32, BYTES, INT32, BYTES, BYTES)
def read_headers(
    data: Array,
    headers_at: Array,
    list_ends: Array,
    list_validity: Array,
    name_ends: Array,
    names: Array,
    content_ends: Array,
    contents: Array,
    content_validity: Array,
) -> Number:
    """Read the headers that `read_records` checked into the buffers of a list of (name, content).

    A record without headers is null, as in Spark's Kafka source. Returns the number of null
    contents.
    """
    end = len(data)
    entry = name_at = content_at = nulls = np.int64(0)
    list_ends[0] = name_ends[0] = content_ends[0] = 0
    for row in range(len(headers_at)):
        count, position = small_varint(data, headers_at[row], end)
        if count > 0:
            list_validity[row >> 3] |= np.uint8(1 << (row & 7))
        for _ in range(count):
            size, position = small_varint(data, position, end)
            copy(names, name_at, data, position, size)
            name_at += size
            size, position = small_varint(data, position + size, end)
            if size >= 0:
                copy(contents, content_at, data, position, size)
                content_at += size
                position += size
                content_validity[entry >> 3] |= np.uint8(1 << (entry & 7))
            else:
                nulls += 1
            entry += 1
            name_ends[entry] = name_at
            content_ends[entry] = content_at
        list_ends[row + 1] = entry
    return nulls
