"""One TCP connection to a broker, with pipelined requests and responses in order.

    connection = await Connection.open(("localhost", 9092), config)
    response = await connection.send("find_coordinator", key_type=0, key="orders")

`send` uses the highest version that both sides and the caller speak, and gives kio's response of
that version. `submit` is for callers that write and read bodies themselves (produce, fetch). Limits
apply to the requests in flight, the time of each, and the size of a response. A request that times
out closes the connection: responses come in order, so a late one would be taken for the next.
"""

import asyncio
import os
import re
import socket
import ssl
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self, cast

from kohort.client.config import UNIX, Address, ClientConfig
from kohort.client.errors import AuthenticationError, BrokerUnreachableError, RequestTimeoutError
from kohort.client.net.counters import NetCounters
from kohort.client.net.handshake import UNASKED, Offered, ask_versions, authenticate
from kohort.client.net.receiving import Receiver
from kohort.client.net.send_gate import BlockReason, SendGate
from kohort.client.net.tls_errors import ENDED, NO_TLS, certificate_hint, told
from kohort.client.net.versions import (
    Frame,
    Wire,
    common_version,
    correlation_id,
    unsupported,
    wire,
)
from kohort.client.security import Security
from kohort.errors import KafkaError, fresh
from kohort.protocol.compression import Buffer
from kohort.protocol.framing import MalformedError, OtherProtocolError

JOIN_BELOW: Final = 32 * 1024
"""Size in bytes up to which a request, or a piece of a larger one, is joined to others."""

CLOSE_GRACE_S: Final = 1.0
"""Time limit for sending what was written before a close."""

REAUTHENTICATE_AT: Final = 0.85
"""Part of a SASL session's lifetime after which it is renewed, as Java's client does (KIP-368)."""


class _Call:
    """A request in flight."""

    __slots__ = ("api", "correlation_id", "deadline", "frame", "sent")

    def __init__(
        self,
        api: str,
        correlation_id: int,
        frame: "asyncio.Future[Frame]",
        sent: float,
        deadline: float,
    ):
        self.api = api
        self.correlation_id = correlation_id
        self.frame = frame
        self.sent = sent
        self.deadline = deadline


