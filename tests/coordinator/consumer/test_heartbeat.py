"""ConsumerGroupHeartbeat: each case is what Apache Kafka 4.4 answered and wrote."""

from dataclasses import replace
from uuid import UUID

import pytest

from kohort.coordinator.config import ConsumerGroupConfig, GroupCoordinatorConfig
from kohort.coordinator.consumer.heartbeat import MAX_TOPICS
from kohort.coordinator.consumer.steady import SteadyHeartbeat
from kohort.coordinator.consumer.target import (
    MAX_IMMEDIATE_SIZE,
    MAX_STORED_WEIGHT,
    RETRY_INTERVAL_MS,
)
from kohort.coordinator.consumer_records import (
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataRecord,
    CurrentMemberAssignmentRecord,
    CurrentMemberAssignmentValue,
    GroupKey,
    MemberKey,
    PartitionMetadataRecord,
    RegularExpressionRecord,
    TargetAssignmentMemberRecord,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataRecord,
    TargetAssignmentMetadataValue,
)
from kohort.coordinator.jobs import ComputeTarget, TargetFailed
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.testing.bench import Bench

T, U = UUID(int=1), UUID(int=2)
TOPICS = FixedTopics([TopicImage("t", T, 2), TopicImage("u", U, 2)], version=1)
AT_ONCE = GroupCoordinatorConfig(consumer=ConsumerGroupConfig(assignment_interval_ms=0))
STABLE, UNREVOKED, UNRELEASED = range(3)


@pytest.fixture
def bench():
    return Bench(AT_ONCE, topics=TOPICS)


def told(call):
    """Epoch and assignment in a response."""
    response = call.response
    assert call.error == "none", response.error_message
    return response.member_epoch, response.assignment


def written(call):
    """The records by a short name: type, member, epoch, partitions of T."""
    return [brief(record) for record in call.result.records]


def brief(record):
    value = record.value
    match record:
        case ConsumerGroupMetadataRecord():
            return 3, value and value.epoch
        case PartitionMetadataRecord():
            return 4, value
        case ConsumerGroupMemberMetadataRecord():
            return 5, record.key.member_id, value and value.topics
        case TargetAssignmentMetadataRecord():
            return 6, value and value.epoch
        case TargetAssignmentMemberRecord():
            return 7, record.key.member_id, value and dict(value.partitions)
        case CurrentMemberAssignmentRecord():
            return 8, record.key.member_id, value and tuple(value)
        case RegularExpressionRecord():
            return 16, record.key.regex, value and value.topics


def test_a_partition_moves_from_one_member_to_another(bench):
    call = bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    assert told(call) == (2, {T: (0, 1)})
    assert written(call) == [
        (5, "A", ("t",)),
        (3, 2),
        (7, "A", {T: (0, 1)}),
        (6, 2),
        (8, "A", (2, 0, STABLE, {T: {0: 2, 1: 2}}, {})),
    ]
    call = bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    assert told(call) == (3, {})
    assert written(call) == [
        (5, "B", ("t",)),
        (3, 3),
        (7, "A", {T: (0,)}),
        (7, "B", {T: (1,)}),
        (6, 3),
        (8, "B", (3, 0, UNRELEASED, {}, {})),
    ]
    call = bench.consumer_heartbeat("g", "B", 3)
    assert told(call) == (3, None)
    assert written(call) == [(8, "B", (3, 3, UNRELEASED, {}, {}))]
    assert written(bench.consumer_heartbeat("g", "B", 3)) == []
    call = bench.consumer_heartbeat("g", "A", 2)
    assert told(call) == (2, {T: (0,)})
    assert written(call) == [(8, "A", (2, 2, UNREVOKED, {T: {0: 2}}, {T: {1: 2}}))]
    call = bench.consumer_heartbeat("g", "A", 2)
    assert told(call) == (2, None)
    assert written(call) == []
    call = bench.consumer_heartbeat("g", "A", 2, owned={T: (0,)})
    assert told(call) == (3, None)
    assert written(call) == [(8, "A", (3, 2, STABLE, {T: {0: 2}}, {}))]
    call = bench.consumer_heartbeat("g", "B", 3)
    assert told(call) == (3, {T: (1,)})
    assert written(call) == [(8, "B", (3, 3, STABLE, {T: {1: 3}}, {}))]
    assert bench.state() == "Stable"


