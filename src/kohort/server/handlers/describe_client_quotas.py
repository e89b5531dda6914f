"""DescribeClientQuotas (48) v0-1: the quotas of users, client ids and addresses (KIP-546).

A filter is validated as Kafka does, and the quotas of an entity are in Kafka's order. v1 is
flexible.
"""

from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.quotas import QuotaEntity, QuotaFilter
from kohort.quotas.entities import FilterComponent, validate_component, validate_types
from kohort.server.handlers.chunked import Fields, Steps, respond_in_chunks
from kohort.server.handlers.cluster_authorization import refuse
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import DescribeClientQuotasRequest

FOUR_QUOTAS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "controller_mutation_rate",
    "request_percentage",
)
"""The order of Kafka's HashMap, whose buckets depend on the number of entries."""
FEWER_QUOTAS: Final = (*FOUR_QUOTAS[1:], FOUR_QUOTAS[0], "connection_creation_rate")


def handle(
    services: Services, exchange: Exchange, request: "DescribeClientQuotasRequest"
) -> Coroutine[Any, Any, None] | None:
    if not services.access(exchange).cluster():
        refuse(exchange, error_message=None, entries=None)
        return None
    return respond_in_chunks(services, exchange, _steps(services, request))


def _steps(services: Services, request: "DescribeClientQuotasRequest") -> Steps:
    components: dict[str, FilterComponent] = {}
    try:
        for requested in request.components:
            component = FilterComponent(
                requested.entity_type, requested.match_type, requested.match
            )
            validate_component(component, components)
            components[requested.entity_type] = component
            yield
        validate_types(components)
    except KafkaError as error:
        return {"error_code": error.code, "error_message": error.message, "entries": None}
    quota_filter = QuotaFilter(components, request.strict)
    entries: list[Fields] = []
    for entity, quotas in services.controller.image.quotas.entities.copy().items():
        if quota_filter.matches(entity):
            values = [{"key": key, "value": quotas[key]} for key in ordered(quotas)]
            entries.append({"entity": named(entity), "values": values})
        yield
    return {"error_code": ErrorCode.none, "error_message": "", "entries": entries}


def ordered(quotas: Mapping[str, float]) -> list[str]:
    """The names of an entity's quotas in Kafka's order."""
    order = FOUR_QUOTAS if len(quotas) == len(FOUR_QUOTAS) else FEWER_QUOTAS
    return [name for name in order if name in quotas]


def named(entity: QuotaEntity) -> list[Fields]:
    """An entity as responses have it."""
    return [{"entity_type": kind, "entity_name": name} for kind, name in entity]
