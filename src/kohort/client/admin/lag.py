"""Lag: the number of offsets between a group's position and the end of the log.

    lag = end offset - max(committed offset, log start offset)       never below 0

- *Without a commit there is no lag*: None, shown as "-", never 0 and never the whole log. The
  `auto.offset.reset` of its members decides on the start offset, which no other client
  has.
- *The end* is the high watermark, or the last stable offset under `read_committed`: the offsets
  that a consumer can reach. It is requested after the commits, so that a group at work never seems
  to be ahead. A leader that does not know its high watermark yet responds OFFSET_NOT_AVAILABLE, and
  the request is repeated. The end is never taken from a cache.
- *The log start*: records that retention removed before the group read them are lost to it. They
  are counted in `PartitionLag.missed`, and are not part of the lag.
- *A commit beyond the end* is no negative lag. The log is not the one that was committed to: the
  topic was recreated, or the log truncated. Lag is 0, and `PartitionLag.beyond` has the distance.
- *Offsets are not records.* Compaction leaves holes, and every transaction ends with a marker that
  takes an offset but is never delivered. So lag is an upper limit of the records to read. It is
  exact for topics without compaction and transactions. A consumer that has read everything may
  rest at a lag of 1 below a last marker.
"""

from dataclasses import dataclass
from typing import Any

from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The lag of a group in one partition."""

    partition: TopicPartition
    committed: OffsetAndMetadata | None = None
    start: int | None = None
    """Log start offset; None when the partition does not exist or its leader did not respond."""
    end: int | None = None

    @property
    def lag(self) -> int | None:
        """The lag; None without a commit, or without the ends of the log."""
        if self.committed is None or self.start is None or self.end is None:
            return None
        return max(self.end - max(self.committed.offset, self.start), 0)

    @property
    def missed(self) -> int:
        """Offsets that were removed from the log before the group read them."""
        if self.committed is None or self.start is None:
            return 0
        return max(self.start - self.committed.offset, 0)

    @property
    def beyond(self) -> int:
        """Number of offsets by which the commit is beyond the end of the log."""
        if self.committed is None or self.end is None:
            return 0
        return max(self.committed.offset - self.end, 0)

    @property
    def note(self) -> str:
        """A remark on an unusual state, else ""."""
        if self.missed:
            return f"{self.missed} offsets were removed from the log before they were read"
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
            "note": self.note,
        }
