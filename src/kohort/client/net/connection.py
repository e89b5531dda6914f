"""One TCP connection to a broker, with pipelined requests and responses in order.

    connection = await Connection.open(("localhost", 9092), config)
    response = await connection.send("find_coordinator", key_type=0, key="orders")

`send` uses the highest common version of client, broker and caller, and returns kio's response of
that version. `submit` is for callers that encode and decode bodies themselves (produce, fetch).
Limits apply to the requests in flight, the time of each, and the size of a response. A request that
times out closes the connection: responses arrive in order, so a late one would be read as the next.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final, Self, cast

from kohort.client.config import UNIX, Address, ClientConfig
from kohort.client.errors import BrokerUnreachableError, RequestTimeoutError
from kohort.client.net.connect_errors import format_address, protocol_hint, raises_unreachable
from kohort.client.net.counters import NetCounters
from kohort.client.net.handshake import (
    ASSUMED_VERSIONS,
    EXPECTED_NODE_SINCE,
    ExpectedNode,
    VersionRanges,
    request_versions,
    source_hint,
)
from kohort.client.net.in_flight_requests import InFlightRequests
from kohort.client.net.receiving import Receiver
from kohort.client.net.sasl_session import SaslSession
from kohort.client.net.send_gate import BlockReason, SendGate
from kohort.client.net.sending import join_pieces
from kohort.client.net.tls_errors import CONNECTION_ENDED
from kohort.client.net.versions import (
    Frame,
    Wire,
    common_version,
    unsupported,
    wire,
)
from kohort.errors import fresh
from kohort.protocol.compression import Buffer
from kohort.protocol.framing import MalformedError, OtherProtocolError

CLOSE_TIMEOUT_S: Final = 1.0
"""Time limit for sending written bytes before a close."""


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
        self._in_flight = InFlightRequests(self.fail)
        self._slots = asyncio.Semaphore(config.max_in_flight_requests_per_connection)
        self._gate = SendGate()
        self._sasl = SaslSession(
            self._send_now,
            config.security,
            self._gate,
            self._in_flight,
            self.fail,
            message_timeout_s=config.request_timeout_ms / 1000,
        )
        self._idle_timer: asyncio.TimerHandle | None = None
        self._last_used = self._loop.time()
        self._lost = asyncio.Event()
        self._refused: ssl.SSLError | None = None
        """The broker's refusal of the client certificate, which arrives after the handshake (TLS
        1.3)."""

    def __repr__(self) -> str:
        state = f"closed: {self.reason}" if self.closed else f"{len(self._in_flight)} in flight"
        return f"<Connection {format_address(self.address)} {state}>"

    @classmethod
    async def open(
        cls,
        address: Address,
        config: ClientConfig,
        counters: NetCounters | None = None,
        ip_address: str | None = None,
        expected: ExpectedNode | None = None,
    ) -> Self:
        """Connect, request the versions, and authenticate; `counters` are those of the client.

        Connects to `ip_address` if it is set; TLS verifies the host of `address` even then.

        Raises BrokerUnreachableError for a failure, or after `socket_connection_setup_timeout_ms`,
        AuthenticationError if the broker refuses the client, and RebootstrapRequiredError if it is
        not the expected node.
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
                    await connection._handshake(expected)
        except TimeoutError:
            silent = "" if connection is None else connection._silence_hint()
            failed = BrokerUnreachableError(
                f"{format_address(address)} did not complete a connection within {limit_s:g} s"
                f"{silent}"
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

    async def _handshake(self, expected: ExpectedNode | None) -> None:
        has_sasl = self._config.security.is_sasl
        try:
            self._broker_versions, self._features = await request_versions(
                self._submit_now, None if has_sasl else expected
            )
        except BrokerUnreachableError:
            if self._refused is not None:
                raise fresh(self._refused) from None
            raise
        if has_sasl:
            await self._sasl.authenticate()
            if expected is not None and (self.version("api_versions") or 0) >= EXPECTED_NODE_SINCE:
                await request_versions(self._submit_now, expected)
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
            BrokerUnreachableError(
                f"the connection to {format_address(self.address)} was closed by us"
            ),
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
        return len(self._in_flight)

    def fail(self, error: BrokerUnreachableError, *, abort: bool = True) -> BrokerUnreachableError:
        """Close the connection and fail all requests in flight with that error; returns it."""
        if not self.closed:
            self.closed = True
            self.reason = str(error)
            self.is_useless = isinstance(error, RequestTimeoutError)
            self._sasl.stop()
            if self._idle_timer is not None:
                self._idle_timer.cancel()
            self._gate.release_all()
            failed = self._in_flight.fail(
                lambda api: type(error)(f"{api} to {format_address(self.address)}: {error}")
            )
            if abort:
                for api in failed:
                    self._counters.failures.count(api)
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
        correlation_id = self._in_flight.next_id()
        self._write(encoding, body, correlation_id)
        limit_ms = self._config.request_timeout_ms if timeout_ms is None else timeout_ms
        return self._in_flight.add(encoding.api, correlation_id, limit_ms / 1000)

    def _write(self, encoding: Wire, body: tuple[Buffer, ...], number: int) -> None:
        if self.closed or self._transport is None:
            raise BrokerUnreachableError(
                f"{encoding.api} to {format_address(self.address)} cannot be sent: {self.reason}"
            )
        self._last_used = self._loop.time()
        size = sum(map(len, body))
        head = encoding.head(number, self._client_id, size)
        self._counters.sent_bytes += len(head) + size
        # The transport's writelines copies all of it before Python 3.12.
        for piece in join_pieces((head, *body)):
            self._transport.write(piece)

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
        self.fail(
            BrokerUnreachableError(f"{format_address(self.address)} closed the connection{why}")
        )
        self._lost.set()

    def _complete_request(self, frame: Frame) -> None:
        if not self.closed:
            api, seconds = self._in_flight.complete(frame)
            self._counters.responded(api, seconds, 4 + len(frame))

    def _garbage(self, error: MalformedError) -> BrokerUnreachableError:
        is_foreign = isinstance(error, OtherProtocolError) and not error.is_tls
        hint = "; give the port of a Kafka listener" if is_foreign else self._protocol_hint()
        return BrokerUnreachableError(
            f"{format_address(self.address)} sent a response that cannot be decoded: {error}{hint}"
        )

    def _silence_hint(self) -> str:
        """Possible cause if a connection is not complete in time."""
        if self._broker_versions is ASSUMED_VERSIONS:
            return ": it sent no response to the first request; is this a Kafka listener?"
        return "" if len(self._in_flight) else source_hint(self._config.security)

    def _protocol_hint(self) -> str:
        """Possible cause if a listener does not respond to the first request."""
        if self._broker_versions is not ASSUMED_VERSIONS:
            return ""
        return protocol_hint(self._config.security)

    # Idleness

    def _watch_idleness(self) -> None:
        limit_s = self._config.connections_max_idle_ms / 1000
        remaining_s = self._last_used + limit_s - self._loop.time()
        if remaining_s <= 0 and not self._in_flight:
            self.fail(BrokerUnreachableError(f"idle for {limit_s:g} s"), abort=False)
        else:
            self._idle_timer = self._loop.call_later(
                remaining_s if remaining_s > 0 else limit_s, self._watch_idleness
            )
