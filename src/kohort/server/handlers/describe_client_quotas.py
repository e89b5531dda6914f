"""DescribeClientQuotas (48) v0-1: none, as there are no quotas (KIP-546).

A filter is validated as Kafka does. v1 is flexible.
"""

from collections.abc import Coroutine
from typing import Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.server.handlers.in_steps import Steps, respond_in_steps
from kohort.server.net import Exchange
from kohort.server.services import Services

EXACT, DEFAULT, SPECIFIED = range(3)
ENTITIES: Final = frozenset({"user", "client-id", "ip"})
_WITHOUT_MATCH: Final = {DEFAULT: "MATCH_TYPE_DEFAULT", SPECIFIED: "MATCH_TYPE_SPECIFIED"}


def handle(
    services: Services, exchange: Exchange, request: Any
) -> Coroutine[Any, Any, None] | None:
    return respond_in_steps(services, exchange, _steps(request))


def _steps(request: Any) -> Steps:
    seen: set[str] = set()
    try:
        for each in request.components:
            _validate(each, seen)
            seen.add(each.entity_type)
            yield
        if "ip" in seen and len(seen) > 1:
            raise _invalid(
                "Invalid entity filter component combination. IP filter component should not be "
                "used with user or clientId filter component."
            )
    except KafkaError as error:
        return {"error_code": error.code, "error_message": error.message, "entries": None}
    return {"error_code": ErrorCode.none, "error_message": "", "entries": ()}


def _validate(component: Any, seen: set[str]) -> None:
    entity, kind = component.entity_type, component.match_type
    if kind == EXACT and component.match is None:
        raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if kind in _WITHOUT_MATCH and component.match is not None:
        raise _invalid(
            f"Request specified {_WITHOUT_MATCH[kind]}, but also specified a match string."
        )
    if kind not in (EXACT, DEFAULT, SPECIFIED):
        raise _invalid(f"Unknown match type {kind}")
    if not entity:
        raise _invalid("Invalid empty entity type.")
    if entity in seen:
        raise _invalid(f"Entity type {entity} cannot appear more than once in the filter.")
    if entity not in ENTITIES:
        raise KafkaError(ErrorCode.unsupported_version, f"Unsupported entity type {entity}")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
