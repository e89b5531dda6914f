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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kohort.history.arrow_columns import joined
from kohort.history.schema import COMMITS
from kohort.history.topic_losses import TopicLosses

_TOGETHER_US: Final = 10_000_000
"""A topic's offsets are deleted in all groups within this time."""
_NO_ROWS: Final = pa.RecordBatch.from_pylist([], COMMITS)
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
    has_group: bool = False
    """Whether the group's tombstone is there too."""
    tombstones: list[Tombstone] = field(default_factory=list)
    aged: int = 0
    """How many deleted an offset that was as old as the retention."""
    young: int = 0

    def add(self, tombstones: Sequence[Tombstone]) -> None:
        self.tombstones += tombstones
        ages = [each.is_aged for each in tombstones]
        self.aged += ages.count(True)
        self.young += ages.count(False)

    def is_over(self, log_time: int) -> bool:
        """Whether it has no more records from this time of the log on: its cause can be decided."""
        return self.log_time + _TOGETHER_US < log_time

    @property
    def is_expired(self) -> bool:
        return self.aged > 0 and not self.young


class Tombstones:
    """Rows of tombstones whose cause is not decided yet.

    The time of the log never falls, so deletions end in the order in which they began, and each
    call looks at those only that end. Work is proportional to the number of tombstones.
    """

    def __init__(self) -> None:
        self._waiting: list[pa.RecordBatch] = []
        """Their rows, by log offset."""
        self._deletions: dict[tuple[str, Batch], _Deletion] = {}
        """In the order of their beginning."""
        self._over: list[tuple[str, _Deletion]] = []
        """Of batches that went on for more than 10 s."""
        self._lost = TopicLosses()

    @property
    def is_waiting(self) -> bool:
        """Whether there are rows whose cause is not decided."""
        return bool(self._waiting)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(rows.num_rows for rows in self._waiting)

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows whose cause is not decided, which is null there."""
        return joined(self._waiting or [_NO_ROWS])

    def add(self, group: str, batch: Batch, log_time: int, tombstones: Sequence[Tombstone]) -> None:
        """Add those of a group in a batch; `log_time`: of the log at them, in µs."""
        deletion = self._current(group, batch, log_time)
        if deletion is None:
            if (group, batch) in self._deletions:
                self._over.append((group, self._deletions.pop((group, batch))))
            deletion = self._begin(group, batch, _Deletion(log_time))
        deletion.add(tombstones)
        for topic in dict.fromkeys(each.topic for each in tombstones):
            self._lost.add(topic, group, log_time)

    def _begin(self, group: str, batch: Batch, deletion: _Deletion) -> _Deletion:
        self._deletions[group, batch] = deletion
        return deletion

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
        if rows.num_rows:
            self._waiting.append(rows)
        causes: dict[int, str | None] = {}
        for group, deletion in self._ended(log_time):
            causes.update(self._causes(group, deletion))
        self.forget(log_time)
        if not causes:
            return _NO_ROWS
        resolved = joined([_NO_ROWS, *self._take(np.sort(np.fromiter(causes, np.int64)))])
        index = resolved.schema.get_field_index("cause")
        offsets = resolved.column("log_offset").to_pylist()
        column = pa.array([causes[offset] for offset in offsets], pa.string())
        return resolved.set_column(index, resolved.schema.field(index), column)

    def _ended(self, log_time: int) -> list[tuple[str, _Deletion]]:
        """Take the deletions that are over."""
        over, self._over = self._over, []
        ended = []
        for key, deletion in self._deletions.items():
            if not deletion.is_over(log_time):
                break
            ended.append(key)
        return [*over, *((key[0], self._deletions.pop(key)) for key in ended)]

    def _take(self, log_offsets: Any) -> list[pa.RecordBatch]:
        """Take the waiting rows with these log offsets, which ascend."""
        taken, kept = [], []
        for rows in self._waiting:
            offsets = rows.column("log_offset").to_numpy()
            start, end = np.searchsorted(log_offsets, [offsets[0], offsets[-1] + 1])
            is_taken = np.isin(offsets, log_offsets[start:end], assume_unique=True)
            if is_taken.all():
                taken.append(rows)
            elif not is_taken.any():
                kept.append(rows)
            else:
                taken.append(rows.filter(pa.array(is_taken)))
                kept.append(rows.filter(pa.array(~is_taken)))
        self._waiting = kept
        return taken

    def _causes(self, group: str, deletion: _Deletion) -> Iterator[tuple[int, str | None]]:
        """The cause of each tombstone, by log offset."""
        of_all = "expired" if deletion.is_expired else None
        if deletion.has_group:
            of_all = of_all or "group deleted"
        around = deletion.log_time - _TOGETHER_US, deletion.log_time + _TOGETHER_US
        lost: dict[str, bool] = {}
        for each in deletion.tombstones:
            cause = of_all
            if cause is None:
                is_lost = each.is_subscribed or lost.get(each.topic)
                if is_lost is None:
                    is_lost = self._lost.has_other(each.topic, group, *around)
                    lost[each.topic] = is_lost
                cause = "topic deleted" if is_lost else "offsets deleted"
            yield each.log_offset, cause if each.is_certain else None

    def forget(self, log_time: int) -> None:
        """Forget the deletions that no cause depends on any more, at this time of the log."""
        self._lost.forget(log_time - 2 * _TOGETHER_US)

    def dump(self) -> dict[str, Any]:
        """All but `rows`, as JSON has it."""
        deletions = [
            [group, batch, each.log_time, each.has_group, each.tombstones]
            for (group, batch), each in self._deletions.items()
        ]
        return {"deletions": deletions, "lost": self._lost.dump()}

    @classmethod
    def load(cls, data: dict[str, Any], rows: pa.RecordBatch) -> "Tombstones":
        loaded = cls()
        loaded._waiting = [rows] if rows.num_rows else []
        for group, batch, log_time, has_group, tombstones in data["deletions"]:
            deletion = loaded._begin(group, batch, _Deletion(log_time, has_group))
            deletion.add([Tombstone(*each) for each in tombstones])
        loaded._lost = TopicLosses.load(data["lost"])
        return loaded
