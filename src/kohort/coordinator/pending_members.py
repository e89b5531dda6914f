"""Pending members: ids assigned with MEMBER_ID_REQUIRED that have not joined yet (KIP-394)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kohort.types import ConnectionId, Instant


@dataclass(slots=True)
class PendingMember:
    """A pending id, and the client that got it."""

    member_id: str
    client_id: str
    connection: ConnectionId
    timer: Instant
    """Time at which the id expires unless it has joined."""


class PendingMembers:
    """The pending ids of one group; the join phase waits for the awaited ones.

    Every id stays valid until its timer fires. An id is no longer awaited when its client
    disconnects, or requests another id because it did not get the first. A thousand ids may be
    pending at once, so only `clear` loops over them.
    """

    __slots__ = ("_awaited", "_members", "on_removal")

    def __init__(self) -> None:
        self._members: dict[str, PendingMember] = {}
        self._awaited: dict[ConnectionId, dict[str, str]] = {}
        """Connection → client id → the awaited id of this client."""
        self.on_removal: Callable[[str], None] = _ignore
        """Called with each id that is no longer pending."""

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def get(self, member_id: str) -> PendingMember | None:
        """The pending id, None if it is not pending."""
        return self._members.get(member_id)

    def add(self, pending: PendingMember) -> None:
        """Add an id; an earlier one of the same client and connection is no longer awaited."""
        self._members[pending.member_id] = pending
        self._awaited.setdefault(pending.connection, {})[_asker(pending)] = pending.member_id

    def pop(self, member_id: str) -> PendingMember | None:
        """Remove an id that joined, left or expired; None if it is not pending."""
        pending = self._members.pop(member_id, None)
        if pending is not None:
            own_ids = self._awaited.get(pending.connection, {})
            asker = _asker(pending)
            if own_ids.get(asker) == member_id:
                del own_ids[asker]
                if not own_ids:
                    del self._awaited[pending.connection]
            self.on_removal(member_id)
        if not self._members:
            self.clear()  # frees the memory that a dict keeps for removed entries
        return pending

    def clear(self) -> None:
        for member_id in self._members:
            self.on_removal(member_id)
        self._members.clear()
        self._awaited.clear()

    @property
    def any_awaited(self) -> bool:
        """Whether any id is awaited."""
        return bool(self._awaited)

    def awaited(self) -> Iterator[PendingMember]:
        """The ids that the join phase waits for."""
        for own_ids in self._awaited.values():
            for member_id in own_ids.values():
                yield self._members[member_id]

    def awaits(self, connection: ConnectionId) -> bool:
        """Whether an id that was assigned on this connection is awaited."""
        return connection in self._awaited

    def connection_closed(self, connection: ConnectionId) -> None:
        """Stop awaiting the ids that were assigned on this connection."""
        self._awaited.pop(connection, None)


def _ignore(_: str) -> None:
    pass


def _asker(pending: PendingMember) -> str:
    # Requests without a connection cannot be matched with earlier ones.
    return pending.member_id if pending.connection is None else pending.client_id
