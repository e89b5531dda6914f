"""The problem that a node cannot write to the database, among the problems of its logs."""

from typing import Final

from kohort.log.problems import Problems
from kohort.types import TopicPartition

DATABASE: Final = TopicPartition("postgresql", 0)
"""The name under which the problems of the database itself are."""


class WriteHealth:
    """One problem at a time: the first one, until the database can be written again."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._problem: str | None = None

    def report(self, error: Exception | None) -> None:
        """Begin the problem `error`, or end it if `error` is None."""
        if error is None and self._problem is not None:
            self._problems.end(DATABASE, self._problem)
            self._problem = None
        elif error is not None and self._problem is None:
            self._problem = f"PostgreSQL rejects writes, retrying: {error}"
            self._problems.begin(DATABASE, self._problem)
