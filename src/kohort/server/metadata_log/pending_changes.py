"""The changes of this node that may yet be lost, and how each is undone: of whichever log."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kohort.errors import fresh
from kohort.server.metadata import MetadataImage, MetadataRecord, TopicDeleted, TopicRecord

_FAILURES_KEPT: Final = 16
"""Failures whose changes are told apart; between two of them the storage has worked again."""


@dataclass(frozen=True, slots=True)
class Change:
    """Records that were replayed together."""

    number: int
    records: Sequence[MetadataRecord]
    undo: Sequence[MetadataRecord]
    """Replayed in this order, they restore the image as it was before."""


class PendingChanges:
    """Changes are numbered from 1 on, and settled in this order: they are durable, or undone."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._pending: deque[Change] = deque()
        self._undone: list[tuple[range, OSError]] = []
        """Numbers of changes that were undone, and why; oldest first."""
        self.last = 0
        """Number of the latest change."""
        self.settled = 0
        """Number of the latest change that is settled."""

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def first(self) -> Change | None:
        """The oldest change that is not settled."""
        return self._pending[0] if self._pending else None

    def __contains__(self, change: Change) -> bool:
        return change in self._pending

    def affects(self, subjects: set[object], of: Callable[[MetadataRecord], set[object]]) -> bool:
        """Whether a change that is not settled is `of` one of these subjects."""
        records = (record for change in self._pending for record in change.records)
        return any(not subjects.isdisjoint(of(record)) for record in records)

    def make(self, records: Sequence[MetadataRecord]) -> None:
        """Replay the records as one change."""
        undo: list[MetadataRecord] = []
        for record in records:
            undo += reversed(self._image.inverse(record))
            self._image.replay(record)
        self.last += 1
        self._pending.append(Change(self.last, records, undo[::-1]))

    def settle(self, number: int) -> None:
        """All changes up to this one are durable."""
        self.settled = max(self.settled, number)
        while self._pending and self._pending[0].number <= number:
            self._pending.popleft()

    def undo(self, error: OSError) -> list[UUID]:
        """Have the image as if no change had been made that is not settled.

        `error` is raised to those who wait for one. Returns the ids of the topics that were
        changed.
        """
        undo = [record for change in reversed(self._pending) for record in change.undo]
        if self._pending:
            self._note(range(self.settled + 1, self.last + 1), error)
        self._pending.clear()
        self.settled = self.last
        for record in undo:
            self._image.replay(record)
        return [each.id for each in undo if isinstance(each, TopicRecord | TopicDeleted)]

    def _note(self, undone: range, error: OSError) -> None:
        self._undone.append((undone, error))
        if len(self._undone) > _FAILURES_KEPT:
            # The oldest ones become one, with all between them: nobody waits for those any more.
            (first, _), (second, why) = self._undone[:2]
            self._undone[:2] = [(range(first.start, second.stop), why)]

    async def kept(self, change: int | None, write: Callable[[], Awaitable[None]]) -> None:
        """Return when that change, or every change made by now, is settled by calls of `write`.

        Raises OSError if it was undone.
        """
        first = self.settled + 1 if change is None else change
        awaited = range(first, (self.last if change is None else change) + 1)
        while awaited and self.settled < awaited[-1]:
            await write()
        for undone, error in self._undone:
            if undone.start < awaited.stop and awaited.start < undone.stop:
                raise fresh(error)
