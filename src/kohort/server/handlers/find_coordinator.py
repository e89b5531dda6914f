"""FindCoordinator (10) v0-6: the coordinator of a group, a transaction or a share partition.

v0 knows groups only; v1 adds the key type, throttle time and an error message; v3 is flexible; v4
asks for many keys at once; v5 and v6 change nothing on the wire, v6 allows key type 2 (share
groups, KIP-932).

The leader of a partition of `__consumer_offsets` or `__transaction_state` coordinates what the
partition has; without a leader it is COORDINATOR_NOT_AVAILABLE. A key type that the version does
not know, or a share key that is not `group:topicId:partition`, gets 42 with no node.
"""

import re
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode
from kohort.protocol.messages import response
from kohort.server.authorization import Access
from kohort.server.cluster import NO_NODE
from kohort.server.handlers.chunked import Steps, respond_in_chunks
from kohort.server.handlers.cluster_authorization import NOT_AUTHORIZED
from kohort.server.metadata import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import FindCoordinatorRequest

GROUP, TRANSACTION, SHARE = 0, 1, 2
MESSAGES: Final = {
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
    ErrorCode.cluster_authorization_failed: NOT_AUTHORIZED,
}
"""Kafka's texts of refusals."""

_SHARE_KEY: Final = re.compile(r".+:[A-Za-z0-9_-]{22}:[0-9]{1,10}", re.DOTALL)


def handle(
    services: Services, exchange: Exchange, request: "FindCoordinatorRequest"
) -> Coroutine[Any, Any, None] | None:
    version = exchange.version
    key_type = request.key_type if version >= 1 else GROUP
    if version < 4:
        coordinator = _coordinator(services, exchange, request.key, key_type)
        exchange.respond(response(exchange.api_key, version, **coordinator))
        return None
    return respond_in_chunks(services, exchange, _steps(services, exchange, request))


def _steps(services: Services, exchange: Exchange, request: "FindCoordinatorRequest") -> Steps:
    coordinators = []
    for key in request.coordinator_keys:
        coordinators.append({"key": key} | _coordinator(services, exchange, key, request.key_type))
        yield
    return {"coordinators": coordinators}


def _coordinator(services: Services, exchange: Exchange, key: str, key_type: int) -> dict[str, Any]:
    version = exchange.version
    if refused := _refusal(services.access(exchange), key, key_type):
        message = MESSAGES[refused] if version < 4 or key_type == SHARE else ""
        return _nowhere(refused, message)
    if why := _why_not(key, key_type, version):
        error = ErrorCode.invalid_request
        if key_type == SHARE and version in (4, 5):
            why = ""  # Kafka says nothing more there
        return _nowhere(error, why)
    node = services.nodes.node(_node_id(services, key, key_type), exchange.peer.endpoint)
    if node is NO_NODE:
        return _nowhere(ErrorCode.coordinator_not_available, "")
    # Kafka has "NONE" before v4 where there is no error, and "" since.
    message = "NONE" if version < 4 else ""
    return {
        "error_message": message,
        "node_id": node.id,
        "host": node.host,
        "port": node.port,
    }


def _node_id(services: Services, key: str, key_type: int) -> int:
    if key_type == SHARE:
        return services.node_id
    return services.nodes.coordinator(
        OFFSETS_TOPIC if key_type == GROUP else TRANSACTIONS_TOPIC, key
    )


def _nowhere(error: ErrorCode, message: str) -> dict[str, Any]:
    nowhere = {"node_id": -1, "host": "", "port": -1}
    return {"error_code": error, "error_message": message, **nowhere}


def _refusal(access: Access, key: str, key_type: int) -> ErrorCode | None:
    """The error for a client that may not ask for this."""
    if key_type == GROUP and not access.group(key):
        return ErrorCode.group_authorization_failed
    if key_type == TRANSACTION and not access.transactional_id(key):
        return ErrorCode.transactional_id_authorization_failed
    if key_type == SHARE and not access.cluster():
        return ErrorCode.cluster_authorization_failed
    return None


def _why_not(key: str, key_type: int, version: int) -> str | None:
    if key_type in (GROUP, TRANSACTION):
        return None
    if key_type != SHARE or version < 6:
        return f"Key type {key_type} is not known in version {version}."
    return None if _SHARE_KEY.fullmatch(key) else "A share key is group:topicId:partition."
