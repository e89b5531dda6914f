"""Configs of topics, described, validated and altered: the topic's over the broker's values.

A topic stores only its own configs, as text. The `effective` value is the topic's, else that of the
broker config behind it (`log.retention.ms` for `retention.ms`), else the table's default. A broker
that is restarted with other defaults therefore changes the topics that did not set the config, as
in Kafka.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import dropwhile
from typing import Any, NamedTuple, Protocol

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import LogConfig
from kohort.protocol.batches import Codec
from kohort.server.config.definition import Kind, Value, as_text
from kohort.server.config.sources import Source
from kohort.server.config.table import TABLE
from kohort.server.config.topic_definition import TopicConfig, split_list
from kohort.server.config.topic_table import TOPIC_CONFIGS


class BrokerConfig(Protocol):
    """The part of `config.Config` that topic configs use."""

    def __getitem__(self, name: str, /) -> Any: ...

    def values_by_source(self, name: str, /) -> Iterator[Any]:
        """The values by their sources, in order of precedence; each has `value` and `rank`."""
        ...


class Operation(IntEnum):
    """Operation of IncrementalAlterConfigs on one config (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_UNITS = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
)
"""Names of one setting in different units."""

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}

CONFIG_TYPES: dict[Kind, int] = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "long": 5,
    "double": 6,
    "list": 7,
    "password": 9,
}
"""Kafka's ConfigType codes."""


