"""Lag: how many offsets lie between where a group stands and the end of the log.

    lag = end offset - max(committed offset, log start offset)       never below 0

- *No commit, no lag*: None, shown as "-", never 0 and never the whole log. Where the group will
start is decided by
  `auto.offset.reset` of its members, which nobody outside knows.
- *The end* is the high watermark, or the last stable offset under `read_committed`: what a consumer
can reach. It is
  asked for after the commits were read, so that a group that is at work never seems to be ahead. A leader that does
  not know its high watermark yet says so (OFFSET_NOT_AVAILABLE) and is asked again; what it says is never taken from
  a cache.
- *The log start*: records that retention removed before the group read them are lost to it, not
behind it. They are
  `PartitionLag.missed`, and no longer count as lag.
- *A commit beyond the end* is no negative lag: the log is not the one that was committed to
(deleted and made again,
  or truncated). Lag is 0 and `PartitionLag.beyond` tells by how much.
- *Offsets are not records.* Compaction leaves holes, and every transaction ends with a marker that
takes an offset
  but is never delivered. So lag is the most that there can be to read: exact where topics are neither compacted nor
  written in transactions. A consumer that has read everything can rest at a lag of 1 below a last marker.
"""

from dataclasses import dataclass
from typing import Any

from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """Where a group stands in one partition."""

    partition: TopicPartition
    committed: OffsetAndMetadata | None = None
    start: int | None = None
    """Log start offset; None when the partition is gone or its leader did not answer."""
    end: int | None = None

    @property
    def lag(self) -> int | None:
        """None when nothing is committed, or the log's ends are not known."""
        if self.committed is None or self.start is None or self.end is None:
            return None
        return max(self.end - max(self.committed.offset, self.start), 0)

    @property
    def missed(self) -> int:
        """Offsets that were removed from the log before the group came to them."""
        if self.committed is None or self.start is None:
            return 0
        return max(self.start - self.committed.offset, 0)

    @property
    def beyond(self) -> int:
        """How far the commit lies behind the end of the log."""
        if self.committed is None or self.end is None:
            return 0
        return max(self.committed.offset - self.end, 0)

    @property
    def note(self) -> str:
        """What is odd about it, "" if nothing is."""
        if self.missed:
            return f"{self.missed} offsets were removed from the log before they were read"
        if self.beyond:
            return (
                f"the commit is {self.beyond} beyond the end of the log: was the topic made again?"
            )
        if self.end is None:
            return "the partition does not exist, or has no leader"
        return ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
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
