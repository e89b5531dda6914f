"""Subscriptions by regular expression, resolved in the background as Apache Kafka 4.4 does."""

from uuid import UUID

import pytest

from kohort.coordinator.config import ConsumerGroupConfig, GroupCoordinatorConfig
from kohort.coordinator.consumer.regular_expressions import (
    MAX_INTERVAL_MS,
    MAX_REGEXES,
    MAX_STORED_NAMES,
    MIN_INTERVAL_MS,
)
from kohort.coordinator.consumer_records import RegularExpressionRecord
from kohort.coordinator.jobs import ResolveRegexes
from kohort.coordinator.topics import FixedTopics, TopicImage
from kohort.testing.bench import Bench

T1, T2, U = (TopicImage(name, UUID(int=at), 1) for at, name in enumerate(("t1", "t2", "u"), 1))
AT_ONCE = GroupCoordinatorConfig(
    consumer=ConsumerGroupConfig(assignment_interval_ms=0, session_timeout_ms=10 * MAX_INTERVAL_MS)
)


@pytest.fixture
def bench():
    return Bench(AT_ONCE, topics=FixedTopics([T1, U], version=1))


def told(call):
    return call.response.member_epoch, call.response.assignment


def resolved(results):
    """Expressions and topics that were recorded."""
    return {
        record.key.regex: record.value.topics
        for result in results
        for record in result.records
        if isinstance(record, RegularExpressionRecord)
    }


def test_a_new_expression_matches_nothing_until_it_is_resolved(bench):
    assert told(bench.consumer_heartbeat("g", "A", 0, regex="t.*")) == (1, {})
    assert told(bench.consumer_heartbeat("g", "A", 1)) == (1, None)
    assert len(bench.jobs) == 1
    assert resolved(bench.do_jobs()) == {"t.*": ("t1",)}
    assert told(bench.consumer_heartbeat("g", "A", 1)) == (2, {T1.id: (0,)})
    assert [cause.what for cause in bench.journal[-1].causes] == ["regular expression resolved"]


def test_a_resolved_expression_counts_at_once(bench):
    bench.consumer_heartbeat("g", "A", 0, regex="t.*")
    bench.do_jobs()
    bench.consumer_heartbeat("g", "A", 1)
    call = bench.consumer_heartbeat("g", "B", 0, topics=["u"], regex="t.*")
    assert told(call) == (3, {U.id: (0,)})
    assert bench.jobs == []


def test_no_expression_takes_the_topics_away_at_once(bench):
    bench.consumer_heartbeat("g", "A", 0, regex="t.*")
    bench.do_jobs()
    bench.consumer_heartbeat("g", "A", 1)
    call = bench.consumer_heartbeat("g", "A", 2, regex="")
    assert told(call) == (2, {})
    assert bench.consumer_group().regexes == {}
    assert bench.consumer_group().epoch == 3


def test_a_topic_that_is_created_is_found_after_the_shortest_interval(bench):
    bench.consumer_heartbeat("g", "A", 0, regex="t.*")
    bench.do_jobs()
    bench.topics = FixedTopics([T1, T2, U], version=2)
    bench.advance(MIN_INTERVAL_MS)
    bench.consumer_heartbeat("g", "A", 1)
    assert bench.jobs == []
    bench.advance(1)
    bench.consumer_heartbeat("g", "A", 2)
    assert resolved(bench.do_jobs()) == {"t.*": ("t1", "t2")}
    assert told(bench.consumer_heartbeat("g", "A", 2)) == (3, {T1.id: (0,), T2.id: (0,)})


def test_expressions_are_resolved_again_after_the_longest_interval(bench):
    bench.consumer_heartbeat("g", "A", 0, regex="t.*")
    bench.do_jobs()
    bench.advance(MAX_INTERVAL_MS)
    bench.consumer_heartbeat("g", "A", 1)
    assert bench.jobs == []
    bench.advance(1)
    bench.consumer_heartbeat("g", "A", 2)
    assert resolved(bench.do_jobs()) == {"t.*": ("t1",)}
    assert bench.consumer_group().epoch == 2


def test_an_expression_without_subscribers_is_not_recorded(bench):
    bench.consumer_heartbeat("g", "A", 0, regex="t.*")
    bench.consumer_heartbeat("g", "B", 0, topics=["u"])
    bench.consumer_heartbeat("g", "A", -1)
    assert resolved(bench.do_jobs()) == {}


def test_a_deleted_topic_leaves_by_the_hash(bench):
    bench.consumer_heartbeat("g", "A", 0, regex=".*")
    bench.do_jobs()
    bench.consumer_heartbeat("g", "A", 1)
    bench.topics = FixedTopics([U], version=2)
    assert told(bench.consumer_heartbeat("g", "A", 2)) == (2, {U.id: (0,)})
    assert told(bench.consumer_heartbeat("g", "A", 2, owned={U.id: (0,)})) == (3, None)


def test_an_expression_matches_what_the_client_may_describe(bench):
    bench.consumer_heartbeat("g", "A", 0, regex=".*", may_describe=lambda name: name == "u")
    assert resolved(bench.do_jobs()) == {".*": ("u",)}


def test_a_group_has_a_limited_number_of_different_expressions(bench):
    for number in range(MAX_REGEXES):
        assert bench.consumer_heartbeat("g", f"m{number}", 0, regex=f"t{number}").error == "none"
    refused = bench.consumer_heartbeat("g", "A", 0, regex="t.*")
    assert refused.error == "invalid_regular_expression"
    assert "100 different" in refused.response.error_message
    assert bench.consumer_heartbeat("g", "A", 0, regex="t0").error == "none"
    assert bench.consumer_heartbeat("g", "m1", 1, regex="t.*").error == "none"
    assert bench.consumer_heartbeat("g", "A", 1, regex="u").error == "invalid_regular_expression"


def test_a_client_that_changes_its_expression_leaves_nothing_behind(bench):
    for number in range(3 * MAX_REGEXES):
        epoch = bench.consumer_group().members["A"].current.epoch if number else 0
        assert bench.consumer_heartbeat("g", "A", epoch, regex=f"t{number}|t1").error == "none"
        bench.do_jobs()
    group = bench.consumer_group()
    assert len(group.regexes) <= len(group.regex_members) == 1


def test_a_large_result_is_stored_in_parts():
    count = MAX_STORED_NAMES // 2
    names = [f"t{number:05}" for number in range(count)]
    images = [TopicImage(name, UUID(int=n), 1) for n, name in enumerate(names, 1)]
    bench = Bench(AT_ONCE, topics=FixedTopics(images, version=1))
    regexes = ["t.*", "t.+", "t[0-9]*", "t0.*"]
    for number, regex in enumerate(regexes):
        bench.consumer_heartbeat("g", f"m{number}", 0, regex=regex)
    epoch = bench.consumer_group().epoch
    bench.do_jobs()
    bench.advance(MIN_INTERVAL_MS + 1)
    bench.consumer_heartbeat("g", "m0", 1)
    (job,) = [job for job in bench.jobs if isinstance(job, ResolveRegexes)]
    (result,) = [each for each in bench.do_jobs() if resolved([each])]
    assert len(job.regexes) == len(regexes)
    assert [record.key.regex for record in result.records] == regexes[:3]
    assert result.continuation is not None
    group = bench.consumer_group()
    assert group.epoch > epoch
    assert set(group.regexes) == set(regexes)
    assert not group.is_resolving
