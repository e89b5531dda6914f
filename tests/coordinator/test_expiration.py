"""Which offsets and groups go at the periodic check (KIP-211), row by row of §1.10."""

import pytest

from kohort.coordinator import expiration
from kohort.coordinator.classic import State
from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.offsets import offset_tombstone
from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from kohort.coordinator.requests import ExpireOffsets, TopicsDeleted
from kohort.protocol.subscription import Subscription, encode_subscription
from kohort.testing.bench import Bench
from kohort.types import TopicPartition

RETENTION = 100_000
CONFIG = GroupCoordinatorConfig(initial_rebalance_delay_ms=0, offsets_retention_ms=RETENTION)
T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
GROUP_TOMBSTONE = GroupMetadataRecord(GroupMetadataKey("g"), None)


@pytest.fixture
def bench():
    return Bench(CONFIG)


def subscribed(*topics):
    """Options of a member of these topics that needs no heartbeats in these tests."""
    metadata = encode_subscription(Subscription(topics=topics))
    return {"protocols": {"range": metadata}, "session_timeout_ms": 1_800_000}


def commit(bench, *partitions, member_id="", **options):
    generation = 1 if member_id else -1
    offsets = dict.fromkeys(partitions, 7)
    call = bench.commit("g", offsets, member_id=member_id, generation=generation, **options)
    assert {error.name for _, error in call.response.results} == {"none"}


def expire(bench):
    """The records of one check."""
    return bench.expire_offsets().records


def expires_in(bench, ms, *records):
    """Assert that a check in `ms` writes these records, and one a ms before none."""
    bench.advance(ms - 1)
    assert expire(bench) == ()
    bench.advance(1)
    assert expire(bench) == records


# --- an Empty group with a protocol type ---


def test_offsets_of_an_empty_group_expire_a_retention_after_it_became_empty(bench):
    (member_id,) = bench.stable(**subscribed("t"))
    commit(bench, T0, U0, member_id=member_id)
    bench.advance(50_000)
    bench.leave("g", member_id)
    expires_in(
        bench, RETENTION, offset_tombstone("g", T0), offset_tombstone("g", U0), GROUP_TOMBSTONE
    )
    assert bench.state() is State.DEAD


def test_a_commit_to_an_empty_group_does_not_put_off_the_expiry(bench):
    """It began when the group became Empty, whatever was committed since."""
    (member_id,) = bench.stable(**subscribed("t"))
    bench.leave("g", member_id)
    bench.advance(50_000)
    commit(bench, T0)
    expires_in(bench, 50_000, offset_tombstone("g", T0), GROUP_TOMBSTONE)


def test_without_a_state_timestamp_the_commit_counts(bench):
    """A group that was logged by a version of Kafka before the timestamp was."""
    value = GroupMetadataValue("consumer", 4, None, None, -1, ())
    offset = OffsetCommitValue(7, -1, "", bench.now - 40_000)
    bench.log = [
        GroupMetadataRecord(GroupMetadataKey("g"), value),
        OffsetCommitRecord(OffsetCommitKey("g", *T0), offset),
    ]
    bench.restart()
    expires_in(bench, 60_000, offset_tombstone("g", T0), GROUP_TOMBSTONE)


def test_the_expiry_of_an_empty_group_outlives_the_coordinator(bench):
    (member_id,) = bench.stable(**subscribed("t"))
    commit(bench, T0, member_id=member_id)
    bench.leave("g", member_id)
    bench.advance(50_000)
    bench.restart()
    expires_in(bench, 50_000, offset_tombstone("g", T0), GROUP_TOMBSTONE)


def test_an_empty_group_without_offsets_goes_at_the_next_check(bench):
    (member_id,) = bench.stable()
    bench.leave("g", member_id)
    assert expire(bench) == (GROUP_TOMBSTONE,)
    assert bench.state() is State.DEAD


def test_a_group_for_which_an_id_was_handed_out_stays(bench):
    pending = bench.join().response.member_id
    assert expire(bench) == ()
    assert bench.join("g", pending).parked


# --- Stable, of type consumer ---


