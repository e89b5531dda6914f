"""AlterClientQuotas (49) v0-1: set and remove quotas of users, client ids and addresses (KIP-546).

Each entity is altered as a whole or not at all. v1 is flexible.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.quotas import EMPTY, QuotaEntity, altered_quotas, quota_entity
from kohort.server.handlers.chunked import Fields, collect_in_chunks, count_in_chunks, respond_large
from kohort.server.handlers.cluster_authorization import REFUSAL
from kohort.server.handlers.describe_client_quotas import named
from kohort.server.metadata import in_batches
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.util.time_slice import TimeSlices

if TYPE_CHECKING:
    from kohort.protocol.requests import AlterClientQuotasRequest, EntryData

MAX_CHANGES: Final = 1_000
"""Changes of one entity that are looked at: so many have a duplicate or an unknown key."""
MAX_PARTS: Final = 100
"""Types and names of an entity that are looked at: of one type, the last counts."""
CHARS_OF_CHANGE: Final = 50
"""Weight of a change in a batch."""


async def handle(
    services: Services, exchange: Exchange, request: "AlterClientQuotasRequest"
) -> None:
    if not services.access(exchange).cluster():
        refused = await collect_in_chunks(
            request.entries, lambda entry: REFUSAL | {"entity": named(_entity(entry))}
        )
        await respond_large(services, exchange, {"entries": refused}, len(refused))
        return
    times = await count_in_chunks(_entity(entry) for entry in request.entries)
    seen: set[QuotaEntity] = set()

    def first(entry: "EntryData") -> Any | None:
        entity = _entity(entry)
        if entity in seen:
            return None
        seen.add(entity)
        return entry

    await services.controller.writer.catch_up()
    results: list[Fields] = []
    slices = TimeSlices()
    for batch in in_batches(await collect_in_chunks(request.entries, first), _chars):
        results += await _alter(services, batch, times, validate_only=request.validate_only)
        await slices.give_way()
    await respond_large(services, exchange, {"entries": results}, len(results))


def _entity(entry: "EntryData") -> QuotaEntity:
    parts = entry.entity[-MAX_PARTS:]
    return quota_entity((part.entity_type, part.entity_name) for part in parts)


def _chars(entry: "EntryData") -> int:
    names = sum(len(part.entity_name or "") for part in entry.entity[-MAX_PARTS:])
    return names + CHARS_OF_CHANGE * len(entry.ops[:MAX_CHANGES])


async def _alter(
    services: Services, entries: Sequence[Any], times: Counter[QuotaEntity], *, validate_only: bool
) -> list[Fields]:
    """Alter the quotas of some entities, in one turn and one append."""
    controller = services.controller
    outcomes: dict[QuotaEntity, KafkaError | None] = {}

    def alter() -> None:
        altered: dict[QuotaEntity, Mapping[str, float]] = {}
        for entry in entries:
            entity = _entity(entry)
            try:
                altered[entity] = _altered(
                    controller.image.quotas.entities.get(entity, EMPTY), entry, times
                )
                outcomes[entity] = None
            except KafkaError as error:
                outcomes[entity] = error.with_traceback(None)  # it refers to the outcomes
        if not validate_only:
            controller.writer.commit(*controller.client_quotas.alter_quotas(altered))

    try:
        await controller.writer.until_durable(alter)
    except KafkaError as error:
        failure = error.with_traceback(None)  # which refers to the outcomes
        outcomes |= {entity: error or failure for entity, error in outcomes.items()}
    return [_result(entity, error) for entity, error in outcomes.items()]


def _altered(
    current: Mapping[str, float], entry: "EntryData", times: Counter[QuotaEntity]
) -> dict[str, float]:
    """The quotas of an entity after the change. Raises KafkaError INVALID_REQUEST."""
    entity, changes = _entity(entry), entry.ops[:MAX_CHANGES]
    if times[entity] > 1 or len({change.key for change in changes}) < len(changes):
        raise KafkaError(ErrorCode.invalid_request, "Each entity and key must appear at most once.")
    return altered_quotas(
        entity,
        current,
        [(change.key, None if change.remove else change.value) for change in changes],
    )


def _result(entity: QuotaEntity, error: KafkaError | None) -> Fields:
    code, message = (ErrorCode.none, None) if error is None else (error.code, error.message or None)
    return {"error_code": code, "error_message": message, "entity": named(entity)}
