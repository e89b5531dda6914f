"""Why a group is not stable: which members are awaited, for what, and until when.

It reads the state of the group, and changes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kohort.coordinator.classic import Group, State
from kohort.coordinator.consumer.group import (
    ConsumerGroup,
    ConsumerGroupState,
    ConsumerMember,
    MemberState,
)
from kohort.coordinator.fold import AnyGroup
from kohort.coordinator.rounds import Round
from kohort.types import Instant


@dataclass(frozen=True, slots=True)
class Awaited:
    """A member for which a group waits."""

    member_id: str
    client_id: str
    what: str
    """The request or the action that is awaited."""
    until: Instant | None
    """Time at which its session expires unless the member sends a heartbeat; None if unknown."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The state of a group in words."""

    state: str
    why: str
    """What the group waits for; "" if it is stable."""
    awaited: tuple[Awaited, ...] = ()
    until: Instant | None = None
    """Latest end of the phase, when awaited members are removed; None if it has no such end."""


def explain(group: AnyGroup | None) -> Explanation:
    """Why this group is in its state; None is a group that does not exist."""
    if group is None:
        return Explanation(str(State.DEAD), "no client has joined it or committed an offset for it")
    if isinstance(group, ConsumerGroup):
        return _explain_consumer_group(group)
    round_ = group.round
    if round_ is None:
        why = "" if group.sessions else "it has no members"
        return Explanation(str(group.state), why)
    return _explain_join(group, round_) if round_.joining else _explain_sync(group, round_)


def _explain_join(group: Group, round_: Round) -> Explanation:
    awaited = (*_joins(group, round_), *_pending_joins(group))
    if round_.initial is not None:
        why = "the initial rebalance delay has not ended (group.initial.rebalance.delay.ms)"
        return Explanation(str(group.state), why, awaited)
    until = Instant(round_.started + group.rebalance_timeout_ms)
    return Explanation(str(group.state), "members have to rejoin", awaited, until)


def _joins(group: Group, round_: Round) -> Iterator[Awaited]:
    for session in group.sessions.values():
        if session.member_id not in round_.joins:
            yield Awaited(session.member_id, session.client_id, "JoinGroup", session.deadline)


def _pending_joins(group: Group) -> Iterator[Awaited]:
    for pending in group.pending.awaited():
        what = "JoinGroup with its new member id"
        yield Awaited(pending.member_id, pending.client_id, what, pending.timer)


def _explain_sync(group: Group, round_: Round) -> Explanation:
    assert round_.joined is not None
    leader = group.sessions.get(round_.leader or "")
    awaited: tuple[Awaited, ...] = ()
    if leader is not None:
        what = "SyncGroup with the assignment of all members, as their leader"
        awaited = (Awaited(leader.member_id, leader.client_id, what, leader.deadline),)
    until = Instant(round_.joined + group.rebalance_timeout_ms)
    return Explanation(str(group.state), "the leader has to assign partitions", awaited, until)


_CONSUMER_GROUP = {
    ConsumerGroupState.EMPTY: "it has no members",
    ConsumerGroupState.ASSIGNING: "the coordinator computes the target assignment",
    ConsumerGroupState.RECONCILING: "members move to the target assignment",
    ConsumerGroupState.STABLE: "",
}


def _explain_consumer_group(group: ConsumerGroup) -> Explanation:
    state = group.state
    awaited = tuple(_reconciling(group)) if state is ConsumerGroupState.RECONCILING else ()
    return Explanation(str(state), _CONSUMER_GROUP[state], awaited)


def _reconciling(group: ConsumerGroup) -> Iterator[Awaited]:
    for member in group.members.values():
        what = _missing_step(group, member)
        if what:
            session = group.sessions.get(member.member_id)
            until = None if session is None else session.deadline
            yield Awaited(member.member_id, member.metadata.client_id, what, until)


def _missing_step(group: ConsumerGroup, member: ConsumerMember) -> str:
    """What a member still has to do; "" for one that has its target, or waits for others."""
    current = member.current
    if current.state == MemberState.UNREVOKED_PARTITIONS:
        count = sum(map(len, current.pending_revocation.values()))
        return f"revocation of {count} partition{'s' if count > 1 else ''}"
    if current.epoch != group.target_epoch:
        return f"heartbeat, to reach epoch {group.target_epoch}"
    if current.state == MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member):
        return "heartbeat, to get its released partitions"
    return ""
