"""Offsets and administration of a consumer group; the errors are those of Apache Kafka 4.4."""

from uuid import UUID

import pytest

from kohort.coordinator.config import ConsumerGroupConfig, GroupCoordinatorConfig
from kohort.coordinator.requests import Committer, OffsetToCommit
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.testing.bench import Bench

T, U = UUID(int=1), UUID(int=2)
TOPICS = FixedTopics([TopicImage("t", T, 2), TopicImage("u", U, 2)], version=1)
AT_ONCE = GroupCoordinatorConfig(consumer=ConsumerGroupConfig(assignment_interval_ms=0))
RETENTION_MS = AT_ONCE.offsets_retention_ms


@pytest.fixture
def bench():
    """A has t-0 since epoch 2, and has yet to revoke t-1, for which B waits at epoch 3."""
    bench = Bench(AT_ONCE, topics=TOPICS)
    bench.consumer_heartbeat("g", "A", 0, topics=["t"])
    bench.consumer_heartbeat("g", "B", 0, topics=["t"])
    bench.consumer_heartbeat("g", "A", 2)
    return bench


def commit(bench, member_id, epoch, *partitions, version=9, transactional=False):
    """The errors of a commit, one for each partition of t."""
    offsets = {("t", each): OffsetToCommit("t", each, 5, topic_id=T) for each in partitions}
    if transactional:
        call = bench.txn_commit(
            "g", offsets, member_id=member_id, generation=epoch, version=version
        )
    else:
        call = bench.commit("g", offsets, member_id=member_id, generation=epoch, version=version)
    return [error.name for _, error in call.response.results]


COMMITS = {
    "its epoch": (("A", 2, 0), "none"),
    "what it has to revoke": (("A", 2, 1), "none"),
    "what it never had": (("B", 3, 0), "none"),
    "an epoch before the assignment": (("A", 1, 0), "stale_member_epoch"),
    "an epoch to come": (("A", 3, 0), "stale_member_epoch"),
    "no epoch": (("A", -1, 0), "stale_member_epoch"),
    "an epoch of before": (("B", 2, 1), "stale_member_epoch"),
    "no member": (("", -1, 0), "unknown_member_id"),
    "an unknown member": (("Z", 2, 0), "unknown_member_id"),
}


@pytest.mark.parametrize(("commit_", "error"), COMMITS.values(), ids=COMMITS)
def test_a_commit_is_judged_by_its_epoch(bench, commit_, error):
    assert commit(bench, *commit_) == [error]


def test_an_older_epoch_commits_what_the_member_has_kept(bench):
    bench.consumer_heartbeat("g", "A", 2, owned={T: (0,)})
    assert commit(bench, "A", 2, 0) == ["none"]
    assert commit(bench, "A", 2, 0, 1) == ["stale_member_epoch"] * 2
    bench.restart()
    assert commit(bench, "A", 2, 0) == ["none"]


def test_a_version_without_member_epochs_is_refused(bench):
    assert commit(bench, "A", 2, 0, version=8) == ["unsupported_version"]


def test_a_commit_restarts_no_session(bench):
    bench.advance(40_000)
    commit(bench, "A", 2, 0)
    bench.advance(5_000)
    assert bench.state() == "Empty"
    assert commit(bench, "", -1, 0) == ["none"]


def test_columns_are_judged_as_a_commit_of_single_offsets(bench):
    for group, epoch, member_id, error in (
        ("g", 2, "A", None),
        ("g", 1, "A", "stale_member_epoch"),
        ("g", 2, "Z", "unknown_member_id"),
    ):
        columns = [("t", T.bytes, (0,), (bytes(12),))]
        committer = Committer(group, epoch, member_id, None)
        decided = bench.shard.commit(committer, 9, columns, bench.now, bench.timestamp)
        assert (decided.name if error else len(decided)) == (error or 1)


TRANSACTIONAL = {
    "its epoch": (("A", 2, 0), "none"),
    "an older epoch": (("A", 1, 0), "stale_member_epoch"),
    "a newer epoch": (("A", 3, 0), "stale_member_epoch"),
    "nobody": (("", -1, 0), "none"),
    "nobody with an epoch": (("", -2, 0), "unknown_member_id"),
    "an unknown member": (("Z", 2, 0), "unknown_member_id"),
}


