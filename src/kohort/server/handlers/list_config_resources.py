"""ListConfigResources (74) v0-1: the resources that have configs (KIP-1142).

v0 lists client metrics subscriptions; v1 has other types, and lists all if none is named. Groups
and subscriptions are listed while something is set on them.
"""

from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode
from kohort.server.config import ResourceType
from kohort.server.handlers.chunked import Steps, respond_in_chunks
from kohort.server.handlers.cluster_authorization import refuse
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import ListConfigResourcesRequest

KINDS: Final = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)
"""In Kafka's order."""


def handle(
    services: Services, exchange: Exchange, request: "ListConfigResourcesRequest"
) -> Coroutine[Any, Any, None] | None:
    if not services.access(exchange).cluster():
        refuse(exchange)
        return None
    if exchange.version == 0:
        kinds: Iterable[int] = (ResourceType.CLIENT_METRICS,)
    else:
        kinds = frozenset(request.resource_types) or KINDS
    return respond_in_chunks(services, exchange, _steps(services, frozenset(kinds)))


def _steps(services: Services, kinds: frozenset[int]) -> Steps:
    if not kinds <= frozenset(KINDS):
        return {"error_code": ErrorCode.unsupported_version, "config_resources": ()}
    resources = []
    for kind in KINDS:
        for name in _names(services, kind) if kind in kinds else ():
            resources.append({"resource_name": name, "resource_type": kind})
            yield
    return {"config_resources": resources}


def _names(services: Services, kind: ResourceType) -> Iterable[str]:
    match kind:
        case ResourceType.TOPIC:
            return tuple(topic.name for topic in services.topics.all())
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return (str(services.node_id),)
        case _:
            return services.controller.configuration.configured(kind)
