"""How far a `Consumer` came in the batch that it hands out."""

from collections.abc import Iterator
from typing import Generic

from kohort.client.fetch import Batch
from kohort.client.record import K, Record, V
from kohort.types import TopicPartition


class BatchCursor(Generic[K, V]):
    """A position in the last fetched batch, which is handed out whole or record by record."""

    __slots__ = ("_records", "batch", "position")

    def __init__(self) -> None:
        self.batch: Batch[K, V] | None = None
        """The batch that was handed out last, whole or in part, or is deserialized."""
        self.position = 0
        """Offset after the last returned record of the batch."""
        self._records: Iterator[Record[K, V]] | None = None
        """The records that are left of it; None while it is not handed out one by one."""

    def open(self, batch: Batch[K, V] | None) -> None:
        """Continue with another batch, or with none."""
        self.batch, self._records = batch, None
        if batch is not None:
            self.position = batch.first_offset

    def iterate(self) -> None:
        """Hand out the records of the batch one by one, from the first on."""
        if self.batch is not None:
            self._records = iter(self.batch)

    @property
    def is_iterated(self) -> bool:
        """Whether the batch is handed out record by record."""
        return self._records is not None

    def next_record(self) -> Record[K, V] | None:
        """The next record of the batch; None after the last. Raises as `Batch.records`."""
        return None if self._records is None else next(self._records, None)

    def is_within(self, tp: TopicPartition) -> bool:
        """Whether a part of the partition's batch is left."""
        batch = self.batch
        return (
            batch is not None and batch.topic_partition == tp and self.position < batch.next_offset
        )
