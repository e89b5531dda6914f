"""Current problems of logs, for `/health`, the log lines and the metrics.

Each problem is logged once when it begins and once when it ends.
"""

import logging

from kohort.types import TopicPartition

logger = logging.getLogger("kohort.log")


class Problems:
    """The problems of all logs of a directory."""

    def __init__(self) -> None:
        self._by_log: dict[TopicPartition, dict[str, None]] = {}
        self.refused_appends: dict[TopicPartition, tuple[str, int]] = {}
        """The problem of each log whose append the disk refused, and the bytes that end it."""
        self.failed_syncs = 0
        """Times that the disk refused to take what was written."""

    def __len__(self) -> int:
        return len(self._by_log)

    def begin(self, log: TopicPartition, problem: str) -> None:
        """`log` has a problem; the same one again changes nothing."""
        problems = self._by_log.setdefault(log, {})
        if problem not in problems:
            problems[problem] = None
            logger.error("%s: %s", log, problem)

    def end(self, log: TopicPartition, problem: str) -> None:
        """`log` does not have this problem any more, if it had it."""
        problems = self._by_log.get(log, {})
        if problem in problems:
            del problems[problem]
            if not problems:
                del self._by_log[log]
            logger.warning("%s recovered; the error was: %s", log, problem)

    def end_all(self, log: TopicPartition) -> None:
        """`log` has no problem any more."""
        for problem in tuple(self._by_log.get(log, ())):
            self.end(log, problem)

    def forget(self, log: TopicPartition) -> None:
        """`log` is gone."""
        self._by_log.pop(log, None)
        self.refused_appends.pop(log, None)

    def append_refused(self, log: TopicPartition, error: OSError, size: int) -> None:
        """The disk refused `size` bytes. On a disk that is nearly full, fewer may still fit."""
        new = f"the disk refused an append ({error.strerror or error})", 0
        problem, refused = self.refused_appends.get(log, new)
        self.refused_appends[log] = problem, max(refused, size)
        self.begin(log, problem)

    def append_accepted(self, log: TopicPartition, size: int) -> None:
        """The disk took `size` bytes: the problem ends if it refused no more than these."""
        problem, refused = self.refused_appends.get(log, ("", 0))
        if size >= refused:
            self.refused_appends.pop(log, None)
            self.end(log, problem)

    def texts(self, limit: int) -> list[str]:
        """The first `limit` of them, and how many more there are."""
        texts = [
            f"{log}: {'; '.join(problems)}" for log, problems in list(self._by_log.items())[:limit]
        ]
        more = len(self._by_log) - len(texts)
        return [*texts, f"{more} more logs have problems"] if more else texts
