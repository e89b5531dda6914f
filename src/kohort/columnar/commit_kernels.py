"""The loop that decodes committed offsets: records of `__consumer_offsets` with key types 0 and 1.

Like `kernels`, it reads untrusted bytes: every read is checked against the end of its key or value
first. `coordinator.records` has the schema and does the same in Python;
`tests/columnar/test_commit_kernels.py` compares them on random input.

The decoded fields are rows of a table, one line of it per field, so that each field is contiguous.
"""

from typing import Any, Final, TypeAlias

import numpy as np

from kohort.columnar.compiling import BYTES, INPUT, INPUT32, NUMBER, TABLE, copy, helper, kernel
from kohort.columnar.kernels import big_endian, int32

Array: TypeAlias = Any
Number: TypeAlias = Any
"""An int64, whatever numpy calls it."""

# Lines of the table of records.
CLASS: Final = 0
KEY_AT: Final = 1
"""Where the group begins in the keys (its size of two bytes); of other records, their key."""
KEY_SIZE: Final = 2
"""Bytes up to the end of the partition; of other records, the whole key. -1: null."""
GROUP_SIZE: Final = 3
PARTITION: Final = 4
VERSION: Final = 5
COMMITTED: Final = 6
LEADER_EPOCH: Final = 7
METADATA_AT: Final = 8
METADATA_SIZE: Final = 9
COMMIT_TIME: Final = 10
"""ms; -1: none."""
EXPIRE_TIME: Final = 11
HAS_ID: Final = 12
ID_HIGH: Final = 13
ID_LOW: Final = 14
KEY_KIND: Final = 15
"""Type of the key, and 2 more if Redpanda's prefix is before it: other bytes, another key."""
DECODED: Final = 16

# Classes of records.
COMMIT: Final = 0
TOMBSTONE: Final = 1
OTHER: Final = 2
"""A record of another type, or of none."""
BAD_KEY: Final = 3
"""The key has type 0 or 1, and does not follow the schema."""
BAD_VALUE: Final = 4
"""The key follows the schema, the value does not."""
CONTROL: Final = 5
"""A control record; `history.record_table` sets this class."""

_LAST_VERSION: Final = 4
_REDPANDA_PREFIX: Final = 4


@helper
def _int16(data: Array, at: Number) -> Number:
    number = (np.int64(data[at]) << 8) | np.int64(data[at + 1])
    return number - 65536 if number >= 32768 else number


@helper
def _varint(data: Array, at: Number, end: Number) -> tuple[Number, Number]:
    """An unsigned varint of at most five bytes and its end; -1 as the end if there is none."""
    value = np.int64(0)
    for shift in range(0, 35, 7):
        if at >= end:
            return value, np.int64(-1)
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    return value, np.int64(-1)


@helper
def _is_continued(data: Array, at: Number, end: Number, count: Number) -> Number:
    """Whether `count` continuation bytes of UTF-8 follow."""
    if end - at < count:
        return False
    for index in range(at, at + count):  # noqa: SIM110, kernels have no generators
        if data[index] & 0xC0 != 0x80:
            return False
    return True


@helper
def is_text(data: Array, at: Number, size: Number) -> Number:
    """Whether the bytes are UTF-8 as Python reads it: no surrogates, nothing overlong."""
    end = at + size
    high = np.uint8(0)
    for index in range(at, end):
        high |= data[index]
    if high < 128:
        return True
    while at < end:
        first = np.int64(data[at])
        second = np.int64(data[at + 1]) if at + 1 < end else np.int64(0)
        if first < 0x80:
            at += 1
        elif first >= 0xC2 and first <= 0xDF and _is_continued(data, at + 1, end, 1):
            at += 2
        elif first >= 0xE0 and first <= 0xEF and _is_continued(data, at + 1, end, 2):
            if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
                return False
            at += 3
        elif first >= 0xF0 and first <= 0xF4 and _is_continued(data, at + 1, end, 3):
            if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
                return False
            at += 4
        else:
            return False
    return True


@helper
def _read_key(rows: Array, row: Number, keys: Array, at: Number, end: Number) -> Number:
    """Read the key of an offset from behind its type; where it ends, -1 if it breaks the schema."""
    rows[KEY_AT, row] = at
    if end - at < 2:
        return np.int64(-1)
    group = _int16(keys, at)
    topic_at = at + 2 + group
    if group < 0 or end - topic_at < 2:
        return np.int64(-1)
    topic = _int16(keys, topic_at)
    partition_at = topic_at + 2 + topic
    if topic < 0 or end - partition_at < 4:
        return np.int64(-1)
    if not is_text(keys, at + 2, group) or not is_text(keys, topic_at + 2, topic):
        return np.int64(-1)
    rows[GROUP_SIZE, row] = group
    rows[PARTITION, row] = int32(keys, partition_at)
    rows[KEY_SIZE, row] = partition_at + 4 - at
    return partition_at + 4


@helper
def _read_tags(rows: Array, row: Number, values: Array, at: Number, end: Number) -> Number:
    """Read the tagged fields; where they end, -1 if they break the schema."""
    count, at = _varint(values, at, end)
    if at < 0:
        return at
    while count > 0:  # ends with the value: each takes two bytes at least
        tag, at = _varint(values, at, end)
        if at < 0:
            return at
        size, at = _varint(values, at, end)
        if at < 0 or size > end - at:
            return np.int64(-1)
        if tag == 0:  # the last one counts
            rows[HAS_ID, row] = np.int64(size == 16)
            if size == 16:
                rows[ID_HIGH, row] = big_endian(values, at, 8)
                rows[ID_LOW, row] = big_endian(values, at + 8, 8)
        at += size
        count -= 1
    return at


