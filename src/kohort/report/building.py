"""Builds the page of one group, or of all groups of a history, from their rows.

Which of many groups are the worst is known when all have been described. So only these are drawn
afterwards, and only what the page shows of the others is kept.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from kohort.findings.finding import Finding
from kohort.history_files.group_history import GroupHistory
from kohort.report.findings import FindingView, finding_views
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a page of all groups shows of one, except for charts."""

    group: str
    entry: Entry
    findings: Sequence[FindingView]
    """As many as the page shows of a group that is drawn."""


Draw: TypeAlias = Callable[[Collection[str]], Mapping[str, GroupView]]
"""Draws groups, by their ids."""


class _Worst(NamedTuple):
    """A group that is drawn; the smallest one is the first to be left out."""

    badness: tuple[int, ...]
    number: int
    described: Described


def page_of_group(history: GroupHistory, findings: Sequence[Finding], origin: Origin) -> Page:
    span = span_of(history, origin.since, origin.until)
    view, figures = group_view(history, findings, WHOLE, span)
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


def described(history: GroupHistory, findings: Sequence[Finding], origin: Origin) -> Described:
    """A group of a page of all groups."""
    span = span_of(history, origin.since, origin.until)
    view, figures = group_view(history, findings, BRIEF, span)
    entry = Entry(
        rank=rank(findings, figures, view.name),
        view=view,
        figures=figures,
        buckets=buckets(history.minutes, span),
    )
    shown_if_drawn = finding_views(findings, span, ONE_OF_MANY.findings)
    return Described(group=history.group, entry=entry, findings=shown_if_drawn)


def drawn(history: GroupHistory, origin: Origin) -> GroupView:
    """The section of one of the worst groups, without its findings."""
    span = span_of(history, origin.since, origin.until)
    return group_view(history, (), ONE_OF_MANY, span)[0]


def page_of_all(groups: Iterable[Described], draw: Draw, origin: Origin) -> Page | None:
    """The page of all groups, of which `draw` draws the worst; None if there are no groups."""
    entries: list[Entry] = []
    worst: list[_Worst] = []
    for number, group in enumerate(groups):
        view = replace(group.entry.view, anchor=_anchor(number))
        entries.append(replace(group.entry, view=view))
        badness = _badness(group.entry.rank)
        if len(worst) < DETAILED_GROUPS or badness > worst[0].badness:
            push = heapq.heappush if len(worst) < DETAILED_GROUPS else heapq.heapreplace
            push(worst, _Worst(badness, number, group))
    if not entries:
        return None
    views = draw({each.described.group for each in worst})
    return _of_entries(entries, [_section(each, views) for each in worst], origin)


def _anchor(number: int) -> str:
    return f"g{number + 1}"


def _section(of: _Worst, views: Mapping[str, GroupView]) -> GroupView:
    brief, findings = of.described.entry.view, of.described.findings
    return replace(
        views[of.described.group],
        anchor=_anchor(of.number),
        findings=findings,
        more_findings=len(brief.findings) + brief.more_findings - len(findings),
    )


def _badness(of: Rank) -> tuple[int, ...]:
    return tuple(-number for number in of[:-1])


def _of_entries(entries: list[Entry], worst: Iterable[GroupView], origin: Origin) -> Page:
    entries.sort(key=lambda entry: entry.rank)
    charted = {view.anchor: view for view in worst}
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
