"""The requests of one connection that have no response yet, in their order."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from kohort.client.errors import BrokerUnreachableError, RequestTimeoutError
from kohort.client.net.versions import Frame, correlation_id
from kohort.protocol.framing import MalformedError


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


class InFlightRequests:
    """Requests in flight, with the timer of the earliest deadline."""

    def __init__(self, on_timeout: Callable[[RequestTimeoutError], object]) -> None:
        """`on_timeout` is called when a request got no response in time. It ends all of them."""
        self._on_timeout = on_timeout
        self._loop = asyncio.get_running_loop()
        self._calls: deque[_Call] = deque()
        self._last_id = 0
        self._emptied = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def next_id(self) -> int:
        """The correlation id of the next request."""
        self._last_id = (self._last_id + 1) & 0x7FFFFFFF
        return self._last_id

    def add(self, api: str, correlation_id: int, limit_s: float) -> "asyncio.Future[Frame]":
        """Add a request that was sent now; returns its response to be."""
        now = self._loop.time()
        frame: asyncio.Future[Frame] = self._loop.create_future()
        self._calls.append(_Call(api, correlation_id, frame, now, now + limit_s))
        if self._timer is None or now + limit_s < self._timer.when():
            self._set_timer(now + limit_s)
        return frame

    def complete(self, frame: Frame) -> tuple[str, float]:
        """Give a response to the first request: its API, and the seconds that it took.

        Raises MalformedError for a response to another one.
        """
        if not self._calls:
            raise MalformedError("a response to no request")
        call = self._calls[0]
        if (received_id := correlation_id(frame)) != call.correlation_id:
            raise MalformedError(f"correlation id {received_id} instead of {call.correlation_id}")
        self._calls.popleft()
        if not self._calls:
            self._emptied.set()
        if not call.frame.done():
            call.frame.set_result(frame)
        return call.api, self._loop.time() - call.sent

    def fail(self, error_of: Callable[[str], BrokerUnreachableError]) -> Sequence[str]:
        """Fail all requests, each with the error for its API; returns the APIs."""
        if self._timer is not None:
            self._timer.cancel()
        self._emptied.set()
        calls, self._calls = self._calls, deque()
        for call in calls:
            if not call.frame.done():
                call.frame.set_exception(error_of(call.api))
                call.frame.exception()  # mark it as read: no caller may be waiting
        return [call.api for call in calls]

    async def wait_until_empty(self) -> None:
        """Wait until no request is in flight, or all have failed."""
        self._emptied.clear()
        if self._calls:
            await self._emptied.wait()

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._check_deadlines)

    def _check_deadlines(self) -> None:
        """Handle the timer of the earliest deadline; usually its request has its response."""
        self._timer = None
        if not self._calls:
            return
        first = min(self._calls, key=lambda call: call.deadline)
        if first.deadline > self._loop.time():
            self._set_timer(first.deadline)
            return
        waited_s = self._loop.time() - first.sent
        self._on_timeout(
            RequestTimeoutError(
                f"{first.api} got no response within {waited_s:.1f} s; the connection is closed"
            )
        )
