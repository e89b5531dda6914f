"""The first requests on a connection: ApiVersions (KIP-35, KIP-511), then SASL (KIP-43, KIP-152).

ApiVersions is sent in the highest version that the client has. A broker without that version
responds in v0 with UNSUPPORTED_VERSION and its own versions; then the request is repeated.

Since v5 it names the cluster and the node that the client expects. A broker that is another node
responds with REBOOTSTRAP_REQUIRED (KIP-1242), with SASL only after authentication.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from struct import Struct
from typing import Any, Final, NamedTuple

from kohort import __version__
from kohort.client.errors import (
    AuthenticationError,
    BrokerUnreachableError,
    RebootstrapRequiredError,
    UnsupportedVersionError,
)
from kohort.client.net.versions import (
    API_VERSIONS,
    Frame,
    Wire,
    common_version,
    supported_versions,
    wire,
)
from kohort.client.security import Security
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.framing import MalformedError

Submit = Callable[[Wire, bytes], Awaitable[Frame]]
"""Sends a body, and returns the frame of the response."""

Send = Callable[..., Awaitable[Any]]
"""`Connection.send`."""

VersionRanges = Mapping[int, tuple[int, int]]
"""Lowest and highest version of a broker, by API key."""


class BrokerVersions(NamedTuple):
    """The versions and features in a broker's ApiVersions response."""

    offered: VersionRanges
    features: Mapping[str, int]
    """Finalized levels of the cluster's features (KIP-584); empty if the broker sends none."""


class ExpectedNode(NamedTuple):
    """Ids by the client's metadata of the node that it connects to."""

    cluster_id: str
    node_id: int


EXPECTED_NODE_SINCE: Final = 5
"""Version of ApiVersions that names the expected node."""

ASSUMED_VERSIONS: Final[VersionRanges] = {API_VERSIONS: supported_versions("api_versions")}
"""The assumed versions before the ApiVersions response."""

_MS: Final = timedelta(milliseconds=1)
_NO_TIME: Final = timedelta()
_MAX_STEPS: Final = 8
"""Maximum messages of one authentication; SCRAM has two."""
_NO_SASL: Final = "this listener has no SASL: its security protocol is PLAINTEXT or SSL"
_error_code = Struct(">h").unpack_from


async def request_versions(submit: Submit, expected: ExpectedNode | None = None) -> BrokerVersions:
    """The versions of the broker, and the features of its cluster.

    Raises KafkaError, MalformedError, BrokerUnreachableError, RebootstrapRequiredError if the
    broker is not the expected node.
    """
    version = supported_versions("api_versions")[1]
    while True:
        response = await _request_in_version(submit, version, expected)
        offered = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        if response.error_code is ErrorCode.none:
            return BrokerVersions(offered, _features(response))
        if response.error_code is ErrorCode.rebootstrap_required and expected is not None:
            raise RebootstrapRequiredError(
                f"the broker is not node {expected.node_id} of cluster {expected.cluster_id}: the "
                "client starts again from the bootstrap servers (a proxy that changes node ids "
                "needs metadata.cluster.check.enable=false)"
            )
        if response.error_code is not ErrorCode.unsupported_version or version == 0:
            raise KafkaError(response.error_code, "to ApiVersions")
        version = min(version - 1, common_version("api_versions", offered) or 0)


def _features(response: Any) -> dict[str, int]:
    if getattr(response, "finalized_features_epoch", -1) < 0:
        return {}
    return {feature.name: feature.max_version_level for feature in response.finalized_features}


async def _request_in_version(submit: Submit, version: int, expected: ExpectedNode | None) -> Any:
    encoding = wire("api_versions", version)
    fields: dict[str, Any] = {
        "client_software_name": "kohort",
        "client_software_version": __version__,
    }
    if expected is not None:
        fields |= expected._asdict()
    frame = await submit(encoding, encoding.body(fields))
    if len(frame) < 6:
        raise MalformedError("an ApiVersions response that ends early")
    refused = _error_code(frame, 4)[0] == ErrorCode.unsupported_version
    return (wire("api_versions", 0) if refused else encoding).read(bytes(frame), 4)


async def authenticate(send: Send, security: Security, timeout_s: float) -> int:
    """Authenticate by SASL; returns the session's lifetime in ms (KIP-368), 0 without an end.

    `timeout_s`: limit for a message of the client, such as for the source of its tokens. Raises
    AuthenticationError, BrokerUnreachableError.
    """
    # After SaslHandshake v0, messages would have no Kafka framing.
    try:
        chosen = await send("sasl_handshake", min_version=1, mechanism=security.mechanism)
    except UnsupportedVersionError:
        raise AuthenticationError(_NO_SASL) from None
    if chosen.error_code is ErrorCode.illegal_sasl_state:
        raise AuthenticationError(_NO_SASL)
    if chosen.error_code is not ErrorCode.none:
        offered = ", ".join(chosen.mechanisms) or "none"
        raise AuthenticationError(
            f"the broker does not offer {security.mechanism}, it offers {offered}: "
            "set mechanism (sasl.mechanism) to one of these"
        )
    exchange = security.exchange()
    try:
        message = await _within(timeout_s, anext(exchange), security)
        for _ in range(_MAX_STEPS):
            response = await send("sasl_authenticate", auth_bytes=message)
            if response.error_code is not ErrorCode.none:
                raise AuthenticationError(
                    f"{security.mechanism}: "
                    f"{response.error_message or response.error_code.name.upper()}; "
                    f"{_advice(security)}"
                )
            try:
                message = await _within(timeout_s, exchange.asend(response.auth_bytes), security)
            except StopAsyncIteration:
                return int(getattr(response, "session_lifetime", _NO_TIME) // _MS)
    except (UnicodeDecodeError, ValueError) as error:
        raise AuthenticationError(
            f"{security.mechanism}: a response that cannot be decoded: {error}"
        ) from None
    finally:
        await exchange.aclose()
    raise AuthenticationError(f"{security.mechanism}: no end after {_MAX_STEPS} messages")


async def _within(timeout_s: float, message: Awaitable[bytes], security: Security) -> bytes:
    try:
        async with asyncio.timeout(timeout_s):
            return await message
    except TimeoutError:
        raise BrokerUnreachableError(
            f"{security.mechanism}: the client's message took longer than {timeout_s:g} s"
            f"{source_hint(security)}"
        ) from None


def source_hint(security: Security) -> str:
    """Possible cause if the client itself is slow to authenticate."""
    if security.mechanism == "OAUTHBEARER":
        return ": the source of its tokens (token) did not return"
    return ""


def _advice(security: Security) -> str:
    """Advice for a user whose credentials the broker refuses."""
    if security.mechanism == "OAUTHBEARER":
        return "check the token, its audience and its lifetime"
    return f"check username {security.username!r} and its password"
