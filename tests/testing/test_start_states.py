"""Start states: whatever is built can be loaded, and is what was asked for."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.log_entries import compact
from effort import examples
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.consumer.group import ConsumerGroup, ConsumerGroupState, partitions_of
from kohort.coordinator.fold import Fold
from kohort.coordinator.records import decode, encode
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.errors import KohortError
from kohort.protocol.subscription import decode_assignment
from kohort.testing import Bench
from kohort.testing.start_states import StartedGroup, StartState, start_state
from kohort.types import Timestamp

NOW = Timestamp(1_790_000_000_000)
TOPICS = FixedTopics(
    [TopicImage("orders", UUID(int=11), 6), TopicImage("payments", UUID(int=12), 2)], version=1
)
ASSIGNORS = {
    "classic": ["range", "roundrobin", "sticky", "cooperative-sticky"],
    "consumer": ["uniform", "range"],
}


def built(**fields: Any) -> StartedGroup:
    return start_state("billing", StartState(**fields), TOPICS, GroupCoordinatorConfig(), NOW)


@st.composite
def states(draw: st.DrawFn) -> StartState:
    type_ = draw(st.sampled_from(["classic", "consumer"]))
    names = st.lists(st.sampled_from("abcde"), max_size=4, unique=True)
    instance_ids = draw(names)
    members = draw(st.none() | st.integers(len(instance_ids), 5))
    count = StartState(members=members, instance_ids=instance_ids).count
    committed = draw(
        st.dictionaries(
            st.tuples(st.just("orders"), st.integers(0, 5))
            | st.tuples(st.just("payments"), st.integers(0, 1)),
            st.integers(0, 2**62),
            max_size=4,
        )
    )
    return StartState(
        members=members,
        instance_ids=instance_ids,
        generation=draw(st.none() | st.integers(count + 1, 2**31 - 1)),
        topics=draw(st.sampled_from([["orders"], ["payments", "orders"]])),
        committed=committed,
        type=type_,
        assignor=draw(st.sampled_from(ASSIGNORS[type_])),
        reconciling=type_ == "consumer" and count > 1 and draw(st.booleans()),
    )


def replayed(records: Any) -> Fold:
    fold = Fold()
    for record in records:
        fold.replay(record)
    return fold


@settings(max_examples=examples(150))
@given(state=states())
def test_each_state_is_what_was_asked_for_and_stays_so_when_loaded(state: StartState) -> None:
    started = start_state("billing", state, TOPICS, GroupCoordinatorConfig(), NOW)
    stored = [decode(*encode(record)) for record in started.records]
    logged = replayed(started.records).logged_state()
    assert replayed(stored).logged_state() == logged
    assert replayed(compact(list(started.records))).logged_state() == logged
    bench = Bench(topics=TOPICS, log=started.records)  # it is loaded by a coordinator
    assert len(bench.log) == len(started.records), "the coordinator repairs nothing"
    if not bench.shard.groups:
        assert (state.type, started.records, state.committed) == ("classic", (), {})
        return
    group = bench.shard.groups["billing"]
    assert set(group.sessions) == set(started.member_ids)
    assert {each: offset.offset for each, offset in group.offsets.items()} == state.committed
    if isinstance(group, ConsumerGroup):
        check_consumer_group(group, state)
    else:
        check_classic_group(bench, state)


def check_classic_group(bench: Bench, state: StartState) -> None:
    group = bench.group("billing")
    if state.generation is not None:
        assert group.generation == state.generation
    assert str(group.state) == ("Stable" if group.sessions else "Empty")
    if group.logged is not None and group.sessions:
        assigned = [
            partition
            for member in group.logged.members.values()
            for partition in decode_assignment(member.assignment).partitions
        ]
        images = [TOPICS.by_name(name) for name in state.topics]
        partitions = sum(image.partitions for image in images if image is not None)
        assert len(assigned) == len(set(assigned)) == partitions


def check_consumer_group(group: ConsumerGroup, state: StartState) -> None:
    if state.generation is not None:
        assert group.epoch == state.generation
    expected = ConsumerGroupState.STABLE if group.members else ConsumerGroupState.EMPTY
    assert group.state is (ConsumerGroupState.RECONCILING if state.reconciling else expected)
    owned = [
        (topic_id, partition, member.member_id)
        for member in group.members.values()
        for partitions in (member.current.assigned, member.current.pending_revocation)
        for topic_id, numbers in partitions_of(partitions).items()
        for partition in numbers
    ]
    assert len({(topic_id, partition) for topic_id, partition, _ in owned}) == len(owned)
    assert all(group.owner(topic_id, number) == member for topic_id, number, member in owned)


@pytest.mark.parametrize("type_", ["classic", "consumer"])
def test_members_of_a_started_group_go_on(type_: Any) -> None:
    started = built(type=type_, members=3, generation=9, topics=["orders"])
    bench = Bench(topics=TOPICS, log=started.records)
    for member_id in started.member_ids:
        if type_ == "classic":
            assert bench.heartbeat("billing", member_id, 9).error == "none"
        else:
            call = bench.consumer_heartbeat("billing", member_id, 9)
            assert call.error == "none"
            assert call.response.member_epoch == 9


def test_a_reconciling_group_becomes_stable_when_partitions_are_revoked() -> None:
    started = built(type="consumer", members=2, topics=["orders"], reconciling=True)
    bench = Bench(topics=TOPICS, log=started.records)
    epochs = {member_id: bench.consumer_group("billing").members[member_id].current.epoch
              for member_id in started.member_ids}  # fmt: skip
    for _ in range(3):
        for member_id, epoch in epochs.items():
            member = bench.consumer_group("billing").members[member_id]
            owned = partitions_of(member.current.assigned)
            call = bench.consumer_heartbeat("billing", member_id, epoch, owned=owned)
            epochs[member_id] = call.response.member_epoch
    assert bench.state("billing") is ConsumerGroupState.STABLE


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "members subscribe to topics: name them by topics="),
        ({"members": 1, "instance_ids": ["a", "b"]}, "at least its 2 static members"),
        ({"topics": ["order"]}, "there is no topic 'order'; did you mean orders?"),
        ({"topics": ["absent"]}, "kafka.topic(…) creates topics"),
        ({"committed": {("orders", 6): 1}}, "orders has the partitions 0 to 5"),
        ({"topics": ["orders"], "generation": 0}, "is in generation 1 or later"),
        ({"topics": ["orders"], "assignor": "uniform"}, "no assignor is called 'uniform'"),
        (
            {"topics": ["orders"], "type": "consumer", "assignor": "sticky"},
            "ConsumerGroupHeartbeat with UNSUPPORTED_ASSIGNOR",
        ),
        ({"topics": ["orders"], "session_timeout_ms": 1}, "JoinGroup with INVALID_SESSION_TIMEOUT"),
        (
            {"topics": ["orders"], "type": "consumer", "members": 3, "generation": 3},
            "this group is in epoch 4 or a later one",
        ),
        ({"topics": ["orders"], "members": 2, "reconciling": True}, "needs type='consumer'"),
        (
            {"topics": ["orders"], "type": "consumer", "reconciling": True},
            "two members or more",
        ),
        (
            {"topics": ["payments"], "type": "consumer", "members": 3, "reconciling": True},
            "as many partitions as members",
        ),
    ],
)
def test_an_impossible_state_is_refused_with_its_reason(
    fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(KohortError) as error:
        built(**fields)
    assert reason in str(error.value)


def test_a_group_above_the_size_limit_is_refused() -> None:
    config = GroupCoordinatorConfig(max_size=2)
    state = StartState(members=3, topics=["orders"])
    with pytest.raises(KohortError, match="JoinGroup with GROUP_MAX_SIZE_REACHED"):
        start_state("billing", state, TOPICS, config, NOW)
