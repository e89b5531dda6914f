"""Arrow to record batches: rows to the payloads of batches, partition by partition, at native speed.

The partition of a row is what its `partition` column says, or else what its key says, as Java's producer has it
(murmur2); rows without a key of one Arrow batch all go to one partition, another one for the next. Payloads are not
compressed yet and have no header: whoever sends them gives them producer id and sequence.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kohort.columnar import encoding_kernels
from kohort.columnar.payloads import as_bytes

Array: TypeAlias = Any

_NOTHING: Final = as_bytes(b"")
_NO_ENDS: Final = np.frombuffer(b"", np.int32)


class Payload(NamedTuple):
    """The encoded records of one batch."""

    partition: int
    data: bytes
    count: int


class _Field(NamedTuple):
    """A column of byte strings as kernels take it."""

    validity: Array
    ends: Array
    data: Array


class Rows:
    """The columns of one Arrow batch, made ready."""

    def __init__(self, key: pa.Array | None, value: pa.Array, headers: pa.Array | None = None) -> None:
        """Binary or string columns; `headers` is a list of (string, binary)."""
        self._count = len(value)
        self._key = _field(pa.nulls(self._count, pa.binary()) if key is None else key)
        self._value = _field(value)
        self._header_ends = _NO_ENDS
        self._name = self._content = _Field(_NOTHING, _NO_ENDS, _NOTHING)
        if headers is not None and len(headers) > headers.null_count:
            # A null list has no entries, but its offsets may say otherwise.
            headers = pa.array(headers.to_pylist(), headers.type) if headers.null_count else headers
            self._header_ends = _ends(headers)
            entries = headers.values
            self._name = _field(entries.field(0))
            self._content = _field(entries.field(1))

    def partitions(self, count: int, without_key: int, given: pa.Array | None = None) -> Array:
        """The partition of each row, of `count`; `given` says it for rows where it is not null."""
        if given is None:
            found = np.full(self._count, -1, np.int64)
        else:
            found = np.array(given.cast(pa.int64()).fill_null(-1), np.int64)
        encoding_kernels.choose_partitions(*self._key, count, without_key, found)
        return found

    def payloads(self, partitions: Array, batch_size: int) -> Iterator[Payload]:
        """The records of each partition, in their order, `batch_size` bytes together or one alone that is larger."""
        order = np.argsort(partitions, kind="stable")
        ordered = partitions[order]
        cuts = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(ordered)]
        out = np.empty(batch_size, np.uint8)
        for start, end in pairwise(cuts):
            rows = order[start:end]
            rows.flags.writeable = False
            first = 0
            while first < len(rows):
                taken, used = self._encoded(rows, first, batch_size, out)
                if taken:
                    yield Payload(int(ordered[start]), out[:used].tobytes(), taken)
                    first += taken
                else:
                    out = np.empty(used, np.uint8)

    def _encoded(self, rows: Array, first: int, batch_size: int, out: Array) -> tuple[int, int]:
        used = np.zeros(1, np.int64)
        taken = encoding_kernels.encode_rows(
            rows, first, batch_size, *self._key, *self._value,
            self._header_ends, self._name.ends, self._name.data, *self._content, out, used,
        )  # fmt: skip
        return int(taken), int(used[0])


def _field(column: pa.Array) -> _Field:
    _, _, data = column.buffers()
    validity = _NOTHING
    if column.null_count:
        validity = column.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
        validity.flags.writeable = False
    return _Field(validity, _ends(column), _NOTHING if data is None else as_bytes(data))


def _ends(column: pa.Array) -> Array:
    buffer = column.buffers()[1]
    if buffer is None:
        ends = np.zeros(len(column) + 1, np.int32)
    else:
        ends = np.frombuffer(buffer, np.int32)[column.offset : column.offset + len(column) + 1]
    ends.flags.writeable = False
    return ends
