"""DescribeAcls (29) v1-3: the entries of the access control lists that a filter is for.

Without an authorizer it is refused with SECURITY_DISABLED, as by Kafka. A filter with the code 0
(unknown) closes the connection, as in Kafka. v2 is flexible, v3 has resources of the type user.
"""

from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from kohort.errors import ErrorCode
from kohort.protocol.messages import response
from kohort.security.acl_search import Found, find
from kohort.security.acls import AclBinding
from kohort.server.handlers.acl_entries import drain, read_filter, refusal
from kohort.server.handlers.chunked import Fields, respond_large
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.util.time_slice import in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import DeleteAclsFilter, DescribeAclsRequest

API_KEY = 29
UNKNOWN = 0
FILTER_CODES = (
    "resource_type_filter", "pattern_type_filter", "operation", "permission_type",
)  # fmt: skip


def handle(
    services: Services, exchange: Exchange, request: "DescribeAclsRequest"
) -> Coroutine[Any, Any, None] | None:
    if has_unknown(request):
        exchange.close_with_reason("DescribeAcls with an unknown element")
        return None
    error = refusal(services, exchange)
    if error is None:
        return _describe(services, exchange, request)
    refused = {"error_code": error.code, "error_message": error.message or None}
    exchange.respond(response(API_KEY, exchange.version, **refused))
    return None


def has_unknown(requested: "DescribeAclsRequest | DeleteAclsFilter") -> bool:
    """Whether a filter has the code 0."""
    return any(getattr(requested, field) == UNKNOWN for field in FILTER_CODES)


async def _describe(services: Services, exchange: Exchange, request: "DescribeAclsRequest") -> None:
    (matches,) = await in_slices(find(services.controller.image.acls, (read_filter(request),)))
    await respond_large(services, exchange, partial(_by_pattern, matches), len(matches))


def _by_pattern(matches: Found) -> Fields:
    resources: dict[tuple[int, int, str], Fields] = {}
    for _, binding in drain(matches):
        kind, name, pattern = binding.resource_type, binding.resource_name, binding.pattern_type
        row = resources.get((kind, pattern, name))
        if row is None:
            row = {"resource_type": kind, "resource_name": name, "pattern_type": pattern}
            row["acls"] = []
            resources[kind, pattern, name] = row
        row["acls"].append(_entry(binding))
    rows: list[Fields] = []
    while resources:  # which frees one by one
        rows.append(resources.popitem()[1])
    rows.reverse()
    return {"error_code": ErrorCode.none, "error_message": "", "resources": rows}


def _entry(binding: AclBinding) -> Fields:
    return {
        "principal": binding.principal,
        "host": binding.host,
        "operation": binding.operation,
        "permission_type": binding.permission_type,
    }
