"""The pending ids of a shard: on which connections they are awaited, and their memory."""

from collections.abc import Iterator
from typing import Final

from kohort.coordinator.classic import Group
from kohort.coordinator.pending_members import PendingMember
from kohort.types import ConnectionId

PENDING_OVERHEAD: Final = 1_000
"""Memory of a pending id beside its strings: its timer and its places in tables."""


class ReservedMemberIds:
    """The ids that the groups of a shard have handed out, and that have not joined yet.

    Kafka keeps all until their session timeout. Here the oldest are forgotten when they take too
    much memory. A client that joins with a forgotten id gets UNKNOWN_MEMBER_ID, and requests
    another.
    """

    __slots__ = ("_awaiting", "_pending", "bytes")

    def __init__(self) -> None:
        self._awaiting: dict[ConnectionId, frozenset[str]] = {}
        """Connection → groups that wait for an id which was handed out by it."""
        self._pending: dict[str, tuple[str, int]] = {}
        """Pending id → its group and its memory, oldest first."""
        self.bytes = 0
        """Memory of all of them."""

    def note_awaiting(self, group: Group, connection: ConnectionId) -> None:
        """The group has handed out an id on this connection, or a client has joined with one."""
        groups = self._awaiting.get(connection, frozenset())
        if connection is not None and group.pending.awaits(connection):
            self._awaiting[connection] = groups | {group.id}
        elif group.id in groups:
            self._awaiting[connection] = groups - {group.id}
            if len(groups) == 1:
                del self._awaiting[connection]

    def connection_closed(self, connection: ConnectionId) -> list[str]:
        """The groups that waited for an id which was handed out on it, and no longer do."""
        return sorted(self._awaiting.pop(connection, ()))

    def add(
        self, group: Group, pending: PendingMember, most_bytes: int
    ) -> Iterator[tuple[str, str]]:
        """Note an id; yields group and member id of those to forget, for `most_bytes` of memory.

        From now on it is told of the ids of this group that are no longer pending.
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
            self._pending = {}  # a dict keeps the memory of entries that it once had
