"""The partitions of a fetch, and which of them are due.

A consumer of hundreds of partitions fetches again and again, and few have new records.

    due       it is read by the next pass: the request names it anew, its log changed, it had
              records or an error, a limit kept its records back, or the client does not know its
              offsets yet
    settled   the client has all records of it and its offsets; it is due once its log changes

So a pass costs what the partitions that changed cost, and a fetch that waits costs nothing. A log
tells a change once, unless a fetch waits here for more than that: nothing is left of a client that
went without a word but one last call.
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

    __slots__ = ("_closed", "_due", "_waiting", "_wanted", "_watches", "changes")

    def __init__(self, wanted: Iterable[PartitionRequest] = ()) -> None:
        self._wanted: dict[PartitionKey, PartitionRequest] = {}
        self._due: dict[PartitionKey, None] = {}
        self._watches: dict[PartitionKey, _Watch] = {}
        self._waiting: dict[asyncio.Future[None], int] = {}
        """Fetches that wait, and the bytes that each is still short of."""
        self._closed = False
        self.changes = 0
        """Times that a watched log changed."""
        for each in wanted:
            self.want(each)

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def due(self) -> list[PartitionRequest]:
        """Those to read, in the order in which to read them."""
        wanted = self._wanted
        return [wanted[key] for key in self._due]

    @property
    def any_settled(self) -> bool:
        return len(self._due) < len(self._wanted)

    def want(self, wanted: PartitionRequest) -> None:
        """Fetch it; in place of what was said of that partition before."""
        key = (wanted.topic, wanted.partition)
        self._wanted[key] = wanted
        self._due[key] = None

    def want_all(self) -> None:
        """Read all of them in the next pass."""
        self._due = dict.fromkeys((*self._due, *self._wanted))

    def forget(self, key: PartitionKey) -> None:
        """Fetch it no more; harmless if it was not."""
        self._wanted.pop(key, None)
        self._due.pop(key, None)
        watch = self._watches.pop(key, None)
        if watch is not None:
            watch.stop()

    def wants(self, wanted: PartitionRequest) -> bool:
        """Whether nothing else was said of the partition since it was read."""
        return self._wanted.get((wanted.topic, wanted.partition)) is wanted

    def put_last(self, key: PartitionKey) -> None:
        """A partition that is due is read after all others."""
        self._due.pop(key, None)
        self._due[key] = None

    def watch(self, fetched: FetchPartitionData, *, settled: bool = False) -> None:
        """Notice when the log that was read changes; with `settled`, it is not due until then.

        Not to be called if anything else ran since it was read.
        """
        log = fetched.log
        key = (fetched.request.topic, fetched.request.partition)
        if self._closed or log is None or self._wanted.get(key) is not fetched.request:
            return
        known = self._watches.get(key)
        committed = fetched.aborted is not None
        if known is not None and (known.log is not log or known.committed is not committed):
            known.stop()  # the topic was deleted and made again, or is read in another way
            known = None
        if known is None:
            self._watches[key] = _Watch(self, key, log, committed)
        if settled:
            self._due.pop(key, None)

    def changed(self, watch: "_Watch", grown: int | None) -> None:
        """A log grew by so many bytes; one that did not grow was trimmed, cleaned or removed.

        None: by bytes that are not to be read yet, of which only the offsets are news.
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

    async def more(self, missing: int, deadline: float) -> None:
        """Return when the watched logs have grown by `missing` bytes together, or at the deadline.

        Also when a log did anything but grow. The deadline is by the loop's time.
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
        """Watch nothing any more. A fetch that still waits here does so until its deadline."""
        self._closed = True
        for watch in self._watches.values():
            watch.stop()
        self._watches.clear()


class _Watch:
    """Tells when a log changes, from now on until it is stopped."""

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
        self._partitions.changed(self, self._stable_growth(grown) if self.committed else grown)

    def _stable_growth(self, grown: int) -> int | None:
        """What of `grown` bytes is stable: None if none is, 0 if older ones may be stable too."""
        before, was_stable = self._stable, self._is_stable
        try:
            self._stable = self.log.last_stable_offset
        except (KafkaError, OSError):
            return 0
        self._is_stable = self._stable == self.log.high_watermark
        if self._stable == before and grown > 0:
            return None
        return grown if was_stable and self._is_stable else 0


def _end(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
