"""The last record that was read, by which a later build finds out whether the log still has it.

Compaction removes records and rewrites their batches, but changes no record. So a log that has
another record at the offset was cut back, and has grown again since.
"""

from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import xxhash

from kohort.columnar.damaged_batches import DAMAGED
from kohort.history.record_table import column


class LastRecord(NamedTuple):
    """A record by its offset and content."""

    offset: int
    time: int | None
    """In µs."""
    digest: int
    """XXH3-64 of key and value."""

    def is_other_than(self, records: pa.RecordBatch) -> bool:
        """Whether `records` has another one at the offset. If it has none, compaction took it."""
        is_there = pc.equal(column(records, "offset"), self.offset)
        is_damaged = pc.equal(column(records, "control"), DAMAGED).fill_null(False)
        found = records.filter(pc.and_not(is_there, is_damaged))
        return bool(found.num_rows) and last_record(found) != self


def last_record(records: pa.RecordBatch) -> LastRecord:
    """The last one of `schema.RECORDS`, of which there is one at least."""
    key, value, offset, time = (
        column(records, name)[-1] for name in ("key", "value", "offset", "timestamp")
    )
    content = repr((key.as_py(), value.as_py())).encode()
    return LastRecord(offset.as_py(), time.value, xxhash.xxh3_64_intdigest(content))
