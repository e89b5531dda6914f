"""The way of large responses to a client: piece by piece, as fast as it reads.

- TLS encrypts all that it is given at once, and the costs grow faster than the size.
- Records that are in a file are sent from there by the system, which copies them nowhere
  (sendfile). That needs a socket without bytes in front of them. What the socket does not take is
  read in small parts, when it is their turn.
"""

import asyncio
import contextlib
import socket
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, Protocol, TypeAlias

from kohort.log.stores import FileSlice, Records
from kohort.server.fetch import joined

ENCRYPT_CHUNK: Final = 64 * 1024
"""Bytes that are encrypted at once: ten times as many cost ten times as much for each of them."""

ENCRYPTED_PER_TURN: Final = 1024 * 1024
"""Bytes of one connection that are encrypted in one turn, in about a millisecond."""

READ_CHUNK: Final = 16 * 1024
"""Bytes that are read from a file while the socket is full."""

SEND_BUFFER: Final = 256 * 1024
"""Size of the socket's buffer (SO_SNDBUF). If it grows to a whole response, as it would by itself,
the system takes one and a half times the CPU time; Kafka has 100 KiB.
"""

SENT_PER_TURN: Final = 8 * 1024 * 1024
"""Bytes of one connection that are sent in one turn, in about a millisecond."""

_MORE: Final = getattr(socket, "MSG_MORE", 0)

Piece: TypeAlias = memoryview | FileSlice


class Writer(Protocol):
    """A connection, as the transport that it writes to uses it."""

    def data_received(self, data: bytes) -> None: ...

    def eof_received(self) -> bool: ...

    def connection_lost(self, error: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def drop(self, why: str) -> None:
        """Close at once, and log why."""
        ...


class PacingTransport(asyncio.Transport):
    """Transport that hands pieces to `transport` as fast as its client reads.

    `writer` is paused while pieces wait, here or in `transport`.
    """

    # Pieces wait only while the transport is full or `_resume` is to run in the next turn; or the
    # transport has failed, and its `connection_lost` is to come.
    __slots__ = (
        "_at", "_closes", "_is_full", "_paused", "_size", "_transport", "_waiting", "_writer",
    )  # fmt: skip
    per_turn: int
    """Bytes that are handed over in one turn."""

    def __init__(self, transport: asyncio.Transport, writer: Writer) -> None:
        self._transport = transport
        self._writer = writer
        self._waiting: deque[Piece] = deque()
        self._at = 0  # of the first one, what is handed over
        self._size = 0  # of what waits
        self._is_full = False  # the transport's buffer
        self._paused = False
        self._closes = False  # as soon as all is handed over

    @abstractmethod
    def hand_over(self, piece: Piece, offset: int) -> int:
        """Hand over some bytes of `piece`, from its byte `offset` on; returns how many.

        Raises OSError if a file cannot be read.
        """

    # What the connection calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._waiting:
            self._add(data)
        else:
            self._transport.write(data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Pass on pieces, `Records` among them."""
        is_first = not self._waiting
        for data in joined(tuple(list_of_data)):
            self._add(data)
        if is_first:
            self._resume()

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

    # Callbacks of the transport

    def pause_writing(self) -> None:
        self._is_full = True
        self._pause()

    def resume_writing(self) -> None:
        self._is_full = False
        self._resume()

    def connection_lost(self) -> None:
        """Keep no bytes."""
        self._waiting.clear()
        self._size = self._at = 0

    def _add(self, data: Records | bytearray) -> None:
        if len(data):
            self._waiting.append(data if isinstance(data, FileSlice) else memoryview(data))
            self._size += len(data)

    def _resume(self) -> None:
        """Hand over waiting pieces, as far as the client reads and one turn allows."""
        budget = self.per_turn
        while self._waiting and not (self._is_full or self._transport.is_closing()):
            if budget <= 0:
                asyncio.get_running_loop().call_soon(self._resume)
                break
            try:
                budget -= self._hand_over_some(self._waiting[0])
            except OSError as error:
                self.connection_lost()
                self._writer.drop(f"the rest of its response cannot be read: {error}")
                return
        if self._waiting:
            self._pause()
        elif self._closes:
            # Not in `resume_writing`: a transport of asyncio then ends twice.
            asyncio.get_running_loop().call_soon(self._transport.close)
        elif self._paused and not self._is_full:
            self._paused = False
            self._writer.resume_writing()

    def _hand_over_some(self, piece: Piece) -> int:
        count = self.hand_over(piece, self._at)
        self._size -= count
        self._at += count
        if self._at == len(piece):
            self._waiting.popleft()
            self._at = 0
        return count

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._writer.pause_writing()


class EncryptingTransport(PacingTransport):
    """Transport to one of TLS."""

    __slots__ = ()
    per_turn = ENCRYPTED_PER_TURN

    def hand_over(self, piece: Piece, offset: int) -> int:
        data = _read(piece, offset, ENCRYPT_CHUNK)
        self._transport.write(data)
        return len(data)


class SendingTransport(PacingTransport):
    """Transport to one without encryption, and to its socket."""

    __slots__ = ("_socket",)
    per_turn = SENT_PER_TURN

    def __init__(
        self,
        transport: asyncio.Transport,
        connected: socket.socket,
        writer: Writer,
        *,
        is_full: bool,
    ) -> None:
        super().__init__(transport, writer)
        self._socket = connected
        self._is_full = self._paused = is_full

    def hand_over(self, piece: Piece, offset: int) -> int:
        if not self._transport.get_write_buffer_size():
            # A socket that has failed is the transport's to find.
            with contextlib.suppress(OSError):
                return self._send(piece, offset)
        data = _read(piece, offset, READ_CHUNK)
        self._transport.write(data)
        return len(data)

    def _send(self, piece: Piece, offset: int) -> int:
        if isinstance(piece, FileSlice):
            return piece.send(offset, self._socket.fileno())
        return self._socket.send(piece[offset:], _MORE if len(self._waiting) > 1 else 0)


def _read(piece: Piece, offset: int, count: int) -> bytes | memoryview:
    return (
        piece.read(offset, count)
        if isinstance(piece, FileSlice)
        else piece[offset : offset + count]
    )


class Sent(asyncio.Protocol):
    """Protocol of a transport between it and a connection that writes to `sending`."""

    def __init__(self, sending: SendingTransport, connection: Writer) -> None:
        self._sending = sending
        self._connection = connection

    def data_received(self, data: bytes) -> None:
        self._connection.data_received(data)

    def eof_received(self) -> bool:
        if not self._connection.eof_received():
            self._sending.close()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._sending.connection_lost()
        self._connection.connection_lost(error)

    def pause_writing(self) -> None:
        self._sending.pause_writing()

    def resume_writing(self) -> None:
        self._sending.resume_writing()


def sending_from_files(
    transport: asyncio.Transport,
    connected: socket.socket,
    connection: Writer,
    *,
    is_full: bool = False,
) -> SendingTransport:
    """The transport to which `connection`, the protocol of `transport`, writes from now on.

    `is_full`: `transport` has paused it.
    """
    with contextlib.suppress(OSError):  # a connection that has just ended
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    sending = SendingTransport(transport, connected, connection, is_full=is_full)
    transport.set_protocol(Sent(sending, connection))
    transport.set_write_buffer_limits(0)  # it tells when its buffer is empty
    return sending
