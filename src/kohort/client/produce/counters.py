"""Counters of one producer."""

from typing import Any

from kohort.client.metrics import DurationCounter, ProducerMetrics
from kohort.client.produce.batch import ProduceBatch


class ProduceCounters:
    """Counters of all partitions together."""

    __slots__ = (
        "_batches", "_bytes", "_delivery_time", "_records", "_uncompressed_bytes", "failed_records",
        "queue_time", "requests", "resent_batches", "split_batches",
    )  # fmt: skip

    def __init__(self) -> None:
        self.queue_time = DurationCounter()
        """From a batch's first record to its first request."""
        self.requests = DurationCounter()
        self.failed_records = 0
        self.resent_batches = 0
        self.split_batches = 0
        self._delivery_time = DurationCounter()
        self._batches = 0
        self._records = 0
        self._bytes = 0
        self._uncompressed_bytes = 0

    def delivered(self, batch: ProduceBatch, now: float) -> None:
        """A broker has the batch; `now` by the loop's clock."""
        self._delivery_time.observe(now - batch.created)
        self._batches += 1
        self._records += batch.count
        self._bytes += batch.sent_size
        self._uncompressed_bytes += batch.size

    def snapshot(self, **gauges: Any) -> ProducerMetrics:
        """The counters of this moment; `gauges` are the other fields."""
        return ProducerMetrics(
            batches=self._batches,
            records=self._records,
            bytes=self._bytes,
            uncompressed_bytes=self._uncompressed_bytes,
            failed_records=self.failed_records,
            split_batches=self.split_batches,
            resent_batches=self.resent_batches,
            queue_time=self.queue_time.snapshot(),
            delivery_time=self._delivery_time.snapshot(),
            requests=self.requests.snapshot(),
            **gauges,
        )
