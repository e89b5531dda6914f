"""Replays a recording on a server, and compares its responses.

Requests are sent in the order of the recording, over as many connections. A request that followed a
response, on whichever connection, waits for that response again. `IdMapping` replaces ids that the
server chose. Requests whose secrets were removed, and SASL, are left out: the replay authenticates
itself.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from kohort.client.config import ClientConfig
from kohort.client.errors import BrokerUnreachableError, UnsupportedVersionError
from kohort.client.net import Connection, Frame, Wire
from kohort.protocol.framing import MalformedError
from kohort.protocol.message_classes import API_KEYS, API_NAMES
from kohort.protocol.writing import encode
from kohort.recording.advertised_addresses import Address, addresses, has_addresses
from kohort.recording.differences import Difference, differing
from kohort.recording.events import (
    Advanced,
    Closed,
    Event,
    Opened,
    RecordedRequest,
    RecordedResponse,
)
from kohort.recording.frames import api_text, decode_request, decode_response, read_head
from kohort.recording.id_mapping import IdMapping
from kohort.recording.recording_file import RecordingError, RecordingReader

RESPONSE_TIMEOUT_S: Final = 10.0
"""Time of the machine for which a recorded response, or the end of a connection, is awaited."""
LATE_TIMEOUT_S: Final = 1.0
"""The same on a connection on which one has not come in time."""
PROMPT_RESPONSE_S: Final = 0.005
"""Time of the machine for a response that needs none of the server's time."""
NUDGE_INTERVAL_S: Final = 0.01
MAX_DIFFERENCES: Final = 1_000
"""Differences that are kept; further ones are counted."""
_NO_TIMEOUT_MS: Final = 2**31 - 1
_JOIN_GROUP: Final = API_KEYS["join_group"]
_SASL: Final = frozenset({API_KEYS["sasl_handshake"], API_KEYS["sasl_authenticate"]})


class Pace:
    """The time of a replay. This one knows no waiting: each event follows the one before it."""

    async def wait_until(self, at: float, *, is_joining: bool = False) -> None:
        """Return when so many seconds have passed since the start of the recording.

        `is_joining`: a JoinGroup has no response yet, and it is not its response that is next.
        """

    async def advance(self, seconds: float) -> None:
        """Advance the server's time, as the recorded test did."""

    @asynccontextmanager
    async def delivery(self) -> AsyncIterator[None]:
        """Within it a request is sent; at its end the server has begun it, if that is known."""
        yield

    async def nudge(self) -> None:
        """A response is awaited that the server may send only after some of its time."""


class RealTime(Pace):
    """As fast as the recording, times `speed`; time that a test advanced passes, too."""

    def __init__(self, speed: float = 1.0) -> None:
        self._speed = speed
        self._started = asyncio.get_running_loop().time()

    async def wait_until(self, at: float, *, is_joining: bool = False) -> None:  # noqa: ARG002
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(self._started + at / self._speed - now)


@dataclass(slots=True)
class ReplayResult:
    """What a replay did, and in what the responses differed."""

    requests: int = 0
    """Requests that were sent."""
    responses: int = 0
    """Responses that were compared."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Requests that were not sent, by the reason."""
    differences: list[Difference] = field(default_factory=list)
    """The first 1,000 differences."""
    difference_count: int = 0
    is_truncated: bool = False
    """Whether the recording ends within an event, as that of a killed process."""

    def __str__(self) -> str:
        lines = [*map(str, self.differences)]
        if self.difference_count > len(self.differences):
            lines.append(f"… and {self.difference_count - len(self.differences)} more")
        lines.append(
            f"{self.requests} requests sent, {self.responses} responses compared, "
            f"{self.difference_count} differences"
        )
        lines += (f"{count} requests left out: {why}" for why, count in self.left_out.items())
        if self.is_truncated:
            lines.append("the recording ends within an event, which was left out")
        return "\n".join(lines)


async def replay(
    path: Path | str,
    config: ClientConfig,
    pace: Pace | None = None,
    *,
    response_timeout_s: float = RESPONSE_TIMEOUT_S,
) -> ReplayResult:
    """Replay a recording on the cluster of `config`, by default without waiting in between.

    Raises RecordingError, BrokerUnreachableError if a connection cannot be opened, and
    AuthenticationError.
    """
    with RecordingReader(path) as reader:
        player = _Player(config, pace or Pace(), response_timeout_s)
        try:
            for event in reader:
                await player.play(event, reader.line)
        finally:
            await player.close()
        player.result.is_truncated = reader.is_truncated
    return player.result


