"""Payloads of selected batches: CRC-checked, decompressed, and combined for the kernel.

Uncompressed batches stay where they are. Compressed ones are decompressed into memory that each
thread keeps, because new memory for every 4 MiB would cost as much as decoding them.
"""

import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from crc32c import crc32c

from kohort.columnar import kernels
from kohort.columnar.selection import Table
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.batch_format import ATTRIBUTES_AT, CODEC_BITS, HEADER_SIZE
from kohort.protocol.compression import MAX_INFLATED, Buffer, decompress

Array: TypeAlias = Any

_MIN_RECORD_BYTES: Final = 7
"""Bytes of a record with neither key, value nor headers."""
_CHECKED: Final = [kernels.POSITION, kernels.SIZE, kernels.CRC]


class Payload(NamedTuple):
    """Records of some batches: bytes, and the table of the batches with their positions in them."""

    data: Array
    batches: Table


class PayloadLimits(NamedTuple):
    """The size up to which batches are combined; a single batch may be larger."""

    rows: int
    size: int
    """Bytes, inflated."""
    inflated: int = MAX_INFLATED
    """Bytes of a single batch; beyond it, MESSAGE_TOO_LARGE. Below 2 GiB."""


def as_bytes(data: Buffer) -> Array:
    """`data` as the array that kernels take: of bytes, and read-only."""
    array = np.frombuffer(data, np.uint8)
    array.flags.writeable = False
    return array


class _Scratch(threading.local):
    """Memory for decompressed records; it grows to the largest combined size."""

    def __init__(self) -> None:
        self._data: Array = np.empty(0, np.uint8)

    def put(self, position: int, records: Buffer) -> None:
        end = position + len(records)
        if end > len(self._data):
            larger = np.empty(max(end, 2 * len(self._data)), np.uint8)
            larger[:position] = self._data[:position]
            self._data = larger
        self._data[position:end] = np.frombuffer(records, np.uint8)

    def first(self, size: int) -> Array:
        return as_bytes(memoryview(self._data)[:size])


_scratch = _Scratch()


class _Together:
    """Batches that are inflated and taken together."""

    def __init__(self) -> None:
        self.rows = self.size = 0
        self._batches: list[list[int]] = []

    def add(self, batch: list[int], records: Buffer) -> None:
        batch[kernels.POSITION], batch[kernels.SIZE] = self.size, len(records)
        self._batches.append(batch)
        _scratch.put(self.size, records)
        self.rows += batch[kernels.COUNT]
        self.size += len(records)

    def payload(self) -> Payload:
        """Valid until the next batch is added in this thread. Raises KafkaError CORRUPT_MESSAGE."""
        batches = np.array(self._batches, np.int64)
        _validate_counts(batches)
        return Payload(_scratch.first(self.size), batches)


def payloads(
    data: Array, batches: Table, limits: PayloadLimits, *, check_crcs: bool
) -> Iterator[Payload]:
    """The records of `batches`, some batches at a time.

    Raises KafkaError: CORRUPT_MESSAGE if a batch is damaged or cannot hold its record count, and
    the errors of `decompress`.
    """
    compressed = batches[:, kernels.ATTRIBUTES] & CODEC_BITS != 0
    changes = np.flatnonzero(np.diff(compressed)) + 1
    for start, end in pairwise([0, *changes.tolist(), len(batches)]):
        alike = batches[start:end]
        if start < end and compressed[start]:
            yield from _inflated(data, alike, limits, check_crcs)
        else:
            yield from _in_place(data, alike, limits, check_crcs)


def _in_place(
    data: Array, batches: Table, limits: PayloadLimits, check_crcs: bool
) -> Iterator[Payload]:
    """`payloads` of batches that are not compressed."""
    view = memoryview(data)
    records = batches.copy()
    records[:, kernels.POSITION] += HEADER_SIZE
    records[:, kernels.SIZE] -= HEADER_SIZE
    rows, sizes = np.cumsum(records[:, kernels.COUNT]), np.cumsum(records[:, kernels.SIZE])
    start = 0
    while start < len(batches):
        row = limits.rows + (rows[start - 1] if start else 0)
        size = limits.size + (sizes[start - 1] if start else 0)
        fit = np.searchsorted(rows, row, "right"), np.searchsorted(sizes, size, "right")
        end = max(int(min(fit)), start + 1)
        if check_crcs and not crcs_are_right(view, batches[start:end]):
            for batch in batches[start:end].tolist():
                _validate_crc(view, batch)
        _validate_counts(records[start:end])
        yield Payload(data, records[start:end])
        start = end


def _inflated(
    data: Array, batches: Table, limits: PayloadLimits, check_crcs: bool
) -> Iterator[Payload]:
    """`payloads` of batches that are compressed."""
    view = memoryview(data)
    together = _Together()
    for batch in batches.tolist():
        if check_crcs:
            _validate_crc(view, batch)
        if batch[kernels.COUNT] <= 0:
            raise _wrong_count(batch[kernels.BASE_OFFSET], batch[kernels.COUNT])
        start, end = batch[kernels.POSITION], batch[kernels.POSITION] + batch[kernels.SIZE]
        codec = batch[kernels.ATTRIBUTES] & CODEC_BITS
        records = decompress(codec, view[start + HEADER_SIZE : end], limits.inflated)
        is_within_limit = (
            together.rows + batch[kernels.COUNT] <= limits.rows
            and together.size + len(records) <= limits.size
        )
        if together.rows and not is_within_limit:
            yield together.payload()
            together = _Together()
        together.add(batch, records)
    if together.rows:
        yield together.payload()


def crcs_are_right(view: memoryview, batches: Table) -> bool:
    """Whether the CRCs of these batches in `view` match their bytes."""
    # Three lists: one for each batch would cost more than the CRCs of small batches.
    positions, sizes, crcs = batches[:, _CHECKED].T.tolist()
    return all(
        crc32c(view[position + ATTRIBUTES_AT : position + size]) == crc
        for position, size, crc in zip(positions, sizes, crcs, strict=True)
    )


def _validate_crc(view: memoryview, batch: list[int]) -> None:
    start, end = batch[kernels.POSITION], batch[kernels.POSITION] + batch[kernels.SIZE]
    if crc32c(view[start + ATTRIBUTES_AT : end]) != batch[kernels.CRC]:
        raise corrupt(batch[kernels.BASE_OFFSET], "is not what its producer sent (CRC)")


def _validate_counts(records: Table) -> None:
    counts, sizes = records[:, kernels.COUNT], records[:, kernels.SIZE]
    wrong = np.flatnonzero((counts <= 0) | (counts * _MIN_RECORD_BYTES > sizes))
    if len(wrong):
        raise _wrong_count(int(records[wrong[0], kernels.BASE_OFFSET]), int(counts[wrong[0]]))


def _wrong_count(base_offset: int, count: int) -> KafkaError:
    return corrupt(base_offset, f"has not the {count} records that its header says")


def corrupt(base_offset: int, problem: str) -> KafkaError:
    """The error of the batch at `base_offset`."""
    return KafkaError(ErrorCode.corrupt_message, f"the batch at offset {base_offset} {problem}")
