"""Rules about lag: the planted fault is found with samples only, and its quiet neighbour is not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from findings.group_log import GroupLog, at, findings, found, ids, with_lag
from kohort.findings.catalogue import RULES
from kohort.findings.thresholds import Thresholds
from kohort.types import TopicPartition

HOUR = 3_600
DAY = 24 * HOUR
RATE = 5
OF_LAG = {rule.id for rule in RULES.values() if rule.needs_samples}


def tp(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


def growing(_: TopicPartition, time: float) -> tuple[int, int]:
    """5 records a second from the beginning, and some that are not read yet."""
    return 0, int(time * RATE) + 20


def group() -> GroupLog:
    log = GroupLog()
    log.join("app-0", "app-1")
    log.work(HOUR)
    return log


def lag_findings(log: GroupLog, ends=growing, **options):
    return [
        each
        for each in findings(log, **with_lag(log, ends, since=HOUR - 600), **options)
        if each.id in OF_LAG
    ]


def test_a_group_that_follows_its_topic_has_no_findings():
    log = group()
    log.work(HOUR)
    assert lag_findings(log) == []


# --- stuck-commit


def stuck() -> GroupLog:
    log = group()
    log.work(600, rates={tp(0): 0})
    return log


def test_commits_of_one_offset_while_the_partition_grows_are_stuck():
    (finding,) = lag_findings(stuck())
    assert (finding.id, finding.subject, finding.severity) == ("stuck-commit", "orders-0", "error")
    assert "orders-0 was committed at 18,000 again and again" in finding.text
    assert finding.until == at(HOUR + 600)


def test_commits_of_one_offset_at_the_end_of_the_partition_are_not_stuck():
    def ends(partition: TopicPartition, time: float) -> tuple[int, int]:
        return (
            (0, min(int(time * RATE), 18_000)) if partition == tp(0) else growing(partition, time)
        )

    assert lag_findings(stuck(), ends) == []


# --- stopped, zombie-member


def test_a_partition_that_is_not_committed_any_more_is_stopped():
    log = group()
    log.work(600, without=[tp(0)])
    (finding,) = lag_findings(log)
    assert (finding.id, finding.subject) == ("stopped", "orders-0")
    assert "orders-0 had no commit for 10 min, while its usual gap is 10 s" in finding.text
    assert finding.since - at(HOUR) < timedelta(seconds=1)


def test_a_pause_shorter_than_a_minute_is_no_stop():
    log = group()
    log.work(50, without=[tp(0)])
    assert lag_findings(log) == []


def test_a_partition_without_records_is_not_stopped():
    def ends(partition: TopicPartition, time: float) -> tuple[int, int]:
        return (0, 18_000) if partition == tp(0) else growing(partition, time)

    log = group()
    log.work(600, without=[tp(0)])
    assert lag_findings(log, ends) == []


def test_a_record_that_has_just_come_after_a_pause_of_the_topic_is_no_stop():
    def ends(partition: TopicPartition, time: float) -> tuple[int, int]:
        late = int(time > HOUR + 525)
        return (0, 18_000 + late) if partition == tp(0) else growing(partition, time)

    log = group()
    log.work(600, without=[tp(0)])
    assert lag_findings(log, ends) == []


def test_a_group_without_members_is_not_stopped():
    log = group()
    log.leave(*log.members.values())
    log.now += HOUR
    assert "stopped" not in {each.id for each in lag_findings(log)}


def test_a_member_that_does_not_work_is_a_zombie_as_a_whole():
    log = group()
    lazy = next(iter(log.members))
    log.work(600, idle=[lazy])
    (finding,) = lag_findings(log)
    assert (finding.id, finding.subject) == ("zombie-member", "app-0 at 10.0.0.1")
    assert "committed none of 3 partitions with new records for 10 min" in finding.text


def test_the_only_member_that_does_not_work_stops_its_partitions():
    log = GroupLog(topics={"orders": 2})
    log.join("app-0")
    log.work(HOUR)
    log.now += 600
    assert [each.id for each in lag_findings(log)] == ["stopped", "stopped"]


# --- never-commits


def test_a_member_that_never_commits_is_found():
    log = GroupLog()
    log.join("app-0", "app-1")
    lazy = next(iter(log.members))
    log.work(HOUR, idle=[lazy])
    (finding,) = lag_findings(log)
    assert (finding.id, finding.subject) == ("never-commits", "app-0 at 10.0.0.1")
    assert "app-0 at 10.0.0.1 owns 3 partitions with new records for 1 h" in finding.text


def test_a_member_of_some_minutes_may_not_have_committed_yet():
    log = group()
    log.join("app-2")
    lazy = list(log.members)[-1]
    log.work(300, idle=[lazy])
    assert "never-commits" not in {each.id for each in lag_findings(log)}


# --- data-loss, expires-soon


def test_records_that_retention_removed_unread_are_lost():
    def ends(partition: TopicPartition, time: float) -> tuple[int, int]:
        start = 18_500 if partition == tp(0) and time > HOUR + 300 else 0
        return start, growing(partition, time)[1]

    log = group()
    log.work(600, rates={tp(0): 0.1})
    (finding,) = [each for each in lag_findings(log, ends) if each.id == "data-loss"]
    assert finding.subject == "orders-0"
    assert "retention removed" in finding.text
    assert finding.severity == "error"


def test_retention_far_behind_the_group_loses_nothing():
    log = group()
    log.work(600, rates={tp(0): 1})
    assert "data-loss" not in {each.id for each in lag_findings(log)}


def closing_in(pace: float, head_start: int):
    """Retention of orders-0 removes so many records a second, those of a minute at once."""

    def ends(partition: TopicPartition, time: float) -> tuple[int, int]:
        start = int(pace * (time // 60 * 60)) - head_start if partition == tp(0) else 0
        return max(start, 0), growing(partition, time)[1]

    return ends


def slow() -> GroupLog:
    """It reads one record of orders-0 in a second, a fifth of what comes."""
    log = group()
    log.work(600, rates={tp(0): 1})
    return log


def test_retention_that_will_reach_the_commit_within_hours_is_foretold():
    (finding,) = lag_findings(slow(), closing_in(RATE, head_start=3_000))
    assert (finding.id, finding.subject, finding.severity) == ("data-loss", "orders-0", "error")
    assert finding.text.startswith("retention reaches the committed offset of orders-0 in 2 min 2")
    assert finding.until == at(HOUR + 600)
    assert finding.evidence


def test_retention_that_needs_days_to_reach_the_commit_is_not():
    assert lag_findings(slow(), closing_in(1.02, head_start=0)) == []


def departed(days: float) -> GroupLog:
    log = group()
    log.leave(*log.members.values())
    log.now += days * DAY
    return log


def expiring(log: GroupLog, ends=growing):
    samples = with_lag(log, ends, since=log.now - 300)
    return found(log, "expires-soon", **samples)


def test_offsets_with_lag_that_expire_within_a_day_are_found():
    (finding,) = expiring(departed(6.5))
    assert "offsets of 6 partitions expire in 12 h" in finding.text


def test_other_offsets_do_not_expire_soon():
    assert expiring(departed(5)) == []
    assert expiring(departed(6.5), lambda tp, time: (0, 18_000)) == []
    log = group()
    log.work(600)
    assert expiring(log) == []


# --- max-lag


def test_a_lag_over_the_limit_of_the_option_is_found():
    log = group()
    log.work(600, rates={tp(0): 1})
    assert lag_findings(log) == []
    limits = replace(Thresholds(), max_lag=1_000)
    (finding,) = lag_findings(log, thresholds=limits)
    assert (finding.id, finding.subject) == ("max-lag", "orders")
    assert "orders partition 0 had a lag of up to 2,4" in finding.text
    limits = replace(Thresholds(), max_lag_s=300)
    assert [each.subject for each in lag_findings(log, thresholds=limits)] == ["orders"]
    limits = replace(Thresholds(), max_lag=1_000_000, max_lag_s=100_000)
    assert lag_findings(log, thresholds=limits) == []


# --- what is not known


@pytest.mark.parametrize("log", [stuck, lambda: departed(6.5)], ids=["stuck", "expiring"])
def test_no_finding_of_lag_is_made_without_samples(log):
    limits = replace(Thresholds(), max_lag=1)
    assert ids(findings(log(), limits)) & OF_LAG == set()
