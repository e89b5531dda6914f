"""The dry run of a rebalance, behind `kohort groups plan`.

Its input is a group, a change of its members or topics, and optionally another assignor. The
assignor computes the result, in as many rebalances as a cooperative assignor needs. The plan
compares it with the current assignment.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kohort.assignors.base import UNKNOWN_GENERATION, Assignor, Member, RebalanceProtocol, Topics
from kohort.errors import ConfigError
from kohort.types import MemberId, TopicPartition

Division = Mapping[MemberId, tuple[TopicPartition, ...]]

GENERATION = 1
"""Generation of all owned partitions: the same for every member, so every claim counts."""

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
    """Topic (existing or new) -> its number of partitions after the change, not less than now."""


class Move(NamedTuple):
    """A partition that changes its owner."""

    partition: TopicPartition
    before: MemberId | None
    """Previous owner, or None."""
    after: MemberId | None
    """Next owner; None if no member subscribes to the topic any more."""


class Balance(NamedTuple):
    """Numbers of partitions per member."""

    fewest: int
    most: int
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Assignments before and after a change."""

    before: Division
    after: Division
    moves: tuple[Move, ...]
    """Sorted by partition; includes new partitions and partitions of members that left."""
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
        """Number of partitions that are revoked from staying members; stickiness avoids these."""
        return sum(move.before in self.after for move in self.moves)

    @property
    def balance_before(self) -> Balance:
        return _balance(self.before)

    @property
    def balance_after(self) -> Balance:
        return _balance(self.after)


def plan(assignor: Assignor, topics: Topics, members: Sequence[Member], change: Change) -> Plan:
    """Plan the assignment that `assignor` computes after the change.

    The `owned_partitions` of `members` are their current assignment, by any assignor; generation
    and user data are ignored. Raises `ConfigError` for an impossible change, or if the assignor
    still revokes partitions after `MAX_ROUNDS` rebalances.
    """
    before = {member.member_id: tuple(sorted(member.owned_partitions)) for member in members}
    staying = [*_without(members, change.leaving), *change.joining]
    _check_ids(staying)
    grown = _grown(topics, change.partitions)
    after, rounds = _rebalance_until_stable(assignor, grown, staying)
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


def _rebalance_until_stable(
    assignor: Assignor, topics: Topics, members: Sequence[Member]
) -> tuple[Division, int]:
    """Rebalance until no partition has to be revoked.

    Returns the last assignment and the number of rebalances.
    """
    for rounds in range(1, MAX_ROUNDS + 1):
        assigned = assignor.assign(topics, [_joining(assignor, member) for member in members])
        after = {
            member.member_id: tuple(sorted(assigned[member.member_id].partitions))
            for member in members
        }
        # A member that revokes under the cooperative protocol rejoins: the group rebalances again.
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
    """The member with the owned partitions and user data that it would send in its JoinGroup."""
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
