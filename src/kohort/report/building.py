"""Builds the page of one group, or of all groups of a history, from their rows.

Of many groups the rows come one group after the other, and only what the page shows is kept: of
the worst groups so far their charts, of the others their figures and worst findings.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kohort.findings.finding import Finding
from kohort.history_files.group_history import GroupHistory
from kohort.report.limits import BRIEF, DETAILED_GROUPS, ONE_OF_MANY, WHOLE, sparkline_points
from kohort.report.names import counted, shown
from kohort.report.overview import Entry, Rank, Row, buckets, rank, rows, summary, whole_span
from kohort.report.page import Page
from kohort.report.spans import clock, clock_range
from kohort.report.view import GroupView, group_view, span_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a report comes from: the directory as its user named it, the time, and the version."""

    source: str
    made: int
    version: str
    since: int | None = None
    until: int | None = None


class _Detailed(NamedTuple):
    """A group with charts; the smallest one is the first to be left out."""

    badness: tuple[int, ...]
    number: int
    view: GroupView


def page_of_group(history: GroupHistory, findings: Sequence[Finding], origin: Origin) -> Page:
    span = span_of(history, origin.since, origin.until)
    view, figures = group_view(history, findings, WHOLE, span, "g1")
    name = shown(history.group)
    return _page(
        origin,
        title=f"Group {name}",
        period=view.period,
        summary=(
            f"{counted(figures.rebalances, 'rebalance')}, {counted(len(findings), 'finding')}, "
            f"{counted(figures.commits, 'commit')}."
        ),
        groups=[view],
    )


def page_of_all(
    groups: Iterable[tuple[GroupHistory, Sequence[Finding]]], origin: Origin
) -> Page | None:
    """The page of all groups, each with its findings; None if there are no groups."""
    entries: list[Entry] = []
    worst: list[_Detailed] = []
    for number, (history, findings) in enumerate(groups):
        entry = _entry(history, findings, origin, f"g{number + 1}")
        entries.append(entry)
        badness = _badness(entry.rank)
        if len(worst) < DETAILED_GROUPS or badness > worst[0].badness:
            span = span_of(history, origin.since, origin.until)
            view, _ = group_view(history, findings, ONE_OF_MANY, span, entry.view.anchor)
            detailed = _Detailed(badness, number, view)
            push = heapq.heappush if len(worst) < DETAILED_GROUPS else heapq.heapreplace
            push(worst, detailed)
    return _of_entries(entries, worst, origin) if entries else None


def _entry(
    history: GroupHistory, findings: Sequence[Finding], origin: Origin, anchor: str
) -> Entry:
    span = span_of(history, origin.since, origin.until)
    view, figures = group_view(history, findings, BRIEF, span, anchor)
    return Entry(
        rank=rank(findings, figures, view.name),
        view=view,
        figures=figures,
        buckets=buckets(history.minutes, span),
    )


def _badness(of: Rank) -> tuple[int, ...]:
    return tuple(-number for number in of[:-1])


def _of_entries(entries: list[Entry], worst: Sequence[_Detailed], origin: Origin) -> Page:
    entries.sort(key=lambda entry: entry.rank)
    charted = {detailed.view.anchor: detailed.view for detailed in worst}
    span = whole_span(entries)
    assert span is not None
    return _page(
        origin,
        title="Groups",
        period=clock_range(span.since, span.until),
        summary=summary(entries),
        rows=rows(entries, sparkline_points(len(entries))),
        groups=[charted[entry.view.anchor] for entry in entries if entry.view.anchor in charted],
        brief=[entry.view for entry in entries if entry.view.anchor not in charted],
    )


def _page(
    origin: Origin,
    *,
    title: str,
    period: str,
    summary: str,
    groups: Sequence[GroupView],
    rows: Sequence[Row] = (),
    brief: Sequence[GroupView] = (),
) -> Page:
    return Page(
        title=title,
        source=shown(origin.source, 200),
        made=clock(origin.made, 3_600_000),
        version=origin.version,
        period=period,
        summary=summary,
        rows=rows,
        groups=groups,
        brief=brief,
    )
