"""The dry run of a rebalance, behind `kohort groups plan`.

Its input is a group, a change of its members or topics, and perhaps another assignor. The assignor
itself computes the result, in as many rounds as a cooperative one needs. The plan compares it with
the present assignment.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kohort.assignors.base import UNKNOWN_GENERATION, Assignor, Member, RebalanceProtocol, Topics
from kohort.errors import ConfigError
from kohort.types import MemberId, TopicPartition

Division = Mapping[MemberId, tuple[TopicPartition, ...]]

GENERATION = 1
"""The generation in which each member got its partitions: one for all, so every claim counts."""

MAX_ROUNDS = 5
"""Rebalances that a plan follows; Kafka's cooperative assignor needs two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A planned change of a group.

    The default changes nothing, and shows the effect of a plain rebalance.
    """

    joining: Sequence[Member] = ()
    leaving: Collection[MemberId] = ()
    partitions: Mapping[str, int] = field(default_factory=dict)
    """Topic, perhaps a new one -> how many partitions it has then, not less than now."""


class Move(NamedTuple):
    """A partition that has another owner afterwards."""

    partition: TopicPartition
    before: MemberId | None
    """None if nobody owned it."""
    after: MemberId | None
    """None if nobody is subscribed to it any more."""


class Balance(NamedTuple):
    """How many partitions the members have."""

    fewest: int
    most: int
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Before and after."""

    before: Division
    after: Division
    moves: tuple[Move, ...]
    """By partition; new partitions and those of members that left are among them."""
    rounds: int
    """Number of rebalances until the assignment is complete.

    Two if a cooperative assignor moves partitions between members.
    """
    interrupted: int
    """Partitions of staying members whose processing is interrupted.

    All of them under the eager protocol, else those that are revoked.
    """

    @property
    def moved(self) -> int:
        """Partitions taken from a member that stays: what stickiness saves."""
        return sum(move.before in self.after for move in self.moves)

    @property
    def balance_before(self) -> Balance:
        return _balance(self.before)

    @property
    def balance_after(self) -> Balance:
        return _balance(self.after)


def plan(assignor: Assignor, topics: Topics, members: Sequence[Member], change: Change) -> Plan:
    """What `assignor` makes of the group after the change.

    `members` have in `owned_partitions` what they are assigned now, by whichever assignor; their
    generation and user data are not looked at. Raises `ConfigError` for a change that cannot
    happen, or an assignor that comes to no end.
    """
    before = {member.member_id: tuple(sorted(member.owned_partitions)) for member in members}
    staying = [*_without(members, change.leaving), *change.joining]
    _check_ids(staying)
    grown = _grown(topics, change.partitions)
    after, rounds = _settle(assignor, grown, staying)
    moves = tuple(_moves(before, after))
    lost = [move for move in moves if move.before in after]
    interrupted = (
        sum(len(before.get(member, ())) for member in after) if _is_eager(assignor) else len(lost)
    )
    return Plan(before=before, after=after, moves=moves, rounds=rounds, interrupted=interrupted)


def _without(members: Sequence[Member], leaving: Collection[MemberId]) -> list[Member]:
    member_ids = {member.member_id for member in members}
    if unknown := [member for member in leaving if member not in member_ids]:
        raise ConfigError(
            f"no member is called {unknown[0]!r}: the group has "
            f"{', '.join(sorted(member_ids)) or 'none'}"
        )
    return [member for member in members if member.member_id not in leaving]


def _check_ids(members: Iterable[Member]) -> None:
    checked: set[MemberId] = set()
    for member in members:
        if member.member_id in checked:
            raise ConfigError(
                f"there is a member {member.member_id!r} already: who joins needs another id"
            )
        checked.add(member.member_id)


def _grown(topics: Topics, partitions: Mapping[str, int]) -> Topics:
    grown = dict(topics)
    for topic, count in partitions.items():
        now = topics.get(topic, ())
        if count < len(now):
            raise ConfigError(
                f"{topic} has {len(now)} partitions and cannot shrink to {count}: ask for no less"
            )
        grown[topic] = (*now, *[frozenset[str]()] * (count - len(now)))
    return grown


def _settle(assignor: Assignor, topics: Topics, members: Sequence[Member]) -> tuple[Division, int]:
    """Rebalance until no partition has to be revoked.

    The last assignment and the number of rounds.
    """
    for rounds in range(1, MAX_ROUNDS + 1):
        assigned = assignor.assign(topics, [_joining(assignor, member) for member in members])
        after = {
            member.member_id: tuple(sorted(assigned[member.member_id].partitions))
            for member in members
        }
        # A member that revokes under the cooperative protocol joins again, and with it everybody.
        if _is_eager(assignor) or all(
            set(member.owned_partitions) <= set(after[member.member_id]) for member in members
        ):
            return after, rounds
        members = [replace(member, owned_partitions=after[member.member_id]) for member in members]
    raise ConfigError(
        f"{assignor.name} still revokes partitions after {MAX_ROUNDS} rebalances: it has to settle"
    )


def _is_eager(assignor: Assignor) -> bool:
    return RebalanceProtocol.COOPERATIVE not in assignor.protocols


def _joining(assignor: Assignor, member: Member) -> Member:
    """The member as it would tell of itself when it joins."""
    owned = member.owned_partitions
    generation = GENERATION if owned else UNKNOWN_GENERATION
    return replace(
        member,
        owned_partitions=() if _is_eager(assignor) else owned,
        generation=generation,
        user_data=assignor.subscription_user_data(owned, generation),
    )


def _moves(before: Division, after: Division) -> Iterable[Move]:
    owners = _owners(before)
    new_owners = _owners(after)
    for partition in sorted(owners | new_owners):
        if (old := owners.get(partition)) != (new := new_owners.get(partition)):
            yield Move(partition, old, new)


def _owners(division: Division) -> dict[TopicPartition, MemberId]:
    return {
        partition: member for member, partitions in division.items() for partition in partitions
    }


def _balance(division: Division) -> Balance:
    loads = [len(partitions) for partitions in division.values()]
    return Balance(
        min(loads, default=0), max(loads, default=0), sum(loads) / len(loads) if loads else 0.0
    )
