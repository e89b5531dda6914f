"""Configuration: kafka-go's bounds and defaults, and mistakes that are told before the first
connection.
"""

import pytest

from kohort.client.config import GroupConfig
from kohort.client.group.group import ConsumerGroup
from kohort.errors import ConfigError, KohortError


def config(**options):
    return GroupConfig(**{"group_id": "g", "topics": ["orders"]} | options)


def test_defaults_are_kafka_gos():
    of = config()
    assert (of.heartbeat_interval_ms, of.session_timeout_ms, of.rebalance_timeout_ms) == (
        3_000,
        30_000,
        30_000,
    )
    assert (of.join_group_backoff_ms, of.partition_watch_interval_ms, of.retention_ms) == (
        5_000,
        5_000,
        -1,
    )
    assert of.start == "first"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"group_id": ""}, "group_id"),
        ({"group_id": None}, "group_id"),
        ({"group_id": "g" * 250}, "group_id"),
        ({"instance_id": ""}, "instance_id"),
        ({"topics": []}, "topics to subscribe to, or a pattern"),
        ({"topics": ["a"], "pattern": "b"}, "one of the two"),
        ({"topics": "orders"}, r"topics=\['orders'\]"),
        ({"topics": [""]}, "empty name"),
        ({"topics": (), "pattern": "("}, "no regular expression"),
        ({"protocol": "modern"}, "protocol"),
        ({"remote_assignor": "uniform"}, "protocol='consumer'"),
        ({"protocol": "consumer", "retention_ms": 1}, "retention_ms"),
        ({"heartbeat_interval_ms": 0}, "heartbeat_interval_ms"),
        ({"heartbeat_interval_ms": 2**31}, "heartbeat_interval_ms"),
        ({"heartbeat_interval_ms": 30_000}, "must be less than session_timeout_ms"),
        ({"session_timeout_ms": -1}, "session_timeout_ms"),
        ({"session_timeout_ms": 2**31}, "session_timeout_ms"),
        ({"rebalance_timeout_ms": 0}, "rebalance_timeout_ms"),
        ({"join_group_backoff_ms": -1}, "join_group_backoff_ms"),
        ({"partition_watch_interval_ms": -1}, "partition_watch_interval_ms"),
        ({"commit_interval_ms": -1}, "commit_interval_ms"),
        ({"retention_ms": -2}, "retention_ms"),
        ({"retention_ms": 2**63}, "retention_ms"),
        ({"max_poll_interval_ms": 0}, "max_poll_interval_ms"),
        ({"drain_timeout_ms": -1}, "drain_timeout_ms"),
        ({"drain_timeout_ms": 27_001}, "drain_timeout_ms: 27001 must be from 0 to 27000"),
        ({"session_timeout_ms": "30s"}, "session_timeout_ms"),
        ({"session_timeout_ms": True}, "session_timeout_ms"),
        ({"enable_auto_commit": "no"}, "enable_auto_commit is 'no'"),
        ({"leave_group_on_close": 5}, "leave_group_on_close is 5"),
        ({"on_event": 5}, "on_event is 5; it has to be a function"),
        ({"start_offset": "beginning"}, "first, last, none"),
        ({"start_offset": -1}, "first, last, none"),
        ({"start_offset": True}, "first, last, none"),
        ({"assignors": []}, "assignors"),
        ({"isolation_level": "serializable"}, "isolation_level"),
    ],
)
def test_options_out_of_bounds_are_refused_by_name(options, told):
    with pytest.raises(ConfigError, match=told):
        config(**options)


@pytest.mark.parametrize(
    ("given", "start"), [("earliest", "first"), ("latest", "last"), ("none", "none"), (0, 0)]
)
def test_kafkas_words_for_the_start_will_do(given, start):
    assert config(start_offset=given).start == start


@pytest.mark.parametrize("rebalance_timeout_ms", [1, 1_000, 30_000, 300_000])
def test_the_default_drain_fits_into_the_rebalance_timeout(rebalance_timeout_ms):
    of = config(rebalance_timeout_ms=rebalance_timeout_ms)
    assert 0 <= of.drain_ms <= max(0, rebalance_timeout_ms - of.heartbeat_interval_ms)


def test_a_static_member_does_not_leave_by_default():
    assert not config(instance_id="i").sends_leave
    assert config(instance_id="i", leave_group_on_close=True).sends_leave
    assert config().sends_leave
    assert not config(leave_group_on_close=False).sends_leave


def test_a_pattern_for_the_coordinator_is_in_its_syntax():
    of = config(topics=(), pattern=r"\pL+", protocol="consumer", remote_assignor="range")
    assert (of.pattern, of.remote_assignor) == (r"\pL+", "range")


# --- ConsumerGroup ---


def test_an_unknown_option_names_the_nearest():
    with pytest.raises(ConfigError, match=r"session_timout_ms; did you mean session_timeout_ms"):
        ConsumerGroup("g", topics=["orders"], session_timout_ms=1)  # type: ignore[call-arg]


def test_options_of_the_client_are_checked_too():
    with pytest.raises(ConfigError, match="bootstrap"):
        ConsumerGroup("g", topics=["orders"], bootstrap="nowhere")


def test_one_topic_is_not_a_list():
    with pytest.raises(ConfigError, match="topics"):
        ConsumerGroup("g", topics="orders")


@pytest.mark.parametrize("assignors", [["rang"], ["range", "range"]])
def test_assignors_are_checked(assignors):
    with pytest.raises(ConfigError):
        ConsumerGroup("g", topics=["orders"], assignors=assignors)


def test_a_consumer_group_has_to_be_entered_before_use():
    group = ConsumerGroup("g", topics=["orders"])
    with pytest.raises(KohortError, match="async with ConsumerGroup"):
        group.stop()
    assert "g" in repr(group)
