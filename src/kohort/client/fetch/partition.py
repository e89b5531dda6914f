"""One partition that is being read: where it is, what was fetched ahead, what is wrong with it.

    add ──► unready ──► ready ◄──► in flight
              ▲           │
              └───────────┘  leader changed, offset out of range, broker unreachable

An unready partition needs something from the cluster before it can be fetched: a leader, an offset
to begin at, or a check that its offset still means the same records. `Fetcher` asks for these; here
is only what is known.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from uuid import UUID

from kohort.client.backoff import Backoff, described, gave_up
from kohort.client.cluster import NO_EPOCH, Leader
from kohort.client.errors import GaveUpError
from kohort.client.fetch.batch import Batch
from kohort.types import TopicPartition


class Budget:
    """Bytes that all partitions of a fetcher may have waiting. `on_room` is called when they fall
    below `limit`.
    """

    def __init__(self, limit: int, on_room: Callable[[], None]) -> None:
        self._limit = limit
        self._on_room = on_room
        self.used = 0

    @property
    def is_full(self) -> bool:
        return self.used >= self._limit

    def take(self, size: int) -> None:
        """So many bytes wait more; fewer, if negative."""
        was_full = self.is_full
        self.used += size
        if was_full and not self.is_full:
            self._on_room()


class FetchPartition:
    """The state of one partition. Offsets that are negative stand for what ListOffsets is to be
    asked for.

    `on_change` is called when there may be something to take.
    """

    def __init__(
        self,
        tp: TopicPartition,
        offset: int,
        leader_epoch: int,
        *,
        backoff: Backoff,
        budget: Budget,
        on_change: Callable[["FetchPartition"], None],
    ) -> None:
        self.tp = tp
        self._budget = budget
        self._on_change = on_change
        self.topic_id: UUID | None = None
        """The topic's id when it was first located."""
        self.leader: Leader | None = None
        """None: unready."""
        self.replica: int | None = None
        """The follower to fetch from, as the leader told us (KIP-392); None: from the leader."""
        self.replica_until = 0.0
        """Then the leader is asked again, by the loop's clock."""
        self.paused = False
        self.serial = 0
        """Moves when what is in flight is not wanted any more."""
        self._in_flight = -1  # the serial of what is
        self.error: Exception | None = None
        """To be raised by `take`, again and again, once nothing is buffered."""
        self.complaint: GaveUpError | None = None
        """To be raised by `take` once; attempts go on."""
        self.backoff = backoff
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self._waiters: list[asyncio.Future[None]] = []
        self._buffered: deque[Batch] = deque()
        self.buffered_bytes = 0
        self.position = self.fetch_offset = offset
        self.epoch = leader_epoch
        """Of the record before `fetch_offset`; -1 if not known."""
        self.validated = Leader(-1, NO_EPOCH)
        """The leader that was asked whether `fetch_offset` still follows the epoch."""
        self._tried: Counter[str] = Counter()
        self._trouble_since = 0.0

    def __repr__(self) -> str:
        state = "paused" if self.paused else "ready" if self.leader else "unready"
        ahead = f" {len(self._buffered)} batches ahead" if self._buffered else ""
        return f"<FetchPartition {self.tp} {state} at {self.position}{ahead}>"

    def seek(self, offset: int, leader_epoch: int) -> None:
        """Go on from another offset: what was fetched ahead is dropped, what is in flight will be."""
        self.drop_buffered()
        self.position = self.fetch_offset = offset
        self.epoch = leader_epoch
        self.error = self.complaint = None
        self.serial += 1
        self.validated = Leader(-1, NO_EPOCH)
        if offset < 0 or leader_epoch != NO_EPOCH:
            self.leader = None

    def drop_buffered(self) -> None:
        """Forget what was fetched ahead."""
        self._keep([])
        self.fetch_offset = self.position

    def _keep(self, batches: Iterable[Batch]) -> None:
        self._buffered = deque(batches)
        size = sum(batch.size for batch in self._buffered)
        before, self.buffered_bytes = self.buffered_bytes, size
        self._budget.take(size - before)

    def begin_at(self, offset: int) -> None:
        """ListOffsets told where."""
        self.fetch_offset = offset
        if self.position < 0:
            self.position = offset

    def truncate(self, end: int) -> None:
        """The log ends at `end` now: what was fetched from behind it is forgotten."""
        self._keep(batch for batch in self._buffered if batch.next_offset <= end)
        self.fetch_offset = end
        self.position = min(self.position, end)
        self.epoch = self._buffered[-1].leader_epoch if self._buffered else NO_EPOCH

    @property
    def node_id(self) -> int | None:
        """The broker to fetch from; None while it is unready."""
        if self.leader is None:
            return None
        return self.leader.node_id if self.replica is None else self.replica

    @property
    def is_in_flight(self) -> bool:
        """Whether an answer is awaited that is wanted."""
        return self._in_flight == self.serial

    def claim(self) -> int:
        """It is in flight from here on, until `release` of the serial that this gives."""
        self._in_flight = self.serial
        return self.serial

    def release(self, serial: int) -> None:
        """The answer was dealt with."""
        if self._in_flight == serial:
            self._in_flight = -1

    @property
    def needs_offset(self) -> bool:
        """Whether ListOffsets has to tell where to begin."""
        return self.fetch_offset < 0

    @property
    def has_something(self) -> bool:
        """Whether `take` has a batch to give, or an error to raise."""
        return not self.paused and bool(self._buffered or self.error or self.complaint)

    def put(self, batch: Batch) -> None:
        """Batches arrive in order; `take` gives them so."""
        self._buffered.append(batch)
        self.buffered_bytes += batch.size
        self._budget.take(batch.size)
        self.fetch_offset = batch.next_offset
        self.epoch = batch.leader_epoch
        self._on_change(self)

    def take(self) -> Batch | None:
        """The next batch. Raises the error that is in the way, once what came before it was taken."""
        if self._buffered:
            batch = self._buffered.popleft()
            self.buffered_bytes -= batch.size
            self._budget.take(-batch.size)
            self.position = batch.next_offset
            return batch
        if self.error is not None:
            raise self.error
        if self.complaint is not None:
            complaint, self.complaint = self.complaint, None
            raise complaint
        return None

    def refuse(self, error: Exception) -> None:
        """Have `take` raise this from now on, until `seek`."""
        self.error = error
        self.leader = None
        self._on_change(self)

    def wake(self) -> None:
        """Whoever waits for this partition looks again."""
        waiters, self._waiters = self._waiters, []
        for each in waiters:
            if not each.done():
                each.set_result(None)

    async def changed(self) -> None:
        """Wait until there may be something to take."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    # Attempts

    def succeeded(self) -> None:
        """The leader answered: trouble is over."""
        if self._tried:
            self._tried.clear()
            self.backoff.reset()
            self.complaint = None

    def failed(self, error: BaseException, now: float, patience_s: float) -> float:
        """An attempt failed: seconds until the next. After `patience_s` of this, `take` tells what
        was tried.
        """
        if not self._tried:
            self._trouble_since = now
        self._tried[described(error)] += 1
        if (seconds := now - self._trouble_since) >= patience_s:
            tried, self._tried = self._tried, Counter()
            advice = (
                "it goes on being tried; check that the topic exists and that its leader can "
                "be reached from here"
            )
            what = f"reading {self.tp} at offset {self.fetch_offset}"
            self.complaint = gave_up(what, seconds, tried, error, advice)
            self._on_change(self)
        return self.backoff.next_s()
