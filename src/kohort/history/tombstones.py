"""Why offsets were deleted: their tombstones do not say, but what is around them does.

The first that fits:

| evidence | cause |
|---|---|
| all offsets that the group lost in the batch were as old as the retention | expired |
| the batch has the group's tombstone too | group deleted |
| members subscribe to the topic, or other groups lose it within 10 s | topic deleted |
| else | offsets deleted |

So the rows of tombstones wait until 10 s of the log's time have passed.
"""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kohort.history.arrow_columns import joined
from kohort.history.schema import COMMITS

_TOGETHER_US: Final = 10_000_000
"""A topic's offsets are deleted in all groups within this time."""
Batch: TypeAlias = int
"""`LogPosition.batch`."""


class Tombstone(NamedTuple):
    """The deletion of an offset, and evidence of its cause."""

    log_offset: int
    topic: str
    is_aged: bool | None
    """Whether its offset was as old as the retention; None: there was none."""
    is_subscribed: bool
    is_certain: bool


@dataclass(slots=True)
class _Deletion:
    """All tombstones of a group in one batch, within 10 s."""

    log_time: int
    """Of the first one, in µs."""
    tombstones: list[Tombstone] = field(default_factory=list)
    has_group: bool = False
    """Whether the group's tombstone is there too."""

    def is_over(self, log_time: int) -> bool:
        """Whether it has no more records from this time of the log on: its cause can be decided."""
        return self.log_time + _TOGETHER_US < log_time

    @property
    def is_expired(self) -> bool:
        deleted = [each.is_aged for each in self.tombstones if each.is_aged is not None]
        return bool(deleted) and all(deleted)


class Tombstones:
    """Rows of tombstones whose cause is not decided yet."""

    def __init__(self) -> None:
        self.rows: pa.RecordBatch = pa.RecordBatch.from_pylist([], COMMITS)
        self._deletions: dict[tuple[str, Batch], _Deletion] = {}
        self._over: list[tuple[str, _Deletion]] = []
        """Of batches that went on for more than 10 s."""
        self._lost: dict[str, dict[tuple[str, int], None]] = {}
        """Topic → the groups that lost it, with the time."""

    def add(self, group: str, batch: Batch, log_time: int, tombstone: Tombstone) -> None:
        """`log_time`: of the log at the tombstone, in µs."""
        deletion = self._current(group, batch, log_time)
        if deletion is None:
            former = self._deletions.get((group, batch))
            if former is not None:
                self._over.append((group, former))
            deletion = self._deletions[group, batch] = _Deletion(log_time)
        deletion.tombstones.append(tombstone)
        self._lost.setdefault(tombstone.topic, {})[group, log_time] = None

    def _current(self, group: str, batch: Batch, log_time: int) -> _Deletion | None:
        """The deletion of which a record at this time may be a part.

        It depends on the log alone, not on when causes were resolved.
        """
        deletion = self._deletions.get((group, batch))
        return None if deletion is None or deletion.is_over(log_time) else deletion

    def delete_group(self, group: str, batch: Batch, log_time: int) -> None:
        """The batch has the group's own tombstone."""
        deletion = self._current(group, batch, log_time)
        if deletion is not None:
            deletion.has_group = True

    def are_expired(self, group: str, batch: Batch) -> bool | None:
        """Whether all offsets that were deleted with the group had expired; None: there were none.

        `delete_group` was called for this batch.
        """
        deletion = self._deletions.get((group, batch))
        return deletion.is_expired if deletion is not None and deletion.has_group else None

    def resolve(self, rows: pa.RecordBatch, log_time: int) -> pa.RecordBatch:
        """Add rows, whose cause is null. Returns the rows whose cause is decided now, with it.

        `log_time`: at the last record that was folded.
        """
        over = self._over + [
            (group, deletion)
            for (group, _), deletion in self._deletions.items()
            if deletion.is_over(log_time)
        ]
        causes = {
            tombstone.log_offset: self._cause(group, deletion, tombstone)
            for group, deletion in over
            for tombstone in deletion.tombstones
        }
        self._over = []
        self._deletions = {
            key: deletion
            for key, deletion in self._deletions.items()
            if not deletion.is_over(log_time)
        }
        self.forget(log_time)
        rows = joined([self.rows, rows])
        if not causes:
            self.rows = rows
            return rows.slice(0, 0)
        offsets = rows.column("log_offset").to_numpy()
        is_resolved = np.isin(offsets, np.fromiter(causes, np.int64, len(causes)))
        self.rows = rows.filter(pa.array(~is_resolved))
        resolved = rows.filter(pa.array(is_resolved))
        index = resolved.schema.get_field_index("cause")
        column = pa.array([causes[at] for at in offsets[is_resolved].tolist()], pa.string())
        return resolved.set_column(index, resolved.schema.field(index), column)

    def _cause(self, group: str, deletion: _Deletion, tombstone: Tombstone) -> str | None:
        if not tombstone.is_certain:
            return None
        if deletion.is_expired:
            return "expired"
        if deletion.has_group:
            return "group deleted"
        others = (
            abs(time - deletion.log_time) <= _TOGETHER_US
            for other, time in self._lost.get(tombstone.topic, ())
            if other != group
        )
        return "topic deleted" if tombstone.is_subscribed or any(others) else "offsets deleted"

    def forget(self, log_time: int) -> None:
        """Forget the deletions that no cause depends on any more, at this time of the log."""
        for topic, groups in list(self._lost.items()):
            kept = {key: None for key in groups if key[1] >= log_time - 2 * _TOGETHER_US}
            if kept:
                self._lost[topic] = kept
            else:
                del self._lost[topic]

    def dump(self) -> dict[str, Any]:
        """All but `rows`, as JSON has it."""
        deletions = [
            [group, batch, each.log_time, each.has_group, sorted(each.tombstones)]
            for (group, batch), each in sorted(self._deletions.items())
        ]
        lost = {topic: sorted(groups) for topic, groups in sorted(self._lost.items())}
        return {"deletions": deletions, "lost": lost}

    @classmethod
    def load(cls, data: dict[str, Any], rows: pa.RecordBatch) -> "Tombstones":
        loaded = cls()
        loaded.rows = rows
        for group, batch, log_time, has_group, tombstones in data["deletions"]:
            loaded._deletions[group, batch] = _Deletion(
                log_time, [Tombstone(*each) for each in tombstones], has_group
            )
        for topic, groups in data["lost"].items():
            loaded._lost[topic] = dict.fromkeys((group, time) for group, time in groups)
        return loaded
