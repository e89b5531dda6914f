"""Refusals of requests about the cluster, for clients that are not allowed the operation."""

from typing import Any, Final

from kohort.errors import ErrorCode
from kohort.protocol.messages import response
from kohort.server.net import Exchange

NOT_AUTHORIZED: Final = "Cluster authorization failed."
REFUSAL: Final[dict[str, Any]] = {
    "error_code": ErrorCode.cluster_authorization_failed,
    "error_message": NOT_AUTHORIZED,
}
"""Error of an entry of a response, or of a response that has a text."""


def refuse(exchange: Exchange, **fields: Any) -> None:
    """Refuse the whole request; `fields` are those of the response beside its error code."""
    error = ErrorCode.cluster_authorization_failed
    exchange.respond(response(exchange.api_key, exchange.version, error_code=error, **fields))
