"""sticky and cooperative-sticky: the best balance, with the fewest moves that it allows.

Java's AbstractStickyAssignor approximates this by local search; here it is solved exactly
(`kohort.assignors.shares`). Loads are never less even than Java's, and with equal loads no more
partitions move. Racks (KIP-881) come second: balance first, then partitions read in their own rack,
then those that stay.

Members report their previous partitions. `sticky` uses the user data, because it is eager and has
revoked all partitions before it joins. `cooperative-sticky` uses the owned partitions of the
subscription. A claim of an older generation counts only if there is no newer one. Two claims of the
same generation cannot both be right, so neither counts.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kohort.assignors.base import (
    UNKNOWN_GENERATION,
    Assignment,
    Assignor,
    Member,
    RebalanceProtocol,
    Topics,
    java_order,
)
from kohort.assignors.roundrobin import subscribers_by_topic
from kohort.assignors.shares import Pool, fair_shares
from kohort.assignors.user_data import (
    decode_generation,
    decode_previous,
    encode_generation,
    encode_previous,
)
from kohort.types import MemberId, TopicPartition


@dataclass(frozen=True, slots=True)
class Claim:
    """Partitions that a member reports as owned, with their generation."""

    partitions: Sequence[TopicPartition]
    generation: int


class StickyAssignor(Assignor):
    """Java's StickyAssignor: eager.

    The previous assignment and its generation travel in the user data (v1).
    """

    name = "sticky"
    version = 1

    def assign(self, topics: Topics, members: Sequence[Member]) -> Mapping[MemberId, Assignment]:
        solved = solve(
            topics, [(member, Claim(*decode_previous(member.user_data))) for member in members]
        )
        return {
            member.member_id: Assignment(partitions=tuple(partitions))
            for member, partitions in solved.divided()
        }

    def subscription_user_data(
        self, owned_partitions: Sequence[TopicPartition], generation: int
    ) -> bytes | None:
        if not owned_partitions and generation == UNKNOWN_GENERATION:
            return None
        return encode_previous(owned_partitions, generation)


class CooperativeStickyAssignor(Assignor):
    """Java's CooperativeStickyAssignor (KIP-429): it assigns no partition that has another owner.

    Such a partition is left unassigned. Its owner revokes it and rejoins, and the next rebalance
    assigns it to its new owner.
    """

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def assign(self, topics: Topics, members: Sequence[Member]) -> Mapping[MemberId, Assignment]:
        solved = solve(
            topics,
            [(member, Claim(member.owned_partitions, _generation(member))) for member in members],
        )
        claimed = {partition for member in members for partition in member.owned_partitions}
        return {
            member.member_id: Assignment(
                partitions=tuple(
                    p for p in partitions if p not in claimed or solved.owner(p) is member
                )
            )
            for member, partitions in solved.divided()
        }

    def subscription_user_data(
        self,
        owned_partitions: Sequence[TopicPartition],  # noqa: ARG002
        generation: int,
    ) -> bytes | None:
        return encode_generation(generation)


def _generation(member: Member) -> int:
    """Generation in the subscription (v2 or later), else in the user data."""
    return (
        member.generation
        if member.generation != UNKNOWN_GENERATION
        else decode_generation(member.user_data)
    )


@dataclass(frozen=True, slots=True)
class Solution:
    """Partitions of all members, by `fair_shares`."""

    members: Sequence[Member]
    owners: Mapping[TopicPartition, int]
    """Previous owners whose claim counts, by position in `members`."""
    assigned: Sequence[Sequence[TopicPartition]]

    def divided(self) -> Iterator[tuple[Member, list[TopicPartition]]]:
        """Each member with its partitions, sorted."""
        for member, partitions in zip(self.members, self.assigned, strict=True):
            yield member, sorted(partitions)

    def owner(self, partition: TopicPartition) -> Member | None:
        """The previous owner, None if no claim counts."""
        position = self.owners.get(partition)
        return None if position is None else self.members[position]


def solve(topics: Topics, claims: Iterable[tuple[Member, Claim]]) -> Solution:
    """The best assignment; the order of the members does not matter."""
    ordered = sorted(claims, key=lambda pair: java_order(pair[0].member_id))
    members = [member for member, _ in ordered]
    subscribers = subscribers_by_topic(topics, members)
    owners = previous_owners(subscribers, topics, [claim for _, claim in ordered])
    kinds = _kinds(topics, subscribers, [member.rack for member in members])
    pools = [
        Pool(
            len(partitions),
            kind.members,
            Counter(owners[p] for p in partitions if p in owners),
            kind.far,
        )
        for kind, partitions in kinds.items()
    ]
    assigned: list[list[TopicPartition]] = [[] for _ in members]
    for partitions, share in zip(kinds.values(), fair_shares(pools), strict=True):
        for partition, member in hand_out(partitions, share, owners):
            assigned[member].append(partition)
    return Solution(members, owners, assigned)


def previous_owners(
    subscribers: Mapping[str, Sequence[int]], topics: Topics, claims: Sequence[Claim]
) -> dict[TopicPartition, int]:
    """Partition -> number of its previous owner.

    Left out: deleted partitions, partitions to which the owner no longer subscribes, and partitions
    with two claims in the newest generation.
    """
    newest: dict[TopicPartition, tuple[int, int | None]] = {}
    allowed = {topic: frozenset(positions) for topic, positions in subscribers.items()}
    for number, claim in enumerate(claims):
        for partition in set(claim.partitions):
            topic, index = partition
            if number not in allowed.get(topic, ()) or not 0 <= index < len(topics[topic]):
                continue
            generation, _ = newest.get(partition, (claim.generation - 1, None))
            if claim.generation >= generation:
                newest[partition] = (
                    claim.generation,
                    None if claim.generation == generation else number,
                )
    return {partition: owner for partition, (_, owner) in newest.items() if owner is not None}


@dataclass(frozen=True, slots=True)
class Kind:
    """Key of alike partitions: possible owners, and members that would read across racks."""

    members: tuple[int, ...]
    far: frozenset[int]


def _kinds(
    topics: Topics, subscribers: Mapping[str, Sequence[int]], racks: Sequence[str | None]
) -> dict[Kind, list[TopicPartition]]:
    """The partitions of each kind, sorted."""
    kinds: dict[Kind, list[TopicPartition]] = {}
    member_racks = frozenset(rack for rack in racks if rack is not None)
    for topic in sorted(subscribers, key=java_order):
        members = tuple(subscribers[topic])
        by_racks: dict[frozenset[str], Kind] = {}
        for number, replicas in enumerate(topics[topic]):
            member_replicas = replicas & member_racks
            if member_replicas not in by_racks:
                by_racks[member_replicas] = Kind(
                    members, frozenset(_far(members, racks, member_replicas))
                )
            kinds.setdefault(by_racks[member_replicas], []).append(TopicPartition(topic, number))
    return kinds


def _far(
    members: Iterable[int], racks: Sequence[str | None], replicas: frozenset[str]
) -> Iterator[int]:
    """Members whose rack has no replica; none if no member's rack has one."""
    if replicas:
        yield from (
            member
            for member in members
            if (rack := racks[member]) is not None and rack not in replicas
        )


def hand_out(
    partitions: Sequence[TopicPartition],
    share: Mapping[int, int],
    owners: Mapping[TopicPartition, int],
) -> Iterator[tuple[TopicPartition, int]]:
    """Yield each partition with its member, as many per member as its share.

    Owners keep their partitions first. An owner above its share keeps the lowest indexes of all its
    topics. Free partitions are assigned in turn, topic by topic, so that members have equal parts
    of each topic as far as possible.
    """
    remaining = dict(share)
    free = set(partitions)
    for partition in sorted(
        (p for p in partitions if p in owners), key=lambda p: (p.partition, p.topic)
    ):
        owner = owners[partition]
        if remaining.get(owner):
            remaining[owner] -= 1
            free.discard(partition)
            yield partition, owner
    takers = deque(member for member in sorted(remaining) if remaining[member])
    for partition in partitions:
        if partition in free:
            taker = takers.popleft()
            remaining[taker] -= 1
            if remaining[taker]:
                takers.append(taker)
            yield partition, taker
