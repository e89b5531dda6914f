"""What the two halves of the fold know of each other.

Commits and groups share one log partition, and each half needs facts of the other at the position
of a record: the groups when a partition was committed last, the commits who owned it. Everything
here is as of the record that is applied.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from kohort.types import TopicPartition


class LogPosition(NamedTuple):
    """Position of a record in its log, and what its batch says."""

    offset: int
    timestamp: int
    """Record time, in ms."""
    leader_epoch: int | None = None
    batch_offset: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    exact_since: int | None = 0
    """Log offset from which on nothing is missing up to this record; None: not even just before."""

    @property
    def is_exact(self) -> bool:
        """Whether no record before it is missing that says something about now."""
        return self.exact_since is not None


class Owner(NamedTuple):
    """The member that owns a partition."""

    member_id: str
    client_id: str
    client_host: str
    generation: int


class CommitTimes(Protocol):
    """Commits of all groups of the log partition. Times are record times in ms."""

    def assign(self, group: str, tp: TopicPartition, owner: Owner | None) -> None:
        """From now on commits of `tp` are this owner's; None: nobody's.

        The same member with another generation only changes the generation.
        """

    def last_commit(self, group: str, tp: TopicPartition) -> int | None: ...

    def last_before_assigned(self, group: str, tp: TopicPartition) -> int | None:
        """Time of the last commit before the latest `assign` to another member."""

    def first_since_assigned(self, group: str, tp: TopicPartition) -> int | None: ...

    def usual_gap(self, group: str, tp: TopicPartition) -> float | None:
        """Median of the last gaps (at most 10) between commits, in ms."""

    def was_silent(self, since: int, until: int) -> bool:
        """Whether the whole log partition had no record between two times, a second or more."""

    def first_commit(self, group: str) -> int | None:
        """Log offset of the first commit of this life of the group, if there was one.

        A group may commit before its first other record: its life begins there.
        """

    def offsets_expired(self, group: str, batch_offset: int | None) -> bool | None:
        """Whether the offsets that were deleted in this batch were all as old as the retention.

        None if the batch has deleted none so far.
        """


class GroupFacts(Protocol):
    """The half of the fold that replays every record but commits: `GroupFold`."""

    rows: dict[str, list[dict[str, Any]]]
    """Rows since the caller took them, by table, each a value per column; absent: null.

    The caller clears the lists.
    """
    topic_names: Mapping[UUID, str]

    def apply(self, key: bytes | None, value: bytes | None, position: LogPosition) -> None:
        """Replay a record of data that is no commit. Never raises for what the bytes are."""

    def end_write(self) -> None:
        """The next record is a commit or a marker: call this before each run of them.

        What several records of one request mean together is decided at their end.
        """

    def name_topic(self, topic_id: UUID, name: str) -> None:
        """A commit, or the cluster, names a topic: its owned partitions get this name."""

    def open_rows(self, exact_since: int | None) -> dict[str, list[dict[str, Any]]]:
        """The rows of what has not ended; `exact_since`: as in `LogPosition`, now."""

    def dump(self) -> bytes: ...

    def load(self, data: bytes) -> None: ...

    def live_members(self, group: str) -> bool: ...

    def subscribes(self, group: str, topic: str) -> bool:
        """Whether a member is subscribed to the topic."""

    def life(self, group: str) -> int | None:
        """Log offset of the first record of this life; None: it has no record but commits."""

    def empty_since(self, group: str) -> int | None:
        """`state_time` (ms) of a classic group without members: its offsets expire by that."""
