"""One TCP connection to a broker, with pipelined requests and responses in order.

    connection = await Connection.open(("localhost", 9092), config)
    response = await connection.send("find_coordinator", key_type=0, key="orders")

`send` uses the highest common version of client, broker and caller, and returns kio's response of
that version. `submit` is for callers that encode and decode bodies themselves (produce, fetch).
Limits apply to the requests in flight, the time of each, and the size of a response. A request that
times out closes the connection: responses arrive in order, so a late one would be read as the next.
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
from kohort.client.net.handshake import (
    ASSUMED_VERSIONS,
    VersionRanges,
    authenticate,
    request_versions,
)
from kohort.client.net.receiving import Receiver
from kohort.client.net.send_gate import BlockReason, SendGate
from kohort.client.net.tls_errors import (
    CONNECTION_ENDED,
    NO_TLS,
    certificate_hint,
    describe_tls_error,
)
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

MAX_JOINED_SIZE: Final = 32 * 1024
"""Size in bytes up to which a request, or a piece of a larger one, is joined to others."""

CLOSE_TIMEOUT_S: Final = 1.0
"""Time limit for sending written bytes before a close."""

REAUTHENTICATION_FRACTION: Final = 0.85
"""Part of a SASL session's lifetime after which it is renewed, as in Java's client (KIP-368)."""


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
        """Whether the connection cannot send any more; `reason` has the cause."""
        self.reason = ""
        self.host = ""
        """The IP address, or the host of the address if it was connected by name."""
        self.is_useless = False
        """Whether the broker proved useless, for example by sending no responses.

        Another IP address of the name should be tried before this one.
        """
        self._config = config
        self._counters = counters
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._receiver = Receiver(config.max_response_bytes)
        self._broker_versions: VersionRanges = ASSUMED_VERSIONS
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
        """Set when no request is in flight, for a renewal that waits."""
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._renew_timer: asyncio.TimerHandle | None = None
        self._last_used = self._loop.time()
        self._lost = asyncio.Event()
        self._refused: ssl.SSLError | None = None
        """The broker's refusal of the client certificate, which arrives after the handshake (TLS
        1.3)."""

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

        Connects to `ip_address` if it is set; TLS verifies the host of `address` even then.

        Raises BrokerUnreachableError for a failure, or after `socket_connection_setup_timeout_ms`,
        and AuthenticationError if the broker refuses the client.
        """
        connection: Self | None = None
        limit_s = config.socket_connection_setup_timeout_ms / 1000
        try:
            with raises_unreachable(address, config.security):
                async with asyncio.timeout(limit_s):
                    host = ip_address or address[0]
                    connection = await cls._connect(
                        address, config, counters or NetCounters(), host
                    )
                    connection.host = host
                    await connection._handshake()
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

    async def _handshake(self) -> None:
        try:
            self._broker_versions, self._features = await request_versions(self._submit_now)
        except BrokerUnreachableError:
            if self._refused is not None:
                raise fresh(self._refused) from None
            raise
        if self._config.security.is_sasl:
            await self._authenticate()
        self._watch_idleness()

    # Requests of callers

    def version(self, api: str) -> int | None:
        """The highest common version of an API; None if there is none."""
        return common_version(api, self._broker_versions)

    @property
    def features(self) -> Mapping[str, int]:
        """Finalized levels of the features of the cluster when the connection opened."""
        return self._features

    def feature(self, name: str) -> int:
        """The finalized level of a feature of the cluster when the connection opened, or 0."""
        return self._features.get(name, 0)

    def wire_for(self, api: str, min_version: int = 0, max_version: int | None = None) -> Wire:
        """The highest common version of client, broker and caller.

        Raises UnsupportedVersionError.
        """
        version = common_version(api, self._broker_versions, min_version, max_version)
        if version is None:
            raise unsupported(api, self._broker_versions, min_version, max_version)
        return wire(api, version)

    async def preload(self, *apis: str, max_version: int | None = None) -> None:
        """Load the schemas of these APIs, up to `max_version`, before they are needed."""
        for api in apis:
            version = common_version(api, self._broker_versions, max_version=max_version)
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

        `fields` are as `protocol.building.request` takes them; fields that the version lacks are
        dropped. Raises UnsupportedVersionError, BrokerUnreachableError, RequestTimeoutError after
        `timeout_ms` (default: `request_timeout_ms`). The response may have error codes.
        """
        encoding = self.wire_for(api, min_version, max_version)
        return self.decode(
            encoding, await self.submit(encoding, encoding.body(fields), timeout_ms=timeout_ms)
        )

    def decode(self, encoding: Wire, frame: Frame) -> Any:
        """Decode kio's response.

        Closes the connection and raises BrokerUnreachableError for a malformed one.
        """
        try:
            response = encoding.read(frame, encoding.body_offset(frame))  # type: ignore[arg-type]  # kio reads from any buffer
        except MalformedError as error:
            raise self.fail(self._garbage(error)) from None
        if throttle_time := getattr(response, "throttle_time", None):
            self.throttle(throttle_time.total_seconds())
        return response

    def throttle(self, seconds: float) -> None:
        """Send no requests for this time, since the client is over its quota (KIP-219).

        The time is limited to `request_timeout_ms`.
        """
        self._counters.throttled.observe(seconds)
        self._gate.throttle(min(seconds, self._config.request_timeout_ms / 1000))

    async def submit(
        self,
        encoding: Wire,
        *body: Buffer,
        timeout_ms: int | None = None,
        await_response: bool = True,
    ) -> Frame:
        """Send a request whose body is in pieces, and return the response without its size.

        Waits while too many requests are in flight. Returns b"" at once without `await_response`.
        Raises BrokerUnreachableError, RequestTimeoutError.
        """
        if not await_response:
            await self._wait_for_gate(encoding.api, timeout_ms)
            self._write(encoding, body, 0)
            return b""
        async with self._slots:
            await self._gate.wait_open()  # it may have closed during the wait for a slot
            return await self._post(encoding, body, timeout_ms)

    async def _wait_for_gate(self, api: str, timeout_ms: int | None) -> None:
        """Wait for the gate, with a time limit of its own: no response is late that could end the
        wait."""
        limit_s = (self._config.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        try:
            async with asyncio.timeout(limit_s):
                await self._gate.wait_open()
        except TimeoutError:
            raise self.fail(
                RequestTimeoutError(
                    f"{api} could not be sent within {limit_s:g} s, as the broker does not read; "
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
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._lost.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()

    @property
    def in_flight(self) -> int:
        """Number of requests without a response so far."""
        return len(self._pending)

    def fail(self, error: BrokerUnreachableError, *, abort: bool = True) -> BrokerUnreachableError:
        """Close the connection and fail all requests in flight with that error; returns it."""
        if not self.closed:
            self.closed = True
            self.reason = str(error)
            self.is_useless = isinstance(error, RequestTimeoutError)
            for timer in (self._timer, self._idle_timer, self._renew_timer):
                if timer is not None:
                    timer.cancel()
            self._gate.release_all()
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
        encoding = self.wire_for(api, min_version, None)
        return self.decode(encoding, await self._submit_now(encoding, encoding.body(fields)))

    def _submit_now(self, encoding: Wire, body: bytes) -> "asyncio.Future[Frame]":
        return self._post(encoding, (body,), None)

    def _post(
        self, encoding: Wire, body: tuple[Buffer, ...], timeout_ms: int | None
    ) -> "asyncio.Future[Frame]":
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        now = self._loop.time()
        deadline = (
            now + (self._config.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        )
        frame: asyncio.Future[Frame] = self._loop.create_future()
        self._write(encoding, body, self._next_id)
        self._pending.append(_Call(encoding.api, self._next_id, frame, now, deadline))
        if self._timer is None or deadline < self._timer.when():
            self._set_timer(deadline)
        return frame

    def _write(self, encoding: Wire, body: tuple[Buffer, ...], number: int) -> None:
        if self.closed or self._transport is None:
            raise BrokerUnreachableError(
                f"{encoding.api} to {named(self.address)} cannot be sent: {self.reason}"
            )
        self._last_used = self._loop.time()
        size = sum(map(len, body))
        head = encoding.head(number, self._client_id, size)
        self._counters.sent_bytes += len(head) + size
        # The transport's writelines copies all of it before Python 3.12.
        for piece in joined((head, *body)):
            self._transport.write(piece)

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._check_deadlines)

    def _check_deadlines(self) -> None:
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

    # Calls of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def get_buffer(self, _hint: int) -> memoryview:
        return self._receiver.get_buffer()

    def buffer_updated(self, received: int) -> None:
        try:
            for frame in self._receiver.buffer_updated(received):
                self._complete_request(frame)
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
            and not isinstance(error, CONNECTION_ENDED)
            and self._broker_versions is ASSUMED_VERSIONS
        ):
            self._refused = error
        self.fail(BrokerUnreachableError(f"{named(self.address)} closed the connection{why}"))
        self._lost.set()

    def _complete_request(self, frame: Frame) -> None:
        if self.closed:
            return
        if not self._pending:
            raise MalformedError("a response to no request")
        call = self._pending.popleft()
        if (received_id := correlation_id(frame)) != call.correlation_id:
            self._pending.appendleft(call)
            raise MalformedError(f"correlation id {received_id} instead of {call.correlation_id}")
        if not self._pending:
            self._emptied.set()
        self._counters.responded(call.api, self._loop.time() - call.sent, 4 + len(frame))
        if not call.frame.done():
            call.frame.set_result(frame)

    def _garbage(self, error: MalformedError) -> BrokerUnreachableError:
        is_foreign = isinstance(error, OtherProtocolError) and not error.is_tls
        hint = "; give the port of a Kafka listener" if is_foreign else self._protocol_hint()
        return BrokerUnreachableError(
            f"{named(self.address)} sent a response that cannot be decoded: {error}{hint}"
        )

    def _silence_hint(self) -> str:
        """Possible cause if a port accepts connections and sends no bytes."""
        if self._broker_versions is not ASSUMED_VERSIONS:
            return ""
        return ": it sent no response to the first request; is this a Kafka listener?"

    def _protocol_hint(self) -> str:
        """Possible cause if a listener does not respond to the first request."""
        if self._broker_versions is not ASSUMED_VERSIONS:
            return ""
        if self._config.security.is_tls:
            hint = "; is this a Kafka listener with that security protocol?"
            return hint + certificate_hint(self._config.security)
        return "; does this listener need TLS (security protocol SSL or SASL_SSL)?"

    # Idleness, authentication

    def _watch_idleness(self) -> None:
        limit_s = self._config.connections_max_idle_ms / 1000
        remaining_s = self._last_used + limit_s - self._loop.time()
        if remaining_s <= 0 and not self._pending:
            self.fail(BrokerUnreachableError(f"idle for {limit_s:g} s"), abort=False)
        else:
            self._idle_timer = self._loop.call_later(
                remaining_s if remaining_s > 0 else limit_s, self._watch_idleness
            )

    async def _authenticate(self) -> None:
        lifetime_ms = await authenticate(self._send_now, self._config.security)
        if lifetime_ms > 0:
            self._renew_timer = self._loop.call_later(
                lifetime_ms / 1000 * REAUTHENTICATION_FRACTION, self._start_renewing
            )

    def _start_renewing(self) -> None:
        self._gate.block(BlockReason.RENEWING)
        self._renewing = self._loop.create_task(self._renew())

    async def _renew(self) -> None:
        """Authenticate again while no other request is sent.

        A broker accepts no other request between the messages of an authentication. It also accepts
        none before all requests in flight have their responses, and a JoinGroup may wait for longer
        than `request_timeout_ms`: until then the handshake is not sent. The session may end
        meanwhile.
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
    """The same bytes, with consecutive small pieces joined."""
    small: list[Buffer] = []
    for piece in pieces:
        if len(piece) <= MAX_JOINED_SIZE:
            small.append(piece)
            continue
        if small:
            yield b"".join(small)
            small.clear()
        yield piece
    if small:
        yield b"".join(small)


