"""The counters of one fetcher."""

from collections.abc import Mapping

from kohort.client.fetch.batch import Batch
from kohort.client.metrics import DurationCounter, FetchMetrics, PartitionMetrics
from kohort.types import TopicPartition


class FetchCounters:
    """Counters of all partitions and brokers together."""

    __slots__ = ("_batches", "_bytes", "_records", "requests")

    def __init__(self) -> None:
        self.requests = DurationCounter()
        self._batches = 0
        self._records = 0
        self._bytes = 0

    def received(self, batch: Batch) -> None:
        """A batch arrived."""
        self._batches += 1
        self._records += batch.record_count
        self._bytes += batch.size

    def snapshot(self, partitions: Mapping[TopicPartition, PartitionMetrics]) -> FetchMetrics:
        """The counters of this moment, with the state of the partitions."""
        return FetchMetrics(
            requests=self.requests.snapshot(),
            batches=self._batches,
            records=self._records,
            bytes=self._bytes,
            partitions=partitions,
        )
