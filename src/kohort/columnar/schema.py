"""The columns of records: those of Spark's Kafka source, by its names and types."""

from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

RECORDS: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
)
"""`timestampType` is 0 for CreateTime, 1 for LogAppendTime.

A missing timestamp is -1 ms, as in Spark's source.
"""

RECORDS_WITH_HEADERS: Final = RECORDS.append(pa.field("headers", HEADERS))
"""`headers` is null where a record has none, as in Spark's source."""


def record_schema(*, include_headers: bool) -> pa.Schema:
    """The schema of `decode`'s result."""
    return RECORDS_WITH_HEADERS if include_headers else RECORDS
