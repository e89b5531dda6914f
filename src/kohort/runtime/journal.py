"""The latest rebalances of each group, in bounded memory."""

from collections import OrderedDict

from kohort.coordinator.journal import Rebalance


class Journal:
    """The latest rebalances of the groups that rebalanced last.

    Clients choose most strings in it, so `characters` bounds their total length. The groups with
    the oldest last rebalance lose their entries first.
    """

    def __init__(
        self, *, groups: int = 1_000, entries: int = 100, characters: int = 32 * 1024 * 1024
    ) -> None:
        self.characters = 0
        """Total length of all strings."""
        self._most_groups, self._most_entries, self._most_characters = groups, entries, characters
        # a deque takes 600 bytes, and most groups have few entries
        self._entries: OrderedDict[str, list[Rebalance]] = OrderedDict()

    def of(self, group_id: str) -> tuple[Rebalance, ...]:
        """The entries of a group, oldest first."""
        return tuple(self._entries.get(group_id, ()))

    def append(self, rebalance: Rebalance) -> None:
        """Add an entry, and remove the oldest ones beyond the bounds."""
        group_id = rebalance.group
        self._entries.setdefault(group_id, []).append(rebalance)
        self._entries.move_to_end(group_id)
        self.characters += rebalance.characters
        if len(self._entries[group_id]) > self._most_entries:
            self._remove_oldest(group_id)
        while len(self._entries) > self._most_groups or self.characters > self._most_characters:
            self._remove_oldest(next(iter(self._entries)))

    def _remove_oldest(self, group_id: str) -> None:
        entries = self._entries[group_id]
        self.characters -= entries.pop(0).characters
        if not entries:
            del self._entries[group_id]
