"""Reports events of a member to the log and to `on_event`."""

import logging
from typing import Final

from kohort.client.config import GroupConfig, GroupEvent
from kohort.client.membership import AnyMembership

logger = logging.getLogger("kohort.client.group")

WARNING_EVENTS: Final = frozenset(
    {
        *("lost", "heartbeat failed", "retry", "waiting", "commit failed", "stuck"),
        *("unavailable", "missing", "idle"),
    }
)
"""Kinds of events that are logged as warnings; others are logged as information."""


class EventReporter:
    """Reports the events of one member."""

    def __init__(self, config: GroupConfig, membership: AnyMembership) -> None:
        self._config = config
        self._membership = membership

    def emit_event(self, kind: str, detail: str) -> None:
        """Log an event, and call `on_event` with it; `kind` is as in `GroupEvent`."""
        name = self._config.group_id
        level = logging.WARNING if kind in WARNING_EVENTS else logging.INFO
        logger.log(level, "%s: %s: %s", name, kind, detail)
        if self._config.on_event is None:
            return
        event = GroupEvent(
            what=kind,
            group_id=name,
            member_id=self._membership.member_id,
            generation=self._membership.generation,
            detail=detail,
        )
        try:
            self._config.on_event(event)
        except Exception:
            logger.exception("%s: on_event raised an exception; the member continues", name)
