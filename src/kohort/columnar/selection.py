"""Which batches of a Fetch response count: not markers, not what was aborted, not what nobody asked
for.

A Fetch response under `read_committed` names the transactions of its range that were aborted, each
by its producer id and first offset. Their records come all the same, and the reader leaves them
out: from the first offset on, every transactional batch of that producer, up to the producer's
ABORT marker (Kafka's CompletedFetch).
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from kohort.columnar import kernels
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol import batches
from kohort.protocol.batches import ABORT_KEY, CONTROL, HEADER_SIZE, TRANSACTIONAL, Buffer

Table: TypeAlias = Any
"""int64, one row per batch, the columns of `kernels`."""

Aborted: TypeAlias = tuple[int, int]
"""Producer id and first offset of an aborted transaction."""

_TYPICAL_BATCH = 4096


def scan(data: Any) -> Table:
    """The headers of the whole batches in `data`, a uint8 array.

    Raises KafkaError CORRUPT_MESSAGE where there is no batch of format v2.
    """
    table = np.empty((len(data) // _TYPICAL_BATCH + 64, kernels.BATCH_COLUMNS), np.int64)
    found = kernels.scan(data, table)
    if found > len(table):
        table = np.empty((found, kernels.BATCH_COLUMNS), np.int64)
        found = kernels.scan(data, table)
    if found < 0:
        raise KafkaError(ErrorCode.corrupt_message, f"no record batch at position {-1 - found}")
    return table[:found]


def select(
    table: Table, data: Buffer, from_offset: int, to_offset: int, aborted: Iterable[Aborted]
) -> Table:
    """The rows of `table` whose batches may hold records to read. Raises KafkaError
    CORRUPT_MESSAGE.
    """
    counted = (table[:, kernels.ATTRIBUTES] & CONTROL) == 0
    counted &= table[:, kernels.LAST_OFFSET] >= from_offset
    counted &= table[:, kernels.BASE_OFFSET] < to_offset
    counted &= table[:, kernels.COUNT] != 0  # compaction may have emptied a batch
    if left_out := sorted(aborted, key=lambda transaction: transaction[1]):
        counted &= ~_aborted(table, data, left_out)
    return table[counted]


def _aborted(table: Table, data: Buffer, transactions: list[Aborted]) -> Any:
    """Which batches belong to `transactions`, which are in the order of their first offsets."""
    found = np.zeros(len(table), bool)
    active: set[int] = set()
    begun = 0
    columns = [
        kernels.ATTRIBUTES,
        kernels.LAST_OFFSET,
        kernels.PRODUCER_ID,
        kernels.POSITION,
        kernels.SIZE,
    ]
    for row, (attributes, last_offset, producer_id, position, size) in enumerate(
        table[:, columns].tolist()
    ):
        while begun < len(transactions) and transactions[begun][1] <= last_offset:
            active.add(transactions[begun][0])
            begun += 1
        if attributes & CONTROL:
            if producer_id in active and _is_abort(memoryview(data)[position : position + size]):
                active.remove(producer_id)
        elif attributes & TRANSACTIONAL:
            found[row] = producer_id in active
    return found


def _is_abort(batch: memoryview) -> bool:
    header = batches.read_header(batch)
    if header.record_count < 1 or len(batch) <= HEADER_SIZE:
        return False
    marker = next(iter(batches.decode_records(batch)))
    return marker.key == ABORT_KEY
