"""The committed offsets of one group at a time, by rows of `commits`, with their certainty."""

from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.history.rows import rows_of
from kohort.history_files.certainty import UNKNOWN, Limits

Row: TypeAlias = dict[str, Any]
_KEY: Final = ["topic", "partition"]
COLUMNS: Final = (
    *_KEY, "in_force", "in_force_time", "log_offset", "committed", "metadata",
)  # fmt: skip
"""Those of `commits` that are needed."""


class OffsetAt(NamedTuple):
    """The offset of one partition at a cut."""

    topic: str
    partition: int
    certainty: str
    """exact | unknown"""
    commit: Row | None
    """The row of `commits` that was in force, with the columns that there are; None: unknown."""
    commits: int
    """How many commits before the cut the history has."""


def offsets_at(commits: pa.Table, cut: int, limits: Limits) -> list[OffsetAt]:
    """By topic and partition; those without an offset are left out.

    `commits`: those of the group in one log partition, in any order, also those from `cut` on. Of
    those in force before `cut` the one with the highest log offset is in force then.
    """
    counted = commits.filter(pc.is_valid(commits["in_force"]))
    seen = counted.filter(pc.less(counted["in_force"], cut))
    totals = seen.group_by(_KEY).aggregate([("log_offset", "max"), ("log_offset", "count")])
    is_last = pc.is_in(seen["log_offset"], value_set=totals["log_offset_max"].combine_chunks())
    last = {row["log_offset"]: row for row in rows_of(seen.filter(is_last))}
    found = []
    for total in totals.to_pylist():
        offset, count = total["log_offset_max"], total["log_offset_count"]
        commit = last[offset]
        certainty = limits.certainty(offset, is_tombstone=commit["committed"] is None)
        if certainty is not None:
            known = None if certainty == UNKNOWN else commit
            found.append(OffsetAt(*_key(total), certainty, known, count))
    if (certainty := limits.certainty(None)) is not None:
        earlier = set(map(_key, totals.to_pylist()))
        keys = map(_key, counted.group_by(_KEY).aggregate([]).to_pylist())
        found += [OffsetAt(*key, certainty, None, 0) for key in keys if key not in earlier]
    return sorted(found, key=lambda offset: (offset.topic, offset.partition))


def _key(row: Row) -> tuple[str, int]:
    return row["topic"], row["partition"]
