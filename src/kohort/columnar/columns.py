"""Arrow columns of the buffers that the kernels wrote, without a copy."""

from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kohort.columnar import kernels
from kohort.columnar.batch_field_kernels import repeat_batch_fields
from kohort.columnar.schema import HEADERS
from kohort.protocol.batch_format import CONTROL

Array: TypeAlias = Any

_MIN_CACHED: Final = 1 << 14
"""Least number of rows of a cached column."""
CONTROLS: Final = pa.Array.from_buffers(
    pa.string(),
    4,
    [
        pa.py_buffer(b"\x0e"),
        pa.py_buffer(np.array([0, 0, 6, 11, 16], np.int32)),
        pa.py_buffer(b"commitabortother"),
    ],
)
"""Name of each number that `repeat_batch_fields` writes into `controls`; null for data."""


class Buffer:
    """Memory of Arrow's pool and an array on it.

    The pool keeps freed memory; fresh pages cost more than decoding.
    """

    __slots__ = ("array", "memory")

    def __init__(self, length: int, element: Any, *, zeroed: bool = False) -> None:
        self.memory = pa.allocate_buffer(length * np.dtype(element).itemsize)
        self.array: Array = np.frombuffer(self.memory, element)
        if zeroed:
            self.array.fill(0)

    def first(self, length: int) -> pa.Buffer:
        """Its first `length` bytes."""
        return self.memory.slice(0, length)

    def numbers(self, kind: pa.DataType, rows: int) -> pa.Array:
        """Its first `rows` elements as a column without nulls."""
        return pa.Array.from_buffers(kind, rows, [None, self.memory], 0)


class Variable:
    """A column of byte strings that may be null."""

    def __init__(self, rows: int, size: int) -> None:
        self.ends = Buffer(rows + 1, np.int32)
        self.data = Buffer(size, np.uint8)
        self.validity = bitmap(rows)

    def column(self, kind: pa.DataType, rows: int, size: int, nulls: int) -> pa.Array:
        """Its first `rows`, of `size` bytes altogether."""
        validity = self.validity.memory if nulls else None
        return pa.Array.from_buffers(
            kind, rows, [validity, self.ends.memory, self.data.first(size)], nulls
        )


def bitmap(rows: int) -> Buffer:
    """One bit for each row, 0."""
    return Buffer((rows + 7) // 8, np.uint8, zeroed=True)


def topic_column(topic: str, rows: int) -> pa.Array:
    """`topic`, `rows` times, as a slice of a column cached for each topic and power of two."""
    return _topics(topic, _cached_rows(rows)).slice(0, rows)


def partition_column(partition: int, rows: int) -> pa.Array:
    """A column of `partition`, `rows` times."""
    return _repeated(partition, rows, np.int32, pa.int32())


def offset_column(offset: int, rows: int) -> pa.Array:
    """A column of `offset`, `rows` times."""
    return _repeated(offset, rows, np.int64, pa.int64())


def _repeated(number: int, rows: int, element: Any, kind: pa.DataType) -> pa.Array:
    """A column from a buffer: `pa.array` and `pa.scalar` import pandas, which takes 0.6 s."""
    numbers = Buffer(rows, element)
    numbers.array.fill(number)
    return numbers.numbers(kind, rows)


def _null_strings(rows: int) -> pa.Array:
    """`rows` nulls, as a slice of a column cached for each power of two."""
    return _nulls(_cached_rows(rows)).slice(0, rows)


def _cached_rows(rows: int) -> int:
    """The rows of a cached column that has at least `rows`: a power of two."""
    return max(_MIN_CACHED, 1 << (rows - 1).bit_length() if rows else 0)


@lru_cache(maxsize=4)
def _nulls(rows: int) -> pa.Array:
    return pa.nulls(rows, pa.string())


@lru_cache(maxsize=16)
def _topics(topic: str, rows: int) -> pa.Array:
    name = topic.encode()
    ends = np.arange(rows + 1, dtype=np.int64) * len(name)
    return pa.Array.from_buffers(
        pa.string(), rows, [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(name * rows)], 0
    )


def batch_field_columns(batches: Array, keys: Variable, rows: int) -> list[pa.Array]:
    """The columns of `schema.BATCH_FIELDS`: each batch's fields, for its COUNT of the `rows`."""
    base_offsets, leader_epochs = Buffer(rows, np.int64), Buffer(rows, np.int32)
    producer_ids, producer_epochs = Buffer(rows, np.int64), Buffer(rows, np.int16)
    has_producer, transactional = bitmap(rows), bitmap(rows)
    has_control = bool((batches[:, kernels.ATTRIBUTES] & CONTROL).any())
    controls = Buffer(rows if has_control else 0, np.uint8, zeroed=True)
    bare = repeat_batch_fields(
        batches, keys.ends.array, keys.data.array, base_offsets.array, leader_epochs.array,
        producer_ids.array, producer_epochs.array, has_producer.array, transactional.array,
        controls.array,
    )  # fmt: skip
    validity = has_producer.memory if bare else None
    return [
        base_offsets.numbers(pa.int64(), rows),
        leader_epochs.numbers(pa.int32(), rows),
        pa.Array.from_buffers(pa.int64(), rows, [validity, producer_ids.memory], bare),
        pa.Array.from_buffers(pa.int16(), rows, [validity, producer_epochs.memory], bare),
        pa.Array.from_buffers(pa.bool_(), rows, [None, transactional.memory], 0),
        CONTROLS.take(controls.numbers(pa.uint8(), rows)) if has_control else _null_strings(rows),
    ]


def header_column(data: Array, headers_at: Array, totals: Array) -> pa.Array:
    """The headers that start at `headers_at`, one list for each record; null where it has none."""
    rows, entries, size = (
        len(headers_at),
        int(totals[kernels.HEADERS]),
        int(totals[kernels.HEADER_BYTES]),
    )
    lists, validity = Buffer(rows + 1, np.int32), bitmap(rows)
    names, contents = Variable(entries, size), Variable(entries, size)
    nulls = kernels.read_headers(
        data, headers_at, lists.array, validity.array, names.ends.array, names.data.array,
        contents.ends.array, contents.data.array, contents.validity.array,
    )  # fmt: skip
    first = int(lists.array[rows])
    name_column = names.column(pa.string(), first, int(names.ends.array[first]), 0)
    content_column = contents.column(pa.binary(), first, int(contents.ends.array[first]), nulls)
    entry_column = pa.StructArray.from_arrays(
        [_valid_utf8(name_column), content_column], fields=list(HEADERS.value_type)
    )
    bare = int(totals[kernels.BARE])
    return pa.Array.from_buffers(
        HEADERS,
        rows,
        [validity.memory if bare else None, lists.memory],
        bare,
        children=[entry_column],
    )


def _valid_utf8(names: pa.Array) -> pa.Array:
    """`names` with U+FFFD for invalid UTF-8, as Java reads it."""
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array(
            [name.decode(errors="replace") for name in names.cast(pa.binary()).to_pylist()],
            pa.string(),
        )
    return names
