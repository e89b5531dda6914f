"""One connection: frames in, one request at a time, responses out in the same order.

A connection is an asyncio protocol, not a stream: a request that gets its response at once needs
no task, no future and no await between its bytes and those of the response.

*Order.* Kafka works on one request of a connection at a time, so the next frame is only taken when
the request before it has ended. A heartbeat sent behind a parked JoinGroup waits.

*Steps.* A frame is first compared with the last request that may be repeated
(`repeated_requests`). Any other frame has its header read and is dispatched (`dispatcher`). Every
request begins in `_begin` and ends in `_end`, which count requests and errors; bytes are counted
where the transport takes and gives them.

*Bounds.* The bytes that wait for their turn are bounded: reading pauses when `READ_AHEAD` bytes
wait behind a request in progress, or when a large frame has to wait for memory (`request_memory`).
While a client does not read its responses, none of its requests is taken: at most one response
waits beyond the transport's own limit. The responses of all that do not read are bounded together
(`response_memory`).

*Quotas.* None of a client's requests is taken while it has to wait because of its quotas
(`server.throttling`).

*The end.* Bytes that are no request close the connection, as in Kafka. Nothing that a client sends
and nothing that a handler raises has a further effect than one line in the log.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, cast

from kohort.errors import ErrorCode
from kohort.log.storage import FileSlice, Records
from kohort.protocol.apis import ALL_APIS, BY_NAME
from kohort.protocol.framing import CONTENT, FrameReader, MalformedError
from kohort.protocol.messages import frame_head, read_header
from kohort.protocol.throttle_time import with_throttle_time
from kohort.security import ANONYMOUS, Endpoint, KafkaPrincipal, Peer
from kohort.server.addresses import java_host
from kohort.server.net.exchange import Body, Exchange
from kohort.server.net.login import SASL_AUTHENTICATE, Login, Sasl
from kohort.server.net.open_connections import OpenConnections
from kohort.server.net.pacing import PacingTransport, sending_from_files
from kohort.server.net.rate_limited_log import RateLimitedLog
from kohort.server.net.repeated_requests import RepeatedRequest
from kohort.server.net.request_memory import UNMETERED, RequestMemory
from kohort.server.net.request_metrics import RequestMetrics
from kohort.server.net.response_memory import ResponseMemory
from kohort.server.net.unparsed_response import unparsed_response
from kohort.server.net.work_time import WorkTime
from kohort.server.throttling import Throttling

READ_AHEAD: Final = 64 * 1024
"""Bytes that may wait behind a request in progress before reading pauses."""

WRITE_TOGETHER: Final = 64 * 1024
"""Bytes of responses that may be held back to be written at once."""

JOIN_BELOW: Final = 32 * 1024
"""Bytes up to which responses are joined to be written; larger ones are passed on in pieces."""

REQUESTS_PER_TURN: Final = 64
"""Requests of one connection that are taken before other connections get their turn."""

CLOSE_GRACE_S: Final = 5.0
"""Time that the last responses have to reach a client whose connection is being closed."""

PARKABLE: Final = frozenset(BY_NAME[name].key for name in ("join_group", "sync_group", "fetch"))
"""APIs whose requests wait for other clients: a server that stops does not wait for those."""

Dispatch: TypeAlias = Callable[[Exchange, bytes, int], Coroutine[Any, Any, None] | None]
"""(exchange, frame, offset of the body) -> what still has to run until the request has ended."""


Identify: TypeAlias = Callable[[asyncio.BaseTransport], KafkaPrincipal]
"""The principal of a new connection; raises ValueError if it is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedByConnections:
    """Services that all connections of a listener use together."""

    dispatch: Dispatch
    connections: OpenConnections
    memory: RequestMemory
    unread: ResponseMemory
    metrics: RequestMetrics
    throttling: Throttling
    log: RateLimitedLog
    request_bytes: int
    """Size of the largest request that is accepted."""
    endpoint: Endpoint
    identify: Identify
    sasl: Sasl | None = None
    """None: clients need not authenticate by SASL."""


