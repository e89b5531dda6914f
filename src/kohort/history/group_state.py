"""The state of one group in the fold of groups, and its JSON.

Everything here is as of the last complete write of the group. Times are in ms.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple

from kohort.types import TopicPartition

STABLE: Final = "STABLE"
AWAY: Final = -2
"""Epoch of a static member that is away."""

_MOST_SKIPPED: Final = 2**31 - 1

IdPartition = tuple[str, int]
"""(topic id, partition)"""


class Current(NamedTuple):
    """The assignment of a member of a group that is not classic, from its record."""

    epoch: int
    state: str
    assigned: tuple[IdPartition, ...] = ()
    pending: tuple[IdPartition, ...] = ()
    """Partitions that it has yet to revoke."""

    @property
    def held(self) -> tuple[IdPartition, ...]:
        return self.assigned + self.pending

    @property
    def state_and_epoch(self) -> tuple[str, int]:
        return self.state, self.epoch


@dataclass(slots=True)
class Member:
    """A member, since its first record."""

    member_id: str
    offset: int
    time: int
    is_complete: bool
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    rack: str | None = None
    rebalance_timeout_ms: int | None = None
    session_timeout_ms: int | None = None
    topics: tuple[str, ...] = ()
    """Subscribed topics."""
    regex: str | None = None
    assignor: str | None = None
    is_away: bool = False
    """A static member that left and will return."""
    replaces: str | None = None
    protocols: tuple[str, ...] = ()
    """Assignors of a classic member of a consumer group."""

    @property
    def assignors(self) -> list[str]:
        """The assignors that its record names; a record of a classic group has the chosen one."""
        return [self.assignor] if self.assignor is not None else list(self.protocols)


@dataclass(slots=True)
class Ownership:
    """The owner of a partition, since it got it."""

    member_id: str
    offset: int
    time: int
    generation: int
    pending_from: int | None = None


@dataclass(slots=True)
class Generation:
    """The present generation, or group epoch."""

    type: str
    generation: int
    offset: int
    time: int
    is_complete: bool
    state_time: int | None = None
    written: list[int] = field(default_factory=list)
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: list[str] = field(default_factory=list)
    skipped: int | None = None


def skipped(generation: int, before: Generation | None, first: int) -> int | None:
    """Number of generations between two that were never logged; None if `before` is None.

    At most what 32 bits hold. `first`: the highest generation that the first record of a group may
    have: none is before it.
    """
    if before is None:
        return 0 if generation <= first else None
    return min(max(generation - before.generation - 1, 0), _MOST_SKIPPED)


@dataclass(slots=True)
class Rebalance:
    """The rebalance that led to the present generation, until the next one."""

    type: str
    generation: int
    offset: int
    time: int
    is_complete: bool
    rounds: int = 1
    joined: list[str] = field(default_factory=list)
    departures: list[tuple[str, str]] = field(default_factory=list)
    """(member id, how it ended)"""
    sync_ms: int | None = None
    converged: int | None = None
    """Time when all members had reached the epoch."""


class Partitions(NamedTuple):
    """Ownership of partitions, and how it was when the open rebalance began."""

    owned: dict[TopicPartition, Ownership]
    before: dict[TopicPartition, str]
    """Partitions that have changed since → owner at its beginning; "": none."""
    successors: dict[str, str]
    """Static members that were replaced since → their next member id."""

    @classmethod
    def none(cls) -> "Partitions":
        return cls({}, {}, {})

    def begin(self) -> None:
        """A rebalance begins."""
        self.before.clear()
        self.successors.clear()

    def replace(self, heirs: Mapping[str, str]) -> None:
        """Static members were replaced: former member id → the next one."""
        for former, next_ in heirs.items():
            self.successors.pop(next_, None)  # It may have been a member before.
            self.successors[former] = next_

    def heir(self, member_id: str) -> str:
        """The present member id of a member."""
        while (successor := self.successors.get(member_id)) is not None:
            member_id = successor
        return member_id

    def moved(self) -> list[TopicPartition]:
        """The partitions that have another owner than at the beginning of the rebalance."""
        return [
            tp
            for tp, before in self.before.items()
            if before and (now := self.owned.get(tp)) and now.member_id != self.heir(before)
        ]

    def change_counts(self, moved: int) -> dict[str, int]:
        """Numbers of partitions by what the rebalance did with them; `moved`: of `moved()`."""
        gone = [before for tp, before in self.before.items() if tp not in self.owned]
        unassigned = len(gone) - gone.count("")
        added = list(self.before.values()).count("") - gone.count("")
        kept = len(self.owned) - moved - added
        return {"moved": moved, "kept": kept, "added": added, "unassigned": unassigned}


@dataclass(slots=True)
class GroupState:
    """A group in one of its lives."""

    group: str
    life: int
    type: str | None = None
    """classic | consumer | share | streams; None before a record tells."""
    members: dict[str, Member] = field(default_factory=dict)
    partitions: Partitions = field(default_factory=Partitions.none)
    generation: Generation | None = None
    rebalance: Rebalance | None = None
    empty_since: int | None = None
    """`state_time` of a classic group without members."""
    target_epoch: int | None = None
    target_time: int | None = None
    currents: dict[str, Current] = field(default_factory=dict)
    member_counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    """(state, epoch) → number of members."""
    regexes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Regular expression → topics that it matched."""
    has_gap: bool = False
    """Whether a record could not be decoded since the last complete write."""

    def set_current(self, member_id: str, current: Current | None) -> None:
        before = self.currents.pop(member_id, None)
        if before is not None:
            self.member_counts[before.state_and_epoch] -= 1
            if not self.member_counts[before.state_and_epoch]:
                del self.member_counts[before.state_and_epoch]
        if current is not None:
            self.currents[member_id] = current
            self.member_counts[current.state_and_epoch] += 1

    def end_epochs(self) -> None:
        """The group is now classic."""
        self.target_epoch = self.target_time = None
        self.currents.clear()
        self.member_counts.clear()
        self.regexes.clear()

    @property
    def has_converged(self) -> bool:
        """Whether all members have reached the present epoch."""
        epoch = self.generation.generation if self.generation else None
        return (
            epoch is not None
            and bool(self.members)
            and self.target_epoch == epoch
            and self.member_counts[STABLE, epoch] == len(self.members)
        )

    def topics_of(self, member: Member) -> tuple[str, ...]:
        """The topics that a member is subscribed to."""
        return member.topics + self.regexes.get(member.regex or "", ())

    def subscribes(self, topic: str) -> bool:
        return any(topic in self.topics_of(member) for member in self.members.values())

    # --- JSON

    def dump(self) -> list[Any]:
        return [
            [self.group, self.life, self.type],
            list(map(_values, self.members.values())),
            [[*tp, *_values(owner)] for tp, owner in self.partitions.owned.items()],
            [[*tp, before] for tp, before in self.partitions.before.items()],
            list(self.partitions.successors.items()),
            None if self.generation is None else _values(self.generation),
            None if self.rebalance is None else _values(self.rebalance),
            [self.empty_since, self.target_epoch, self.target_time, self.has_gap],
            [[member_id, *current] for member_id, current in self.currents.items()],
            list(self.regexes.items()),
        ]

    @classmethod
    def load(cls, state: Iterable[Any]) -> "GroupState":
        (
            (group, life, type_),
            members,
            owned,
            before,
            successors,
            generation,
            rebalance,
            (empty_since, target_epoch, target_time, has_gap),
            currents,
            regexes,
        ) = state
        loaded = cls(
            group,
            life,
            type_,
            members={each[0]: _member(each) for each in members},
            partitions=Partitions(
                {TopicPartition(*each[:2]): Ownership(*each[2:]) for each in owned},
                {TopicPartition(*each[:2]): each[2] for each in before},
                dict(successors),
            ),
            generation=None if generation is None else Generation(*generation),
            rebalance=None if rebalance is None else _rebalance(rebalance),
            empty_since=empty_since,
            target_epoch=target_epoch,
            target_time=target_time,
            regexes={regex: tuple(topics) for regex, topics in regexes},
            has_gap=has_gap,
        )
        for member_id, epoch, member_state, assigned, pending in currents:
            held = _id_partitions(assigned), _id_partitions(pending)
            current = Current(epoch, member_state, *held)
            loaded.set_current(member_id, current)
        return loaded


def _values(row: Any) -> list[Any]:
    return [getattr(row, name) for name in _names(type(row))]


_NAMES: dict[type, tuple[str, ...]] = {}


def _names(class_: type) -> tuple[str, ...]:
    if class_ not in _NAMES:
        _NAMES[class_] = tuple(each.name for each in fields(class_))
    return _NAMES[class_]


def _member(values: list[Any]) -> Member:
    member = Member(*values)
    member.topics, member.protocols = tuple(member.topics), tuple(member.protocols)
    return member


def _rebalance(values: list[Any]) -> Rebalance:
    rebalance = Rebalance(*values)
    rebalance.departures = [(member_id, how) for member_id, how in rebalance.departures]
    return rebalance


def _id_partitions(rows: Iterable[Any]) -> tuple[IdPartition, ...]:
    return tuple((topic_id, partition) for topic_id, partition in rows)
