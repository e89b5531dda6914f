"""The state of the fold of one log partition between two calls."""

import pickle
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from kohort.errors import KohortError
from kohort.history.interface import Owner
from kohort.history.schema import COVERAGE, TABLES


@dataclass(slots=True)
class Slot:
    """One partition of one group."""

    committed: int | None = None
    log_offset: int = -1
    time: int | None = None
    gaps: list[int] = field(default_factory=list)
    owner: Owner | None = None
    minute: dict[str, Any] | None = None

    def forget(self) -> None:
        self.committed, self.time, self.gaps = None, None, []


@dataclass
class State:
    """What the fold knows at `next_offset`."""

    log_partition: int
    next_offset: int = 0
    first: int | None = None
    size: int = 0
    batches: int = 0
    batch_offset: int | None = None
    records: int = 0
    control_records: int = 0
    first_hole: int | None = None
    complete_from: int | None = None
    complete_from_time: int | None = None
    holes: int = 0
    errors: int = 0
    first_time: int | None = None
    last_time: int | None = None
    seen: set[bytes] = field(default_factory=set)
    slots: dict[tuple[str, str, int], Slot] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)
    pending: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def new(cls, log_partition: int) -> "State":
        """Of a log partition of which nothing has been read."""
        return cls(log_partition)

    def open_rows(self) -> dict[str, pa.RecordBatch]:
        """Rows that have not ended: with null ends; commits of open transactions."""
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        rows["commits"] = [row for pending in self.pending.values() for row in pending]
        rows["minutes"] = [
            minute_row(self.log_partition, key, slot.minute)
            for key, slot in self.slots.items()
            if slot.minute is not None
        ]
        return {
            name: pa.RecordBatch.from_pylist(rows[name], schema) for name, schema in TABLES.items()
        }

    def coverage(self) -> pa.RecordBatch:
        """The row of `coverage`."""
        row = {name: getattr(self, name) for name in COVERAGE.names if hasattr(self, name)}
        row |= {"bytes": self.size, "end": self.next_offset, "open_transactions": len(self.pending)}
        return pa.RecordBatch.from_pylist([row], COVERAGE)

    def to_arrow(self) -> bytes:
        """All of it, for `from_arrow`."""
        return pickle.dumps(vars(self))

    @classmethod
    def from_arrow(cls, data: bytes) -> "State":
        """The state that `to_arrow` wrote. Raises KohortError if it is damaged."""
        try:
            return cls(**pickle.loads(data))  # the state is our own file
        except Exception as error:
            raise KohortError(f"damaged state: {error}") from error


def minute_row(
    log_partition: int, key: tuple[str, str, int], minute: dict[str, Any]
) -> dict[str, Any]:
    group, topic, partition = key
    named = {"group": group, "topic": topic, "partition": partition}
    row = {"log_partition": log_partition, **named, **minute}
    return row | {"minute": minute["minute"] * 60_000_000}
