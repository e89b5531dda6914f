"""The schemas of reads and writes in Spark's types."""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
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


def read_schema(*, include_headers: bool) -> StructType:
    """The columns of Spark's Kafka source."""
    return (
        StructType([*_READ.fields, StructField("headers", HEADERS)]) if include_headers else _READ
    )


def validate_read_schema(schema: StructType, options: ReadOptions) -> None:
    """Raise ConfigError if `.schema(…)` was called with other columns, as Spark's source does."""
    expected = read_schema(include_headers=options.include_headers)
    if schema != expected:
        raise ConfigError(
            f"the columns of a topic are fixed, leave .schema(…) out: {expected.simpleString()}"
        )
