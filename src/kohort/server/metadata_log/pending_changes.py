"""The changes of this node that may yet be lost, and how each is undone: of whichever log."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kohort.errors import fresh
from kohort.server.metadata import MetadataImage, MetadataRecord, RemoveTopicRecord, TopicRecord

_MAX_FAILURES: Final = 16
"""Failures that are kept apart; between two of them the storage has worked again."""


@dataclass(frozen=True, slots=True)
class Change:
    """Records that were replayed together."""

    number: int
    records: Sequence[MetadataRecord]
    undo: Sequence[MetadataRecord]
    """Replayed in this order, they restore the image as it was before."""


class PendingChanges:
    """Changes are numbered from 1 on. In this order each is finished: it is durable, or undone."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._pending: deque[Change] = deque()
        self._failures: list[tuple[range, OSError]] = []
        """Numbers of changes that were undone, and why; oldest first."""
        self.last = 0
        """Number of the latest change."""
        self.last_finished = 0
        """Number of the latest change that is finished."""

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def first(self) -> Change | None:
        """The oldest change that is not finished."""
        return self._pending[0] if self._pending else None

    def __contains__(self, change: Change) -> bool:
        return change in self._pending

    def affects(self, subjects: set[object], of: Callable[[MetadataRecord], set[object]]) -> bool:
        """Whether a change that is not finished is `of` one of these subjects."""
        records = (record for change in self._pending for record in change.records)
        return any(not subjects.isdisjoint(of(record)) for record in records)

    def apply(self, records: Sequence[MetadataRecord]) -> None:
        """Replay the records as one change."""
        undo: list[MetadataRecord] = []
        for record in records:
            undo += reversed(self._image.inverse(record))
            self._image.replay(record)
        self.last += 1
        self._pending.append(Change(self.last, records, undo[::-1]))

    def mark_durable(self, number: int) -> None:
        """All changes up to this one are durable."""
        self.last_finished = max(self.last_finished, number)
        while self._pending and self._pending[0].number <= number:
            self._pending.popleft()

    def undo(self, error: OSError) -> list[UUID]:
        """Restore the image as it was before all changes that are not finished.

        Callers that wait for one get `error`. Returns the ids of the topics that were changed.
        """
        undo = [record for change in reversed(self._pending) for record in change.undo]
        if self._pending:
            self._record_failure(range(self.last_finished + 1, self.last + 1), error)
        self._pending.clear()
        self.last_finished = self.last
        for record in undo:
            self._image.replay(record)
        return [record.id for record in undo if isinstance(record, TopicRecord | RemoveTopicRecord)]

    def _record_failure(self, undone: range, error: OSError) -> None:
        self._failures.append((undone, error))
        if len(self._failures) > _MAX_FAILURES:
            # The two oldest ones are merged, with all between them: no caller waits for those.
            (first, _), (second, why) = self._failures[:2]
            self._failures[:2] = [(range(first.start, second.stop), why)]

    async def await_durable(self, change: int | None, write: Callable[[], Awaitable[None]]) -> None:
        """Call `write` until that change, or every change made by now, is finished.

        Raises OSError if it was undone.
        """
        first = self.last_finished + 1 if change is None else change
        awaited = range(first, (self.last if change is None else change) + 1)
        while awaited and self.last_finished < awaited[-1]:
            await write()
        for undone, error in self._failures:
            if undone.start < awaited.stop and awaited.start < undone.stop:
                raise fresh(error)