class Connection(asyncio.Protocol):
    """The server's side of one TCP connection, hashed by identity."""

    # A class of more than 30 attributes would have a whole dictionary for each connection.
    __slots__ = (
        "__weakref__",
        "_connections", "_current", "_dispatch", "_draining", "_ended", "_identify", "_log",
        "_memory", "_metrics", "_next_turn_is_set", "_out", "_out_size", "_pumping", "_quotas",
        "_reader", "_reading", "_repeated", "_request_bytes", "_request_memory", "_sasl",
        "_socket", "_starved", "_tasks", "_throttled", "_throttling", "_transport", "_unread",
        "_usual_memory", "_waits_for_memory", "_when_closed", "_work", "_writable", "descriptor",
        "is_open", "last_active", "login", "peer",
    )  # fmt: skip

    def __init__(self, shared: SharedByConnections, host: str, connected: socket.socket) -> None:
        """`host` is the client's, "" by a Unix socket; the transport closes `connected`."""
        self._identify = shared.identify
        self._dispatch = shared.dispatch
        self._connections = shared.connections
        self._request_memory = self._usual_memory = shared.memory
        self._unread = shared.unread
        self._throttling = shared.throttling
        self._quotas = shared.throttling.table
        self._metrics = shared.metrics
        self._log = shared.log
        self._request_bytes = shared.request_bytes
        self._reader = FrameReader(shared.request_bytes)
        self._sasl = shared.sasl
        self._transport: asyncio.Transport | None = None
        self._current: Exchange | RepeatedRequest | None = None  # the request in progress
        self._repeated: RepeatedRequest | None = None  # the last request that may come again
        self._out: list[Records] = []  # responses of this turn, not yet written
        self._out_size = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._when_closed: set[Callable[[Any], None]] = set()
        self._pumping = False
        self._next_turn_is_set = False
        self._reading = True
        self._writable = True
        self._draining = False
        self._ended = False  # the client sends no more
        self._memory = 0  # taken for the frame being received or worked on
        self._waits_for_memory = False
        self._work: WorkTime | None = None  # on the request in progress, where that counts
        self._throttled: asyncio.TimerHandle | None = None  # ends the time without requests
        self._starved = True  # the last frame in the reader is incomplete, or there is none
        self.is_open = False
        self.login: Login | None = None
        self.peer = Peer(principal=ANONYMOUS, host=host, endpoint=shared.endpoint)
        self.descriptor = connected.fileno()
        self._socket = connected
        self.last_active = shared.connections.ticks

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        waiting = f" in progress {self._current!r}" if self._current else ""
        return f"<Connection {self.peer.host} {state}{waiting}>"

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self.is_open = True
        try:
            principal = self._identify(transport)
        except ValueError as error:
            self.drop(str(error))
            return
        if principal != ANONYMOUS:
            self.peer = replace(self.peer, principal=principal)
        if self._sasl is not None:
            self.login = Login(self._sasl, self, self._metrics, self._log)
            self._request_memory = self._sasl.memory
            self.authenticates()

    def data_received(self, data: bytes) -> None:
        if self.is_open:
            self._metrics.bytes_in += len(data)
            self.last_active = self._connections.ticks
            # At rest the frame is all there is to do, and need not go through the reader.
            alone = (
                len(data) <= UNMETERED
                and self._current is None
                and self._starved
                and self._writable
                and not self._draining
                and self._reader.is_empty
            )
            if alone and self._repeated is not None and self._repeat(data, self._repeated):
                return
            if alone and self._reader.is_one_frame(data):
                self._pump(data)
            else:
                self._reader.feed(data)
                self._pump()

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._unread.set(self, 0)
        self._pump_next_turn()  # a transport of asyncio that is closed in here ends twice

    def eof_received(self) -> bool:
        """The client sends no more: its requests are still served, except those that are parked."""
        waits = self._current is not None and self._current.api_key in PARKABLE
        is_at_rest = (
            self._current is None
            and self._writable  # else it has responses to read, or is idle
            and (self._starved or (self._throttled is not None and self._reader.is_empty))
        )
        if self.is_open and not waits and not is_at_rest:
            self._ended = True
            return True
        self.is_open = False
        return False

    def connection_lost(self, _error: Exception | None) -> None:
        self.is_open = False
        # The coordinator knows the connection of a pending member id for as long as that is valid.
        # No bytes are kept so long.
        self._repeated = self._transport = None
        self._current = None  # a ring: what closes its connection is not ended
        self._reader = FrameReader(self._reader.limit)
        self._out.clear()
        self._give_memory_back()
        self._unread.set(self, 0)
        if self._throttled is not None:
            self._throttled.cancel()
        for task in self._tasks:
            task.cancel()
        self._connections.forget(self)
        if self.login is not None:
            self.login.close()
            self.login = None  # a ring would keep both until a garbage collection
        for function in self._when_closed:
            try:
                function(self)
            except Exception as error:
                self.fail(error)

    # What an exchange calls

    def respond(self, exchange: Exchange, body: Body | None, errors: Iterable[int]) -> None:
        """End the request in progress (None: it has no response) and go on with the next."""
        if self.login is not None:
            self.login.responded(exchange.api_key, errors)
        self._end(exchange.api_key, errors)
        self._give_memory_back()
        if self._work is not None:
            self._throttling.worked(exchange, self._work.seconds)
            self._work = None
        if exchange.throttle_ms:
            self._throttle(exchange)
            if body is not None:
                wait_ms = exchange.throttle_ms
                body = with_throttle_time(exchange.api_key, exchange.version, body, wait_ms)
        if body is not None:
            self._send(exchange.api_key, exchange.version, exchange.correlation_id, body)
        if not self._pumping:
            self._go_on()

    def expect_again(self, request: RepeatedRequest) -> None:
        """Compare the next frame with `request` before it is parsed."""
        self._repeated = request

    def authenticates(self) -> None:
        """The frames from now on are messages of an authentication, which are small."""
        if self._sasl is not None:
            self._reader.limit = min(self._request_bytes, self._sasl.receive_bytes)

    def authenticated(self, principal: KafkaPrincipal) -> None:
        """The requests from now on are those of `principal`."""
        self.peer = replace(self.peer, principal=principal)
        self._give_memory_back()
        self._request_memory = self._usual_memory
        self._reader.limit = self._request_bytes
        self.expect_nothing_again()  # its handler may have judged who asks

    def expect_nothing_again(self) -> None:
        """Judge the next request by itself, even if it is the last one again."""
        self._repeated = None

    def when_closed(self, function: Callable[[Any], None]) -> None:
        """Call `function` with this connection once it is lost."""
        self._when_closed.add(function)

    def hang_up(self, why: str, level: int = logging.INFO) -> None:
        """Send the responses so far, close, and say why in one line."""
        if self.is_open:
            self._metrics.hung_up += 1
            self._log.log(level, "closing the connection from %s: %s", self.peer.host, why)
            self._close()

    def fail(self, error: BaseException, exchange: Exchange | None = None) -> None:
        """Close because a request (if none is named, the one in progress) raised; log where."""
        self._metrics.failed += 1
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        code = where.tb_frame.f_code if where is not None else None
        place = f"{os.path.basename(code.co_filename)}:{where.tb_lineno}" if code and where else "?"
        self._log.log(logging.ERROR, "%r failed: %r at %s", exchange or self._current, error, place)
        self._close()

    # What the registry of connections and the request memory call

    def drain(self) -> None:
        """Take no further request; close after the one in progress, at once if it is parked."""
        self._draining = True
        if self._current is None or self._current.api_key in PARKABLE:
            self._close()

    def abort(self) -> None:
        """Close at once, without sending what waits to be sent."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def drop(self, why: str) -> None:
        """Close at once, without sending what waits to be sent, and log why."""
        self._metrics.hung_up += 1
        self._log.log(logging.WARNING, "dropping the connection of %s: %s", self.peer.host, why)
        self.abort()

    @property
    def largest_response(self) -> int | None:
        """Bytes that a response should have at most, None if there is no limit."""
        return self._unread.largest

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress; one that its client's quotas hold up is none."""
        return self._current is None

    def memory_granted(self, size: int) -> None:
        self._waits_for_memory = False
        self._memory = size
        self._keep_reading_or_pause()

    # Requests

    def _begin(self, request: Exchange | RepeatedRequest) -> None:
        self._current = request
        self._metrics.requests[request.api_key] += 1

    def _end(self, api_key: int, errors: Iterable[int] = ()) -> None:
        self._current = None
        self.last_active = self._connections.ticks
        for error in errors:
            if error:
                self._metrics.errors[api_key, error] += 1

    def _repeat(self, frame: bytes, request: RepeatedRequest) -> bool:
        """Whether `frame` is `request` again; if so, it is in progress or has ended."""
        try:
            if self._quotas.meters_requests or not request.matches(frame):
                return False
            if not self._has_authenticated:
                return False
            self._begin(request)
            request.submit(self._respond_again)
        except Exception as error:  # as in `_pump`
            self.fail(error)
        return True

    def _respond_again(self, error: ErrorCode) -> None:
        request = cast("RepeatedRequest | None", self._current)
        if request is None or not self.is_open:
            return
        try:
            frame = request.response(error)
        except Exception as failure:  # the caller calls back many
            self.fail(failure)
            return
        self._end(request.api_key, (error,) if error else ())
        if self._starved and self._reading and not (self._draining or self._ended):
            self._write(frame)
        else:
            self._out.append(frame)
            self._out_size += len(frame)
            if not self._pumping:
                self._go_on()

    def _go_on(self) -> None:
        if self._throttled is not None:
            self._flush()
            self._keep_reading_or_pause()
        elif self._reader.is_empty and not (
            self._draining or self._ended or self._next_turn_is_set
        ):
            self._starved = True
            self._rest()
        else:
            # In a turn of its own: the next request may end requests of other connections, whose
            # next requests may end more.
            self._flush()
            self._pump_next_turn()

    def _pump(self, alone: bytes | None = None) -> None:
        """Take requests for as long as each ends at once, then write their responses together.

        `alone` is a frame that came to a connection at rest.
        """
        if self._pumping or self._next_turn_is_set or not self.is_open:
            return
        self._pumping = True
        try:
            if alone is None:
                self._take_requests()
            else:
                self._serve(alone)
        except MalformedError as error:
            self._refuse(error)
        except Exception as error:  # a handler's bug must reach neither the loop nor the terminal
            self.fail(error)
        finally:
            self._pumping = False
        self._rest()

    def _rest(self) -> None:
        """Write the responses, and resume reading if it is paused without need."""
        self._flush()
        if not (self._starved and self._reading and self._reader.is_empty):
            self._keep_reading_or_pause()

    def _take_requests(self) -> None:
        self._starved = False
        for _ in range(REQUESTS_PER_TURN):
            if (
                self._current is not None
                or not self._writable
                or self._draining
                or self._throttled is not None
                or not self.is_open
            ):
                break
            frame = self._reader.next_frame()
            if frame is None:
                self._starved = True
                break
            # What repeats a request gives no memory back: it has none if its frame is small.
            repeated = self._repeated if len(frame) <= UNMETERED else None
            if repeated is None or not self._repeat(frame, repeated):
                self._serve(frame)
        else:
            self._pump_next_turn()
        if self._is_over:
            self._close()

    @property
    def _is_over(self) -> bool:
        if self._current is not None:
            return self._ended and self._current.api_key in PARKABLE
        return self._draining or (self._ended and self._starved)

    def _pump_next_turn(self) -> None:
        self._starved = False  # what comes until then goes through the reader
        if not self._next_turn_is_set:
            self._next_turn_is_set = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._next_turn_is_set = False
        self._pump()

    @property
    def _has_authenticated(self) -> bool:
        return self.login is None or self.login.is_done

    def _serve(self, frame: bytes) -> None:
        dispatch = self._dispatch
        if self.login is not None and not self.login.is_done:
            if self.login.expects_token:
                self._take_token(frame, self.login)
                return
            if not self.login.admits(frame):
                dispatch = refuse_illegal_sasl_state
        api_key, version, correlation_id, client_id, body_at = read_header(frame)
        exchange = Exchange(self, api_key, version, correlation_id, client_id, len(frame))
        self._begin(exchange)
        # Before authentication all clients are one principal: none may use up the time of others.
        if self._quotas.meters_requests and self._has_authenticated:
            self._serve_metered(dispatch, exchange, frame, body_at)
            return
        later = dispatch(exchange, frame, body_at)
        if later is not None:
            self._run(later)

    def _serve_metered(
        self, dispatch: Dispatch, exchange: Exchange, frame: bytes, body_at: int
    ) -> None:
        """Serve a request whose time counts for its client."""
        self._work = work = WorkTime()
        later = dispatch(exchange, frame, body_at)
        work.pause()
        if later is not None:
            self._run(work.of(later))

    def _take_token(self, frame: bytes, login: Login) -> None:
        """Take a message of a SASL mechanism, as it comes after SaslHandshake v0."""
        self._begin(Exchange(self, SASL_AUTHENTICATE, 0, 0, ""))
        answer = login.authenticate(frame[CONTENT:])
        if answer.has_failed:
            self._run(login.fail())
            return
        self._end(SASL_AUTHENTICATE)
        token = len(answer.auth_bytes).to_bytes(CONTENT, "big") + answer.auth_bytes
        self._out.append(token)
        self._out_size += len(token)

    def _throttle(self, exchange: Exchange) -> None:
        """Take no further request for as long as the client of `exchange` must wait."""
        self._metrics.throttled[exchange.api_key] += 1
        self._starved = False
        self._throttled = asyncio.get_running_loop().call_later(
            exchange.throttle_ms / 1000, self._end_throttle
        )

    def _end_throttle(self) -> None:
        self._throttled = None
        self._pump()

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, MalformedError):
            self._refuse(error)
        elif error is not None:
            self.fail(error)

    def _refuse(self, error: MalformedError) -> None:
        self._metrics.malformed += 1
        self.hang_up(str(error), logging.WARNING)

    # Bytes

    def _send(self, api_key: int, version: int, correlation_id: int, body: Body) -> None:
        pieces = (body,) if isinstance(body, bytes) else body
        size = sum(map(len, pieces))
        head = frame_head(api_key, version, correlation_id, size)
        self._out += (head, *pieces)
        self._out_size += len(head) + size
        if self._out_size > WRITE_TOGETHER:  # the transport may tell us to stop
            self._flush()

    def _flush(self) -> None:
        if self._out:
            out, size = self._out, self._out_size
            self._out, self._out_size = [], 0
            if size < JOIN_BELOW:
                self._write(b"".join(cast("list[bytes]", out)))  # a slice would be larger
            else:
                self._write_pieces(out, size)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._metrics.bytes_out += len(data)
            self._transport.write(data)

    def _write_pieces(self, pieces: Sequence[Any], size: int) -> None:
        if self._transport is not None:
            self._metrics.bytes_out += size
            if any(isinstance(each, FileSlice) for each in pieces) and not isinstance(
                self._transport, PacingTransport
            ):
                self._transport = sending_from_files(
                    self._transport, self._socket, self, is_full=not self._writable
                )
            self._transport.writelines(pieces)
            if self._transport is None:
                return
            waiting = self._transport.get_write_buffer_size()
            if waiting and self._writable and not isinstance(self._transport, PacingTransport):
                # `writelines` of asyncio never pauses its protocol in Python 3.12.1 and 3.13.0.
                self._transport.set_write_buffer_limits()
            if waiting > UNMETERED:
                # A response is one piece of memory until its last byte is sent.
                self._unread.set(self, max(size, waiting))

    def _keep_reading_or_pause(self) -> None:
        if self.is_open and self._transport is not None:
            reading = self._wants_more()
            if reading is not self._reading:
                self._reading = reading
                (self._transport.resume_reading if reading else self._transport.pause_reading)()

    def _wants_more(self) -> bool:
        if not self._starved:
            return self._reader.buffered < READ_AHEAD
        wanted = self._reader.wanted()
        return wanted <= UNMETERED or self._has_memory(wanted)

    def _has_memory(self, size: int) -> bool:
        if not self._memory and not self._waits_for_memory:
            if self._request_memory.take(size, self):
                self._memory = size
            else:
                self._waits_for_memory = True
        return self._memory > 0

    def _give_memory_back(self) -> None:
        if self._memory:
            size, self._memory = self._memory, 0
            self._request_memory.give_back(size)

    def _close(self) -> None:
        if not self.is_open or self._transport is None:
            return
        self._flush()
        self.is_open = False
        pending = self._transport.get_write_buffer_size()
        self._transport.close()
        if pending:
            asyncio.get_running_loop().call_later(CLOSE_GRACE_S, self._transport.abort)


def host_of(address: object) -> str:
    """The host of a socket's address as Java prints it; "" for a Unix socket."""
    return java_host(address[0]) if isinstance(address, tuple) else ""


def refuse_illegal_sasl_state(exchange: Exchange, _frame: bytes, _body_at: int) -> None:
    """Refuse a request that comes between two messages of SASL, unparsed; close its connection."""
    if ALL_APIS[exchange.api_key].serves(exchange.version):
        exchange.respond(unparsed_response(exchange.api_key, exchange.version))
    exchange.connection.hang_up("a request during authentication")
