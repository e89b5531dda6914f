"""SaslHandshake (17) v0-1: the client chooses a SASL mechanism (KIP-43).

After v0 the messages of the mechanism follow without headers, after v1 as SaslAuthenticate requests
(KIP-152). On a listener without SASL, ILLEGAL_SASL_STATE.
"""

from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from kohort.errors import ErrorCode
from kohort.protocol.messages import response
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import SaslHandshakeRequest


def handle(
    _services: Services, exchange: Exchange, request: "SaslHandshakeRequest"
) -> Coroutine[Any, Any, None] | None:
    login = exchange.login
    if login is None:
        code = ErrorCode.illegal_sasl_state
        exchange.respond(response(exchange.api_key, exchange.version, error_code=code))
        return None
    code, mechanisms, has_failed = login.handshake(exchange.version, request.mechanism)
    outcome = response(exchange.api_key, exchange.version, error_code=code, mechanisms=mechanisms)
    if has_failed:
        return login.fail(partial(exchange.respond, outcome))
    exchange.respond(outcome)
    return None
