"""The state of one fetched partition: its position, leader, batches ahead and error.

    add ──► unready ──► ready ◄──► in flight
              ▲           │
              └───────────┘  leader changed, offset out of range, broker unreachable

An unready partition needs a leader, a start offset, or a check that its offset still refers to the
same records. `PositionResolver` requests these. `BrokerFetcher` fetches ready partitions, and
`Fetcher` returns their batches. All of them change the state by the methods here; the names follow
Java's SubscriptionState.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from uuid import UUID

from kohort.client.backoff import Backoff, described, gave_up
from kohort.client.cluster import NO_EPOCH, Leader
from kohort.client.errors import GaveUpError, TopicRecreatedError
from kohort.client.fetch.batch import Batch
from kohort.client.fetch.response import PartitionResponse
from kohort.client.fetch.session import RequestedPartition
from kohort.client.fetch.waiters import Waiters
from kohort.client.metrics import PartitionMetrics
from kohort.errors import fresh
from kohort.types import TopicPartition

_NOT_VALIDATED = Leader(-1, NO_EPOCH)


class Budget:
    """Bytes that all partitions of a fetcher may buffer.

    `on_room` is called when the buffered bytes fall below `limit`.
    """

    def __init__(self, limit: int, on_room: Callable[[], None]) -> None:
        self._limit = limit
        self._on_room = on_room
        self._used = 0

    @property
    def used(self) -> int:
        """Size of all buffered batches in bytes."""
        return self._used

    @property
    def is_full(self) -> bool:
        """Whether no further batches should be fetched."""
        return self._used >= self._limit

    def reserve(self, size: int) -> None:
        """Add `size` to the buffered bytes; a negative one subtracts."""
        was_full = self.is_full
        self._used += size
        if was_full and not self.is_full:
            self._on_room()


class FetchPartition:
    """One partition. A negative offset is a ListOffsets query (EARLIEST, LATEST).

    `on_change` is called when `pop_batch` may have a batch or an error.
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
        """The topic's id when the partition was first located."""
        self._leader: Leader | None = None  # None: unready
        self._replica: int | None = None
        self._replica_until = 0.0
        self._is_paused = False
        self._revision = 0
        self._in_flight = -1  # the revision of the request in flight
        self._error: Exception | None = None
        self._retry_error: GaveUpError | None = None
        self._backoff = backoff
        self._high_watermark = -1
        self._last_stable_offset = -1
        self._waiters = Waiters()
        self._buffered: deque[Batch] = deque()
        self._buffered_bytes = 0
        self._position = self._fetch_offset = offset
        self._epoch = leader_epoch  # of the record before `fetch_offset`; -1 if not known
        self._validated_by = _NOT_VALIDATED
        self._failures: Counter[str] = Counter()
        self._failing_since = 0.0

    def __repr__(self) -> str:
        state = "paused" if self._is_paused else "ready" if self._leader else "unready"
        ahead = f" {len(self._buffered)} batches ahead" if self._buffered else ""
        return f"<FetchPartition {self.tp} {state} at {self._position}{ahead}>"

    # Position

    @property
    def position(self) -> int:
        """Offset of the next record of `pop_batch`; negative while unresolved."""
        return self._position

    @property
    def fetch_offset(self) -> int:
        """Offset of the next request: after all buffered batches; negative while unresolved."""
        return self._fetch_offset

    @property
    def last_epoch(self) -> int:
        """Leader epoch of the record before `fetch_offset`; -1 if not known."""
        return self._epoch

    @property
    def revision(self) -> int:
        """Number that changes when the responses to earlier requests become obsolete."""
        return self._revision

    @property
    def high_watermark(self) -> int:
        """High watermark as of the last fetch; -1 before the first."""
        return self._high_watermark

    def lag(self, *, is_committed: bool) -> int | None:
        """Offsets from `position` to the end as of the last fetch; None before the first.

        The end is the high watermark, with `is_committed` the last stable offset.
        """
        end, position = self._high_watermark, self._position
        if is_committed:
            end = self._last_stable_offset
        return None if end < 0 or position < 0 else max(end - position, 0)

    def seek(self, offset: int, leader_epoch: int) -> bool:
        """Continue at another offset; drops buffered batches and the request in flight.

        Returns whether the position has to be resolved before the next fetch.
        """
        had_error = self._error is not None
        self._drop_buffered()
        self._position = self._fetch_offset = offset
        self._epoch = leader_epoch
        self._error = self._retry_error = None
        self._revision += 1
        self._validated_by = _NOT_VALIDATED
        if offset < 0 or leader_epoch != NO_EPOCH:
            self._leader = None
        return self._leader is None or had_error

    def remove(self) -> None:
        """Drop buffered batches and the request in flight, and wake all waiting tasks."""
        self._revision += 1
        self._leader = None
        self._drop_buffered()
        self.wake()

    @property
    def awaits_reset(self) -> bool:
        """Whether the fetch offset has to come from ListOffsets."""
        return self._fetch_offset < 0

    def request_reset(self, offset: int) -> None:
        """Fetch from EARLIEST or LATEST: the log does not have the current offset."""
        self._fetch_offset, self._epoch = offset, NO_EPOCH

    def complete_reset(self, offset: int) -> None:
        """Fetch from the offset of the ListOffsets response."""
        self._fetch_offset = offset
        if not self._buffered:
            self._position = offset

    def awaits_validation(self, leader: Leader) -> bool:
        """Whether to check with `leader` that the offset still follows the epoch read last."""
        return self._epoch != NO_EPOCH and leader.epoch != NO_EPOCH and self._validated_by != leader

    def truncate(self, end: int) -> None:
        """Drop batches from `end` on: the log now ends there."""
        self._keep(batch for batch in self._buffered if batch.next_offset <= end)
        self._fetch_offset = end
        self._position = min(self._position, end)
        self._epoch = self._buffered[-1].leader_epoch if self._buffered else NO_EPOCH

    # Leader and replica

    @property
    def is_ready(self) -> bool:
        """Whether the leader and the fetch offset are known."""
        return self._leader is not None

    @property
    def node_id(self) -> int | None:
        """The broker to fetch from; None while the partition is unready."""
        if self._leader is None:
            return None
        return self._leader.node_id if self._replica is None else self._replica

    def identify(self, topic_id: UUID | None) -> None:
        """Remember the topic id. Raises TopicRecreatedError if the partition had another one."""
        if None not in (self.topic_id, topic_id) and topic_id != self.topic_id:
            raise TopicRecreatedError(self.tp)
        self.topic_id = topic_id or self.topic_id

    def lead_by(self, leader: Leader) -> None:
        """Fetch from this leader, for which the offset is valid."""
        self._leader = self._validated_by = leader

    def invalidate_leader(self) -> None:
        """Make the partition unready: its leader is unknown or wrong."""
        self._leader = None

    @property
    def reads_replica(self) -> bool:
        """Whether a follower is read instead of the leader (KIP-392)."""
        return self._replica is not None

    def prefer_replica(self, node_id: int | None, expires_at: float) -> None:
        """Fetch from this follower until that time of the loop's clock; None: from the leader."""
        self._replica, self._replica_until = node_id, expires_at

    def is_replica_due(self, now: float) -> bool:
        """Whether to return to the leader, which may name another follower."""
        return self._replica is not None and now >= self._replica_until

    # Requests

    def is_fetchable(self, node_id: int, max_bytes: int) -> bool:
        """Whether to request the partition from that broker now, with `max_bytes` to buffer."""
        return (
            self.node_id == node_id
            and self._in_flight != self._revision
            and not self._is_paused
            and self._buffered_bytes < max_bytes
        )

    def begin_fetch(self) -> int:
        """Mark the partition as in flight until `end_fetch` with the revision that this returns."""
        self._in_flight = self._revision
        return self._revision

    def end_fetch(self, revision: int) -> None:
        """The response to the request of that revision was handled."""
        if self._in_flight == revision:
            self._in_flight = -1

    def requested(self, max_bytes: int) -> RequestedPartition:
        """The partition's entry in a Fetch request."""
        epoch = self._leader.epoch if self._leader is not None else NO_EPOCH
        return RequestedPartition(self.topic_id, self._fetch_offset, epoch, max_bytes)

    def update_watermarks(self, response: PartitionResponse) -> None:
        """Set the high watermark and the last stable offset of a response."""
        self._high_watermark = response.high_watermark
        self._last_stable_offset = response.last_stable_offset

    # Buffered batches

    @property
    def is_paused(self) -> bool:
        """Whether the partition is neither fetched nor returned."""
        return self._is_paused

    def pause(self) -> None:
        """Neither fetch nor return the partition until `resume`; buffered batches stay."""
        self._is_paused = True

    def resume(self) -> None:
        """End `pause`."""
        self._is_paused = False

    @property
    def is_takeable(self) -> bool:
        """Whether `pop_batch` has a batch to return, or an error to raise."""
        return not self._is_paused and bool(self._buffered or self._error or self._retry_error)

    def put(self, batch: Batch) -> None:
        """Buffer a batch that begins at `fetch_offset`."""
        self._buffered.append(batch)
        self._buffered_bytes += batch.size
        self._budget.reserve(batch.size)
        self._fetch_offset = batch.next_offset
        self._epoch = batch.leader_epoch
        self._on_change(self)

    def pop_batch(self) -> Batch | None:
        """Remove the next batch. Raises the partition's error after all batches before it."""
        if self._buffered:
            batch = self._buffered.popleft()
            self._buffered_bytes -= batch.size
            self._budget.reserve(-batch.size)
            self._position = batch.next_offset
            return batch
        if self._error is not None:
            raise fresh(self._error)
        if self._retry_error is not None:
            retry_error, self._retry_error = self._retry_error, None
            raise fresh(retry_error)
        return None

    def metrics(self, *, is_committed: bool) -> PartitionMetrics:
        """The state of the partition; `is_committed`: it is read up to the last stable offset."""
        queued = tuple(self._buffered)
        return PartitionMetrics(
            position=None if self._position < 0 else self._position,
            lag=self.lag(is_committed=is_committed),
            high_watermark=None if self._high_watermark < 0 else self._high_watermark,
            queued_batches=len(queued),
            queued_records=sum(batch.record_count for batch in queued),
            queued_bytes=sum(batch.size for batch in queued),
            is_paused=self._is_paused,
        )

    def _drop_buffered(self) -> None:
        self._keep([])
        self._fetch_offset = self._position

    def _keep(self, batches: Iterable[Batch]) -> None:
        self._buffered = deque(batches)
        size = sum(batch.size for batch in self._buffered)
        before, self._buffered_bytes = self._buffered_bytes, size
        self._budget.reserve(size - before)

    def wake(self) -> None:
        """Wake the tasks that wait in `changed`."""
        self._waiters.wake()

    async def changed(self) -> None:
        """Wait until `pop_batch` may have a batch or an error."""
        await self._waiters.wait()

    # Failures

    def fail(self, error: Exception) -> None:
        """Raise `error` from every `pop_batch` until `seek`."""
        self._error = error
        self._leader = None
        self._on_change(self)

    def attempt_succeeded(self) -> None:
        """A broker sent a usable response: reset the failed attempts."""
        if self._leader is not None and self._failures:
            self._failures.clear()
            self._backoff.reset()
            self._retry_error = None

    def attempt_failed(self, error: BaseException, now: float, patience_s: float) -> float:
        """Count a failed attempt, which makes the partition unready; returns the pause in seconds.

        After `patience_s` of failures `pop_batch` raises one GaveUpError that lists them.
        """
        self._leader = None
        if not self._failures:
            self._failing_since = now
        self._failures[described(error)] += 1
        if (seconds := now - self._failing_since) >= patience_s:
            failures, self._failures = self._failures, Counter()
            advice = (
                "attempts continue; check that the topic exists and that its leader can be reached "
                "from here"
            )
            task = f"reading {self.tp} at offset {self._fetch_offset}"
            self._retry_error = gave_up(task, seconds, failures, error, advice)
            self._on_change(self)
        return self._backoff.after(error, f"reading {self.tp}")
