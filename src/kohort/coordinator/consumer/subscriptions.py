"""The names of topics that the members of a group subscribe to.

Members mostly subscribe to the same names. Equal subscriptions are one object here, and their names
are counted once: a member of a thousand topics then costs as much as one of a single topic.
"""

from collections import Counter
from collections.abc import Collection, Iterable, KeysView
from typing import TypeAlias

Names: TypeAlias = tuple[str, ...]
"""Names that one member subscribes to, sorted, each once."""


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
        """Name → number of different subscriptions that have it."""
        self.names: KeysView[str] = self._counts.keys()
        """All names; they change with the subscriptions."""
        self.size = 0
        """Number of names in all different subscriptions."""

    def one_of(self, names: Names) -> Names:
        """The object that stands for these names here; the given one if no member has them."""
        subscription = self._by_names.get(names)
        return names if subscription is None else subscription.names

    def add(self, names: Names) -> Names:
        """A member subscribes; returns the object that stands for its names."""
        subscription = self._by_names.get(names)
        if subscription is None:
            subscription = self._by_names[names] = _Subscription(names)
            self._counts.update(names)
            self.size += len(names)
        subscription.members += 1
        return subscription.names

    def remove(self, names: Names) -> None:
        """A member subscribes no longer."""
        subscription = self._by_names[names]
        subscription.members -= 1
        if not subscription.members:
            del self._by_names[names]
            subtract(self._counts, names)
            self.size -= len(names)

    def after(self, leaving: Iterable[Names], joining: Names = ()) -> Collection[str]:
        """All names once members with these subscriptions are gone, and perhaps one is added.

        They are `names` itself if that makes no difference. The subscriptions of `leaving` are
        those that `add` returned.
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
    """Clients choose these names: those that no member has must not accumulate."""
    counter.subtract(items)
    for item in items:
        if counter[item] <= 0:
            del counter[item]
