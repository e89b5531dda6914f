"""Rules about assignments: the planted fault is found, and its quiet neighbour is not."""

import pyarrow as pa
import pytest

from findings.group_log import GroupLog, at, found, ids
from history.built import build_logs
from history.offset_logs import batch_of
from kohort.findings.finding import Finding, Position
from kohort.findings.thresholds import Thresholds
from kohort.history.schema import RECORDS
from kohort.history_files.directory import HistoryDirectory
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.finding_search import search_groups
from kohort.types import TopicPartition

HOUR = 3_600


def tp(number: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, number)


# --- hot-partition


def heated(rate: float, partitions: int = 6, base: float = 5) -> GroupLog:
    log = GroupLog(topics={"orders": partitions})
    log.join("app-0", "app-1")
    log.work(HOUR, rate=base, rates={tp(3): rate} if partitions > 3 else {tp(1): rate})
    return log


def test_a_partition_with_most_records_is_hot():
    (finding,) = found(heated(20), "hot-partition")
    assert finding.subject == "orders-3"
    assert "orders-3 had 71,800 of 161,550 records of orders in 1 h" in finding.text


@pytest.mark.parametrize(
    ("rate", "partitions", "base"), [(10, 6, 5), (20, 3, 5), (0.1, 6, 0.02)],
    ids=["twice the others", "three partitions", "little data"],
)  # fmt: skip
def test_other_partitions_are_not_hot(rate, partitions, base):
    assert found(heated(rate, partitions, base), "hot-partition") == []


# --- uneven-assignment, idle-member


def shared(counts: dict[str, int], topics: dict[str, tuple[str, ...]] | None = None) -> GroupLog:
    """Members own so many partitions of "orders"."""
    log = GroupLog(topics={"orders": sum(counts.values()), "prices": 1})
    for name in counts:
        log.join(name, topics=(topics or {}).get(name, ("orders",)))
    names = {each.client_id: id_ for id_, each in log.members.items()}
    numbers = iter(range(sum(counts.values())))
    owners = {
        tp(next(numbers)): names[name] for name, count in counts.items() for _ in range(count)
    }
    log.rebalance(owners)
    log.work(900)
    return log


def test_a_member_with_more_than_twice_the_partitions_of_another_is_found():
    (finding,) = found(shared({"a": 5, "b": 2}), "uneven-assignment")
    assert finding.subject == "a at 10.0.0.1"
    assert "a at 10.0.0.1 owned 5 partitions and b at 10.0.0.1 2 for 15 min" in finding.text


@pytest.mark.parametrize("counts", [{"a": 4, "b": 2}, {"a": 2, "b": 1}, {"a": 7}])
def test_an_assignment_within_twice_the_least_is_even(counts):
    assert found(shared(counts), "uneven-assignment") == []


def test_members_of_other_topics_may_own_less():
    log = shared({"a": 5, "b": 2}, {"a": ("orders",), "b": ("orders", "prices")})
    assert found(log, "uneven-assignment") == []


def test_an_uneven_assignment_of_some_minutes_is_not_found():
    log = GroupLog()
    log.join("a", "b")
    one = next(iter(log.members))
    log.rebalance({**log.owners, tp(3): one, tp(4): one})
    log.work(500)
    log.rebalance()
    log.work(900)
    assert found(log, "uneven-assignment") == []


def test_a_member_without_partitions_is_idle():
    (finding,) = found(shared({"a": 3, "b": 3, "c": 0}), "idle-member")
    assert finding.subject == "c at 10.0.0.1"
    assert finding.severity == "info"
    assert "3 members with the same topics had 6 partitions" in finding.text


def test_members_of_a_topic_that_does_not_exist_are_not_idle():
    log = GroupLog(topics={"orders": 0})
    log.join("a", "b")
    log.now += HOUR
    assert found(log, "idle-member") == []


def test_a_gap_of_the_log_hides_who_is_idle():
    log = shared({"a": 3, "b": 3, "c": 0})
    generations = [row["offset"] for row in log.rows if row["key"][:2] == b"\0\2"]
    assert found(log, "idle-member", missing=range(generations[-1], generations[-1] + 1)) == []


# --- unassigned


def left_out(topics: dict[str, int] | None = None, **fields) -> GroupLog:
    log = GroupLog(topics=topics or {"orders": 6})
    log.join("a", "b")
    log.work(HOUR)
    return log


@pytest.mark.parametrize("is_consumer", [False, True])
def test_a_partition_that_lost_its_owner_is_unassigned(is_consumer):
    log = GroupLog(is_consumer=is_consumer)
    log.join("a", "b")
    log.work(HOUR)
    owners = dict(log.owners)
    del owners[tp(5)]
    log.rebalance(owners)
    log.work(300)
    (finding,) = found(log, "unassigned")
    assert finding.subject == "orders"
    assert finding.severity == "error"
    assert "orders partition 5 had no owner for 5 min" in finding.text


def test_a_cooperative_round_leaves_partitions_for_seconds_only():
    log = left_out()
    owners = dict(log.owners)
    del owners[tp(5)]
    log.rebalance(owners)
    log.work(20)
    log.rebalance()
    log.work(300)
    assert found(log, "unassigned") == []


def test_a_topic_that_nobody_subscribes_to_any_more_is_not_unassigned():
    log = left_out({"orders": 6, "prices": 3})
    del log.topics["prices"]
    for client in log.members.values():
        client.topics = ("orders",)
    log.rebalance()
    log.work(HOUR)
    assert found(log, "unassigned") == []


# --- split-group


def beginning(log_partition: int, since: float, **fields) -> GroupLog:
    """A group at work for an hour, whose first record is in this log partition."""
    log = GroupLog(log_partition=log_partition, now=since, **fields)
    log.join("a", "b")
    log.work(HOUR)
    return log


def in_one_history(directory, *logs: GroupLog) -> list[Finding]:
    """The findings in a history that is built of these logs."""
    records = {
        log.log_partition: pa.Table.from_batches([batch_of(log.rows)], RECORDS) for log in logs
    }
    build_logs(records, directory)
    return search_groups(HistoryDirectory(LocalFiles(directory)), Thresholds()).findings


def test_a_group_with_records_in_two_log_partitions_is_split(tmp_path):
    """As after offsets.topic.num.partitions was changed."""
    all_found = in_one_history(tmp_path / "out", beginning(3, 0), beginning(5, 2 * HOUR))
    (finding,) = [each for each in all_found if each.id == "split-group"]
    assert (finding.subject, finding.severity, finding.since) == ("", "error", at(2 * HOUR))
    assert "the group has records in partitions 3, 5 of __consumer_offsets" in finding.text
    assert finding.evidence == (Position(3, 0), Position(5, 0))


def test_groups_in_log_partitions_of_their_own_are_not_split(tmp_path):
    logs = beginning(3, 0), beginning(5, 2 * HOUR, group="audit")
    assert "split-group" not in ids(in_one_history(tmp_path / "out", *logs))
