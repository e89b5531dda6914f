"""The rules of range and roundrobin, by example."""

import pytest

from kohort.assignors import Member, assignor, without_racks

from .groups import member, shown

RANGE, ROUNDROBIN = assignor("range"), assignor("roundrobin")


def test_range_cuts_each_topic_by_itself() -> None:
    assigned = RANGE.assign(without_racks({"t": 3, "u": 3}), [member("b", "tu"), member("a", "tu")])
    assert shown(assigned) == {"a": "t0 t1 u0 u1", "b": "t2 u2"}


def test_range_leaves_members_without_when_there_are_more_of_them() -> None:
    assigned = RANGE.assign(without_racks({"t": 2}), [member(name, "t") for name in "abc"])
    assert shown(assigned) == {"a": "t0", "b": "t1", "c": ""}


def test_range_looks_at_subscribers_only() -> None:
    assigned = RANGE.assign(
        without_racks({"t": 4, "u": 2}), [member("a", "t"), member("b", "tu"), member("c", "u")]
    )
    assert shown(assigned) == {"a": "t0 t1", "b": "t2 t3 u0", "c": "u1"}


@pytest.mark.parametrize(
    ("of", "first"), [(RANGE, "t0 t1"), (ROUNDROBIN, "t0 t3")], ids=["range", "roundrobin"]
)
def test_static_members_come_first_by_instance_id(of, first: str) -> None:
    members = [member("a", "t"), member("z", "t", instance="1"), member("y", "t", instance="2")]
    assigned = shown(of.assign(without_racks({"t": 4}), members))
    assert assigned["z"] == first
    assert len(assigned["a"].split()) == 1


def test_a_static_member_that_comes_back_gets_the_same() -> None:
    topics, others = without_racks({"t": 5}), [member("b", "t"), member("c", "t", instance="2")]
    before = RANGE.assign(topics, [member("a-1", "t", instance="1"), *others])
    after = RANGE.assign(topics, [member("z-2", "t", instance="1"), *others])
    assert shown(after)["z-2"] == shown(before)["a-1"]


def test_ids_sort_as_java_sorts_them() -> None:
    """By UTF-16 code units: characters beyond the first plane come before some of it."""
    assigned = RANGE.assign(
        without_racks({"t": 1}), [member("\ufb01", "t"), member("\U0001f600", "t")]
    )
    assert shown(assigned)["\U0001f600"] == "t0"


def racks(text: str) -> list[frozenset[str]]:
    """ "ab bc": of each partition, the racks of its replicas."""
    return [frozenset(word) for word in text.split()]


def test_range_reads_in_its_own_rack() -> None:
    members = [member("1", "t", rack="a"), member("2", "t", rack="b"), member("3", "t", rack="c")]
    assert shown(RANGE.assign({"t": racks("c b a")}, members)) == {"1": "t2", "2": "t1", "3": "t0"}


def test_range_keeps_shares_equal_before_racks() -> None:
    members = [member("1", "t", rack="a"), member("2", "t", rack="b")]
    assert shown(RANGE.assign({"t": racks("a a a a")}, members)) == {"1": "t0 t1", "2": "t2 t3"}


def test_range_co_partitions_across_racks() -> None:
    """Number 0 has replicas of both topics in b, so it goes there, of both."""
    members = [member("1", "tu", rack="a"), member("2", "tu", rack="b")]
    assigned = RANGE.assign({"t": racks("ab a"), "u": racks("b a")}, members)
    assert shown(assigned) == {"1": "t1 u1", "2": "t0 u0"}


def test_range_ignores_racks_that_cannot_matter() -> None:
    members = [member("1", "t", rack="a"), member("2", "t", rack="b")]
    plain = {"1": "t0", "2": "t1"}
    assert shown(RANGE.assign({"t": racks("ab ba")}, members)) == plain, (
        "all racks have all partitions"
    )
    assert shown(RANGE.assign({"t": racks("c d")}, members)) == plain, (
        "no member is in a rack that has any"
    )


def test_roundrobin_deals_on_from_topic_to_topic() -> None:
    assigned = ROUNDROBIN.assign(
        without_racks({"t": 3, "u": 3}), [member("a", "tu"), member("b", "tu")]
    )
    assert shown(assigned) == {"a": "t0 t2 u1", "b": "t1 u0 u2"}


def test_roundrobin_passes_over_who_is_not_subscribed() -> None:
    members = [member("a", "t"), member("b", "tu"), member("c", "tuv")]
    assigned = ROUNDROBIN.assign(without_racks({"t": 1, "u": 2, "v": 3}), members)
    assert shown(assigned) == {"a": "t0", "b": "u0", "c": "u1 v0 v1 v2"}


def test_a_topic_named_twice_counts_once() -> None:
    twice = Member(member_id=member("a", "").member_id, topics=("t", "t"))
    for of in (RANGE, ROUNDROBIN):
        assigned = of.assign(without_racks({"t": 4}), [twice, member("b", "t")])
        assert [len(each.partitions) for each in assigned.values()] == [2, 2]
