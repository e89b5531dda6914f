"""Java's assignors as the measure: 1,000 random inputs for each, in the course of 200 histories.

range and roundrobin must be the same, partition by partition: who leads a mixed group may change.
The sticky ones depend on what each leader did before, so they are compared by what they achieve
from the same start.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import pytest

from assignors.jvm import running
from kohort.assignors import (
    Assignor,
    SubscribedMember,
    Topics,
    assignor,
    encode_metadata,
    perform_assignment,
    without_racks,
)
from kohort.protocol.subscription import decode_assignment
from kohort.types import MemberId, TopicPartition

from .groups import partitions
from .histories import History, One, Past, snapshot
from .java import Java

pytestmark = pytest.mark.interop

HISTORIES, GENERATIONS = 200, 5

Division = Mapping[MemberId, tuple[TopicPartition, ...]]


@pytest.fixture(scope="module")
def java() -> Iterator[Java]:
    yield from running(Java)


def read(assigned: Mapping[MemberId, bytes]) -> Division:
    return {
        member: tuple(sorted(decode_assignment(data).partitions))
        for member, data in assigned.items()
    }


def ours(of: Assignor, topics: Topics, members: list[SubscribedMember]) -> Division:
    return read(dict(perform_assignment(of, topics, members)))


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_the_same_assignment_from_each_leader(name: str, java: Java) -> None:
    of = assignor(name)
    for seed in range(HISTORIES):
        history = History(seed)
        for _ in range(GENERATIONS):
            history.step()
            topics, members = snapshot(history), [one.joined(of) for one in history.members]
            answer = java.assign(name, topics, members)
            assert answer.subscriptions == {each.member_id: each.metadata for each in members}, (
                "Java writes the same"
            )
            own = dict(perform_assignment(of, topics, members))
            assert read(own) == read(answer.assignments), seed
            if name == "roundrobin":
                assert own == answer.assignments, (
                    "to the byte: the order of topics is no accident here"
                )
            history.assigned(read(own))


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_as_balanced_and_no_more_moves(name: str, java: Java) -> None:
    """Loads at least as even; if as even, no more partitions across racks; if as many, no more
    moves.

    And over all inputs, no more of both. Compared where Java's result is a valid one: nearly
    always.
    """
    of = assignor(name)
    costs: list[tuple[Cost, Cost]] = []
    for seed in range(HISTORIES):
        history = History(seed)
        for generation in range(GENERATIONS):
            history.step()
            topics = snapshot(history)
            own, rounds = settle(
                history,
                of,
                lambda members, topics=topics: ours(of, topics, members),  # type: ignore[misc]
            )
            assert rounds <= 2
            assert only_subscribed(history, own)
            javas, rounds = settle(
                history,
                of,
                lambda members, topics=topics: read(java.assign(name, topics, members).assignments),  # type: ignore[misc]
            )
            if rounds <= ROUNDS and only_subscribed(history, javas):
                costs.append((Cost.of(history, own), Cost.of(history, javas)))
                assert costs[-1][0] <= costs[-1][1], (seed, generation)
            # Both kinds of leaders take turns, so each meets what the other left.
            history.assigned(own if generation % 2 else javas)
    assert len(costs) >= 0.99 * HISTORIES * GENERATIONS
    assert sum(own.moved for own, _ in costs) <= sum(javas.moved for _, javas in costs)
    assert sum(own.far for own, _ in costs) <= sum(javas.far for _, javas in costs)


ROUNDS = 4
"""Rebalances in which all should be given out; Java's cooperative assignor sometimes moves on for
longer.
"""


def only_subscribed(history: History, division: Division) -> bool:
    """Java's gives a partition back to a late member that claims it, even if that is not subscribed
    to it any more.
    """
    return all(
        partition.topic in one.topics
        for one in history.members
        for partition in division[one.member_id]
    )


def settle(
    history: History, of: Assignor, assign: Callable[[list[SubscribedMember]], Division]
) -> tuple[Division, int]:
    """Rebalance until everything is assigned: the last assignment, and how many rounds it took."""
    members = history.members
    wanted = {topic for one in members for topic in one.topics} & history.topics.keys()
    everything = sum(len(history.topics[topic]) for topic in wanted)
    for rounds in range(1, ROUNDS + 1):
        division = assign([one.joined(of) for one in members])
        given_out = [partition for each in division.values() for partition in each]
        assert len(set(given_out)) == len(given_out)
        if len(given_out) == everything:
            return division, rounds
        members = [
            replace(one, past=Past(division[one.member_id], history.generation + rounds))
            for one in members
        ]
    return division, ROUNDS + 1


class Cost(NamedTuple):
    """What a division costs, the worst first."""

    unevenness: int
    far: int
    """Partitions read across racks though one of the members is in a rack that has them."""
    moved: int
    """Partitions taken from whom they belonged to."""

    @classmethod
    def of(cls, history: History, division: Division) -> "Cost":
        racks = {one.member_id: one.rack for one in history.members}
        owners = owners_of(history.members)
        far = moved = 0
        for name, given in division.items():
            for partition in given:
                replicas = history.topics[partition.topic][partition.partition] & {*racks.values()}
                far += bool(replicas) and racks[name] is not None and racks[name] not in replicas
                moved += owners.get(partition, name) != name
        return cls(sum(len(given) ** 2 for given in division.values()), far, moved)


def owners_of(members: Iterable[One]) -> dict[TopicPartition, MemberId]:
    """Whom each partition belonged to: who claims it as the only one in the newest generation, and
    still wants it.
    """
    claims: dict[TopicPartition, dict[int, list[MemberId]]] = {}
    for one in members:
        for partition in one.past.partitions:
            if partition.topic in one.topics:
                claims.setdefault(partition, {}).setdefault(one.past.generation, []).append(
                    one.member_id
                )
    newest = {
        partition: by_generation[max(by_generation)] for partition, by_generation in claims.items()
    }
    return {partition: names[0] for partition, names in newest.items() if len(names) == 1}


def test_a_chain_that_java_leaves_uneven(java: Java) -> None:
    """What the exact solution is for: no single move helps here, as no two neighbours differ by
    two.
    """
    sticky, topics = assignor("sticky"), without_racks({"t": 3, "u": 2, "v": 1})
    history = [
        ("a", "t", "t0 t1 t2"),
        ("b", "tu", "u0 u1"),
        ("c", "uv", "v0"),
    ]
    joined = [
        SubscribedMember(
            MemberId(name),
            None,
            encode_metadata(sticky, subscribed, previous=partitions(owned), generation=1),
        )
        for name, subscribed, owned in history
    ]
    javas = read(java.assign("sticky", topics, joined).assignments)
    assert [len(each) for each in javas.values()] == [3, 2, 1]
    assert [len(each) for each in ours(sticky, topics, joined).values()] == [2, 2, 2]