class Synonym(NamedTuple):
    """One place that a value may come from."""

    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One config as the responses to DescribeConfigs and CreateTopics have it."""

    name: str
    value: str | None
    source: Source
    kind: Kind | None
    """None for levels of loggers, whose type Kafka does not return."""
    doc: str
    synonyms: tuple[Synonym, ...]
    """In order of precedence; those that are not set are left out."""
    read_only: bool = False


class ConfigChange(NamedTuple):
    """One change of one config."""

    name: str
    operation: Operation
    value: str | None


def validate_topic_configs(overrides: Mapping[str, str | None]) -> dict[str, str]:
    """Configs of a topic, validated together. Raises KafkaError INVALID_CONFIG (Kafka's text)."""
    missing = [name for name, value in overrides.items() if value is None]
    if missing:
        raise _invalid(f"Null value not supported for topic configs: {','.join(missing)}")
    configs = {name: value for name, value in overrides.items() if value is not None}
    for name in configs:
        if name not in TOPIC_CONFIGS:
            raise _invalid(f"Unknown topic config name: {name}")
    _validate_together({name: TOPIC_CONFIGS[name].parse(value) for name, value in configs.items()})
    return configs


def _validate_together(values: Mapping[str, Value]) -> None:
    shortest, longest = (_value(values, f"{end}.compaction.lag.ms") for end in ("min", "max"))
    if shortest > longest:
        raise _invalid(
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > "
            f"max.compaction.lag.ms ({longest})"
        )
    if values.get("remote.storage.enable"):
        raise _invalid(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def _value(values: Mapping[str, Value], name: str) -> Any:
    return values.get(name, TOPIC_CONFIGS[name].default)


def effective_topic_configs(overrides: Mapping[str, str], broker: BrokerConfig) -> dict[str, Any]:
    """The typed value of every topic config. What was stored is trusted: `validate` let it pass."""
    return {
        name: definition.parse(overrides[name])
        if name in overrides
        else _inherited(definition, broker)
        for name, definition in TOPIC_CONFIGS.items()
    }


def _inherited(definition: TopicConfig, broker: BrokerConfig) -> Value:
    if not definition.broker:
        return definition.default
    value: Value = broker[definition.broker[0]]
    return definition.default if value is None else value


def topic_log_config(values: Mapping[str, Any], broker: BrokerConfig) -> LogConfig:
    """The configuration of a log, from `effective` values."""
    compression = values["compression.type"]
    return LogConfig(
        cleanup_policy=frozenset(values["cleanup.policy"]),
        segment_bytes=values["segment.bytes"],
        segment_ms=values["segment.ms"],
        index_interval_bytes=values["index.interval.bytes"],
        retention_ms=values["retention.ms"],
        retention_bytes=values["retention.bytes"],
        delete_retention_ms=values["delete.retention.ms"],
        min_cleanable_dirty_ratio=values["min.cleanable.dirty.ratio"],
        min_compaction_lag_ms=values["min.compaction.lag.ms"],
        max_compaction_lag_ms=values["max.compaction.lag.ms"],
        log_append_time=values["message.timestamp.type"] == "LogAppendTime",
        max_message_bytes=values["max.message.bytes"],
        max_decompressed_bytes=values["max.decompressed.message.bytes"],
        message_timestamp_before_max_ms=values["message.timestamp.before.max.ms"],
        message_timestamp_after_max_ms=values["message.timestamp.after.max.ms"],
        compression=None if compression == "producer" else _CODECS[compression],
        producer_id_expiration_ms=broker["producer.id.expiration.ms"],
    )


def altered_topic_configs(
    overrides: Mapping[str, str], changes: Iterable[ConfigChange], broker: BrokerConfig
) -> dict[str, str]:
    """Configs of a topic after `changes`. Raises KafkaError INVALID_REQUEST or INVALID_CONFIG."""
    changes = list(changes)
    if len({change.name for change in changes}) != len(changes):
        raise KafkaError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    missing = [
        change.name
        for change in changes
        if change.value is None and change.operation is not Operation.DELETE
    ]
    if missing:
        raise KafkaError(
            ErrorCode.invalid_request, (f"Null value not supported for : {','.join(missing)}")
        )
    result = dict(overrides)
    for change in changes:
        _apply(result, change, broker)
    return validate_topic_configs(result)


def _apply(configs: dict[str, str], change: ConfigChange, broker: BrokerConfig) -> None:
    name, operation, value = change
    if operation is Operation.DELETE:
        configs.pop(name, None)
    elif operation is Operation.SET:
        configs[name] = value or ""
    else:
        words = _list_of(configs, change, broker)
        changed_words = split_list(value or "") or ("",)
        if operation is Operation.APPEND:
            words = list(dict.fromkeys((*words, *changed_words)))
        else:
            removed = frozenset(changed_words)
            words = [word for word in words if word not in removed]
        configs[name] = ",".join(words)


def _list_of(configs: Mapping[str, str], change: ConfigChange, broker: BrokerConfig) -> list[str]:
    """The words that APPEND and SUBTRACT start from: the topic's own, else those it inherits."""
    definition = TOPIC_CONFIGS.get(change.name)
    if definition is None or definition.kind != "list":
        raise _invalid(
            f"Can't {change.operation.name} to key {change.name} because its type is not LIST."
        )
    if change.name in configs:
        return list(split_list(configs[change.name]))
    inherited = _inherited(definition, broker)
    assert isinstance(inherited, tuple)
    return list(inherited)


def describe_topic_configs(
    overrides: Mapping[str, str], broker: BrokerConfig
) -> Iterator[ConfigEntry]:
    """Every config of a topic, by name."""
    for name, definition in TOPIC_CONFIGS.items():
        synonyms = tuple(_synonyms(definition, overrides, broker))
        value = (
            definition.parse(overrides[name])
            if name in overrides
            else _inherited(definition, broker)
        )
        yield ConfigEntry(
            name=name,
            value=as_text(value),
            source=synonyms[0].source if synonyms else Source.DEFAULT,
            kind=definition.kind,
            doc=definition.doc,
            synonyms=synonyms,
        )


def _synonyms(
    definition: TopicConfig, overrides: Mapping[str, str], broker: BrokerConfig
) -> Iterator[Synonym]:
    if definition.name in overrides:
        value = definition.parse(overrides[definition.name])
        yield Synonym(definition.name, as_text(value), Source.TOPIC)
    if definition.broker:
        yield from broker_synonyms(definition.broker[0], broker)
    elif definition.synonym is not None:
        yield Synonym(definition.synonym, as_text(definition.default), Source.DEFAULT)
    elif definition.set_on_clusters:
        for source in (Source.ALL_BROKERS, Source.DEFAULT):
            yield Synonym(definition.name, as_text(definition.default), source)


def broker_synonyms(name: str, broker: BrokerConfig) -> Iterator[Synonym]:
    """The places that the value of a broker config may come from, the strongest first.

    As in Kafka, those before the first of this very name are left out: with log.retention.hours
    alone, log.retention.ms has none.
    """
    names = next((synonym_name for synonym_name in _UNITS if name in synonym_name), (name,))
    synonyms = [
        Synonym(synonym_name, as_text(setting.value), Source.of_rank(setting.rank))
        for synonym_name in names
        for setting in broker.values_by_source(synonym_name)
    ]
    synonyms += [
        Synonym(synonym_name, as_text(default), Source.DEFAULT)
        for synonym_name in names
        if synonym_name in TABLE and (default := TABLE[synonym_name].default) is not None
    ]
    synonyms.sort(key=lambda synonym: synonym.source)
    return dropwhile(lambda synonym: synonym.name != name, synonyms)


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_config, text)
