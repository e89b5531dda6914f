"""Filters find what they match, however many there are, and none of them looks at every entry."""

from collections.abc import Generator, Sequence
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.security import acl_search
from kohort.security.acl_search import TooManyMatchesError, find
from kohort.security.acls import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from security.test_authorizer import HOST, NAMES, binding, bindings, index

T = TypeVar("T")

filters = st.builds(
    AclBindingFilter,
    st.sampled_from((ResourceType.ANY, ResourceType.TOPIC, ResourceType.USER)),
    st.sampled_from((None, *NAMES)),
    st.sampled_from([each for each in PatternType if each is not PatternType.UNKNOWN]),
    st.sampled_from((None, "User:alice", "User:*", "User:carol")),
    st.sampled_from((None, HOST, "*")),
    st.sampled_from((AclOperation.ANY, AclOperation.ALL, AclOperation.READ)),
    st.sampled_from((AclPermissionType.ANY, AclPermissionType.DENY)),
)


def run(steps: Generator[None, None, T]) -> tuple[int, T]:
    """How many steps there are, and what they return."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1


def found(entries: Sequence[AclBinding], *wanted: AclBindingFilter) -> list[list[AclBinding]]:
    _, result = run(find(index(entries), wanted))
    return [sorted(each for _, each in of_one) for of_one in result]


@given(st.lists(bindings, max_size=40), st.lists(filters, max_size=4))
def test_each_filter_finds_what_it_matches(
    entries: list[AclBinding], wanted: list[AclBindingFilter]
) -> None:
    assert found(entries, *wanted) == [
        sorted(entry for entry in set(entries) if each.matches(entry)) for each in wanted
    ]


@pytest.mark.parametrize("pattern_type", [PatternType.LITERAL, PatternType.MATCH])
def test_a_pattern_of_many_principals_is_found_by_its_name(pattern_type: PatternType) -> None:
    entries = [binding("*", principal=f"User:{number}") for number in range(100)]
    wanted = AclBindingFilter(ResourceType.TOPIC, "*", pattern_type, "User:7")
    assert found(entries, wanted) == [[entries[7]]]


@pytest.mark.parametrize(
    "filters",
    [
        [AclBindingFilter(principal=f"User:{number}") for number in range(1_000)],
        [AclBindingFilter(resource_name=f"topic-{number}") for number in range(1_000)],
        [
            AclBindingFilter(ResourceType.TOPIC, "*", PatternType.MATCH, f"User:{number}")
            for number in range(1_000)
        ],
    ],
)
def test_many_filters_look_at_each_entry_once(filters: list[AclBindingFilter]) -> None:
    entries = [binding("*", principal=f"User:{number}") for number in range(3_000)]
    steps, _ = run(find(index(entries), filters))
    assert steps <= len(entries) + 2 * len(filters)


def test_one_pattern_is_found_without_a_look_at_others() -> None:
    acls = index([binding(f"topic-{number}") for number in range(1_000)])
    steps, ((one,),) = run(
        find(acls, [AclBindingFilter(ResourceType.TOPIC, "topic-7", PatternType.LITERAL)])
    )
    assert one[1].resource_name == "topic-7"
    assert steps == 2


@pytest.mark.parametrize("pattern_type", [PatternType.LITERAL, PatternType.MATCH])
def test_filters_that_find_nothing_take_steps_too(pattern_type: PatternType) -> None:
    wanted = AclBindingFilter(ResourceType.TOPIC, "orders", pattern_type)
    assert run(find(index([]), [wanted] * 100))[0] >= 100


def test_a_search_sees_the_entries_of_one_moment() -> None:
    entries = [binding(f"topic-{number}") for number in range(100)]
    acls = index(entries)
    steps = find(acls, [AclBindingFilter()])
    for _ in range(10):
        next(steps)
    for acl_id in acls.snapshot():
        acls.remove(acl_id)
    (of_one,) = run(steps)[1]
    assert [each for _, each in of_one] == entries


def test_a_filter_may_find_all_and_many_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_search, "MAX_MATCHES", 100)
    entries = [binding(f"topic-{number}") for number in range(200)]
    every = AclBindingFilter()
    assert len(found(entries, every)[0]) == 200
    with pytest.raises(TooManyMatchesError):
        found(entries, every, every)
