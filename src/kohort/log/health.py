"""Reports of a log whose writes or syncs the disk refuses."""

from collections.abc import Callable

from kohort.log.problems import Problems
from kohort.types import TopicPartition


class DiskHealth:
    """The disk, as one log meets it. Threads that sync may call it."""

    __slots__ = ("_distrust", "_is_removed", "_problem", "_problems", "_topic_partition")

    def __init__(
        self, topic_partition: TopicPartition, problems: Problems, distrust: Callable[[], None]
    ) -> None:
        """`distrust` has the next start check everything."""
        self._topic_partition = topic_partition
        self._problems = problems
        self._distrust = distrust
        self._problem: str | None = None
        self._is_removed = False

    def failed(self, error: OSError) -> None:
        """A sync failed: written data may not be on the disk."""
        if self._is_removed:
            return
        self._problems.failed_syncs += 1
        self._distrust()
        if self._problem is None:
            reason = error.strerror or error
            self._problem = f"the disk rejects writes ({reason}), retrying"
        self._problems.begin(self._topic_partition, self._problem)

    def resumed(self) -> None:
        """All that was written is on the disk."""
        if self._problem is not None:
            self._problems.end(self._topic_partition, self._problem)
            self._problem = None

    def forget(self) -> None:
        """Report nothing more: the log was removed, and nothing would end a problem of it."""
        self._is_removed = True
