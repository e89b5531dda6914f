"""The simulated network: latency, partitions, connections that are cut at a chosen message.

Bytes of one connection arrive in order. Each write has a latency of its own, so messages of
different connections overtake each other. A partition holds bytes back and has connection attempts
wait, as TCP does. Bytes that were sent before an abort still arrive: the server may handle a
request long after its client has given up.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final, Protocol, cast

from kohort.server.addresses import Address
from kohort.testing.simulation.frames import Message, MessageReader
from kohort.testing.simulation.loop import SimulatedLoop
from kohort.testing.simulation.process import Process, current_process
from kohort.testing.simulation.sockets import ListeningSocket
from kohort.testing.simulation.transport import RETRANSMISSION_S, End, Pipe, SimulatedTransport

MIN_LATENCY_S: Final = 0.0002
MEAN_LATENCY_S: Final = 0.001
"""Mean of the random part of the latency."""
SPLIT_PROBABILITY: Final = 0.05
"""Share of writes that arrive in two pieces."""
SERVER_HOST: Final = "kafka"
SERVER_IP: Final = "127.0.0.1"
SERVER_PORT: Final = 9092


class Tap(Protocol):
    """Observes messages."""

    def arrived(self, message: Message) -> None:
        """A request has arrived at the server, or a response at its client."""
        ...

    def lost(self, message: Message) -> None:
        """A message was lost, and its connection cut."""
        ...


@dataclass(frozen=True, slots=True)
class DoomedMessage:
    """The next message of a kind that gets lost."""

    host: str
    is_response: bool
    api: str | None
    """Kafka's name of its API; None: any."""

    def matches(self, message: Message) -> bool:
        return (
            message.host == self.host
            and message.is_response is self.is_response
            and self.api in (None, message.api)
        )


