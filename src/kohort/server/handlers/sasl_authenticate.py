"""SaslAuthenticate (36) v0-2: one message of a SASL mechanism (KIP-152).

v1 has the session's lifetime (KIP-368), v2 is flexible. Without a SaslHandshake before, and on a
listener without SASL, ILLEGAL_SASL_STATE.
"""

from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from kohort.errors import ErrorCode
from kohort.protocol.messages import response
from kohort.server.net import AuthenticateAnswer, Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import SaslAuthenticateRequest


def handle(
    _services: Services, exchange: Exchange, request: "SaslAuthenticateRequest"
) -> Coroutine[Any, Any, None] | None:
    login = exchange.login
    if login is None:
        code, message = ErrorCode.illegal_sasl_state, "SASL is not served by this listener"
        exchange.respond(_response(exchange, AuthenticateAnswer(code, message)))
        return None
    outcome = login.authenticate(request.auth_bytes)
    entity = _response(exchange, outcome)
    if outcome.has_failed:
        return login.fail(partial(exchange.respond, entity))
    exchange.respond(entity)
    return None


def _response(exchange: Exchange, outcome: AuthenticateAnswer) -> Any:
    return response(
        exchange.api_key,
        exchange.version,
        error_code=outcome.code,
        error_message=outcome.error_message,
        auth_bytes=outcome.auth_bytes,
        session_lifetime_ms=outcome.session_lifetime_ms,
    )
