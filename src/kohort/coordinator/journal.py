"""The journal of a group: one entry per rebalance, written when the round ends."""

from dataclasses import dataclass

from kohort.types import Timestamp


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of a rebalance, at its start or while it runs."""

    what: str
    """The kind of cause.

    One of: joined, left, expired, metadata changed, leader rejoined, sync timeout, replaced, loaded
    over capacity, downgraded (from a consumer group). Of consumer groups: joined, left, expired,
    subscription changed, assignor changed, topics changed, regular expression resolved.
    """
    member_id: str
    client_id: str = ""
    reason: str = ""
    """The member's own words (KIP-800), or the coordinator's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One round of a classic group, or one rebalance of a consumer group to its target."""

    group: str
    type: str = "classic"
    """The type of the group: classic | consumer."""
    generation: int
    """The new generation, -1 if the round was abandoned before the join phase ended.

    In a consumer group, the group epoch that its members reached.
    """
    causes: tuple[Cause, ...]
    outcome: str
    """stable | empty | disturbed (while syncing; another round follows) | lost (the append failed)
    | upgraded (to a consumer group) | downgraded (to a classic group)
    """
    started: Timestamp
    joined: Timestamp | None
    """End of the join phase; in a consumer group, time of the last computation of the target."""
    ended: Timestamp
    members: tuple[str, ...]
    more_causes: int = 0
    """Number of causes beyond the 32 in `causes`."""
    awaited: tuple[str, ...] = ()
    """Members that did not rejoin in the join phase."""

    @property
    def join_ms(self) -> int:
        """Duration of the join phase in ms."""
        return (self.ended if self.joined is None else self.joined) - self.started

    @property
    def sync_ms(self) -> int:
        """Duration of the sync phase in ms, 0 if it was not reached."""
        return 0 if self.joined is None else self.ended - self.joined

    @property
    def characters(self) -> int:
        """Total length of the strings of this entry."""
        return (
            len(self.group)
            + sum(
                len(cause.member_id) + len(cause.client_id) + len(cause.reason)
                for cause in self.causes
            )
            + sum(map(len, self.members))
            + sum(map(len, self.awaited))
        )
