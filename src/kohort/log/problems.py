"""What is wrong with logs right now, for `/health`, the log lines and the metrics.

Each problem is told by one log line when it begins and one when it ends, however often it is met in
between.
"""

import logging

from kohort.types import TopicPartition

logger = logging.getLogger("kohort.log")


class Problems:
    """The problems of all logs of a directory, one at a time for each."""

    def __init__(self) -> None:
        self._by_log: dict[TopicPartition, str] = {}
        self.failed_syncs = 0
        """Times that the disk refused to take what was written."""

    def __len__(self) -> int:
        return len(self._by_log)

    def begin(self, log: TopicPartition, problem: str) -> None:
        """`log` has a problem; the same one again changes nothing."""
        if self._by_log.get(log) != problem:
            self._by_log[log] = problem
            logger.error("%s: %s", log, problem)

    def end(self, log: TopicPartition) -> None:
        """`log` has none any more."""
        problem = self._by_log.pop(log, None)
        if problem is not None:
            logger.warning("%s is well again; it was: %s", log, problem)

    def forget(self, log: TopicPartition) -> None:
        """`log` is gone."""
        self._by_log.pop(log, None)

    def texts(self, most: int) -> list[str]:
        """The first `most` of them, and how many more there are."""
        told = [f"{log}: {problem}" for log, problem in list(self._by_log.items())[:most]]
        more = len(self._by_log) - len(told)
        return [*told, f"{more} more logs have problems"] if more else told
