"""ApiVersions (18) v0-5: the APIs and versions that are served, from the table `protocol.apis`.

v1 adds the throttle time; v3 is flexible, brings the client's software name and version (KIP-511)
and features as tagged fields (`protocol.features`); v4 differs only in naming features whose lowest
level is 0. v5 has the cluster and the node that the client expects, both or neither: another node
responds with REBOOTSTRAP_REQUIRED (KIP-1242). As in Kafka, this is not compared before the client
has authenticated by SASL.

A version that is not served gets a response all the same, in v0, with error 35 and the row of
ApiVersions itself, so that a newer client learns what to ask with (KIP-511). The response header is
v0 in every version.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from kohort.errors import ErrorCode
from kohort.protocol.apis import API_VERSIONS, APIS, Api
from kohort.protocol.features import EPOCH, FEATURES
from kohort.protocol.messages import encode, response
from kohort.server.net import Exchange
from kohort.server.services import Services

if TYPE_CHECKING:
    from kohort.protocol.requests import ApiVersionsRequest

SOFTWARE_SINCE: Final = 3
SUPPORTED_FEATURE_LEVEL_0_SINCE: Final = 4
"""Older clients take a feature whose lowest level is 0 for malformed (KIP-1022)."""
EXPECTED_NODE_SINCE: Final = 5
_NO_NODE_ID: Final = -1
_NO_NODE: Final = (None, _NO_NODE_ID)
"""Cluster and node that a client without expectations sends."""
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(services: Services, exchange: Exchange, request: "ApiVersionsRequest") -> None:
    """Respond with the table, or with an error.

    INVALID_REQUEST if Kafka would refuse the client's software name or version, or if only one of
    cluster and node is expected; REBOOTSTRAP_REQUIRED if this is another node. `request` is None
    for a version that is not served.
    """
    if request is None:
        exchange.respond_encoded(_only_itself(), (ErrorCode.unsupported_version,))
        return
    error = _error(services, exchange, request)
    if error is None:
        exchange.respond_encoded(_all(exchange.version))
    else:
        exchange.respond(response(API_VERSIONS, exchange.version, error_code=error))


def _error(
    services: Services, exchange: Exchange, request: "ApiVersionsRequest"
) -> ErrorCode | None:
    if exchange.version >= SOFTWARE_SINCE:
        names = (request.client_software_name, request.client_software_version)
        if not all(map(_SOFTWARE.fullmatch, names)):
            return ErrorCode.invalid_request
    if exchange.version < EXPECTED_NODE_SINCE:
        return None
    expected = (request.cluster_id, request.node_id)
    if expected in (_NO_NODE, (services.cluster_id, services.node_id)):
        return None
    if request.cluster_id is None or request.node_id == _NO_NODE_ID:
        return ErrorCode.invalid_request
    has_authenticated = exchange.login is None or exchange.login.is_done
    return ErrorCode.rebootstrap_required if has_authenticated else None


@cache
def _all(version: int) -> bytes:
    supported = [
        {"name": name, "min_version": feature.first, "max_version": feature.last}
        for name, feature in FEATURES.items()
        if feature.first > 0 or version >= SUPPORTED_FEATURE_LEVEL_0_SINCE
    ]
    finalized = [
        {"name": name, "min_version_level": feature.level, "max_version_level": feature.level}
        for name, feature in FEATURES.items()
    ]
    return encode(
        response(
            API_VERSIONS,
            version,
            api_keys=map(_row, APIS.values()),
            supported_features=supported,
            finalized_features_epoch=EPOCH,
            finalized_features=finalized,
        )
    )


@cache
def _only_itself() -> bytes:
    rows = [_row(APIS[API_VERSIONS])]
    return encode(
        response(API_VERSIONS, 0, error_code=ErrorCode.unsupported_version, api_keys=rows)
    )


def _row(api: Api) -> dict[str, int]:
    return {"api_key": api.key, "min_version": api.advertised_from, "max_version": api.max_version}
