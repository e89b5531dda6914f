"""One connection: frames in, one request at a time, responses out in the same order.

A connection is an asyncio protocol, not a stream: a request that gets its response at once needs
no task, no future and no await between its bytes and those of the response.

*Order.* The queue (`request_queue`) decides which request is served next, and when. A heartbeat
sent behind a parked JoinGroup waits.

*Steps.* A frame is first compared with the last request that may be repeated
(`repeated_requests`). Any other frame has its header read and is dispatched (`dispatcher`). Every
request begins in `_begin` and ends in `_end`, which count requests and errors; bytes are counted
where the transport takes and gives them.

*Bounds.* The queue bounds the bytes that wait for their turn. While a client does not read its
responses, none of its requests is taken: at most one response waits beyond the transport's own
limit. The unread responses of all connections are bounded together (`response_memory`).

*The end.* Bytes that are no request close the connection, as in Kafka. Nothing that a client sends
and nothing that a handler raises has a further effect than one line in the log.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias, cast

from kohort.errors import ErrorCode
from kohort.log.stores import FileSlice, Records
from kohort.protocol.apis import ALL_APIS
from kohort.protocol.framing import CONTENT, MalformedError
from kohort.protocol.messages import frame_head, read_header
from kohort.protocol.throttle_time import with_throttle_time
from kohort.security import ANONYMOUS, Endpoint, KafkaPrincipal, Peer
from kohort.server.addresses import java_host
from kohort.server.net.exchange import Body, Exchange
from kohort.server.net.illegal_sasl_state import illegal_sasl_state
from kohort.server.net.login import SASL_AUTHENTICATE, Login, Sasl
from kohort.server.net.open_connections import OpenConnections
from kohort.server.net.pacing import PacingTransport, sending_from_files
from kohort.server.net.rate_limited_log import RateLimitedLog
from kohort.server.net.repeated_requests import RepeatedRequest
from kohort.server.net.request_memory import UNMETERED, RequestMemory
from kohort.server.net.request_metrics import RequestMetrics
from kohort.server.net.request_queue import RequestQueue
from kohort.server.net.request_time import RequestTime
from kohort.server.net.response_memory import ResponseMemory
from kohort.server.throttling import Throttling

WRITE_BATCH_SIZE: Final = 64 * 1024
"""Bytes of responses that may be held back to be written at once."""

MAX_JOINED_BYTES: Final = 32 * 1024
"""Bytes up to which responses are joined to be written; larger ones are passed on in pieces."""

REQUESTS_PER_TURN: Final = 64
"""Requests of one connection that are taken before other connections get their turn."""

CLOSE_TIMEOUT_S: Final = 5.0
"""Time that the last responses have to reach a client whose connection is being closed."""

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

    __slots__ = (
        "__weakref__",
        "_connections", "_dispatch", "_metrics", "_next_turn_is_set", "_out", "_out_size",
        "_pumping", "_queue", "_quotas", "_reading", "_repeated", "_shared", "_socket", "_tasks",
        "_throttle_timer", "_transport", "_when_closed", "_work", "descriptor", "is_open",
        "last_active", "login", "peer",
    )  # fmt: skip

    def __init__(self, shared: SharedByConnections, host: str, connected: socket.socket) -> None:
        """`host` is the client's, "" by a Unix socket; the transport closes `connected`."""
        self._shared = shared
        # What most requests use is kept without the way through `shared`.
        self._dispatch = shared.dispatch
        self._connections = shared.connections
        self._metrics = shared.metrics
        self._quotas = shared.throttling.table
        self._queue = RequestQueue(shared.memory, shared.request_bytes)
        self._transport: asyncio.Transport | None = None
        self._repeated: RepeatedRequest | None = None  # the last request that may come again
        self._out: list[Records] = []  # responses of this turn, not yet written
        self._out_size = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._when_closed: set[Callable[[Any], None]] = set()
        self._pumping = False
        self._next_turn_is_set = False
        self._reading = True
        self._work: RequestTime | None = None  # on the request in progress, where that counts
        self._throttle_timer: asyncio.TimerHandle | None = None  # ends the time without requests
        self.is_open = False
        self.login: Login | None = None
        self.peer = Peer(principal=ANONYMOUS, host=host, endpoint=shared.endpoint)
        self.descriptor = connected.fileno()
        self._socket = connected
        self.last_active = shared.connections.ticks

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        request = self._queue.in_progress
        in_progress = f" in progress {request!r}" if request else ""
        return f"<Connection {self.peer.host} {state}{in_progress}>"

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self.is_open = True
        try:
            principal = self._shared.identify(transport)
        except ValueError as error:
            self.drop(str(error))
            return
        if principal != ANONYMOUS:
            self.peer = replace(self.peer, principal=principal)
        sasl = self._shared.sasl
        if sasl is not None:
            self.login = Login(sasl, self, self._metrics, self._shared.log)
            self._queue.use_memory(sasl.memory)
            self.authenticates()

    def data_received(self, data: bytes) -> None:
        if self.is_open:
            self._metrics.bytes_in += len(data)
            self.last_active = self._connections.ticks
            queue = self._queue
            if len(data) <= UNMETERED and queue.is_idle_now():
                # The frame is the only work, and need not go through the queue.
                if self._repeated is not None and self._repeat(data, self._repeated):
                    return
                if queue.is_one_frame(data):
                    self._pump(data)
                    return
            queue.feed(data)
            self._pump()

    def pause_writing(self) -> None:
        self._queue.is_writable = False

    def resume_writing(self) -> None:
        self._queue.is_writable = True
        self._shared.unread.set(self, 0)
        self._pump_next_turn()  # a transport of asyncio that is closed in here ends twice

    def eof_received(self) -> bool:
        """The client sends no more: its requests are still served, except those that are parked."""
        self.is_open = self.is_open and self._queue.end()
        return self.is_open

    def connection_lost(self, _error: Exception | None) -> None:
        self.is_open = False
        # The coordinator knows the connection of a pending member id for as long as that is valid.
        # No bytes are kept so long.
        self._repeated = self._transport = None
        # The request in progress refers to this connection, and is perhaps never ended.
        self._queue.clear(self)
        self._out.clear()
        self._shared.unread.set(self, 0)
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
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
        """End the request in progress (None: it has no response) and continue with the next."""
        if self.login is not None:
            self.login.responded(exchange.api_key, errors)
        self._end(exchange.api_key, errors)
        self._queue.release_memory()
        if self._work is not None:
            self._shared.throttling.worked(exchange, self._work.seconds)
            self._work = None
        if exchange.throttle_ms:
            self._throttle(exchange)
            if body is not None:
                wait_ms = exchange.throttle_ms
                body = with_throttle_time(exchange.api_key, exchange.version, body, wait_ms)
        if body is not None:
            self._send(exchange.api_key, exchange.version, exchange.correlation_id, body)
        if not self._pumping:
            self._resume()

    def cache_request(self, request: RepeatedRequest) -> None:
        """Compare the next frames with `request` before they are parsed."""
        self._repeated = request

    def authenticates(self) -> None:
        """The frames from now on are messages of an authentication, which are small."""
        shared = self._shared
        if shared.sasl is not None:
            self._queue.limit(min(shared.request_bytes, shared.sasl.receive_bytes))

    def authenticated(self, principal: KafkaPrincipal) -> None:
        """The requests from now on are those of `principal`."""
        self.peer = replace(self.peer, principal=principal)
        self._queue.use_memory(self._shared.memory)
        self._queue.limit(self._shared.request_bytes)
        self.clear_cached_request()  # it was authorized for the former principal

    def clear_cached_request(self) -> None:
        """Parse the next request, even if it repeats the last one."""
        self._repeated = None

    def when_closed(self, function: Callable[[Any], None]) -> None:
        """Call `function` with this connection once it is lost."""
        self._when_closed.add(function)

    def close_with_reason(self, why: str, level: int = logging.INFO) -> None:
        """Send the responses so far, close, and log why in one line."""
        if self.is_open:
            self._metrics.hung_up += 1
            self._shared.log.log(level, "closing the connection from %s: %s", self.peer.host, why)
            self._close()

    def fail(self, error: BaseException, exchange: Exchange | None = None) -> None:
        """Close because a request (if none is named, the one in progress) raised; log where."""
        self._metrics.failed += 1
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        code = traceback.tb_frame.f_code if traceback is not None else None
        location = (
            f"{os.path.basename(code.co_filename)}:{traceback.tb_lineno}"
            if code and traceback
            else "?"
        )
        request = exchange or self._queue.in_progress
        self._shared.log.log(logging.ERROR, "%r failed: %r at %s", request, error, location)
        self._close()

    # What the registry of connections and the request memory call

    def drain(self) -> None:
        """Take no further request; close after the one in progress, at once if it is parked."""
        if self._queue.drain():
            self._close()

    def abort(self) -> None:
        """Close at once, without sending what waits to be sent."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def send_and_close(self, data: bytes) -> None:
        """Send bytes after what waits to be sent, and close."""
        self._flush()
        self._write(data)
        self._close()

    def drop(self, why: str) -> None:
        """Close at once, without sending what waits to be sent, and log why."""
        self._metrics.hung_up += 1
        log = self._shared.log
        log.log(logging.WARNING, "dropping the connection of %s: %s", self.peer.host, why)
        self.abort()

    @property
    def largest_response(self) -> int | None:
        """Bytes that a response should have at most, None if there is no limit."""
        return self._shared.unread.largest

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress; one that its client's quotas hold up is none."""
        return self._queue.in_progress is None

    def memory_granted(self, size: int) -> None:
        self._queue.memory_granted(size)
        self._keep_reading_or_pause()

    # Requests

    def _begin(self, request: Exchange | RepeatedRequest) -> None:
        self._queue.in_progress = request
        self._metrics.requests[request.api_key] += 1

    def _end(self, api_key: int, errors: Iterable[int] = ()) -> None:
        self._queue.in_progress = None
        self.last_active = self._connections.ticks
        for error in errors:
            if error:
                self._metrics.errors[api_key, error] += 1

    def _repeat(self, frame: bytes, request: RepeatedRequest) -> bool:
        """Whether `frame` is `request` again; if so, it is in progress or has ended."""
        try:
            if self._quotas.meters_requests or not request.matches(frame):
                return False
            if self.login is not None and not self.login.is_done:
                return False
            self._begin(request)
            request.submit(self._respond_to_repeated)
        except Exception as error:  # as in `_pump`
            self.fail(error)
        return True

    def _respond_to_repeated(self, error: ErrorCode) -> None:
        queue = self._queue
        request = cast("RepeatedRequest | None", queue.in_progress)
        if request is None or not self.is_open:
            return
        try:
            frame = request.response(error)
        except Exception as failure:  # the caller calls back many
            self.fail(failure)
            return
        self._end(request.api_key, (error,) if error else ())
        if queue.needs_bytes and self._reading and not (queue.is_draining or queue.has_ended):
            self._write(frame)
        else:
            self._out.append(frame)
            self._out_size += len(frame)
            if not self._pumping:
                self._resume()

    def _resume(self) -> None:
        if self._queue.is_throttled:
            if self._queue.is_over:
                self._close()
            else:
                self._flush_and_read()
        elif not self._next_turn_is_set and self._queue.rest():
            self._flush_and_read()
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
                self._serve_requests()
            else:
                self._serve(alone)
        except MalformedError as error:
            self._refuse(error)
        except Exception as error:  # a handler's bug must reach neither the loop nor the terminal
            self.fail(error)
        finally:
            self._pumping = False
        self._flush_and_read()

    def _flush_and_read(self) -> None:
        """Write the responses, and resume reading if it is paused without need."""
        self._flush()
        if not (self._reading and self._queue.awaits_frame()):
            self._keep_reading_or_pause()

    def _serve_requests(self) -> None:
        for _ in range(REQUESTS_PER_TURN):
            frame = self._queue.next_frame() if self.is_open else None
            if frame is None:
                break
            # What repeats a request gives no memory back: it has none if its frame is small.
            repeated = self._repeated if len(frame) <= UNMETERED else None
            if repeated is None or not self._repeat(frame, repeated):
                self._serve(frame)
        else:
            self._pump_next_turn()
        if self._queue.is_over:
            self._close()

    def _pump_next_turn(self) -> None:
        self._queue.needs_bytes = False  # what comes until then goes through the queue
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
                self._authenticate_raw(frame, self.login)
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
        self._work = work = RequestTime()
        later = work.begin(partial(dispatch, exchange, frame, body_at))
        if later is not None:
            # A task that is cancelled before it begins leaves `later` open.
            self._run(work.rest(later)).add_done_callback(lambda _: later.close())

    def _authenticate_raw(self, frame: bytes, login: Login) -> None:
        """Take a message of a SASL mechanism, as it comes after SaslHandshake v0."""
        self._begin(Exchange(self, SASL_AUTHENTICATE, 0, 0, ""))
        outcome = login.authenticate(frame[CONTENT:])
        if outcome.has_failed:
            self._run(login.fail())
            return
        self._end(SASL_AUTHENTICATE)
        token = len(outcome.auth_bytes).to_bytes(CONTENT, "big") + outcome.auth_bytes
        self._out.append(token)
        self._out_size += len(token)

    def _throttle(self, exchange: Exchange) -> None:
        """Take no further request for as long as the client of `exchange` must wait."""
        self._metrics.throttled[exchange.api_key] += 1
        self._queue.throttle()
        self._throttle_timer = asyncio.get_running_loop().call_later(
            exchange.throttle_ms / 1000, self._end_throttle
        )

    def _end_throttle(self) -> None:
        self._throttle_timer = None
        self._queue.is_throttled = False
        self._pump()

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, MalformedError):
            self._refuse(error)
        elif error is not None:
            self.fail(error)

    def _refuse(self, error: MalformedError) -> None:
        self._metrics.malformed += 1
        self.close_with_reason(str(error), logging.WARNING)

    # Bytes

    def _send(self, api_key: int, version: int, correlation_id: int, body: Body) -> None:
        pieces = (body,) if isinstance(body, bytes) else body
        size = sum(map(len, pieces))
        head = frame_head(api_key, version, correlation_id, size)
        self._out += (head, *pieces)
        self._out_size += len(head) + size
        if self._out_size > WRITE_BATCH_SIZE:  # the transport may tell us to stop
            self._flush()

    def _flush(self) -> None:
        if self._out:
            out, size = self._out, self._out_size
            self._out, self._out_size = [], 0
            if size < MAX_JOINED_BYTES:
                self._write(b"".join(cast("list[bytes]", out)))  # a slice would be larger
            else:
                self._write_pieces(out, size)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._metrics.bytes_out += len(data)
            self._transport.write(data)

    def _write_pieces(self, pieces: Sequence[Any], size: int) -> None:
        transport = self._transport
        if transport is None:
            return
        self._metrics.bytes_out += size
        if not isinstance(transport, PacingTransport) and any(
            isinstance(piece, FileSlice) for piece in pieces
        ):
            is_full = not self._queue.is_writable
            transport = sending_from_files(transport, self._socket, self, is_full=is_full)
            self._transport = transport
        transport.writelines(pieces)
        if self._transport is None:
            return
        waiting = transport.get_write_buffer_size()
        if waiting and self._queue.is_writable and not isinstance(transport, PacingTransport):
            # `writelines` of asyncio never pauses its protocol in Python 3.12.1 and 3.13.0.
            transport.set_write_buffer_limits()
        if waiting > UNMETERED:
            # A response is one piece of memory until its last byte is sent.
            self._shared.unread.set(self, max(size, waiting))

    def _keep_reading_or_pause(self) -> None:
        if self.is_open and self._transport is not None:
            reading = self._queue.wants_bytes(self)
            if reading is not self._reading:
                self._reading = reading
                (self._transport.resume_reading if reading else self._transport.pause_reading)()

    def _close(self) -> None:
        if not self.is_open or self._transport is None:
            return
        self._flush()
        self.is_open = False
        pending = self._transport.get_write_buffer_size()
        self._transport.close()
        if pending:
            asyncio.get_running_loop().call_later(CLOSE_TIMEOUT_S, self._transport.abort)


def host_of(address: object) -> str:
    """The host of a socket's address as Java prints it; "" for a Unix socket."""
    return java_host(address[0]) if isinstance(address, tuple) else ""


def refuse_illegal_sasl_state(exchange: Exchange, _frame: bytes, _body_at: int) -> None:
    """Refuse a request that comes between two messages of SASL, unparsed; close its connection."""
    if ALL_APIS[exchange.api_key].serves(exchange.version):
        exchange.respond(illegal_sasl_state(exchange.api_key, exchange.version))
    exchange.connection.close_with_reason("a request during authentication")
