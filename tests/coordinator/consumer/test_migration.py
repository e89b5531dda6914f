"""Classic members in consumer groups, and groups that change their type with members in them."""

from dataclasses import replace
from uuid import UUID

import pytest

from kohort.coordinator.config import (
    ConsumerGroupConfig,
    GroupCoordinatorConfig,
    MigrationPolicy,
)
from kohort.coordinator.consumer_records import (
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMetadataRecord,
    CurrentMemberAssignmentRecord,
    PartitionMetadataRecord,
    TargetAssignmentMemberRecord,
    TargetAssignmentMetadataRecord,
)
from kohort.coordinator.records import GroupMetadataRecord
from kohort.coordinator.requests import OffsetToCommit
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.protocol.subscription import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kohort.testing.bench import Bench
from kohort.types import TopicPartition

T, U = UUID(int=1), UUID(int=2)
TOPICS = FixedTopics([TopicImage("t", T, 2), TopicImage("u", U, 2)], version=1)
AT_ONCE = GroupCoordinatorConfig(
    initial_rebalance_delay_ms=0, consumer=ConsumerGroupConfig(assignment_interval_ms=0)
)
STABLE, UNREVOKED, UNRELEASED = range(3)


@pytest.fixture
def bench():
    return Bench(AT_ONCE, topics=TOPICS)


def partitions(*numbers, topic="t"):
    return tuple(TopicPartition(topic, number) for number in numbers)


def subscribed(*topics, owned=(), version=3, name="range"):
    """The protocols of a JoinGroup."""
    of = Subscription(topics=topics or ("t",), owned=partitions(*owned), version=version)
    return {name: encode_subscription(of)}


def assigned(*numbers, user_data=None):
    return encode_assignment(Assignment(partitions=partitions(*numbers), user_data=user_data))


def synced(call):
    """The partitions in the response to a SyncGroup."""
    assert call.error == "none"
    return [partition for _, partition in decode_assignment(call.response.assignment).partitions]


def classic_group(bench, *assignments, **options):
    """A Stable classic group of members with these partitions; returns their ids."""
    joins = [
        bench.join("g", **{"protocols": subscribed(), "version": 3, **options}) for _ in assignments
    ]
    bench.advance(0)
    members = [call.response.member_id for call in joins]
    generation = bench.group().generation
    leader = bench.group().leader
    blobs = {member: assigned(*each) for member, each in zip(members, assignments, strict=True)}
    for member in (leader, *(member for member in members if member != leader)):
        bench.sync("g", member, generation, blobs)
    assert bench.state() == "Stable"
    return members


def brief(record):
    """Type, member, and what counts of the value."""
    value = record.value
    match record:
        case GroupMetadataRecord():
            return 2, value and (value.generation, [member.member_id for member in value.members])
        case ConsumerGroupMetadataRecord():
            return 3, value and value.epoch
        case PartitionMetadataRecord():
            return 4, value
        case ConsumerGroupMemberMetadataRecord():
            return 5, record.key.member_id, value and value.classic is not None
        case TargetAssignmentMetadataRecord():
            return 6, value and tuple(value)
        case TargetAssignmentMemberRecord():
            return 7, record.key.member_id, value and dict(value.partitions)
        case CurrentMemberAssignmentRecord():
            return 8, record.key.member_id, value and tuple(value)


def written(call_or_result):
    result = getattr(call_or_result, "result", call_or_result)
    return [brief(record) for record in result.records]


def told(call):
    assert call.error == "none", call.response.error_message
    return call.response.member_epoch, call.response.assignment


# --- upgrade ---


def test_an_upgrade_gives_nobody_what_a_cooperative_member_has_yet_to_revoke(bench):
    """Its generation took a partition from it, and it works on that until it joins again."""
    before = subscribed(owned=(0, 1))
    (a,) = classic_group(bench, (0,), protocols=before)
    call = bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    assert told(call) == (2, {})
    pending = (1, 1, UNREVOKED, {T: {0: 1}}, {T: {1: 1}})
    assert (8, a, pending) in written(call)
    live = bench.shard.logged_state()
    bench.restart()
    assert bench.shard.logged_state() == live
    assert told(bench.consumer_heartbeat("g", "B", 2)) == (2, {})
    assert bench.heartbeat("g", a, 1).error == "rebalance_in_progress"
    after = subscribed(owned=(0,))
    assert bench.join("g", a, protocols=after, version=3).response.generation == 2
    assert synced(bench.sync("g", a, 2)) == [0]
    assert told(bench.consumer_heartbeat("g", "B", 2)) == (2, {T: (1,)})


