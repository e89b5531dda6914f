"""The metrics of a client as samples with names and labels, for systems that gather them.

Names and units are Prometheus'. Every sample has the labels `client_id` and `group` ("" for a
client without one). Labels of partitions are those of the present assignment, `reason` and `api`
have Kafka's names: nothing grows with the data.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

from kohort.client.metrics.values import (
    ClusterMetrics,
    CommitMetrics,
    ConnectionMetrics,
    ConsumerMetrics,
    Durations,
    FetchMetrics,
    GroupMetrics,
    Metrics,
    ProducerMetrics,
    RequestMetrics,
)


class Kind(Enum):
    """What may be done with the values of a family."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """Samples of one name."""

    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    """Besides those of every sample."""


class Sample(NamedTuple):
    """One value. It is a Durations if its family is a histogram."""

    family: str
    labels: tuple[str, ...]
    """The values of the family's labels."""
    value: float | Durations


class Measured(Protocol):
    """A client: `Producer`, `Consumer`, `ConsumerGroup`, `Cluster`, also those of `sync`."""

    def metrics(self) -> Metrics: ...


_COUNTER, _GAUGE, _HISTOGRAM = Kind
_PARTITION: Final = ("topic", "partition")

FAMILIES: Final[Mapping[str, Family]] = {
    "connections": Family(_GAUGE, "Open connections."),
    "connections_opened": Family(_COUNTER, "Connections that were opened."),
    "connections_failed": Family(_COUNTER, "Attempts to connect that failed."),
    "in_flight_requests": Family(_GAUGE, "Requests that have no response yet."),
    "sent_bytes": Family(_COUNTER, "Bytes of requests."),
    "received_bytes": Family(_COUNTER, "Bytes of responses."),
    "request_seconds": Family(_HISTOGRAM, "From request to response.", ("api",)),
    "requests_failed": Family(_COUNTER, "Requests without a response.", ("api",)),
    "throttled_seconds": Family(_HISTOGRAM, "Pauses that brokers asked for."),
    "retries": Family(_COUNTER, "Attempts that failed and were repeated.", ("reason",)),
    "assigned_partitions": Family(_GAUGE, "Partitions that are read."),
    "lag": Family(_GAUGE, "Offsets to the end as of the last fetch.", _PARTITION),
    "position": Family(_GAUGE, "Offset of the next record.", _PARTITION),
    "queued_records": Family(_GAUGE, "Records fetched and not handed out.", _PARTITION),
    "queued_bytes": Family(_GAUGE, "Bytes fetched and not handed out.", _PARTITION),
    "fetched_records": Family(_COUNTER, "Records that were fetched."),
    "fetched_bytes": Family(_COUNTER, "Bytes of record batches that were fetched."),
    "committed_offsets": Family(_COUNTER, "Offsets that were committed."),
    "group_request_seconds": Family(
        _HISTOGRAM, "Requests to the coordinator that have a response.", ("request",)
    ),
    "group_requests_failed": Family(
        _COUNTER, "Requests to the coordinator that failed.", ("request", "reason")
    ),
    "member_state": Family(_GAUGE, "1 for the state that the member is in.", ("state",)),
    "generation": Family(_GAUGE, "The generation of the group; -1 while there is none."),
    "rebalance_seconds": Family(_HISTOGRAM, "From JoinGroup or revocation to the assignment."),
    "losses": Family(_COUNTER, "How often the member lost partitions."),
    "heartbeat_age_seconds": Family(_GAUGE, "Time since the last response to a heartbeat."),
    "produced_records": Family(_COUNTER, "Records that were delivered."),
    "produced_bytes": Family(_COUNTER, "Bytes of batches that were delivered, as sent."),
    "produced_uncompressed_bytes": Family(_COUNTER, "The same, before compression."),
    "produced_batches": Family(_COUNTER, "Batches that were delivered."),
    "produce_failed_records": Family(_COUNTER, "Records that were given up."),
    "produce_resent_batches": Family(_COUNTER, "Batches that were sent again."),
    "produce_split_batches": Family(_COUNTER, "Batches that were too large for a broker."),
    "produce_queued_records": Family(_GAUGE, "Records that are not settled yet."),
    "produce_queued_bytes": Family(_GAUGE, "Bytes that are not settled yet."),
    "produce_buffer_bytes": Family(_GAUGE, "The most bytes that can be queued."),
    "produce_waiting_sends": Family(_GAUGE, "Calls of send that wait for memory."),
    "produce_in_flight_batches": Family(_GAUGE, "Batches that have no response yet."),
    "produce_queue_seconds": Family(_HISTOGRAM, "From a batch's first record to its request."),
    "produce_delivery_seconds": Family(_HISTOGRAM, "From a batch's first record to delivery."),
    "transaction_state": Family(_GAUGE, "1 for the state that the producer is in.", ("state",)),
    "transaction_seconds": Family(
        _HISTOGRAM, "Initializations, offset commits, commits, aborts.", ("what",)
    ),
}
"""Families by name, without the prefix of the system that gathers them."""


