"""Looks for findings in the groups of a history, one after the other."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final, TypeAlias

from kohort.findings.commit_series import COLUMNS
from kohort.findings.finding import Finding
from kohort.findings.search import find, ordered
from kohort.findings.thresholds import Thresholds
from kohort.history_files.directory import HistoryDirectory
from kohort.history_files.group_history import GroupHistories, GroupHistory, GroupPart

MOST_COMMITS: Final = 250_000
"""Latest commits of a group that are searched, in some 300 MB."""


@dataclass(slots=True)
class SearchResult:
    """Findings, and what they cannot tell."""

    findings: list[Finding] = field(default_factory=list)
    """The gravest first, then by group and time."""
    groups: set[str] = field(default_factory=set)
    """All groups that were looked at."""
    incomplete: set[str] = field(default_factory=set)
    """Groups of which records of the period are missing."""
    without_samples: set[str] = field(default_factory=set)
    """Groups with commits whose lag is not known."""
    shortened: dict[str, datetime] = field(default_factory=dict)
    """Groups with more than MOST_COMMITS commits → the time from which on they were searched."""


RunParts: TypeAlias = Callable[
    [Callable[[GroupPart], SearchResult], Sequence[GroupPart]], Iterable[SearchResult]
]
"""Calls a function, which can be pickled, with each part, in any order."""


def search_groups(
    directory: HistoryDirectory,
    thresholds: Thresholds,
    *,
    groups: Collection[str] | None = None,
    since: datetime | None = None,
    at: datetime | None = None,
    ids: Collection[str] | None = None,
    run: RunParts = map,
) -> SearchResult:
    """Findings of all groups, or of the named ones that have rows; of all rules, or of `ids`.

    `at`: by default the end of the history. `run`: searches the parts. Raises ConfigError for a
    time of which rows were removed; KohortError.
    """
    histories = GroupHistories(directory, since, at, COLUMNS, MOST_COMMITS)
    work = partial(_search_part, histories, thresholds, ids)
    result = SearchResult()
    for part in run(work, histories.parts(groups)):
        result.findings += part.findings
        result.groups |= part.groups
        result.incomplete |= part.incomplete
        result.without_samples |= part.without_samples
        result.shortened |= part.shortened
    result.findings = ordered(result.findings)
    return result


def _search_part(
    histories: GroupHistories,
    thresholds: Thresholds,
    ids: Collection[str] | None,
    part: GroupPart,
) -> SearchResult:
    result = SearchResult()
    if part.begins_later is not None:
        result.shortened |= dict.fromkeys(part.groups, part.begins_later)
    for history in histories.read(part):
        _search(result, history, thresholds, ids)
    return result


def _search(
    result: SearchResult,
    history: GroupHistory,
    thresholds: Thresholds,
    ids: Collection[str] | None,
) -> None:
    result.groups.add(history.group)
    if not history.is_complete:
        result.incomplete.add(history.group)
    has_commits = history.commits.num_rows or history.earlier.num_rows
    if has_commits and not history.samples.num_rows:
        result.without_samples.add(history.group)
    if history.end is not None:
        result.findings += find(history, thresholds, history.end, ids)