def test_a_cooperative_member_that_revokes_nothing_after_an_upgrade_is_removed(bench):
    (a,) = classic_group(
        bench, (0,), protocols=subscribed(owned=(0, 1)), rebalance_timeout_ms=5_000
    )
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    bench.heartbeat("g", a, 1)
    bench.advance(5_000)
    assert a not in bench.consumer_group().members


def test_an_upgrade_lets_no_member_keep_what_is_assigned_to_another(bench):
    """What eager members say that they own does not count for them."""
    classic_group(bench, (0,), (1,), protocols=subscribed(owned=(0, 1)))
    call = bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    assert {each[2][2] for each in written(call) if each[0] == 8} == {STABLE}


def test_a_consumer_upgrades_a_classic_group(bench):
    (a,) = classic_group(bench, (0, 1))
    call = bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    now = bench.timestamp
    assert told(call) == (2, {})
    assert written(call) == [
        (2, None),
        (5, a, True),
        (3, 1),
        (7, a, {T: (0, 1)}),
        (6, (1, 0)),
        (8, a, (1, 1, STABLE, {T: {0: 1, 1: 1}}, {})),
        (5, "B", False),
        (3, 2),
        *[each for each in written(call) if each[0] == 7][1:],
        (6, (2, now)),
        (8, "B", (2, 0, UNRELEASED, {}, {})),
    ]
    assert bench.heartbeat("g", a, 1).error == "rebalance_in_progress"
    assert bench.state() == "Reconciling"
    live = bench.shard.logged_state()
    bench.restart()
    assert bench.shard.logged_state() == live


def test_a_partition_moves_from_a_classic_member_to_a_consumer(bench):
    (a,) = classic_group(bench, (0, 1))
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    call = bench.join("g", a, protocols=subscribed(owned=(0, 1)))
    response = call.response
    assert (call.error, response.generation, response.leader) == ("none", 1, "")
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
    assert response.members == ()
    sync = bench.sync("g", a, 1)
    (kept,) = synced(sync)
    assert bench.heartbeat("g", a, 1).error == "rebalance_in_progress"
    assert told(bench.consumer_heartbeat("g", "B", 2)) == (2, None)
    assert bench.join("g", a, protocols=subscribed(owned=(kept,))).response.generation == 2
    assert synced(bench.sync("g", a, 2)) == [kept]
    assert bench.heartbeat("g", a, 2).error == "none"
    assert told(bench.consumer_heartbeat("g", "B", 2)) == (2, {T: (1 - kept,)})
    assert bench.state() == "Stable"


def test_an_eager_member_owns_nothing_when_it_joins(bench):
    (a,) = classic_group(bench, (0, 1))
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    call = bench.join("g", a, protocols=subscribed(version=0))
    assert call.response.generation == 2
    (kept,) = synced(bench.sync("g", a, 2))
    assert told(bench.consumer_heartbeat("g", "B", 2)) == (2, {T: (1 - kept,)})


def test_parked_joins_are_told_to_join_again(bench):
    a, _ = classic_group(bench, (0,), (1,))
    parked = bench.join("g", a, protocols=subscribed("t", "u"))
    assert bench.state() == "PreparingRebalance"
    call = bench.consumer_heartbeat("g", "C", 0, topics=["t"])
    assert call.error == "none"
    assert parked.error == "rebalance_in_progress"
    assert bench.journal[-1].outcome == "upgraded"
    assert bench.heartbeat("g", a, 1).error == "rebalance_in_progress"
    assert bench.commit("g", {("t", 0): 5}, member_id=a, generation=1).response.results[0][1] == 0


def test_parked_syncs_are_told_to_join_again(bench):
    joins = [bench.join("g", protocols=subscribed(), version=3) for _ in range(2)]
    bench.advance(0)
    leader = bench.group().leader
    follower = ({call.response.member_id for call in joins} - {leader}).pop()
    parked = bench.sync("g", follower, 1)
    assert parked.parked
    assert bench.consumer_heartbeat("g", "C", 0, topics=["t"]).error == "none"
    assert parked.error == "rebalance_in_progress"
    assert bench.heartbeat("g", follower, 1).error == "rebalance_in_progress"


