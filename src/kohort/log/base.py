"""The log: one abstraction for user topics, group state and cluster metadata.

A log is one partition's append-only sequence of Kafka v2 record batches, stored as they came (base offset and
leader epoch lie outside the CRC and are patched). There is one node, so the high watermark is the end offset.

Appending and reading are synchronous: a write to the page cache takes microseconds, and the one loop thread that
owns every log is what makes group decisions and their records atomic. Only waiting is asynchronous: for more data
(`wait_beyond`), or for what was appended to be as durable as configured (`durable`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kohort.types import Instant, TopicPartition


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a batch went."""

    base_offset: int
    last_offset: int
    append_time: int
    """ms since the epoch if the log stamps batches (LogAppendTime), else -1."""
    duplicate: bool = False
    """True if an idempotent producer sent this batch before; the offsets are those of the first time."""


class Log(Protocol):
    """One partition of one topic."""

    @property
    def topic_partition(self) -> TopicPartition: ...

    @property
    def start_offset(self) -> int:
        """First offset that can be read."""
        ...

    @property
    def end_offset(self) -> int:
        """Offset that the next record gets: the high watermark, and Kafka's log end offset."""
        ...

    @property
    def size(self) -> int:
        """Bytes on disk or in memory."""
        ...

    def append(self, batch: bytes | bytearray | memoryview, now: Instant) -> Appended:
        """Append one record batch that `protocol.batches.validate` let pass.

        Raises KafkaError with the code to answer (sequence errors of idempotent producers among them, nothing is
        appended then), OSError when the storage failed.
        """
        ...

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> bytes | memoryview:
        """Whole batches, starting with the one that holds `offset`, of at most `max_bytes` together.

        With `at_least_one` the first batch is given even if it is larger. Empty at the end offset. A read does not
        cross segments. Raises KafkaError OFFSET_OUT_OF_RANGE outside [start_offset, end_offset].
        """
        ...

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record whose timestamp is at least `timestamp` (ms), or None."""
        ...

    def max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with the largest timestamp, or None if the log is empty."""
        ...

    def trim(self, before: int) -> None:
        """Move the start offset up to `before` (DeleteRecords). Raises KafkaError OFFSET_OUT_OF_RANGE beyond the end."""
        ...

    def on_append(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` after every append (or trim, or removal) until the returned function is called."""
        ...

    async def wait_beyond(self, offset: int) -> None:
        """Return as soon as the end offset is greater than `offset`."""
        ...

    async def durable(self) -> None:
        """Return when all that is appended by now is as durable as the policy asks (group commit under `fsync`)."""
        ...

    def close(self) -> None:
        """Flush, and let go of the files. Idempotent."""
        ...
