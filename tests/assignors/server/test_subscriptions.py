"""Order and size of a member's subscription."""

from uuid import UUID

from kohort.assignors.server import Subscription, subscription

IDS = {name: UUID(int=number) for number, name in enumerate(("orders", "a", "b", "c"))}


def test_names_come_in_the_order_of_javas_set() -> None:
    assert subscription(["orders", "c", "b", "a"], [], IDS) == Subscription(
        (IDS["a"], IDS["b"], IDS["c"], IDS["orders"]), 4
    )


def test_the_larger_one_of_names_and_resolved_topics_comes_first() -> None:
    assert subscription(["a"], ["b", "c"], IDS).topic_ids == (IDS["b"], IDS["c"], IDS["a"])
    assert subscription(["b", "c"], ["a"], IDS).topic_ids == (IDS["b"], IDS["c"], IDS["a"])
    assert subscription(["b"], ["a"], IDS).topic_ids == (IDS["a"], IDS["b"])


def test_topics_that_do_not_exist_count_but_have_no_id() -> None:
    assert subscription(["a", "missing"], ["missing", "b"], IDS) == Subscription(
        (IDS["b"], IDS["a"]), 3
    )