@contextmanager
def raises_unreachable(address: Address, security: Security) -> Iterator[None]:
    """Turn errors of connecting into KohortErrors. TimeoutError passes unchanged."""
    try:
        yield
    except TimeoutError:
        raise
    except (ConnectionResetError, *CONNECTION_ENDED) as error:
        hint = (
            f" during the TLS handshake; {NO_TLS}{certificate_hint(security)}"
            if security.is_tls
            else ""
        )
        raise BrokerUnreachableError(f"{named(address)} closed the connection{hint}") from error
    except ssl.SSLError as error:
        raise AuthenticationError(
            f"TLS with {named(address)} failed: {describe_tls_error(error)}"
        ) from error
    except OSError as error:
        unreachable = BrokerUnreachableError(f"{named(address)}: {_system_message(error)}")
        # Without a file there is no Unix socket.
        unreachable.is_refused = isinstance(error, ConnectionRefusedError | FileNotFoundError)
        raise fresh(unreachable) from error
    except (KafkaError, MalformedError) as error:
        raise BrokerUnreachableError(
            f"{named(address)} is no Kafka broker, or of an unsupported version: {error}"
        ) from error


def _system_message(error: OSError) -> str:
    """The operating system's message, which asyncio replaces with its own.

    After several addresses of a name were tried, asyncio has the error numbers in the text only.
    """
    if error.errno is None:
        numbers = dict.fromkeys(re.findall(r"\[Errno (\d+)\]", str(error)))
        return ", ".join(os.strerror(int(number)) for number in numbers) or str(error)
    has_errno = not isinstance(error, socket.gaierror)
    return os.strerror(error.errno) if has_errno else error.strerror or str(error)
