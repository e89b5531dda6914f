"""Fair shares against every division there is."""

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.assignors.shares import Pool, fair_shares

Shares = Sequence[dict[int, int]]


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    size = draw(st.integers(1, 4))
    members = tuple(sorted(draw(st.sets(st.integers(0, 3), min_size=1))))
    owners = draw(st.lists(st.sampled_from(members), max_size=size))
    far = draw(st.frozensets(st.sampled_from(members)))
    return Pool(size, members, {member: owners.count(member) for member in set(owners)}, far)


def cost(of: Sequence[Pool], shares: Shares) -> tuple[list[int], int, int]:
    """Loads, the heaviest first; partitions read across racks; partitions moved."""
    loads = dict.fromkeys((member for pool in of for member in pool.members), 0)
    far = moved = 0
    for pool, share in zip(of, shares, strict=True):
        for member, count in share.items():
            loads[member] += count
            far += count * (member in pool.far)
        moved += sum(max(0, count - share.get(member, 0)) for member, count in pool.owned.items())
    return sorted(loads.values(), reverse=True), far, moved


def splits(size: int, members: Sequence[int]) -> Iterator[dict[int, int]]:
    if len(members) == 1:
        yield {members[0]: size}
        return
    for count in range(size + 1):
        for rest in splits(size - count, members[1:]):
            yield {members[0]: count, **rest}


@settings(max_examples=examples(100))
@given(st.lists(pools(), min_size=1, max_size=3))
def test_no_division_is_better(of: list[Pool]) -> None:
    shares = fair_shares(of)
    for pool, share in zip(of, shares, strict=True):
        assert sum(share.values()) == pool.size
        assert share.keys() <= set(pool.members)
        assert all(share.values())
    every = product(*(list(splits(pool.size, pool.members)) for pool in of))
    assert cost(of, shares) == min(cost(of, division) for division in every)


def test_a_chain_of_members_evens_out() -> None:
    """No single move helps here, as no two neighbours differ by two; Java's local search leaves it
    at 3, 2, 1.
    """
    of = [Pool(3, (0, 1), {0: 3}), Pool(2, (1, 2), {1: 2}), Pool(1, (2,), {2: 1})]
    assert fair_shares(of) == [{0: 2, 1: 1}, {1: 1, 2: 1}, {2: 1}]


def test_members_of_a_crowded_pool_are_left_out_of_the_others() -> None:
    crowded, common = Pool(9, (0, 1), {0: 9}), Pool(4, (0, 1, 2, 3), {})
    assert fair_shares([crowded, common]) == [{0: 5, 1: 4}, {2: 2, 3: 2}]


def test_racks_come_before_moves_and_behind_balance() -> None:
    assert fair_shares([Pool(2, (0, 1), {0: 1, 1: 1}, frozenset({0}))]) == [{0: 1, 1: 1}]
    one_each = [Pool(1, (0, 1), {0: 1}, frozenset({0})), Pool(1, (0, 1), {1: 1}, frozenset({1}))]
    assert fair_shares(one_each) == [{1: 1}, {0: 1}]


def test_no_members_have_no_shares() -> None:
    assert fair_shares([]) == []


@pytest.mark.parametrize("members", [1, 7, 500])
def test_one_member_has_all(members: int) -> None:
    (share,) = fair_shares([Pool(1_000, tuple(range(members)), {0: 1_000})])
    assert sorted(share.values()) == sorted(
        1_000 // members + (m < 1_000 % members) for m in range(members)
    )
    assert share[0] == max(share.values()), "one partition more stays where it is"
