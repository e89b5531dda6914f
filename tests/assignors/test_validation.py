"""What an application's own assignor must not return, and how it is told."""

import pytest

from kohort.assignors.base import Assignment, Assignor, Member, RebalanceProtocol, without_racks
from kohort.assignors.validation import InvalidAssignmentError, validate_assignment
from kohort.types import MemberId, TopicPartition

A, B = MemberId("a"), MemberId("b")
P0, P1 = (TopicPartition("t", number) for number in range(2))
TOPICS = without_racks({"t": 2, "other": 0})


class Eager(Assignor):
    name = "own"


class Cooperative(Eager):
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)


def check(result, assignor=Eager, owned=()):
    """`result`: the partitions of each member; `a` owns `owned`."""
    members = [
        Member(member_id=A, topics=("t", "missing"), owned_partitions=owned),
        Member(member_id=B, topics=("t",)),
    ]
    assigned = {name: Assignment(partitions=given) for name, given in result.items()}
    validate_assignment(assignor(), TOPICS, members, assigned)


@pytest.mark.parametrize(
    ("assignor", "owned", "result"),
    [
        (Eager, (), {A: (P0,), B: (P1,)}),
        (Eager, (), {A: (P0, P1), B: ()}),
        (Cooperative, (P0, P1), {A: (P0,), B: ()}),
        (Cooperative, (P0,), {A: (P0,), B: (P1,)}),
    ],
)
def test_a_valid_assignment_passes(assignor, owned, result):
    check(result, assignor, owned)


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ({A: (P0, P1)}, "member 'b' has no assignment"),
        ({A: (P0, P1), B: (), "c": ()}, "no member 'c'"),
        ({A: (P0, P1), B: (P1,)}, "t-1 is assigned to 'a' and to 'b'"),
        ({A: (P0, P0, P1), B: ()}, "t-0 is assigned to 'a' and to 'a'"),
        ({A: (P0,), B: ()}, "t-1 is assigned to no member"),
        ({A: (P0, P1, TopicPartition("t", 2)), B: ()}, "t-2 .* no such partition"),
        ({A: (P0, P1, TopicPartition("missing", 0)), B: ()}, "missing-0 .* no such partition"),
        ({A: (P0, P1, TopicPartition("other", 0)), B: ()}, "other-0 .* does not subscribe"),
    ],
)
def test_the_mistake_of_an_invalid_assignment_is_named(result, told):
    with pytest.raises(InvalidAssignmentError, match=f"'own'.*{told}"):
        check(result)


def test_a_cooperative_assignor_moves_nothing_that_is_owned():
    with pytest.raises(InvalidAssignmentError, match="t-0 moves to 'b' while 'a' owns it"):
        check({A: (P1,), B: (P0,)}, Cooperative, owned=(P0, P1))
    check({A: (P1,), B: (P0,)}, Eager, owned=(P0, P1))


def test_a_value_of_another_type_than_assignment_is_named():
    with pytest.raises(
        InvalidAssignmentError, match=r"member .a. gets .* instead of an Assignment"
    ):
        validate_assignment(Eager(), TOPICS, [Member(member_id=A, topics=("t",))], {A: [P0, P1]})


def test_many_mistakes_are_counted():
    topics = without_racks({"t": 20})
    with pytest.raises(InvalidAssignmentError, match="and 15 more"):
        validate_assignment(
            Eager(), topics, [Member(member_id=A, topics=("t",))], {A: Assignment(partitions=())}
        )
