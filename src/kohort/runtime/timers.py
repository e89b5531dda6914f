"""The timers of many shards in one heap."""

import heapq
from collections.abc import Hashable, Iterator
from itertools import count
from typing import Final, Generic, TypeAlias, TypeVar

from kohort.types import Instant

K = TypeVar("K", bound=Hashable)
_Entry: TypeAlias = tuple[Instant, int, K]
"""Deadline, sequence number, key."""

SKIP_CHUNK: Final = 1_000
"""Maximum number of stale entries that one call removes, in some milliseconds."""
_SWEEP_CHUNK: Final = 8


class TimerHeap(Generic[K]):
    """Keys with a deadline each, as a heap; a moved or cancelled key leaves a stale entry.

    Stale entries are skipped when due. Once they outnumber the live ones, each `set` removes some.
    So memory is proportional to the number of timers, and no call takes long.
    """

    def __init__(self) -> None:
        self._heap: list[_Entry[K]] = []
        self._swept: list[_Entry[K]] = []
        """The old heap during a sweep; its live entries move to the first heap."""
        self._live: dict[K, int] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._live)

    @property
    def entries(self) -> int:
        """Number of entries, including stale ones."""
        return len(self._heap) + len(self._swept)

    def __iter__(self) -> Iterator[K]:
        return iter(self._live)

    def deadlines(self) -> Iterator[tuple[K, Instant]]:
        """All timers, in no order."""
        for entry in (*self._heap, *self._swept):
            if self._is_live(entry):
                yield entry[2], entry[0]

    def set(self, key: K, deadline: Instant) -> None:
        """Set or move a timer."""
        number = next(self._numbers)
        self._live[key] = number
        heapq.heappush(self._heap, (deadline, number, key))
        if self._swept:
            self._sweep_some()
        elif len(self._heap) > 2 * len(self._live) + 64:
            self._heap, self._swept = [], self._heap

    def cancel(self, key: K) -> None:
        """Cancel a timer, if it is set."""
        self._live.pop(key, None)

    def next_deadline(self) -> Instant | None:
        """Deadline of the next timer, None if no timer is set.

        May be earlier if more than `SKIP_CHUNK` stale entries come before it.
        """
        first = self._first()
        return None if first is None else first[0][0]

    def due(self, now: Instant) -> Iterator[K]:
        """Remove and yield the keys that are due, by deadline.

        Includes keys that are set during the iteration. Ends early at very many stale entries, for
        which `next_deadline` returns an earlier time.
        """
        while (first := self._first()) is not None and first[0][0] <= now:
            key = first[0][2]
            if not self._is_live(first[0]):
                return
            heapq.heappop(first)
            del self._live[key]
            yield key

    def _first(self) -> "list[_Entry[K]] | None":
        """The heap with the first entry, None without entries. Removes some stale entries."""
        for _ in range(SKIP_CHUNK):
            first = self._earlier()
            if first is None or self._is_live(first[0]):
                return first
            heapq.heappop(first)
        return self._earlier()

    def _earlier(self) -> "list[_Entry[K]] | None":
        if not self._heap or (self._swept and self._swept[0] < self._heap[0]):
            return self._swept or None
        return self._heap

    def _is_live(self, entry: "_Entry[K]") -> bool:
        return self._live.get(entry[2]) == entry[1]

    def _sweep_some(self) -> None:
        # A heap without its last entry is still a heap.
        for _ in range(min(_SWEEP_CHUNK, len(self._swept))):
            entry = self._swept.pop()
            if self._is_live(entry):
                heapq.heappush(self._heap, entry)