def test_rebalances_are_in_the_journal(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    (first,) = bench.journal
    assert (first.type, first.generation) == ("consumer", 2)
    assert (first.outcome, first.members) == ("stable", ("A",))
    assert bench.shard.statistics()["groups"] == {("consumer", "Stable"): 1}
    assert [(cause.what, cause.member_id) for cause in first.causes] == [("joined", "A")]
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    bench.advance(10)
    bench.consumer_heartbeat("g", "A", 2)
    bench.consumer_heartbeat("g", "A", 2, owned={T: (0,)})
    assert len(bench.journal) == 1
    bench.advance(20)
    bench.consumer_heartbeat("g", "B", 3)
    second = bench.journal[1]
    assert (second.generation, second.outcome, second.members) == (3, "stable", ("A", "B"))
    assert (second.join_ms, second.sync_ms) == (0, 30)
    bench.leave("g", "A", "B", reason="enough")
    third = bench.journal[2]
    assert (third.generation, third.outcome, third.members) == (4, "empty", ())
    assert [(cause.what, cause.reason) for cause in third.causes] == [("left", "enough")]


def test_a_static_member_returns(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"], instance_id="i")
    call = bench.consumer_heartbeat("g", "A", -2, instance_id="i")
    assert call.response.member_epoch == -2
    assert written(call) == [(8, "A", (-2, 0, STABLE, {T: {0: 0, 1: 0}}, {}))]
    assert bench.consumer_heartbeat("g", "A", 2, instance_id="i").error == "fenced_member_epoch"
    call = bench.consumer_heartbeat("g", "B", 0, topics=["t"], instance_id="i")
    assert told(call) == (2, {T: (0, 1)})
    assert written(call) == [
        (8, "A", None),
        (7, "A", None),
        (5, "A", None),
        (5, "B", ("t",)),
        (7, "B", {T: (0, 1)}),
        (8, "B", (0, 0, STABLE, {T: {0: 0, 1: 0}}, {})),
        (8, "B", (2, 0, STABLE, {T: {0: 0, 1: 0}}, {})),
    ]
    assert bench.consumer_heartbeat("g", "A", 2, instance_id="i").error == "fenced_instance_id"
    assert bench.consumer_heartbeat("g", "A", 2).error == "unknown_member_id"
    bench.advance(40_000)
    assert told(bench.consumer_heartbeat("g", "B", 2)) == (2, None)


def test_a_static_member_returns_under_its_own_id_with_another_subscription(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"], instance_id="i")
    bench.consumer_heartbeat("g", "A", -2, instance_id="i")
    call = bench.consumer_heartbeat("g", "A", 0, topics=["u"], instance_id="i")
    assert told(call) == (3, {U: (0, 1)})
    assert written(call)[-4:] == [
        (3, 3),
        (7, "A", {U: (0, 1)}),
        (6, 3),
        (8, "A", (3, 0, STABLE, {U: {0: 3, 1: 3}}, {})),
    ]
    assert bench.consumer_group().owner(T, 0) is None


def test_leaving_bumps_the_epoch(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    call = bench.consumer_heartbeat("g", "A", -1)
    assert call.response.member_epoch == -1
    assert call.response.heartbeat_interval_ms == 0
    assert written(call) == [(8, "A", None), (7, "A", None), (5, "A", None), (3, 3), (6, 3)]
    assert call.result.records[-2].value.metadata_hash == 0
    assert bench.state() == "Empty"
    assert bench.advance(100_000) == []


def leave_one_after_the_other(bench):
    bench.consumer_heartbeat("g", "B", -1)
    bench.consumer_heartbeat("g", "A", -1)


def leave_together(bench):
    bench.leave("g", "A", "B")


def are_not_heard_of(bench):
    bench.advance(100_000)


@pytest.mark.parametrize(
    "end", [leave_one_after_the_other, leave_together, are_not_heard_of], ids=lambda f: f.__name__
)
def test_the_last_member_that_leaves_moves_the_assignment_epoch(end):
    """The records of Apache Kafka 4.4; 4.3 left the assignment epoch behind."""
    bench = Bench(topics=TOPICS)
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    end(bench)
    *_, group, target = bench.log
    epoch = bench.consumer_group().epoch
    assert (brief(group), group.value.metadata_hash) == ((3, epoch), 0)
    assert target.value == TargetAssignmentMetadataValue(epoch=epoch, timestamp=0)
    assert bench.consumer_group().target_epoch == epoch
    # the time without a target is none that the next member's has to wait for
    assert told(bench.consumer_heartbeat("g", "C", 0, topics=["t"])) == (epoch + 1, {T: (0, 1)})


def test_a_member_that_leaves_others_behind_does_not_move_the_assignment_epoch(bench):
    for member in "AB":
        bench.consumer_heartbeat("g", member, 0, topics=["t"])
    call = bench.consumer_heartbeat("g", "B", -1)
    assert written(call) == [(8, "B", None), (7, "B", None), (5, "B", None), (3, 4)]


def test_an_empty_subscription_stays_at_the_first_epoch(bench):
    call = bench.consumer_heartbeat("g", "A", 0, topics=[])
    assert told(call) == (1, {})
    assert written(call) == [(5, "A", ()), (8, "A", (1, 0, STABLE, {}, {}))]


def test_within_the_assignment_interval_the_old_target_holds():
    bench = Bench(topics=TOPICS)
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    call = bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    assert told(call) == (2, {})
    assert written(call) == [(5, "B", ("t",)), (3, 3), (8, "B", (2, 0, STABLE, {}, {}))]
    assert bench.state() == "Assigning"
    bench.advance(999)
    assert written(bench.consumer_heartbeat("g", "A", 2)) == []
    bench.advance(1)
    assert told(bench.consumer_heartbeat("g", "A", 2)) == (2, {T: (0,)})
    assert bench.state() == "Reconciling"


DAY_MS = 86_400_000


@pytest.mark.parametrize("jump_ms", [-DAY_MS, DAY_MS])
def test_a_jump_of_the_wall_clock_delays_no_target(jump_ms):
    bench = Bench(topics=TOPICS)
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    bench.set_ahead(jump_ms)
    bench.advance(1_000)
    assert told(bench.consumer_heartbeat("g", "A", 2)) == (2, {T: (0,)})
    bench.consumer_heartbeat("g", "A", 2, owned={T: (0,)})
    assert told(bench.consumer_heartbeat("g", "B", 2)) == (3, {T: (1,)})


@pytest.mark.parametrize("jump_ms", [-DAY_MS, DAY_MS])
def test_a_jump_of_the_wall_clock_delays_no_regular_expression(bench, jump_ms):
    bench.consumer_heartbeat("g", "A", 0, regex="t")
    bench.do_jobs()
    bench.set_ahead(jump_ms)
    epoch, _ = told(bench.consumer_heartbeat("g", "B", 0, regex="u"))
    bench.do_jobs()
    assert told(bench.consumer_heartbeat("g", "B", epoch))[1] == {U: (0, 1)}


REFUSED = {
    "no group id": ({"group": " "}, "invalid_request"),
    "no member id": ({"member_id": ""}, "invalid_request"),
    "an empty instance id": ({"instance_id": ""}, "invalid_request"),
    "an empty rack": ({"rack_id": " "}, "invalid_request"),
    "no timeout": ({"rebalance_timeout_ms": -1}, "invalid_request"),
    "partitions at first": ({"owned": {T: (0,)}}, "invalid_request"),
    "no subscription": ({"topics": None}, "invalid_request"),
    "a dynamic member that will return": ({"member_epoch": -2}, "invalid_request"),
    "an unknown epoch": ({"member_epoch": -3}, "invalid_request"),
    "no assignor": ({"assignor": ""}, "unsupported_assignor"),
    "an unknown assignor, when leaving": (
        {"assignor": "x", "member_epoch": -1},
        "unsupported_assignor",
    ),
    "an unknown group": ({"group": "x", "member_epoch": 1}, "group_id_not_found"),
    "leaving an unknown group": ({"group": "x", "member_epoch": -1}, "group_id_not_found"),
    "an unknown member": ({"member_id": "X", "member_epoch": 1}, "unknown_member_id"),
    "an unknown member that leaves": ({"member_id": "X", "member_epoch": -1}, "unknown_member_id"),
    "an unknown instance": ({"instance_id": "x", "member_epoch": 2}, "unknown_member_id"),
    "an instance that another has": ({"instance_id": "i"}, "unreleased_instance_id"),
    "its own instance": ({"instance_id": "i", "member_id": "S"}, "unreleased_instance_id"),
    "a fenced instance": ({"instance_id": "i", "member_epoch": 2}, "fenced_instance_id"),
    "an epoch to come": ({"member_epoch": 9}, "fenced_member_epoch"),
    "an epoch of before": ({"member_epoch": 1}, "fenced_member_epoch"),
    "a broken regular expression": ({"regex": "("}, "invalid_regular_expression"),
}


@pytest.mark.parametrize(("values", "error"), REFUSED.values(), ids=REFUSED)
def test_a_refused_heartbeat_changes_nothing(bench, values, error):
    bench.consumer_heartbeat("g", "S", 0, topics=["t"], instance_id="i")
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    before = bench.shard.logged_state()
    values = {"group": "g", "member_id": "A", "member_epoch": 0, "topics": ["t"], **values}
    call = bench.consumer_heartbeat(**values)
    assert call.error == error
    assert call.response.error_message
    assert (call.response.member_id, call.response.member_epoch) == (None, 0)
    assert call.result.records == call.result.timers == ()
    assert bench.shard.logged_state() == before
    assert set(bench.shard.groups) == {"g"}


@pytest.mark.parametrize("epoch", [1, -1])
def test_members_of_a_lost_group_may_be_told_to_join_again(epoch):
    bench = Bench(replace(GroupCoordinatorConfig(), consumer_rejoin_lost=True))
    call = bench.consumer_heartbeat("lost", "A", epoch)
    assert call.error == ("unknown_member_id" if epoch > 0 else "group_id_not_found")
    assert "lost not found" in call.response.error_message


def test_the_previous_epoch_passes_with_partitions_that_are_assigned(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    bench.consumer_heartbeat("g", "A", 2)
    bench.consumer_heartbeat("g", "A", 2, owned={T: (0,)})
    assert told(bench.consumer_heartbeat("g", "A", 2, owned={T: (0,)})) == (3, None)
    assert told(bench.consumer_heartbeat("g", "A", 2, owned={})) == (3, None)
    assert bench.consumer_heartbeat("g", "A", 2).error == "fenced_member_epoch"
    assert bench.consumer_heartbeat("g", "A", 2, owned={T: (1,)}).error == "fenced_member_epoch"


def test_a_full_heartbeat_gets_the_assignment_again(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    full = {"topics": ["t"], "rebalance_timeout_ms": 60_000, "owned": {T: (0, 1)}}
    assert told(bench.consumer_heartbeat("g", "A", 2, **full)) == (2, {T: (0, 1)})
    assert told(bench.consumer_heartbeat("g", "A", 2, topics=["t"], owned={})) == (2, None)


def test_a_full_group_takes_no_new_member():
    bench = Bench(replace(AT_ONCE, consumer_max_size=1), topics=TOPICS)
    bench.consumer_heartbeat("g", "A", 0, topics=["t"], instance_id="i")
    assert bench.consumer_heartbeat("g", "B", 0, topics=["t"]).error == "group_max_size_reached"
    other = bench.consumer_heartbeat("g", "B", 0, topics=["t"], instance_id="j")
    assert other.error == "group_max_size_reached"


def test_a_static_member_returns_to_a_full_group():
    bench = Bench(replace(AT_ONCE, consumer_max_size=1), topics=TOPICS)
    bench.consumer_heartbeat("g", "A", 0, topics=["t"], instance_id="i")
    refused = bench.consumer_heartbeat("g", "B", 0, topics=["t"], instance_id="i")
    assert refused.error == "unreleased_instance_id"
    bench.consumer_heartbeat("g", "A", -2, instance_id="i")
    assert bench.consumer_heartbeat("g", "B", 0, topics=["t"], instance_id="i").error == "none"
    assert set(bench.consumer_group().members) == {"B"}


def test_the_group_epoch_is_bumped_when_most_members_name_another_assignor(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    bench.consumer_heartbeat("g", "C", 0, topics=["t"])
    group = bench.consumer_group()
    for member, assignor, bumps in (
        ("A", "uniform", False),  # the first of the server's
        ("B", "range", False),  # as many name each: it is the first again
        ("C", "range", True),
        ("C", "range", False),
        ("A", "range", False),
        ("B", "uniform", False),
        ("C", "uniform", True),
    ):
        before = group.epoch
        current = group.members[member].current
        call = bench.consumer_heartbeat("g", member, current.epoch, assignor=assignor)
        assert call.error == "none"
        assert (group.epoch - before, group.target_epoch) == (int(bumps), group.epoch)


def test_members_that_name_assignors_equally_often_leave_the_epoch(bench):
    """Each heartbeat bumps it in Kafka 4.4."""
    bench.consumer_heartbeat("g", "A", 0, topics=["t"], assignor="range")
    bench.consumer_heartbeat("g", "B", 0, topics=["t"], assignor="uniform")
    group = bench.consumer_group()
    epoch = group.epoch
    for _ in range(3):
        for member in "AB":
            bench.consumer_heartbeat("g", member, group.members[member].current.epoch)
    assert group.epoch == epoch


def test_another_subscription_takes_partitions_away_at_once(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t", "u"])
    bench.advance(1)
    call = bench.consumer_heartbeat("g", "A", 2, topics=["u"])
    assert told(call) == (2, {U: (0, 1)})
    assert written(call)[:2] == [(5, "A", ("u",)), (3, 3)]
    assert written(call)[-1] == (8, "A", (2, 2, UNREVOKED, {U: {0: 2, 1: 2}}, {T: {0: 2, 1: 2}}))


def test_a_topic_is_created_grows_and_is_deleted(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t", "later"])
    later = TopicImage("later", UUID(int=3), 1)
    t = TopicImage("t", T, 2)
    bench.topics = FixedTopics([t, later], 2)
    assert told(bench.consumer_heartbeat("g", "A", 2)) == (3, {T: (0, 1), later.id: (0,)})
    bench.topics = FixedTopics([t, later._replace(partitions=2)], 3)
    assert told(bench.consumer_heartbeat("g", "A", 3)) == (4, {T: (0, 1), later.id: (0, 1)})
    bench.topics = FixedTopics([t], 4)
    assert told(bench.consumer_heartbeat("g", "A", 4)) == (4, {T: (0, 1)})
    assert told(bench.consumer_heartbeat("g", "A", 4, owned={T: (0, 1)})) == (5, None)
    bench.topics = FixedTopics([t, TopicImage("other", U, 1)], 5)
    assert written(bench.consumer_heartbeat("g", "A", 5)) == []


def test_the_hash_of_the_topics_has_the_rack_of_their_replicas(bench):
    h1 = TopicImage("h1", UUID("4bd878ca-8482-4c36-9959-37e467de3d0d"), 1)
    bench.topics = FixedTopics([h1], version=1, rack="rÃ¤ck-1")
    call = bench.consumer_heartbeat("g", "A", 0, topics=["h1"])
    assert call.result.records[1].value.metadata_hash == -1118451667282946521
    bench.topics = FixedTopics([h1], version=2, rack="another")
    assert written(bench.consumer_heartbeat("g", "A", 2))[0] == (3, 3)


def test_other_topics_do_not_bump_the_epoch_while_a_regex_is_unresolved(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=[], regex="t")
    bench.do_jobs()
    assert told(bench.consumer_heartbeat("g", "A", 1)) == (2, {T: (0, 1)})
    bench.consumer_heartbeat("g", "A", 2, regex="u")
    bench.topics = FixedTopics([*map(TOPICS.by_name, "tu"), TopicImage("v", UUID(int=3), 1)], 2)
    assert told(bench.consumer_heartbeat("g", "A", 2, owned={})) == (2, None)
    bench.do_jobs()
    assert told(bench.consumer_heartbeat("g", "A", 2)) == (3, {U: (0, 1)})


def test_a_silent_member_expires(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.advance(44_999)
    assert bench.state() == "Stable"
    bench.consumer_heartbeat("g", "A", 2)
    bench.advance(44_999)
    assert bench.state() == "Stable"
    bench.advance(1)
    assert bench.state() == "Empty"
    assert bench.consumer_heartbeat("g", "A", 2).error == "unknown_member_id"


def test_a_member_that_does_not_revoke_in_time_is_removed(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"], rebalance_timeout_ms=10_000)
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    bench.consumer_heartbeat("g", "A", 2)
    bench.advance(9_999)
    bench.consumer_heartbeat("g", "A", 2)
    assert set(bench.consumer_group().members) == {"A", "B"}
    bench.advance(1)
    assert set(bench.consumer_group().members) == {"B"}
    assert told(bench.consumer_heartbeat("g", "B", 3)) == (4, {T: (0, 1)})


def test_a_member_that_revoked_is_not_removed(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"], rebalance_timeout_ms=10_000)
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    bench.consumer_heartbeat("g", "A", 2)
    bench.consumer_heartbeat("g", "A", 2, owned={T: (0,)})
    bench.advance(20_000)
    assert set(bench.consumer_group().members) == {"A", "B"}


def test_timers_start_anew_after_loading(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"], rebalance_timeout_ms=10_000)
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    bench.consumer_heartbeat("g", "A", 2)
    bench.advance(9_000)
    bench.restart()
    bench.advance(9_999)
    assert set(bench.consumer_group().members) == {"A", "B"}
    bench.advance(1)
    assert set(bench.consumer_group().members) == {"B"}
    bench.advance(35_000)
    assert bench.state() == "Empty"


def test_the_next_heartbeat_after_loading_is_told_the_assignment(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    revoking = told(bench.consumer_heartbeat("g", "A", 2))
    assert revoking == (2, {T: (0,)})
    assert told(bench.consumer_heartbeat("g", "A", 2)) == (2, None)
    bench.restart()
    assert told(bench.consumer_heartbeat("g", "A", 2)) == revoking
    assert told(bench.consumer_heartbeat("g", "A", 2)) == (2, None)


def test_a_member_in_a_state_of_the_future_goes_on_with_nothing(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    key = MemberKey("g", "A")
    bench.log.append(
        CurrentMemberAssignmentRecord(key, CurrentMemberAssignmentValue(2, 2, 9, {T: {0: 2}}, {}))
    )
    bench.restart()
    assert bench.consumer_heartbeat("g", "A", 2).error == "fenced_member_epoch"
    assert told(bench.consumer_heartbeat("g", "A", 2, owned={})) == (2, {T: (0, 1)})


def test_a_log_of_kafka_before_4_1_loses_its_metadata_of_topics(bench):
    bench.log += [
        ConsumerGroupMemberMetadataRecord(
            MemberKey("g", "A"), ConsumerGroupMemberMetadataValue(topics=("t",))
        ),
        PartitionMetadataRecord(GroupKey("g"), b"\0\0\1\0"),
        TargetAssignmentMemberRecord(MemberKey("g", "A"), TargetAssignmentMemberValue({})),
        TargetAssignmentMetadataRecord(GroupKey("g"), TargetAssignmentMetadataValue(1)),
    ]
    bench.restart()
    records = written(bench.consumer_heartbeat("g", "A", 0, topics=["t"]))
    assert records[1:3] == [(4, None), (3, 2)]


def test_a_regular_expression_that_only_kafka_takes_matches_nothing():
    value = ConsumerGroupMemberMetadataValue(client_host="/127.0.0.1", regex=r"\pL" * 300)
    member = ConsumerGroupMemberMetadataRecord(MemberKey("g", "A"), value)
    bench = Bench(AT_ONCE, topics=TOPICS, log=[member])
    bench.consumer_heartbeat("g", "B", 0, regex="t")
    bench.do_jobs()
    assert told(bench.consumer_heartbeat("g", "B", 1)) == (2, {T: (0, 1)})


def test_partitions_revoked_for_an_expression_without_matches_go_to_other_members(bench):
    bench.consumer_heartbeat("g", "A", 0, regex="t")
    bench.do_jobs()
    assert told(bench.consumer_heartbeat("g", "A", 1)) == (2, {T: (0, 1)})
    bench.advance(11_000)
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    bench.consumer_heartbeat("g", "A", 2, owned={T: (0, 1)})
    bench.consumer_heartbeat("g", "A", 2, owned={T: (0,)})
    assert told(bench.consumer_heartbeat("g", "B", 3)) == (3, {T: (1,)})
    bench.consumer_heartbeat("g", "A", 3, regex="x", owned={})
    bench.do_jobs()
    assert told(bench.consumer_heartbeat("g", "B", 3)) == (4, {T: (0, 1)})


def test_an_empty_classic_group_becomes_a_consumer_group_and_back(bench):
    bench.commit("g", {("t", 0): 7})
    call = bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    assert call.result.records[0].value is None
    assert written(call)[1:3] == [(5, "A", ("t",)), (3, 2)]
    assert bench.fetch("g", ("t", 0)).response.offsets[0].offset == 7
    assert bench.join("g", protocol_type="connect").error == "inconsistent_group_protocol"
    bench.consumer_heartbeat("g", "A", -1)
    call = bench.join("g")
    assert call.error == "member_id_required"
    assert [brief(record) for record in call.result.records[:3]] == [
        (6, None),
        (4, None),
        (3, None),
    ]
    assert bench.fetch("g", ("t", 0)).response.offsets[0].offset == 7
    live = bench.shard.logged_state()
    bench.restart()
    assert bench.shard.logged_state() == live


def test_a_classic_group_with_members_stays_one(bench):
    bench.stable("g")
    assert bench.consumer_heartbeat("g", "A", 0, topics=["t"]).error == "group_id_not_found"


def steady(bench, **changes):
    usual = SteadyHeartbeat("g", "A", 2, None, "client", "/127.0.0.1")
    return bench.shard.steady_heartbeat(usual._replace(**changes), bench.now)


def test_a_steady_heartbeat_keeps_the_session_alive(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.advance(40_000)
    assert steady(bench) == 5_000
    bench.advance(44_999)
    assert bench.state() == "Stable"
    bench.advance(1)
    assert bench.state() == "Empty"


@pytest.mark.parametrize(
    "changes",
    [
        {"group": "x"},
        {"member_id": "X"},
        {"member_epoch": 1},
        {"member_epoch": 0},
        {"instance_id": "i"},
        {"client_id": "other"},
        {"client_host": "/10.0.0.1"},
    ],
)
def test_any_other_heartbeat_is_not_steady(bench, changes):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.advance(40_000)
    assert steady(bench, **changes) is None
    bench.advance(5_000)
    assert bench.state() == "Empty"


def test_a_heartbeat_is_not_steady_when_there_is_something_to_do(bench):
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.topics = FixedTopics([TopicImage("t", T, 3)], 2)
    bench.shard.topics = bench.topics
    assert steady(bench) is None
    assert told(bench.consumer_heartbeat("g", "A", 2)) == (3, {T: (0, 1, 2)})
    assert steady(bench, member_epoch=3) == 5_000
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    assert steady(bench, member_epoch=3) is None
    bench.consumer_heartbeat("g", "A", 3)
    assert steady(bench, member_epoch=3) is None
    bench.consumer_heartbeat("g", "B", 4, regex="x.*")
    assert steady(bench, member_id="B", member_epoch=4) is None
    bench.restart()
    assert steady(bench, member_epoch=3) is None


def test_the_target_of_a_large_group_is_computed_in_the_background():
    many = FixedTopics([TopicImage("t", T, MAX_IMMEDIATE_SIZE)], 1)
    bench = Bench(AT_ONCE, topics=many)
    assert told(bench.consumer_heartbeat("g", "A", 0, topics=["t"])) == (1, {})
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    assert len(bench.jobs) == 1
    (result,) = bench.do_jobs()
    assert [brief(record)[:2] for record in result.records] == [(7, "A"), (6, 2)]
    assert told(bench.consumer_heartbeat("g", "A", 1)) == (2, {T: tuple(range(MAX_IMMEDIATE_SIZE))})
    assert bench.state() == "Assigning"
    bench.consumer_heartbeat("g", "B", -1)
    bench.do_jobs()
    assert set(bench.consumer_group().targets) == {"A"}


def test_the_target_of_members_with_many_different_names_is_computed_in_the_background():
    bench = Bench(AT_ONCE, topics=TOPICS)
    for member in "AB":
        names = ["t", *(f"{member}{number}" for number in range(MAX_TOPICS - 1))]
        bench.consumer_heartbeat("g", member, 0, topics=names)
    assert len(bench.jobs) == 1


def test_a_large_target_is_stored_in_parts():
    names = [f"t{number}" for number in range(MAX_STORED_WEIGHT // 20)]
    many = FixedTopics([TopicImage(name, UUID(int=n), 21) for n, name in enumerate(names, 1)], 1)
    bench = Bench(replace(AT_ONCE, consumer=ConsumerGroupConfig()), topics=many)
    for number in range(21):
        bench.consumer_heartbeat("g", f"m{number}", 0, topics=names, assignor="range")
    bench.do_jobs()
    bench.advance(1_000)
    bench.consumer_heartbeat("g", "m0", 1)
    (result,) = bench.do_jobs()
    assert len(result.records) == 20
    assert result.continuation is not None
    group = bench.consumer_group()
    assert group.target_epoch == group.epoch
    assert {len(target) for target in group.targets.values()} == {len(names)}


def test_a_target_of_many_members_is_stored_in_few_parts():
    bench = Bench(replace(AT_ONCE, consumer=ConsumerGroupConfig()), topics=TOPICS)
    for number in range(MAX_STORED_WEIGHT // 5):
        bench.consumer_heartbeat("g", f"m{number}", 0, topics=["t"])
    bench.advance(1_000)
    bench.consumer_heartbeat("g", "m0", 2)
    (result,) = bench.do_jobs()
    assert result.continuation is None
    assert len(bench.consumer_group().targets) == MAX_STORED_WEIGHT // 5


@pytest.mark.parametrize("stored", [("B",), ("C",), ("B", "C"), ("A",), ("A", "B")], ids=",".join)
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_each_partition_has_one_target_after_a_kill_between_two_parts(assignor, stored):
    bench = Bench(
        replace(AT_ONCE, consumer=ConsumerGroupConfig()),
        topics=FixedTopics([TopicImage("t", T, 6)], 1),
    )
    for member_id in "ABC":
        bench.consumer_heartbeat("g", member_id, 0, topics=["t"], assignor=assignor)
    before = len(bench.log)
    bench.advance(1_000)
    bench.consumer_heartbeat("g", "A", 2)
    parts = [
        record for record in bench.log[before:] if brief(record)[:2] in {(7, m) for m in stored}
    ]
    assert len(parts) == len(stored)
    del bench.log[before:]
    bench.log += parts
    bench.restart()
    bench.consumer_heartbeat("g", "A", 2)
    targets = bench.consumer_group().targets.values()
    assert sorted(each for target in targets for each in target[T]) == [*range(6)]


def test_a_static_member_that_returns_under_another_id_gets_its_part_of_a_large_target():
    bench = Bench(AT_ONCE, topics=FixedTopics([TopicImage("t", T, MAX_IMMEDIATE_SIZE)], 1))
    bench.consumer_heartbeat("g", "A", 0, topics=["t"], instance_id="i")
    bench.consumer_heartbeat("g", "A", -2, instance_id="i")
    bench.consumer_heartbeat("g", "B", 0, topics=["t"], instance_id="i")
    bench.do_jobs()
    assert told(bench.consumer_heartbeat("g", "B", 1)) == (2, {T: tuple(range(MAX_IMMEDIATE_SIZE))})


def test_the_target_of_a_deleted_group_is_none_of_its_successor():
    bench = Bench(AT_ONCE, topics=FixedTopics([TopicImage("t", T, MAX_IMMEDIATE_SIZE)], 1))
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    for epoch in range(1, 4):
        bench.consumer_heartbeat("g", "A", 1, topics=["t", f"u{epoch}"])
    bench.consumer_heartbeat("g", "A", -1)
    bench.delete("g")
    (former,) = bench.jobs
    assert isinstance(former, ComputeTarget)
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    bench.post(former.done())
    assert bench.consumer_group().target_epoch == 1
    bench.do_jobs()
    assert told(bench.consumer_heartbeat("g", "B", 1)) == (2, {T: tuple(range(MAX_IMMEDIATE_SIZE))})


def test_a_target_of_former_members_does_not_move_the_assignment_epoch_back():
    bench = Bench(AT_ONCE, topics=FixedTopics([TopicImage("t", T, MAX_IMMEDIATE_SIZE)], 1))
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.consumer_heartbeat("g", "A", -1)
    epoch = bench.consumer_group().epoch
    assert len(bench.jobs) == 1
    bench.do_jobs()
    assert bench.consumer_group().target_epoch == epoch


def test_a_target_that_cannot_be_computed_is_the_error_of_one_request():
    bench = Bench(AT_ONCE, topics=FixedTopics([TopicImage("t", T, MAX_IMMEDIATE_SIZE)], 1))
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    for _ in range(2):
        (job,) = bench.jobs
        bench.jobs.clear()
        bench.post(TargetFailed(job, "a bug"))
        assert told(bench.consumer_heartbeat("g", "A", 1)) == (1, None)
        assert bench.jobs == []
        bench.advance(RETRY_INTERVAL_MS)
        refused = bench.consumer_heartbeat("g", "A", 1)
        assert refused.error == "unknown_server_error"
        assert "a bug" in refused.response.error_message
        assert bench.jobs == []
        assert told(bench.consumer_heartbeat("g", "A", 1)) == (1, None)
    bench.do_jobs()
    assert told(bench.consumer_heartbeat("g", "A", 1)) == (2, {T: tuple(range(MAX_IMMEDIATE_SIZE))})


def test_a_small_target_that_cannot_be_computed_at_once_is_computed_in_the_background(monkeypatch):
    def fail(*_args, **_options):
        raise RuntimeError("a bug")

    bench = Bench(AT_ONCE, topics=FixedTopics([TopicImage("t", T, 3)], 1))
    with monkeypatch.context() as broken:
        broken.setattr("kohort.coordinator.jobs.assign", fail)
        assert bench.consumer_heartbeat("g", "A", 0, topics=["t"]).error == "none"
    assert bench.consumer_group().assigning is bench.jobs[0]
    bench.do_jobs()
    assert told(bench.consumer_heartbeat("g", "A", 1)) == (2, {T: (0, 1, 2)})


def test_the_failure_of_a_target_that_nobody_waits_for_has_no_effect():
    bench = Bench(AT_ONCE, topics=FixedTopics([TopicImage("t", T, MAX_IMMEDIATE_SIZE)], 1))
    bench.consumer_heartbeat("g", "A", 0, topics=["t"], instance_id="i")
    bench.consumer_heartbeat("g", "A", -2, instance_id="i")
    bench.consumer_heartbeat("g", "B", 0, topics=["t"], instance_id="i")
    bench.post(TargetFailed(bench.jobs.pop(0), "a bug"))
    bench.advance(RETRY_INTERVAL_MS)
    bench.do_jobs()
    assert told(bench.consumer_heartbeat("g", "B", 1)) == (2, {T: tuple(range(MAX_IMMEDIATE_SIZE))})
