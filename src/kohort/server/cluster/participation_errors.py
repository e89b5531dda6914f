"""Current errors of the activities of a node in its cluster, each logged once."""

import logging
from typing import Final

from kohort.cluster import UnknownOutcomeError
from kohort.server.logging import fields

logger = logging.getLogger("kohort.cluster")

STORAGE_FAILURES: Final = (OSError, UnknownOutcomeError, TimeoutError)
"""Errors of a storage that does not respond."""


class ParticipationErrors:
    """The error of each activity that fails now."""

    def __init__(self) -> None:
        self._by_activity: dict[str, str] = {}

    @property
    def current(self) -> str | None:
        """The error that was reported least recently, None if no activity fails."""
        return next(iter(self._by_activity.values()), None)

    def report(self, activity: str, error: Exception) -> None:
        """Set the error of an activity. Log it unless another activity has the same one already."""
        current_errors = {*self._by_activity.values()}
        text = str(error) or "the database does not respond"
        self._by_activity.pop(activity, None)  # it becomes the most recent one
        self._by_activity[activity] = text
        if text not in current_errors:
            logger.error("cannot participate in the cluster, retrying", extra=fields(why=text))

    def clear(self, activity: str) -> None:
        """Forget the error of an activity. Log when no activity has one any more."""
        was_failing = self._by_activity.pop(activity, None) is not None
        if was_failing and not self._by_activity:
            logger.info("participating in the cluster again")
