"""Rows of records that could not be read: segment files have them, where bytes are damaged.

A reader of files gives one record for each damaged range, with `control` = "damaged" and the reason
as its value. It is no record of the log: the fold sees a hole there, behind which the log is never
complete.
"""

from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.history.schema import GROUPS

if TYPE_CHECKING:
    from kohort.history.state import State

DAMAGED: Final = "damaged"
"""`control` of such a record, and the kind of its row."""


def split_damage(
    state: "State", records: pa.RecordBatch
) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The records to fold, and rows of `groups` for damaged ranges; None: there are none.

    `state` counts them as errors, and as gaps without an end.
    """
    is_damaged = pc.equal(records.column("control"), DAMAGED).fill_null(False)
    if not pc.any(is_damaged).as_py():
        return records, None
    damaged = records.filter(is_damaged)
    state.coverage.errors += damaged.num_rows
    for offset in damaged.column("offset").to_pylist():
        state.coverage.lose(offset)
    rows = [
        {
            "log_partition": state.log_partition,
            "log_offset": record["offset"],
            "type": "other",
            "error": (record["value"] or b"").decode(errors="replace"),
            "other": {"kind": DAMAGED},
        }
        for record in damaged.select(["offset", "value"]).to_pylist()
    ]
    return records.filter(pc.invert(is_damaged)), pa.RecordBatch.from_pylist(rows, GROUPS)
