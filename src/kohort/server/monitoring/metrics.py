"""Metrics of a server in Prometheus' text format, gathered when they are scraped.

The parts of the server keep their own counters, and this module reads them: no request pays for
Prometheus. prometheus-client takes a tenth of a second to import, so this module is imported for
the first scrape.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from kohort import __version__
from kohort.log.problems import Problems
from kohort.runtime.groups import Groups
from kohort.runtime.transactions import TransactionCoordinator
from kohort.server.authorization import Access
from kohort.server.cluster import FindLogOffsets, NodeStatus
from kohort.server.monitoring.group_lags import GroupLag, LagOf
from kohort.server.monitoring.loop_lag import LoopLag
from kohort.server.monitoring.rebalance_reporter import RebalanceReporter
from kohort.server.net import ListenerStatistics
from kohort.types import TopicPartition
from kohort.util.histogram import Histogram
from kohort.util.time_slice import TimeSlices

__all__ = ["CONTENT_TYPE", "MetricSources", "exposition"]

MAX_OFFSETS: Final = 20_000
"""Most committed offsets with a series of their own: more would hold up the loop for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSources:
    """The parts of a server whose counters are exposed."""

    cluster_id: str
    groups: Groups
    transactions: TransactionCoordinator
    problems: Problems
    traffic: Callable[[], ListenerStatistics]
    find_log_offsets: FindLogOffsets
    lag_of: LagOf
    rebalances: RebalanceReporter
    loop_lag: LoopLag
    access: Access
    """Permissions for the groups and topics that metrics name."""
    node: NodeStatus | None
    """None: the server shares no storage."""
    database_appends: Histogram


class OffsetRow(NamedTuple):
    """A committed offset, and its lag: None if the partition is gone."""

    group: str
    partition: TopicPartition
    offset: int
    lag: GroupLag | None = None

    @property
    def labels(self) -> tuple[str, str, str]:
        return (self.group, self.partition.topic, str(self.partition.partition))


async def exposition(sources: MetricSources) -> bytes:
    """All metrics as text: read on the loop, in slices, and written in another thread."""
    metrics = list(_Metrics(sources).collect())
    rows = await _offset_rows(sources)
    return await asyncio.to_thread(_text, metrics, rows)


async def _offset_rows(sources: MetricSources) -> list[OffsetRow]:
    rows: list[OffsetRow] = []
    slices = TimeSlices()
    for group in tuple(sources.groups.groups()):
        await slices.give_way()
        if not sources.access.group(group.id):
            continue
        for partition, value in tuple(islice(group.offsets.items(), MAX_OFFSETS - len(rows))):
            await slices.give_way()
            if sources.access.topic(partition.topic):
                rows.append(OffsetRow(group.id, partition, value.offset))
        if len(rows) >= MAX_OFFSETS:
            break
    log_offsets = await sources.find_log_offsets({row.partition: None for row in rows})
    for index, row in enumerate(rows):
        offsets = log_offsets.get(row.partition)
        if offsets is not None:
            rows[index] = row._replace(lag=sources.lag_of(row.partition, row.offset, offsets))
        await slices.give_way()
    return rows


def _text(metrics: Iterable[Metric], rows: Iterable[OffsetRow]) -> bytes:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Read((*metrics, *_offsets(rows))))
    return generate_latest(registry)


def _offsets(rows: Iterable[OffsetRow]) -> tuple[Metric, ...]:
    labels = ("group", "topic", "partition")
    committed = GaugeMetricFamily(
        "kohort_group_committed_offset", "Committed offset.", labels=labels
    )
    behind = GaugeMetricFamily(
        "kohort_group_lag", "Records behind the end of the partition.", labels=labels
    )
    behind_s = GaugeMetricFamily(
        "kohort_group_lag_seconds",
        "Age of the first record that the group has not read.",
        labels=labels,
    )
    lost = GaugeMetricFamily(
        "kohort_group_lost_offsets",
        "Offsets that retention deleted before the group read them; no series for 0.",
        labels=labels,
    )
    for row in rows:
        committed.add_metric(row.labels, row.offset)
        if row.lag is None:
            continue
        if row.lag.records.lag is not None:
            behind.add_metric(row.labels, row.lag.records.lag)
        if row.lag.time.lag_ms is not None:
            behind_s.add_metric(row.labels, row.lag.time.lag_ms / 1000)
        if row.lag.records.lost:
            lost.add_metric(row.labels, row.lag.records.lost)
    return committed, behind, behind_s, lost


