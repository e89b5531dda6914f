"""The loops over rows that are written: which partition each goes to, and records of a partition into one buffer.

`protocol.records.encode` and `client.partitioner.murmur2` do the same in Python; the tests compare.
"""

from typing import Any, Final, TypeAlias

import numpy as np

from kohort.columnar.compiling import BYTES, INPUT, INT64, NUMBER, READ_INT32, READ_INT64, copy, helper, kernel

Array: TypeAlias = Any
Number: TypeAlias = Any

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_WORD: Final = 0xFFFFFFFF


@helper
def _murmur2(data: Array, start: Number, end: Number) -> Number:
    """Kafka's Utils.murmur2 of data[start:end], as an unsigned number of 32 bits."""
    m = np.uint64(_M)
    word = np.uint64(_WORD)
    h = (np.uint64(_SEED) ^ np.uint64(end - start)) & word
    at = start
    while end - at >= 4:
        k = np.uint64(data[at]) | np.uint64(data[at + 1]) << np.uint64(8)
        k |= np.uint64(data[at + 2]) << np.uint64(16) | np.uint64(data[at + 3]) << np.uint64(24)
        k = k * m & word
        k = (k ^ k >> np.uint64(24)) * m & word
        h = h * m & word ^ k
        at += 4
    if at < end:
        rest = np.uint64(0)
        for index in range(end - at):
            rest |= np.uint64(data[at + index]) << np.uint64(8 * index)
        h = (h ^ rest) * m & word
    h = (h ^ h >> np.uint64(13)) * m & word
    return h ^ h >> np.uint64(15)


@kernel(INPUT, READ_INT32, INPUT, NUMBER, NUMBER, INT64)
def choose_partitions(
    key_validity: Array, key_ends: Array, keys: Array, count: Number, without_key: Number, partitions: Array
) -> Number:
    """Where each row goes whose entry in `partitions` is negative: by its key, or else to `without_key`.

    A validity array has a byte for each row, or none if no row is null. Returns how many were chosen.
    """
    chosen = 0
    for row in range(len(partitions)):
        if partitions[row] >= 0:
            continue
        chosen += 1
        if len(key_validity) > 0 and key_validity[row] == 0:
            partitions[row] = without_key
        else:
            found = _murmur2(keys, key_ends[row], key_ends[row + 1])
            partitions[row] = np.int64(found & np.uint64(0x7FFFFFFF)) % count
    return chosen


@helper
def _size_of(number: Number) -> Number:
    """Bytes of a zigzag varint; of -1 and what is larger."""
    raw = number << 1 if number >= 0 else np.int64(1)
    size = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


@helper
def _put(out: Array, at: Number, number: Number) -> Number:
    """Write a zigzag varint; where it ends."""
    raw = number << 1 if number >= 0 else np.int64(1)
    while raw > 0x7F:
        out[at] = np.uint8(raw & 0x7F | 0x80)
        raw >>= 7
        at += 1
    out[at] = np.uint8(raw)
    return at + 1


@helper
def _length(validity: Array, ends: Array, row: Number) -> Number:
    """Bytes of a field, -1 if it is null."""
    if len(validity) > 0 and validity[row] == 0:
        return np.int64(-1)
    return np.int64(ends[row + 1]) - np.int64(ends[row])


@helper
def _size_of_field(validity: Array, ends: Array, row: Number) -> Number:
    size = _length(validity, ends, row)
    return _size_of(size) + max(size, 0)


@helper
def _put_field(out: Array, at: Number, validity: Array, ends: Array, data: Array, row: Number) -> Number:
    size = _length(validity, ends, row)
    at = _put(out, at, size)
    if size > 0:
        copy(out, at, data, np.int64(ends[row]), size)
        at += size
    return at


@kernel(
    READ_INT64, NUMBER, NUMBER,
    INPUT, READ_INT32, INPUT, INPUT, READ_INT32, INPUT,
    READ_INT32, READ_INT32, INPUT, INPUT, READ_INT32, INPUT,
    BYTES, INT64,
)  # fmt: skip
def encode_rows(
    rows: Array,
    first: Number,
    limit: Number,
    key_validity: Array,
    key_ends: Array,
    keys: Array,
    value_validity: Array,
    value_ends: Array,
    values: Array,
    header_ends: Array,
    name_ends: Array,
    names: Array,
    content_validity: Array,
    content_ends: Array,
    contents: Array,
    out: Array,
    used: Array,
) -> Number:
    """Encode records of `rows`, from index `first` on, until they are `limit` bytes or `out` is full.

    All have the batch's base timestamp. `header_ends` is empty if there are no headers. Returns how many were encoded,
    and in used[0] their bytes; 0 if `out` has no room for the first one, which then needs used[0] bytes.
    """
    at = np.int64(0)
    for index in range(first, len(rows)):
        row = rows[index]
        begin = end = np.int64(0)
        if len(header_ends) > 0:
            begin, end = np.int64(header_ends[row]), np.int64(header_ends[row + 1])
        size = 2 + _size_of(index - first) + _size_of(end - begin)
        size += _size_of_field(key_validity, key_ends, row) + _size_of_field(value_validity, value_ends, row)
        for each in range(begin, end):
            size += _size_of_field(contents[:0], name_ends, each)
            size += _size_of_field(content_validity, content_ends, each)
        whole = _size_of(size) + size
        if (at > 0 and at + whole > limit) or at + whole > len(out):
            used[0] = at if at > 0 else whole
            return index - first
        at = _put(out, at, size)
        out[at] = 0
        out[at + 1] = 0
        at = _put(out, at + 2, index - first)
        at = _put_field(out, at, key_validity, key_ends, keys, row)
        at = _put_field(out, at, value_validity, value_ends, values, row)
        at = _put(out, at, end - begin)
        for each in range(begin, end):
            at = _put_field(out, at, contents[:0], name_ends, names, each)
            at = _put_field(out, at, content_validity, content_ends, contents, each)
    used[0] = at
    return len(rows) - first
