"""A round: the soft state of one rebalance, from its first cause to the leader's assignment.

It has two phases. In the join phase JoinGroup requests are parked until every member has sent one,
or until time is up; its end makes the next generation. In the sync phase the followers' SyncGroup
requests are parked until the leader's brings the assignment. A round that is disturbed while
syncing is succeeded by a new one, whose base generation is the one that was made; a round that was
never synced leaves no trace in the log, as in Kafka.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kohort.coordinator.journal import Cause, Rebalance
from kohort.types import Instant, OnResponse, Timestamp

MAX_CAUSES: Final = 32


@dataclass(slots=True)
class InitialDelay:
    """Wait of an empty group's first round for more members, longer while they come (KIP-134)."""

    delay_ms: int
    """The part that is running."""
    remaining_ms: int
    """Time by which it may still be extended."""
    new_member_added: bool = False


@dataclass(slots=True, kw_only=True)
class Round:
    generation: int
    """While joining, the generation before, which heartbeats and commits name; then the new one."""
    protocol_type: str
    leader: str | None
    started: Instant
    causes: list[Cause] = field(default_factory=list)
    more_causes: int = 0
    initial: InitialDelay | None = None
    joins: dict[str, OnResponse] = field(default_factory=dict)
    """Member id → its parked JoinGroup."""
    protocol: str | None = None
    """While joining that of the generation before."""
    joined: Instant | None = None
    syncs: dict[str, OnResponse] = field(default_factory=dict)
    """Member id → its parked SyncGroup."""
    awaited: tuple[str, ...] = ()
    """Members that the join phase ended without."""

    @property
    def joining(self) -> bool:
        return self.joined is None

    def note(self, causes: Sequence[Cause]) -> None:
        """Keep the first causes and count the rest: a thousand members have a thousand causes."""
        noted = causes[: max(MAX_CAUSES - len(self.causes), 0)]
        self.causes += noted
        self.more_causes += len(causes) - len(noted)

    def ended(
        self, group: str, outcome: str, members: tuple[str, ...], now: Instant, timestamp: Timestamp
    ) -> Rebalance:
        """The journal's entry, dated by `timestamp`; its durations are by the monotonic clock."""
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