def _of_node(node: NodeStatus | None) -> Iterator[Metric]:
    """Samples are those of a node that shares a storage with others."""
    partitions_led = GaugeMetricFamily(
        "kohort_partitions_led", "Partitions that this node leads.", labels=("purpose",)
    )
    for kind, count in {} if node is None else node.led_by_kind.items():
        partitions_led.add_metric((kind.value,), count)
    yield partitions_led
    for name, help_text, field in (
        ("kohort_cluster_nodes", "Nodes of the cluster that are there.", "nodes"),
        ("kohort_partitions_awaited", "Partitions to be led, and not open yet.", "awaited"),
        ("kohort_lease_age_seconds", "Time since the lease was renewed.", "lease_age_s"),
        (
            "kohort_database_away_seconds",
            "Time without a response of the database.",
            "unresponsive_s",
        ),
    ):
        yield GaugeMetricFamily(name, help_text, None if node is None else getattr(node, field))
    for name, help_text, field in (
        (
            "kohort_partitions_taken",
            "Partitions that this node began to lead.",
            "leaderships_gained",
        ),
        (
            "kohort_partitions_given_up",
            "Partitions that this node ceased to lead.",
            "leaderships_lost",
        ),
        ("kohort_node_sessions", "Sessions that this node has begun.", "sessions"),
    ):
        yield CounterMetricFamily(name, help_text, None if node is None else getattr(node, field))