def test_a_group_in_its_first_round_is_upgraded():
    bench = Bench(replace(AT_ONCE, initial_rebalance_delay_ms=3_000), topics=TOPICS)
    parked = bench.join("g", protocols=subscribed(), version=3)
    assert told(bench.consumer_heartbeat("g", "B", 0, topics=["t"]))[0] == 1
    assert parked.error == "rebalance_in_progress"
    joined = bench.join("g", parked.response.member_id, protocols=subscribed())
    assert joined.response.generation == 1


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({"consumer_migration_policy": MigrationPolicy.DISABLED}, {}),
        ({"consumer_migration_policy": MigrationPolicy.DOWNGRADE}, {}),
        ({"consumer_max_size": 0}, {}),
        ({}, {"protocol_type": "connect"}),
        ({}, {"protocols": {"range": b"\0"}}),
    ],
)
def test_a_group_that_cannot_be_upgraded_stays_as_it_is(config, options):
    bench = Bench(replace(AT_ONCE, **config), topics=TOPICS)
    bench.join("g", version=3, **{"protocols": subscribed(), **options})
    bench.advance(0)
    before = repr(bench.group())
    call = bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    assert call.error == "group_id_not_found"
    assert "Cannot upgrade" in call.response.error_message
    assert call.result.records == call.result.timers == ()
    assert repr(bench.group()) == before


@pytest.mark.parametrize("blob", [b"\0", assigned(0, user_data=b"mine")])
def test_an_assignment_that_is_not_understood_forbids_the_upgrade(bench, blob):
    a = bench.join("g", protocols=subscribed(), version=3)
    bench.advance(0)
    bench.sync("g", a.response.member_id, 1, {a.response.member_id: blob})
    assert bench.consumer_heartbeat("g", "B", 0, topics=["t"]).error == "group_id_not_found"


def test_a_partition_with_two_owners_forbids_the_upgrade(bench):
    classic_group(bench, (0,), (0,))
    assert bench.consumer_heartbeat("g", "B", 0, topics=["t"]).error == "group_id_not_found"


def test_a_heartbeat_that_is_refused_does_not_upgrade(bench):
    (a,) = classic_group(bench, (0, 1))
    call = bench.consumer_heartbeat("g", "B", 0, regex="(")
    assert call.error == "invalid_regular_expression"
    assert bench.group().generation == 1
    assert bench.heartbeat("g", a, 1).error == "none"


# --- requests of classic members ---


@pytest.fixture
def mixed(bench):
    """A consumer group with a consumer C and a classic member a, both settled."""
    bench.consumer_heartbeat("g", "C", 0, topics=["t"])
    bench.a = bench.join("g", protocols=subscribed(), version=3).response.member_id
    bench.consumer_heartbeat("g", "C", 2)
    bench.consumer_heartbeat("g", "C", 2, owned={T: (0,)})
    bench.join("g", bench.a, protocols=subscribed())
    bench.sync("g", bench.a, 3)
    assert bench.state() == "Stable"
    return bench


def test_a_new_classic_member_gets_an_id_first(mixed):
    call = mixed.join("g", protocols=subscribed())
    assert call.error == "member_id_required"
    assert call.response.member_id == call.request.fresh_id
    assert call.result.records == call.result.timers == ()
    assert mixed.join("g", "any id", protocols=subscribed()).error == "none"
    assert "any id" in mixed.consumer_group().members


JOINS = {
    "a full group": ({"consumer_max_size": 2}, {}, "group_max_size_reached"),
    "another type": ({}, {"protocol_type": "connect"}, "inconsistent_group_protocol"),
    "no protocol": ({}, {"protocols": {}}, "inconsistent_group_protocol"),
    "no common protocol": (
        {},
        {"protocols": subscribed(name="mine")},
        "inconsistent_group_protocol",
    ),
    "an unknown instance": ({}, {"instance_id": "x", "member_id": "X"}, "unknown_member_id"),
    "a fenced instance": ({}, {"instance_id": "i", "member_id": "X"}, "fenced_instance_id"),
    "no subscription": (
        {},
        {"protocols": {"range": b""}, "member_id": "X"},
        "inconsistent_group_protocol",
    ),
    "a short session": ({}, {"session_timeout_ms": 1}, "invalid_session_timeout"),
}


