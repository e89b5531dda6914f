"""Access control lists (KIP-140, KIP-290)."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kohort.client.admin.changes import changing
from kohort.client.admin.coordinator_requests import broker_connection, refusal
from kohort.client.cluster import Cluster
from kohort.errors import KohortError, fresh
from kohort.security.acls import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)

_REMEDY: Final = "describe the ACLs"


async def create_acls(
    cluster: Cluster, bindings: Sequence[AclBinding]
) -> dict[AclBinding, KohortError | None]:
    """Add entries; None for each that exists now. Raises KohortError."""
    creations = [_fields(each) for each in bindings]
    connection = await broker_connection(cluster)
    with changing(_REMEDY):
        response = await connection.send("create_acls", creations=creations)
    return {
        binding: refusal(told.error_code, told.error_message)
        for binding, told in zip(bindings, response.results, strict=True)
    }


async def describe_acls(cluster: Cluster, wanted: AclBindingFilter) -> list[AclBinding]:
    """The entries that a filter is for. Raises KohortError."""
    response = await (await broker_connection(cluster)).send("describe_acls", **_filter(wanted))
    if (error := refusal(response.error_code, response.error_message)) is not None:
        raise fresh(error)
    return [
        _binding(resource.resource_type, resource.resource_name, resource.pattern_type, entry)
        for resource in response.resources
        for entry in resource.acls
    ]


async def delete_acls(
    cluster: Cluster, filters: Iterable[AclBindingFilter]
) -> list[list[AclBinding] | KohortError]:
    """Remove the entries that each filter is for; the entries, or the error of the filter.

    Raises KohortError.
    """
    asked = [_filter(each) for each in filters]
    connection = await broker_connection(cluster)
    with changing(_REMEDY):
        response = await connection.send("delete_acls", filters=asked)
    return [_deleted(each) for each in response.filter_results]


def _deleted(told: Any) -> list[AclBinding] | KohortError:
    error = refusal(told.error_code, told.error_message)
    for each in told.matching_acls:
        error = error or refusal(each.error_code, each.error_message)
    if error is not None:
        return error
    return [
        _binding(each.resource_type, each.resource_name, each.pattern_type, each)
        for each in told.matching_acls
    ]


def _fields(binding: AclBinding) -> dict[str, Any]:
    fields = binding._asdict()
    return fields | {"resource_pattern_type": fields.pop("pattern_type")}


def _filter(wanted: AclBindingFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.resource_name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission_type,
    }


def _binding(kind: int, name: str, pattern_type: int, entry: Any) -> AclBinding:
    return AclBinding(
        ResourceType(kind),
        name,
        PatternType(pattern_type),
        entry.principal,
        entry.host,
        AclOperation(entry.operation),
        AclPermissionType(entry.permission_type),
    )
