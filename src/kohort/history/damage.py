"""Rows of records that could not be read, because bytes are damaged, or the log was cut back.

A reader gives one record for each damaged range, with `control` = "damaged" and the reason as its
value. It is no record of the log: the fold sees a hole there, behind which the log is never
complete.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.columnar.damaged_batches import DAMAGED
from kohort.history.schema import GROUPS

if TYPE_CHECKING:
    from kohort.history.state import State

REPLACED: Final = "replaced"
"""Kind of the row of a log that was cut back, and has grown again."""


def split_damage(
    state: "State", records: pa.RecordBatch
) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The records to fold, and rows of `groups` for damaged ranges; None: there are none.

    `state` counts them as errors, and as gaps without an end.
    """
    is_damaged = pc.equal(records.column("control"), DAMAGED).fill_null(False)
    if not pc.any(is_damaged).as_py():
        return records, None
    damaged = records.filter(is_damaged).select(["offset", "value"]).to_pylist()
    reasons = (
        (record["offset"], (record["value"] or b"").decode(errors="replace")) for record in damaged
    )
    return records.filter(pc.invert(is_damaged)), _lost(state, reasons, DAMAGED)


def lose_before(state: "State", offset: int, reason: str) -> pa.RecordBatch:
    """The row of `groups` for records before `offset` that the log has now, and were not read."""
    return _lost(state, [(offset, reason)], REPLACED)


def _lost(state: "State", reasons: Iterable[tuple[int, str]], kind: str) -> pa.RecordBatch:
    """A row for each offset from which on records are lost."""
    rows = []
    for offset, reason in reasons:
        state.coverage.errors += 1
        state.coverage.lose(offset)
        rows.append(
            {
                "log_partition": state.log_partition,
                "log_offset": offset,
                "type": "other",
                "error": reason,
                "other": {"kind": kind},
            }
        )
    return pa.RecordBatch.from_pylist(rows, GROUPS)
