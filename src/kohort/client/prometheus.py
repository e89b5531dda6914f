"""Metrics of clients for Prometheus, gathered when they are scraped.

    from kohort.client.prometheus import register

    async with ConsumerGroup("orders", topics=["orders"]) as group:
        register(group)         # until the group is closed

Names begin with `kohort_client_`. Labels are `client` (the name given to `register`), `client_id`,
`group`, and those of `kohort.client.metrics`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kohort.client.metrics import (
    FAMILIES,
    Durations,
    Family,
    Kind,
    Measured,
    RegisteredClients,
    group_of,
    samples,
)

__all__ = ["register"]

_LABELS: Final = ("client", "client_id", "group")
_TYPES: Final[Mapping[Kind, Callable[..., Metric]]] = {
    Kind.COUNTER: CounterMetricFamily,
    Kind.GAUGE: GaugeMetricFamily,
    Kind.HISTOGRAM: HistogramMetricFamily,
}

_collectors: Final[WeakKeyDictionary[CollectorRegistry, "_ClientCollector"]] = WeakKeyDictionary()


def register(
    client: Measured, *, name: str | None = None, registry: CollectorRegistry = REGISTRY
) -> None:
    """Expose the metrics of a client that is open, until it is closed.

    `name` is the label `client`, by default the kind of client and a number (`group-1`). It has to
    differ from the names of other open clients: else raises ConfigError.
    """
    collector = _collectors.get(registry)
    if collector is None:
        collector = _collectors[registry] = _ClientCollector()
        registry.register(collector)
    collector.clients.add(client, name)


class _ClientCollector(Collector):
    """All clients of a registry: one metric family may come from one collector only."""

    def __init__(self) -> None:
        self.clients = RegisteredClients()

    def describe(self) -> Iterable[Metric]:
        return [_empty(name, family) for name, family in FAMILIES.items()]

    def collect(self) -> Iterable[Metric]:
        families = {name: _empty(name, family) for name, family in FAMILIES.items()}
        for client, metrics in self.clients.metrics():
            common = client, metrics.client_id, group_of(metrics)
            for family, labels, value in samples(metrics):
                _add(families[family], (*common, *labels), value)
        return [metric for metric in families.values() if metric.samples]


def _empty(name: str, family: Family) -> Metric:
    return _TYPES[family.kind](
        f"kohort_client_{name}", family.help, labels=(*_LABELS, *family.labels)
    )


def _add(metric: Metric, labels: tuple[str, ...], value: float | Durations) -> None:
    if isinstance(value, Durations):
        assert isinstance(metric, HistogramMetricFamily)
        metric.add_metric(labels, list(value.buckets), value.total_ms / 1000)
    else:
        assert isinstance(metric, CounterMetricFamily | GaugeMetricFamily)
        metric.add_metric(labels, value)
