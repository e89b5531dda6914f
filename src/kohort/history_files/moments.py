"""What tables were at a time: how a row is cut that ended later, and times as users write them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from kohort.errors import ConfigError
from kohort.history_files.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Cut:
    """A table at an offset of its log partition: rows are seen that begin before it."""

    begins: str
    """Column with the offset at which a row begins."""
    ends: str | None = None
    """Column with the offset at which it ends; None: rows have no end."""
    unknown: tuple[str, ...] = ()
    """Columns that are null if a row ends at the offset or later."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Columns with another value then."""


_OF_COMMITS: Final = (
    "in_force", "in_force_time", "previous", "previous_time", "advance", "kind", "cause",
    "certainty",
)  # fmt: skip
CUTS: Final[Mapping[str, Cut]] = {
    # A transaction that ended later was open.
    "commits": Cut("log_offset", "in_force", _OF_COMMITS, {"txn": "open"}),
    "groups": Cut("log_offset"),
    "generations": Cut(
        "log_offset", "ended_offset", ("ended", "ended_offset"), {"ended_by": "open"}
    ),
    "rebalances": Cut(
        "log_offset", "ended_offset", ("ended_offset", "converge_ms", "standstill_ms")
    ),
    "members": Cut("from_offset", "to_offset", ("to", "to_offset", "ended_by")),
    "assignments": Cut("from_offset", "to_offset", ("to", "to_offset")),
    "minutes": Cut("log_offset"),
}

COUNTS: Final = (
    "bytes", "batches", "records", "control_records", "holes", "open_transactions", "errors",
)  # fmt: skip
"""Columns of `coverage` that count what there is up to its end."""


def parse_moment(moment: str | datetime) -> datetime:
    """A time in UTC. Raises ConfigError for one without a zone."""
    try:
        time = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    except ValueError:
        raise ConfigError(
            f"{moment}: is not a time in ISO 8601 with a zone, such as 2026-01-31T10:42Z"
        ) from None
    if time.tzinfo is None:
        raise ConfigError(
            f"{moment}: has no zone; write {time.isoformat()}Z for UTC, or {time.isoformat()}+01:00"
        )
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ConfigError(f"{moment}: is not in the years 1 to 9999 in UTC") from None


def validate_kept(snapshot: Snapshot, time: datetime) -> None:
    """Raise ConfigError for a time of which rows were removed."""
    removed = snapshot.removed_until_ms
    if removed is not None and time.timestamp() * 1000 < removed:
        until = datetime.fromtimestamp(removed / 1000, UTC).isoformat(timespec="seconds")
        raise ConfigError(
            f"{time.isoformat()}: rows before {until} were removed by --keep, so this time is "
            "not known any more"
        )
