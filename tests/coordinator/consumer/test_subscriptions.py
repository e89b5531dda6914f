"""The names that members subscribe to, against a plain list of subscriptions."""

from hypothesis import given
from hypothesis import strategies as st

from kohort.coordinator.consumer.subscriptions import Subscriptions

NAMES = st.lists(st.sampled_from("abc"), unique=True).map(lambda names: tuple(sorted(names)))


def union(members):
    return {name for names in members for name in names}


@given(st.lists(NAMES, max_size=6), st.integers(0, 6), NAMES)
def test_names_after_a_change(members, leaving, joining):
    subscriptions = Subscriptions()
    kept = [subscriptions.add(names) for names in members]
    after = subscriptions.after(kept[:leaving], joining)
    assert set(after) == union([*members[leaving:], joining])
    assert (after is subscriptions.names) == (set(after) == union(members))
    for names in members[:leaving]:
        subscriptions.remove(names)
    subscriptions.add(joining)
    assert set(subscriptions.names) == set(after)
    assert subscriptions.size == sum(map(len, {*members[leaving:], joining}))


def test_equal_names_are_one_object():
    subscriptions = Subscriptions()
    first, second = ("a", "b"), tuple("ab")
    assert first is not second
    assert subscriptions.one_of(second) is second
    assert subscriptions.add(first) is first
    assert subscriptions.add(second) is first
    assert subscriptions.one_of(second) is first
    subscriptions.remove(second)
    subscriptions.remove(second)
    assert subscriptions.one_of(second) is second
    assert not subscriptions.names
