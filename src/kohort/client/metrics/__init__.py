"""Metrics of clients: the counters that they keep, values to read, samples to export."""

from kohort.client.metrics.counters import DurationCounter, ReasonCounter, RequestCounter, reason
from kohort.client.metrics.registered import RegisteredClients
from kohort.client.metrics.sampling import FAMILIES, Family, Kind, Measured, group_of, samples
from kohort.client.metrics.values import (
    ClusterMetrics,
    CommitMetrics,
    ConnectionMetrics,
    ConsumerMetrics,
    Durations,
    FetchMetrics,
    GroupMetrics,
    PartitionMetrics,
    ProducerMetrics,
    TransactionMetrics,
    moved_back,
)

__all__ = [
    "FAMILIES",
    "ClusterMetrics",
    "CommitMetrics",
    "ConnectionMetrics",
    "ConsumerMetrics",
    "DurationCounter",
    "Durations",
    "Family",
    "FetchMetrics",
    "GroupMetrics",
    "Kind",
    "Measured",
    "PartitionMetrics",
    "ProducerMetrics",
    "ReasonCounter",
    "RegisteredClients",
    "RequestCounter",
    "TransactionMetrics",
    "group_of",
    "moved_back",
    "reason",
    "samples",
]