@pytest.mark.parametrize(("config", "options", "error"), JOINS.values(), ids=JOINS)
def test_a_join_that_is_refused_changes_nothing(bench, config, options, error):
    bench.join("g", protocols=subscribed(), version=3)
    bench.advance(0)
    bench.consumer_heartbeat("g", "C", 0, topics=["t"])
    bench.consumer_heartbeat("g", "S", 0, topics=["t"], instance_id="i")
    before = bench.shard.logged_state()
    bench.shard.config = replace(AT_ONCE, **config)
    call = bench.join("g", **{"protocols": subscribed(), **options})
    assert call.error == error
    assert call.result.records == call.result.timers == ()
    assert bench.shard.logged_state() == before


def test_classic_members_sync_of_a_consumer_group_is_validated(mixed):
    a = mixed.a
    assert mixed.sync("g", "X", 3).error == "unknown_member_id"
    assert mixed.sync("g", "C", 3).error == "unknown_member_id"
    assert mixed.sync("g", a, 3, instance_id="x").error == "unknown_member_id"
    assert mixed.sync("g", a, 2).error == "illegal_generation"
    assert mixed.sync("g", a, 3, protocol_name="x").error == "inconsistent_group_protocol"
    assert mixed.sync("g", a, 3, protocol_type="x").error == "inconsistent_group_protocol"
    assert mixed.sync("g", a, 3, protocol_type=None).error == "inconsistent_group_protocol"
    old = {"version": 4, "protocol_type": None, "protocol_name": None}
    assert synced(mixed.sync("g", a, 3, {a: b"ignored"}, **old)) == [1]
    mixed.consumer_heartbeat("g", "D", 0, topics=["t"])
    assert mixed.sync("g", a, 3).error == "rebalance_in_progress"


def test_an_assignment_has_the_version_of_the_subscription(mixed):
    for version in (0, 1, 3):
        mixed.join("g", mixed.a, protocols=subscribed(version=version, owned=(1,)))
        response = mixed.sync("g", mixed.a, 3).response
        assert decode_assignment(response.assignment).version == version


def test_classic_members_heartbeat_in_a_consumer_group_is_validated(mixed):
    a = mixed.a
    assert mixed.heartbeat("g", "X", 3).error == "unknown_member_id"
    assert mixed.heartbeat("g", "C", 3).error == "unknown_member_id"
    assert mixed.heartbeat("g", a, 2).error == "illegal_generation"
    assert mixed.heartbeat("g", a, 3).error == "none"
    assert mixed.heartbeat("g", a, 3, instance_id="x").error == "unknown_member_id"
    assert mixed.shard.heartbeat("g", 3, a, None, mixed.now).name == "none"


def test_a_member_that_waits_for_partitions_learns_when_they_are_free(bench):
    bench.consumer_heartbeat("g", "C", 0, topics=["t"])
    a = bench.join("g", protocols=subscribed(), version=3).response
    assert a.generation == 3
    assert synced(bench.sync("g", a.member_id, 3)) == []
    assert bench.heartbeat("g", a.member_id, 3).error == "none"
    bench.consumer_heartbeat("g", "C", 2)
    assert bench.heartbeat("g", a.member_id, 3).error == "none"
    bench.consumer_heartbeat("g", "C", 2, owned={T: (0,)})
    assert bench.heartbeat("g", a.member_id, 3).error == "rebalance_in_progress"


def test_commits_of_a_classic_member(mixed):
    def commit(generation, **options):
        offsets = {("t", 0): OffsetToCommit("t", 0, 7, topic_id=T)}
        call = mixed.commit("g", offsets, generation=generation, **options)
        return call.response.results[0][1].name

    assert commit(3, member_id=mixed.a, version=2) == "none"
    assert commit(4, member_id=mixed.a) == "illegal_generation"
    assert commit(2, member_id=mixed.a) == "illegal_generation"
    assert commit(-1) == "unknown_member_id"
    assert commit(4, member_id="C") == "stale_member_epoch"


