"""One end of a simulated connection, and the two pipes between both ends."""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Iterable, Sequence
from contextvars import Context
from enum import Enum
from typing import Any, Final, Protocol

from kohort.testing.simulation.frames import Message
from kohort.testing.simulation.loop import SimulatedLoop
from kohort.testing.simulation.process import Process

BUFFER_BYTES: Final = 256 * 1024
"""Bytes on their way that a writer does not wait for: the buffers of both systems."""
RETRANSMISSION_S: Final = 1.0
"""Longest time until held bytes are sent again after a partition of the network."""


class Medium(Protocol):
    """The network, as its connections use it."""

    loop: SimulatedLoop

    def latency_s(self, client_host: str) -> float:
        """Random latency of one write of a connection of this host."""
        ...

    def is_blocked(self, client_host: str) -> bool:
        """Whether a client's host and the server cannot reach each other."""
        ...

    def is_down(self, host: str) -> bool:
        """Whether a machine is off."""
        ...

    def send(self, transport: "SimulatedTransport", data: bytes) -> None:
        """Send bytes by the pipe of `transport`, or lose them."""
        ...

    def arrived(self, message: Message) -> None:
        """A message has arrived."""
        ...

    def forget(self, transport: "SimulatedTransport") -> None:
        """The connection is lost at this end."""
        ...


class End(Enum):
    """The end of a stream of bytes."""

    FIN = "closed"
    RST = "reset"


class Pipe:
    """One direction of a connection. Whatever is sent arrives in order, unless it is lost."""

    def __init__(self, network: Medium) -> None:
        self.receiver: SimulatedTransport
        self.reverse: Pipe
        self.waiting_bytes = 0
        self._network = network
        self._items: deque[tuple[float, bytes | End, Sequence[Message]]] = deque()
        self._last_arrival = 0.0
        self._is_armed = False

    def send(self, item: bytes | End, messages: Sequence[Message] = ()) -> None:
        """Have `item` arrive after the latency of the network; `messages` end in it."""
        receiver = self.receiver
        if receiver.process.has_ended:
            if not self._network.is_down(receiver.process.host) and item is not End.RST:
                self.reverse.send(End.RST)
            return
        latency_s = self._network.latency_s(receiver.client_host)
        arrival = max(self._last_arrival, self._network.loop.time() + latency_s)
        self._last_arrival = arrival
        self._items.append((arrival, item, messages))
        if isinstance(item, bytes):
            self.waiting_bytes += len(item)
        self.arm()

    def lose(self) -> None:
        """Lose what is on its way, and end the connection at the receiver."""
        self._items.clear()
        self.waiting_bytes = 0
        self.send(End.RST)

    def release(self, delay_s: float) -> None:
        """The network is whole again: what was held arrives after this time."""
        if self._items and not self._is_armed:
            _, item, messages = self._items.popleft()
            self._items.appendleft((self._network.loop.time() + delay_s, item, messages))
            self.arm()

    def arm(self) -> None:
        """Set the timer of the next arrival."""
        if self._items and not self._is_armed:
            self._is_armed = True
            receiver = self.receiver
            self._network.loop.call_at(
                self._items[0][0], self._arrive, context=receiver.process.context
            )

    def _arrive(self) -> None:
        self._is_armed = False
        receiver = self.receiver
        if not self._items or not receiver.takes_bytes:
            return
        if self._items[0][0] > self._network.loop.time():  # the earlier item was lost
            self.arm()
            return
        if self._network.is_blocked(receiver.client_host):
            return
        _, item, messages = self._items.popleft()
        if isinstance(item, bytes):
            self.waiting_bytes -= len(item)
            self.reverse.receiver.drained(self.waiting_bytes)
        for message in messages:
            self._network.arrived(message)
        receiver.receive(item)
        self.arm()


class SimulatedTransport(asyncio.Transport):
    """The transport of one end."""

    def __init__(
        self, network: Medium, process: Process, client_host: str, outgoing: Pipe, incoming: Pipe
    ) -> None:
        """`client_host` is the machine of the end that has connected."""
        super().__init__()
        self.process = process
        self.client_host = client_host
        self.is_server = False
        self.outgoing = outgoing
        self.incoming = incoming
        self.takes_bytes = False
        """Whether bytes are taken; they wait before `attach`, and after `pause_reading`."""
        self._network = network
        self._protocol: Any = None
        self._is_closing = False
        self._is_lost = False
        self._is_full = False

    def attach(self, protocol: Any) -> None:
        """Begin to pass bytes to `protocol`."""
        self._protocol = protocol
        protocol.connection_made(self)
        self.resume_reading()

    # --- what arrives ---

    def receive(self, item: bytes | End) -> None:
        """Pass on what has arrived."""
        if item is End.RST:
            self._lose(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
        elif self._is_closing:
            if item is not End.FIN:
                self.outgoing.send(End.RST)
        elif isinstance(item, bytes):
            self._pass_on(item)
        elif not self._protocol.eof_received():
            self.close()

    def _pass_on(self, data: bytes) -> None:
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(data)
            return
        while data and not self._is_closing:
            buffer: Any = self._protocol.get_buffer(-1)
            count = min(len(data), len(buffer))
            buffer[:count] = data[:count]
            data = data[count:]
            self._protocol.buffer_updated(count)

    def _lose(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_closing = self._is_lost = True
            self._network.forget(self)
            if self._protocol is not None:
                self._protocol.connection_lost(error)

    def drained(self, waiting_bytes: int) -> None:
        """Some bytes have arrived at the other end."""
        if self._is_full and waiting_bytes < BUFFER_BYTES // 2:
            self._is_full = False
            if not self._is_lost:
                self._network.loop.call_soon(
                    self._protocol.resume_writing, context=self.process.context
                )

    # --- asyncio.Transport ---

    def write(self, data: Any) -> None:
        if self._is_closing:
            return
        self._network.send(self, bytes(data))
        if self.outgoing.waiting_bytes > BUFFER_BYTES and not self._is_full:
            self._is_full = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(map(bytes, list_of_data)))

    def close(self) -> None:
        self._end(End.FIN)

    def abort(self) -> None:
        self._end(End.RST)

    def _end(self, how: End) -> None:
        if not self._is_closing:
            self._is_closing = True
            self.outgoing.send(how)
            self._soon(self.process.context)

    def _soon(self, context: Context) -> None:
        self._network.loop.call_soon(self._lose, None, context=context)

    def process_ended(self, how: End | None) -> None:
        """The process was killed; the system of its machine ends the connection, unless `None`."""
        if not self._is_closing and how is not None:
            self.outgoing.send(how)
        self._is_closing = self._is_lost = True

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return self.takes_bytes

    def pause_reading(self) -> None:
        self.takes_bytes = False

    def resume_reading(self) -> None:
        if not self._is_closing:
            self.takes_bytes = True
            self.incoming.arm()

    def get_write_buffer_size(self) -> int:
        return max(self.outgoing.waiting_bytes - BUFFER_BYTES, 0)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The limits are fixed."""