class Connection(asyncio.BufferedProtocol):
    """A connection, opened by `Connection.open` and used from one event loop."""

    def __init__(self, address: Address, config: ClientConfig, counters: NetCounters) -> None:
        self.address = address
        self.closed = False
        """Whether nothing can be sent any more; `reason` says why."""
        self.reason = ""
        self.host = ""
        """The IP address, or the host of the address if that was connected to by name."""
        self.is_useless = False
        """Whether the broker proved useless, as one that sends no responses does.

        Another IP address of the name should be tried before this one.
        """
        self._config = config
        self._counters = counters
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._receiver = Receiver(config.max_response_bytes)
        self._offered: Offered = UNASKED
        self._features: Mapping[str, int] = {}
        self._client_id = (
            len(config.client_id.encode()).to_bytes(2, "big") + config.client_id.encode()
        )
        self._pending: deque[_Call] = deque()
        self._next_id = 0
        self._slots = asyncio.Semaphore(config.max_in_flight_requests_per_connection)
        self._gate = SendGate()
        self._renewing: asyncio.Task[None] | None = None
        self._emptied = asyncio.Event()
        """Set when nothing is in flight any more, for a renewal that waits."""
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._renew_timer: asyncio.TimerHandle | None = None
        self._last_used = self._loop.time()
        self._lost = asyncio.Event()
        self._refused: ssl.SSLError | None = None
        """The broker's refusal of our certificate, which comes after the handshake (TLS 1.3)."""

    def __repr__(self) -> str:
        state = f"closed: {self.reason}" if self.closed else f"{len(self._pending)} in flight"
        return f"<Connection {named(self.address)} {state}>"

    @classmethod
    async def open(
        cls,
        address: Address,
        config: ClientConfig,
        counters: NetCounters | None = None,
        ip_address: str | None = None,
    ) -> Self:
        """Connect, request the versions, and authenticate; `counters` are those of the client.

        With `ip_address` that one is connected to, and TLS verifies the host of `address`.

        Raises BrokerUnreachableError if that fails or takes longer than
        `socket_connection_setup_timeout_ms`, AuthenticationError if the broker refuses the client.
        """
        connection: Self | None = None
        limit_s = config.socket_connection_setup_timeout_ms / 1000
        try:
            with told_as_unreachable(address, config.security):
                async with asyncio.timeout(limit_s):
                    host = ip_address or address[0]
                    connection = await cls._connect(
                        address, config, counters or NetCounters(), host
                    )
                    connection.host = host
                    await connection._greet()
        except TimeoutError:
            silent = "" if connection is None else connection._silence_hint()
            failed = BrokerUnreachableError(
                f"{named(address)} did not complete a connection within {limit_s:g} s{silent}"
            )
            if connection is not None:
                connection.fail(failed)
            raise fresh(failed) from None
        except BaseException as error:
            if connection is not None:
                connection.fail(BrokerUnreachableError(str(error)))
            raise
        return connection

    @classmethod
    async def _connect(
        cls, address: Address, config: ClientConfig, counters: NetCounters, ip_address: str
    ) -> Self:
        context = config.security.context()
        loop = asyncio.get_running_loop()
        host, port = address
        if host.startswith(UNIX):
            _, protocol = await loop.create_unix_connection(
                lambda: cls(address, config, counters), host.removeprefix(UNIX)
            )
            return protocol
        _, protocol = await loop.create_connection(
            lambda: cls(address, config, counters),
            ip_address,
            port,
            ssl=context,
            server_hostname=host if context else None,
        )
        return protocol

    async def _greet(self) -> None:
        try:
            self._offered, self._features = await ask_versions(self._submit_now)
        except BrokerUnreachableError:
            if self._refused is not None:
                raise fresh(self._refused) from None
            raise
        if self._config.security.is_sasl:
            await self._authenticate()
        self._watch_idleness()

    # For callers

    def version(self, api: str) -> int | None:
        """The highest version of an API that both sides speak; None if there is none."""
        return common_version(api, self._offered)

    @property
    def features(self) -> Mapping[str, int]:
        """Finalized levels of the features of the cluster when the connection opened."""
        return self._features

    def feature(self, name: str) -> int:
        """The finalized level of a feature of the cluster when the connection opened, or 0."""
        return self._features.get(name, 0)

    def how(self, api: str, least: int = 0, most: int | None = None) -> Wire:
        """The highest version that both sides and the caller speak.

        Raises UnsupportedVersionError.
        """
        version = common_version(api, self._offered, least, most)
        if version is None:
            raise unsupported(api, self._offered, least, most)
        return wire(api, version)

    async def preload(self, *apis: str, most: int | None = None) -> None:
        """Load what requests of these APIs take, up to version `most`, before they are needed."""
        for api in apis:
            version = common_version(api, self._offered, most=most)
            if version is not None:
                wire(api, version).preload()
                await asyncio.sleep(0)

    async def send(
        self,
        api: str,
        /,
        *,
        timeout_ms: int | None = None,
        min_version: int = 0,
        max_version: int | None = None,
        **fields: Any,
    ) -> Any:
        """Send a request in the highest common version, and return kio's response.

        `fields` are as `protocol.building.request` takes them; those that the version lacks are
        dropped. Raises UnsupportedVersionError, BrokerUnreachableError, RequestTimeoutError after
        `timeout_ms` (default: `request_timeout_ms`). Error codes inside the response are the
        caller's concern.
        """
        how = self.how(api, min_version, max_version)
        return self.decode(how, await self.submit(how, how.body(fields), timeout_ms=timeout_ms))

    def decode(self, how: Wire, frame: Frame) -> Any:
        """Read kio's response.

        An unreadable one closes the connection: raises BrokerUnreachableError.
        """
        try:
            response = how.read(frame, how.body_at(frame))  # type: ignore[arg-type]  # kio reads from any buffer
        except MalformedError as error:
            raise self.fail(self._garbage(error)) from None
        if asked := getattr(response, "throttle_time", None):
            self.throttle(asked.total_seconds())
        return response

    def throttle(self, seconds: float) -> None:
        """Send nothing for so long, since the client is over its quota (KIP-219).

        No longer than `request_timeout_ms`, whatever the broker requested.
        """
        self._counters.throttled.observe(seconds)
        self._gate.throttle(min(seconds, self._config.request_timeout_ms / 1000))

    async def submit(
        self, how: Wire, *body: Buffer, timeout_ms: int | None = None, await_response: bool = True
    ) -> Frame:
        """Send a request whose body is in pieces, and return the response without its size.

        Waits while too many requests are in flight. Returns b"" at once if no response is awaited
        (`await_response`). Raises BrokerUnreachableError, RequestTimeoutError.
        """
        if not await_response:
            await self._passed(how.api, timeout_ms)
            self._write(how, body, 0)
            return b""
        async with self._slots:
            await self._gate.passed()  # again: it may have closed while the slots were taken
            return await self._post(how, body, timeout_ms)

    async def _passed(self, api: str, timeout_ms: int | None) -> None:
        """Pass the gate. No response that is late ends the wait for a broker that reads nothing."""
        limit_s = (self._config.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        try:
            async with asyncio.timeout(limit_s):
                await self._gate.passed()
        except TimeoutError:
            raise self.fail(
                RequestTimeoutError(
                    f"{api} could not be sent within {limit_s:g} s, as the broker reads nothing; "
                    "the connection is closed"
                )
            ) from None

    async def close(self) -> None:
        """Close the connection; requests in flight raise BrokerUnreachableError."""
        self.fail(
            BrokerUnreachableError(f"the connection to {named(self.address)} was closed by us"),
            abort=False,
        )
        try:
            async with asyncio.timeout(CLOSE_GRACE_S):
                await self._lost.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()

    @property
    def in_flight(self) -> int:
        """Number of requests that have no response yet."""
        return len(self._pending)

    def fail(self, error: BrokerUnreachableError, *, abort: bool = True) -> BrokerUnreachableError:
        """End the connection and all requests in flight with that error, which is returned."""
        if not self.closed:
            self.closed = True
            self.reason = str(error)
            self.is_useless = isinstance(error, RequestTimeoutError)
            for timer in (self._timer, self._idle_timer, self._renew_timer):
                if timer is not None:
                    timer.cancel()
            self._gate.closed_for_good()
            self._emptied.set()
            pending, self._pending = self._pending, deque()
            for call in pending:
                if abort:
                    self._counters.failures.count(call.api)
                if not call.frame.done():
                    call.frame.set_exception(
                        type(error)(f"{call.api} to {named(self.address)}: {error}")
                    )
                    call.frame.exception()  # mark it as read: no caller may be waiting
            if self._transport is not None:
                self._transport.abort() if abort else self._transport.close()
        return error

    # Requests

    async def _send_now(self, api: str, /, *, min_version: int = 0, **fields: Any) -> Any:
        """`send`, also while other requests wait for authentication."""
        how = self.how(api, min_version, None)
        return self.decode(how, await self._submit_now(how, how.body(fields)))

    def _submit_now(self, how: Wire, body: bytes) -> "asyncio.Future[Frame]":
        return self._post(how, (body,), None)

    def _post(
        self, how: Wire, body: tuple[Buffer, ...], timeout_ms: int | None
    ) -> "asyncio.Future[Frame]":
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        now = self._loop.time()
        deadline = (
            now + (self._config.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        )
        frame: asyncio.Future[Frame] = self._loop.create_future()
        self._write(how, body, self._next_id)
        self._pending.append(_Call(how.api, self._next_id, frame, now, deadline))
        if self._timer is None or deadline < self._timer.when():
            self._set_timer(deadline)
        return frame

    def _write(self, how: Wire, body: tuple[Buffer, ...], number: int) -> None:
        if self.closed or self._transport is None:
            raise BrokerUnreachableError(
                f"{how.api} to {named(self.address)} cannot be sent: {self.reason}"
            )
        self._last_used = self._loop.time()
        size = sum(map(len, body))
        head = how.head(number, self._client_id, size)
        self._counters.sent_bytes += len(head) + size
        # The transport's writelines copies all of it before Python 3.12.
        for piece in joined((head, *body)):
            self._transport.write(piece)

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._time_is_over)

    def _time_is_over(self) -> None:
        """Handle the timer of the earliest deadline; usually its request has its response."""
        self._timer = None
        if not self._pending:
            return
        first = min(self._pending, key=lambda call: call.deadline)
        if first.deadline > self._loop.time():
            self._set_timer(first.deadline)
            return
        waited = self._loop.time() - first.sent
        self.fail(
            RequestTimeoutError(
                f"{first.api} got no response within {waited:.1f} s; the connection is closed"
            )
        )

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def get_buffer(self, _hint: int) -> memoryview:
        return self._receiver.lend()

    def buffer_updated(self, received: int) -> None:
        try:
            for frame in self._receiver.take(received):
                self._settle(frame)
        except MalformedError as error:
            self.fail(self._garbage(error))

    def pause_writing(self) -> None:
        self._gate.block(BlockReason.FULL)

    def resume_writing(self) -> None:
        self._gate.unblock(BlockReason.FULL)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        why = f": {error}" if error else self._protocol_hint()
        if (
            isinstance(error, ssl.SSLError)
            and not isinstance(error, ENDED)
            and self._offered is UNASKED
        ):
            self._refused = error
        self.fail(BrokerUnreachableError(f"{named(self.address)} closed the connection{why}"))
        self._lost.set()

    def _settle(self, frame: Frame) -> None:
        if self.closed:
            return
        if not self._pending:
            raise MalformedError("a response to no request")
        call = self._pending.popleft()
        if (found := correlation_id(frame)) != call.correlation_id:
            self._pending.appendleft(call)
            raise MalformedError(f"correlation id {found} instead of {call.correlation_id}")
        if not self._pending:
            self._emptied.set()
        self._counters.responded(call.api, self._loop.time() - call.sent, 4 + len(frame))
        if not call.frame.done():
            call.frame.set_result(frame)

    def _garbage(self, error: MalformedError) -> BrokerUnreachableError:
        is_other = isinstance(error, OtherProtocolError) and not error.is_tls
        hint = "; give the port of a Kafka listener" if is_other else self._protocol_hint()
        return BrokerUnreachableError(
            f"{named(self.address)} sent a response that cannot be read: {error}{hint}"
        )

    def _silence_hint(self) -> str:
        """What may be wrong with a port that takes connections, and sends nothing."""
        if self._offered is not UNASKED:
            return ""
        return ": it sent no response to the first request; is this a Kafka listener?"

    def _protocol_hint(self) -> str:
        """What may be wrong with a listener that does not respond to the first request."""
        if self._offered is not UNASKED:
            return ""
        if self._config.security.is_tls:
            hint = "; is this a Kafka listener with that security protocol?"
            return hint + certificate_hint(self._config.security)
        return "; does this listener need TLS (security protocol SSL or SASL_SSL)?"

    # Idleness, authentication

    def _watch_idleness(self) -> None:
        limit = self._config.connections_max_idle_ms / 1000
        rest = self._last_used + limit - self._loop.time()
        if rest <= 0 and not self._pending:
            self.fail(BrokerUnreachableError(f"idle for {limit:g} s"), abort=False)
        else:
            self._idle_timer = self._loop.call_later(
                rest if rest > 0 else limit, self._watch_idleness
            )

    async def _authenticate(self) -> None:
        lifetime_ms = await authenticate(self._send_now, self._config.security)
        if lifetime_ms > 0:
            self._renew_timer = self._loop.call_later(
                lifetime_ms / 1000 * REAUTHENTICATE_AT, self._start_renewing
            )

    def _start_renewing(self) -> None:
        self._gate.block(BlockReason.RENEWING)
        self._renewing = self._loop.create_task(self._renew())

    async def _renew(self) -> None:
        """Authenticate again while nothing else is sent.

        A broker accepts no other request between the messages of an authentication. It also takes
        none before what is in flight has its response, and a JoinGroup may wait for longer than
        `request_timeout_ms`: until then the handshake is not sent. The session may end meanwhile.
        """
        try:
            self._emptied.clear()
            if self._pending:
                await self._emptied.wait()
            await self._authenticate()
        except (AuthenticationError, BrokerUnreachableError, KafkaError) as error:
            self.fail(BrokerUnreachableError(f"authentication could not be renewed: {error}"))
        finally:
            self._renewing = None
            self._gate.unblock(BlockReason.RENEWING)


def named(address: Address) -> str:
    """The address as HOST:PORT, or unix:/PATH."""
    host, port = address
    if host.startswith(UNIX):
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def joined(pieces: Iterable[Buffer]) -> Iterator[Buffer]:
    """The same bytes, with small pieces joined to each other and large ones as they are."""
    small: list[Buffer] = []
    for piece in pieces:
        if len(piece) <= JOIN_BELOW:
            small.append(piece)
            continue
        if small:
            yield b"".join(small)
            small.clear()
        yield piece
    if small:
        yield b"".join(small)


@contextmanager
def told_as_unreachable(address: Address, security: Security) -> Iterator[None]:
    """Turn errors of connecting into KohortErrors. TimeoutError is left to the caller."""
    try:
        yield
    except TimeoutError:
        raise
    except (ConnectionResetError, *ENDED) as error:
        hint = (
            f" during the TLS handshake; {NO_TLS}{certificate_hint(security)}"
            if security.is_tls
            else ""
        )
        raise BrokerUnreachableError(f"{named(address)} closed the connection{hint}") from error
    except ssl.SSLError as error:
        raise AuthenticationError(f"TLS with {named(address)} failed: {told(error)}") from error
    except OSError as error:
        unreachable = BrokerUnreachableError(f"{named(address)}: {_told_by_system(error)}")
        # Without a file there is no Unix socket.
        unreachable.is_refused = isinstance(error, ConnectionRefusedError | FileNotFoundError)
        raise fresh(unreachable) from error
    except (KafkaError, MalformedError) as error:
        raise BrokerUnreachableError(
            f"{named(address)} is no Kafka broker that we understand: {error}"
        ) from error


def _told_by_system(error: OSError) -> str:
    """The operating system's words, in whose place asyncio puts its own.

    Of several addresses of a name, all tried, asyncio has the numbers in the text only.
    """
    if error.errno is None:
        numbers = dict.fromkeys(re.findall(r"\[Errno (\d+)\]", str(error)))
        return ", ".join(os.strerror(int(each)) for each in numbers) or str(error)
    known = not isinstance(error, socket.gaierror)
    return os.strerror(error.errno) if known else error.strerror or str(error)