def test_offsets_of_topics_that_are_no_longer_subscribed_expire_a_retention_after_their_commit(
    bench,
):
    (member_id,) = bench.stable(**subscribed("t"))
    commit(bench, T0, member_id=member_id)
    bench.advance(10_000)
    commit(bench, U0, member_id=member_id)
    expires_in(bench, RETENTION, offset_tombstone("g", U0))
    assert bench.state() is State.STABLE


def test_offsets_of_subscribed_topics_stay(bench):
    (member_id,) = bench.stable(**subscribed("t", "u"))
    commit(bench, T0, U0, member_id=member_id)
    bench.advance(10 * RETENTION)
    assert expire(bench) == ()


def test_offsets_of_a_topic_that_any_member_subscribes_to_do_not_expire(bench):
    for topic in ("t", "u"):
        bench.handshake(**subscribed(topic))
    bench.advance(0)
    bench.sync("g", bench.group().leader, 1)
    for member_id in bench.group().sessions:
        bench.sync("g", member_id, 1)
    commit(bench, T0, U0, ("w", 0), member_id=bench.group().leader)
    bench.advance(RETENTION)
    assert expire(bench) == (offset_tombstone("g", TopicPartition("w", 0)),)


def test_a_subscription_that_cannot_be_read_keeps_everything(bench):
    (member_id,) = bench.stable(protocols={"range": b"\x00\x00\xff"}, session_timeout_ms=1_800_000)
    commit(bench, T0, member_id=member_id)
    bench.advance(RETENTION)
    assert expire(bench) == ()


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_of_every_version_are_read_by_their_first_part(bench, version):
    metadata = encode_subscription(Subscription(topics=("t",), version=version)) + b"more"
    (member_id,) = bench.stable(protocols={"range": metadata}, session_timeout_ms=1_800_000)
    commit(bench, T0, U0, member_id=member_id)
    bench.advance(RETENTION)
    assert expire(bench) == (offset_tombstone("g", U0),)


# --- rebalancing, or with members of another type ---


def test_a_rebalancing_group_keeps_everything(bench):
    leader, follower = bench.stable(members=2, rebalance_timeout_ms=1_800_000, **subscribed("t"))
    commit(bench, U0, member_id=leader)
    bench.advance(RETENTION)
    options = {"rebalance_timeout_ms": 1_800_000, **subscribed("t")}
    bench.join("g", leader, **options)
    assert bench.state() is State.PREPARING_REBALANCE
    assert expire(bench) == ()
    bench.join("g", follower, **options)
    assert bench.state() is State.COMPLETING_REBALANCE
    assert expire(bench) == ()
    bench.sync("g", leader, 2)
    assert expire(bench) == (offset_tombstone("g", U0),)


def test_a_group_of_another_type_with_members_keeps_everything(bench):
    (member_id,) = bench.stable(protocol_type="connect", session_timeout_ms=1_800_000)
    commit(bench, T0, member_id=member_id)
    bench.advance(RETENTION)
    assert expire(bench) == ()


def test_a_group_of_another_type_that_is_empty_expires(bench):
    (member_id,) = bench.stable(protocol_type="connect")
    commit(bench, T0, member_id=member_id)
    bench.leave("g", member_id)
    expires_in(bench, RETENTION, offset_tombstone("g", T0), GROUP_TOMBSTONE)


# --- simple groups ---


def test_offsets_of_a_simple_group_expire_a_retention_after_each_commit(bench):
    commit(bench, T0)
    bench.advance(10_000)
    commit(bench, U0)
    expires_in(bench, 90_000, offset_tombstone("g", T0))
    expires_in(bench, 10_000, offset_tombstone("g", U0), GROUP_TOMBSTONE)
    assert bench.state() is State.DEAD


def test_a_commit_again_puts_off_the_expiry_of_a_simple_group(bench):
    commit(bench, T0)
    bench.advance(50_000)
    commit(bench, T0)
    expires_in(bench, RETENTION, offset_tombstone("g", T0), GROUP_TOMBSTONE)


