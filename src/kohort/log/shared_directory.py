"""A directory of logs that the nodes of a cluster share: a node opens those that it leads."""

from collections.abc import Callable, Container
from typing import Protocol
from uuid import UUID

from kohort.log.base import Log, LogConfig, LogDirectory
from kohort.log.standby import StandbyLog
from kohort.types import TopicPartition


class SharedLogDirectory(LogDirectory, Protocol):
    """The logs of a cluster, as one of its nodes sees them."""

    async def take(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        leader_epoch: int,
        position: int,
    ) -> Log:
        """Open a log that this node leads from now on, in that epoch; it is made if missing.

        It has all that was appended by former leaders, which append no more. What is there of
        another topic of the same name is set aside, if `position` is the end of the metadata log:
        else that topic may be a later one, and this raises OSError. Other methods may be called
        meanwhile, `take` and `release` of other logs too. Raises OSError; a damaged log is one that
        raises KAFKA_STORAGE_ERROR from every method.
        """
        ...

    def stand_by(
        self, topic_partition: TopicPartition, topic_id: UUID, config: LogConfig
    ) -> StandbyLog:
        """A log that another node leads, to be read while that appends to it."""
        ...

    def bind_topics(self, current_topics: Callable[[], tuple[int, Container[UUID]]]) -> None:
        """Have logs removed, or set aside, whose topics were deleted while nobody could do so.

        `current_topics` returns how far this node has read the metadata log, and the ids of the
        topics that it has up to there.
        """
        ...

    async def release(self, topic_partition: TopicPartition) -> None:
        """Close a log that another node is to lead: its batches stay.

        From the first turn on its methods raise NOT_LEADER_OR_FOLLOWER. On return nothing is
        written to it any more. Harmless if it is not open. Raises OSError if the outcome of what
        was appended last is not known.
        """
        ...
