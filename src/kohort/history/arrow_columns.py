"""Arrow columns of numpy arrays, without a copy. They keep the arrays that they are given."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

Array: TypeAlias = Any


def numbers(values: Array, valid: Array | None = None, kind: pa.DataType | None = None) -> pa.Array:
    """A column of `kind` (default: int64); null where `valid` is false."""
    kind = kind or pa.int64()
    validity, nulls = None, 0
    if valid is not None:
        nulls = len(values) - int(np.count_nonzero(valid))
        if nulls == len(values):
            return pa.nulls(nulls, kind)
        if nulls:
            validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    dtype = np.dtype(f"i{kind.bit_width // 8}")
    data = pa.py_buffer(np.ascontiguousarray(values, dtype))
    return pa.Array.from_buffers(kind, len(values), [validity, data], nulls)


def choice(codes: Array, values: pa.Array) -> pa.Array:
    """The values with these numbers; null below 0."""
    return values.take(numbers(codes, codes >= 0))


def constant(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows)


def strings(
    data: Array, sizes: Array, valid: Array | None = None, kind: pa.DataType | None = None
) -> pa.Array:
    """A column of the parts of `data`, one after the other; null where `valid` is false.

    `kind`: default string, if they are UTF-8.
    """
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    validity = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [validity, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind or pa.string(), len(sizes), buffers)


def batch(columns: dict[str, pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """The columns in the order of the schema; those that are missing are null."""
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def text_array(values: Sequence[str | None]) -> pa.Array:
    return pa.array(values, pa.string())


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of all, one or more of one schema."""
    some = [each for each in batches if each.num_rows]
    if len(some) < 2:
        return some[0] if some else batches[0]
    return pa.concat_batches(some)