def kind_of(metrics: Metrics) -> str:
    """`producer`, `consumer`, `group` or `cluster`."""
    return type(metrics).__name__.removesuffix("Metrics").lower()


def group_of(metrics: Metrics) -> str:
    """The group id; "" if the client is no member of a group."""
    return metrics.group_id if isinstance(metrics, GroupMetrics) else ""


def samples(metrics: Metrics) -> Iterator[Sample]:
    """All samples of a snapshot."""
    yield from _connections(metrics.connections)
    match metrics:
        case ProducerMetrics():
            yield from _producer(metrics)
        case ConsumerMetrics():
            yield from _fetch(metrics.fetch)
            yield from _commits(metrics.commits)
        case GroupMetrics():
            yield from _fetch(metrics.fetch)
            yield from _commits(metrics.commits)
            yield from _member(metrics)
        case ClusterMetrics():
            pass


def _connections(metrics: ConnectionMetrics) -> Iterator[Sample]:
    yield Sample("connections", (), metrics.open)
    yield Sample("connections_opened", (), metrics.opened)
    yield Sample("connections_failed", (), metrics.failed)
    yield Sample("in_flight_requests", (), metrics.in_flight)
    yield Sample("sent_bytes", (), metrics.sent_bytes)
    yield Sample("received_bytes", (), metrics.received_bytes)
    for api, latency in metrics.requests.items():
        yield Sample("request_seconds", (api,), latency)
    for api, count in metrics.failures.items():
        yield Sample("requests_failed", (api,), count)
    yield Sample("throttled_seconds", (), metrics.throttled)
    for reason, count in metrics.retries.items():
        yield Sample("retries", (reason,), count)


def _fetch(metrics: FetchMetrics) -> Iterator[Sample]:
    yield Sample("assigned_partitions", (), len(metrics.partitions))
    yield Sample("fetched_records", (), metrics.records)
    yield Sample("fetched_bytes", (), metrics.bytes)
    for (topic, number), partition in metrics.partitions.items():
        labels = topic, str(number)
        if partition.lag is not None:
            yield Sample("lag", labels, partition.lag)
        if partition.position is not None:
            yield Sample("position", labels, partition.position)
        yield Sample("queued_records", labels, partition.queued_records)
        yield Sample("queued_bytes", labels, partition.queued_bytes)


def _commits(metrics: CommitMetrics) -> Iterator[Sample]:
    yield Sample("committed_offsets", (), metrics.partitions)
    yield from _requests("commit", metrics.requests)


def _requests(request: str, metrics: RequestMetrics) -> Iterator[Sample]:
    yield Sample("group_request_seconds", (request,), metrics.latency)
    for reason, count in metrics.failures.items():
        yield Sample("group_requests_failed", (request, reason), count)


def _member(metrics: GroupMetrics) -> Iterator[Sample]:
    yield Sample("member_state", (metrics.state,), 1)
    yield Sample("generation", (), metrics.generation)
    yield Sample("rebalance_seconds", (), metrics.rebalances)
    yield Sample("losses", (), metrics.lost)
    yield from _requests("join", metrics.joins)
    yield from _requests("sync", metrics.syncs)
    yield from _requests("heartbeat", metrics.heartbeats)
    if metrics.heartbeat_age_ms is not None:
        yield Sample("heartbeat_age_seconds", (), metrics.heartbeat_age_ms / 1000)


def _producer(metrics: ProducerMetrics) -> Iterator[Sample]:
    yield Sample("produced_records", (), metrics.records)
    yield Sample("produced_bytes", (), metrics.bytes)
    yield Sample("produced_uncompressed_bytes", (), metrics.uncompressed_bytes)
    yield Sample("produced_batches", (), metrics.batches)
    yield Sample("produce_failed_records", (), metrics.failed_records)
    yield Sample("produce_resent_batches", (), metrics.resent_batches)
    yield Sample("produce_split_batches", (), metrics.split_batches)
    yield Sample("produce_queued_records", (), metrics.queued_records)
    yield Sample("produce_queued_bytes", (), metrics.queued_bytes)
    yield Sample("produce_buffer_bytes", (), metrics.buffer_bytes)
    yield Sample("produce_waiting_sends", (), metrics.waiting_sends)
    yield Sample("produce_in_flight_batches", (), metrics.in_flight_batches)
    yield Sample("produce_queue_seconds", (), metrics.queue_time)
    yield Sample("produce_delivery_seconds", (), metrics.delivery_time)
    if (transactions := metrics.transactions) is not None:
        yield Sample("transaction_state", (transactions.state,), 1)
        yield Sample("transaction_seconds", ("init",), transactions.initializations)
        yield Sample("transaction_seconds", ("send_offsets",), transactions.offset_commits)
        yield Sample("transaction_seconds", ("commit",), transactions.commits)
        yield Sample("transaction_seconds", ("abort",), transactions.aborts)
