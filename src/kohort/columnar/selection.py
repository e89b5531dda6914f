"""Selects the batches of a Fetch response whose records are read.

Control batches, unless they are requested, batches of aborted transactions and batches outside the
range are left out; `protocol.aborted_transactions` decides about transactions.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from kohort.columnar import kernels
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.aborted_transactions import AbortedTransaction, AbortedTransactions
from kohort.protocol.batches import CONTROL, Buffer

Table: TypeAlias = Any
"""int64, one row per batch, the columns of `kernels`."""

_TYPICAL_BATCH = 4096
_FILTERED_BY = [kernels.ATTRIBUTES, kernels.PRODUCER_ID, kernels.LAST_OFFSET, kernels.POSITION]


def scan(data: Any) -> Table:
    """The headers of the whole batches in `data`, a uint8 array.

    Raises KafkaError CORRUPT_MESSAGE where there is no batch of format v2.
    """
    table, invalid = scan_valid(data)
    if invalid is not None:
        raise KafkaError(ErrorCode.corrupt_message, f"no record batch at position {invalid}")
    return table


def scan_valid(data: Any) -> tuple[Table, int | None]:
    """The headers of the leading whole batches in `data`, a uint8 array.

    The second value is the position behind them if there is no batch of format v2, else None.
    """
    table = np.empty((len(data) // _TYPICAL_BATCH + 64, kernels.BATCH_COLUMNS), np.int64)
    count = kernels.scan(data, table)
    if count < 0:
        return scan_valid(data[: -1 - count])[0], -1 - count
    if count > len(table):
        table = np.empty((count, kernels.BATCH_COLUMNS), np.int64)
        count = kernels.scan(data, table)
    return table[:count], None


def rising(table: Table, next_offset: int, limit: int) -> int:
    """The number of leading batches whose offsets rise from `next_offset` to below `limit`.

    Offsets are outside the CRC. Of two batches in the wrong order the first one is wrong if it has
    higher offsets, and the second one follows all before it.
    """
    first, last = table[:, kernels.BASE_OFFSET], table[:, kernels.LAST_OFFSET]
    ends = np.concatenate([[next_offset], last + 1])
    wrong = np.flatnonzero((last < first) | (last >= limit) | (first < ends[:-1]))
    if not len(wrong):
        return len(table)
    number = int(wrong[0])
    is_previous_wrong = (
        number > 0
        and ends[number - 1] <= first[number] < first[number - 1]
        and first[number] <= last[number] < limit
    )
    return number - 1 if is_previous_wrong else number


def select(
    table: Table,
    data: Buffer,
    from_offset: int,
    to_offset: int,
    aborted: Iterable[AbortedTransaction],
    *,
    include_control: bool = False,
) -> Table:
    """The rows of `table` whose batches may hold records to read.

    Raises KafkaError CORRUPT_MESSAGE or INVALID_RECORD if an abort marker cannot be read.
    """
    is_control = (table[:, kernels.ATTRIBUTES] & CONTROL) != 0
    counted = table[:, kernels.LAST_OFFSET] >= from_offset
    counted &= table[:, kernels.BASE_OFFSET] < to_offset
    counted &= table[:, kernels.COUNT] != 0  # compaction may have emptied a batch
    if transactions := tuple(aborted):
        counted &= ~_excluded(table, data, transactions) | is_control
    if not include_control:
        counted &= ~is_control
    return table[counted]


def _excluded(table: Table, data: Buffer, aborted: Iterable[AbortedTransaction]) -> Any:
    """Flags of the batches that are control batches or belong to `aborted` transactions."""
    transactions = AbortedTransactions(aborted)
    rows = table[:, _FILTERED_BY].tolist()
    excluded = [
        transactions.excludes(attributes, producer_id, last_offset, data, position)
        for attributes, producer_id, last_offset, position in rows
    ]
    return np.array(excluded, bool)
