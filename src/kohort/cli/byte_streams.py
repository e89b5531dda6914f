"""Standard input and output without blocking the event loop.

A full pipe, or a terminal without input, must not stop the loop: members would miss their
heartbeats, and signals would be ignored. The loop waits for both, and a pipe is never given more
bytes than it accepts at once. The descriptors stay blocking, because they are shared with other
processes.
"""

import asyncio
import os
import select
import stat
from collections.abc import AsyncIterator
from typing import Final

PIECE: Final = select.PIPE_BUF
"""Bytes that a pipe which can be written takes without blocking (POSIX)."""
READ_SIZE: Final = 1 << 16


class ByteOutput:
    """Writes to a descriptor, in order.

    The next `write` continues a cancelled one.
    """

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._pending = bytearray()
        self._waits = not _never_blocks(descriptor)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._turn = asyncio.Lock()

    async def write(self, data: bytes) -> None:
        """Write all data. Raises BrokenPipeError if the reader has closed its end, OSError."""
        self._pending += data
        await self.flush()

    async def flush(self) -> None:
        """Finish cancelled writes. Raises as `write`."""
        async with self._turn:
            while self._pending:
                size = PIECE if self._waits else len(self._pending)
                if self._waits and not self._poll.poll(0):
                    await self._writable()
                with memoryview(self._pending) as view, view[:size] as piece:
                    written = os.write(self._descriptor, piece)
                del self._pending[:written]

    @property
    def is_broken(self) -> bool:
        """Whether the reader has closed its end. Call it while there is nothing to write."""
        return self._waits and any(events & select.POLLERR for _, events in self._poll.poll(0))

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(self._descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(self._descriptor)


async def chunks(descriptor: int = 0) -> AsyncIterator[bytes]:
    """The data of a descriptor, in chunks as they arrive, up to its end. Raises OSError."""
    waits = not _never_blocks(descriptor)
    while True:
        if waits:
            await _readable(descriptor)
        data = os.read(descriptor, READ_SIZE)
        if not data:
            return
        yield data


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def _never_blocks(descriptor: int) -> bool:
    """Files, and devices such as /dev/null, which no loop can wait for."""
    mode = os.fstat(descriptor).st_mode
    return not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor))


async def split(
    source: AsyncIterator[bytes], delimiter: bytes, limit: int
) -> AsyncIterator[list[bytes]]:
    """Yield the messages between delimiters, as many as arrive together.

    The last one may lack its delimiter. Empty ones are dropped, as in kcat. Raises ValueError when
    one is longer than `limit`.
    """
    incomplete = b""
    async for data in source:
        *complete, incomplete = (incomplete + data).split(delimiter)
        yield [message for message in complete if message]
        if len(incomplete) > limit:
            raise ValueError(
                f"a message of more than {limit} bytes: is the delimiter {delimiter!r} right?"
            )
    if incomplete:
        yield [incomplete]