class _Read(Collector):
    """Metrics that were read already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


class _Metrics(Collector):
    def __init__(self, sources: MetricSources) -> None:
        self._sources = sources

    def collect(self) -> Iterable[Metric]:
        build = GaugeMetricFamily(
            "kohort_build_info",
            "1, labelled with version and cluster.",
            labels=("version", "cluster"),
        )
        build.add_metric((__version__, self._sources.cluster_id), 1)
        yield build
        yield from self._traffic()
        yield from self._group_counts()
        yield from self._rebalances()
        yield from self._transactions()
        yield from _of_node(self._sources.node)
        yield HistogramMetricFamily(
            "kohort_database_append_seconds",
            "Duration of statements that append to logs in PostgreSQL.",
            self._sources.database_appends.buckets(),
            self._sources.database_appends.sum_s,
        )
        yield GaugeMetricFamily(
            "kohort_log_problems",
            "Logs that are damaged, or that the disk refuses.",
            len(self._sources.problems),
        )
        yield CounterMetricFamily(
            "kohort_log_failed_syncs",
            "Times that the disk refused what was written.",
            self._sources.problems.failed_syncs,
        )
        yield GaugeMetricFamily(
            "kohort_event_loop_lag_seconds",
            "How late the loop was, at worst since the last scrape.",
            self._sources.loop_lag.pop_worst_s(),
        )

    def _traffic(self) -> Iterator[Metric]:
        traffic = self._sources.traffic()
        requests = CounterMetricFamily("kohort_requests", "Requests by API.", labels=("api",))
        for api, count in traffic.requests.items():
            requests.add_metric((api,), count)
        yield requests
        responses = CounterMetricFamily(
            "kohort_responses",
            "Responses that bear an error, by API and error.",
            labels=("api", "error"),
        )
        for labels, count in traffic.errors.items():
            responses.add_metric(labels, count)
        yield responses
        yield GaugeMetricFamily("kohort_connections", "Connections now.", traffic.connections)
        yield CounterMetricFamily(
            "kohort_connections_accepted", "Connections that were taken.", traffic.accepted
        )
        yield CounterMetricFamily(
            "kohort_connections_refused", "Connections beyond a limit.", traffic.refused
        )
        yield CounterMetricFamily(
            "kohort_connections_malformed", "Closed for what they sent.", traffic.malformed
        )
        yield CounterMetricFamily(
            "kohort_requests_failed", "Requests whose handler raised.", traffic.failed
        )
        throttled = CounterMetricFamily(
            "kohort_requests_throttled",
            "Responses whose client has to wait because of its quotas.",
            labels=["api"],
        )
        for api, count in traffic.throttled.items():
            throttled.add_metric([api], count)
        yield throttled
        yield CounterMetricFamily(
            "kohort_authentications", "Authentications by SASL that succeeded.", traffic.logins
        )
        yield CounterMetricFamily(
            "kohort_authentications_failed",
            "Authentications by SASL that failed.",
            traffic.logins_failed,
        )
        yield CounterMetricFamily(
            "kohort_sessions_expired",
            "Connections closed because their SASL session had ended.",
            traffic.sessions_expired,
        )
        yield CounterMetricFamily("kohort_received_bytes", "Bytes of requests.", traffic.bytes_in)
        yield CounterMetricFamily("kohort_sent_bytes", "Bytes of responses.", traffic.bytes_out)
        yield GaugeMetricFamily(
            "kohort_request_memory_bytes", "Held by large requests now.", traffic.memory_bytes
        )
        yield GaugeMetricFamily(
            "kohort_unread_response_bytes",
            "Large responses that clients have not read.",
            traffic.unread_bytes,
        )

    def _group_counts(self) -> Iterator[Metric]:
        counts = self._sources.groups.statistics()
        groups = GaugeMetricFamily(
            "kohort_groups", "Groups by type and state.", labels=("type", "state")
        )
        for labels, count in counts["groups"].items():
            groups.add_metric(labels, count)
        yield groups
        shards = GaugeMetricFamily(
            "kohort_group_partitions", "Partitions of the group log by state.", labels=("state",)
        )
        for state, count in counts["shards"].items():
            shards.add_metric((state,), count)
        yield shards
        yield GaugeMetricFamily("kohort_group_members", "Members of all groups.", counts["members"])
        yield GaugeMetricFamily(
            "kohort_group_pending_members", "Ids handed out, not yet joined.", counts["pending"]
        )
        yield GaugeMetricFamily(
            "kohort_group_parked_requests", "Joins and syncs that wait.", counts["parked"]
        )
        yield GaugeMetricFamily(
            "kohort_group_offsets", "Committed offsets of all groups.", counts["offsets"]
        )

    def _rebalances(self) -> Iterator[Metric]:
        rebalances = CounterMetricFamily(
            "kohort_rebalances",
            "Rebalances by type of group, first cause and outcome.",
            labels=("type", "cause", "outcome"),
        )
        for labels, count in self._sources.rebalances.causes.items():
            rebalances.add_metric(labels, count)
        yield rebalances
        seconds = HistogramMetricFamily(
            "kohort_rebalance_seconds", "Duration of rebalances by phase.", labels=("phase",)
        )
        for phase, histogram in (
            ("join", self._sources.rebalances.durations.join),
            ("sync", self._sources.rebalances.durations.sync),
        ):
            seconds.add_metric((phase,), histogram.buckets(), histogram.sum_s)
        yield seconds
        appends = self._sources.groups.appends
        yield HistogramMetricFamily(
            "kohort_group_append_seconds",
            "Duration of appends to the group log.",
            appends.buckets(),
            appends.sum_s,
        )

    def _transactions(self) -> Iterator[Metric]:
        counts = self._sources.transactions.statistics()
        shards = GaugeMetricFamily(
            "kohort_transaction_partitions",
            "Partitions of the transaction log by state.",
            labels=("state",),
        )
        for state, count in counts["shards"].items():
            shards.add_metric((state,), count)
        yield shards
        yield GaugeMetricFamily(
            "kohort_transactional_ids", "Transactional ids.", counts["transactional_ids"]
        )
        yield GaugeMetricFamily(
            "kohort_transactions_open", "Transactions that are open.", counts["open"]
        )
        yield GaugeMetricFamily(
            "kohort_transactions_ending",
            "Transactions whose markers are being written.",
            counts["ending"],
        )
