"""What `metrics()` of a client returns: counters since its start, and gauges of this moment.

    metrics = group.metrics()
    print(metrics.fetch.lag, metrics.rebalances.count, metrics.heartbeats.latency.mean_ms)

Durations are in ms, sizes in bytes. Counters only grow. They count requests and batches, so they
cost nothing for each record. A snapshot never changes; it may be taken from any thread.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kohort.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """Durations that were counted."""

    count: int
    total_ms: float
    last_ms: float
    """The latest one; 0 before the first."""
    buckets: tuple[tuple[str, int], ...]
    """(upper bound in seconds, durations up to it), as Prometheus wants them; the last is +Inf."""

    @property
    def mean_ms(self) -> float:
        """The mean of all; 0 before the first."""
        return self.total_ms / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionMetrics:
    """The connections of one client, and all requests on them."""

    open: int
    """Connections that are open now."""
    opened: int
    failed: int
    """Attempts to connect that failed."""
    in_flight: int
    """Requests that have no response yet."""
    sent_bytes: int
    received_bytes: int
    requests: Mapping[str, Durations]
    """From request to response, by API (`fetch`, `produce`, `heartbeat`, …)."""
    failures: Mapping[str, int]
    """Requests without a response, because they timed out or their connection broke; by API."""
    throttled: Durations
    """Pauses that brokers asked for because of a quota (KIP-219)."""
    retries: Mapping[str, int]
    """Attempts that failed and were repeated, by Kafka's error or the exception's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetrics:
    """`Cluster.metrics()`: what `Admin` and other users of the cluster send."""

    client_id: str
    is_closed: bool
    connections: ConnectionMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetrics:
    """A partition that is read."""

    position: int | None
    """Offset of the next record that is handed out; None until it is known."""
    lag: int | None
    """Offsets from `position` to the end as of the last fetch; None before the first.

    The end is the high watermark, under read_committed the last stable offset.
    """
    high_watermark: int | None
    queued_batches: int
    """Batches that were fetched and not handed out yet."""
    queued_records: int
    queued_bytes: int
    is_paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchMetrics:
    """What was read."""

    requests: Durations
    """Fetch requests; a broker without records holds one for `fetch_max_wait_ms`."""
    batches: int
    records: int
    """As the headers of the record batches count them: also those before the position of the first
    fetch, and those of aborted transactions."""
    bytes: int
    partitions: Mapping[TopicPartition, PartitionMetrics]
    """The assigned partitions."""

    @property
    def lag(self) -> int:
        """The lag of all partitions whose lag is known."""
        return sum(partition.lag or 0 for partition in self.partitions.values())

    @property
    def queued_records(self) -> int:
        """Records of all partitions that were fetched and not handed out yet."""
        return sum(partition.queued_records for partition in self.partitions.values())

    @property
    def queued_bytes(self) -> int:
        """Bytes of all partitions that were fetched and not handed out yet."""
        return sum(partition.queued_bytes for partition in self.partitions.values())


def moved_back(fetch: FetchMetrics, tp: TopicPartition, position: int) -> FetchMetrics:
    """The same, with a partition of which records of the batch in work are left."""
    metrics = fetch.partitions.get(tp)
    if metrics is None or metrics.position is None:
        return fetch
    lag = None if metrics.lag is None else metrics.lag + metrics.position - position
    moved = replace(metrics, position=position, lag=lag)
    return replace(fetch, partitions={**fetch.partitions, tp: moved})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMetrics:
    """Requests of one kind to the coordinator."""

    latency: Durations
    """Those that have a response, also with an error."""
    failures: Mapping[str, int]
    """By Kafka's error or the exception's name; what is part of a rebalance is no failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetrics:
    """Commits of offsets."""

    requests: RequestMetrics
    partitions: int
    """Offsets that were committed, over all requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMetrics:
    """`Consumer.metrics()`."""

    client_id: str
    is_closed: bool
    commits: CommitMetrics
    fetch: FetchMetrics
    connections: ConnectionMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetrics:
    """`ConsumerGroup.metrics()`."""

    client_id: str
    is_closed: bool
    group_id: str
    member_id: str
    """"" before the coordinator has given one."""
    state: str
    """`out`, `joining`, `assigning`, `syncing`, `stable`, `leaving` or `left`."""
    generation: int
    """-1 while there is none."""
    assignment: tuple[TopicPartition, ...]
    """The partitions of this member, also those that drain."""
    rebalances: Durations
    """From the first JoinGroup, or the revocation before it, to the assignment."""
    lost: int
    """How often the member lost partitions: it was fenced or expired, or a topic was deleted."""
    joins: RequestMetrics
    syncs: RequestMetrics
    heartbeats: RequestMetrics
    heartbeat_age_ms: float | None
    """Time since the last response to a heartbeat; None before the first."""
    commits: CommitMetrics
    fetch: FetchMetrics
    connections: ConnectionMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetrics:
    """The transactions of one producer."""

    transactional_id: str
    state: str
    """Java's name: Uninitialized, Ready, InTransaction, AbortableError, FatalError…"""
    initializations: Durations
    """InitProducerId at the start, with its retries."""
    offset_commits: Durations
    """Calls of `commit_offsets` that succeeded."""
    commits: Durations
    """From the last delivery to the coordinator's response."""
    aborts: Durations
    """From the decision to the coordinator's response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerMetrics:
    """`Producer.metrics()`."""

    client_id: str
    is_closed: bool
    queued_records: int
    """Records that are not settled yet, in flight or waiting."""
    queued_bytes: int
    buffer_bytes: int
    """`buffer_memory`: the most bytes that can be queued."""
    waiting_sends: int
    """Calls of `send` that wait for memory."""
    in_flight_batches: int
    batches: int
    """Batches that were delivered; so `records`, `bytes` and `uncompressed_bytes`."""
    records: int
    bytes: int
    """As they were sent, compressed."""
    uncompressed_bytes: int
    failed_records: int
    """Records that were given up; their deliveries raise the error."""
    split_batches: int
    """Batches that a broker found too large, and that were sent in two halves."""
    resent_batches: int
    queue_time: Durations
    """From a batch's first record to its first request."""
    delivery_time: Durations
    """From a batch's first record to the broker's acknowledgement."""
    requests: Durations
    """Produce requests; with acks=0 they end when they are written."""
    transactions: TransactionMetrics | None
    """None without a `transactional_id`."""
    connections: ConnectionMetrics

    @property
    def mean_batch_bytes(self) -> float:
        """Mean size of the delivered batches; 0 before the first."""
        return self.bytes / self.batches if self.batches else 0.0

    @property
    def mean_batch_records(self) -> float:
        """Mean number of records in the delivered batches; 0 before the first."""
        return self.records / self.batches if self.batches else 0.0

    @property
    def compression_ratio(self) -> float:
        """Sent bytes as a part of the uncompressed ones; 1 before the first batch."""
        return self.bytes / self.uncompressed_bytes if self.uncompressed_bytes else 1.0


Metrics = ClusterMetrics | ConsumerMetrics | GroupMetrics | ProducerMetrics
