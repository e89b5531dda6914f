"""Lag of a group in a partition, as `kohort.lag` computes it from what brokers respond.

- *The end* is the high watermark, or the last stable offset under `read_committed`: the offsets
  that a consumer can reach. It is requested after the commits, so that a group at work never seems
  to be ahead. A leader that does not know its high watermark yet responds OFFSET_NOT_AVAILABLE, and
  the request is repeated. The end is never taken from a cache.
- *Offsets are not records.* Without more requests than those for commits and ends, the lag is an
  upper limit of the records to read: compaction leaves holes, and every transaction ends with a
  marker. `Admin.time_lags` fetches the first unread record: it tells how old that is, and whether
  only markers are left.
"""

from dataclasses import dataclass
from typing import Any

from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.lag import (
    NOT_FETCHED,
    UNKNOWN_TIME,
    Case,
    NextRecord,
    RecordsLag,
    TimeLag,
    records_lag,
)
from kohort.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The lag of a group in one partition."""

    partition: TopicPartition
    committed: OffsetAndMetadata | None = None
    start: int | None = None
    """Log start offset; None when the partition does not exist or its leader did not respond."""
    end: int | None = None
    """High watermark; under `read_committed` the last stable offset."""
    high_watermark: int | None = None
    """None: `end` is it."""
    next_record: NextRecord = NOT_FETCHED
    """Offset of the first unread record; None if only markers are left."""
    has_holes: bool = False
    """Whether the topic is known to be compacted or to have transactions."""
    time: TimeLag = UNKNOWN_TIME
    """Lag in time; unknown until `Admin.time_lags`."""

    @property
    def records(self) -> RecordsLag | None:
        """Lag in records; None without the ends of the log."""
        if self.start is None or self.end is None:
            return None
        return records_lag(
            None if self.committed is None else self.committed.offset,
            self.start,
            self.end if self.high_watermark is None else self.high_watermark,
            self.end,
            read_committed=True,
            next_record=self.next_record,
            has_holes=self.has_holes,
        )

    @property
    def position(self) -> int | None:
        """Offset where members read on: the commit, or the log start if retention passed it."""
        if self.committed is None or self.start is None:
            return None
        return max(self.committed.offset, self.start)

    @property
    def lag(self) -> int | None:
        """The lag in records; None without a commit, or without the ends of the log."""
        return None if self.records is None else self.records.lag

    @property
    def lag_ms(self) -> int | None:
        """The lag in time: age of the first unread record; None if it is not known."""
        return self.time.lag_ms

    @property
    def case(self) -> Case | None:
        """How the lag has to be understood; None without the ends of the log."""
        return None if self.records is None else self.records.case

    @property
    def lost(self) -> int:
        """Offsets that were removed from the log before the group read them."""
        return 0 if self.records is None else self.records.lost

    @property
    def beyond(self) -> int:
        """Number of offsets by which the commit is beyond the end of the log."""
        if self.committed is None or self.end is None or self.case is not Case.STALE_END:
            return 0
        return max(self.committed.offset - (self.high_watermark or self.end), 0)

    @property
    def note(self) -> str:
        """A remark on an unusual state, else ""."""
        if self.lost:
            return f"{self.lost} offsets were removed from the log before they were read"
        if self.beyond:
            return (
                f"the commit is {self.beyond} beyond the end of the log: was the topic recreated?"
            )
        if self.end is None:
            return "the partition does not exist, or has no leader"
        return ""

    def as_dict(self) -> dict[str, Any]:
        """The fields for JSON output."""
        committed = self.committed
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "committed_offset": None if committed is None else committed.offset,
            "leader_epoch": None
            if committed is None or committed.leader_epoch < 0
            else committed.leader_epoch,
            "metadata": None if committed is None else committed.metadata,
            "start_offset": self.start,
            "end_offset": self.end,
            "lag": self.lag,
            "lost": self.lost,
            "case": self.case,
            "lag_ms": self.time.lag_ms,
            "method": self.time.method,
            "confidence_ms": self.time.confidence_ms,
            "note": self.note,
        }
