"""Configs of topics: what is accepted, in whose words it is refused, and what acts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.batches import Codec
from kohort.server.config.config import Config
from kohort.server.config.topic_configs import (
    ConfigChange,
    Operation,
    Source,
    altered_topic_configs,
    describe_topic_configs,
    effective_topic_configs,
    topic_log_config,
    validate_topic_configs,
)
from kohort.server.config.topic_table import TOPIC_CONFIGS

DEFAULTS = Config()


def refusal(configs: dict[str, Any]) -> str:
    with pytest.raises(KafkaError) as caught:
        validate_topic_configs(configs)
    assert caught.value.code is ErrorCode.invalid_config
    return caught.value.message


# What Kafka 4.4 answers to CreateTopics with these.
REFUSALS = {
    ("foo", "1"): "Unknown topic config name: foo",
    (" retention.ms", "1"): "Unknown topic config name:  retention.ms",
    ("retention.ms", None): "Null value not supported for topic configs: retention.ms",
    ("retention.ms", "abc"): (
        "Invalid value abc for configuration retention.ms: Not a number of type LONG"
    ),
    ("retention.ms", ""): (
        "Invalid value  for configuration retention.ms: Not a number of type LONG"
    ),
    ("retention.ms", "5.0"): (
        "Invalid value 5.0 for configuration retention.ms: Not a number of type LONG"
    ),
    ("retention.ms", "-5"): (
        "Invalid value -5 for configuration retention.ms: Value must be at least -1"
    ),
    ("retention.ms", "99999999999999999999"): (
        "Invalid value 99999999999999999999 for configuration retention.ms: Not a number "
        "of type LONG"
    ),
    ("segment.bytes", "99999999999"): (
        "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT"
    ),
    ("segment.bytes", "100"): (
        "Invalid value 100 for configuration segment.bytes: Value must be at least 1048576"
    ),
    ("min.cleanable.dirty.ratio", "x"): (
        "Invalid value x for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"
    ),
    ("min.cleanable.dirty.ratio", "2"): (
        "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no "
        "more than 1"
    ),
    ("min.cleanable.dirty.ratio", "-1e-5"): (
        "Invalid value -1.0E-5 for configuration min.cleanable.dirty.ratio: Value must be at "
        "least 0"
    ),
    ("cleanup.policy", "x"): (
        "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete"
    ),
    ("cleanup.policy", "Compact"): (
        "Invalid value Compact for configuration cleanup.policy: String must be one of: "
        "compact, delete"
    ),
    ("cleanup.policy", "compact,"): "Configuration 'cleanup.policy' values must not be empty.",
    ("compression.type", "foo"): (
        "Invalid value foo for configuration compression.type: "
        "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"
    ),
    ("preallocate", "maybe"): (
        "Invalid value maybe for configuration preallocate: Expected value to be either "
        "true or false"
    ),
    ("compression.gzip.level", "0"): (
        "Invalid value 0 for configuration compression.gzip.level: Value must be between "
        "1 and 9 or equal to -1"
    ),
    ("leader.replication.throttled.replicas", "abc"): (
        "Invalid value [abc] for configuration leader.replication.throttled.replicas: "
        "leader.replication.throttled.replicas must be the literal '*' or a list of "
        "replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    ),
    ("remote.storage.enable", "true"): (
        "Tiered Storage functionality is disabled in the broker. Topic cannot be "
        "configured with remote log storage."
    ),
}


@pytest.mark.parametrize(("name", "value"), REFUSALS)
def test_refused_in_kafkas_words(name: str, value: str | None) -> None:
    assert refusal({name: value}) == REFUSALS[name, value]


def test_names_are_judged_before_values_and_nulls_before_names() -> None:
    assert refusal({"max.message.bytes": "abc", "foo": "x"}) == "Unknown topic config name: foo"
    assert refusal({"a": None, "foo": "x", "b": None}) == (
        "Null value not supported for topic configs: a,b"
    )


def test_compaction_lags_must_fit_together() -> None:
    assert refusal({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}) == (
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"
    )


@pytest.mark.parametrize(
    ("name", "value", "typed"),
    [
        ("cleanup.policy", "compact, delete", ("compact", "delete")),
        ("cleanup.policy", "", ()),
        ("retention.ms", " 1 ", 1),
        ("retention.ms", "+5", 5),
        ("retention.bytes", "-2", -2),
        ("preallocate", " TRUE ", True),
        ("min.cleanable.dirty.ratio", ".3", 0.3),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,1:1", ("0:1", "1:1")),
        ("local.retention.ms", "5", 5),
        ("min.insync.replicas", "2", 2),
    ],
)
def test_accepted_as_given_and_read_as_kafka_reads_it(name: str, value: str, typed: object) -> None:
    assert validate_topic_configs({name: value}) == {name: value}
    assert effective_topic_configs({name: value}, DEFAULTS)[name] == typed


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), st.text())
def test_any_text_is_taken_or_refused_as_invalid_config(name: str, text: str) -> None:
    try:
        valid = validate_topic_configs({name: text})
    except KafkaError:
        assert refusal({name: text})
    else:
        effective_topic_configs(valid, DEFAULTS)


def test_defaults_are_kafkas() -> None:
    for name, definition in TOPIC_CONFIGS.items():
        assert effective_topic_configs({}, DEFAULTS)[name] == definition.default, name


def test_a_topic_that_left_it_alone_follows_the_broker() -> None:
    broker = Config(
        {"log.retention.hours": 1, "log.cleanup.policy": "compact", "message.max.bytes": 99}
    )
    values = effective_topic_configs({"max.message.bytes": "7"}, broker)
    assert values["retention.ms"] == 3_600_000
    assert values["cleanup.policy"] == ("compact",)
    assert values["max.message.bytes"] == 7


def test_the_config_of_a_log_follows_the_topic_configs() -> None:
    configs = {
        "cleanup.policy": "compact,delete",
        "message.timestamp.type": "LogAppendTime",
        "compression.type": "zstd",
        "retention.ms": "-1",
        "max.message.bytes": "12",
    }
    config = topic_log_config(effective_topic_configs(configs, DEFAULTS), DEFAULTS)
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.log_append_time
    assert config.compression is Codec.ZSTD
    assert config.retention_ms == -1
    assert config.rules.max_message_bytes == 12
    assert topic_log_config(effective_topic_configs({}, DEFAULTS), DEFAULTS).compression is None
    uncompressed = effective_topic_configs({"compression.type": "uncompressed"}, DEFAULTS)
    assert topic_log_config(uncompressed, DEFAULTS).compression is Codec.NONE


class TestDescribe:
    def entry(self, name: str, overrides: dict[str, str], broker: Config = DEFAULTS) -> Any:
        return next(
            entry for entry in describe_topic_configs(overrides, broker) if entry.name == name
        )

    def test_an_unset_config_has_the_default_of_the_broker(self) -> None:
        entry = self.entry("max.message.bytes", {})
        assert (entry.value, entry.source) == ("1048588", Source.DEFAULT)
        assert entry.synonyms == (("message.max.bytes", "1048588", Source.DEFAULT),)

    def test_a_config_without_a_broker_synonym_has_none(self) -> None:
        entry = self.entry("flush.ms", {})
        assert (entry.source, entry.synonyms) == (Source.DEFAULT, ())

    def test_a_config_set_on_the_broker_has_it_as_a_synonym(self) -> None:
        entry = self.entry("max.message.bytes", {}, Config({"message.max.bytes": 5}))
        assert (entry.value, entry.source) == ("5", Source.BROKER)
        assert entry.synonyms == (
            ("message.max.bytes", "5", Source.BROKER),
            ("message.max.bytes", "1048588", Source.DEFAULT),
        )

    def test_a_config_of_the_topic_is_described_in_its_parsed_form(self) -> None:
        entry = self.entry("cleanup.policy", {"cleanup.policy": "compact, delete"})
        assert (entry.value, entry.source) == ("compact,delete", Source.TOPIC)
        assert entry.synonyms == (
            ("cleanup.policy", "compact,delete", Source.TOPIC),
            ("log.cleanup.policy", "delete", Source.DEFAULT),
        )

    def test_a_default_that_comes_from_hours_has_no_synonym(self) -> None:
        entry = self.entry("retention.ms", {})
        assert (entry.value, entry.source, entry.synonyms) == ("604800000", Source.DEFAULT, ())

    def test_every_config_is_there_by_name(self) -> None:
        names = [entry.name for entry in describe_topic_configs({}, DEFAULTS)]
        assert names == sorted(names)
        assert len(names) == 37


class TestAltered:
    def changed(
        self, before: dict[str, str], *changes: tuple[str, int, str | None]
    ) -> dict[str, str]:
        return altered_topic_configs(
            before,
            [ConfigChange(name, Operation(op), value) for name, op, value in changes],
            DEFAULTS,
        )

    def refused(self, *changes: tuple[str, int, str | None]) -> tuple[ErrorCode, str]:
        with pytest.raises(KafkaError) as caught:
            self.changed({}, *changes)
        return caught.value.code, caught.value.message

    def test_configs_of_a_topic_are_set_and_deleted(self) -> None:
        assert self.changed({}, ("retention.ms", 0, "5")) == {"retention.ms": "5"}
        assert self.changed({"retention.ms": "5"}, ("retention.ms", 1, None)) == {}
        assert self.changed({}, ("nope", 1, None)) == {}

    def test_append_starts_from_what_is_inherited(self) -> None:
        assert self.changed({}, ("cleanup.policy", 2, "compact")) == {
            "cleanup.policy": "delete,compact"
        }
        assert self.changed(
            {"cleanup.policy": "compact"}, ("cleanup.policy", 2, "compact,delete")
        ) == {"cleanup.policy": "compact,delete"}

    def test_subtract_removes_a_value_from_a_list(self) -> None:
        assert self.changed({}, ("cleanup.policy", 3, "delete")) == {"cleanup.policy": ""}
        assert self.changed({"cleanup.policy": "compact"}, ("cleanup.policy", 3, "x")) == {
            "cleanup.policy": "compact"
        }

    def test_refused_changes_have_the_errors_of_kafka(self) -> None:
        assert self.refused(("retention.ms", 0, "5"), ("retention.ms", 0, "6")) == (
            ErrorCode.invalid_request,
            "Error due to duplicate config keys",
        )
        assert self.refused(("cleanup.policy", 0, None)) == (
            ErrorCode.invalid_request,
            "Null value not supported for : cleanup.policy",
        )
        assert self.refused(("retention.ms", 2, "5"))[1] == (
            "Can't APPEND to key retention.ms because its type is not LIST."
        )
        assert self.refused(("nope", 3, "5"))[1] == (
            "Can't SUBTRACT to key nope because its type is not LIST."
        )
        assert self.refused(("cleanup.policy", 2, ""))[1] == (
            "Configuration 'cleanup.policy' values must not be empty."
        )
        assert self.refused(("cleanup.policy", 2, "x"))[1].startswith(
            "Invalid value x for configuration"
        )
        assert self.refused(("nope", 0, "1")) == (
            ErrorCode.invalid_config,
            "Unknown topic config name: nope",
        )
