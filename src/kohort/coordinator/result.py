"""The decisions of `Shard.handle`: records to log, replies, timers, and rebalances for the journal.

All of them are data. The runtime appends the records, and then sends the replies. It passes a due
timer to `handle` as `TimerFired`.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kohort.coordinator.jobs import Job
from kohort.coordinator.journal import Rebalance
from kohort.coordinator.records import Record, TransactionalOffsets
from kohort.coordinator.responses import Response
from kohort.coordinator_common import Cancel, Timer
from kohort.types import Reply


@dataclass(frozen=True, slots=True)
class SessionExpires:
    """The session timeout of a member or pending id, or a new member's join timeout."""

    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class JoinPhaseEnds:
    """The initial delay or the rebalance timeout of a round."""

    group: str


@dataclass(frozen=True, slots=True)
class SyncPhaseEnds:
    """The pending-sync timer: the longest rebalance timeout after the join phase."""

    group: str


@dataclass(frozen=True, slots=True)
class RevocationExpires:
    """The rebalance timeout of a consumer group's member that must revoke partitions."""

    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class MemberJoinExpires:
    """The rebalance timeout of a classic member of a consumer group that must rejoin."""

    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class MemberSyncExpires:
    """The rebalance timeout of a classic member of a consumer group that must sync."""

    group: str
    member_id: str


TimerKey: TypeAlias = (
    SessionExpires
    | JoinPhaseEnds
    | SyncPhaseEnds
    | RevocationExpires
    | MemberJoinExpires
    | MemberSyncExpires
)
"""Not named tuples: timers of different types for one group would be equal."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The timer `key` is due: an event for `handle`."""

    key: TimerKey


class Result(NamedTuple):
    """The whole effect of one event."""

    records: tuple[Record, ...] = ()
    """To append atomically, in this order, before any reply is sent."""
    replies: tuple[Reply[Response], ...] = ()
    timers: tuple[Timer[TimerKey] | Cancel[TimerKey], ...] = ()
    journal: tuple[Rebalance, ...] = ()
    """Rebalances that ended with this event."""
    transactional: tuple[TransactionalOffsets, ...] = ()
    """To append instead of `records`, as one batch of the producer's transaction."""
    continuation: object = None
    """Event to handle in a later turn, once the records are appended: work in slices."""
    jobs: tuple[Job, ...] = ()
    """Work to do in the background."""
