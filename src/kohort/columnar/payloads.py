"""Payloads of selected batches: CRC-checked, decompressed, and combined for the kernel.

Uncompressed batches stay where they are. Compressed ones are decompressed into memory that each
thread keeps, because new memory for every 4 MiB would cost as much as decoding them.
"""

import threading
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from crc32c import crc32c

from kohort.columnar import kernels
from kohort.columnar.selection import Table
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.batch_format import ATTRIBUTES_AT, CODEC_BITS, HEADER_SIZE
from kohort.protocol.compression import Buffer, decompress

Array: TypeAlias = Any

_LEAST_RECORD: Final = 7
"""Bytes of a record with neither key, value nor headers."""


class Payload(NamedTuple):
    """Records of some batches: bytes, and the table of the batches with their positions in them."""

    data: Array
    batches: Table


class PayloadLimits(NamedTuple):
    """The size up to which batches are combined; a single batch may be larger."""

    rows: int
    size: int
    """Bytes, inflated."""


def as_bytes(data: Buffer) -> Array:
    """`data` as the array that kernels take: of bytes, and read-only."""
    array = np.frombuffer(data, np.uint8)
    array.flags.writeable = False
    return array


class _Scratch(threading.local):
    """Memory for decompressed records; it grows to the largest combined size."""

    def __init__(self) -> None:
        self._data: Array = np.empty(0, np.uint8)

    def put(self, at: int, records: Buffer) -> None:
        end = at + len(records)
        if end > len(self._data):
            larger = np.empty(max(end, 2 * len(self._data)), np.uint8)
            larger[:at] = self._data[:at]
            self._data = larger
        self._data[at:end] = np.frombuffer(records, np.uint8)

    def first(self, size: int) -> Array:
        return as_bytes(memoryview(self._data)[:size])


_scratch = _Scratch()


class _Together:
    """Batches that are being taken together; all compressed, or none."""

    def __init__(self, compressed: bool) -> None:
        self.compressed = compressed
        self.rows = self.size = 0
        self._batches: list[list[int]] = []

    def add(self, batch: list[int], records: Buffer) -> None:
        batch[kernels.SIZE] = len(records)
        if self.compressed:
            batch[kernels.POSITION] = self.size
            _scratch.put(self.size, records)
        else:
            batch[kernels.POSITION] += HEADER_SIZE
        self._batches.append(batch)
        self.rows += batch[kernels.COUNT]
        self.size += len(records)

    def payload(self, data: Array) -> Payload:
        """Good until the next batch is added in this thread."""
        return Payload(
            _scratch.first(self.size) if self.compressed else data,
            np.array(self._batches, np.int64),
        )


def payloads(
    data: Array, batches: Table, limits: PayloadLimits, *, check_crcs: bool
) -> Iterator[Payload]:
    """The records of `batches`, some batches at a time.

    Raises KafkaError: CORRUPT_MESSAGE if a batch is damaged or cannot hold its record count, and
    the errors of `decompress`.
    """
    view = memoryview(data)
    together = _Together(compressed=False)
    for batch in batches.tolist():
        records = _records_of(view, batch, check_crcs)
        compressed = bool(batch[kernels.ATTRIBUTES] & CODEC_BITS)
        fits = (
            together.rows + batch[kernels.COUNT] <= limits.rows
            and together.size + len(records) <= limits.size
        )
        if together.rows and (compressed != together.compressed or not fits):
            yield together.payload(data)
            together = _Together(compressed)
        together.compressed = compressed
        together.add(batch, records)
    if together.rows:
        yield together.payload(data)


def _records_of(view: memoryview, batch: list[int], check_crcs: bool) -> Buffer:
    start, end = batch[kernels.POSITION], batch[kernels.POSITION] + batch[kernels.SIZE]
    if check_crcs and crc32c(view[start + ATTRIBUTES_AT : end]) != batch[kernels.CRC]:
        raise corrupt(batch[kernels.BASE_OFFSET], "is not what its producer sent (CRC)")
    records = decompress(batch[kernels.ATTRIBUTES] & CODEC_BITS, view[start + HEADER_SIZE : end])
    if not 0 < batch[kernels.COUNT] * _LEAST_RECORD <= len(records):
        raise corrupt(
            batch[kernels.BASE_OFFSET],
            f"has not the {batch[kernels.COUNT]} records that its header says",
        )
    return records


def corrupt(base_offset: int, what: str) -> KafkaError:
    """The error of the batch at `base_offset`."""
    return KafkaError(ErrorCode.corrupt_message, f"the batch at offset {base_offset} {what}")
