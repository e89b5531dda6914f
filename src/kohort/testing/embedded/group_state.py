"""What a test sees of a group: members, committed offsets, and rebalances with their causes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict
from uuid import UUID

from kohort.coordinator.classic import CONSUMER_PROTOCOL_TYPE, Group
from kohort.coordinator.consumer.group import ConsumerGroup, partitions_of
from kohort.coordinator.explanation import Explanation, explain
from kohort.coordinator.fold import AnyGroup
from kohort.coordinator.journal import Cause, Rebalance
from kohort.protocol.framing import MalformedError
from kohort.protocol.subscription import decode_assignment
from kohort.server.broker import Broker
from kohort.types import Instant, TopicPartition

IN_PROGRESS: Final = "in progress"
_WORDS: Final = {"expired": "session expired"}
"""Causes in the journal of the coordinator → words that say more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of a group."""

    member_id: str
    client_id: str
    instance_id: str | None
    """`group.instance.id` of a static member."""
    assignment: tuple[TopicPartition, ...]
    """Its partitions, in order; of a classic group those of the last complete generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRebalance:
    """One rebalance of a group; the last one may be in progress."""

    generation: int
    """The new generation, or epoch of a consumer group; -1 until the join phase ended."""
    causes: tuple[Cause, ...]
    outcome: str
    """in progress | stable | empty | disturbed | lost | upgraded | downgraded"""
    duration_ms: int
    """Time from its first cause to its end, or until now."""
    join_ms: int
    """Duration of the join phase; of a consumer group, until its target was last computed."""
    sync_ms: int
    """Duration of the sync phase, 0 before it; of a consumer group, of the reconciliation."""
    members: tuple[str, ...]
    """Member ids."""
    awaited: tuple[str, ...] = ()
    """Members that did not rejoin in the join phase, or have not rejoined yet."""

    @property
    def cause(self) -> str:
        """The first cause: joined, left, session expired, metadata changed, … ("" if unknown).

        The other ones are those of the journal on the HTTP port (`causes[].what`).
        """
        if not self.causes:
            return ""
        return _WORDS.get(self.causes[0].what, self.causes[0].what)

    def __str__(self) -> str:
        causes = ", ".join(dict.fromkeys(map(_sentence, self.causes))) or "no cause recorded"
        generation = "" if self.generation < 0 else f" generation {self.generation}"
        awaited = f", awaited: {', '.join(self.awaited)}" if self.awaited else ""
        return (
            f"{self.outcome}{generation} after {self.duration_ms} ms, "
            f"{len(self.members)} members: {causes}{awaited}"
        )


def _sentence(cause: Cause) -> str:
    reason = f" ({cause.reason})" if cause.reason else ""
    what = _WORDS.get(cause.what, cause.what)
    return " ".join(filter(None, (cause.member_id, what))) + reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A group at one moment. Its text is what a failed `wait` shows."""

    group: str
    type: str
    """classic | consumer; "" if the group does not exist."""
    state: str
    """Kafka's name of its state: Stable, PreparingRebalance, …; Dead if it does not exist."""
    generation: int
    """Generation, or group epoch of a consumer group; -1 if the group does not exist."""
    members: tuple[Member, ...]
    committed: Mapping[tuple[str, int], int]
    """Committed offsets by topic and partition."""
    rebalances: tuple[GroupRebalance, ...]
    """The latest 100 rebalances, oldest first; the last one may be in progress."""
    explanation: str
    """What the group waits for, with the members that are awaited; "" if it is stable."""

    def __str__(self) -> str:
        lines = [
            f"group {self.group} is {self.state}, generation {self.generation}, "
            f"members: {len(self.members)}"
        ]
        if self.explanation:
            lines.append(f"  {self.explanation}")
        lines += (f"  member {_describe(member)}" for member in self.members)
        if self.committed:
            offsets = ", ".join(f"{tp}: {offset}" for tp, offset in sorted(self.committed.items()))
            lines.append(f"  committed {offsets}")
        lines += (f"  rebalance {rebalance}" for rebalance in self.rebalances)
        return "\n".join(lines)


def _describe(member: Member) -> str:
    partitions = ", ".join(map(str, member.assignment)) or "no partitions"
    static = f" instance {member.instance_id}" if member.instance_id else ""
    return f"{member.member_id} of client {member.client_id}{static}: {partitions}"


