"""One module per API, named as in `protocol.apis` and imported when its first request comes.

Each has `handle(services, exchange, request)`; `request` is kio's class of the request's version.
It ends the exchange, now or later, and returns None, or it is an `async def` that the connection
runs. A module may have `FAST_PATHS` too: by version, a function that takes usual requests from
their bytes (`server.net.dispatcher`). Only APIs whose requests come most often have them.

A handler translates between the wire's versions and the words of the core, and decides nothing
about groups.
"""

from datetime import timedelta
from types import ModuleType
from typing import Final

from kohort.errors import ErrorCode
from kohort.protocol.apis import ALL_APIS
from kohort.protocol.messages import response
from kohort.server.handlers import forwarding
from kohort.server.handlers.modules import handler_module
from kohort.server.net import Exchange
from kohort.transactions.requests import ProducerResponse

__all__ = [
    "cut_reason",
    "forwarding_handler_module",
    "handler_module",
    "milliseconds",
    "respond_with_producer",
    "without_fenced",
]

_MS: Final = timedelta(milliseconds=1)

REASON_CHARS: Final = 255
"""Characters of a reason that are kept; Kafka's clients cut it there (KIP-800)."""


def forwarding_handler_module(api_key: int) -> ModuleType:
    """`handler_module` of a node that forwards changes of the cluster to the controller."""
    if ALL_APIS[api_key].name in forwarding.FORWARDED:
        return forwarding
    return handler_module(api_key)


def cut_reason(reason: str | None) -> str | None:
    """A member's reason to join or leave, as long as the journal keeps it."""
    return None if reason is None else reason[:REASON_CHARS]


def milliseconds(duration: timedelta) -> int:
    """A duration of the wire as the number that was sent."""
    return duration // _MS


def without_fenced(error: ErrorCode) -> ErrorCode:
    """The error for a request whose version does not know PRODUCER_FENCED (KIP-588)."""
    fenced = error is ErrorCode.producer_fenced
    return ErrorCode.invalid_producer_epoch if fenced else error


def respond_with_producer(
    exchange: Exchange, producer: ProducerResponse, *, fenced_since: int
) -> None:
    """Respond with a producer id; versions before `fenced_since` do not know PRODUCER_FENCED."""
    is_known = exchange.version >= fenced_since
    exchange.respond(
        response(
            exchange.api_key,
            exchange.version,
            error_code=producer.error if is_known else without_fenced(producer.error),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )
    )
