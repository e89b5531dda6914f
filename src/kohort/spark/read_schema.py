"""The schemas of reads and writes in Spark's types."""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kohort.errors import ConfigError
from kohort.spark.options import ReadOptions

HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)

_READ: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)


_BATCH_FIELDS: Final = [
    StructField("batchOffset", LongType()),
    StructField("partitionLeaderEpoch", IntegerType()),
    StructField("producerId", LongType()),
    StructField("producerEpoch", ShortType()),
    StructField("transactional", BooleanType()),
    StructField("control", StringType()),
]
"""As `columnar.schema.BATCH_FIELDS`."""


_RANGES: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("start", LongType()),
        StructField("end", LongType()),
        StructField("topicId", StringType()),
    ]
)
"""Columns of `readRanges`, as `ranges.range_row`."""


def read_schema(*, include_headers: bool, include_batch_fields: bool = False) -> StructType:
    """The columns of Spark's Kafka source, and those of the records' batches."""
    headers = [StructField("headers", HEADERS)] if include_headers else []
    batch_fields = _BATCH_FIELDS if include_batch_fields else []
    return StructType([*_READ.fields, *headers, *batch_fields])


def columns_of(options: ReadOptions) -> StructType:
    """The columns of a read with these options."""
    if options.read_ranges:
        return _RANGES
    return read_schema(
        include_headers=options.include_headers,
        include_batch_fields=options.include_batch_fields,
    )


def validate_read_schema(schema: StructType, options: ReadOptions) -> None:
    """Raise ConfigError if `.schema(…)` was called with other columns, as Spark's source does."""
    expected = columns_of(options)
    if schema != expected:
        raise ConfigError(
            f"the columns of a topic are fixed, leave .schema(…) out: {expected.simpleString()}"
        )
