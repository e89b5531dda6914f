"""The way of responses from a connection to TLS.

A transport of TLS encrypts all that it is given at once, and the costs grow faster than the size.
Large responses therefore wait here, and are encrypted piece by piece as fast as the client reads.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

ENCRYPT_TOGETHER: Final = 64 * 1024
"""Bytes that are encrypted at once: ten times as many cost ten times as much for each of them."""

ENCRYPTED_PER_TURN: Final = 1024 * 1024
"""Bytes of one connection that are encrypted in one turn, in about a millisecond."""


class EncryptingTransport(asyncio.Transport):
    """Transport that hands bytes to `transport`, one of TLS, as fast as its client reads.

    `protocol` is told to pause writing while bytes wait, here or in `transport`.
    """

    # Bytes wait only while the transport is full or `_encrypt` is to run in the next turn.
    __slots__ = ("_closes", "_is_full", "_paused", "_protocol", "_size", "_transport", "_waiting")

    def __init__(self, transport: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        self._transport = transport
        self._protocol = protocol
        self._waiting: deque[memoryview] = deque()
        self._size = 0  # of what waits
        self._is_full = False  # the transport's buffer
        self._paused = False
        self._closes = False  # as soon as all is encrypted

    # What the connection calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._waiting:
            self._add(data)
        else:
            self._transport.write(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        is_first = not self._waiting
        for data in list_of_data:
            self._add(data)
        if is_first:
            self._encrypt()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size() + self._size

    def close(self) -> None:
        if self._waiting:
            self._closes = True
        else:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    # What the transport tells its protocol

    def pause_writing(self) -> None:
        self._is_full = True
        self._pause()

    def resume_writing(self) -> None:
        self._is_full = False
        self._encrypt()

    def connection_lost(self) -> None:
        """Keep no bytes."""
        self._waiting.clear()
        self._size = 0

    def _add(self, data: bytes | bytearray | memoryview) -> None:
        self._waiting.append(memoryview(data))
        self._size += len(data)

    def _encrypt(self) -> None:
        """Encrypt what waits, as far as the client reads it and one turn goes."""
        budget = ENCRYPTED_PER_TURN
        while self._waiting and not self._is_full:
            if budget <= 0:
                asyncio.get_running_loop().call_soon(self._encrypt)
                break
            piece = self._waiting.popleft()
            if len(piece) > ENCRYPT_TOGETHER:
                self._waiting.appendleft(piece[ENCRYPT_TOGETHER:])
                piece = piece[:ENCRYPT_TOGETHER]
            budget -= len(piece)
            self._size -= len(piece)
            self._transport.write(piece)
        if self._waiting:
            self._pause()
        elif self._closes:
            self._transport.close()
        elif self._paused and not self._is_full:
            self._paused = False
            self._protocol.resume_writing()

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._protocol.pause_writing()