def test_members_of_both_kinds_leave_by_leave_group(mixed):
    mixed.consumer_heartbeat("g", "D", 0, topics=["t"])
    call = mixed.leave("g", "C", mixed.a, "X")
    assert [each.error.name for each in call.response.members] == [
        "none",
        "none",
        "unknown_member_id",
    ]
    assert written(call)[-1] == (3, 5)
    assert set(mixed.consumer_group().members) == {"D"}


def test_members_change_their_kind(mixed):
    a = mixed.a
    call = mixed.consumer_heartbeat("g", a, 3, owned={T: (1,)})
    assert written(call) == [(5, a, False)]
    assert mixed.heartbeat("g", a, 3).error == "unknown_member_id"
    call = mixed.join("g", a, protocols=subscribed(owned=(1,)))
    assert call.response.generation == 3
    assert written(call) == [(5, a, True)]
    assert mixed.consumer_heartbeat("g", a, 0, topics=["t"]).error == "none"


def test_an_instance_is_taken_over_by_the_other_kind(bench):
    bench.consumer_heartbeat("g", "C", 0, topics=["t"])
    bench.consumer_heartbeat("g", "S", 0, topics=["t"], instance_id="i")
    new = bench.join("g", protocols=subscribed(), instance_id="i").response
    assert new.member_id not in ("", "S")
    assert set(bench.consumer_group().members) == {"C", new.member_id}
    assert bench.consumer_heartbeat("g", "S", 3, instance_id="i").error == "fenced_instance_id"
    call = bench.consumer_heartbeat("g", "S2", 0, topics=["t"], instance_id="i")
    assert call.error == "none"
    assert set(bench.consumer_group().members) == {"C", "S2"}
    again = bench.heartbeat("g", new.member_id, new.generation, instance_id="i")
    assert again.error == "fenced_instance_id"


# --- timers ---


def test_a_classic_member_expires_after_its_own_session_timeout(mixed):
    mixed.advance(9_999)
    assert mixed.heartbeat("g", mixed.a, 3).error == "none"
    mixed.advance(9_999)
    assert mixed.a in mixed.consumer_group().members
    mixed.advance(1)
    assert mixed.a not in mixed.consumer_group().members
    assert told(mixed.consumer_heartbeat("g", "C", 3)) == (4, {T: (0, 1)})
    (cause,) = mixed.journal[-1].causes
    assert (cause.what, cause.reason) == ("expired", "not heard of for 10000 ms")


