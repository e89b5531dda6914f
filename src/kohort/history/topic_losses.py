"""The groups that lost offsets of a topic within some seconds: a topic was deleted, if several did.

Entries come by time, which never falls. A topic's run of entries of one group is looked at as one,
so a question takes the logarithm of their number.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from typing import Final

_FEW: Final = 64
"""Forgotten entries that a list may have."""


class _Losses:
    """The losses of one topic, by time."""

    __slots__ = ("first", "groups", "run_starts", "times")

    def __init__(self) -> None:
        self.times: list[int] = []
        self.groups: list[str] = []
        self.run_starts: list[int] = []
        """Index of the first entry of the run of one group that an entry is in."""
        self.first = 0
        """Entries before it are forgotten."""

    def add(self, group: str, time: int) -> bool:
        """Whether it is a new entry."""
        at = len(self.times)
        goes_on = at > 0 and self.groups[-1] == group
        if goes_on and self.times[-1] == time:
            return False
        self.run_starts.append(self.run_starts[-1] if goes_on else at)
        self.times.append(time)
        self.groups.append(group)
        return True

    def has_other(self, group: str, since: int, until: int) -> bool:
        start = bisect_left(self.times, since, self.first)
        end = bisect_right(self.times, until, self.first)
        if start >= end:
            return False
        return self.groups[end - 1] != group or self.run_starts[end - 1] > start

    def entries(self) -> set[tuple[str, int]]:
        """(group, time)"""
        return set(zip(self.groups[self.first :], self.times[self.first :], strict=True))

    def forget(self, before: int) -> bool:
        """Forget what is before a time; whether nothing is left."""
        self.first = first = bisect_left(self.times, before, self.first)
        if first > max(_FEW, len(self.times) // 2):
            del self.times[:first], self.groups[:first]
            self.run_starts = [max(start - first, 0) for start in self.run_starts[first:]]
            self.first = 0
        return self.first == len(self.times)


class TopicLosses:
    """The losses of all topics. Times are of the log, in µs; a later call has no earlier one."""

    def __init__(self) -> None:
        self._topics: dict[str, _Losses] = {}
        self._entries: deque[tuple[int, str]] = deque()
        """(time, topic) of all entries, by time."""

    def add(self, topic: str, group: str, time: int) -> None:
        losses = self._topics.get(topic)
        if losses is None:
            losses = self._topics[topic] = _Losses()
        if losses.add(group, time):
            self._entries.append((time, topic))

    def has_other(self, topic: str, group: str, since: int, until: int) -> bool:
        """Whether another group than this lost the topic between two times, or at them."""
        losses = self._topics.get(topic)
        return losses is not None and losses.has_other(group, since, until)

    def forget(self, before: int) -> None:
        """Forget the losses before a time."""
        while self._entries and self._entries[0][0] < before:
            _, topic = self._entries.popleft()
            losses = self._topics.get(topic)
            if losses is not None and losses.forget(before):
                del self._topics[topic]

    def dump(self) -> dict[str, list[tuple[str, int]]]:
        """(group, time) of each topic, as JSON has it; sorted."""
        return {topic: sorted(losses.entries()) for topic, losses in sorted(self._topics.items())}

    @classmethod
    def load(cls, data: dict[str, list[tuple[str, int]]]) -> "TopicLosses":
        loaded = cls()
        entries = [
            (time, topic, group) for topic, entries in data.items() for group, time in entries
        ]
        for time, topic, group in sorted(entries):
            loaded.add(topic, group, time)
        return loaded
