"""The requests of one connection that are received and not yet served: which is next, and when.

No I/O: bytes and events come in as calls, decisions are return values. The connection reads from
the transport, serves requests and writes responses.

*Order.* Kafka works on one request of a connection at a time. The next frame is only taken when no
request is in progress.

*What blocks.* No request is taken while the client does not read its responses, while it must wait
because of its quotas, or once the server drains the connection.

*Bounds.* Reading pauses when `READ_AHEAD` bytes wait behind a request in progress, or when a large
frame has to wait for memory (`request_memory`).
"""

from typing import Final

from kohort.protocol.apis import BY_NAME
from kohort.protocol.framing import FrameReader
from kohort.server.net.exchange import Exchange
from kohort.server.net.repeated_requests import RepeatedRequest
from kohort.server.net.request_memory import UNMETERED, RequestMemory, Waiter

READ_AHEAD: Final = 64 * 1024
"""Bytes that may wait behind a request in progress before reading pauses."""

PARKABLE: Final = frozenset(BY_NAME[name].key for name in ("join_group", "sync_group", "fetch"))
"""APIs whose requests wait for other clients: a server that stops does not wait for those."""


class RequestQueue:
    """Received bytes, the request in progress, and the reasons to take no other one."""

    __slots__ = (
        "_memory", "_memory_held", "_reader", "_waits_for_memory", "has_ended", "in_progress",
        "is_draining", "is_throttled", "is_writable", "needs_bytes",
    )  # fmt: skip

    def __init__(self, memory: RequestMemory, max_bytes: int) -> None:
        """`max_bytes`: size of the largest request that is accepted."""
        self._memory = memory
        self._memory_held = 0
        """Bytes for the frame being received or served."""
        self._waits_for_memory = False
        self._reader = FrameReader(max_bytes)
        self.in_progress: Exchange | RepeatedRequest | None = None
        self.needs_bytes = True
        """The last frame in the reader is incomplete, or there is none."""
        self.is_writable = True
        """The client reads its responses."""
        self.is_throttled = False
        """The client must wait because of its quotas."""
        self.is_draining = False
        """The server takes no further request of this connection."""
        self.has_ended = False
        """The client sends no more."""

    # Bytes

    def is_idle_now(self) -> bool:
        """Whether bytes that arrive now begin a request that can be served at once."""
        # No property: Python 3.11 calls those more slowly, and this is called for every request.
        return (
            self.in_progress is None
            and self.needs_bytes
            and self.is_writable
            and not self.is_draining
            and self._reader.is_empty
        )

    def awaits_frame(self) -> bool:
        """Whether no bytes wait, and more are needed."""
        return self.needs_bytes and self._reader.is_empty

    @property
    def buffered(self) -> int:
        """Bytes that wait."""
        return self._reader.buffered

    def is_one_frame(self, data: bytes) -> bool:
        """Whether `data` is exactly one frame, which need not be fed if the queue is at rest."""
        return self._reader.is_one_frame(data)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._reader.feed(data)

    def wants_bytes(self, waiter: Waiter) -> bool:
        """Whether to read on. If memory is missing, `waiter` is called when it is granted.

        Raises MalformedError.
        """
        if not self.needs_bytes:
            return self._reader.buffered < READ_AHEAD
        size = self._reader.wanted()
        return size <= UNMETERED or self._has_memory(size, waiter)

    # Requests

    def next_frame(self) -> bytes | None:
        """The next frame to serve, its size in front; None if none is complete, or may be taken.

        Raises MalformedError.
        """
        self.needs_bytes = False
        if (
            self.in_progress is not None
            or not self.is_writable
            or self.is_draining
            or self.is_throttled
        ):
            return None
        frame = self._reader.next_frame()
        if frame is None:
            self.needs_bytes = True
        return frame

    def rest(self) -> bool:
        """After a response: whether all requests are served, and bytes are awaited."""
        if self.is_draining or self.has_ended or not self._reader.is_empty:
            return False
        self.needs_bytes = True
        return True

    @property
    def is_parked(self) -> bool:
        """Whether the request in progress waits for other clients."""
        return self.in_progress is not None and self.in_progress.api_key in PARKABLE

    @property
    def is_over(self) -> bool:
        """Whether to close the connection: no request is taken any more, none is to be awaited."""
        if self.in_progress is not None:
            return self.has_ended and self.is_parked
        return self.is_draining or (self.has_ended and self._has_no_frame)

    @property
    def _has_no_frame(self) -> bool:
        """Whether no whole frame is known to wait."""
        return self.needs_bytes or (self.is_throttled and self._reader.is_empty)

    # Events

    def throttle(self) -> None:
        """Take no request until `is_throttled` is set back."""
        self.is_throttled = True
        self.needs_bytes = False

    def drain(self) -> bool:
        """Take no further request; whether to close at once."""
        self.is_draining = True
        return self.in_progress is None or self.is_parked

    def end(self) -> bool:
        """The client sends no more; whether requests are left that are still served."""
        if self.in_progress is not None:
            is_done = self.is_parked
        else:
            # A client that does not read still has responses to get, or is idle.
            is_done = self.is_writable and self._has_no_frame
        self.has_ended = not is_done
        return self.has_ended

    def clear(self, waiter: Waiter) -> None:
        """The connection is lost: drop bytes, requests and memory, also what `waiter` waits for."""
        self.in_progress = None
        self._reader = FrameReader(self._reader.limit)
        self.release_memory()
        self._memory.forget(waiter)

    # Memory

    def limit(self, max_bytes: int) -> None:
        """Accept requests up to that size from now on."""
        self._reader.limit = max_bytes

    def use_memory(self, memory: RequestMemory) -> None:
        """Take the memory for further requests from `memory`."""
        self.release_memory()
        self._memory = memory

    def memory_granted(self, size: int) -> None:
        """The memory that `wants_bytes` had to wait for has been taken."""
        self._waits_for_memory = False
        self._memory_held = size

    def release_memory(self) -> None:
        """The request that took memory is served."""
        if self._memory_held:
            size, self._memory_held = self._memory_held, 0
            self._memory.release(size)

    def _has_memory(self, size: int, waiter: Waiter) -> bool:
        if not self._memory_held and not self._waits_for_memory:
            if self._memory.take(size, waiter):
                self._memory_held = size
            else:
                self._waits_for_memory = True
        return self._memory_held > 0
