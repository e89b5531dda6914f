"""Entities of quotas, their possible quotas, and filters to find them (KIP-546).

Source: ClientQuotaControlManager and ClientQuotaCache of Kafka.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, NamedTuple, TypeAlias

from kohort.errors import ErrorCode, KafkaError

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
EXACT, DEFAULT, SPECIFIED = range(3)
"""Match types of a filter."""

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""(type, name) in the order of types; the name None is the default of the type."""

EMPTY: Final[Mapping[str, float]] = {}
"""The quotas of an entity without quotas."""

_ORDER: Final = {CLIENT_ID: 0, USER: 1, IP: 2}
_ANY_NUMBER: Final = math.inf
_CLIENT_KEYS: Final = {
    "producer_byte_rate": 2**63 - 1,
    "consumer_byte_rate": 2**63 - 1,
    "request_percentage": _ANY_NUMBER,
    "controller_mutation_rate": _ANY_NUMBER,
}
_IP_KEYS: Final = {"connection_creation_rate": 2**31 - 1}
_TYPES: Final = {2**63 - 1: "a LONG", 2**31 - 1: "an INT"}
_WITHOUT_NAME: Final = {DEFAULT: "MATCH_TYPE_DEFAULT", SPECIFIED: "MATCH_TYPE_SPECIFIED"}
_FRACTION: Final = 1e-6


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """The entity of these types and names; the last name of a repeated type counts."""
    named = dict(parts)
    return tuple(sorted(named.items(), key=lambda part: (_ORDER.get(part[0], len(_ORDER)), part)))


def altered_quotas(
    entity: QuotaEntity, current: Mapping[str, float], changes: Sequence[tuple[str, float | None]]
) -> dict[str, float]:
    """The quotas of the entity after (key, value) changes; the value None removes a quota.

    Raises KafkaError INVALID_REQUEST.
    """
    largest = _keys_of(entity)
    altered = dict(current)
    for key, value in changes:
        if value is None:
            altered.pop(key, None)
            continue
        if key not in largest:
            raise _invalid(f"Invalid configuration key {key}")
        _validate_value(key, value, largest[key])
        altered[key] = value
    return altered


def _keys_of(entity: QuotaEntity) -> Mapping[str, float]:
    """Possible quotas of the entity, with their maximum values."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    names = dict(entity)
    for kind, name in entity:
        if kind not in _ORDER:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP not in names:
        return _CLIENT_KEYS
    if len(names) > 1:
        raise _invalid("An IP entity cannot be combined with a user or a client id")
    _validate_ip(names[IP])
    return _IP_KEYS


def _validate_ip(name: str | None) -> None:
    try:
        if name is not None:
            ip_address(name)
    except ValueError:
        # Kafka resolves the name only once, when it is set.
        raise _invalid(f"{name} is not a valid IP address.") from None


def _validate_value(key: str, value: float, largest: float) -> None:
    if not math.isfinite(value):
        raise _invalid(f"Quota {key} must be a finite number")
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if value > largest:
        raise _invalid(f"Proposed value for {key} is too large for {_TYPES[int(largest)]}.")
    if largest is not _ANY_NUMBER and value % 1 > _FRACTION:
        raise _invalid(f"{key} cannot be a fractional value.")


class FilterComponent(NamedTuple):
    """One condition on an entity: (type, `EXACT`, `DEFAULT` or `SPECIFIED`, name if exact)."""

    entity_type: str
    match_type: int
    match: str | None


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """The entities that DescribeClientQuotas requests."""

    components: Mapping[str, FilterComponent]
    strict: bool
    """Whether to exclude entities that also have other types."""

    def matches(self, entity: QuotaEntity) -> bool:
        if self.strict and len(entity) != len(self.components):
            return False
        names = dict(entity)
        return all(
            kind in names and _matches(component, names[kind])
            for kind, component in self.components.items()
        )


def _matches(component: FilterComponent, name: str | None) -> bool:
    if component.match_type == EXACT:
        return name == component.match
    return component.match_type == SPECIFIED or name is None


def validate_component(component: FilterComponent, entities: Iterable[str]) -> None:
    """Raise KafkaError INVALID_REQUEST, or UNSUPPORTED_VERSION for an unknown type."""
    entity, kind, match = component
    if kind == EXACT and match is None:
        raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if kind in _WITHOUT_NAME and match is not None:
        raise _invalid(
            f"Request specified {_WITHOUT_NAME[kind]}, but also specified a match string."
        )
    if kind not in (EXACT, DEFAULT, SPECIFIED):
        raise _invalid(f"Unknown match type {kind}")
    if not entity:
        raise _invalid("Invalid empty entity type.")
    if entity in entities:
        raise _invalid(f"Entity type {entity} cannot appear more than once in the filter.")
    if entity not in _ORDER:
        raise KafkaError(ErrorCode.unsupported_version, f"Unsupported entity type {entity}")


def validate_types(types: Iterable[str]) -> None:
    """Raise KafkaError INVALID_REQUEST for an impossible combination of types."""
    types = set(types)
    if IP in types and len(types) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be "
            "used with user or clientId filter component."
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
