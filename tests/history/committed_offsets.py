"""The offsets that were committed at a position of the log, from rows of `commits`."""

from collections.abc import Iterable
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str, int]
"""Group, topic, partition."""


def in_force(commits: Iterable[Row], end: int) -> dict[Key, Row]:
    """The row in force for each key before log offset `end`; keys that were deleted are left out.

    Of the records that count by then, that is the last one in the log. It may have been in force
    later than others: those were superseded when their transaction was committed.
    """
    last: dict[Key, Row] = {}
    for row in commits:
        if row["in_force"] is None or row["in_force"] >= end:
            continue
        key = row["group"], row["topic"], row["partition"]
        if key not in last or last[key]["log_offset"] < row["log_offset"]:
            last[key] = row
    return {key: row for key, row in last.items() if row["committed"] is not None}


def last_counted(commits: Iterable[Row]) -> dict[Key, Row]:
    """The row in force for each key at the end of the log, by the order in which they counted.

    The same as `in_force`, from other columns: rows that were superseded say so.
    """
    counted = [
        row for row in commits if row["in_force"] is not None and row["kind"] != "superseded"
    ]
    counted.sort(key=lambda row: (row["in_force"], row["log_offset"]))
    last = {(row["group"], row["topic"], row["partition"]): row for row in counted}
    return {key: row for key, row in last.items() if row["committed"] is not None}


def is_exact(coverage: Row, end: int) -> bool:
    """Whether a key without a row has no offset at this position: that of a record, or the end.

    At the first record behind a hole it may have had one. Otherwise only the keys that have a row
    are known: what compaction left of them was in force.
    """
    hole, complete = coverage["first_hole"], coverage["complete_from"]
    return hole is None or end < hole or (complete is not None and end >= complete)


def unreadable_keys(commits: Iterable[Row], end: int) -> set[Key]:
    """The keys whose last record before log offset `end` cannot be decoded, of those that count."""
    last: dict[Key, tuple[int, bool]] = {}
    for row in commits:
        is_error = row["error"] is not None
        at = row["log_offset"] if is_error else row["in_force"]
        if row["group"] is None or at is None or at >= end:
            continue
        key = row["group"], row["topic"], row["partition"]
        last[key] = max(last.get(key, (-1, False)), (row["log_offset"], is_error))
    return {key for key, (_, is_error) in last.items() if is_error}
