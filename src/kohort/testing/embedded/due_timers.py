"""Timers of the coordinators of an embedded server, as a test sees them."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from kohort.coordinator.result import SessionExpires, TimerKey
from kohort.server.broker import Broker
from kohort.types import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class DueTimer:
    """One timer of a group or a transaction."""

    name: str
    """SessionExpires | JoinPhaseEnds | SyncPhaseEnds | RevocationExpires | MemberJoinExpires |
    MemberSyncExpires | TransactionTimesOut
    """
    group: str | None
    member_id: str | None
    """None for a timer of the group."""
    transactional_id: str | None
    due_in_ms: int
    """Server's time until it fires."""


def read_timers(broker: Broker) -> list[DueTimer]:
    """All timers, the next one first. It is called on the loop of the server."""
    return sorted(_timers(broker), key=attrgetter("due_in_ms"))


def _timers(broker: Broker) -> Iterator[DueTimer]:
    now = broker.clock.now()
    for timer, deadline in broker.groups.timers():
        yield DueTimer(
            name=type(timer).__name__,
            group=timer.group,
            member_id=getattr(timer, "member_id", None),
            transactional_id=None,
            due_in_ms=max(_due(broker, timer, deadline) - now, 0),
        )
    for transaction, deadline in broker.transactions.timers():
        yield DueTimer(
            name=type(transaction).__name__,
            group=None,
            member_id=None,
            transactional_id=transaction.transactional_id,
            due_in_ms=max(deadline - now, 0),
        )


def _due(broker: Broker, timer: TimerKey, deadline: Instant) -> Instant:
    """Time at which a timer has its effect: that of a session begins anew after heartbeats."""
    group = broker.groups.group(timer.group)
    if group is None or not isinstance(timer, SessionExpires):
        return deadline
    session = group.sessions.get(timer.member_id)
    return deadline if session is None else max(deadline, session.deadline)
