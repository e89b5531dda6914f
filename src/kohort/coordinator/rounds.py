"""A round: the soft state of one rebalance, from its first cause to the leader's assignment.

It has two phases. In the join phase JoinGroup requests are parked until every member has sent one,
or until the timeout; its end starts the next generation. In the sync phase SyncGroup requests of
followers are parked until the leader sends the assignment. If a round is disturbed in the sync
phase, a new round continues from its generation. As in Kafka, a round that was never synced is not
logged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kohort.coordinator.journal import Cause, Rebalance
from kohort.types import Instant, OnResponse, Timestamp

MAX_CAUSES: Final = 32


@dataclass(slots=True)
class InitialDelay:
    """Initial delay of an empty group's first round, extended while members join (KIP-134)."""

    delay_ms: int
    """Length of the running part."""
    remaining_ms: int
    """Remaining time by which it may be extended."""
    new_member_added: bool = False


@dataclass(slots=True, kw_only=True)
class Round:
    generation: int
    """In the join phase the previous generation, used by heartbeats and commits; then the new."""
    protocol_type: str
    leader: str | None
    started: Instant
    causes: list[Cause] = field(default_factory=list)
    more_causes: int = 0
    initial: InitialDelay | None = None
    joins: dict[str, OnResponse] = field(default_factory=dict)
    """Member id → its parked JoinGroup."""
    protocol: str | None = None
    """The protocol; in the join phase, that of the previous generation."""
    joined: Instant | None = None
    syncs: dict[str, OnResponse] = field(default_factory=dict)
    """Member id → its parked SyncGroup."""
    awaited: tuple[str, ...] = ()
    """Members that did not rejoin in the join phase."""

    @property
    def joining(self) -> bool:
        return self.joined is None

    def note(self, causes: Sequence[Cause]) -> None:
        """Keep the first causes and count the rest: each of a thousand members may add a cause."""
        noted = causes[: max(MAX_CAUSES - len(self.causes), 0)]
        self.causes += noted
        self.more_causes += len(causes) - len(noted)

    def ended(
        self, group: str, outcome: str, members: tuple[str, ...], now: Instant, timestamp: Timestamp
    ) -> Rebalance:
        """The journal entry, dated by `timestamp`, with durations of the monotonic clock."""
        ahead = timestamp - now
        return Rebalance(
            group=group,
            generation=-1 if self.joining else self.generation,
            causes=tuple(self.causes),
            more_causes=self.more_causes,
            outcome=outcome,
            started=Timestamp(self.started + ahead),
            joined=None if self.joined is None else Timestamp(self.joined + ahead),
            ended=timestamp,
            members=members,
            awaited=self.awaited,
        )