@pytest.mark.parametrize("version", [0, 5, 6])
@pytest.mark.parametrize(("commit_", "error"), TRANSACTIONAL.values(), ids=TRANSACTIONAL)
def test_a_commit_in_a_transaction(bench, commit_, error, version):
    """The errors of Apache Kafka 4.4."""
    if error == "stale_member_epoch" and version < 6:
        error = "illegal_generation"
    assert commit(bench, *commit_, transactional=True, version=version) == [error]


FETCHES = {
    "nobody": ((None, -1), "none"),
    "its epoch": (("A", 2), "none"),
    "another epoch": (("A", 3), "stale_member_epoch"),
    "an unknown member": (("Z", 2), "unknown_member_id"),
    "an empty id": (("", -1), "unknown_member_id"),
    "an epoch without a member": ((None, 3), "unknown_server_error"),
}


@pytest.mark.parametrize(("member", "error"), FETCHES.values(), ids=FETCHES)
def test_a_fetch_is_judged_by_its_epoch(bench, member, error):
    commit(bench, "A", 2, 0)
    call = bench.fetch("g", ("t", 0), member_id=member[0], member_epoch=member[1])
    assert call.error == error
    assert [each.offset for each in call.response.offsets] == ([5] if error == "none" else [])


def test_a_consumer_group_is_listed_by_its_type_and_state(bench):
    bench.stable("classic")
    assert [each.group for each in bench.list_groups(types=["CONSUMER"]).response.groups] == ["g"]
    (listed,) = bench.list_groups(states=["reconciling"]).response.groups
    assert (listed.group, listed.protocol_type, listed.state, listed.type) == (
        "g", "consumer", "Reconciling", "consumer",
    )  # fmt: skip
    assert bench.list_groups(types=["share"]).response.groups == ()


def test_a_consumer_group_is_no_classic_group(bench):
    assert bench.describe("g").error == "group_id_not_found"
    assert bench.describe("g").response.error_message == "Group g is not a classic group."
    assert bench.describe("g", version=5).response.state == "Dead"
    bench.stable("classic")
    assert bench.describe_consumer_group("classic").error == "group_id_not_found"
    assert bench.describe_consumer_group("x").error == "group_id_not_found"
    assert bench.describe_consumer_group("").error == "invalid_group_id"


def test_a_consumer_group_is_described(bench):
    described = bench.describe_consumer_group("g").response
    assert (described.state, described.epoch, described.target_epoch, described.assignor) == (
        "Reconciling", 3, 3, "uniform",
    )  # fmt: skip
    members = {member.member_id: member for member in described.members}
    assert members["A"].epoch == 2
    assert members["A"].assignment == {T: (0, 1)}
    assert members["A"].target == {T: (0,)}
    assert described.topics == {T: "t"}
    bench.topics = FixedTopics([], 2)
    assert bench.describe_consumer_group("g").response.topics == {}


def test_offsets_of_subscribed_topics_stay(bench):
    bench.consumer_heartbeat("g", "B", 3, topics=["t", "x"])
    deleted = bench.delete_offsets("g", ("t", 0), ("x", 0), ("u", 0)).response.results
    assert [error.name for _, error in deleted] == [
        "group_subscribed_to_topic", "group_subscribed_to_topic", "none",
    ]  # fmt: skip


def test_only_an_empty_group_is_deleted(bench):
    commit(bench, "A", 2, 0)
    assert bench.delete("g").error == "non_empty_group"
    bench.leave("g", "A", "B")
    call = bench.delete("g")
    assert call.error == "none"
    assert all(record.value is None for record in call.result.records)
    assert len(call.result.records) == 4
    assert bench.shard.groups == {}
    bench.restart()
    assert bench.shard.groups == {}


def test_offsets_expire_when_nobody_subscribes_to_their_topic(bench):
    commit(bench, "A", 2, 0)
    bench.set_ahead(RETENTION_MS)
    bench.expire_offsets()
    assert bench.fetch("g", ("t", 0)).response.offsets[0].offset == 5
    bench.leave("g", "A", "B")
    bench.expire_offsets()
    assert bench.shard.groups == {}


def test_an_empty_group_keeps_its_offsets_for_the_retention(bench):
    bench.advance(1)
    commit(bench, "A", 2, 0)
    bench.leave("g", "A", "B")
    bench.set_ahead(RETENTION_MS - 1)
    bench.expire_offsets()
    assert bench.fetch("g", ("t", 0)).response.offsets[0].offset == 5