def keep_alive(bench, ms):
    for _ in range(ms // 5_000):
        bench.advance(5_000)
        bench.heartbeat("g", bench.a, 3)
        for member in bench.consumer_group().members.values():
            if not member.is_classic:
                bench.consumer_heartbeat("g", member.member_id, member.current.epoch)


def test_a_classic_member_that_has_to_join_is_removed_after_its_rebalance_timeout(mixed):
    mixed.consumer_heartbeat("g", "D", 0, topics=["t"])
    assert mixed.shard.heartbeat("g", 3, mixed.a, None, mixed.now) is None
    assert mixed.heartbeat("g", mixed.a, 3).error == "rebalance_in_progress"
    assert mixed.shard.heartbeat("g", 3, mixed.a, None, mixed.now).name == "rebalance_in_progress"
    keep_alive(mixed, 55_000)
    assert mixed.a in mixed.consumer_group().members
    mixed.advance(5_000)
    assert mixed.a not in mixed.consumer_group().members


def test_a_classic_member_that_has_joined_and_does_not_sync_is_removed(mixed):
    mixed.join("g", mixed.a, protocols=subscribed(owned=(1,)))
    keep_alive(mixed, 55_000)
    assert mixed.a in mixed.consumer_group().members
    mixed.advance(5_000)
    assert mixed.a not in mixed.shard.groups["g"].sessions


def test_a_classic_member_that_synced_in_time_stays(mixed):
    mixed.join("g", mixed.a, protocols=subscribed(owned=(1,)))
    mixed.sync("g", mixed.a, 3)
    keep_alive(mixed, 120_000)
    assert mixed.a in mixed.consumer_group().members


def test_a_member_that_became_a_consumer_has_to_sync_no_more(mixed):
    mixed.join("g", mixed.a, protocols=subscribed(owned=(1,)))
    mixed.consumer_heartbeat("g", mixed.a, 3, owned={T: (1,)})
    for _ in range(20):
        mixed.advance(5_000)
        assert mixed.consumer_heartbeat("g", mixed.a, 3).error == "none"
        mixed.consumer_heartbeat("g", "C", 3)


# --- downgrade ---


def test_the_last_consumer_leaves_classic_members_behind(mixed):
    call = mixed.consumer_heartbeat("g", "C", -1)
    a = mixed.a
    assert call.response.member_epoch == -1
    records = written(call)
    assert sorted(records[:2]) == sorted([(8, "C", None), (8, a, None)])
    assert sorted(records[2:4]) == sorted([(7, "C", None), (7, a, None)])
    assert records[4] == (6, None)
    assert sorted(records[5:7]) == sorted([(5, "C", None), (5, a, None)])
    assert records[7:] == [(4, None), (3, None), (2, (3, [a]))]
    group = mixed.group()
    assert (group.state, group.generation, group.leader) == ("PreparingRebalance", 3, a)
    assert mixed.heartbeat("g", a, 3).error == "rebalance_in_progress"
    before = list(mixed.journal)
    joined = mixed.join("g", a, protocols=subscribed(owned=(1,)))
    assert joined.response.generation == 4
    assert mixed.journal == before
    mixed.sync("g", a, 4, {a: assigned(0, 1)})
    assert [each.what for each in mixed.journal[-1].causes] == ["downgraded"]
    live = mixed.shard.logged_state()
    mixed.restart()
    assert mixed.shard.logged_state() == live
    assert mixed.state() == "Stable"


def test_a_restart_after_the_downgrade_rebalances(mixed):
    """Nobody has the partition of the member that left."""
    mixed.consumer_heartbeat("g", "C", -1)
    mixed.restart()
    assert mixed.state() == "PreparingRebalance"
    assert mixed.heartbeat("g", mixed.a, 3).error == "rebalance_in_progress"
    assert mixed.join("g", mixed.a, protocols=subscribed(owned=(1,))).response.generation == 4
    mixed.sync("g", mixed.a, 4, {mixed.a: assigned(0, 1)})
    assert [each.what for each in mixed.journal[-1].causes] == ["downgraded"]
    mixed.restart()
    assert mixed.state() == "Stable"


def test_a_restart_after_the_downgrade_gives_no_member_what_another_still_owns(bench):
    """The members were on the way to a target: one waits for a partition of the other."""
    first = bench.join("g", protocols=subscribed(), version=3)
    bench.advance(0)
    a = first.response.member_id
    bench.sync("g", a, 1, {a: assigned(0, 1)})
    bench.consumer_heartbeat("g", "C", 0, topics=["u"])
    b = bench.join("g", protocols=subscribed(), version=3).response
    bench.consumer_heartbeat("g", "C", -1)
    logged = bench.group().logged.members
    assert logged[b.member_id].assignment == assigned()


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_a_policy_forbids_the_downgrade(mixed, policy):
    mixed.shard.config = replace(AT_ONCE, consumer_migration_policy=policy)
    mixed.consumer_heartbeat("g", "C", -1)
    assert set(mixed.consumer_group().members) == {mixed.a}


@pytest.mark.parametrize("version", [0, 3, 5, 9])
@pytest.mark.parametrize("named", [{}, {"instance_id": "i"}, {"member_id": "stranger"}])
def test_a_policy_forbids_classic_members_in_a_consumer_group(version, named):
    """As Apache Kafka does since 4.3.1."""
    bench = Bench(
        replace(AT_ONCE, consumer_migration_policy=MigrationPolicy.DISABLED), topics=TOPICS
    )
    bench.consumer_heartbeat("g", "C", 0, topics=["t"])
    call = bench.join("g", protocols=subscribed(), version=version, **named)
    assert (call.error, call.response.member_id) == ("inconsistent_group_protocol", "")
    assert call.result.records == ()
    bench.consumer_heartbeat("g", "C", -1)
    joined = bench.join("g", protocols=subscribed(), version=3)
    bench.advance(0)
    assert joined.error == "none"


def test_a_policy_forbids_the_next_join_of_a_classic_member(mixed):
    mixed.shard.config = replace(AT_ONCE, consumer_migration_policy=MigrationPolicy.DISABLED)
    assert mixed.join("g", mixed.a, protocols=subscribed()).error == "inconsistent_group_protocol"


@pytest.mark.parametrize("policy", ["bidirectional", "upgrade", "downgrade"])
def test_other_policies_allow_classic_members_in_a_consumer_group(policy):
    config = replace(AT_ONCE, consumer_migration_policy=MigrationPolicy(policy))
    bench = Bench(config, topics=TOPICS)
    bench.consumer_heartbeat("g", "C", 0, topics=["t"])
    assert bench.join("g", protocols=subscribed(), version=3).error == "none"


def test_a_classic_group_too_small_forbids_the_downgrade(mixed):
    mixed.shard.config = replace(AT_ONCE, max_size=0)
    mixed.consumer_heartbeat("g", "C", -1)
    assert set(mixed.consumer_group().members) == {mixed.a}


def test_the_expiry_of_the_last_consumer_downgrades(mixed):
    for _ in range(9):
        mixed.advance(5_000)
        mixed.heartbeat("g", mixed.a, 3)
    assert mixed.state() == "PreparingRebalance"


def static_pair(bench):
    """A classic member a with partition 0 and a static consumer S with partition 1, or reversed."""
    bench.consumer_heartbeat("g", "S", 0, topics=["t"], instance_id="i")
    a = bench.join("g", protocols=subscribed(), version=3).response.member_id
    bench.consumer_heartbeat("g", "S", 2)
    (kept,) = bench.consumer_group().members["S"].current.assigned[T]
    bench.consumer_heartbeat("g", "S", 2, owned={T: (kept,)})
    bench.join("g", a, protocols=subscribed())
    bench.sync("g", a, 3)
    assert bench.state() == "Stable"
    return a, kept


def test_a_classic_member_that_replaces_the_last_consumer_goes_on_without_a_rebalance(bench):
    a, kept = static_pair(bench)
    new = bench.join("g", protocols=subscribed(), instance_id="i")
    assert (new.error, new.response.generation) == ("none", 3)
    assert bench.state() == "Stable"
    assert synced(bench.sync("g", new.response.member_id, 3, instance_id="i")) == [kept]
    assert bench.heartbeat("g", a, 3).error == "none"
    assert bench.heartbeat("g", "S", 3, instance_id="i").error == "fenced_instance_id"
    live = bench.shard.logged_state()
    bench.restart()
    assert bench.shard.logged_state() == live
    assert bench.advance(9_999) == []


def test_another_subscription_of_the_replacing_member_rebalances(bench):
    a, _ = static_pair(bench)
    new = bench.join("g", protocols=subscribed("t", "u"), instance_id="i")
    assert (new.error, new.response.generation) == ("none", 0)
    assert bench.state() == "PreparingRebalance"
    refused = bench.sync("g", new.response.member_id, 0, instance_id="i")
    assert refused.error == "illegal_generation"
    assert bench.heartbeat("g", a, 3).error == "rebalance_in_progress"


def test_a_group_on_its_way_to_a_target_is_rebalanced_by_the_replacement(bench):
    """Else the new member would get from SyncGroup what another member still owns."""
    bench.consumer_heartbeat("g", "S", 0, topics=["t"], instance_id="i")
    bench.join("g", protocols=subscribed(), version=3)
    new = bench.join("g", protocols=subscribed(owned=(0, 1)), instance_id="i")
    assert new.response.generation == 0
    assert bench.state() == "PreparingRebalance"


def test_epochs_and_generations_only_grow_over_migrations_back_and_forth(bench):
    """Epochs and generations only grow, and offsets stay."""
    (a,) = classic_group(bench, (0, 1))
    bench.commit("g", {("t", 0): 7}, member_id=a, generation=1)
    generation = 1
    for round_ in range(3):
        consumer = f"C{round_}"
        bench.consumer_heartbeat("g", consumer, 0, topics=["t"])
        joined = bench.join("g", a, protocols=subscribed())
        assert joined.response.generation > generation
        bench.consumer_heartbeat("g", consumer, -1)
        joined = bench.join("g", a, protocols=subscribed())
        assert joined.response.generation > generation
        generation = joined.response.generation
        bench.sync("g", a, generation, {a: assigned(0, 1)})
        assert bench.state() == "Stable"
    assert bench.fetch("g", ("t", 0)).response.offsets[0].offset == 7
