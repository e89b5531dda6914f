"""DescribeClientQuotas (48) v0-1: the quotas of users, client ids and addresses (KIP-546).

A filter is validated as Kafka does. v1 is flexible.
"""

from collections.abc import Coroutine
from typing import Any

from kohort.errors import ErrorCode, KafkaError
from kohort.quotas import QuotaEntity, QuotaFilter
from kohort.quotas.entities import FilterComponent, validate_component, validate_types
from kohort.server.handlers.in_steps import Fields, Steps, respond_in_steps
from kohort.server.handlers.refusing import refuse
from kohort.server.net import Exchange
from kohort.server.services import Services


def handle(
    services: Services, exchange: Exchange, request: Any
) -> Coroutine[Any, Any, None] | None:
    if not services.access(exchange).cluster():
        refuse(exchange, error_message=None, entries=None)
        return None
    return respond_in_steps(services, exchange, _steps(services, request))


def _steps(services: Services, request: Any) -> Steps:
    components: dict[str, FilterComponent] = {}
    try:
        for each in request.components:
            component = FilterComponent(each.entity_type, each.match_type, each.match)
            validate_component(component, components)
            components[each.entity_type] = component
            yield
        validate_types(components)
    except KafkaError as error:
        return {"error_code": error.code, "error_message": error.message, "entries": None}
    wanted = QuotaFilter(components, request.strict)
    entries: list[Fields] = []
    for entity, quotas in services.topics.quotas.entities.copy().items():
        if wanted.matches(entity):
            values = [{"key": key, "value": value} for key, value in quotas.items()]
            entries.append({"entity": named(entity), "values": values})
        yield
    return {"error_code": ErrorCode.none, "error_message": "", "entries": entries}


def named(entity: QuotaEntity) -> list[Fields]:
    """An entity as responses have it."""
    return [{"entity_type": kind, "entity_name": name} for kind, name in entity]
