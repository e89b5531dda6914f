"""Configs that clients set on brokers, groups and client metrics subscriptions.

Those of topics are in `topic_configs`. Values are stored as text. `validate_configs` validates all
configs of a resource together, as they would be after a change.
"""

from collections.abc import Iterable, Iterator, Mapping

from kohort.errors import ConfigError, ErrorCode, KafkaError
from kohort.server.config.config import Config
from kohort.server.config.definition import as_text
from kohort.server.config.group_configs import validate_consumer_configs
from kohort.server.config.listeners import definition_of, is_dynamic
from kohort.server.config.resource_table import (
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    OF_GROUPS_ONLY,
)
from kohort.server.config.resources import ResourceType
from kohort.server.config.sources import Source
from kohort.server.config.table import RELOADABLE, TABLE
from kohort.server.config.topic_configs import (
    ConfigChange,
    ConfigEntry,
    Operation,
    Synonym,
    broker_synonyms,
)
from kohort.server.config.topic_definition import TopicConfig, split_list
from kohort.server.config.topic_table import TOPIC_CONFIGS

_TABLES: Mapping[ResourceType, Mapping[str, TopicConfig]] = {
    ResourceType.GROUP: GROUP_CONFIGS,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS_CONFIGS,
}
_SOURCES = {
    ResourceType.GROUP: Source.GROUP,
    ResourceType.CLIENT_METRICS: Source.CLIENT_METRICS,
}


# Brokers


def describe_broker(config: Config) -> Iterator[ConfigEntry]:
    """Every config of this broker."""
    for name in config:
        definition = config.setting(name).definition
        synonyms = tuple(broker_synonyms(name, config))
        yield ConfigEntry(
            name=name,
            value=as_text(config.own_value(name)),
            source=synonyms[0].source if synonyms else Source.DEFAULT,
            kind=definition.kind,
            doc=definition.doc,
            synonyms=synonyms,
            read_only=not is_dynamic(name),
        )


def describe_all_brokers(config: Config) -> Iterator[ConfigEntry]:
    """The configs that were set on all brokers."""
    for name, definition in TABLE.items():
        for synonym in broker_synonyms(name, config):
            if synonym.source is Source.ALL_BROKERS and synonym.name == name:
                yield ConfigEntry(
                    name=name,
                    value=synonym.value,
                    source=Source.ALL_BROKERS,
                    kind=definition.kind,
                    doc=definition.doc,
                    synonyms=(synonym,),
                )
    for name, of_topics in TOPIC_CONFIGS.items():
        if of_topics.set_on_clusters:
            value = as_text(of_topics.default)
            yield ConfigEntry(
                name=name,
                value=value,
                source=Source.ALL_BROKERS,
                kind=of_topics.kind,
                doc=of_topics.doc,
                synonyms=(Synonym(name, value, Source.ALL_BROKERS),),
            )


def validate_broker_configs(
    config: Config, configs: Mapping[str, str], *, of_all: bool
) -> dict[str, str]:
    """The configs that can be set; names that do not exist are left out, as Kafka ignores them.

    Raises KafkaError INVALID_REQUEST for one that is set when the server starts, or is not valid.
    """
    existing = {name: value for name, value in configs.items() if definition_of(name) is not None}
    unprefixed = [name for name in existing if name in RELOADABLE]
    if unprefixed:
        raise KafkaError(
            ErrorCode.invalid_request,
            "These security configs can be dynamically updated only per-listener using the "
            f"listener prefix: [{', '.join(unprefixed)}]",
        )
    static = [name for name in existing if not is_dynamic(name)]
    if static:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"Cannot update these configs dynamically: [{', '.join(static)}]",
        )
    per_broker = [name for name in existing if name not in TABLE]
    if of_all and per_broker:
        raise KafkaError(
            ErrorCode.invalid_request,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{', '.join(per_broker)}]",
        )
    try:
        config.with_dynamic(existing, of_all=of_all)
    except ConfigError as error:
        raise KafkaError(ErrorCode.invalid_request, str(error)) from None
    return existing


# Groups and subscriptions


def describe_resource(
    kind: ResourceType, configs: Mapping[str, str], config: Config
) -> Iterator[ConfigEntry]:
    """Every config of a group or of a client metrics subscription, which has set `configs`."""
    for name, definition in _TABLES[kind].items():
        if definition.internal and name not in configs:
            continue
        synonyms = tuple(_synonyms(kind, definition, configs, config))
        yield ConfigEntry(
            name=name,
            value=synonyms[0].value if synonyms else as_text(definition.default),
            source=synonyms[0].source if synonyms else Source.DEFAULT,
            kind=definition.kind,
            doc=definition.doc,
            synonyms=synonyms,
        )


def _synonyms(
    kind: ResourceType, definition: TopicConfig, configs: Mapping[str, str], config: Config
) -> Iterator[Synonym]:
    name = definition.name
    if name in configs:
        yield Synonym(name, as_text(definition.parse(configs[name])), _SOURCES[kind])
    behind = name if name in OF_GROUPS_ONLY else definition.synonym or f"group.{name}"
    if behind in TABLE:
        yield from broker_synonyms(behind, config)
    elif kind is ResourceType.GROUP:
        yield Synonym(behind, as_text(definition.default), Source.DEFAULT)


def validate_configs(
    kind: ResourceType, configs: Mapping[str, str], config: Config
) -> dict[str, str]:
    """The configs of a group or subscription, validated.

    Raises KafkaError INVALID_CONFIG, and INVALID_REQUEST for an interval that is out of range.
    """
    kind_name = "group" if kind is ResourceType.GROUP else "client metrics"
    for name, value in configs.items():
        definition = _TABLES[kind].get(name)
        if definition is None:
            raise KafkaError(ErrorCode.invalid_config, f"Unknown {kind_name} config name: {name}")
        try:
            definition.parse(value)
        except KafkaError as error:
            # Kafka's metrics manager refuses the interval with another code than its parser.
            out_of_range = name == "interval.ms" and value.strip().lstrip("+-").isdecimal()
            code = ErrorCode.invalid_request if out_of_range else error.code
            raise KafkaError(code, error.message) from None
    if kind is ResourceType.GROUP:
        validate_consumer_configs(configs, config)
    return dict(configs)


# Changes


def altered(
    kind: ResourceType, current: Mapping[str, str], changes: Iterable[ConfigChange], config: Config
) -> dict[str, str]:
    """`current` after the changes, not validated. Raises KafkaError INVALID_CONFIG."""
    result = dict(current)
    for name, operation, value in changes:
        if operation is Operation.DELETE:
            result.pop(name, None)
        elif operation is Operation.SET:
            result[name] = value or ""
        else:
            words = _words(kind, name, operation, result, config)
            changed_words = split_list(value or "")
            if operation is Operation.APPEND:
                current_words = frozenset(words)
                words = (*words, *(word for word in changed_words if word not in current_words))
            else:
                removed = frozenset(changed_words)
                words = tuple(word for word in words if word not in removed)
            result[name] = ",".join(words)
    return result


def _words(
    kind: ResourceType,
    name: str,
    operation: Operation,
    configs: Mapping[str, str],
    config: Config,
) -> tuple[str, ...]:
    """The words of a list of a broker. Kafka has no such operation on others."""
    definition = definition_of(name) if kind is ResourceType.BROKER else None
    if definition is None or definition.kind != "list":
        raise KafkaError(
            ErrorCode.invalid_config,
            f"Can't {operation.name} to key {name} because its type is not LIST.",
        )
    if name in configs:
        return split_list(configs[name])
    words: tuple[str, ...] | None = config[name]
    return words or ()
