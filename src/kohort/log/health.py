"""Reports of a log whose writes or syncs the disk refuses."""

from collections.abc import Callable
from enum import Enum
from threading import Lock

from kohort.log.problems import Problems
from kohort.types import TopicPartition


class Sync(Enum):
    """Kinds of syncs, which fail and recover independently."""

    APPENDED = "appended records"
    SEALED = "full segments"


_NONE: frozenset[Sync] = frozenset()
_REPORTING = Lock()
"""Held during each report: threads that sync report failures, and the loop thread their end."""


class DiskHealth:
    """The disk, as one log meets it. Threads that sync may call it."""

    __slots__ = (
        "_distrust", "_failing", "_is_forgotten", "_problem", "_problems", "_topic_partition",
    )  # fmt: skip

    def __init__(
        self, topic_partition: TopicPartition, problems: Problems, distrust: Callable[[], None]
    ) -> None:
        """`distrust` has the next start check everything."""
        self._topic_partition = topic_partition
        self._problems = problems
        self._distrust = distrust
        self._problem: str | None = None
        self._failing = _NONE
        self._is_forgotten = False

    def failed(self, sync: Sync, error: OSError) -> None:
        """A sync failed: written data may not be on the disk."""
        with _REPORTING:
            if self._is_forgotten:
                return
            self._problems.failed_syncs += 1
            self._distrust()
            self._failing |= {sync}
            if self._problem is None:
                reason = error.strerror or error
                self._problem = f"the disk rejects writes ({reason}), retrying"
            self._problems.begin(self._topic_partition, self._problem)

    def resumed(self, *syncs: Sync) -> None:
        """Syncs of these kinds succeed again."""
        if self._problem is None:
            return
        with _REPORTING:
            self._failing = self._failing.difference(syncs)
            if not self._failing:
                self._problems.end(self._topic_partition, self._problem)
                self._problem = None

    def forget(self) -> None:
        """Report nothing more: the log has ended, and nothing would end a problem of it."""
        with _REPORTING:
            self._is_forgotten = True