class Network:
    """All connections of a simulation."""

    def __init__(self, loop: SimulatedLoop, random: Random, tap: Tap) -> None:
        self.loop = loop
        self._tap = tap
        self.doomed: list[DoomedMessage] = []
        self._random = random
        self._listening: dict[tuple[str, int], ListeningSocket] = {}
        self._transports: dict[SimulatedTransport, MessageReader] = {}
        self._addresses = {SERVER_HOST: SERVER_IP}
        self._ports = 40_000
        self._blocked: set[str] = set()
        self._down: set[str] = set()
        self._slow: dict[str, float] = {}
        self._changed = asyncio.Event()
        """Set, and replaced, when a host can be reached again."""

    # --- state of the network ---

    def latency_s(self, client_host: str) -> float:
        """Random latency of one write."""
        mean_s = self._slow.get(client_host, MEAN_LATENCY_S)
        return MIN_LATENCY_S + self._random.expovariate(1 / mean_s)

    def is_blocked(self, client_host: str) -> bool:
        """Whether a client's host and the server cannot reach each other."""
        return client_host in self._blocked

    def is_down(self, host: str) -> bool:
        """Whether a machine is off: it does not even refuse connections."""
        return host in self._down

    def block(self, client_host: str) -> None:
        """Hold back everything between a client's host and the server, until `unblock`."""
        self._blocked.add(client_host)

    def unblock(self, client_host: str) -> None:
        """End a partition. What was held back is sent again."""
        self._blocked.discard(client_host)
        for transport in list(self._transports):
            if transport.client_host == client_host:
                transport.incoming.release(self._random.random() * RETRANSMISSION_S)
        self._notify()

    def slow_down(self, client_host: str, mean_latency_s: float | None) -> None:
        """Change the latency of a client's host; None: as usual."""
        if mean_latency_s is None:
            self._slow.pop(client_host, None)
        else:
            self._slow[client_host] = mean_latency_s

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def host_is_up(self, host: str) -> None:
        """A machine is on again."""
        self._down.discard(host)
        self._notify()

    def cut(self, client_host: str) -> int:
        """Reset all connections of a client's host, and lose what is on its way.

        Returns the number of connections.
        """
        cut = [
            transport
            for transport in self._transports
            if transport.client_host == client_host and not transport.is_server
        ]
        for transport in cut:
            self._cut(transport)
        return len(cut)

    def _cut(self, transport: SimulatedTransport) -> None:
        transport.incoming.lose()
        transport.outgoing.lose()

    def process_ended(self, process: Process, *, host_is_down: bool = False) -> None:
        """End the connections of a killed process; a machine that goes down ends none of them."""
        if host_is_down:
            self._down.add(process.host)
        for transport in [each for each in self._transports if each.process is process]:
            how = self._random.choice([End.FIN, End.RST])
            transport.process_ended(None if host_is_down else how)
            del self._transports[transport]
        for address, listening in list(self._listening.items()):
            if address[0] == self._addresses.get(process.host):
                listening.close()

    def arrived(self, message: Message) -> None:
        """A message has arrived."""
        self._tap.arrived(message)

    def forget(self, transport: SimulatedTransport) -> None:
        """The connection is lost at this end."""
        self._transports.pop(transport, None)

    # --- messages ---

    def send(self, transport: SimulatedTransport, data: bytes) -> None:
        """Send bytes, unless a message in them is doomed."""
        messages = self._transports[transport].feed(data)
        for message in messages:
            doomed = next((each for each in self.doomed if each.matches(message)), None)
            if doomed is not None:
                self.doomed.remove(doomed)
                self._tap.lost(message)
                self._cut(transport)
                return
        split = int(len(data) * self._random.random())
        if self._random.random() < SPLIT_PROBABILITY and split:
            transport.outgoing.send(data[:split])
            data = data[split:]
        transport.outgoing.send(data, messages)

    # --- connections ---

    def resolve(self, host: str, port: int) -> list[tuple[Any, ...]]:
        """As `getaddrinfo`. Raises socket.gaierror."""
        name = host.decode() if isinstance(host, bytes) else host
        address = self._addresses.get(name, name)
        if address not in self._addresses.values():
            raise socket.gaierror(socket.EAI_NONAME, f"no simulated machine {name!r}")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    def address_of(self, host: str) -> str:
        """The IP address of a machine."""
        return self._addresses.setdefault(host, f"10.0.1.{len(self._addresses)}")

    async def listen(self, address: Address) -> tuple[Address, list[socket.socket]]:
        """The `Listen` of a simulated server. Raises OSError."""
        place = SERVER_IP, address.port
        if place in self._listening:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        listening = ListeningSocket(place, partial(self._listening.pop, place, None))
        self._listening[place] = listening
        return Address(*place), [cast("socket.socket", listening)]

    async def connect(
        self, protocol_factory: Callable[[], Any], host: str, port: int
    ) -> tuple[SimulatedTransport, Any]:
        """Connect to the server. Raises OSError."""
        process = current_process.get(self.loop.main)
        await asyncio.sleep(self.latency_s(process.host))
        while self.is_blocked(process.host) or self.is_down(SERVER_HOST):
            await self._changed.wait()
            await asyncio.sleep(self._random.random() * RETRANSMISSION_S)
        listening = self._listening.get((host, port))
        if listening is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        transport = self._new_connection(process, listening)
        try:
            await asyncio.sleep(self.latency_s(process.host))
        except BaseException:
            transport.abort()
            raise
        protocol = protocol_factory()
        transport.attach(protocol)
        return transport, protocol

    def _new_connection(self, process: Process, listening: ListeningSocket) -> SimulatedTransport:
        requests, responses = Pipe(self), Pipe(self)
        client = SimulatedTransport(self, process, process.host, requests, responses)
        server_process = self.server_process
        server = SimulatedTransport(self, server_process, process.host, responses, requests)
        server.is_server = True
        requests.receiver, responses.receiver = server, client
        requests.reverse, responses.reverse = responses, requests
        reader = MessageReader(process.host, is_response=False)
        self._transports[client] = reader
        self._transports[server] = MessageReader(process.host, is_response=True, requests=reader)
        self._ports += 1
        listening.add(server, (self.address_of(process.host), self._ports))
        return client

    server_process: Process
    """The process that accepts connections."""
