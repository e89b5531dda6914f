"""IncrementalAlterConfigs (44) v0-1: changes of single topic configs (KIP-339).

Each resource is altered as a whole or not at all, at once for logs that are open. Broker configs
are set when the server starts; groups have no configs of their own yet; both are refused with what
to do instead.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.runtime.time_slice import TimeSlices
from kohort.server.config import (
    ConfigChange,
    Operation,
    ResourceType,
    altered_topic_configs,
    validate_broker_id,
)
from kohort.server.handlers.in_steps import counted, respond_large
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.server.topics import validate_name

MAX_CONFIGS: Final = 1_000
"""Configs of a resource that are looked at; a topic has fewer."""


async def handle(services: Services, exchange: Exchange, request: Any) -> None:
    times = await counted((each.resource_type, each.resource_name) for each in request.resources)
    slices = TimeSlices()
    results: list[dict[str, Any]] = []
    changes: dict[int, int] = {}
    for each in request.resources:
        before = services.topics.last_change
        results.append(_result(services, request, each, times))
        if services.topics.last_change != before:
            changes[len(results) - 1] = services.topics.last_change
        await slices.give_way()
    del times  # in another turn than what else is freed
    for index, change in changes.items():
        results[index] = await services.topics.confirmed(results[index], change)
    await respond_large(services, exchange, {"responses": results}, len(results))


def _result(
    services: Services, request: Any, resource: Any, times: Counter[tuple[int, str]]
) -> dict[str, Any]:
    kind, name = resource.resource_type, resource.resource_name
    result: dict[str, Any] = {"resource_type": kind, "resource_name": name}
    try:
        if times[kind, name] > 1:
            raise KafkaError(ErrorCode.invalid_request, "Each resource must appear at most once.")
        _alter(services, request, resource)
    except KafkaError as error:
        return result | {"error_code": error.code, "error_message": error.message or None}
    return result | {"error_code": ErrorCode.none, "error_message": None}


def _alter(services: Services, request: Any, resource: Any) -> None:
    # So many have a duplicate or an unknown name among them.
    changes = [_change(each) for each in resource.configs[:MAX_CONFIGS]]
    match resource.resource_type:
        case ResourceType.TOPIC:
            _alter_topic(services, resource.resource_name, changes, request.validate_only)
        case ResourceType.BROKER:
            _refuse_broker(services, resource.resource_name, changes)
        case ResourceType.BROKER_LOGGER:
            _refuse_logger(services, resource.resource_name, changes)
        case ResourceType.GROUP:
            _refuse_group(resource.resource_name, changes)
        case kind:
            raise KafkaError(ErrorCode.invalid_request, f"Unknown resource type {kind}")


def _change(config: Any) -> ConfigChange:
    try:
        return ConfigChange(config.name, Operation(config.config_operation), config.value)
    except ValueError:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"Unknown operation {config.config_operation} for config {config.name}",
        ) from None


def _alter_topic(
    services: Services, name: str, changes: Iterable[ConfigChange], validate_only: bool
) -> None:
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    validate_name(name)
    topic = services.topics.get(name)
    if topic is None:
        raise KafkaError(
            ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist."
        )
    configs = altered_topic_configs(topic.configs, changes, services.config)
    if not validate_only:
        services.topics.alter_configs(name, configs)


def _refuse_broker(services: Services, name: str, changes: Iterable[ConfigChange]) -> None:
    """Refuse any change: the broker's configs are fixed while it runs."""
    if name:
        validate_broker_id(name, services.node_id, f"{services.node_id},")
    names = [change.name for change in changes]
    if names:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"Cannot update these configs dynamically: [{', '.join(names)}]. They are "
            "set when the server starts.",
        )


def _refuse_logger(services: Services, name: str, changes: Iterable[ConfigChange]) -> None:
    validate_broker_id(name, services.node_id, str(services.node_id))
    for change in changes:
        raise KafkaError(ErrorCode.invalid_config, f"Logger {change.name} does not exist!")


def _refuse_group(name: str, changes: Iterable[ConfigChange]) -> None:
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "Default group resources are not allowed.")
    for change in changes:
        if change.operation is not Operation.DELETE:
            raise KafkaError(ErrorCode.invalid_config, f"Unknown group config name: {change.name}")
