"""Encodes Arrow columns as the records of batches, for a producer.

    rows = Rows.of(record_batch, now)                  # columns key, value, headers, timestamp
    chosen = partitions_of(rows, 6, None, filled=0, stay_bytes=262_144)
    for batch in encode(rows, chosen, batch_size=262_144, max_size=1_048_576): …

The batches have no header, are uncompressed, and have deltas from 0, as `Producer.send_encoded`
needs. They share their memory, so each is valid until the next one is produced: new memory for each
would cost more than encoding it.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.columnar import encoding_kernels as kernels
from kohort.errors import ErrorCode, KafkaError

Array: TypeAlias = Any

_NO_BYTES: Final = np.empty(0, np.uint8)
_NO_NUMBERS: Final = np.empty(0, np.int32)


class Strings(NamedTuple):
    """A column of byte strings, as the kernels take it."""

    data: Array
    ends: Array
    nulls: Array

    @classmethod
    def of(cls, column: pa.Array) -> Self:
        """From a string or binary column, with slices and nulls; only the nulls are copied."""
        if pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type):
            column = column.cast(pa.binary())
        data = column.buffers()[2]
        return cls(
            _NO_BYTES if data is None else np.frombuffer(data, np.uint8),
            _ends(column),
            _nulls(column),
        )

    @classmethod
    def none(cls, rows: int) -> Self:
        """A column of nulls."""
        return cls(_NO_BYTES, np.zeros(rows + 1, np.int32), np.ones(rows, np.uint8))


def _ends(column: pa.Array) -> Array:
    buffer, first = column.buffers()[1], column.offset
    if buffer is None or not len(column):
        return np.zeros(len(column) + 1, np.int32)
    return np.frombuffer(buffer, np.int32)[first : first + len(column) + 1]


def _nulls(column: pa.Array) -> Array:
    if not column.null_count:
        return _NO_BYTES
    return pc.is_null(column).to_numpy(zero_copy_only=False).view(np.uint8)


class Headers(NamedTuple):
    """A column of lists of (name, content)."""

    ends: Array
    nulls: Array
    names: Strings
    contents: Strings

    @classmethod
    def of(cls, column: pa.Array) -> Self:
        """Raises KafkaError INVALID_RECORD if a header has no name."""
        entries = column.values
        names = entries.field(0)
        if names.null_count or entries.null_count:
            raise KafkaError(
                ErrorCode.invalid_record, ("a header has no key; only its value may be null")
            )
        return cls(_ends(column), _nulls(column), Strings.of(names), Strings.of(entries.field(1)))


_NO_STRINGS: Final = Strings(_NO_BYTES, _NO_NUMBERS, _NO_BYTES)
_NO_HEADERS: Final = Headers(_NO_NUMBERS, _NO_BYTES, _NO_STRINGS, _NO_STRINGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Records to be, in columns."""

    keys: Strings
    values: Strings
    timestamps: Array
    """int64, ms."""
    headers: Headers

    @classmethod
    def of(cls, batch: pa.RecordBatch, now: int) -> Self:
        """From the column `value`, and `key`, `headers` and `timestamp` if present.

        A null timestamp becomes `now` (ms). Raises KafkaError INVALID_RECORD.
        """
        names, count = set(batch.schema.names), batch.num_rows
        return cls(
            keys=Strings.of(batch["key"]) if "key" in names else Strings.none(count),
            values=Strings.of(batch["value"]),
            timestamps=_milliseconds(batch["timestamp"], now)
            if "timestamp" in names
            else np.full(count, now),
            headers=Headers.of(batch["headers"]) if "headers" in names else _NO_HEADERS,
        )

    def __len__(self) -> int:
        return len(self.timestamps)


def _milliseconds(column: pa.Array, now: int) -> Array:
    microseconds = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    return np.floor_divide(microseconds.fill_null(now * 1000).to_numpy(zero_copy_only=False), 1000)


def partitions_of(
    rows: Rows, partitions: int, column: pa.Array | None, *, filled: int, stay_bytes: int
) -> Array:
    """The partition of each row, int32: the `column` one, else by its key, as Java's producer does.

    Rows with neither go to partition `filled`, and to the next one after each `stay_bytes` of
    values (KIP-794).
    """
    if column is None:
        chosen = np.full(len(rows), -1, np.int32)
    else:
        chosen = column.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False).copy()
    if kernels.partition_keys(*rows.keys, partitions, chosen):
        free = np.flatnonzero(chosen < 0)
        sizes = np.diff(rows.values.ends)[free].astype(np.int64)
        chosen[free] = (filled + (np.cumsum(sizes) - sizes) // stay_bytes) % partitions
    return chosen


@dataclass(frozen=True, slots=True)
class Encoded:
    """The records of one batch."""

    partition: int
    records: memoryview
    count: int
    base_timestamp: int
    max_timestamp: int


def encode(rows: Rows, chosen: Array, *, batch_size: int, max_size: int) -> Iterator[Encoded]:
    """Batches of at most `batch_size` bytes, of one partition each, in the order of its rows.

    The partitions take turns, as a request has at most one batch of each.
    A record that is larger gets a batch of its own. Raises KafkaError MESSAGE_TOO_LARGE if it
    exceeds `max_size`, as no batch does.
    """
    totals = np.zeros(kernels.ENCODED_TOTALS, np.int64)
    ordinary = out = np.empty(min(batch_size, max_size), np.uint8)
    waiting = deque(_grouped(chosen))
    while waiting:
        partition, of_partition = waiting.popleft()
        while (written := _write(of_partition, rows, out, totals)) < 0:
            _validate_size(partition, -written, max_size)
            out = np.empty(-written, np.uint8)
        size, latest = totals.tolist()
        first = int(rows.timestamps[of_partition[0]])
        yield Encoded(partition, out.data[:size], written, first, latest)
        out = ordinary
        if written < len(of_partition):
            waiting.append((partition, of_partition[written:]))


def _validate_size(partition: int, size: int, most: int) -> None:
    if size > most:
        raise KafkaError(
            ErrorCode.message_too_large,
            f"a record for partition {partition} takes {size} bytes, and {most} are "
            "allowed (max.request.size)",
        )


def _write(of_partition: Array, rows: Rows, out: Array, totals: Array) -> int:
    headers = rows.headers
    return int(
        kernels.write_records(
            of_partition, rows.timestamps, *rows.keys, *rows.values,
            headers.ends, headers.nulls, headers.names.data, headers.names.ends, *headers.contents,
            out, totals,
        )
    )  # fmt: skip


def _grouped(chosen: Array) -> Iterator[tuple[int, Array]]:
    """The rows of each partition, in their order."""
    if not len(chosen):
        return
    order = np.argsort(chosen, kind="stable")
    ordered = chosen[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1)).tolist()
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(ordered[start]), order[start:end]
