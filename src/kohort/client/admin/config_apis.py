"""Describes and alters configs of topics, brokers and groups (KIP-133, KIP-339)."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from kohort.client.admin.changes import changing
from kohort.client.admin.coordinator_requests import broker_connection, refusal
from kohort.client.cluster import Cluster
from kohort.errors import ErrorCode, KafkaError, KohortError, fresh

ResourceType: TypeAlias = Literal["topic", "broker", "broker-logger", "client-metrics", "group"]

_IDS: Final[Mapping[ResourceType, int]] = {
    "topic": 2,
    "broker": 4,
    "broker-logger": 8,
    "client-metrics": 16,
    "group": 32,
}
_TYPES: Final = {number: name for name, number in _IDS.items()}
_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "CLIENT_METRICS_CONFIG",
    8: "GROUP_CONFIG",
}
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


class ConfigResource(NamedTuple):
    """A resource with configs: a topic name, a broker's node id, or "" for all brokers."""

    type: ResourceType
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One config of a resource."""

    name: str
    value: str | None
    """None: sensitive, or not set."""
    source: str
    """Kafka's name, such as DYNAMIC_TOPIC_CONFIG or DEFAULT_CONFIG."""
    is_read_only: bool
    is_sensitive: bool


Described: TypeAlias = dict[ConfigResource, dict[str, ConfigEntry] | KohortError]


async def describe_configs(cluster: Cluster, resources: Iterable[ConfigResource]) -> Described:
    """The configs of each resource by name, or its error."""
    by_node: defaultdict[int | None, list[ConfigResource]] = defaultdict(list)
    for resource in dict.fromkeys(resources):
        by_node[_node(resource)].append(resource)
    results = await asyncio.gather(
        *(_described(cluster, *node_and_resources) for node_and_resources in by_node.items())
    )
    return {resource: outcome for described in results for resource, outcome in described.items()}


async def _described(
    cluster: Cluster, node_id: int | None, resources: Collection[ConfigResource]
) -> Described:
    requested = [
        {
            "resource_type": _IDS[resource.type],
            "resource_name": resource.name,
            "configuration_keys": None,
        }
        for resource in resources
    ]
    try:
        connection = await broker_connection(cluster, node_id)
        response = await connection.send("describe_configs", min_version=1, resources=requested)
    except KohortError as error:
        return dict.fromkeys(resources, error.with_traceback(None))
    outcomes = {_resource(result): _outcome(result) for result in response.results}
    missing = KafkaError(ErrorCode.unknown_server_error, "missing in the broker's response")
    return {resource: outcomes.get(resource, missing) for resource in resources}


def _outcome(result: Any) -> dict[str, ConfigEntry] | KohortError:
    name = " ".join(_resource(result))
    if (error := refusal(result.error_code, result.error_message or name)) is not None:
        return error
    return {
        config.name: ConfigEntry(
            name=config.name,
            value=config.value,
            source=_SOURCES.get(config.config_source, "UNKNOWN"),
            is_read_only=config.read_only,
            is_sensitive=config.is_sensitive,
        )
        for config in result.configs
    }


async def alter_configs(
    cluster: Cluster,
    resource: ConfigResource,
    *,
    set: Mapping[str, str],
    delete: Collection[str],
    append: Mapping[str, str],
    subtract: Mapping[str, str],
    validate_only: bool,
) -> None:
    """Change some configs of a resource (IncrementalAlterConfigs). Raises KohortError."""
    operations = [
        *((name, _SET, value) for name, value in set.items()),
        *((name, _DELETE, None) for name in delete),
        *((name, _APPEND, value) for name, value in append.items()),
        *((name, _SUBTRACT, value) for name, value in subtract.items()),
    ]
    alteration = {
        "resource_type": _IDS[resource.type],
        "resource_name": resource.name,
        "configs": [
            {"name": name, "config_operation": operation, "value": value}
            for name, operation, value in operations
        ],
    }
    connection = await broker_connection(cluster, _node(resource))
    with nullcontext() if validate_only else changing("describe the configs"):
        response = await connection.send(
            "incremental_alter_configs", resources=[alteration], validate_only=validate_only
        )
    for response_resource in response.responses:
        name = " ".join(resource)
        if (
            error := refusal(response_resource.error_code, response_resource.error_message or name)
        ) is not None:
            raise fresh(error)


def _node(resource: ConfigResource) -> int | None:
    """The broker that gets the request; None: any."""
    by_broker = resource.type in ("broker", "broker-logger") and resource.name.isdecimal()
    return int(resource.name) if by_broker else None


def _resource(result: Any) -> ConfigResource:
    return ConfigResource(_TYPES.get(result.resource_type, "topic"), result.resource_name)
