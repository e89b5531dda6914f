"""Common API versions of client and broker, and the encoding of requests and responses.

`protocol.message_classes` has every version of Apache Kafka 4.4; the broker sends its versions in
ApiVersions. The highest common version is used (KIP-35), within the limits of the caller.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import Any, Final

from kohort.client.errors import UnsupportedVersionError
from kohort.errors import KohortError
from kohort.protocol.building import request
from kohort.protocol.framing import MalformedError
from kohort.protocol.message_classes import (
    API_KEYS,
    known_versions,
    load_request_schema,
    load_response_schema,
)
from kohort.protocol.packing import skip_tagged_fields
from kohort.protocol.reading import Read, response_reader
from kohort.protocol.writing import encode

API_VERSIONS: Final = API_KEYS["api_versions"]
_HEAD: Final = Struct(">ihhi")
_int32: Final = Struct(">i").unpack_from

Frame = bytes | bytearray
"""A response without its size."""


@cache
def supported_versions(api: str) -> tuple[int, int]:
    """Lowest and highest version of an API that kio has. Raises KeyError for an unknown API."""
    if api not in API_KEYS:
        raise KeyError(
            f"{api!r} is no API of Kafka; names are in snake case, such as 'find_coordinator'"
        )
    return known_versions(API_KEYS[api])


def common_version(
    api: str,
    broker_versions: Mapping[int, tuple[int, int]],
    min_version: int = 0,
    max_version: int | None = None,
) -> int | None:
    """The highest common version of client, broker and caller; None if there is none."""
    if (broker_range := broker_versions.get(API_KEYS[api])) is None:
        return None
    client_range = supported_versions(api)
    lowest = max(client_range[0], broker_range[0], min_version)
    highest = min(
        client_range[1], broker_range[1], client_range[1] if max_version is None else max_version
    )
    return highest if lowest <= highest else None


def unsupported(
    api: str,
    broker_versions: Mapping[int, tuple[int, int]],
    min_version: int,
    max_version: int | None,
) -> UnsupportedVersionError:
    """The error for an API without a common version."""
    client_range = supported_versions(api)
    highest = client_range[1] if max_version is None else min(client_range[1], max_version)
    needed_range = f"v{max(client_range[0], min_version)} to v{highest}"
    broker_range = broker_versions.get(API_KEYS[api])
    support = (
        "does not support it"
        if broker_range is None
        else f"speaks v{broker_range[0]} to v{broker_range[1]}"
    )
    return UnsupportedVersionError(f"{api} {needed_range} is needed, the broker {support}")


@dataclass(frozen=True, slots=True)
class Wire:
    """One version of one API on the wire."""

    api: str
    key: int
    version: int
    flexible: bool
    """Whether headers have tagged fields (KIP-482); those of ApiVersions responses never have."""

    @property
    def read(self) -> Read:
        """Reads a response's body from (frame, offset). Raises MalformedError."""
        return _response_reader(self.key, self.version)

    def body(self, fields: Mapping[str, Any]) -> bytes:
        """Encode a request's body; `fields` are as `protocol.building.request` takes them.

        Raises KohortError for a number that is too large, and for text that is no Unicode.
        """
        try:
            return encode(request(self.key, self.version, **fields))
        except (struct.error, OverflowError, UnicodeEncodeError) as error:
            raise KohortError(f"{self.api}: a value cannot be sent: {error}") from error

    def head(self, correlation_id: int, client_id: bytes, size: int) -> bytes:
        """Size and header of a request with a body of `size` bytes; `client_id` has its length."""
        tags = b"\0" if self.flexible else b""
        length = _HEAD.size - 4 + len(client_id) + len(tags) + size
        return _HEAD.pack(length, self.key, self.version, correlation_id) + client_id + tags

    def preload(self) -> None:
        """Load the schemas, which takes 3 to 5 ms, before they are needed."""
        self.body({})
        _ = self.read

    def body_offset(self, frame: Frame) -> int:
        """Offset of a response's body, after correlation id and tags. Raises MalformedError."""
        return skip_tags(frame, 4) if self.flexible and self.key != API_VERSIONS else 4


@cache
def wire(api: str, version: int) -> Wire:
    """The encoding of that version."""
    key = API_KEYS[api]
    schema = load_request_schema(key, version)
    return Wire(api, key, version, schema.__flexible__)


@cache
def _response_reader(api_key: int, version: int) -> Read:
    """Built at the first response; Fetch and Produce have their own readers."""
    return response_reader(load_response_schema(api_key, version))


def skip_tags(frame: Frame, position: int) -> int:
    """The offset after tagged fields, which are all ignored. Raises MalformedError."""
    try:
        return skip_tagged_fields(frame, position)
    except IndexError:
        raise MalformedError("tagged fields end beyond the response") from None


def correlation_id(frame: Frame) -> int:
    """The correlation id of a response; a frame has at least these four bytes."""
    number: int = _int32(frame, 0)[0]
    return number
