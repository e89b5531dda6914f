"""Samples of the ends of topics, which the driver asks the brokers for.

`take` asks once: for the present ends of the topics that groups have committed, and for the past of
topics that have no samples yet by a grid of times. `Sampler` does so each 30 s in a thread, beside
the micro-batches of a stream. Its rows wait in memory until the stream stores them.

A history is whole without samples. So an error is logged, once until the next success, and the next
attempt is in 30 s.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kohort.client.cluster import EARLIEST, LATEST, Cluster, Offset, list_offsets
from kohort.errors import KohortError
from kohort.history.sample_rows import (
    FUTURE_MS,
    SAMPLE_INTERVAL_MS,
    Ends,
    grid_rows,
    grid_times,
    sampled_rows,
)
from kohort.history_files.samples import CommittedTopics, last_sample_ms
from kohort.spark import background
from kohort.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from kohort.client.cluster import Isolation
    from kohort.history_files.directory import WritableHistory
    from kohort.spark.raw_options import Pairs

INTERVAL_S: Final = SAMPLE_INTERVAL_MS / 1000
TIMEOUT_MS: Final = 10_000
"""Of a request for ends: partitions without a leader are left out then."""
MAX_WAITING_ROWS: Final = 2_000_000
"""Rows in memory, above which no sample is taken until the stream has stored them."""
_log: Final = logging.getLogger("kohort.history")


class Present(NamedTuple):
    """What the brokers have responded."""

    time_ms: int
    ends: Mapping[TopicPartition, Ends]
    topic_ids: Mapping[str, str]


class EndsOfBroker:
    """Asks the brokers of these `kafka.*` options for the ends of topics."""

    def __init__(self, kafka: "Pairs", now_ms: Callable[[], int]) -> None:
        self._kafka = kafka
        self._now_ms = now_ms

    def present(self, topics: Collection[str]) -> Present:
        """The ends of all partitions of `topics`. Missing ones are left out. Raises KohortError."""
        return background.run(self._present(tuple(sorted(topics))))

    def first_since(
        self, partitions: Collection[TopicPartition], time_ms: int
    ) -> dict[TopicPartition, int]:
        """The first offset at or after a time, -1 without one. Raises KohortError."""
        return background.run(self._offsets(partitions, time_ms))

    async def _present(self, topics: tuple[str, ...]) -> Present:
        cluster = await self._cluster()
        known = (await cluster.request_metadata(topics)).topics
        # A topic that was deleted has an error, and one that this user may not describe too.
        partitions = [
            TopicPartition(name, partition.index)
            for name, topic in known.items()
            if topic.exists
            for partition in topic.partitions
        ]
        starts = await self._offsets(partitions, EARLIEST)
        stable = await self._offsets(starts, LATEST, "read_committed")
        # A commit up to now is at or below an end that is asked for after now.
        now = self._now_ms()
        latest = await self._offsets(stable, LATEST)
        ends = {tp: Ends(starts[tp], end, stable[tp]) for tp, end in latest.items()}
        ids = {name: str(topic.id) for name, topic in known.items() if topic.id and topic.id.int}
        return Present(now, ends, ids)

    async def _offsets(
        self,
        partitions: Collection[TopicPartition],
        when: int,
        isolation: "Isolation" = "read_uncommitted",
    ) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        outcomes = await list_offsets(
            await self._cluster(),
            dict.fromkeys(partitions, when),
            isolation,
            timeout_ms=TIMEOUT_MS,
        )
        return {
            tp: outcome.offset for tp, outcome in outcomes.items() if isinstance(outcome, Offset)
        }

    async def _cluster(self) -> Cluster:
        return await background.cluster(self._kafka)


Sample: TypeAlias = "Callable[[Callable[[], bool]], list[pa.RecordBatch]]"
"""Takes a sample; its argument tells whether it is of no use any more."""


@dataclass(slots=True)
class TopicsToSample:
    """The topics of a history that are sampled, and since when they have no samples."""

    history: "WritableHistory"
    committed: CommittedTopics
    past_of: dict[str, int] = field(default_factory=dict)
    """Topic → time in ms from which on a grid has to be asked for."""
    _last_ms: int | None = None

    @classmethod
    def of(cls, history: "WritableHistory") -> "TopicsToSample":
        return cls(
            history, CommittedTopics(history.files), _last_ms=last_sample_ms(history.current)
        )

    def update(self) -> Collection[str]:
        """All topics that groups have committed. Raises KohortError, OSError."""
        for topic in self.committed.update(self.history.current):
            since = self.committed.since_ms[topic]
            sampled = 0 if self._last_ms is None else self._last_ms + SAMPLE_INTERVAL_MS
            self.past_of[topic] = max(since, sampled)
        return self.committed.since_ms


def take(
    ends: EndsOfBroker,
    topics: TopicsToSample,
    is_stopped: Callable[[], bool] = lambda: False,
) -> "list[pa.RecordBatch]":
    """One sample, and the grid of topics that have none. Raises KohortError, OSError."""
    names = topics.update()
    if not names:
        return []
    present = ends.present(names)
    rows = [sampled_rows(present.time_ms, present.ends, present.topic_ids)]
    if topics.past_of and not is_stopped():
        past = dict(topics.past_of)
        rows.append(_grid(ends, present, past, is_stopped))
        for topic in past:
            topics.past_of.pop(topic, None)
    return rows


def _grid(
    ends: EndsOfBroker,
    present: Present,
    past_of: Mapping[str, int],
    is_stopped: Callable[[], bool],
) -> "pa.RecordBatch":
    of_past = {tp: each for tp, each in present.ends.items() if tp.topic in past_of}
    times = grid_times(min(past_of.values()), present.time_ms, len(of_past))
    asked, found = [], []
    for at in [*times, present.time_ms + FUTURE_MS] if times else ():
        if is_stopped():
            return grid_rows((), (), {}, {})
        asked.append(at)
        found.append(ends.first_since(of_past, at))
    return grid_rows(asked, found, of_past, present.topic_ids)


class Sampler:
    """Context manager that takes samples each `interval_s` in a thread of its own."""

    def __init__(self, sample: "Sample", interval_s: float = INTERVAL_S) -> None:
        """`sample` may raise KohortError or OSError."""
        self._sample = sample
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._waiting: list[pa.RecordBatch] = []
        self._waits_since: float | None = None
        self._has_failed = False
        self._thread = threading.Thread(target=self._run, name="kohort-samples", daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the thread after its present request, which is not waited for."""
        self._ended.set()

    def is_due(self, seconds: float) -> bool:
        """Whether rows have been waiting for so long."""
        since = self._waits_since
        return since is not None and time.monotonic() - since >= seconds

    def collect(self) -> "list[pa.RecordBatch]":
        """The rows since the call before."""
        with self._lock:
            waiting, self._waiting, self._waits_since = self._waiting, [], None
        return waiting

    def sample_once(self) -> None:
        """Take a sample, unless too many rows are waiting. An error is logged."""
        if sum(rows.num_rows for rows in self._waiting) > MAX_WAITING_ROWS:
            return
        try:
            batches = [rows for rows in self._sample(self._ended.is_set) if rows.num_rows]
        except (KohortError, OSError) as error:
            if not self._has_failed:
                log_failure(error)
            self._has_failed = True
            return
        self._has_failed = False
        if batches:
            with self._lock:
                self._waiting += batches
                self._waits_since = self._waits_since or time.monotonic()

    def _run(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            self.sample_once()
            self._ended.wait(max(began + self._interval_s - time.monotonic(), 0))


def log_failure(error: Exception) -> None:
    """Log that ends could not be sampled or stored."""
    _log.warning("ends of topics could not be sampled, the history goes on without: %s", error)
