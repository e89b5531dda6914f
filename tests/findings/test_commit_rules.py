"""Rules about commits: the planted fault is found, and its quiet neighbour is not."""

from datetime import timedelta

import pytest

from findings.group_log import GROUP, GroupLog, at, findings, found, ids, topic_id
from kohort.coordinator.records import OffsetCommitKey, OffsetCommitRecord
from kohort.types import TopicPartition

HOUR = 3_600


def group(**options) -> GroupLog:
    log = GroupLog(**options)
    log.rebalance()
    log.join("app-0", host="/10.0.0.1")
    log.join("app-1", host="/10.0.0.2")
    log.work(HOUR)
    return log


# --- rewind


def test_a_member_that_goes_back_and_stays_there_is_found():
    log = group()
    log.commit({0: 1_000, 1: 9_000})
    log.work(120, rate=2)
    (finding,) = found(log, "rewind")
    assert finding.subject == "orders"
    assert finding.since - at(HOUR) < timedelta(seconds=1)
    assert finding.text.startswith(
        "app-0 at 10.0.0.1 set back orders partitions 0, 1 by up to 17,000 records."
    )


def test_a_lower_commit_that_is_passed_again_is_no_rewind():
    log = group()
    log.commit({0: log.offsets[TopicPartition("orders", 0)] - 100})
    log.work(120)
    assert found(log, "rewind") == []


def test_a_lower_commit_at_the_end_is_not_judged_yet():
    log = group()
    log.commit({0: 1_000})
    log.now += 5
    assert found(log, "rewind") == []


def test_a_tool_that_goes_back_is_a_reset_and_no_rewind():
    log = group()
    log.leave(*log.members.values())
    log.now += 60
    log.commit(dict.fromkeys(range(6), 100))
    log.now += HOUR
    assert ids(findings(log)) == {"manual-reset"}


# --- zombie-commit


def moved(offset: int, delay: float) -> GroupLog:
    """Partition 0 moves; its new owner commits, and then comes a commit of this offset."""
    log = group()
    two = list(log.members)[1]
    owners = dict(log.owners)
    owners[TopicPartition("orders", 0)] = two
    log.rebalance(owners)
    log.work(delay)
    log.commit({0: log.offsets[TopicPartition("orders", 0)] + offset})
    log.work(HOUR)
    return log


def test_a_commit_below_the_new_owners_after_a_move_is_a_zombies():
    (finding,) = found(moved(-40, 30), "zombie-commit")
    assert finding.subject == "orders-0"
    assert finding.severity == "error"
    assert "moved to app-1 at 10.0.0.2, its offset went back from 18,150 to 18,110" in finding.text


def test_a_zombies_commit_is_no_rewind_too():
    assert "rewind" not in ids(findings(moved(-4_000, 30)))


@pytest.mark.parametrize(
    ("offset", "delay"), [(10, 30), (-40, 300)], ids=["a higher offset", "long after the move"]
)
def test_other_commits_after_a_move_are_no_zombies(offset, delay):
    assert found(moved(offset, delay), "zombie-commit") == []


# --- manual-reset


def test_a_reset_by_a_tool_is_found_with_its_partitions():
    log = group()
    log.leave(*log.members.values())
    log.now += 60
    log.commit(dict.fromkeys(range(6), 500))
    (finding,) = found(log, "manual-reset")
    assert finding.subject == "orders"
    assert "6 of 6 partitions of orders were set from outside: back by up to 17,500" in finding.text
    assert len(finding.evidence) == 6


def test_commits_of_members_are_no_reset():
    log = group()
    log.commit(dict.fromkeys(range(6), 500))
    assert found(log, "manual-reset") == []


# --- habits


def test_commits_each_five_seconds_with_repeats_are_auto_commits():
    log = group()
    log.work(HOUR, every=5, rate=0.1)
    (finding,) = found(log, "auto-commit")
    assert finding.severity == "info"
    assert "6 partitions had a commit each 5 s" in finding.text


@pytest.mark.parametrize(("every", "rate"), [(5, 3), (7, 0.1)], ids=["no repeats", "each 7 s"])
def test_other_regular_commits_are_no_auto_commits(every, rate):
    log = group()
    log.work(HOUR, every=every, rate=rate)
    assert found(log, "auto-commit") == []


def test_commits_of_single_records_are_too_often():
    log = group()
    log.work(300, every=0.25, rate=4)
    (finding,) = found(log, "too-often")
    assert (
        "orders partitions 0, 1, 2, 3, 4 and 1 more had up to 2.0 commits per second"
        in finding.text
    )


@pytest.mark.parametrize(
    ("every", "rate"), [(0.25, 400), (2, 1)], ids=["many records each", "each two seconds"]
)
def test_other_commits_are_not_too_often(every, rate):
    log = group()
    log.work(300, every=every, rate=rate)
    assert found(log, "too-often") == []


def test_commits_after_many_minutes_are_too_rare():
    log = GroupLog()
    log.join("app-0")
    log.work(2 * HOUR, every=600)
    (finding,) = found(log, "too-rarely")
    assert "had a commit each 10 min, with 3,000 records each" in finding.text


def test_commits_of_few_records_are_not_too_rare():
    log = GroupLog()
    log.join("app-0")
    log.work(2 * HOUR, every=600, rate=0.1)
    assert found(log, "too-rarely") == []


def test_commits_that_compaction_removed_do_not_make_others_rare():
    log = GroupLog()
    log.join("app-0")
    log.work(2 * HOUR, every=10)
    commits = [row["offset"] for row in log.rows if row["key"][:2] == b"\0\1"]
    first = [offset for offset in commits if offset < len(log.rows) - 100]
    log.rows = [row for row in log.rows if row["offset"] not in first or row["offset"] % 360 < 6]
    assert found(log, "too-rarely") == []


# --- topics and transactions


def recreated(partitions: int) -> GroupLog:
    log = group()
    log.ids["orders"] = topic_id("orders", 1)
    log.commit({number: 10 + number for number in range(partitions)})
    log.now += HOUR
    return log


def test_a_topic_with_another_id_is_recreated():
    (finding,) = found(recreated(4), "topic-recreated")
    assert finding.subject == "orders"
    assert finding.severity == "warning"
    assert "the offset of partitions 4, 5 is that of the former one" in finding.text


def test_offsets_that_went_with_the_former_topic_are_not_named():
    log = recreated(4)
    removed = [
        OffsetCommitRecord(OffsetCommitKey(GROUP, "orders", number), None) for number in (4, 5)
    ]
    log.write(*removed)
    (finding,) = found(log, "topic-recreated")
    assert (finding.severity, "is that of" in finding.text) == ("info", False)


def test_a_recreated_topic_that_is_committed_anew_is_for_information():
    (finding,) = found(recreated(6), "topic-recreated")
    assert finding.severity == "info"


def test_a_transaction_that_does_not_end_hangs():
    log = group()
    log.commit({0: 20_000, 1: 20_000}, producer_id=7)
    log.work(1_000)
    (finding,) = found(log, "hanging-transaction")
    assert finding.subject == "producer id 7"
    assert "with offsets of 2 partitions is open for 16 min 40 s" in finding.text


def test_a_transaction_that_ends_in_time_does_not_hang():
    log = group()
    log.commit({0: 20_000}, producer_id=7)
    log.work(600)
    assert found(log, "hanging-transaction") == []
    log.marker(7)
    log.work(1_000)
    assert found(log, "hanging-transaction") == []
