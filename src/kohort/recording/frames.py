"""Frames of requests and responses, without their size: headers, and bodies as kio's messages.

All APIs and versions of kio are known here, whether Kohort's server has them or not.
"""

import struct
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from kohort.protocol.apis import kafka_name
from kohort.protocol.framing import MalformedError
from kohort.protocol.message_classes import (
    API_KEYS,
    API_NAMES,
    known_versions,
    load_request_schema,
    load_response_schema,
)
from kohort.protocol.packing import skip_tagged_fields
from kohort.protocol.reading import reader, response_reader
from kohort.protocol.writing import encode

API_VERSIONS: Final = API_KEYS["api_versions"]
PRODUCE: Final = API_KEYS["produce"]
_HEADER: Final = struct.Struct(">hhih")
_CORRELATION_ID: Final = 4
"""Bytes of a response's header without tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """The header of a request."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str
    body_at: int
    """Offset of the body."""


def api_text(api_key: int, version: int) -> str:
    """An API as in Kafka, such as `JoinGroup v9`."""
    name = API_NAMES.get(api_key)
    if name is None:
        return f"API {api_key} v{version}"
    return f"{kafka_name(name)} v{version}"


@cache
def is_known(api_key: int, version: int) -> bool:
    """Whether there is a message class."""
    if api_key not in API_NAMES:
        return False
    lowest, highest = known_versions(api_key)
    return lowest <= version <= highest


@cache
def is_flexible(api_key: int, version: int) -> bool:
    """Whether headers have tagged fields (KIP-482); `is_known` has to be true."""
    return bool(load_request_schema(api_key, version).__flexible__)


def read_head(frame: bytes) -> RequestHead:
    """The header of a request. Raises MalformedError, also for an unknown API or version."""
    try:
        api_key, version, correlation_id, length = _HEADER.unpack_from(frame)
    except struct.error:
        raise MalformedError(f"a request of {len(frame)} bytes") from None
    if not is_known(api_key, version):
        raise MalformedError(f"{api_text(api_key, version)} is unknown")
    body_at = _HEADER.size + max(length, 0)
    client_id = frame[_HEADER.size : body_at].decode("utf-8", "replace")
    if body_at > len(frame):
        raise MalformedError(f"a client id of {length} bytes")
    if is_flexible(api_key, version):
        body_at = _skip_tags(frame, body_at)
    return RequestHead(
        api_key=api_key,
        version=version,
        correlation_id=correlation_id,
        client_id=client_id,
        body_at=body_at,
    )


def decode_request(frame: bytes, head: RequestHead) -> Any:
    """kio's message. Raises MalformedError."""
    schema = load_request_schema(head.api_key, head.version)
    return reader(schema)(frame, head.body_at)


def response_body_at(frame: bytes, api_key: int, version: int) -> int:
    """Offset of a response's body. Raises MalformedError."""
    if len(frame) < _CORRELATION_ID:
        raise MalformedError(f"a response of {len(frame)} bytes")
    if api_key == API_VERSIONS or not is_flexible(api_key, version):
        return _CORRELATION_ID
    return _skip_tags(frame, _CORRELATION_ID)


def decode_response(frame: bytes, api_key: int, version: int) -> Any:
    """kio's message. Raises MalformedError.

    A broker that does not know the version of ApiVersions responds in version 0 (KIP-511).
    """
    body_at = response_body_at(frame, api_key, version)
    if api_key == API_VERSIONS and frame[body_at : body_at + 2] == b"\0\x23":
        version = 0
    return response_reader(load_response_schema(api_key, version))(frame, body_at)


def with_body(frame: bytes, body_at: int, entity: Any) -> bytes:
    """The frame with another message as its body."""
    return frame[:body_at] + encode(entity)


def _skip_tags(frame: bytes, position: int) -> int:
    try:
        return skip_tagged_fields(frame, position)
    except IndexError:
        raise MalformedError("tagged fields end beyond the frame") from None
