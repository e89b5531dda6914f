"""Dry runs of a rebalance."""

from dataclasses import replace

import pytest

from kohort.assignors import Assignment, Assignor, assignor, without_racks
from kohort.assignors.base import RebalanceProtocol
from kohort.assignors.plan import Balance, Change, Move, plan
from kohort.errors import ConfigError
from kohort.types import MemberId, TopicPartition

from .groups import member, partitions

TOPICS = without_racks({"t": 4})
A = replace(member("a", "t"), owned_partitions=partitions("t0 t1"))
B = replace(member("b", "t"), owned_partitions=partitions("t2 t3"))


def t(index: int) -> TopicPartition:
    return TopicPartition("t", index)


def test_a_join_of_a_cooperative_group_interrupts_moved_partitions_only() -> None:
    planned = plan(
        assignor("cooperative-sticky"), TOPICS, [A, B], Change(joining=[member("c", "t")])
    )
    assert planned.before == {"a": partitions("t0 t1"), "b": partitions("t2 t3")}
    assert planned.after == {"a": partitions("t0"), "b": partitions("t2 t3"), "c": partitions("t1")}
    assert planned.moves == (Move(t(1), MemberId("a"), MemberId("c")),)
    assert (planned.moved, planned.interrupted, planned.rounds) == (1, 1, 2)
    assert planned.balance_before == Balance(2, 2, 2.0)
    assert planned.balance_after == Balance(1, 2, pytest.approx(4 / 3))


def test_a_join_of_an_eager_group_interrupts_all_partitions() -> None:
    planned = plan(assignor("sticky"), TOPICS, [A, B], Change(joining=[member("c", "t")]))
    assert (planned.moved, planned.interrupted, planned.rounds) == (1, 4, 1)
    assert plan(assignor("range"), TOPICS, [A, B], Change(joining=[member("c", "t")])).after == {
        "a": partitions("t0 t1"),
        "b": partitions("t2"),
        "c": partitions("t3"),
    }


def test_partitions_of_a_leaving_member_move_to_the_rest() -> None:
    planned = plan(assignor("cooperative-sticky"), TOPICS, [A, B], Change(leaving={MemberId("b")}))
    assert planned.after == {"a": partitions("t0 t1 t2 t3")}
    assert planned.moves == (
        Move(t(2), MemberId("b"), MemberId("a")),
        Move(t(3), MemberId("b"), MemberId("a")),
    )
    assert (planned.moved, planned.interrupted, planned.rounds) == (0, 0, 1)


def test_a_topic_grows() -> None:
    planned = plan(assignor("sticky"), TOPICS, [A, B], Change(partitions={"t": 6}))
    assert planned.moves == (Move(t(4), None, MemberId("a")), Move(t(5), None, MemberId("b")))
    assert planned.moved == 0


def test_another_assignor_moves_partitions() -> None:
    planned = plan(assignor("roundrobin"), TOPICS, [A, B], Change())
    assert planned.after == {"a": partitions("t0 t2"), "b": partitions("t1 t3")}
    assert planned.moved == 2


def test_a_plan_without_a_change_moves_no_partition() -> None:
    planned = plan(assignor("cooperative-sticky"), TOPICS, [A, B], Change())
    assert planned.before == planned.after
    assert (planned.moves, planned.moved, planned.interrupted, planned.rounds) == ((), 0, 0, 1)


def test_a_partition_that_nobody_wants_any_more() -> None:
    planned = plan(
        assignor("range"), TOPICS, [A, B], Change(leaving={MemberId("a"), MemberId("b")})
    )
    assert planned.after == {}
    assert planned.moves[0] == Move(t(0), MemberId("a"), None)
    assert planned.balance_after == Balance(0, 0, 0.0)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (Change(leaving={MemberId("c")}), "no member is called 'c': the group has a, b"),
        (Change(joining=[member("a", "t")]), "there is a member 'a' already"),
        (Change(partitions={"t": 3}), "t has 4 partitions and cannot shrink to 3"),
    ],
)
def test_changes_that_cannot_happen(change: Change, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        plan(assignor("range"), TOPICS, [A, B], change)


def test_a_member_that_leaves_may_come_back() -> None:
    planned = plan(
        assignor("sticky"),
        TOPICS,
        [A, B],
        Change(leaving={MemberId("a")}, joining=[member("a", "t")]),
    )
    assert len(planned.after[MemberId("a")]) == 2


def test_an_assignor_that_never_settles() -> None:
    class Swapping(Assignor):
        name = "swapping"
        protocols = (RebalanceProtocol.COOPERATIVE,)

        def assign(self, topics, members):
            a, b = members
            return {
                a.member_id: Assignment(partitions=b.owned_partitions),
                b.member_id: Assignment(partitions=a.owned_partitions),
            }

    with pytest.raises(ConfigError, match="swapping still revokes partitions after 5 rebalances"):
        plan(Swapping(), TOPICS, [A, B], Change())
