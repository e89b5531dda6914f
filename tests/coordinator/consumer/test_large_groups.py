"""What one event costs in a group of 10,000 members that subscribe to 1,000 topics: CPU time."""

import gc
from uuid import UUID

import pytest

from kohort.coordinator.consumer_records import (
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataRecord,
    ConsumerGroupMetadataValue,
    CurrentMemberAssignmentRecord,
    CurrentMemberAssignmentValue,
    GroupKey,
    MemberKey,
    TargetAssignmentMemberRecord,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataRecord,
    TargetAssignmentMetadataValue,
)
from kohort.coordinator.result import TimerFired
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.testing.bench import Bench
from turns import BOUND_MS, cpu_ms

MEMBERS = 10_000
NAMES = tuple(f"topic-{number:04}" for number in range(1_000))
TOPICS = FixedTopics([TopicImage(name, UUID(int=n), 10) for n, name in enumerate(NAMES, 1)], 1)
TIMERS_AT_ONCE = 200
"""Timers that fire in one turn of the loop."""


def records():
    """A stable group in which every member has one partition."""
    metadata = ConsumerGroupMemberMetadataValue(topics=NAMES, rebalance_timeout_ms=60_000)
    for number in range(MEMBERS):
        key, topic = MemberKey("g", f"m{number}"), UUID(int=number // 10 + 1)
        current = CurrentMemberAssignmentValue(2, 1, 0, {topic: {number % 10: 2}}, {})
        target = TargetAssignmentMemberValue({topic: (number % 10,)})
        yield ConsumerGroupMemberMetadataRecord(key, metadata)
        yield TargetAssignmentMemberRecord(key, target)
        yield CurrentMemberAssignmentRecord(key, current)
    group = GroupKey("g")
    yield TargetAssignmentMetadataRecord(group, TargetAssignmentMetadataValue(2))
    yield ConsumerGroupMetadataRecord(group, ConsumerGroupMetadataValue(2))


@pytest.fixture(scope="module")
def log():
    return list(records())


@pytest.fixture
def bench(log):
    bench = Bench(log=log, topics=TOPICS)
    bench.consumer_heartbeat("g", "m0", 2)
    bench.do_jobs()
    gc.collect()
    gc.freeze()  # what the group is made of is none of the event's work
    yield bench
    gc.unfreeze()


def test_a_member_joins_and_a_target_is_computed(bench):
    names = [str(name) for name in NAMES]
    assert cpu_ms(lambda: bench.consumer_heartbeat("g", "A", 0, topics=names)) < BOUND_MS
    bench.advance(1_000)
    assert cpu_ms(lambda: bench.consumer_heartbeat("g", "A", 3)) < BOUND_MS
    assert len(bench.jobs) == 1


def test_an_administrator_removes_members(bench):
    leaving = [f"m{number}" for number in range(500)]
    assert cpu_ms(lambda: bench.leave("g", *leaving)) < BOUND_MS
    assert len(bench.consumer_group().members) == MEMBERS - 500


def test_session_timeouts_of_many_members_are_handled_in_bounded_time(bench):
    due = list(bench.timers.due(bench.now + 60_000))[:TIMERS_AT_ONCE]
    bench.now += 60_000
    assert cpu_ms(lambda: [bench.post(TimerFired(key)) for key in due]) < BOUND_MS
    assert len(bench.consumer_group().members) == MEMBERS - TIMERS_AT_ONCE