def test_a_group_that_somebody_only_asked_an_id_of_keeps_its_offsets_like_a_simple_one(bench):
    bench.join(session_timeout_ms=6_000)
    commit(bench, T0)
    expires_in(bench, RETENTION, offset_tombstone("g", T0), GROUP_TOMBSTONE)


# --- an expiry that came with the commit (OffsetCommit v2-4) ---


def test_a_stored_expiry_comes_first(bench):
    commit(bench, T0, version=2, retention_ms=5_000)
    commit(bench, U0)
    expires_in(bench, 5_000, offset_tombstone("g", T0))
    expires_in(bench, RETENTION - 5_000, offset_tombstone("g", U0), GROUP_TOMBSTONE)


def test_a_stored_expiry_may_lie_behind_the_retention(bench):
    commit(bench, T0, version=2, retention_ms=3 * RETENTION)
    expires_in(bench, 3 * RETENTION, offset_tombstone("g", T0), GROUP_TOMBSTONE)


def test_a_stored_expiry_outlives_the_coordinator(bench):
    commit(bench, T0, version=2, retention_ms=5_000)
    bench.restart()
    expires_in(bench, 5_000, offset_tombstone("g", T0), GROUP_TOMBSTONE)


def test_a_stored_expiry_does_not_touch_what_is_subscribed(bench):
    (member_id,) = bench.stable(**subscribed("t"))
    commit(bench, T0, member_id=member_id, version=2, retention_ms=5_000)
    bench.advance(RETENTION)
    assert expire(bench) == ()


# --- the check ---


def test_one_check_covers_every_group(bench):
    for group in ("g", "h"):
        bench.commit(group, {T0: 1})
    bench.advance(RETENTION)
    assert expire(bench) == (
        offset_tombstone("g", T0),
        GROUP_TOMBSTONE,
        offset_tombstone("h", T0),
        GroupMetadataRecord(GroupMetadataKey("h"), None),
    )
    assert expire(bench) == ()


def test_the_default_retention_is_seven_days():
    bench = Bench()
    bench.commit("g", {T0: 1})
    expires_in(bench, 7 * 24 * 3_600_000, offset_tombstone("g", T0), GROUP_TOMBSTONE)


def test_subscriptions_are_read_once_however_many_offsets_there_are(bench, monkeypatch):
    (member_id,) = bench.stable(**subscribed("t"))
    commit(bench, *(TopicPartition("t", number) for number in range(50)), member_id=member_id)
    read = []
    monkeypatch.setattr(
        expiration, "group_subscription", lambda group: read.append(group) or frozenset({"t"})
    )
    assert expire(bench) == ()
    assert len(read) == 1


@pytest.mark.parametrize("jump_ms", [-2 * RETENTION, 2 * RETENTION])
def test_the_retention_of_offsets_goes_by_the_wall_clock(bench, jump_ms):
    commit(bench, T0)
    bench.set_ahead(jump_ms)
    bench.post(ExpireOffsets())
    assert ("g" in bench.shard.groups) is (jump_ms < 0)


@pytest.mark.parametrize("jump_ms", [-2 * RETENTION, 2 * RETENTION])
def test_a_jump_during_a_round_leaves_its_durations_true(bench, jump_ms):
    member_id = bench.join("g").response.member_id
    joining = bench.join("g", member_id)
    bench.advance(40)
    bench.set_ahead(jump_ms)
    bench.sync("g", member_id, joining.response.generation, {member_id: b""})
    (entry,) = bench.journal
    assert (entry.join_ms, entry.sync_ms) == (0, 40)
    assert entry.ended == bench.timestamp


def test_deleted_topics_are_found_without_looking_at_other_offsets(bench):
    commit(bench, T0, U0, TopicPartition("u", 7))
    offsets = bench.group().offsets
    assert list(offsets.of_topics(frozenset({"none"}))) == []
    assert set(offsets.of_topics(frozenset({"u", "none"}))) == {U0, TopicPartition("u", 7)}
    bench.post(TopicsDeleted(frozenset({"u", "none"})))
    assert set(bench.group().offsets) == {T0}
