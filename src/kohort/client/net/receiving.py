"""Splits the bytes of a socket into frames, with as few copies as possible.

The transport reads into memory that `Receiver` provides (asyncio's BufferedProtocol). Small
responses share one buffer and are copied out of it. A large response gets its own memory as soon as
its size is known, and the socket is read into that memory: its records are never copied again.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from kohort.protocol.framing import MalformedError, other_protocol

SHARED_SIZE: Final = 64 * 1024
"""Size of the buffer for sizes and small responses, in bytes."""
MIN_RESPONSE_SIZE: Final = 4
"""Size of the smallest response in bytes: its correlation id."""

_read_size = Struct(">i").unpack_from


class Receiver:
    """Provides memory to read into, and returns the received frames, without their sizes."""

    __slots__ = ("_end", "_filled", "_large", "_limit", "_shared", "_start")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._shared = bytearray(SHARED_SIZE)
        self._start = self._end = 0  # unread bytes of `_shared`
        self._large: bytearray | None = None
        self._filled = 0

    def get_buffer(self) -> memoryview:
        """Memory to which the transport may write; never empty."""
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        return memoryview(self._shared)[self._end :]

    def buffer_updated(self, received: int) -> Iterator[bytes | bytearray]:
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
        while (unread := self._end - self._start) >= 4:
            size = _read_size(shared, self._start)[0]
            if not MIN_RESPONSE_SIZE <= size <= self._limit:
                raise other_protocol(size) or MalformedError(
                    f"a response of {size:,} bytes; "
                    f"{MIN_RESPONSE_SIZE} to {self._limit:,} are accepted"
                )
            if unread < 4 + size:
                self._begin(size)
                return
            start = self._start + 4
            self._start = start + size
            yield bytes(memoryview(shared)[start : self._start])
        if self._end > SHARED_SIZE // 2:
            self._move(unread)

    def _begin(self, size: int) -> None:
        """Provide room for the remaining bytes of a frame whose first bytes have arrived."""
        unread = self._end - self._start
        if 4 + size <= SHARED_SIZE // 2:
            if 4 + size > SHARED_SIZE - self._start:
                self._move(unread)
            return
        self._large = bytearray(size)
        self._filled = unread - 4
        self._large[: self._filled] = memoryview(self._shared)[self._start + 4 : self._end]
        self._start = self._end = 0

    def _move(self, unread: int) -> None:
        """Move the unread bytes to the start of the shared buffer."""
        self._shared[:unread] = self._shared[self._start : self._end]
        self._start, self._end = 0, unread
