"""DescribeAcls (29) v1-3: refused with SECURITY_DISABLED, as by Kafka without an authorizer.

A filter with the code 0 (unknown) closes the connection, as in Kafka. v2 is flexible.
"""

from typing import Any, Final

from kohort.errors import ErrorCode
from kohort.protocol.messages import response
from kohort.server.net import Exchange
from kohort.server.services import Services

API_KEY: Final = 29
UNKNOWN: Final = 0
_CODES: Final = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")


def handle(services: Services, exchange: Exchange, request: Any) -> None:  # noqa: ARG001
    if any(getattr(request, field) == UNKNOWN for field in _CODES):
        exchange.hang_up("DescribeAcls with an unknown element")
        return
    refusal = response(
        API_KEY,
        exchange.version,
        error_code=ErrorCode.security_disabled,
        error_message="No Authorizer is configured on the broker",
    )
    exchange.respond(refusal)
