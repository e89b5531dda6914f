"""The timers of many shards in one heap."""

import heapq
from collections.abc import Hashable, Iterator
from itertools import count
from typing import Generic, TypeVar

from kohort.types import Instant

K = TypeVar("K", bound=Hashable)


class TimerHeap(Generic[K]):
    """Keys with a deadline each, as a heap; a moved or cancelled key leaves a stale entry.

    Stale entries are skipped when due, and removed once they outnumber the live ones. Memory is
    thus proportional to the number of timers.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, int, K]] = []
        self._live: dict[K, int] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._live)

    @property
    def entries(self) -> int:
        """Number of entries held, stale ones included."""
        return len(self._heap)

    def __iter__(self) -> Iterator[K]:
        return iter(self._live)

    def set(self, key: K, deadline: Instant) -> None:
        """Set, or move, a timer."""
        number = next(self._numbers)
        self._live[key] = number
        heapq.heappush(self._heap, (deadline, number, key))
        if len(self._heap) > 2 * len(self._live) + 64:
            self._sweep()

    def cancel(self, key: K) -> None:
        self._live.pop(key, None)

    def next_deadline(self) -> Instant | None:
        """When the next timer is due, None if none is set."""
        while self._heap and self._live.get(self._heap[0][2]) != self._heap[0][1]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now: Instant) -> Iterator[K]:
        """Remove and yield the keys that are due, by deadline.

        Keys set during the iteration are included.
        """
        while True:
            deadline = self.next_deadline()
            if deadline is None or deadline > now:
                return
            key = heapq.heappop(self._heap)[2]
            del self._live[key]
            yield key

    def _sweep(self) -> None:
        self._heap = [entry for entry in self._heap if self._live.get(entry[2]) == entry[1]]
        heapq.heapify(self._heap)
