"""All groups of a history on one page: the worst first, and how they are compared."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.findings.finding import Finding
from kohort.report.findings import SEVERITIES, FindingView, severity_rank
from kohort.report.names import counted, short_number
from kohort.report.spans import MINUTE, Span, duration, plain_clock
from kohort.report.view import Figures, GroupView

_DIGITS: Final = re.compile(r"[0-9]+")
_FINEST: Final = 256
"""Buckets in which the commits of a group are kept until the time of the whole page is known."""
SPARK_HEIGHT: Final = 14


class Rank(NamedTuple):
    """The order of groups: the smallest is the worst."""

    severity: int
    findings: int
    """Findings of that severity, negative."""
    standstill_ms: int
    """Negative, as is the lag."""
    lag: int
    name: str
    """With numbers of one length, so that billing-10 comes after billing-9."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """Commits of a group over its own time."""

    begin: int
    width: int
    commits: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A group in the overview."""

    anchor: str
    name: str
    severity: str
    """Of its worst finding; "none"."""
    finding: str
    findings: int
    standstill: str
    rebalances: str
    members: str
    lag: str
    last_commit: str
    is_certain: bool
    spark: str
    """A path of bars, 100 wide and `SPARK_HEIGHT` high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is kept of a group while the others are read."""

    rank: Rank
    view: GroupView
    """Without charts, unless the page is to show them."""
    figures: Figures
    buckets: Buckets


def rank(findings: Iterable[Finding], figures: Figures, name: str) -> Rank:
    severities = [severity_rank(finding.severity) for finding in findings]
    worst = min(severities, default=len(SEVERITIES))
    return Rank(
        worst,
        -severities.count(worst),
        -(figures.total_standstill_ms or 0),
        -(figures.lag or 0),
        _DIGITS.sub(lambda digits: digits[0].rjust(12, "0"), name),
    )


def buckets(minutes: pa.Table, span: Span) -> Buckets:
    """The commits of `minutes`, in at most some hundred buckets of whole minutes."""
    width = MINUTE
    while span.length > width * _FINEST:
        width *= 2
    begin = span.since // width * width
    times = minutes["minute"].cast(pa.int64()).to_numpy() // 1_000
    counts = pc.fill_null(minutes["commits"], 0).to_numpy()
    inside = (times >= begin) & (times < span.until)
    numbers = (times[inside] - begin) // width
    sums = np.bincount(numbers, counts[inside], (span.until - begin) // width + 1)
    return Buckets(begin, width, [int(value) for value in sums])


def whole_span(entries: Iterable[Entry]) -> Span | None:
    """The time of all groups."""
    spans = [(entry.view.axis.since, entry.view.axis.until) for entry in entries]
    if not spans:
        return None
    return Span(min(begin for begin, _ in spans), max(end for _, end in spans))


def rows(entries: Sequence[Entry], points: int) -> list[Row]:
    """The rows in order, with bars of the commits over the time of all groups."""
    span = whole_span(entries)
    assert span is not None
    return [_row(entry, span, points) for entry in entries]


def _row(entry: Entry, span: Span, points: int) -> Row:
    view, figures = entry.view, entry.figures
    worst: FindingView | None = view.findings[0] if view.findings else None
    count = len(view.findings) + view.more_findings
    last = figures.last_commit
    return Row(
        anchor=view.anchor,
        name=view.name,
        severity="none" if worst is None else worst.severity,
        finding="no findings" if worst is None else worst.id,
        findings=count,
        standstill=duration(figures.longest_standstill_ms),
        rebalances=f"{figures.rebalances:,}",
        members=f"{figures.members:,}",
        lag="-" if figures.lag is None else short_number(figures.lag),
        last_commit="-" if last is None else plain_clock(last, span.length),
        is_certain=view.is_certain,
        spark=_spark(entry.buckets, span, points),
    )


def _spark(found: Buckets, span: Span, points: int) -> str:
    sums = [0.0] * points
    for number, count in enumerate(found.commits):
        if count:
            middle = found.begin + number * found.width + found.width // 2
            sums[min(int(span.position(middle) * points), points - 1)] += count
    largest = max(sums)
    step = 100 / points
    bars = []
    for number, value in enumerate(sums):
        if value:
            height = max(round(value / largest * SPARK_HEIGHT), 1)
            left, width = round(number * step), max(round(step) - 1, 1)
            bars.append(f"M{left} {SPARK_HEIGHT}v-{height}h{width}v{height}z")
    return "".join(bars)


def summary(entries: Sequence[Entry]) -> str:
    """ "12 groups: 1 error, 3 with warnings, 8 without findings." """
    worst = [entry.rank.severity for entry in entries]
    counts = [(worst.count(number), severity) for number, severity in enumerate(SEVERITIES)]
    parts = [f"{count:,} with {severity} findings" for count, severity in counts if count]
    if fine := worst.count(len(SEVERITIES)):
        parts.append(f"{fine:,} without findings")
    return f"{counted(len(entries), 'group')}: {', '.join(parts)}."
