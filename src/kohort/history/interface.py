"""What the fold of commits and the fold of groups ask each other.

Commits and groups share one log partition, and each fold needs facts of the other at the
position of a record: the groups when a partition was committed last, the commits who owned it.
Everything here is as of the record that is applied.
"""

from typing import NamedTuple, Protocol

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
    follows_data_loss: bool = False
    """Whether groups that have no record since may have had some that are lost."""

    @property
    def batch(self) -> int:
        """Number of its batch: the batch offset. Records of an archive have none: all of one time
        are a batch."""
        return -1 - self.timestamp if self.batch_offset is None else self.batch_offset

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

    def offsets_expired(self, group: str, batch: int) -> bool | None:
        """Whether the offsets that were deleted with the group were all as old as the retention.

        `batch`: `LogPosition.batch` of the group's tombstone. None if it has deleted none so far.
        """