@helper
def _read_value(rows: Array, row: Number, values: Array, at: Number, end: Number) -> Number:
    """Read the value of an offset; where it ends, -1 if it breaks the schema."""
    if end - at < 10:
        return np.int64(-1)
    version = _int16(values, at)
    if version < 0 or version > _LAST_VERSION:
        return np.int64(-1)
    rows[VERSION, row] = version
    rows[COMMITTED, row] = big_endian(values, at + 2, 8)
    at += 10
    if version >= 3:
        if end - at < 4:
            return np.int64(-1)
        rows[LEADER_EPOCH, row] = int32(values, at)
        at += 4
    if version >= 4:
        size, at = _varint(values, at, end)
        if at < 0:
            return at
        size -= 1
    else:
        if end - at < 2:
            return np.int64(-1)
        size = _int16(values, at)
        at += 2
    if size < 0 or size > end - at or not is_text(values, at, size):
        return np.int64(-1)
    rows[METADATA_AT, row] = at
    rows[METADATA_SIZE, row] = size
    at += size
    if end - at < (16 if version == 1 else 8):
        return np.int64(-1)
    rows[COMMIT_TIME, row] = big_endian(values, at, 8)
    at += 8
    if version == 1:
        rows[EXPIRE_TIME, row] = big_endian(values, at, 8)
        at += 8
    return _read_tags(rows, row, values, at, end) if version >= 4 else at


@helper
def _is_prefixed(keys: Array, at: Number, end: Number) -> Number:
    """Whether a key of Redpanda's old tombstones starts here, its size (little-endian) first."""
    if end - at < _REDPANDA_PREFIX + 2:
        return False
    size = np.int64(0)
    for index in range(_REDPANDA_PREFIX):
        size |= np.int64(keys[at + index]) << (8 * index)
    return size == end - at - _REDPANDA_PREFIX


@kernel(INPUT, INPUT32, INPUT, INPUT, INPUT32, INPUT, NUMBER, TABLE)
def decode_commits(
    keys: Array,
    key_ends: Array,
    key_nulls: Array,
    values: Array,
    value_ends: Array,
    value_nulls: Array,
    first: Number,
    rows: Array,
) -> Number:
    """Decode columns of keys and values into the lines up to `DECODED` of `rows`, from `first` on.

    A column is its data, the end of each string (preceded by the start of row 0), and 1 for each
    null (an empty array if there are none). Returns how many rows are neither commits nor
    tombstones.
    """
    others = np.int64(0)
    for index in range(len(key_ends) - 1):
        row = first + index
        at, end = np.int64(key_ends[index]), np.int64(key_ends[index + 1])
        value, value_end = np.int64(value_ends[index]), np.int64(value_ends[index + 1])
        is_tombstone = len(value_nulls) > 0 and value_nulls[index] != 0
        rows[KEY_AT, row] = at
        rows[KEY_SIZE, row] = end - at
        rows[GROUP_SIZE, row] = 0
        rows[PARTITION, row] = 0
        rows[VERSION, row] = -1
        rows[COMMITTED, row] = 0
        rows[LEADER_EPOCH, row] = -1
        rows[METADATA_AT, row] = 0
        rows[METADATA_SIZE, row] = 0
        rows[COMMIT_TIME, row] = -1
        rows[EXPIRE_TIME, row] = -1
        rows[HAS_ID, row] = 0
        rows[ID_HIGH, row] = 0
        rows[ID_LOW, row] = 0
        rows[KEY_KIND, row] = 0
        if len(key_nulls) > 0 and key_nulls[index] != 0:
            rows[KEY_SIZE, row] = -1
            rows[CLASS, row] = OTHER
            others += 1
            continue
        type_ = _int16(keys, at) if end - at >= 2 else np.int64(-1)
        if type_ != 0 and type_ != 1 and is_tombstone and _is_prefixed(keys, at, end):
            at += _REDPANDA_PREFIX
            type_ = _int16(keys, at)
            rows[KEY_KIND, row] = 2
            rows[KEY_AT, row] = at
            rows[KEY_SIZE, row] = end - at
        if type_ != 0 and type_ != 1:
            rows[CLASS, row] = OTHER
            others += 1
        elif _read_key(rows, row, keys, at + 2, end) < 0:
            rows[KEY_AT, row] = at
            rows[KEY_SIZE, row] = end - at
            rows[CLASS, row] = BAD_KEY
            others += 1
        else:
            rows[KEY_KIND, row] += type_
            if is_tombstone:
                rows[CLASS, row] = TOMBSTONE
            elif _read_value(rows, row, values, value, value_end) < 0:
                rows[CLASS, row] = BAD_VALUE
                rows[LEADER_EPOCH, row] = rows[COMMIT_TIME, row] = rows[EXPIRE_TIME, row] = -1
                rows[METADATA_SIZE, row] = rows[HAS_ID, row] = 0
                others += 1
            else:
                rows[CLASS, row] = COMMIT
    return others


@kernel(INPUT, INPUT, NUMBER, TABLE, BYTES)
def gather(data: Array, earlier: Array, size: Number, parts: Array, out: Array) -> Number:
    """Join byte strings of `data`; those that start below 0 are from the end of `earlier`.

    `parts` has a line of starts and one of sizes, whose sum is at most `size`, that of `out`.
    Returns how many bytes it wrote.
    """
    position = np.int64(0)
    for index in range(parts.shape[1]):
        at, length = parts[0, index], parts[1, index]
        if length <= 0 or length > size - position:
            continue
        if at >= 0:
            copy(out, position, data, at, length)
        else:
            copy(out, position, earlier, len(earlier) + at, length)
        position += length
    return position
