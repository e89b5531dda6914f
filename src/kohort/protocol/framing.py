"""Frames: four bytes of size (big-endian, signed), then that many bytes.

A push parser: `feed` adds received bytes, `next_frame` returns whole frames. A frame includes its
size, which avoids a copy in the usual case of one request per read; its content starts at
`CONTENT`. The reader keeps only bytes that are not part of a returned frame.
"""

from io import BytesIO
from struct import Struct
from typing import Final

from kohort.errors import KohortError

CONTENT: Final = 4
"""Offset of a frame's content."""

_SIZE: Final = Struct(">i")
_unpack_size = _SIZE.unpack_from
_HTTP_METHODS: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"PATC", b"OPTI", b"CONN")
_TLS: Final = (b"\x16\x03", b"\x15\x03")
_OTHER_PROTOCOLS: Final = {
    **dict.fromkeys((*_HTTP_METHODS, b"PRI "), "an HTTP request"),
    b"HTTP": "an HTTP response",
    **dict.fromkeys((b"<!DO", b"<!do", b"<htm", b"<HTM"), "an HTML page"),
    b"\x16\x03": "a TLS handshake",
    b"\x15\x03": "a TLS alert",
    b"SSH-": "SSH",
    b"PROX": "a header of the PROXY protocol",
    b"\r\n\r\n": "a header of the PROXY protocol",
}
"""Other protocols by their first bytes, which are no size of a frame up to 200 MB."""


class MalformedError(KohortError, ValueError):
    """Bytes are no valid frame or request: the rest of the connection cannot be parsed."""


class OtherProtocolError(MalformedError):
    """The first bytes of a connection are those of a protocol that is not Kafka's."""

    is_tls = False


def other_protocol(size: int) -> OtherProtocolError | None:
    """The error for the first four bytes of a connection, taken for a size.

    None if they belong to no known protocol.
    """
    start = _SIZE.pack(size)
    protocol = _OTHER_PROTOCOLS.get(start) or _OTHER_PROTOCOLS.get(start[:2])
    if protocol is None:
        return None
    error = OtherProtocolError(f"the bytes are {protocol}, not Kafka's protocol")
    error.is_tls = start[:2] in _TLS
    return error


class FrameReader:
    """Parses bytes to frames.

    `limit` is the largest content in bytes that is accepted (Kafka's `socket.request.max.bytes`); a
    larger or a negative size raises `MalformedError` from `next_frame` before its content arrives.
    """

    __slots__ = ("_data", "_partial", "_position", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._data = b""  # frames not taken yet start at `_position`; the last may be incomplete
        self._position = 0
        # A frame that takes several feeds; `_data` is used up then. Its bytes are taken out without
        # a copy, which would take 50 ms for 100 MiB.
        self._partial: BytesIO | None = None

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if self._partial is not None:
            self._partial.write(data)
        elif self._position == len(self._data):
            self._data, self._position = data, 0
        else:
            self._partial = BytesIO()
            self._partial.write(memoryview(self._data)[self._position :])
            self._partial.write(data)
            self._data, self._position = b"", 0

    def is_one_frame(self, data: bytes) -> bool:
        """Whether `data` is exactly one frame, which need not be fed if none is pending."""
        return len(data) > CONTENT and _unpack_size(data)[0] == len(data) - CONTENT <= self.limit

    def next_frame(self) -> bytes | None:
        """The next whole frame, its size in front; None if more bytes are needed.

        Raises `MalformedError`.
        """
        if self._partial is not None:
            return self._completed(self._partial)
        data, position = self._data, self._position
        remaining = len(data) - position
        if remaining < CONTENT:
            return None
        size: int = _unpack_size(data, position)[0]
        if not 0 <= size <= self.limit:
            raise self._refused(size)
        total = CONTENT + size
        if remaining < total:
            return None
        if remaining == total and position == 0:
            self._data = b""
            return data
        if remaining == total:
            self._data, self._position = b"", 0
        else:
            self._position = position + total
        return data[position : position + total]

    def _completed(self, partial: BytesIO) -> bytes | None:
        size_wanted = self.wanted()
        if partial.tell() < size_wanted:
            return None
        self._data = bytes(partial.getbuffer()[size_wanted:])
        self._partial = None
        partial.truncate(size_wanted)
        return partial.getvalue()

    def wanted(self) -> int:
        """Size in bytes of the next frame, including its size field.

        `CONTENT` while the size is unknown.
        """
        data, position = self._data, self._position
        if self._partial is not None:
            data, position = bytes(self._partial.getbuffer()[:CONTENT]), 0
        if len(data) - position < CONTENT:
            return CONTENT
        size: int = _unpack_size(data, position)[0]
        if not 0 <= size <= self.limit:
            raise self._refused(size)
        return CONTENT + size

    @property
    def is_empty(self) -> bool:
        """Whether all fed bytes were returned."""
        return not self._data and self._partial is None

    @property
    def buffered(self) -> int:
        """Number of fed bytes that were not returned yet."""
        partial = 0 if self._partial is None else self._partial.tell()
        return partial + len(self._data) - self._position

    def _refused(self, size: int) -> MalformedError:
        return other_protocol(size) or MalformedError(
            f"frame of {size} bytes, 0 to {self.limit} are accepted"
        )
