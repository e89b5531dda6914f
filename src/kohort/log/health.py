"""What a log tells when the disk refuses to take something."""

from collections.abc import Callable

from kohort.log.problems import Problems
from kohort.types import TopicPartition


class DiskHealth:
    """The disk, as one log meets it. Threads that sync may call it."""

    __slots__ = ("_distrust", "_failed", "_problems", "_topic_partition")

    def __init__(
        self, topic_partition: TopicPartition, problems: Problems, distrust: Callable[[], None]
    ) -> None:
        """`distrust` has the next start check everything."""
        self._topic_partition = topic_partition
        self._problems = problems
        self._distrust = distrust
        self._failed = False

    def failed(self, error: OSError) -> None:
        """What was written may not be on the disk."""
        self._failed = True
        self._problems.failed_syncs += 1
        self._distrust()
        self._problems.begin(
            self._topic_partition,
            f"the disk refuses what is written ({error.strerror or error}); it is tried again",
        )

    def resumed(self) -> None:
        """All that was written is on the disk."""
        if self._failed:
            self._failed = False
            self._problems.end(self._topic_partition)
