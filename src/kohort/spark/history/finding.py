"""Looks for findings after batches, in the driver. An error there does not end a build."""

import logging
import time
from collections.abc import Callable
from typing import Final

from kohort.history_files.directory import WritableHistory
from kohort.history_files.finding_files import add_findings, changed_groups

WAIT: Final = 20
"""Times the duration of a search that the next one waits: it takes at most 5 % of the time."""
_log: Final = logging.getLogger("kohort.history")


class FindingSearch:
    """Looks at the groups that batches changed; those of skipped batches with the next search."""

    def __init__(
        self,
        history: WritableHistory,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._history = history
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._paths = history.current.paths()
        self._groups: set[str] = set()
        self._next = monotonic()

    def after_batch(self, *, at_once: bool = False) -> None:
        """A batch is visible. Search, unless the last search was too short ago for its duration.

        `at_once`: in any case. Call it before files are merged.
        """
        try:
            self._after_batch(at_once)
        except Exception:  # a search that fails must not end the collection of history
            _log.exception("findings are missing; the other tables are whole")

    def _after_batch(self, at_once: bool) -> None:
        files = self._history.current.files
        new = [file for file in files if file.path not in self._paths]
        self._groups |= changed_groups(self._history, new)
        began = self._monotonic()
        if self._groups and (at_once or began >= self._next):
            add_findings(self._history, self._groups, self._now_ms())
            self._groups.clear()
            now = self._monotonic()
            self._next = now + WAIT * (now - began)

    def end_batch(self) -> None:
        """Files were merged: those that are there now are not new."""
        self._paths = self._history.current.paths()
