"""ACLs as the three APIs have them: bindings, filters, and who may not ask.

A code 0 (UNKNOWN) in a request closes the connection, as in Kafka.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from kohort.errors import ErrorCode, KafkaError
from kohort.security.acl_hosts import parse_network
from kohort.security.acl_search import Found
from kohort.security.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from kohort.server.handlers.cluster_authorization import NOT_AUTHORIZED
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import AclCreation, DeleteAclsFilter, DescribeAclsRequest

MAX_CHARS: Final = 32_767
"""Characters of a name, principal and host together; longer entries are refused."""

E = TypeVar("E", bound=IntEnum)


def refusal(services: Services, exchange: Exchange) -> KafkaError | None:
    """Error for the client: SECURITY_DISABLED, CLUSTER_AUTHORIZATION_FAILED, None if allowed."""
    if not services.has_authorizer:
        return KafkaError(ErrorCode.security_disabled, "No Authorizer is configured on the broker")
    if not services.access(exchange).cluster():
        return KafkaError(ErrorCode.cluster_authorization_failed, NOT_AUTHORIZED)
    return None


def code_of(codes: type[E], code: int) -> E:
    """The member of an enumeration; UNKNOWN (0) for a code that it does not have."""
    try:
        return codes(code)
    except ValueError:
        return codes(0)


def read_binding(creation: "AclCreation") -> AclBinding:
    """The entry that CreateAcls asks for. Raises KafkaError INVALID_REQUEST."""
    kind = code_of(ResourceType, creation.resource_type)
    if kind is ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not creation.resource_name:
        raise _invalid("Invalid empty resource name")
    binding = AclBinding(
        kind,
        creation.resource_name,
        code_of(PatternType, getattr(creation, "resource_pattern_type", PatternType.LITERAL)),
        creation.principal,
        creation.host,
        code_of(AclOperation, creation.operation),
        code_of(AclPermissionType, creation.permission_type),
    )
    _validate(binding)
    return binding


def _validate(binding: AclBinding) -> None:
    if binding.resource_type <= ResourceType.ANY:
        raise _invalid(f"Invalid resourceType {binding.resource_type.name}")
    if binding.pattern_type <= PatternType.MATCH:
        raise _invalid(f"Invalid patternType {binding.pattern_type.name}")
    if binding.operation <= AclOperation.ANY:
        raise _invalid(f"Invalid operation {binding.operation.name}")
    if binding.permission_type <= AclPermissionType.ANY:
        raise _invalid(f"Invalid permissionType {binding.permission_type.name}")
    if ":" not in binding.principal:
        raise _invalid(
            f"Could not parse principal from `{binding.principal[:MAX_CHARS]}` (no colon is "
            "present separating the principal type from the principal name)"
        )
    if not binding.host:
        raise _invalid("Invalid empty host")
    try:
        parse_network(binding.host)
    except ValueError:
        raise _invalid(f"Invalid CIDR notation for host `{binding.host[:MAX_CHARS]}`") from None
    if len(binding.resource_name) + len(binding.principal) + len(binding.host) > MAX_CHARS:
        raise _invalid(f"An ACL can have at most {MAX_CHARS} characters.")


def read_filter(request: "DescribeAclsRequest | DeleteAclsFilter") -> AclBindingFilter:
    """The filter of DescribeAcls, or one of those of DeleteAcls."""
    return AclBindingFilter(
        code_of(ResourceType, request.resource_type_filter),
        request.resource_name_filter,
        code_of(PatternType, getattr(request, "pattern_type_filter", PatternType.LITERAL)),
        request.principal_filter,
        request.host_filter,
        code_of(AclOperation, request.operation),
        code_of(AclPermissionType, request.permission_type),
    )


def drain(matches: Found) -> Iterator[tuple[UUID, AclBinding]]:
    """Yield the items of `matches` in order and remove each, which frees little at a time."""
    matches.reverse()
    while matches:
        yield matches.pop()


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, why)
