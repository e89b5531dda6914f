"""One connection: frames in, one request at a time, answers out in the same order.

An asyncio protocol, not a stream: for a request that is answered at once there is no task, no
future and no await between the bytes that came and the bytes that go.

*Order.* Kafka works on one request of a connection at a time, so the next frame is only taken when
the one before was answered. A heartbeat sent behind a parked JoinGroup waits.

*Bounds.* What is not taken yet is bounded: reading pauses when `READ_AHEAD` bytes wait behind a
request in progress, or when a large frame has to wait for memory (`request_memory`). A peer that
does not read its answers gets no further request taken, so no more than one answer waits beyond the
transport's own limit.

*The end.* Bytes that are no request close the connection, as in Kafka; nothing that a peer sends,
and nothing that a handler does, gets further than one line in the log.
"""

import asyncio
import ipaddress
import logging
import os
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, cast

from kohort.protocol.apis import API_VERSIONS, APIS, BY_NAME
from kohort.protocol.framing import FrameReader, MalformedError
from kohort.protocol.messages import decode_request, frame_head, read_header
from kohort.server.net.exchange import Body, Exchange
from kohort.server.net.repeated_requests import Repeat
from kohort.server.net.request_memory import UNMETERED

if TYPE_CHECKING:
    from kohort.server.net.listener import Listener
    from kohort.server.net.repeated_commits import CommitAgain

READ_AHEAD: Final = 64 * 1024
"""Bytes that may wait behind a request in progress before reading pauses."""

WRITE_TOGETHER: Final = 64 * 1024
"""Bytes of answers that may be held back to be written at once."""

JOIN_BELOW: Final = 32 * 1024
"""Bytes up to which answers are joined to be written; above, the transport takes the pieces as they
are.
"""

REQUESTS_PER_TURN: Final = 64
"""Requests that a connection may have answered before others get their turn."""

CLOSE_GRACE_S: Final = 5.0
"""How long the last answers may take to reach a peer whose connection is being closed."""

JOIN_GROUP: Final = BY_NAME["join_group"].key

PARKABLE: Final = frozenset(BY_NAME[name].key for name in ("join_group", "sync_group", "fetch"))
"""APIs whose requests wait for others: a server that stops does not wait for those."""


