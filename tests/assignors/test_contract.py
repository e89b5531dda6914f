"""What every assignor owes, whatever the group says of itself."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.assignors import (
    ASSIGNORS,
    Assignor,
    Member,
    Topics,
    assignor,
    rebalance_protocol,
    without_racks,
)
from kohort.assignors.base import RebalanceProtocol
from kohort.errors import ConfigError
from kohort.types import MemberId, TopicPartition
from turns import cpu_ms

from .groups import TOPICS, groups, rejoining

sticky_ones = [assignor("sticky"), assignor("cooperative-sticky")]
every_assignor = pytest.mark.parametrize("of", ASSIGNORS.values(), ids=ASSIGNORS)


def wanted(topics: Topics, members: list[Member]) -> set[TopicPartition]:
    """The partitions of topics that exist and have a subscriber."""
    subscribed = {topic for one in members for topic in one.topics}
    return {
        TopicPartition(topic, p)
        for topic in subscribed & topics.keys()
        for p in range(len(topics[topic]))
    }


@every_assignor
@settings(max_examples=examples(100))
@given(st.data())
def test_each_partition_goes_to_one_subscriber_or_is_withheld(
    of: Assignor, data: st.DataObject
) -> None:
    topics, members = data.draw(TOPICS), data.draw(groups(of))
    assigned = of.assign(topics, members)
    assert assigned.keys() == {one.member_id for one in members}
    assert all(each.user_data is None for each in assigned.values())
    given_out = Counter(partition for each in assigned.values() for partition in each.partitions)
    assert all(count == 1 for count in given_out.values())
    for one in members:
        assert {partition.topic for partition in assigned[one.member_id].partitions} <= set(
            one.topics
        )
    owned = {partition for one in members for partition in one.owned_partitions}
    assert wanted(topics, members) - owned <= given_out.keys() <= wanted(topics, members)


@every_assignor
@settings(max_examples=examples(50))
@given(st.data())
def test_the_order_of_members_and_topics_does_not_matter(of: Assignor, data: st.DataObject) -> None:
    topics, members = data.draw(TOPICS), data.draw(groups(of))
    shuffled = data.draw(st.permutations(members))
    again = of.assign(dict(reversed([*topics.items()])), [*shuffled])
    assert again == of.assign(topics, members)


@pytest.mark.parametrize("of", sticky_ones, ids=lambda of: of.name)
@settings(max_examples=examples(100))
@given(st.data())
def test_a_sticky_group_settles_and_then_moves_nothing(of: Assignor, data: st.DataObject) -> None:
    topics, members = data.draw(TOPICS), data.draw(groups(of))
    settled = of.assign(topics, rejoining(of, members, of.assign(topics, members)))
    given_out = {partition for each in settled.values() for partition in each.partitions}
    assert given_out == wanted(topics, members), (
        "what was withheld is given out one rebalance later"
    )
    assert of.assign(topics, rejoining(of, members, settled, generation=2)) == settled


@pytest.mark.parametrize(
    "of",
    [assignor("sticky"), assignor("cooperative-sticky"), assignor("roundrobin")],
    ids=lambda of: of.name,
)
@given(st.data())
def test_equal_subscriptions_give_equal_loads(of: Assignor, data: st.DataObject) -> None:
    counts = data.draw(st.dictionaries(st.sampled_from("tuv"), st.integers(1, 5), min_size=1))
    names = data.draw(st.sets(st.text("ab", min_size=1), min_size=1, max_size=5))
    assigned = of.assign(
        without_racks(counts), [Member(member_id=MemberId(n), topics=tuple(counts)) for n in names]
    )
    loads = [len(each.partitions) for each in assigned.values()]
    assert max(loads) - min(loads) <= 1


@every_assignor
def test_no_members_and_no_partitions_give_empty_assignments(of: Assignor) -> None:
    assert of.assign({"t": (frozenset(),)}, []) == {}
    assigned = of.assign(
        {"empty": ()}, [Member(member_id=MemberId("a"), topics=("empty", "unknown"))]
    )
    assert assigned[MemberId("a")].partitions == ()


@every_assignor
def test_a_thousand_members_and_ten_thousand_partitions(of: Assignor) -> None:
    random = Random(5)
    names = [f"t{number}" for number in range(100)]
    topics = {name: [frozenset(random.sample("xyz", 2)) for _ in range(100)] for name in names}
    members = [
        Member(
            member_id=MemberId(f"m{number}"),
            topics=tuple(random.sample(names, 10)),
            rack=random.choice("xyz"),
        )
        for number in range(1_000)
    ]
    found = []
    taken_ms = cpu_ms(lambda: found.append(of.assign(topics, members)))
    assert sum(len(each.partitions) for each in found[0].values()) == 10_000
    assert taken_ms < 1_000


def test_assignors_by_name() -> None:
    assert list(ASSIGNORS) == ["range", "roundrobin", "sticky", "cooperative-sticky"]
    with pytest.raises(ConfigError, match="'roundrobin' is one"):
        assignor("round-robin")


def test_the_rebalance_protocol_is_the_highest_in_common() -> None:
    eager, cooperative = assignor("range"), assignor("cooperative-sticky")
    assert rebalance_protocol([cooperative]) is RebalanceProtocol.COOPERATIVE
    assert rebalance_protocol([cooperative, eager]) is RebalanceProtocol.EAGER


def test_assignors_without_a_common_protocol_are_refused() -> None:
    class OnlyCooperative(Assignor):
        name = "mine"
        protocols = (RebalanceProtocol.COOPERATIVE,)

    with pytest.raises(ConfigError, match=r"mine \(COOPERATIVE\), range \(EAGER\)"):
        rebalance_protocol([OnlyCooperative(), assignor("range")])
