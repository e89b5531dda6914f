"""Frames of requests and responses of any API, built from plain values."""

import struct
from typing import Any

from kohort.protocol.building import request, response
from kohort.protocol.message_classes import API_KEYS
from kohort.protocol.messages import encode
from kohort.recording.frames import API_VERSIONS, is_flexible


def request_frame(api: str, version: int, /, client_id: str = "test", **values: Any) -> bytes:
    """A request without its size."""
    key = API_KEYS[api]
    head = struct.pack(">hhih", key, version, 7, len(client_id)) + client_id.encode()
    tags = b"\0" if is_flexible(key, version) else b""
    return head + tags + encode(request(key, version, **values))


def response_frame(api: str, version: int, /, **values: Any) -> bytes:
    """A response without its size."""
    key = API_KEYS[api]
    tags = b"\0" if is_flexible(key, version) and key != API_VERSIONS else b""
    return struct.pack(">i", 7) + tags + encode(response(key, version, **values))
