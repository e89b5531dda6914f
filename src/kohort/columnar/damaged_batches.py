"""Record batches of which some are damaged: these are left out, and a row stands for each."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]

from kohort.columnar import kernels
from kohort.columnar.schema import record_schema
from kohort.columnar.selection import Table
from kohort.errors import KafkaError
from kohort.types import TopicPartition

DAMAGED: Final = "damaged"
"""`control` of a row that stands for records that cannot be read; its value is the reason."""
Decode: TypeAlias = Callable[[memoryview, int, int], Iterator[pa.RecordBatch]]
"""Decodes whole batches: the records with offsets from the first number to below the second."""


class Damage(NamedTuple):
    """A batch whose records are left out."""

    position: int
    """In the data."""
    start: int
    """The first offset that is lost."""
    end: int
    problem: str


def decode_each(
    data: memoryview,
    table: Table,
    start: int,
    end: int,
    decode: Decode,
    is_damage: Callable[[KafkaError], bool],
) -> Iterator[pa.RecordBatch | Damage]:
    """The records of the batches of `table` with offsets in [start, end), and damage between them.

    Raises what `decode` raises and is no damage.
    """
    columns = [kernels.POSITION, kernels.SIZE, kernels.LAST_OFFSET, kernels.BASE_OFFSET]
    for position, size, last_offset, base_offset in table[:, columns].tolist():
        if last_offset < start or base_offset >= end:
            continue
        stop = min(last_offset + 1, end)
        try:
            yield from decode(data[position : position + size], start, stop)
        except KafkaError as error:
            if not is_damage(error):
                raise
            problem = error.message or "a damaged batch"
            yield Damage(position, max(start, base_offset), stop, problem)
        start = max(start, stop)


def damaged_row(
    tp: TopicPartition, offset: int, text: str, *, include_headers: bool
) -> pa.RecordBatch:
    """The row that stands for lost records from `offset` on, with the fields of batches."""
    schema = record_schema(include_headers=include_headers, include_batch_fields=True)
    row = {
        "value": text.encode(),
        "topic": tp.topic,
        "partition": tp.partition,
        "offset": offset,
        "timestamp": -1_000,  # none
        "timestampType": 0,
        "batchOffset": offset,
        "partitionLeaderEpoch": -1,
        "transactional": False,
        "control": DAMAGED,
    }
    return pa.RecordBatch.from_pylist([row], schema)
