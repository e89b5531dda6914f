"""The names of the topics to which the members of a group subscribe.

Members mostly subscribe to the same names. Equal subscriptions are stored as one object, and their
names counted once: a member with a thousand topics costs as much as a member with one.
"""

from collections import Counter
from collections.abc import Collection, Iterable, KeysView
from typing import TypeAlias

Names: TypeAlias = tuple[str, ...]
"""Names to which one member subscribes, sorted, without duplicates."""


class _Subscription:
    __slots__ = ("members", "names")

    def __init__(self, names: Names) -> None:
        self.names = names
        self.members = 0
        """Number of members that subscribe to exactly these names."""


class Subscriptions:
    """The subscriptions of a group's members by name."""

    __slots__ = ("_by_names", "_counts", "names", "size")

    def __init__(self) -> None:
        self._by_names: dict[Names, _Subscription] = {}
        self._counts: Counter[str] = Counter()
        """Name → number of different subscriptions with it."""
        self.names: KeysView[str] = self._counts.keys()
        """All names; a live view."""
        self.size = 0
        """Number of names in all different subscriptions."""

    def one_of(self, names: Names) -> Names:
        """The stored object of these names; the given one if no member has them."""
        subscription = self._by_names.get(names)
        return names if subscription is None else subscription.names

    def add(self, names: Names) -> Names:
        """Add the subscription of a member. Returns the stored object of its names."""
        subscription = self._by_names.get(names)
        if subscription is None:
            subscription = self._by_names[names] = _Subscription(names)
            self._counts.update(names)
            self.size += len(names)
        subscription.members += 1
        return subscription.names

    def remove(self, names: Names) -> None:
        """Remove the subscription of a member."""
        subscription = self._by_names[names]
        subscription.members -= 1
        if not subscription.members:
            del self._by_names[names]
            subtract(self._counts, names)
            self.size -= len(names)

    def after(self, leaving: Iterable[Names], joining: Names = ()) -> Collection[str]:
        """All names after members with these subscriptions leave, and perhaps one joins.

        Returns `names` itself if that changes nothing. The subscriptions of `leaving` must be
        objects that `add` returned.
        """
        leaving = [names for names in leaving if names is not self.one_of(joining)]
        leaving_counts = Counter(map(id, leaving))
        names_by_id = {id(names): names for names in leaving}
        lost = [
            names_by_id[id_]
            for id_, count in leaving_counts.items()
            if count == self._by_names[names_by_id[id_]].members
        ]
        counts = Counter(name for names in lost for name in names)
        removed = {name for name, count in counts.items() if count == self._counts[name]}
        removed.difference_update(joining)
        if not removed and self.names >= set(joining):
            return self.names
        return (self.names - removed).union(joining)


def subtract(counter: "Counter[str]", items: Iterable[str]) -> None:
    """Count items down, and remove zero counts: clients choose names, which must not accumulate."""
    counter.subtract(items)
    for item in items:
        if counter[item] <= 0:
            del counter[item]
