"""DescribeConfigs (32) v1-4: configs of all resources (KIP-133, KIP-226, KIP-412, KIP-848).

v1 has synonyms, v3 the type and, if requested, the documentation. An empty list of names asks for
all, as null does.

Broker configs are read-only unless they can change while the server runs. The empty name is that of
all brokers: what was set on them together.
"""

from collections.abc import Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.apis import BY_NAME
from kohort.protocol.error_codes import errors_in
from kohort.protocol.messages import encode, response
from kohort.protocol.packing import pack_array, pack_compact_array
from kohort.server.config import (
    CONFIG_TYPES,
    ConfigEntry,
    ResourceType,
    Source,
    describe_all_brokers,
    describe_broker,
    describe_resource,
    describe_topic_configs,
    validate_broker_id,
)
from kohort.server.handlers.chunked import Pieces
from kohort.server.handlers.config_access import authorize
from kohort.server.logging import levels
from kohort.server.metadata import validate_name
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.util.time_slice import TimeSlices

if TYPE_CHECKING:
    from kohort.protocol.requests import DescribeConfigsRequest, DescribeConfigsResource

API_KEY = 32
_THROTTLE = b"\0\0\0\0"


RESOURCES_PER_TURN = 20
"""Resources that are described in one turn; each takes a quarter of a millisecond."""
FLEXIBLE_SINCE: Final = BY_NAME["describe_configs"].first_flexible
MAX_REPEATED_SIZE = 1 << 20
"""Bytes of a response up to which a resource that is named again is described again."""
UNKNOWN_TYPE = 0


def handle(
    services: Services, exchange: Exchange, request: "DescribeConfigsRequest"
) -> Coroutine[Any, Any, None] | None:
    if len(request.resources) > RESOURCES_PER_TURN:
        return _describe_many(services, exchange, request)
    results = [_result(services, exchange, request, resource) for resource in request.resources]
    exchange.respond(response(API_KEY, exchange.version, results=results))
    return None


async def _describe_many(
    services: Services, exchange: Exchange, request: "DescribeConfigsRequest"
) -> None:
    """Describe and encode one resource after the other, giving way in between.

    In a large response, a resource that is named again gets INVALID_REQUEST: a megabyte of names
    must not become gigabytes.
    """
    flexible = exchange.version >= FLEXIBLE_SINCE
    count = (pack_compact_array if flexible else pack_array)(len(request.resources))
    tags = b"\0" if flexible else b""
    head_size = len(_THROTTLE) + (1 if flexible else 4)
    pieces = Pieces(_THROTTLE + count)
    errors: set[int] = set()
    size, seen = 0, set[tuple[int, str]]()
    slices = TimeSlices()
    for resource in request.resources:
        await slices.give_way()
        key = (resource.resource_type, resource.resource_name)
        refused = key in seen and size > MAX_REPEATED_SIZE
        seen.add(key)
        results = [
            _repeated(resource) if refused else _result(services, exchange, request, resource)
        ]
        alone = response(API_KEY, exchange.version, results=results)
        errors |= errors_in(alone)
        encoded = encode(alone)
        size += len(encoded)
        pieces.append(encoded[head_size : len(encoded) - len(tags)])
    pieces.append(tags)
    exchange.respond_encoded(list(pieces), errors)


def _named_as(resource: "DescribeConfigsResource") -> dict[str, Any]:
    return {"resource_type": resource.resource_type, "resource_name": resource.resource_name}


def _refused(resource: "DescribeConfigsResource", error: KafkaError) -> dict[str, Any]:
    fields = {"error_code": error.code, "error_message": error.message, "configs": ()}
    return _named_as(resource) | fields


def _repeated(resource: "DescribeConfigsResource") -> dict[str, Any]:
    why = "The resource is named again in a large response."
    return _refused(resource, KafkaError(ErrorCode.invalid_request, why))


def _result(
    services: Services,
    exchange: Exchange,
    request: "DescribeConfigsRequest",
    resource: "DescribeConfigsResource",
) -> dict[str, Any]:
    try:
        access = services.access(exchange)
        authorize(access, resource.resource_type, resource.resource_name)
        entries = list(_entries(services, resource.resource_type, resource.resource_name))
    except KafkaError as error:
        return _refused(resource, error)
    names = frozenset(resource.configuration_keys or ())
    selected = [entry for entry in entries if not names or entry.name in names]
    configs = [_config(request, entry) for entry in selected]
    return _named_as(resource) | {"error_message": "", "configs": configs}


def _entries(services: Services, kind: int, name: str) -> Iterable[ConfigEntry]:
    """Raises KafkaError for a resource that there is not."""
    match kind:
        case ResourceType.TOPIC:
            return _topic_entries(services, name)
        case ResourceType.BROKER:
            return _broker_entries(services, name)
        case ResourceType.BROKER_LOGGER:
            return _logger_entries(services, name)
        case ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            return _named(services, ResourceType(kind), name)
        case _:
            raise KafkaError(
                ErrorCode.invalid_request, (f"There is no config resource of type {kind}.")
            )


def _topic_entries(services: Services, name: str) -> Iterator[ConfigEntry]:
    validate_name(name)
    topic = services.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition)
    return describe_topic_configs(topic.configs, services.config)


def _broker_entries(services: Services, name: str) -> Iterable[ConfigEntry]:
    if name == "":
        return describe_all_brokers(services.config)
    validate_broker_id(name, (services.node_id,), f"{services.node_id} or empty string,")
    return describe_broker(services.config)


def _logger_entries(services: Services, name: str) -> Iterable[ConfigEntry]:
    if not name:
        raise KafkaError(ErrorCode.invalid_request, "Broker id must not be empty")
    validate_broker_id(name, (services.node_id,), str(services.node_id))
    return (
        ConfigEntry(
            name=logger_name, value=level, source=Source.LOGGER, kind=None, doc="", synonyms=()
        )
        for logger_name, level in levels()
    )


def _named(services: Services, kind: ResourceType, name: str) -> Iterable[ConfigEntry]:
    if not name:
        kind_name = (
            "Group name" if kind is ResourceType.GROUP else "Client metrics subscription name"
        )
        raise KafkaError(ErrorCode.invalid_request, f"{kind_name} must not be empty")
    return describe_resource(
        kind, services.controller.configuration.configs_of(kind, name), services.config
    )


def _config(request: "DescribeConfigsRequest", entry: ConfigEntry) -> dict[str, Any]:
    documented = getattr(request, "include_documentation", False)
    sensitive = entry.kind == "password"
    synonyms = [
        synonym._asdict() | ({"value": None} if sensitive else {}) for synonym in entry.synonyms
    ]
    return {
        "name": entry.name,
        "value": None if sensitive else entry.value,
        "read_only": entry.read_only,
        "config_source": entry.source,
        "is_sensitive": sensitive,
        "synonyms": synonyms if request.include_synonyms else (),
        "config_type": UNKNOWN_TYPE if entry.kind is None else CONFIG_TYPES[entry.kind],
        "documentation": entry.doc if documented else None,
    }
