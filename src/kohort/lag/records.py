"""Lag in records: the records that a group has not read of one partition.

    lag = end - max(committed, start)        never below 0
    lost = start - committed                 records that retention deleted unread

Five cases need more than that subtraction:

- *No commit*: the lag is None. It is neither 0 nor the whole log, because the `auto.offset.reset`
  of the members decides where they start, and no other client has that option.
- *Retention passed the commit*: the deleted records are lost to the group. They are no lag, as
  nobody can read them, and count in `lost`.
- *Stale end*: the commit is behind the end of the log. Either the end is older than the commit, or
  the log is another one: the topic was recreated, or the log truncated.
- *Markers*: the end of each transaction takes an offset that no consumer gets. A reader of
  committed records also stops at the last stable offset. So a group that has read all rests one or
  two offsets below the end. One Fetch from the commit tells this from unread records.
- *Compaction* leaves holes between offsets: the lag is an upper bound of the records.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, TypeAlias


class Case(StrEnum):
    """How a lag in records has to be understood."""

    OK = "ok"
    NO_COMMIT = "no commit"
    RETENTION_PASSED = "retention passed"
    STALE_END = "stale end"
    MARKERS = "markers"
    UPPER_BOUND = "upper bound"


class _Unfetched(Enum):
    NOT_FETCHED = "not fetched"


NOT_FETCHED: Final = _Unfetched.NOT_FETCHED
"""It is not known which record is the next one."""
NextRecord: TypeAlias = int | _Unfetched | None
"""Offset of the first record that a consumer gets from the committed offset on.

None: a Fetch showed that there is none below the end.
"""


@dataclass(frozen=True, slots=True)
class RecordsLag:
    """Lag of a group in one partition, in records."""

    lag: int | None
    """Records to read; None without a commit."""
    lost: int
    """Offsets that were deleted before the group read them."""
    case: Case


NO_COMMIT: Final = RecordsLag(None, 0, Case.NO_COMMIT)


def records_lag(
    committed: int | None,
    start: int,
    end: int,
    stable: int | None = None,
    *,
    read_committed: bool = False,
    next_record: NextRecord = NOT_FETCHED,
    has_holes: bool = False,
) -> RecordsLag:
    """The lag of a committed offset in a log from `start` to `end`, the high watermark.

    Without a commit, `committed` is None or negative: Kafka's consumers ignore negative offsets
    (OffsetFetch responds -1 for none). `stable` is the last stable offset, where readers of
    committed records end (`read_committed`). `next_record` shortens the lag by offsets without
    records. `has_holes`: not every offset is a record, because the topic is compacted or has
    transactions.
    """
    if committed is None or committed < 0:
        return NO_COMMIT
    lost = max(start - committed, 0)
    if committed > end and not lost:
        return RecordsLag(0, 0, Case.STALE_END)
    reachable = end if stable is None or not read_committed else min(stable, end)
    position = max(committed, start)
    offsets = max(reachable - position, 0)
    if isinstance(next_record, _Unfetched):
        lag = offsets
    elif next_record is None:
        lag = 0
    else:
        lag = min(max(reachable - next_record, 0), offsets)
    if lost:
        return RecordsLag(lag, lost, Case.RETENTION_PASSED)
    if lag == 0 < offsets:
        return RecordsLag(0, 0, Case.MARKERS)
    return RecordsLag(lag, 0, Case.UPPER_BOUND if lag and (has_holes or lag < offsets) else Case.OK)
