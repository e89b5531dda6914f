"""Columns of Arrow as numbers for kernels, and back: names are places in a list, null is NONE."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.columnar.commit_tables import NONE
from kohort.history.schema import TIME

_US_PER_MS: Final = 1_000
Numbers = np.ndarray[Any, np.dtype[Any]]


def names_in(*columns: pa.ChunkedArray) -> pa.Array:
    """All values of columns of one type, or dictionaries of it, in order, without null."""
    values = [part.dictionary for column in columns for part in _encoded(column)]
    together = pc.unique(pa.chunked_array(values)) if values else pa.array([], columns[0].type)
    return together.take(pc.sort_indices(together)).drop_null()


def values_in(column: pa.ChunkedArray) -> set[Any]:
    """The values of the rows of a column, without null; a dictionary may have others."""
    values = {value for chunk in column.chunks for value in pc.unique(chunk).to_pylist()}
    return values - {None}


def places_of(column: pa.ChunkedArray, names: pa.Array) -> Numbers:
    """The place of each value of a column in `names`, -1 of null and others."""
    parts = [np.empty(0, np.int64)]
    for part in _encoded(column):
        places = pc.fill_null(pc.index_in(part.dictionary, value_set=names), -1).to_numpy()
        indices = pc.fill_null(part.indices, -1).to_numpy()
        parts.append(np.append(places, -1).astype(np.int64)[indices])
    return np.concatenate(parts)


def _encoded(column: pa.ChunkedArray) -> Iterator[Any]:
    for chunk in column.chunks:
        yield chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()


def distinct(*values: Numbers) -> tuple[Numbers, Numbers]:
    """The distinct tuples of numbers in order, a column each, and the place of each tuple there."""
    packed = _packed(values)
    if packed is None:
        table, places = np.unique(np.stack(values), axis=1, return_inverse=True)
        return table, places.reshape(-1)
    encoded = pa.array(packed).dictionary_encode()
    indices = encoded.indices.to_numpy()
    order = np.argsort(encoded.dictionary.to_numpy())
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    chosen = np.empty(len(order), np.int64)
    chosen[indices] = np.arange(len(indices))  # one place of each
    return np.stack([value[chosen[order]] for value in values]), places[indices]


def _packed(values: tuple[Numbers, ...]) -> Numbers | None:
    """One number for each tuple, in the same order; None if it does not fit, or one is below 0."""
    size, packed = 1, np.zeros(len(values[0]), np.int64)
    for value in values if len(packed) else ():
        width = int(value.max()) + 1
        size *= width
        if int(value.min()) < 0 or size >= 2**63:
            return None
        packed = packed * width + value
    return packed


def order_of(*keys: Numbers) -> Numbers | None:
    """The places of rows in the order of these keys, the first key first; None: they are in order.

    Rows whose keys are equal stay in their order.
    """
    if are_ascending(*keys):
        return None
    least = [int(key.min()) for key in keys]
    packed = None
    if min(least) >= 0:
        packed = _packed(tuple(key - low for key, low in zip(keys, least, strict=True)))
    return np.lexsort(keys[::-1]) if packed is None else _order_of_numbers(packed)


def _order_of_numbers(numbers: Numbers) -> Numbers:
    """The places of numbers from 0 on in their order; equal ones stay in order.

    NumPy sorts numbers of 16 bits in one pass for each byte, and larger ones by comparing them.
    """
    order: Numbers = np.argsort(numbers.astype(np.uint16), kind="stable")
    for shift in range(16, int(numbers.max()).bit_length(), 16):
        digits = (numbers[order] >> shift).astype(np.uint16)
        order = order[np.argsort(digits, kind="stable")]
    return order


def are_ascending(*keys: Numbers) -> bool:
    """Whether rows are in the order of these keys, the first key first."""
    is_less = np.zeros(max(len(keys[0]) - 1, 0), np.bool_)
    is_equal = ~is_less
    for key in keys:
        before, after = key[:-1], key[1:]
        is_less |= is_equal & (before < after)
        is_equal &= before == after
    return bool((is_less | is_equal).all())


def integers(column: pa.ChunkedArray) -> Numbers:
    """The numbers of a column, NONE for null."""
    numbers: Numbers = pc.fill_null(column.cast(pa.int64()), NONE).to_numpy()
    return numbers


def milliseconds(column: pa.ChunkedArray) -> Numbers:
    """The times of a column in ms, rounded down, NONE for null."""
    us = integers(column.cast(TIME))
    return np.where(us == NONE, NONE, us // _US_PER_MS)


def nullable(values: Numbers) -> pa.Array:
    """Numbers, null for NONE."""
    return pa.array(values, mask=values == NONE)


def times_of(ms: Numbers) -> pa.Array:
    """Times in ms as TIME, null for NONE."""
    is_null = ms == NONE
    return pa.array(np.where(is_null, 0, ms) * _US_PER_MS, mask=is_null).cast(TIME)


def named(places: Numbers, names: pa.Array) -> pa.Array:
    """The names at these places, null for NONE."""
    is_null = places == NONE
    return names.take(pa.array(np.where(is_null, 0, places), mask=is_null))
