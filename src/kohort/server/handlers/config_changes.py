"""Changes of configs, as IncrementalAlterConfigs and AlterConfigs share them.

Each resource is altered as a whole or not at all. All that is set on it is validated, kept, and
acts when the response is sent. A change that names certificates of a listener reads the files of
that listener, also if a setting stays as it is: by the same path comes another file.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kohort.errors import ConfigError, ErrorCode, KafkaError
from kohort.server.config import (
    Config,
    ResourceType,
    certificates_of,
    validate_broker_configs,
    validate_broker_id,
    validate_configs,
    validate_topic_configs,
)
from kohort.server.handlers.chunked import count_in_chunks, respond_large
from kohort.server.handlers.config_access import authorize_change
from kohort.server.metadata import validate_name
from kohort.server.net import Exchange
from kohort.server.replicas import Topic
from kohort.server.services import Services
from kohort.util.time_slice import TimeSlices

if TYPE_CHECKING:
    from kohort.protocol.requests import (
        AlterConfigsAlterConfigsResource,
        AlterConfigsRequest,
        IncrementalAlterConfigsAlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

MAX_CONFIGS: Final = 1_000
"""Configs of a resource that are looked at: so many have a duplicate or an unknown name."""

Alter: TypeAlias = Callable[[Services, Any, bool], Awaitable[None]]
"""(services, a resource of the request, whether it is only validated); raises KafkaError."""


async def alter_each(
    services: Services,
    exchange: Exchange,
    request: "AlterConfigsRequest | IncrementalAlterConfigsRequest",
    alter: Alter,
) -> None:
    """Alter the resources of a request one after the other, and respond when all is durable.

    Each waits for the disk in another thread: the next one would wait for it on the loop.
    """
    times = await count_in_chunks(
        (resource.resource_type, resource.resource_name) for resource in request.resources
    )
    if any(kind != ResourceType.BROKER_LOGGER for kind, _ in times):
        await services.controller.writer.catch_up()
    slices = TimeSlices()
    results: list[dict[str, Any]] = []
    for resource in request.resources:
        results.append(await _result(services, exchange, request, resource, times, alter))
        await slices.give_way()
    del times  # in another turn than what else is freed
    await services.controller.replicas.reconfigured()
    await respond_large(services, exchange, {"responses": results}, len(results))


async def _result(
    services: Services,
    exchange: Exchange,
    request: "AlterConfigsRequest | IncrementalAlterConfigsRequest",
    resource: "AlterConfigsAlterConfigsResource | IncrementalAlterConfigsAlterConfigsResource",
    times: Counter[tuple[int, str]],
    alter: Alter,
) -> dict[str, Any]:
    kind, name = resource.resource_type, resource.resource_name
    result: dict[str, Any] = {"resource_type": kind, "resource_name": name}
    try:
        if times[kind, name] > 1:
            raise KafkaError(ErrorCode.invalid_request, "Each resource must appear at most once.")
        authorize_change(services.access(exchange), kind, name)
        altered = partial(alter, services, resource, request.validate_only)
        if kind == ResourceType.BROKER_LOGGER:  # of this process alone
            await altered()
        else:
            await services.controller.writer.until_durable_async(altered)
    except KafkaError as error:
        return result | {"error_code": error.code, "error_message": error.message or None}
    return result | {"error_code": ErrorCode.none, "error_message": None}


def validate_keys(names: Iterable[str], without_value: Iterable[str]) -> None:
    """Raise KafkaError INVALID_REQUEST for names that come again, or lack the value they need."""
    names, missing = list(names), list(without_value)
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    if missing:
        raise KafkaError(
            ErrorCode.invalid_request, f"Null value not supported for : {','.join(missing)}"
        )


def _existing_topic(services: Services, name: str) -> Topic:
    """Raises KafkaError INVALID_REQUEST, INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION."""
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    validate_name(name)
    topic = services.topics.get(name)
    if topic is None:
        raise KafkaError(
            ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist."
        )
    return topic


def validate_resource(services: Services, kind: int, name: str) -> ResourceType:
    """The kind of a resource that is no topic, if it can be set. Raises KafkaError."""
    match kind:
        case ResourceType.BROKER:
            if name:
                validate_broker_id(name, services.nodes.ids, f"{services.node_id},", noun="Node")
        case ResourceType.GROUP:
            if not name:
                raise KafkaError(
                    ErrorCode.invalid_request, "Default group resources are not allowed."
                )
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise KafkaError(ErrorCode.invalid_request, "Subscription name can't be empty")
        case _:
            raise KafkaError(ErrorCode.invalid_request, f"Unknown resource type {kind}")
    return ResourceType(kind)


async def replace_topic_configs(
    services: Services,
    name: str,
    configs: Callable[[Topic], Mapping[str, str]],
    validate_only: bool,
) -> None:
    """Replace all configs of a topic by what `configs` returns of it. Raises KafkaError."""
    topic = _existing_topic(services, name)
    if validate_only:
        validate_topic_configs(configs(topic))
    else:
        await services.controller.topics.alter(name, configs)


async def replace_configs(
    services: Services,
    kind: ResourceType,
    name: str,
    new_configs: Callable[[], Mapping[str, str]],
    named: Iterable[str],
    validate_only: bool,
) -> None:
    """Replace all configs of a resource that is no topic. Raises KafkaError.

    `new_configs` returns the configs after the change, of those before it at the time of the call.
    `named` are the configs that the request names.
    """
    if kind is not ResourceType.BROKER:
        _set(
            services,
            kind,
            name,
            validate_configs(kind, new_configs(), services.config),
            validate_only,
        )
        return

    def valid() -> Mapping[str, str]:
        return validate_broker_configs(services.config, new_configs(), of_all=not name)

    def config() -> Config:
        return services.config.with_dynamic(valid(), of_all=not name)

    listeners = {listener for listener in map(certificates_of, named) if listener is not None}
    certificates = services.certificates
    try:
        if not listeners:
            _set(services, kind, name, valid(), validate_only)
        elif validate_only:
            await certificates.validate(listeners, config())
        else:
            async with certificates.renewal(listeners, config):
                _set(services, kind, name, valid(), validate_only)
    except ConfigError as error:
        raise KafkaError(ErrorCode.invalid_request, str(error)) from None


def _set(
    services: Services, kind: ResourceType, name: str, valid: Mapping[str, str], validate_only: bool
) -> None:
    if not validate_only:
        controller = services.controller
        controller.writer.commit(*controller.configuration.set_configs(kind, name, valid))
