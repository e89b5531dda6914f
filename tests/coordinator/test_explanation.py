"""Explanations of groups: who is awaited, for what, and until when."""

from uuid import UUID

from kohort.coordinator.config import ConsumerGroupConfig, GroupCoordinatorConfig
from kohort.coordinator.explanation import explain
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.testing.bench import Bench

T = UUID(int=1)
AT_ONCE = GroupCoordinatorConfig(consumer=ConsumerGroupConfig(assignment_interval_ms=0))


def awaited(bench):
    """What each awaited member has to do."""
    group = bench.shard.groups["g"]
    return {each.member_id: each.what for each in explain(group).awaited}


def first_member(bench):
    """The id of the only member of a stable group."""
    joined = bench.handshake("g", client_id="first")
    bench.advance(0)
    member_id = joined.response.member_id
    bench.sync("g", member_id, 1, {member_id: b"all"})
    return member_id


def test_a_group_that_does_not_exist_is_explained():
    explanation = explain(None)
    assert (explanation.state, explanation.awaited) == ("Dead", ())
    assert explanation.why


def test_a_stable_group_awaits_nobody(bench):
    first_member(bench)
    explanation = explain(bench.group("g"))
    assert (explanation.state, explanation.why, explanation.awaited) == ("Stable", "", ())


def test_a_group_without_members_says_so(bench):
    bench.leave("g", first_member(bench))
    explanation = explain(bench.group("g"))
    assert (explanation.state, explanation.why) == ("Empty", "it has no members")


def test_the_initial_delay_is_named_as_the_reason():
    bench = Bench(GroupCoordinatorConfig(initial_rebalance_delay_ms=3_000))
    bench.handshake("g")
    explanation = explain(bench.group("g"))
    assert explanation.state == "PreparingRebalance"
    assert "group.initial.rebalance.delay.ms" in explanation.why
    assert explanation.awaited == ()


def test_a_join_phase_awaits_the_members_that_have_not_rejoined(bench):
    first = first_member(bench)
    bench.advance(1_000)
    second = bench.handshake("g", client_id="second")
    assert second.parked
    explanation = explain(bench.group("g"))
    assert explanation.state == "PreparingRebalance"
    (member,) = explanation.awaited
    assert (member.member_id, member.client_id, member.what) == (first, "first", "JoinGroup")
    assert member.until == bench.now + 9_000, "its session is of 10 s"
    assert explanation.until == bench.now + 60_000, "the rebalance timeout"


def test_a_join_phase_awaits_the_ids_that_were_handed_out(bench):
    first = first_member(bench)
    bench.handshake("g", client_id="second")
    third = bench.join("g", client_id="third").response.member_id
    assert awaited(bench) == {first: "JoinGroup", third: "JoinGroup with its new member id"}


def test_a_sync_phase_awaits_the_leader(bench):
    first = first_member(bench)
    bench.handshake("g", client_id="second")
    bench.join("g", first)
    explanation = explain(bench.group("g"))
    assert explanation.state == "CompletingRebalance"
    (member,) = explanation.awaited
    assert member.member_id == first
    assert member.what.startswith("SyncGroup")
    assert explanation.until == bench.now + 60_000


def test_a_reconciliation_awaits_each_step_of_the_members():
    bench = Bench(AT_ONCE, topics=FixedTopics([TopicImage("t", T, 2)], version=1))
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    assert explain(bench.consumer_group("g")).why == ""
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    assert explain(bench.consumer_group("g")).state == "Reconciling"
    assert awaited(bench) == {"A": "heartbeat, to reach epoch 3"}
    bench.consumer_heartbeat("g", "A", 2)
    assert awaited(bench) == {"A": "revocation of 1 partition"}
    bench.consumer_heartbeat("g", "A", 2, owned={T: (0,)})
    assert awaited(bench) == {"B": "heartbeat, to get its released partitions"}
    bench.consumer_heartbeat("g", "B", 3)
    assert explain(bench.consumer_group("g")).state == "Stable"


def test_a_session_that_ends_soon_is_told_with_its_time():
    bench = Bench(AT_ONCE, topics=FixedTopics([TopicImage("t", T, 2)], version=1))
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    bench.advance(1_000)
    (member,) = explain(bench.consumer_group("g")).awaited
    assert member.until == bench.now + 44_000
