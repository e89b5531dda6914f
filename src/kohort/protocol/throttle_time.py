"""Sets the field `throttle_time_ms` of an encoded response.

Responses are encoded before the time is known. Nearly all have 0, and the few others are patched.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from kohort.protocol.apis import ALL_APIS, API_VERSIONS, BY_NAME
from kohort.protocol.message_classes import load_response_schema
from kohort.protocol.packing import pack_int32

_PRODUCE: Final = BY_NAME["produce"].key
_OFFSET_DELETE: Final = BY_NAME["offset_delete"].key
_SIZE: Final = 4
_TAGS: Final = 1
_HEAD: Final = 6
"""Bytes up to the end of the field, where it is at the beginning."""


def with_throttle_time(
    api_key: int, version: int, body: bytes | Sequence[Any], throttle_time_ms: int
) -> Sequence[Any]:
    """The response body with this time, if its version has the field, in pieces.

    Only the first piece is copied; those of Produce and ApiVersions are joined.
    """
    pieces: list[Any] = [body] if isinstance(body, bytes) else [*body]
    if not _has_field(api_key, version):
        return pieces
    if len(pieces[0]) < _HEAD or api_key in (_PRODUCE, API_VERSIONS):
        pieces = [b"".join(pieces)]
    offset = _offset(api_key, version, pieces[0])
    pieces[0] = b"".join(
        (pieces[0][:offset], pack_int32(throttle_time_ms), pieces[0][offset + _SIZE :])
    )
    return pieces


@cache
def _has_field(api_key: int, version: int) -> bool:
    if not ALL_APIS[api_key].serves(version):
        return False  # the response to an ApiVersions request of an unsupported version
    schema: Any = load_response_schema(api_key, version)
    return "throttle_time" in schema.__dataclass_fields__


def _offset(api_key: int, version: int, body: bytes | memoryview) -> int:
    flexible = ALL_APIS[api_key].flexible(version)
    if api_key == _PRODUCE:
        return len(body) - _SIZE - (_TAGS if flexible else 0)
    if api_key == API_VERSIONS:
        return _behind_api_keys(body, flexible)
    return 2 if api_key == _OFFSET_DELETE else 0


def _behind_api_keys(body: bytes | memoryview, flexible: bool) -> int:
    """Offset behind error and API keys in an ApiVersions response."""
    if not flexible:
        return 6 + 6 * int.from_bytes(body[2:6], "big")
    # a compact array of fewer than 127 entries
    return 3 + 7 * (body[2] - 1)