class Connection(asyncio.Protocol):
    """The server's side of one TCP connection. Hashed by identity: it names itself in exchanges."""

    def __init__(self, listener: "Listener") -> None:
        self._listener = listener
        self._broker = listener.broker
        self._reader = FrameReader(listener.limits.request_bytes)
        self._transport: asyncio.Transport | None = None
        self._current: Exchange | CommitAgain | None = None  # the request in progress
        self._repeat: Repeat | CommitAgain | None = None  # the last request that may come again
        self._out: list[bytes | memoryview] = []  # answers of this turn, not yet written
        self._out_size = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._pumping = False
        self._next_turn_is_set = False
        self._reading = True
        self._writable = True
        self._draining = False
        self._ended = False  # the peer sends no more
        self._memory = 0  # taken for the frame being received or worked on
        self._waits_for_memory = False
        self._starved = True  # the last frame in the reader is incomplete, or there is none
        self._joined = False
        self.is_open = False
        self.client_host = ""
        self.last_active = listener.ticks

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        waiting = f" in progress {self._current!r}" if self._current else ""
        return f"<Connection {self.client_host} {state}{waiting}>"

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        peer = transport.get_extra_info("peername")
        self.client_host = client_host(peer)
        self.is_open = True
        if not self._listener.admit(self):
            self.is_open = False
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.is_open:
            self._listener.bytes_in += len(data)
            self.last_active = self._listener.ticks
            alone = len(data) <= UNMETERED and self._is_at_rest
            if alone and self._repeat is not None and self._answer_again(data, self._repeat):
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
        self._pump()

    def eof_received(self) -> bool:
        """The peer sends no more. What it sent is still worked on; what only waits for others is
        over.
        """
        waits = self._current is not None and self._current.api_key in PARKABLE
        if self.is_open and not waits and (self._current is not None or not self._starved):
            self._ended = True
            return True
        self.is_open = False
        return False

    def connection_lost(self, _error: Exception | None) -> None:
        self.is_open = False
        self._repeat = None  # it may refer to this connection
        self._give_memory_back()
        for task in self._tasks:
            task.cancel()
        self._listener.forget(self)
        if self._joined:
            try:
                self._broker.groups.connection_closed(self)
            except Exception as error:
                self.failed(error)

    # What an exchange calls

    def reply(self, exchange: Exchange, body: Body | None) -> None:
        """Answer the request in progress (None: it has no answer) and go on with the next."""
        self._current = None
        self.last_active = self._listener.ticks
        self._give_memory_back()
        if body is not None:
            self._send(exchange.api_key, exchange.version, exchange.correlation_id, body)
        if not self._pumping:
            self._go_on()

    def _go_on(self) -> None:
        if self._reader.is_empty and not (self._draining or self._ended or self._next_turn_is_set):
            self._starved = True
            self._rest()
        else:
            # Not from here: the next request may bring other connections their answers, those
            # theirs, and so on.
            self._flush()
            self._pump_next_turn()

    def expect_again(self, request: "CommitAgain") -> None:
        """A request in progress may come again."""
        self._repeat = request

    def begin(self, request: "CommitAgain") -> None:
        """A request is in progress that came again, to a connection at rest."""
        self._current = request

    def answered(self, frame: bytes) -> None:
        """Send the whole answer to the request in progress that came again, and go on with the
        next.
        """
        self._current = None
        self.last_active = self._listener.ticks
        if (
            self._starved
            and self._reading
            and not (self._draining or self._ended)
            and self._transport is not None
        ):
            self._listener.bytes_out += len(frame)
            self._transport.write(frame)
        else:
            self._out.append(frame)
            self._out_size += len(frame)
            self._go_on()

    def count_error(self, api_key: int, error: int) -> None:
        """An answer bears `error`."""
        self._listener.errors[api_key, error] += 1

    def hang_up(self, why: str, level: int = logging.INFO) -> None:
        """Send what was answered so far, close, and say why in one line."""
        if self.is_open:
            self._listener.hung_up += 1
            self._listener.log.log(
                level, "closing the connection from %s: %s", self.client_host, why
            )
            self._close()

    def failed(self, error: BaseException, exchange: Exchange | None = None) -> None:
        """The work on a request (the one in progress, if none is named) raised: close, and say
        where in one line.
        """
        self._listener.failed += 1
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        code = where.tb_frame.f_code if where is not None else None
        place = f"{os.path.basename(code.co_filename)}:{where.tb_lineno}" if code and where else "?"
        self._listener.log.log(
            logging.ERROR, "%r failed: %r at %s", exchange or self._current, error, place
        )
        self._close()

    # What the listener and the request memory call

    def drain(self) -> None:
        """Take no further request; close when the one in progress is answered, at once if it only
        waits.
        """
        self._draining = True
        if self._current is None or self._current.api_key in PARKABLE:
            self._close()

    def abort(self) -> None:
        """Close without any regard."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in progress."""
        return self._current is None

    def memory_granted(self, size: int) -> None:
        self._waits_for_memory = False
        self._memory = size
        self._keep_reading_or_pause()

    # Requests

    @property
    def _is_at_rest(self) -> bool:
        """Whether a request would be the only thing to care for: then it need not go through the
        reader.
        """
        able = self._writable and not self._draining
        return able and self._current is None and self._starved and self._reader.is_empty

    def _pump(self, alone: bytes | None = None) -> None:
        """Take requests for as long as they are answered at once, then write the answers together.

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
            self._listener.malformed += 1
            self.hang_up(str(error), logging.WARNING)
        except Exception as error:  # a handler's bug must not reach the loop, nor the terminal
            self.failed(error)
        finally:
            self._pumping = False
        self._rest()

    def _rest(self) -> None:
        """Nothing more can be done now: write what was answered, and read on if that is wanted."""
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
                or not self.is_open
            ):
                break
            data = self._reader.next_frame()
            if data is None:
                self._starved = True
                break
            self._serve(data)
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
        if not self._next_turn_is_set:
            self._next_turn_is_set = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._next_turn_is_set = False
        self._pump()

    def _serve(self, data: bytes) -> None:
        api_key, version, correlation_id, client_id, body = read_header(data)
        read = self._listener.repeated.get((api_key, version))
        if read is not None and (ask := read(self._broker, data, body)) is not None:
            self._repeat = Repeat(data, api_key, version, ask)
            self._listener.requests[api_key] += 1
            self._give_memory_back()
            self._send(api_key, version, correlation_id, ask())
            return
        exchange = Exchange(self, api_key, version, correlation_id, client_id)
        self._current = exchange
        self._listener.requests[api_key] += 1
        if api_key == JOIN_GROUP:
            self._joined = True
        elif api_key == API_VERSIONS and not APIS[API_VERSIONS].serves(version):
            self._listener.unsupported_version(exchange)
            return
        take = self._listener.takes_bytes.get((api_key, version))
        if take is not None and take(self._broker, exchange, data, body):
            return
        request = decode_request(api_key, version, data, body)
        later = self._listener.handler(api_key)(self._broker, exchange, request)
        if later is not None:
            self._run(later)

    def _answer_again(self, data: bytes, repeat: "Repeat | CommitAgain") -> bool:
        """Whether `data`, which came to a connection at rest, was the repeated request, and is
        taken care of.
        """
        try:
            answer = repeat.answer(data)
        except Exception as error:  # as in `_pump`
            self.failed(error)
            return True
        if answer is None or self._transport is None:
            return False
        self._listener.requests[repeat.api_key] += 1
        if answer:
            self._listener.bytes_out += len(answer)
            self._transport.write(answer)
        return True

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(error)

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
        if self._out and self._transport is not None:
            out, size = self._out, self._out_size
            self._out, self._out_size = [], 0
            self._listener.bytes_out += size
            if size < JOIN_BELOW:
                self._transport.write(b"".join(out))
            else:
                self._transport.writelines(out)

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
            if self._listener.memory.take(size, self):
                self._memory = size
            else:
                self._waits_for_memory = True
        return self._memory > 0

    def _give_memory_back(self) -> None:
        if self._memory:
            size, self._memory = self._memory, 0
            self._listener.memory.give_back(size)

    def _close(self) -> None:
        if not self.is_open or self._transport is None:
            return
        self._flush()
        self.is_open = False
        pending = self._transport.get_write_buffer_size()
        self._transport.close()
        if pending:
            asyncio.get_running_loop().call_later(CLOSE_GRACE_S, self._transport.abort)


def client_host(peer: object) -> str:
    """The peer's address as Java prints it, without port: "/127.0.0.1", "/0:0:0:0:0:0:0:1"."""
    host = peer[0] if isinstance(peer, tuple) else ""
    if ":" in host:
        groups = ipaddress.IPv6Address(host.partition("%")[0]).exploded.split(":")
        host = ":".join(f"{int(group, 16):x}" for group in groups)
    return f"/{host}"
