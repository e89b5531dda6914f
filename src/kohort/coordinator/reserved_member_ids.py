"""The pending ids of a shard, their connections, and their memory."""

from collections.abc import Iterator
from typing import Final

from kohort.coordinator.classic import Group
from kohort.coordinator.pending_members import PendingMember
from kohort.types import ConnectionId

PENDING_OVERHEAD: Final = 1_000
"""Memory of a pending id without its strings: timer and table entries."""


class ReservedMemberIds:
    """The assigned ids of all groups of a shard that have not joined yet.

    Kafka keeps all until their session timeout. Kohort removes the oldest when they use too much
    memory. A client that joins with a removed id gets UNKNOWN_MEMBER_ID, and requests another.
    """

    __slots__ = ("_awaiting", "_pending", "bytes")

    def __init__(self) -> None:
        self._awaiting: dict[ConnectionId, frozenset[str]] = {}
        """Connection → groups that await an id assigned on it."""
        self._pending: dict[str, tuple[str, int]] = {}
        """Pending id → group and memory, oldest first."""
        self.bytes = 0
        """Memory of all pending ids."""

    def note_awaiting(self, group: Group, connection: ConnectionId) -> None:
        """Update the awaiting groups of a connection after an id was assigned or has joined."""
        groups = self._awaiting.get(connection, frozenset())
        if connection is not None and group.pending.awaits(connection):
            self._awaiting[connection] = groups | {group.id}
        elif group.id in groups:
            self._awaiting[connection] = groups - {group.id}
            if len(groups) == 1:
                del self._awaiting[connection]

    def connection_closed(self, connection: ConnectionId) -> list[str]:
        """Remove a connection. Returns the groups that awaited an id assigned on it."""
        return sorted(self._awaiting.pop(connection, ()))

    def add(
        self, group: Group, pending: PendingMember, most_bytes: int
    ) -> Iterator[tuple[str, str]]:
        """Add an id; yields (group, member id) of ids to remove for at most `most_bytes` of memory.

        Registers for the removal of pending ids of this group.
        """
        size = PENDING_OVERHEAD + len(pending.member_id) + len(pending.client_id)
        if not pending.client_id.isascii():
            size *= 4
        self._pending[pending.member_id] = group.id, size
        self.bytes += size
        group.pending.on_removal = self._remove
        while self.bytes > most_bytes and len(self._pending) > 1:
            member_id, (oldest_group, _) = next(iter(self._pending.items()))
            self._remove(member_id)
            yield oldest_group, member_id

    def _remove(self, member_id: str) -> None:
        _, size = self._pending.pop(member_id, ("", 0))
        self.bytes -= size
        if not self._pending:
            self._pending = {}  # a dict keeps the memory of removed entries
