"""The groups of a history as pages of a report: read, searched for findings, and drawn."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial

from kohort.findings.commit_series import COLUMNS
from kohort.findings.finding import Finding
from kohort.findings.search import find
from kohort.findings.thresholds import Thresholds
from kohort.history_files.directory import HistoryDirectory
from kohort.history_files.group_history import GroupHistories, GroupHistory, group_histories
from kohort.history_files.group_processes import GroupProcesses
from kohort.report.building import (
    Described,
    Origin,
    described,
    drawn,
    page_of_all,
    page_of_group,
)
from kohort.report.page import Page
from kohort.report.view import GroupView


def page_of_one(
    directory: HistoryDirectory,
    group: str,
    origin: Origin,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Page | None:
    """The page of a group; None if it has no record in this time. Raises KohortError."""
    for history in group_histories(directory, [group], since, until, commit_columns=COLUMNS):
        return page_of_group(history, _findings(history), origin)
    return None


def page_of_history(
    directory: HistoryDirectory,
    origin: Origin,
    since: datetime | None = None,
    until: datetime | None = None,
    processes: int | None = None,
) -> Page | None:
    """The page of all groups; None if there are none in this time.

    `processes`: as `most` of `GroupProcesses`; the page is the same for any number. Raises
    KohortError.
    """
    histories = GroupHistories(directory, since, until, COLUMNS)
    parts = histories.parts()
    with GroupProcesses(histories, parts, processes) as running:

        def draw(groups: Collection[str]) -> Mapping[str, GroupView]:
            some = [narrowed for part in parts if (narrowed := part.narrowed(groups)).groups]
            return dict(running.each(some, partial(_drawn, origin)))

        return page_of_all(running.each(parts, partial(_described, origin)), draw, origin)


def _findings(history: GroupHistory) -> Sequence[Finding]:
    return () if history.end is None else find(history, Thresholds(), history.end)


def _described(origin: Origin, history: GroupHistory) -> Described:
    return described(history, _findings(history), origin)


def _drawn(origin: Origin, history: GroupHistory) -> tuple[str, GroupView]:
    return history.group, drawn(history, origin)
