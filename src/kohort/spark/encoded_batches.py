"""Record batches as rows of Arrow, in which tasks of an exactly-once write hand them over.

Encoding and compression take most of the time of a write. All tasks do that in parallel; the
process that sends for them only moves bytes.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]

from kohort.protocol.compression import Buffer, compress
from kohort.spark.write_options import WriteOptions
from kohort.spark.write_rows import by_topic, validate_partitions
from kohort.types import TopicPartition

if TYPE_CHECKING:  # the process that sends needs no encoder
    from kohort.columnar.encoding import Encoded
    from kohort.spark.row_sender import RowEncoder

RecordBatch: TypeAlias = Any

_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("records", pa.large_binary()),
        ("size", pa.int64()),
        ("rows", pa.int32()),
        ("base_timestamp", pa.int64()),
        ("max_timestamp", pa.int64()),
    ]
)


class EncodedBatch(NamedTuple):
    """A batch without a header, whose records are compressed."""

    topic: str
    partition: int
    records: Buffer
    size: int
    """Of the records, uncompressed."""
    rows: int
    base_timestamp: int
    """ms, also of `max_timestamp`."""
    max_timestamp: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def pack(encoder: "RowEncoder", options: WriteOptions, rows: RecordBatch) -> RecordBatch:
    """The rows as encoded batches.

    Raises ConfigError for rows that lead nowhere, KafkaError, GaveUpError.
    """
    encoded = [
        EncodedBatch(
            topic,
            batch.partition,
            compress(options.codec, batch.records),
            len(batch.records),
            batch.count,
            batch.base_timestamp,
            batch.max_timestamp,
        )
        for topic, of_topic in by_topic(rows, options.topic)
        for batch in _encoded(encoder, topic, of_topic)
    ]
    columns = zip(*encoded, strict=True) if encoded else [()] * len(_SCHEMA)
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)],
        schema=_SCHEMA,
    )


def _encoded(encoder: "RowEncoder", topic: str, rows: RecordBatch) -> "Iterator[Encoded]":
    if "partition" in rows.schema.names:
        validate_partitions(topic, rows, encoder.count)
    return encoder.encode(topic, rows)


def unpack(batches: Iterable[RecordBatch]) -> Iterator[EncodedBatch]:
    """The batches that `pack` packed; their records are views of it."""
    for batch in batches:
        columns = [
            map(_view, column) if pa.types.is_large_binary(column.type) else column.to_pylist()
            for column in batch.columns
        ]
        yield from map(EncodedBatch._make, zip(*columns, strict=True))


def _view(value: Any) -> memoryview:
    return memoryview(value.as_buffer()).toreadonly()
