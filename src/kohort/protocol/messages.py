"""A thin adapter over kio's message classes, one class per API and version.

For requests, `read_header` identifies a frame, and `decode_request` returns kio's request of that
version. For responses, `response` builds kio's response of a version from plain values, `encode`
returns its bytes, and `frame` puts size and header in front. Classes, readers and writers are
loaded when an API and version is first used: importing all of kio would take longer than a whole
start of the server may.
"""

import struct
from functools import cache
from typing import Any, Final

from kio.static.protocol import Entity

from kohort.protocol.apis import ALL_APIS, API_VERSIONS
from kohort.protocol.bounds_check import BoundsCheck, bounds_check
from kohort.protocol.building import request, response
from kohort.protocol.framing import CONTENT, MalformedError
from kohort.protocol.lenient_decoding import MAX_PATCHES
from kohort.protocol.message_classes import load_request_schema
from kohort.protocol.packing import skip_tagged_fields
from kohort.protocol.reading import Read, large_reader, reader
from kohort.protocol.writing import encode, encode_in_pieces

__all__ = [
    "Entity",
    "decode_large_request",
    "decode_request",
    "encode",
    "encode_in_pieces",
    "frame_head",
    "has_few_elements",
    "read_header",
    "request",
    "request_head",
    "response",
    "response_body_at",
]

_HEADER: Final = struct.Struct(">hhih")
_unpack_header = _HEADER.unpack_from
_FRAME_HEAD: Final = struct.Struct(">ii")
_FLEXIBLE_FRAME_HEAD: Final = struct.Struct(">iix")


_BODY: Final = CONTENT + _HEADER.size
"""Start of the body of a request with neither client id nor tags."""

_SERVED: Final = {
    (api.key, version): api.flexible(version)
    for api in ALL_APIS.values()
    for version in range(api.min_version, api.max_version + 1)
}
"""Every API and version, and whether it is flexible."""


def read_header(data: bytes) -> tuple[int, int, int, str, int]:
    """(API key, version, correlation id, client id, offset of the body) of a frame with its size.

    A null client id is "". Raises `MalformedError`, also for an API or version that is not served.
    The exception is an `ApiVersions` request of an unknown version, which needs a response.
    """
    try:
        api_key, version, correlation_id, length = _unpack_header(data, CONTENT)
    except struct.error:
        raise MalformedError(f"request header of {len(data) - CONTENT} bytes") from None
    flexible = _SERVED.get((api_key, version))
    if flexible is None:
        if api_key != API_VERSIONS:
            raise MalformedError(f"API key {api_key} version {version} is not served")
        flexible = ALL_APIS[API_VERSIONS].flexible(version)
    body = _BODY + length if length > 0 else _BODY
    if body > len(data):
        raise MalformedError(f"client id of {length} bytes")
    client_id = str(data[_BODY:body], "utf-8", "replace")
    if flexible:
        body = _skip_tags(data, body)
    return api_key, version, correlation_id, client_id, body


def _skip_tags(data: bytes, position: int) -> int:
    try:
        return skip_tagged_fields(data, position, limit=MAX_PATCHES)
    except IndexError:
        raise MalformedError("request header ends early") from None


def decode_request(api_key: int, version: int, data: bytes, start: int = 0) -> Any:
    """kio's request of that version, from offset `start` of `data`.

    Bytes behind it are ignored, as in Kafka. Raises only `MalformedError`, whatever the bytes are.
    """
    return _request_reader(api_key, version)(data, start)


def decode_large_request(api_key: int, version: int, data: bytes, start: int) -> Any:
    """`decode_request`, slower, for a thread beside the event loop: it does not hold up others.

    Records, and bytes of more than 1 MiB, are views of `data`.
    """
    return _large_request_reader(api_key, version)(data, start)


def has_few_elements(api_key: int, version: int, data: bytes, start: int, most: int) -> bool:
    """Whether a request is usual, and has at most so many array elements; no others are counted."""
    try:
        return _bounds_check(api_key, version)(data, start, most)
    except (MalformedError, IndexError):
        return False


@cache
def _bounds_check(api_key: int, version: int) -> BoundsCheck:
    return bounds_check(load_request_schema(api_key, version))


@cache
def _large_request_reader(api_key: int, version: int) -> Read:
    return large_reader(load_request_schema(api_key, version))


@cache
def _request_reader(api_key: int, version: int) -> Read:
    return reader(load_request_schema(api_key, version))


def frame_head(api_key: int, version: int, correlation_id: int, size: int) -> bytes:
    """The bytes before a response body of `size` bytes: the frame's size, header v0 or v1."""
    # A client that does not know the broker's versions yet cannot know of header tags: ApiVersions
    # has none.
    if api_key != API_VERSIONS and version >= ALL_APIS[api_key].first_flexible:
        return _FLEXIBLE_FRAME_HEAD.pack(size + 5, correlation_id)
    return _FRAME_HEAD.pack(size + 4, correlation_id)


def response_body_at(api_key: int, version: int) -> int:
    """Offset of the body in a response without its size."""
    return len(frame_head(api_key, version, 0, 0)) - CONTENT


def request_head(api_key: int, version: int, correlation_id: int, client_id: str) -> bytes:
    """The header v1 or v2 of a request, as `read_header` reads it behind the size."""
    name = client_id.encode()
    tags = b"\0" if ALL_APIS[api_key].flexible(version) else b""
    return _HEADER.pack(api_key, version, correlation_id, len(name)) + name + tags
