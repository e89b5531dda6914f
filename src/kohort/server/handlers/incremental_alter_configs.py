"""IncrementalAlterConfigs (44) v0-1: changes of single configs (KIP-339).

Configs of topics, brokers, groups and client metrics subscriptions are kept. Of a broker those can
be changed that act while it runs (KIP-226), for it alone or, with an empty name, for all brokers.
Levels of loggers (KIP-412) last until the server ends.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kohort.errors import ErrorCode, KafkaError
from kohort.server.config import (
    ConfigChange,
    Operation,
    ResourceType,
    altered,
    altered_topic_configs,
    validate_broker_id,
)
from kohort.server.handlers.config_changes import (
    MAX_CONFIGS,
    alter_each,
    replace_configs,
    replace_topic_configs,
    validate_keys,
    validate_resource,
)
from kohort.server.logging import set_level, validate_level
from kohort.server.net import Exchange
from kohort.server.replicas import Topic
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import (
        IncrementalAlterConfigsAlterableConfig,
        IncrementalAlterConfigsAlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )


async def handle(
    services: Services, exchange: Exchange, request: "IncrementalAlterConfigsRequest"
) -> None:
    await alter_each(services, exchange, request, _alter)


async def _alter(
    services: Services, resource: "IncrementalAlterConfigsAlterConfigsResource", validate_only: bool
) -> None:
    changes = [_change(config) for config in resource.configs[:MAX_CONFIGS]]
    kind, name = resource.resource_type, resource.resource_name
    if kind == ResourceType.TOPIC:

        def configs(topic: Topic) -> Mapping[str, str]:
            return altered_topic_configs(topic.configs, changes, services.config)

        await replace_topic_configs(services, name, configs, validate_only)
    elif kind == ResourceType.BROKER_LOGGER:
        validate_broker_id(name, (services.node_id,), f"{services.node_id},", noun="Node")
        _alter_loggers(changes, validate_only)
    else:
        resource_kind = validate_resource(services, kind, name)
        _validate(changes)

        def new_configs() -> Mapping[str, str]:
            current = services.controller.configuration.configs_of(resource_kind, name)
            return altered(resource_kind, current, changes, services.config)

        named = (config.name for config in changes)
        await replace_configs(services, resource_kind, name, new_configs, named, validate_only)


def _change(config: "IncrementalAlterConfigsAlterableConfig") -> ConfigChange:
    try:
        return ConfigChange(config.name, Operation(config.config_operation), config.value)
    except ValueError:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"Unknown operation {config.config_operation} for config {config.name}",
        ) from None


def _validate(changes: Iterable[ConfigChange]) -> None:
    validate_keys(
        (change.name for change in changes),
        (
            change.name
            for change in changes
            if change.value is None and change.operation is not Operation.DELETE
        ),
    )


def _alter_loggers(changes: Iterable[ConfigChange], validate_only: bool) -> None:
    _validate(changes)
    for name, operation, level in changes:
        if operation in (Operation.APPEND, Operation.SUBTRACT):
            raise KafkaError(
                ErrorCode.invalid_request,
                f"{operation.name} operation is not allowed for the BROKER_LOGGER resource",
            )
        validate_level(name, level if operation is Operation.SET else None)
    for name, operation, level in () if validate_only else changes:
        set_level(name, level if operation is Operation.SET else None)