@dataclass(slots=True)
class _Sent:
    """A request that has no response so far; `response` is None if it was left out."""

    request: RecordedRequest
    line: int
    message: Any = None
    response: "asyncio.Task[Frame] | None" = None


@dataclass(slots=True)
class _Replayed:
    """A connection of the recording; the one of the replay opens with the first request."""

    number: int
    node: int | None
    timeout_s: float
    connection: Connection | None = None
    client_id: str = ""
    pending: deque[_Sent] = field(default_factory=deque)
    is_lost: bool = False
    """Whether the server closed the connection, unlike in the recording."""


class _Player:
    def __init__(self, config: ClientConfig, pace: Pace, timeout_s: float) -> None:
        self._config = config
        self._pace = pace
        self._timeout_s = timeout_s
        self._mapping = IdMapping()
        self._open: dict[int, _Replayed] = {}
        self._nodes: dict[int, Address] = {}
        """The broker that stands for each node of the recording."""
        self.result = ReplayResult()

    async def close(self) -> None:
        """Close all connections."""
        for replayed in self._open.values():
            await _close(replayed)

    async def play(self, event: Event, line: int) -> None:
        """Play the next event.

        Raises BrokerUnreachableError, AuthenticationError, RecordingError.
        """
        if not isinstance(event, RecordedResponse):
            await self._pace.wait_until(event.at, is_joining=self._is_joining())
        match event:
            case Opened(connection=number, node=node):
                self._open[number] = _Replayed(number, node, self._timeout_s)
            case RecordedRequest():
                await self._send(event, line)
            case RecordedResponse():
                await self._compare(event, line)
            case Closed():
                await self._end(event, line)
            case Advanced():
                await self._pace.advance(event.seconds)

    def _is_joining(self) -> bool:
        return any(
            sent.request.api_key == _JOIN_GROUP and sent.response is not None
            for replayed in self._open.values()
            for sent in replayed.pending
        )

    def _replayed(self, number: int, line: int) -> _Replayed:
        if number not in self._open:
            raise RecordingError(f"line {line} is of connection {number}, which is not open")
        return self._open[number]

    # --- requests

    async def _send(self, request: RecordedRequest, line: int) -> None:
        replayed = self._replayed(request.connection, line)
        sent = _Sent(request, line)
        if request.has_response:
            replayed.pending.append(sent)
        if request.frame is None or request.is_redacted or request.api_key in _SASL:
            self.result.left_out["of SASL, with secrets, or not decoded by the recorder"] += 1
            return
        if replayed.connection is None:
            replayed.connection = await self._connect(replayed.node, request.client_id)
            replayed.client_id = request.client_id
        if replayed.is_lost:
            self.result.left_out["the server had closed the connection"] += 1
            return
        try:
            head = read_head(request.frame)
            sent.message = decode_request(request.frame, head)
            name = API_NAMES[head.api_key]
            wire = replayed.connection.wire_for(name, head.version, head.version)
        except (MalformedError, UnsupportedVersionError) as error:
            self.result.left_out[str(error)] += 1
            return
        body = encode(self._mapping.translated(sent.message))
        await self._submit(replayed, sent, wire, body)

    async def _submit(self, replayed: _Replayed, sent: _Sent, wire: Wire, body: bytes) -> None:
        assert replayed.connection is not None
        submitted: Coroutine[Any, Any, Frame] = replayed.connection.submit(
            wire, body, timeout_ms=_NO_TIMEOUT_MS, await_response=sent.request.has_response
        )
        self.result.requests += 1
        if not sent.request.has_response:
            async with self._pace.delivery():
                await submitted
        elif len(replayed.pending) > 1:  # the server begins it after those before it
            sent.response = asyncio.create_task(submitted)
            await asyncio.sleep(0)
        else:
            async with self._pace.delivery():
                sent.response = asyncio.create_task(submitted)
                await asyncio.sleep(0)

    async def _connect(self, node: int | None, client_id: str) -> Connection:
        known = None if node is None else self._nodes.get(node)
        config = replace(
            self._config,
            client_id=client_id,
            max_in_flight_requests_per_connection=2**20,
            connections_max_idle_ms=_NO_TIMEOUT_MS,
        )
        *others, last = self._config.servers if known is None else (known,)
        for address in others:
            with suppress(BrokerUnreachableError):
                return await Connection.open(address, config)
        return await Connection.open(last, config)

    # --- responses

    async def _compare(self, recorded: RecordedResponse, line: int) -> None:
        replayed = self._replayed(recorded.connection, line)
        if not replayed.pending:
            raise RecordingError(f"line {line} is a response to no request")
        sent = replayed.pending.popleft()
        if sent.response is None or recorded.frame is None:
            return
        try:
            frame = await self._awaited(sent, recorded.at, replayed.timeout_s)
        except BrokerUnreachableError as error:
            if not replayed.is_lost:
                replayed.is_lost = True
                self._differ(replayed, sent, line, recorded.at, ("", "a response", str(error)))
            return
        if frame is None:
            silence = f"none within {replayed.timeout_s:g} s"
            self._differ(replayed, sent, line, recorded.at, ("", "a response", silence))
            replayed.timeout_s = min(replayed.timeout_s, LATE_TIMEOUT_S)
            return
        self.result.responses += 1
        request = sent.request
        try:
            one = decode_response(recorded.frame, request.api_key, request.version)
            other = decode_response(bytes(frame), request.api_key, request.version)
        except MalformedError as error:
            found = ("", "a response that can be decoded", str(error))
            self._differ(replayed, sent, line, recorded.at, found)
            return
        if has_addresses(request.api_key, request.version):
            self._learn_nodes(addresses(one), addresses(other))
        for difference in differing(one, other, self._mapping, sent.message):
            self._differ(replayed, sent, line, recorded.at, difference)

    async def _awaited(self, sent: _Sent, at: float, timeout_s: float) -> Frame | None:
        """The response that was recorded at that time; None if it has not come in time.

        Raises BrokerUnreachableError.
        """
        assert sent.response is not None
        if not await _is_done(sent.response, PROMPT_RESPONSE_S):
            await self._pace.wait_until(at)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (at - sent.request.at) + timeout_s
        while not await _is_done(sent.response, NUDGE_INTERVAL_S):
            if loop.time() > deadline:
                return None
            await self._pace.nudge()
        return sent.response.result()

    def _learn_nodes(self, recorded: Mapping[int, Address], live: Mapping[int, Address]) -> None:
        """Nodes of the recording stand for brokers of the same rank, by node id."""
        ranked = [live[node] for node in sorted(live)]
        for rank, node in enumerate(sorted(recorded)):
            if ranked:
                self._nodes.setdefault(node, ranked[rank % len(ranked)])

    def _differ(
        self, replayed: _Replayed, sent: _Sent, line: int, at: float, found: tuple[str, str, str]
    ) -> None:
        self.result.difference_count += 1
        if len(self.result.differences) >= MAX_DIFFERENCES:
            return
        path, one, other = found
        self.result.differences.append(
            Difference(
                line=line,
                at=at,
                connection=replayed.number,
                client_id=replayed.client_id,
                api=api_text(sent.request.api_key, sent.request.version),
                field=path,
                recorded=one,
                replayed=other,
            )
        )

    # --- ends of connections

    async def _end(self, closed: Closed, line: int) -> None:
        replayed = self._replayed(closed.connection, line)
        del self._open[closed.connection]
        connection = replayed.connection
        if closed.by_server and connection is not None and replayed.pending:
            sent = replayed.pending[0]
            if sent.response is not None and not await self._is_closed(connection):
                found = ("", "closed the connection", "did not")
                self._differ(replayed, sent, line, closed.at, found)
        await _close(replayed)

    async def _is_closed(self, connection: Connection) -> bool:
        """Whether the server closes the connection in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        while not connection.closed and loop.time() < deadline:
            await asyncio.sleep(NUDGE_INTERVAL_S)
            await self._pace.nudge()
        return connection.closed


async def _is_done(response: "asyncio.Task[Frame]", timeout_s: float) -> bool:
    done, _ = await asyncio.wait((response,), timeout=timeout_s)
    return bool(done)


async def _close(replayed: _Replayed) -> None:
    if replayed.connection is not None:
        await replayed.connection.close()
    responses = [sent.response for sent in replayed.pending if sent.response is not None]
    for response in responses:
        response.cancel()
    await asyncio.gather(*responses, return_exceptions=True)
