"""ApiVersions (18) v0-4: what is served, from the one table.

v1 adds the throttle time; v3 is flexible, brings the client's software name and version (KIP-511)
and features as tagged fields; v4 differs only in what a feature may say. No feature is announced:
none of them acts here.

A version that is not served is answered all the same, in v0, with error 35 and the row of
ApiVersions itself, so that a newer client learns what to ask with (KIP-511). The response header is
v0 in every version.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode
from kohort.protocol.apis import API_VERSIONS, APIS, Api
from kohort.protocol.messages import encode, response
from kohort.server.net import Exchange

if TYPE_CHECKING:
    from kohort.server.broker import Broker

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(_broker: "Broker", exchange: Exchange, request: Any) -> None:
    """Answer the table; 42 and nothing else to a software name or version that Kafka would refuse."""
    if exchange.version >= 3:
        names = (request.client_software_name, request.client_software_version)
        if not all(map(_SOFTWARE.fullmatch, names)):
            refused = response(API_VERSIONS, exchange.version, error_code=ErrorCode.invalid_request)
            exchange.answer(refused)
            return
    exchange.answer_packed(_all(exchange.version))


def unsupported(exchange: Exchange) -> None:
    """Answer a request of a version that is not served."""
    exchange.answer_packed(_only_itself(), (ErrorCode.unsupported_version,))


@cache
def _all(version: int) -> bytes:
    return encode(response(API_VERSIONS, version, api_keys=map(_row, APIS.values())))


@cache
def _only_itself() -> bytes:
    rows = [_row(APIS[API_VERSIONS])]
    return encode(
        response(API_VERSIONS, 0, error_code=ErrorCode.unsupported_version, api_keys=rows)
    )


def _row(api: Api) -> dict[str, int]:
    return {"api_key": api.key, "min_version": api.advertised_from, "max_version": api.max_version}
