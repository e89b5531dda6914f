"""The order in which Kafka iterates over the members of a group.

Kafka keeps the members in a `TimelineHashMap`. It is iterated by slot, and within a slot the latest
insertion comes first. The slot is the top bits of a product of the hash. There are two slots at
first; they are doubled when needed, and never reduced. The order therefore depends on all writes: a
group that was loaded from a compacted log may have another order than before.
"""

from kohort.assignors.server.java_tables import DEFAULT_CAPACITY, by_bucket, grown, string_hash
from kohort.types import MemberId

_MULTIPLIER = 0x9E37_79B9_7F4A_7C15
_LONG = (1 << 64) - 1


class MemberTable:
    """Member ids in Kafka's order."""

    def __init__(self) -> None:
        self._hashes: dict[MemberId, int] = {}
        self._slot_bits = 1
        self._order: list[MemberId] | None = None

    def __len__(self) -> int:
        return len(self._hashes)

    def copy(self) -> "MemberTable":
        """A copy of the table."""
        copy = MemberTable()
        copy._hashes = self._hashes.copy()
        copy._slot_bits = self._slot_bits
        copy._order = self._order
        return copy

    def put(self, member_id: MemberId) -> None:
        """Insert or write a member.

        Must be called for every record with which Kafka calls `updateMember`: the member's
        metadata, its current assignment, and the latter's tombstone. Each may grow the table.
        """
        if 3 * (len(self._hashes) + 1) > 4 << self._slot_bits:
            self._slot_bits += 1
            self._order = None
        if member_id not in self._hashes:
            self._hashes[member_id] = string_hash(member_id)
            self._order = None

    def remove(self, member_id: MemberId) -> None:
        """Remove a member, if present."""
        if self._hashes.pop(member_id, None) is not None:
            self._order = None

    def order(self) -> list[MemberId]:
        """The members as Kafka iterates over them; callers must not change the list."""
        if self._order is None:
            shift = 64 - self._slot_bits
            slots = {
                member_id: (_signed(code) * _MULTIPLIER & _LONG) >> shift
                for member_id, code in self._hashes.items()
            }
            latest_first = reversed(slots)
            self._order = sorted(latest_first, key=slots.__getitem__)
        return self._order

    def assignment_order(
        self, updated: MemberId | None = None, replaced: MemberId | None = None
    ) -> list[MemberId]:
        """The members as Kafka passes them to an assignor.

        `updated` is the member whose request starts the computation; it may be new. `replaced` is
        the member whose instance id it takes over; it is left out.
        """
        inserted = dict.fromkeys(self.order())
        if updated is not None:
            inserted[updated] = None
        capacity = grown(DEFAULT_CAPACITY, len(inserted))
        if replaced is not None:
            inserted.pop(replaced, None)
        return by_bucket(inserted, self._hash, capacity)

    def _hash(self, member_id: MemberId) -> int:
        cached = self._hashes.get(member_id)
        return string_hash(member_id) if cached is None else cached


def _signed(code: int) -> int:
    return code - (1 << 32) if code >> 31 else code
