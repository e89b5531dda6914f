"""Lag and rebalances of streaming queries that read with `.format("kohort")`, also for Prometheus.

    from kohort.spark.metrics import register, source_metrics

    source_metrics(query.lastProgress)     # of each source
    register(spark)                        # all queries of the session, in prometheus_client

PySpark has no place for a Python source's own metrics in a query's progress. They are computed from
the offsets there: a source reports the ends of its partitions as `latestOffset`, and a member its
membership in it, under a name that no topic can have.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from kohort.spark.positions import GROUP, from_spark
from kohort.types import TopicPartition

_PYTHON_SOURCE: Final = "PythonMicroBatchStream"
"""Part of the description of every source in Python; the source cannot change it."""
_QUERY: Final = ("query",)
_SOURCE: Final = (*_QUERY, "source", "group")


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Membership of a source with `groupMode=member`."""

    group_id: str
    generation: int
    """-1 before the first."""
    rebalances: int
    """Since the query started."""
    losses: int
    """How often the member lost partitions without giving them up: it was fenced or expired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMetrics:
    """One source of a query after a trigger."""

    lag: Mapping[TopicPartition, int]
    """Offsets to the end of each partition that the query reads, or that the member is assigned."""
    membership: Membership | None

    @property
    def max_offsets_behind_latest(self) -> int:
        """Spark's `maxOffsetsBehindLatest`; 0 without partitions."""
        return max(self.lag.values(), default=0)

    @property
    def min_offsets_behind_latest(self) -> int:
        """Spark's `minOffsetsBehindLatest`; 0 without partitions."""
        return min(self.lag.values(), default=0)

    @property
    def avg_offsets_behind_latest(self) -> float:
        """Spark's `avgOffsetsBehindLatest`; 0 without partitions."""
        return sum(self.lag.values()) / max(len(self.lag), 1)


def source_metrics(progress: StreamingQueryProgress) -> list[SourceMetrics]:
    """The sources of `.format("kohort")` in a query's progress, in the order of the query."""
    return [
        _measured(source.endOffset, source.latestOffset)
        for source in progress.sources
        if _PYTHON_SOURCE in source.description
    ]


def _measured(end_offset: str, latest_offset: str) -> SourceMetrics:
    latest = _parsed(latest_offset)
    end, ends = from_spark(_parsed(end_offset)), from_spark(latest)
    membership = latest.get(GROUP)
    return SourceMetrics(
        lag={tp: max(ends[tp] - end[tp], 0) for tp in ends if tp in end},
        membership=None if membership is None else Membership(**membership),
    )


def _parsed(offset: str | None) -> Any:
    return (json.loads(offset) if offset else None) or {}


@dataclass(slots=True)
class _Query:
    name: str
    micro_batches: int = 0
    records: int = 0
    seconds: float = 0.0
    sources: tuple[SourceMetrics, ...] = ()


class QueryMetrics(StreamingQueryListener, Collector):
    """Metrics of the running queries of a session, from Spark's events for Prometheus."""

    def __init__(self) -> None:
        self._queries: dict[object, _Query] = {}

    # --- events of Spark ---

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        self._queries[event.runId] = _Query(event.name or str(event.id))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        query = self._queries.setdefault(progress.runId, _Query(progress.name or str(progress.id)))
        query.sources = tuple(source_metrics(progress))
        if progress.numInputRows:
            query.micro_batches += 1
            query.records += progress.numInputRows
            query.seconds += progress.durationMs.get("triggerExecution", 0) / 1000

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        self._queries.pop(event.runId, None)

    # --- requests of Prometheus ---

    def collect(self) -> Iterable[Metric]:
        """Families whose names begin with `kohort_spark_`."""
        batches = _counter("micro_batches", "Micro-batches with records.", _QUERY)
        records = _counter("records", "Records that were read.", _QUERY)
        seconds = _counter("micro_batch_seconds", "Time of micro-batches with records.", _QUERY)
        lag = _gauge("lag", "Offsets to the end.", (*_SOURCE, "topic", "partition"))
        partitions = _gauge("partitions", "Partitions that are read.", _SOURCE)
        generation = _gauge("generation", "Generation of the group.", _SOURCE)
        rebalances = _counter("rebalances", "Rebalances of the member.", _SOURCE)
        losses = _counter("losses", "How often the member lost partitions.", _SOURCE)
        for query in tuple(self._queries.values()):
            batches.add_metric((query.name,), query.micro_batches)
            records.add_metric((query.name,), query.records)
            seconds.add_metric((query.name,), query.seconds)
        for labels, source in self._sources():
            partitions.add_metric(labels, len(source.lag))
            for tp, behind in source.lag.items():
                lag.add_metric((*labels, tp.topic, str(tp.partition)), behind)
            if (membership := source.membership) is not None:
                generation.add_metric(labels, membership.generation)
                rebalances.add_metric(labels, membership.rebalances)
                losses.add_metric(labels, membership.losses)
        return [batches, records, seconds, lag, partitions, generation, rebalances, losses]

    def describe(self) -> Iterable[Metric]:
        return QueryMetrics().collect()

    def _sources(self) -> Iterator[tuple[tuple[str, str, str], SourceMetrics]]:
        for query in tuple(self._queries.values()):
            for number, source in enumerate(query.sources):
                group = "" if source.membership is None else source.membership.group_id
                yield (query.name, str(number), group), source


def _counter(name: str, text: str, labels: tuple[str, ...]) -> CounterMetricFamily:
    return CounterMetricFamily(f"kohort_spark_{name}", text, labels=labels)


def _gauge(name: str, text: str, labels: tuple[str, ...]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kohort_spark_{name}", text, labels=labels)


def register(spark: Any, *, registry: CollectorRegistry = REGISTRY) -> QueryMetrics:
    """Expose the metrics of the session's streaming queries; once for a registry.

    Series of a query end with it. `spark.streams.removeListener` and `registry.unregister` take the
    returned object.
    """
    metrics = QueryMetrics()
    registry.register(metrics)
    spark.streams.addListener(metrics)
    return metrics
