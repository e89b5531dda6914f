"""Decodes record batches of a Fetch response or a log to Arrow record batches.

The bytes are several consecutive batches, and maybe the start of one more, which is left out. Their
headers are read at once. Batches with requested records are checked against their CRC. Their
records are decompressed if necessary, and one loop of machine code writes them into Arrow's
buffers.

Batches are combined up to `max_rows` records or 4 MiB. So memory is bounded whatever the
compression ratio, and no column exceeds the 32-bit offsets of Arrow's (and Spark's) binary columns.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kohort.columnar import kernels
from kohort.columnar.columns import (
    Buffer,
    Variable,
    batch_field_columns,
    header_column,
    partition_column,
    topic_column,
)
from kohort.columnar.payloads import Payload, PayloadLimits, as_bytes, corrupt, payloads
from kohort.columnar.schema import RECORDS, record_schema
from kohort.columnar.selection import scan, select
from kohort.errors import KafkaError, KohortError
from kohort.protocol.aborted_transactions import AbortedTransaction
from kohort.protocol.compression import MAX_INFLATED
from kohort.protocol.compression import Buffer as Input

MAX_ROWS: Final = 50_000
"""Default number of rows of a record batch, the fastest for Spark."""
_TOGETHER: Final = PayloadLimits(MAX_ROWS, 4 * 1024 * 1024)
"""4 MiB fit into the processor's cache and the allocators' pools.

16 MiB take a tenth longer, 64 MiB many times.
"""
_END: Final = 2**63 - 1


class RecordRange(NamedTuple):
    """The records to read, and whether with headers and the fields of their batches."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    include_headers: bool
    include_batch_fields: bool

    def schema(self) -> pa.Schema:
        return record_schema(
            include_headers=self.include_headers, include_batch_fields=self.include_batch_fields
        )


def decode(
    data: Input,
    *,
    topic: str,
    partition: int,
    from_offset: int = 0,
    to_offset: int | None = None,
    include_headers: bool = False,
    include_batch_fields: bool = False,
    aborted: Iterable[AbortedTransaction] = (),
    check_crcs: bool = True,
) -> pa.RecordBatch:
    """`decode_batches`, as one record batch, without rows if there are none.

    Raises KohortError too, if a column of them is more than 2 GiB.
    """
    record_range = RecordRange(
        topic,
        partition,
        from_offset,
        _END if to_offset is None else to_offset,
        include_headers,
        include_batch_fields,
    )
    batches = list(_decode(data, record_range, aborted, _TOGETHER, check_crcs))
    if len(batches) == 1:
        return batches[0]
    schema = record_range.schema()
    together = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    if len(together) > 1:
        raise KohortError(
            f"{topic}-{partition}: more records than one record batch holds: use decode_batches"
        )
    return together[0] if together else pa.RecordBatch.from_pylist([], schema)


def decode_batches(
    data: Input,
    *,
    topic: str,
    partition: int,
    from_offset: int = 0,
    to_offset: int | None = None,
    include_headers: bool = False,
    include_batch_fields: bool = False,
    aborted: Iterable[AbortedTransaction] = (),
    check_crcs: bool = True,
    max_rows: int = MAX_ROWS,
    max_inflated: int = MAX_INFLATED,
) -> Iterator[pa.RecordBatch]:
    """The records of `data` with offsets in [from_offset, to_offset), `max_rows` at a time.

    Records of the `aborted` transactions (producer id, first offset), as a Fetch response under
    read_committed names them, are left out. So are control records, unless `include_batch_fields`
    adds the columns of `schema.BATCH_FIELDS`.

    Raises KafkaError: CORRUPT_MESSAGE if the bytes are damaged, MESSAGE_TOO_LARGE if a batch
    exceeds `max_inflated` bytes after decompression, UNSUPPORTED_COMPRESSION_TYPE.
    """
    record_range = RecordRange(
        topic,
        partition,
        from_offset,
        _END if to_offset is None else to_offset,
        include_headers,
        include_batch_fields,
    )
    limits = _TOGETHER._replace(rows=max_rows, inflated=max_inflated)
    for batch in _decode(data, record_range, aborted, limits, check_crcs):
        for start in range(0, batch.num_rows, max_rows):
            yield batch.slice(start, max_rows)


def _decode(
    data: Input,
    record_range: RecordRange,
    aborted: Iterable[AbortedTransaction],
    limits: PayloadLimits,
    check_crcs: bool,
) -> Iterator[pa.RecordBatch]:
    array = as_bytes(data)
    try:
        chosen = select(
            scan(array),
            data,
            record_range.from_offset,
            record_range.to_offset,
            aborted,
            include_control=record_range.include_batch_fields,
        )
        for payload in payloads(array, chosen, limits, check_crcs=check_crcs):
            yield _record_batch(payload, record_range)
    except KafkaError as error:
        raise KafkaError(
            error.code, (f"{record_range.topic}-{record_range.partition}: {error.message}")
        ) from None


def _record_batch(payload: Payload, record_range: RecordRange) -> pa.RecordBatch:
    data, batches = payload
    capacity, size = int(batches[:, kernels.COUNT].sum()), int(batches[:, kernels.SIZE].sum())
    offsets, timestamps, types = (
        Buffer(capacity, np.int64),
        Buffer(capacity, np.int64),
        Buffer(capacity, np.int32),
    )
    keys, values = Variable(capacity, size), Variable(capacity, size)
    headers_at = np.empty(capacity if record_range.include_headers else 0, np.int64)
    totals = np.zeros(kernels.TOTALS, np.int64)
    broken = kernels.read_records(
        data, batches, record_range.from_offset, record_range.to_offset, offsets.array,
        timestamps.array, types.array,
        keys.ends.array, keys.data.array, keys.validity.array,
        values.ends.array, values.data.array, values.validity.array, headers_at, totals,
    )  # fmt: skip
    if broken >= 0:
        raise corrupt(
            int(batches[broken, kernels.BASE_OFFSET]), "has other records than its header says"
        )
    rows, key_bytes, value_bytes, null_keys, null_values = totals[: kernels.HEADERS].tolist()
    columns = [
        keys.column(pa.binary(), rows, key_bytes, null_keys),
        values.column(pa.binary(), rows, value_bytes, null_values),
        topic_column(record_range.topic, rows),
        partition_column(record_range.partition, rows),
        offsets.numbers(pa.int64(), rows),
        timestamps.numbers(RECORDS.field("timestamp").type, rows),
        types.numbers(pa.int32(), rows),
    ]
    if record_range.include_headers:
        columns.append(header_column(data, headers_at[:rows], totals))
    if record_range.include_batch_fields:
        columns += batch_field_columns(batches, keys, rows)
    return pa.RecordBatch.from_arrays(columns, schema=record_range.schema())
