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


BATCH_FIELDS: Final = [
    pa.field("batchOffset", pa.int64()),
    pa.field("partitionLeaderEpoch", pa.int32()),
    pa.field("producerId", pa.int64()),
    pa.field("producerEpoch", pa.int16()),
    pa.field("transactional", pa.bool_()),
    pa.field("control", pa.string()),
]
"""The fields of a record's batch. `batchOffset` is the base offset of the batch.

`producerId` and `producerEpoch` are null unless the producer was idempotent. `control` is null for
a record of data, "commit" or "abort" for the end of a transaction, else "other".
"""


def record_schema(*, include_headers: bool, include_batch_fields: bool = False) -> pa.Schema:
    """The schema of `decode`'s result."""
    schema = RECORDS_WITH_HEADERS if include_headers else RECORDS
    return pa.schema([*schema, *BATCH_FIELDS]) if include_batch_fields else schema
