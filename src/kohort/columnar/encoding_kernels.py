"""The two loops that write: partitions of keys, and columns into the records of a batch.

Both read columns that Arrow has validated: offsets lead into their data. The size of a record is
computed before it is written, so no byte is written beyond the caller's buffer.

A column of byte strings is three arrays: the data, the end of each string (preceded by the start of
row 0), and 1 for each null (an empty array if there are none).

`protocol.records` and `client.produce.partitioner` do the same in Python;
`tests/columnar/test_encoding.py` compares them on random input.
"""

from typing import Any, Final, TypeAlias

import numpy as np

from kohort.columnar.compiling import (
    BYTES,
    INPUT,
    INPUT32,
    INPUT64,
    INT32,
    INT64,
    NUMBER,
    copy,
    helper,
    kernel,
)

Array: TypeAlias = Any
Number: TypeAlias = Any
"""An int64, whatever numpy calls it."""

# Totals of the records written.
SIZE: Final = 0
MAX_TIMESTAMP: Final = 1
ENCODED_TOTALS: Final = 2

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


@helper
def _murmur2(data: Array, position: Number, size: Number) -> Number:
    """Kafka's Utils.murmur2, as an unsigned number of 32 bits."""
    h = np.uint64(_SEED) ^ np.uint64(size)
    mask, m = np.uint64(_MASK), np.uint64(_M)
    end = position + (size & ~np.int64(3))
    while position < end:
        k = np.uint64(data[position]) | np.uint64(data[position + 1]) << np.uint64(8)
        k |= np.uint64(data[position + 2]) << np.uint64(16) | np.uint64(
            data[position + 3]
        ) << np.uint64(24)
        k = k * m & mask
        k = (k ^ k >> np.uint64(24)) * m & mask
        h = h * m & mask ^ k
        position += 4
    tail_size = size & 3
    if tail_size > 0:
        if tail_size > 2:
            h ^= np.uint64(data[position + 2]) << np.uint64(16)
        if tail_size > 1:
            h ^= np.uint64(data[position + 1]) << np.uint64(8)
        h = (h ^ np.uint64(data[position])) * m & mask
    h = (h ^ h >> np.uint64(13)) * m & mask
    return h ^ h >> np.uint64(15)


@kernel(INPUT, INPUT32, INPUT, NUMBER, INT32)
def partition_keys(
    data: Array, ends: Array, nulls: Array, partitions: Number, chosen: Array
) -> Number:
    """Where `chosen` is negative, choose the partition of the key, as Java's producer does.

    Rows without a key stay negative. Returns their number.
    """
    without_key = np.int64(0)
    for row in range(len(chosen)):
        if chosen[row] >= 0:
            continue
        if len(nulls) > 0 and nulls[row] != 0:
            without_key += 1
            continue
        start = np.int64(ends[row])
        hash_ = _murmur2(data, start, np.int64(ends[row + 1]) - start)
        chosen[row] = np.int64(hash_ & np.uint64(0x7FFFFFFF)) % partitions
    return without_key


@helper
def _size_of(number: Number) -> Number:
    """Bytes of `number` as a zigzag varint."""
    raw = np.uint64((number << 1) ^ (number >> 63))
    size = np.int64(1)
    while raw > np.uint64(127):
        raw >>= np.uint64(7)
        size += 1
    return size


@helper
def _put(out: Array, position: Number, number: Number) -> Number:
    """Write a zigzag varint; where it ends."""
    raw = np.uint64((number << 1) ^ (number >> 63))
    while raw > np.uint64(127):
        out[position] = np.uint8(raw & np.uint64(127) | np.uint64(128))
        raw >>= np.uint64(7)
        position += 1
    out[position] = np.uint8(raw)
    return position + 1


@helper
def _size_of_string(size: Number) -> Number:
    """Bytes of a string of `size` (-1: null) and of its size."""
    return _size_of(size) + max(size, 0)


@helper
def _put_string(out: Array, position: Number, data: Array, start: Number, size: Number) -> Number:
    position = _put(out, position, size)
    if size > 0:
        copy(out, position, data, start, size)
        position += size
    return position


@helper
def _size_at(ends: Array, nulls: Array, row: Number) -> Number:
    """Bytes of a string of a column; -1 if it is null."""
    if len(nulls) > 0 and nulls[row] != 0:
        return np.int64(-1)
    return np.int64(ends[row + 1]) - np.int64(ends[row])


@kernel(
    INPUT64, INPUT64, INPUT, INPUT32, INPUT, INPUT, INPUT32, INPUT,
    INPUT32, INPUT, INPUT, INPUT32, INPUT, INPUT32, INPUT, BYTES, INT64,
)  # fmt: skip
def write_records(
    rows: Array,
    timestamps: Array,
    keys: Array,
    key_ends: Array,
    key_nulls: Array,
    values: Array,
    value_ends: Array,
    value_nulls: Array,
    list_ends: Array,
    list_nulls: Array,
    names: Array,
    name_ends: Array,
    contents: Array,
    content_ends: Array,
    content_nulls: Array,
    out: Array,
    totals: Array,
) -> Number:
    """Write `rows`, in this order, as the records of one batch, as many as fit into `out`.

    The first row's timestamp (ms) is the batch's. `list_ends` maps rows to entries of their
    headers, and is empty if there are none. Returns the number of written rows, or -size if not
    even the first fits, which has that size.
    """
    position = written = np.int64(0)
    base = latest = timestamps[rows[0]]
    has_headers = len(list_ends) > 0
    for row in rows:
        key_size = _size_at(key_ends, key_nulls, row)
        value_size = _size_at(value_ends, value_nulls, row)
        delta = timestamps[row] - base
        first = last = np.int64(0)
        if has_headers and not (len(list_nulls) > 0 and list_nulls[row] != 0):
            first, last = np.int64(list_ends[row]), np.int64(list_ends[row + 1])
        size = 1 + _size_of(delta) + _size_of(written) + _size_of(last - first)
        size += _size_of_string(key_size) + _size_of_string(value_size)
        for entry in range(first, last):
            size += _size_of_string(np.int64(name_ends[entry + 1]) - np.int64(name_ends[entry]))
            size += _size_of_string(_size_at(content_ends, content_nulls, entry))
        total = size + _size_of(size)
        if total > len(out) - position:
            if written == 0:
                return -total
            break
        position = _put(out, position, size)
        out[position] = 0
        position = _put(out, _put(out, position + 1, delta), written)
        position = _put_string(out, position, keys, np.int64(key_ends[row]), key_size)
        position = _put_string(out, position, values, np.int64(value_ends[row]), value_size)
        position = _put(out, position, last - first)
        for entry in range(first, last):
            start = np.int64(name_ends[entry])
            position = _put_string(
                out, position, names, start, np.int64(name_ends[entry + 1]) - start
            )
            content_size = _size_at(content_ends, content_nulls, entry)
            position = _put_string(
                out, position, contents, np.int64(content_ends[entry]), content_size
            )
        latest = max(latest, timestamps[row])
        written += 1
    totals[SIZE] = position
    totals[MAX_TIMESTAMP] = latest
    return written
