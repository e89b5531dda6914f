"""Describes and alters quotas of users, client ids and addresses (KIP-546)."""

from collections.abc import Collection, Mapping
from contextlib import nullcontext
from typing import Any, Final, Literal, TypeAlias

from kohort.client.admin.changes import changing
from kohort.client.admin.coordinator_requests import broker_connection, refusal
from kohort.client.cluster import Cluster
from kohort.errors import fresh

QuotaEntityType: TypeAlias = Literal["user", "client-id", "ip"]
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""(type, name) in the order of types: client-id, user, ip; name None: the default."""

_EXACT, _DEFAULT, _ANY = range(3)
_ORDER: Final = ("client-id", "user", "ip")


async def describe_client_quotas(
    cluster: Cluster, entity: Mapping[QuotaEntityType, str | None] | None
) -> dict[QuotaEntity, dict[str, float]]:
    """The quotas of one entity, or of all. Raises KohortError."""
    components = [
        {"entity_type": kind, "match_type": _DEFAULT if name is None else _EXACT, "match": name}
        for kind, name in (entity or {}).items()
    ]
    connection = await broker_connection(cluster)
    response = await connection.send(
        "describe_client_quotas", components=components, strict=entity is not None
    )
    if (error := refusal(response.error_code, response.error_message)) is not None:
        raise fresh(error)
    return {
        _entity(entry.entity): {value.key: value.value for value in entry.values}
        for entry in response.entries or ()
    }


async def alter_client_quotas(
    cluster: Cluster,
    entity: Mapping[QuotaEntityType, str | None],
    *,
    set: Mapping[str, float],
    delete: Collection[str],
    validate_only: bool,
) -> None:
    """Change some quotas of an entity. Raises KohortError."""
    alteration = {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [
            *({"key": key, "value": float(value), "remove": False} for key, value in set.items()),
            *({"key": key, "value": 0.0, "remove": True} for key in delete),
        ],
    }
    connection = await broker_connection(cluster)
    with nullcontext() if validate_only else changing("describe the quotas"):
        response = await connection.send(
            "alter_client_quotas", entries=[alteration], validate_only=validate_only
        )
    for entry in response.entries:
        if (error := refusal(entry.error_code, entry.error_message)) is not None:
            raise fresh(error)


def _entity(components: Any) -> QuotaEntity:
    names = {part.entity_type: part.entity_name for part in components}
    return tuple((kind, names[kind]) for kind in _ORDER if kind in names)
