"""The partitions of a fetch, and which of them are due.

A consumer of hundreds of partitions fetches often, and few of them have new records each time.

    due         the next pass reads it: a new request names it, its log changed, it had records or
                an error, a limit kept its records back, or the client does not have its offsets yet
    caught up   the client has all its records and offsets; it becomes due when its log changes

A pass costs in proportion to the changed partitions, and a fetch that waits costs nothing. A watch
ends with the first change of its log, unless a fetch waits here for more bytes. So a client that
disappears leaves one call per log behind.
"""

import asyncio
from collections.abc import Iterable
from typing import TypeAlias

from kohort.errors import KafkaError
from kohort.log.base import LogReader
from kohort.server.fetch.reading import FetchPartitionData, PartitionRequest, TopicKey

PartitionKey: TypeAlias = tuple[TopicKey, int]


class Partitions:
    """The partitions that one client fetches."""

    __slots__ = ("_closed", "_due", "_requests", "_waiting", "_watches", "changes")

    def __init__(self, requests: Iterable[PartitionRequest] = ()) -> None:
        self._requests: dict[PartitionKey, PartitionRequest] = {}
        self._due: dict[PartitionKey, None] = {}
        self._watches: dict[PartitionKey, _Watch] = {}
        self._waiting: dict[asyncio.Future[None], int] = {}
        """Fetches that wait, and the bytes that each still waits for."""
        self._closed = False
        self.changes = 0
        """Times that a watched log changed."""
        for request in requests:
            self.add(request)

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def due(self) -> list[PartitionRequest]:
        """The partitions to read, in the order in which to read them."""
        requests = self._requests
        return [requests[key] for key in self._due]

    @property
    def any_caught_up(self) -> bool:
        return len(self._due) < len(self._requests)

    def add(self, request: PartitionRequest) -> None:
        """Fetch a partition; the request replaces an earlier one for it."""
        key = (request.topic, request.partition)
        self._requests[key] = request
        self._due[key] = None

    def mark_all_due(self) -> None:
        """Read all of them in the next pass."""
        self._due = dict.fromkeys((*self._due, *self._requests))

    def remove(self, key: PartitionKey) -> None:
        """Stop fetching a partition. No-op if it is not fetched."""
        self._requests.pop(key, None)
        self._due.pop(key, None)
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.stop()

    def is_current(self, request: PartitionRequest) -> bool:
        """Whether no later request replaced this one of a partition."""
        return self._requests.get((request.topic, request.partition)) is request

    def move_to_end(self, key: PartitionKey) -> None:
        """Read a partition that is due after all others."""
        self._due.pop(key, None)
        self._due[key] = None

    def watch(self, fetched: FetchPartitionData, *, caught_up: bool = False) -> None:
        """Watch the log that was read; with `caught_up`, it is not due until it changes.

        Nothing else may have run since it was read.
        """
        log = fetched.log
        key = (fetched.request.topic, fetched.request.partition)
        if self._closed or log is None or self._requests.get(key) is not fetched.request:
            return
        watch = self._watches.get(key)
        committed = fetched.aborted is not None
        if watch is not None and (watch.log is not log or watch.committed is not committed):
            watch.stop()  # the topic was recreated, or the isolation level changed
            watch = None
        if watch is None:
            self._watches[key] = _Watch(self, key, log, committed)
        if caught_up:
            self._due.pop(key, None)

    def on_log_change(self, watch: "_Watch", grown: int | None) -> None:
        """Take a change of a log, which grew by `grown` bytes.

        Not positive: it was trimmed, cleaned or removed. None: it grew by bytes that cannot be read
        yet, so only its offsets changed.
        """
        self._due[watch.key] = None
        self.changes += 1
        if not self._waiting:
            del self._watches[watch.key]
            watch.stop()
        if grown is None:
            return
        for waiter, missing in self._waiting.items():
            self._waiting[waiter] = missing - grown
            if (missing <= grown or grown <= 0) and not waiter.done():
                waiter.set_result(None)

    async def wait_for_bytes(self, missing: int, deadline: float) -> None:
        """Wait until the watched logs grew by `missing` bytes together, or until the deadline.

        Returns also when a log changed without growth. The deadline is by the loop's time.
        """
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        timer = loop.call_at(deadline, _end, waiter)
        self._waiting[waiter] = missing
        try:
            await waiter
        finally:
            del self._waiting[waiter]
            timer.cancel()

    def close(self) -> None:
        """Stop watching. A fetch that still waits here waits until its deadline."""
        self._closed = True
        for watch in self._watches.values():
            watch.stop()
        self._watches.clear()


class _Watch:
    """Reports changes of a log until it is stopped."""

    __slots__ = ("_is_stable", "_partitions", "_size", "_stable", "committed", "key", "log", "stop")

    def __init__(
        self, partitions: Partitions, key: PartitionKey, log: LogReader, committed: bool
    ) -> None:
        self.key = key
        self.log = log
        self.committed = committed
        """Whether it is read up to the last stable offset."""
        self._stable = log.last_stable_offset if committed else 0
        self._is_stable = committed and self._stable == log.high_watermark
        self._partitions = partitions
        self._size = log.size
        self.stop = log.on_append(self._changed)

    def _changed(self) -> None:
        grown, self._size = self.log.size - self._size, self.log.size
        self._partitions.on_log_change(
            self, self._stable_growth(grown) if self.committed else grown
        )

    def _stable_growth(self, grown: int) -> int | None:
        """Bytes of `grown` that are stable; None: none, 0: older bytes may have become stable."""
        former_stable, was_stable = self._stable, self._is_stable
        try:
            self._stable = self.log.last_stable_offset
        except (KafkaError, OSError):
            return 0
        self._is_stable = self._stable == self.log.high_watermark
        if self._stable == former_stable and grown > 0:
            return None
        return grown if was_stable and self._is_stable else 0


def _end(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
