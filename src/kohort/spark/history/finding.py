"""Looks for findings after batches. An error there does not end a build."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from kohort.history_files.directory import WritableHistory
from kohort.history_files.finding_files import add_findings, changed_groups, unsearched_groups
from kohort.history_files.finding_search import RunParts, SearchResult
from kohort.history_files.group_history import GroupPart
from kohort.spark import workers
from kohort.spark.error_messages import cause_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT: Final = 20
"""Times the duration of a search that the next one waits: it takes at most 5 % of the time."""
FIRST_LOOK_S: Final = 120.0
"""A group that has not changed for so long is searched again: it may have stopped."""
LAST_LOOK_S: Final = 24 * 3_600.0
"""Later it is not: its last change leaves the time that is searched."""
ROWS_IN_DRIVER: Final = 200_000
"""Fewer rows are searched sooner than tasks begin."""
_log: Final = logging.getLogger("kohort.history")


def in_tasks(spark: "SparkSession") -> RunParts:
    """Has Spark's tasks search the parts if they have many rows; not with Spark Connect."""
    from pyspark.sql.utils import is_remote

    def run(
        search: Callable[[GroupPart], SearchResult], parts: Sequence[GroupPart]
    ) -> Iterable[SearchResult]:
        if is_remote() or sum(part.rows for part in parts) < ROWS_IN_DRIVER:
            return map(search, parts)
        rows = spark.sparkContext.parallelize(parts, len(parts))
        return rows.map(SearchTask(search).run).collect()

    return run


@cause_first
class SearchTask(workers.TaskObject):
    """Searches one part."""

    def __init__(self, search: Callable[[GroupPart], SearchResult]) -> None:
        self._search = search

    def run(self, part: GroupPart) -> SearchResult:
        workers.settle()
        return self._search(part)


class FindingSearch:
    """Looks at the groups that batches changed; those of skipped batches with the next search.

    The first search is of those, too, that an earlier build left unsearched. A group that stops
    changes no more: it is searched again 2, 4, 8 … minutes after its last change.
    """

    def __init__(
        self,
        history: WritableHistory,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
        run: RunParts = map,
    ) -> None:
        """`run`: searches parts of the groups."""
        self._history = history
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._run = run
        self._paths = history.current.paths()
        self._has_leftovers = not history.current.is_searched
        self._groups: set[str] = set()
        self._quiet: dict[str, tuple[float, float]] = {}
        """Group → when it changed last, and when it is searched again if it does not change."""
        self._next = monotonic()

    def after_batch(self, *, at_once: bool = False) -> None:
        """A batch or samples are visible. Search, unless the last search was too short ago.

        `at_once`: in any case. Call it before files are merged.
        """
        try:
            self._after_batch(at_once)
        except Exception:  # a search that fails must not end the collection of history
            _log.exception("findings are missing; the other tables are whole")

    def _after_batch(self, at_once: bool) -> None:
        began = self._monotonic()
        changed = self._changed()
        self._groups |= changed
        self._quiet |= dict.fromkeys(changed, (began, began + FIRST_LOOK_S))
        due = self._groups | {group for group, (_, at) in self._quiet.items() if at <= began}
        if due and (at_once or began >= self._next):
            add_findings(self._history, due, self._now_ms(), self._run)
            self._groups.clear()
            self._plan_quiet(began)
            now = self._monotonic()
            self._next = now + WAIT * (now - began)

    def _changed(self) -> set[str]:
        """The groups of new files, and once those that an earlier build left."""
        files = self._history.current.files
        new = [file for file in files if file.path not in self._paths]
        changed = changed_groups(self._history, new)
        if self._has_leftovers:
            changed |= unsearched_groups(self._history)
            self._has_leftovers = False
        return changed

    def _plan_quiet(self, now: float) -> None:
        """Groups that have just been searched come again when twice the time has passed."""
        for group in [name for name, (_, at) in self._quiet.items() if at <= now]:
            since, _ = self._quiet.pop(group)
            if 2 * (now - since) <= LAST_LOOK_S:
                self._quiet[group] = since, now + (now - since)

    def end_batch(self) -> None:
        """Files were merged: those that are there now are not new."""
        self._paths = self._history.current.paths()
