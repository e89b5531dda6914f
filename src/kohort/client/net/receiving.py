"""Splits the bytes of a socket into frames, with as few copies as possible.

The transport reads into memory that `Receiver` provides (asyncio's BufferedProtocol). Small
responses share one buffer and are copied out of it. A large response gets memory of its own as soon
as its size is known, and the socket is read into that: its records are never copied again.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from kohort.protocol.framing import MalformedError, other_protocol

SHARED: Final = 64 * 1024
"""Bytes of the buffer for sizes and small responses."""
LEAST: Final = 4
"""Bytes of the smallest response: its correlation id."""

_read_size = Struct(">i").unpack_from


class Receiver:
    """Provides memory to read into, and gives the frames that arrived, without their sizes."""

    __slots__ = ("_end", "_filled", "_large", "_limit", "_shared", "_start")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._shared = bytearray(SHARED)
        self._start = self._end = 0  # what was received and not taken out of `_shared`
        self._large: bytearray | None = None
        self._filled = 0

    def lend(self) -> memoryview:
        """The memory that the transport may write to; never empty."""
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        return memoryview(self._shared)[self._end :]

    def take(self, received: int) -> Iterator[bytes | bytearray]:
        """The frames that are complete after `received` more bytes.

        Raises MalformedError for a false size.
        """
        if self._large is not None:
            self._filled += received
            if self._filled == len(self._large):
                frame, self._large = self._large, None
                yield frame
            return
        self._end += received
        yield from self._small_frames()
        if self._start == self._end:
            self._start = self._end = 0

    def _small_frames(self) -> Iterator[bytes]:
        shared = self._shared
        while (rest := self._end - self._start) >= 4:
            size = _read_size(shared, self._start)[0]
            if not LEAST <= size <= self._limit:
                raise other_protocol(size) or MalformedError(
                    f"a response of {size:,} bytes; {LEAST} to {self._limit:,} are accepted"
                )
            if rest < 4 + size:
                self._begin(size)
                return
            start = self._start + 4
            self._start = start + size
            yield bytes(memoryview(shared)[start : self._start])
        if self._end > SHARED // 2:
            self._move(rest)

    def _begin(self, size: int) -> None:
        """Provide room for the rest of a frame whose first bytes have arrived."""
        rest = self._end - self._start
        if 4 + size <= SHARED // 2:
            if 4 + size > SHARED - self._start:
                self._move(rest)
            return
        self._large = bytearray(size)
        self._filled = rest - 4
        self._large[: self._filled] = memoryview(self._shared)[self._start + 4 : self._end]
        self._start = self._end = 0

    def _move(self, rest: int) -> None:
        """Move the unread bytes to the start of the shared buffer."""
        self._shared[:rest] = self._shared[self._start : self._end]
        self._start, self._end = 0, rest
