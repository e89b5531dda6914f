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
    """Add entries; None for each entry that exists now. Raises KohortError."""
    creations = [_fields(binding) for binding in bindings]
    connection = await broker_connection(cluster)
    with changing(_REMEDY):
        response = await connection.send("create_acls", creations=creations)
    return {
        binding: refusal(result.error_code, result.error_message)
        for binding, result in zip(bindings, response.results, strict=True)
    }


async def describe_acls(cluster: Cluster, acl_filter: AclBindingFilter) -> list[AclBinding]:
    """The entries that match a filter. Raises KohortError."""
    response = await (await broker_connection(cluster)).send("describe_acls", **_filter(acl_filter))
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
    """Remove the entries that match each filter; returns them, or the error of the filter.

    Raises KohortError.
    """
    requested = [_filter(acl_filter) for acl_filter in filters]
    connection = await broker_connection(cluster)
    with changing(_REMEDY):
        response = await connection.send("delete_acls", filters=requested)
    return [_deleted(result) for result in response.filter_results]


def _deleted(result: Any) -> list[AclBinding] | KohortError:
    error = refusal(result.error_code, result.error_message)
    for acl in result.matching_acls:
        error = error or refusal(acl.error_code, acl.error_message)
    if error is not None:
        return error
    return [
        _binding(acl.resource_type, acl.resource_name, acl.pattern_type, acl)
        for acl in result.matching_acls
    ]


def _fields(binding: AclBinding) -> dict[str, Any]:
    fields = binding._asdict()
    return fields | {"resource_pattern_type": fields.pop("pattern_type")}


def _filter(acl_filter: AclBindingFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": acl_filter.resource_type,
        "resource_name_filter": acl_filter.resource_name,
        "pattern_type_filter": acl_filter.pattern_type,
        "principal_filter": acl_filter.principal,
        "host_filter": acl_filter.host,
        "operation": acl_filter.operation,
        "permission_type": acl_filter.permission_type,
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
