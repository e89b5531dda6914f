"""Rebalances as log lines and as counters."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from typing import Final

from kohort.coordinator.journal import Rebalance
from kohort.coordinator.rounds import MAX_CAUSES
from kohort.server.logging import fields
from kohort.server.monitoring.rebalance_durations import RebalanceDurations

logger = logging.getLogger("kohort.groups")

LINES: Final = 5
"""Most lines of single rebalances of one group in `WINDOW_S`."""
WINDOW_S: Final = 60


class RebalanceReporter:
    """Logs the rebalances that ended, and counts them. Runs on the event loop."""

    def __init__(self) -> None:
        self.causes: Counter[tuple[str, str, str]] = Counter()
        """Rebalances by (type of the group, first cause, outcome)."""
        self.durations = RebalanceDurations()
        self._windows: dict[str, _Window] = {}

    def observe(self, rebalance: Rebalance) -> None:
        """Log one rebalance, count it, and add the durations of its phases."""
        first = rebalance.causes[0].what if rebalance.causes else "unknown"
        self.causes[rebalance.type, first, rebalance.outcome] += 1
        self.durations.observe(rebalance)
        window = self._windows.get(rebalance.group)
        if window is None:
            timer = asyncio.get_running_loop().call_later(
                WINDOW_S, self._end_window, rebalance.group
            )
            window = self._windows[rebalance.group] = _Window(timer)
        if window.lines < LINES:
            window.lines += 1
            logger.info("rebalance", extra=fields(**_log_fields(rebalance)))
        else:
            window.generation = rebalance.generation
            window.outcomes[rebalance.outcome] += 1
            window.causes[first] += 1

    def _end_window(self, group: str) -> None:
        window = self._windows.pop(group)
        window.timer.cancel()
        if window.outcomes:
            values = {
                "group": group,
                "rebalances": window.outcomes.total(),
                "generation": window.generation,
                "outcomes": _counted(window.outcomes.most_common()),
                "causes": _counted(window.causes.most_common()),
            }
            logger.info("more rebalances", extra=fields(**values))

    def close(self) -> None:
        """Log rebalances that have no line yet."""
        for group in tuple(self._windows):
            self._end_window(group)


class _Window:
    """The rebalances of a group since the first one that was logged."""

    __slots__ = ("causes", "generation", "lines", "outcomes", "timer")

    def __init__(self, timer: asyncio.TimerHandle) -> None:
        self.timer = timer
        self.lines = 0
        self.generation = 0
        """Generation of the last rebalance without a line."""
        self.outcomes: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        """The first cause of each."""


def _counted(items: Iterable[tuple[str, int]]) -> list[str]:
    return [name if count == 1 else f"{name} x{count}" for name, count in items]


def _log_fields(rebalance: Rebalance) -> dict[str, object]:
    causes = Counter(
        " ".join(
            word
            for word in (cause.what, cause.client_id or cause.member_id, f"({cause.reason})")
            if word != "()"
        )
        for cause in rebalance.causes
    )
    values: dict[str, object] = {
        "group": rebalance.group,
        "generation": rebalance.generation,
        "outcome": rebalance.outcome,
        "members": len(rebalance.members),
        "join_ms": rebalance.join_ms,
        "sync_ms": rebalance.sync_ms,
        "causes": _counted(causes.items()),
    }
    if rebalance.more_causes:
        values["more_causes"] = rebalance.more_causes
    if rebalance.awaited:
        values["awaited"] = list(rebalance.awaited[:MAX_CAUSES])
    return values
