"""DescribeConfigs (32) v1-4: configs of topics and of the broker (KIP-133, KIP-226).

v1 has synonyms, v3 the type and, if requested, the documentation. An empty list of names asks for
all, as null does.

Broker configs are read-only: they are set when the server starts. Groups have no configs of their
own yet, the root logger is not to be set, and there are no client metrics: their lists are empty.
"""

from collections.abc import Coroutine, Iterable, Iterator
from typing import Any

from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.error_codes import errors_in
from kohort.protocol.messages import encode, response
from kohort.protocol.packing import pack_array, pack_compact_array
from kohort.runtime.time_slice import TimeSlices
from kohort.server.config import (
    CONFIG_TYPES,
    ConfigEntry,
    ResourceType,
    Source,
    Synonym,
    as_text,
    describe_topic_configs,
    validate_broker_id,
)
from kohort.server.handlers.in_steps import Pieces
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.server.topics import validate_name

API_KEY = 32
_THROTTLE = b"\0\0\0\0"


AT_ONCE = 20
"""Resources that are described in one turn; each takes a quarter of a millisecond."""
FIRST_FLEXIBLE = 4


def handle(
    services: Services, exchange: Exchange, request: Any
) -> Coroutine[Any, Any, None] | None:
    if len(request.resources) > AT_ONCE:
        return _describe_many(services, exchange, request)
    results = [_result(services, request, resource) for resource in request.resources]
    exchange.respond(response(API_KEY, exchange.version, results=results))
    return None


async def _describe_many(services: Services, exchange: Exchange, request: Any) -> None:
    """Describe and encode one resource after the other, giving way in between."""
    flexible = exchange.version >= FIRST_FLEXIBLE
    count = (pack_compact_array if flexible else pack_array)(len(request.resources))
    tags = b"\0" if flexible else b""
    before = len(_THROTTLE) + (1 if flexible else 4)
    pieces = Pieces(_THROTTLE + count)
    errors: set[int] = set()
    slices = TimeSlices()
    for resource in request.resources:
        await slices.give_way()
        results = [_result(services, request, resource)]
        alone = response(API_KEY, exchange.version, results=results)
        errors |= errors_in(alone)
        encoded = encode(alone)
        pieces.append(encoded[before : len(encoded) - len(tags)])
    pieces.append(tags)
    exchange.respond_encoded(list(pieces), errors)


def _result(services: Services, request: Any, resource: Any) -> dict[str, Any]:
    result = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    try:
        entries = list(_entries(services, resource.resource_type, resource.resource_name))
    except KafkaError as error:
        return result | {"error_code": error.code, "error_message": error.message, "configs": ()}
    names = frozenset(resource.configuration_keys or ())
    wanted = [entry for entry in entries if not names or entry.name in names]
    return result | {"error_message": "", "configs": [_config(request, entry) for entry in wanted]}


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
            return _named(kind, name)
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


def _broker_entries(services: Services, name: str) -> Iterator[ConfigEntry]:
    if name == "":  # what all brokers share: nothing, as nothing is set while the server runs
        return iter(())
    validate_broker_id(name, services.node_id, f"{services.node_id} or empty string,")
    return (_broker_entry(services, each) for each in services.config)


def _broker_entry(services: Services, name: str) -> ConfigEntry:
    setting = services.config.setting(name)
    default = setting.definition.default
    synonyms = [] if setting.is_default else [Synonym(name, as_text(setting.value), Source.BROKER)]
    if default is not None:
        synonyms.append(Synonym(name, as_text(default), Source.DEFAULT))
    return ConfigEntry(
        name=name,
        value=as_text(setting.value),
        source=Source.DEFAULT if setting.is_default else Source.BROKER,
        kind=setting.definition.kind,
        doc=setting.definition.doc,
        synonyms=tuple(synonyms),
        read_only=True,
    )


def _logger_entries(services: Services, name: str) -> Iterable[ConfigEntry]:
    validate_broker_id(name, services.node_id, str(services.node_id))
    return ()


def _named(kind: int, name: str) -> Iterable[ConfigEntry]:
    if not name:
        what = "Group name" if kind == ResourceType.GROUP else "Client metrics subscription name"
        raise KafkaError(ErrorCode.invalid_request, f"{what} must not be empty")
    return ()


def _config(request: Any, entry: ConfigEntry) -> dict[str, Any]:
    documented = getattr(request, "include_documentation", False)
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": entry.source,
        "is_sensitive": False,
        "synonyms": [each._asdict() for each in entry.synonyms] if request.include_synonyms else (),
        "config_type": CONFIG_TYPES[entry.kind],
        "documentation": entry.doc if documented else None,
    }