def read_group(broker: Broker, group_id: str) -> GroupState:
    """The state of a group. It is called on the loop of the server."""
    group, now = broker.groups.group(group_id), broker.clock.now()
    ended = tuple(map(from_journal, broker.groups.journal(group_id)))
    return GroupState(
        group=group_id,
        type="" if group is None else group.TYPE,
        state="Dead" if group is None else str(group.state),
        generation=_generation(group),
        members=tuple(_members(broker, group)),
        committed=_committed(group),
        rebalances=(*ended, *_in_progress(broker, group)),
        explanation=describe(explain(group), now),
    )


def describe(explanation: Explanation, now: Instant) -> str:
    """An explanation in one sentence, with times from `now` on."""
    if not explanation.why:
        return ""
    parts = [f"{explanation.state}: {explanation.why}"]
    parts += (
        f"{awaited.what} of {awaited.member_id} is awaited{_within(awaited.until, now)}"
        for awaited in explanation.awaited
    )
    if explanation.until is not None:
        parts.append(f"this phase ends{_within(explanation.until, now)}")
    return "; ".join(parts)


def _within(until: Instant | None, now: Instant) -> str:
    return "" if until is None else f" for at most {max(until - now, 0) / 1_000:g} s"


def _committed(group: AnyGroup | None) -> dict[tuple[str, int], int]:
    if group is None:
        return {}
    return {partition: value.offset for partition, value in group.offsets.items()}


def _generation(group: AnyGroup | None) -> int:
    if group is None:
        return -1
    return group.generation if isinstance(group, Group) else group.epoch


def _members(broker: Broker, group: AnyGroup | None) -> Iterator[Member]:
    if isinstance(group, Group):
        for session in group.sessions.values():
            yield Member(
                member_id=session.member_id,
                client_id=session.client_id,
                instance_id=session.instance_id,
                assignment=_classic_assignment(group, session.member_id),
            )
    elif group is not None:
        for member in group.members.values():
            yield Member(
                member_id=member.member_id,
                client_id=member.metadata.client_id,
                instance_id=member.metadata.instance_id,
                assignment=_named(broker, partitions_of(member.current.assigned)),
            )


def _classic_assignment(group: Group, member_id: str) -> tuple[TopicPartition, ...]:
    member = None if group.logged is None else group.logged.members.get(member_id)
    if member is None or not member.assignment or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return ()
    try:
        return tuple(sorted(decode_assignment(member.assignment).partitions))
    except MalformedError:
        return ()


def _named(broker: Broker, by_id: Mapping[UUID, Sequence[int]]) -> tuple[TopicPartition, ...]:
    topics = ((broker.topics.by_id(topic_id), numbers) for topic_id, numbers in by_id.items())
    return tuple(
        sorted(
            TopicPartition(topic.name, number)
            for topic, numbers in topics
            if topic is not None
            for number in numbers
        )
    )


def from_journal(entry: Rebalance) -> GroupRebalance:
    """A rebalance that has ended."""
    return GroupRebalance(
        generation=entry.generation,
        causes=entry.causes,
        outcome=entry.outcome,
        **_phases(entry.started, entry.joined, entry.ended),
        members=entry.members,
        awaited=entry.awaited,
    )


class _Phases(TypedDict):
    duration_ms: int
    join_ms: int
    sync_ms: int


def _phases(started: int, joined: int | None, ended: int) -> _Phases:
    """Durations of a rebalance and its phases, from times of one clock."""
    joined = ended if joined is None else joined
    return {
        "duration_ms": ended - started,
        "join_ms": joined - started,
        "sync_ms": ended - joined,
    }


def _in_progress(broker: Broker, group: AnyGroup | None) -> Sequence[GroupRebalance]:
    if isinstance(group, Group) and group.round is not None:
        round_ = group.round
        missing = (member_id for member_id in group.sessions if member_id not in round_.joins)
        return (
            GroupRebalance(
                generation=-1 if round_.joining else round_.generation,
                causes=tuple(round_.causes),
                outcome=IN_PROGRESS,
                **_phases(round_.started, round_.joined, broker.clock.now()),
                members=tuple(group.sessions),
                awaited=tuple(missing) if round_.joining else round_.awaited,
            ),
        )
    if isinstance(group, ConsumerGroup) and group.rebalance is not None:
        return (
            GroupRebalance(
                generation=group.epoch,
                causes=tuple(group.rebalance.causes),
                outcome=IN_PROGRESS,
                **_phases(
                    group.rebalance.started, group.rebalance.assigned, broker.clock.timestamp()
                ),
                members=tuple(group.members),
            ),
        )
    return ()
