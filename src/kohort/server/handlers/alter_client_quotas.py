"""AlterClientQuotas (49) v0-1: set and remove quotas of users, client ids and addresses (KIP-546).

Each entity is altered as a whole or not at all. v1 is flexible.
"""

from collections import Counter
from typing import Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.quotas import EMPTY, QuotaEntity, altered_quotas, quota_entity
from kohort.runtime.time_slice import TimeSlices
from kohort.server.handlers.altering import confirm_each
from kohort.server.handlers.describe_client_quotas import named
from kohort.server.handlers.in_steps import Fields, collected, counted, respond_large
from kohort.server.handlers.refusing import REFUSAL
from kohort.server.net import Exchange
from kohort.server.services import Services

MAX_CHANGES: Final = 1_000
"""Changes of one entity that are looked at: so many have a duplicate or an unknown key."""
MAX_PARTS: Final = 100
"""Types and names of an entity that are looked at: of one type, the last counts."""


async def handle(services: Services, exchange: Exchange, request: Any) -> None:
    if not services.access(exchange).cluster():
        refused = await collected(
            request.entries, lambda each: REFUSAL | {"entity": named(_entity(each))}
        )
        await respond_large(services, exchange, {"entries": refused}, len(refused))
        return
    times = await counted(_entity(each) for each in request.entries)
    slices = TimeSlices()
    results: list[Fields] = []
    changes: dict[int, int] = {}
    for each in request.entries:
        entity = _entity(each)
        if times[entity] == 0:
            continue  # it is among the results
        before = services.topics.last_change
        results.append(_result(services, request, entity, each, times))
        times[entity] = 0
        if services.topics.last_change != before:
            changes[len(results) - 1] = services.topics.last_change
        await slices.give_way()
    await confirm_each(services, results, changes)
    await respond_large(services, exchange, {"entries": results}, len(results))


def _entity(entry: Any) -> QuotaEntity:
    parts = entry.entity[-MAX_PARTS:]
    return quota_entity((part.entity_type, part.entity_name) for part in parts)


def _result(
    services: Services,
    request: Any,
    entity: QuotaEntity,
    entry: Any,
    times: Counter[QuotaEntity],
) -> Fields:
    result: Fields = {"entity": named(entity)}
    changes = entry.ops[:MAX_CHANGES]
    try:
        if times[entity] > 1 or len({each.key for each in changes}) < len(changes):
            raise KafkaError(
                ErrorCode.invalid_request, "Each entity and key must appear at most once."
            )
        current = services.topics.quotas.entities.get(entity, EMPTY)
        quotas = altered_quotas(
            entity, current, [(each.key, None if each.remove else each.value) for each in changes]
        )
        if not request.validate_only:
            services.topics.set_quotas(entity, quotas)
    except KafkaError as error:
        return result | {"error_code": error.code, "error_message": error.message or None}
    return result | {"error_code": ErrorCode.none, "error_message": None}
