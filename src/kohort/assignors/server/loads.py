"""The subscribers of one topic by load, while partitions are added to them or removed from them.

Kafka's MemberAssignmentBalancer. The subscribers are sorted by load once. Both ends of this list
are ranges of members that have reached the same level: the next partition goes to each member of
the lower range in turn, or is removed from each member of the upper range in turn. When every
member of a range had its turn, its level changes by one, and the range grows by the members at this
level.
"""

from collections.abc import Iterable, Sequence


class Loads:
    """The next members to get and to lose a partition of a topic, by their loads."""

    def __init__(self, loads: Sequence[int], subscribers: Iterable[int]) -> None:
        """`loads`: load of every member by its number; the caller updates it after each step."""
        self._loads = loads
        self._sorted = sorted(subscribers, key=loads.__getitem__)
        """By load, then by number, as `subscribers` ascend."""
        least, most = loads[self._sorted[0]], loads[self._sorted[-1]]
        self._low_level, self._low_end, self._low_next = least - 1, 0, 0
        end = len(self._sorted)
        self._high_level, self._high_start, self._high_end = most + 1, end, end
        self._high_next = end - 1

    @property
    def balanced(self) -> bool:
        """Whether moving one more partition improves nothing."""
        return self._high_level - self._low_level <= 1

    def next_least_loaded(self) -> int:
        """The member that gets the next partition."""
        return self.least_loaded(1)[0]

    def least_loaded(self, count: int) -> list[int]:
        """The members that get the next `count` partitions, in turn."""
        lightest: list[int] = []
        while count:
            if self._low_next >= self._low_end:
                self._raise_low_level()
            members = self._sorted[self._low_next : min(self._low_end, self._low_next + count)]
            lightest += members
            self._low_next += len(members)
            count -= len(members)
        return lightest

    def _raise_low_level(self) -> None:
        self._low_level += 1
        while (
            self._low_end < len(self._sorted)
            and self._loads[self._sorted[self._low_end]] == self._low_level
        ):
            self._low_end += 1
        self._low_next = 0

    def next_most_loaded(self) -> int | None:
        """The member that loses the next partition; None if all are excluded."""
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_level = self._loads[self._sorted[self._high_start - 1]]
            else:
                self._high_level -= 1
            while (
                self._high_start > 0
                and self._loads[self._sorted[self._high_start - 1]] == self._high_level
            ):
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return None
        self._high_next -= 1
        return self._sorted[self._high_next + 1]

    def exclude_most_loaded(self) -> None:
        """Exclude the last most loaded member from now on: it has no partition to lose."""
        index, last = self._high_next + 1, self._high_end - 1
        self._sorted[index], self._sorted[last] = self._sorted[last], self._sorted[index]
        self._high_end = last
