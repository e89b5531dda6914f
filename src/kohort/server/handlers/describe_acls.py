"""DescribeAcls (29) v1-3: the entries of the access control lists that a filter is for.

Without an authorizer it is refused with SECURITY_DISABLED, as by Kafka. A filter with the code 0
(unknown) closes the connection, as in Kafka. v2 is flexible, v3 has resources of the type user.
"""

from collections.abc import Coroutine
from typing import Any

from kohort.errors import ErrorCode
from kohort.security.acls import AclBinding
from kohort.server.handlers.acl_entries import matching, read_filter, refusal
from kohort.server.handlers.in_steps import Steps, respond_in_steps
from kohort.server.net import Exchange
from kohort.server.services import Services

UNKNOWN = 0
FILTER_CODES = (
    "resource_type_filter", "pattern_type_filter", "operation", "permission_type",
)  # fmt: skip


def handle(
    services: Services, exchange: Exchange, request: Any
) -> Coroutine[Any, Any, None] | None:
    if has_unknown(request):
        exchange.hang_up("DescribeAcls with an unknown element")
        return None
    return respond_in_steps(services, exchange, _steps(services, exchange, request))


def has_unknown(asked: Any) -> bool:
    """Whether a filter has the code 0."""
    return any(getattr(asked, field) == UNKNOWN for field in FILTER_CODES)


def _steps(services: Services, exchange: Exchange, request: Any) -> Steps:
    error = refusal(services, exchange)
    if error is not None:
        return {"error_code": error.code, "error_message": error.message or None}
    resources: dict[tuple[int, str, int], dict[str, Any]] = {}
    rows: list[dict[str, Any]] = []
    for _, binding in (yield from matching(services.topics.acls, read_filter(request))):
        kind, name, pattern = binding.resource_type, binding.resource_name, binding.pattern_type
        row = resources.get((kind, name, pattern))
        if row is None:
            row = {"resource_type": kind, "resource_name": name, "pattern_type": pattern}
            row["acls"] = []
            resources[kind, name, pattern] = row
            rows.append(row)
        row["acls"].append(_entry(binding))
        yield
    return {"error_code": ErrorCode.none, "error_message": "", "resources": rows}


def _entry(binding: AclBinding) -> dict[str, Any]:
    return {
        "principal": binding.principal,
        "host": binding.host,
        "operation": binding.operation,
        "permission_type": binding.permission_type,
    }
