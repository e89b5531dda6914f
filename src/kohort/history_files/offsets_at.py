"""The committed offsets of one group at a time, by rows of `commits`, with their certainty."""

from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.history.rows import rows_of
from kohort.history_files.certainty import UNKNOWN, Limits

Row: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, int]
"""Topic and partition."""
_KEY: Final = ["topic", "partition"]
COLUMNS: Final = (
    *_KEY, "in_force", "in_force_time", "log_offset", "committed", "metadata", "error",
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
    those in force before `cut` the one with the highest log offset is in force then. It is unknown
    if a record that cannot be decoded is behind it.
    """
    counted = commits.filter(pc.is_valid(commits["in_force"]))
    seen = counted.filter(pc.less(counted["in_force"], cut))
    totals = seen.group_by(_KEY).aggregate([("log_offset", "max"), ("log_offset", "count")])
    is_last = pc.is_in(seen["log_offset"], value_set=totals["log_offset_max"].combine_chunks())
    last = {row["log_offset"]: row for row in rows_of(seen.filter(is_last))}
    unreadable = _last_unreadable(commits.filter(pc.less(commits["log_offset"], cut)))
    later = {*unreadable, *map(_key, counted.group_by(_KEY).aggregate([]).to_pylist())}
    found = []
    for total in totals.to_pylist():
        key, offset = _key(total), total["log_offset_max"]
        later.discard(key)
        commit = last[offset]
        is_tombstone, behind = commit["committed"] is None, unreadable.get(key, -1)
        certainty = limits.certainty(offset, is_tombstone=is_tombstone, unreadable=behind)
        if certainty is not None:
            known = None if certainty == UNKNOWN else commit
            found.append(OffsetAt(*key, certainty, known, total["log_offset_count"]))
    for key in later:
        certainty = limits.certainty(None, unreadable=unreadable.get(key, -1))
        if certainty is not None:
            found.append(OffsetAt(*key, certainty, None, 0))
    return sorted(found, key=lambda offset: (offset.topic, offset.partition))


def _last_unreadable(commits: pa.Table) -> dict[Key, int]:
    """Partition → log offset of its last record that cannot be decoded."""
    rows = commits.filter(pc.is_valid(commits["error"])).group_by(_KEY)
    last = rows.aggregate([("log_offset", "max")]).to_pylist()
    return {_key(row): row["log_offset_max"] for row in last}


def _key(row: Row) -> Key:
    return row["topic"], row["partition"]
