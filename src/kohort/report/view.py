"""What a page says of one group: its charts, tables, findings and figures, ready to be rendered.

Every name that others chose has passed `names.shown`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.findings.finding import Finding
from kohort.history_files.group_history import GroupHistory
from kohort.report import charts
from kohort.report.causes import Mark, cause_text, key_of, mark_of
from kohort.report.certainty import Unknown, sentences, unknown_times
from kohort.report.findings import FindingView, finding_views
from kohort.report.limits import MOST_PARTITIONS, Limits
from kohort.report.names import counted, member_names, short_number, shown
from kohort.report.owners import (
    Stay,
    TopicPartition,
    bands,
    members_in_order,
    stays,
    worst_partitions,
)
from kohort.report.series import Activity, LagSeries, activity, lag_series
from kohort.report.spans import SECOND, Span, clock_range, duration, milliseconds, plain_clock
from kohort.report.tables import Table, lag_of, members_table, owners_table, values_table

_FEWEST_POINTS: Final = 60
_IDLE_SHARE: Final = 10
"""What is shown after the end of a group, as a part of its time."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure of a group."""

    name: str
    value: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A section of the page."""

    name: str
    period: str
    facts: Sequence[Fact]
    certainty: Sequence[str]
    is_certain: bool
    findings: Sequence[FindingView]
    more_findings: int
    axis: charts.Axis
    owners: charts.OwnersChart | None
    rebalances: charts.RebalanceChart | None
    values: Sequence[charts.ValueChart]
    missing: Sequence[str]
    """Charts that are not there, with the reason."""
    tables: Mapping[str, Table]
    anchor: str = "g1"
    """Name of the section in its page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of a group by which groups are compared."""

    group_type: str
    members: int
    generations: int
    rebalances: int
    longest_standstill_ms: int | None
    total_standstill_ms: int
    commits: int
    records: int
    last_commit: int | None
    lag: int | None
    lag_ms: int | None


def span_of(history: GroupHistory, since: int | None, until: int | None) -> Span:
    """The time that is shown: from the first record of the group to the end of the log.

    A time before or after all records is not shown, as nothing is known of it. Nor is the time
    after the end of a group without members and lag: it would take the width from what it did.
    """
    times = _times(history)
    ends = [row["last_time"] for row in history.coverage] if until is not None else [history.end]
    latest = max([*times, *(milliseconds(end) for end in ends if end is not None)], default=0)
    end = latest if until is None else min(until, latest)
    begin = min(times, default=end - SECOND) if since is None else since
    if times and until is None and all(row["to"] is not None for row in history.members):
        last = max(times)
        end = min(end, last + max((last - begin) // _IDLE_SHARE, SECOND))
    return Span(begin, max(end, begin + SECOND))


def _times(history: GroupHistory) -> list[int]:
    rows = chain(
        (row["time"] for row in chain(history.generations, history.rebalances)),
        (row["from"] for row in history.members),
        (row["to"] for row in history.members),
    )
    found = [milliseconds(time) for time in rows if time is not None]
    for table, column in (("commits", "in_force_time"), ("minutes", "minute")):
        ends = pc.min_max(getattr(history, table)[column].cast("int64")).as_py()
        found += [end // 1_000 for end in ends.values() if end is not None]
    return found + _lag_times(history.lag)


def _lag_times(lag: pa.Table) -> list[int]:
    """The times of the first lag, of the last one, and of the row by which it was gone."""
    times = lag["time"].cast(pa.int64()).to_numpy() // 1_000
    behind = times[pc.fill_null(pc.greater(lag["lag"], 0), False).to_numpy()]
    if not len(behind):
        return []
    gone = times[times > behind.max()]
    ends = [behind.min(), behind.max(), *([gone.min()] if len(gone) else [])]
    return [int(time) for time in ends]


def figures(history: GroupHistory, lag: LagSeries | None) -> Figures:
    standstills = [
        row["standstill_ms"] for row in history.rebalances if row["standstill_ms"] is not None
    ]
    types = [row["type"] for row in history.generations]
    commits, minutes = history.commits, history.minutes
    last = pc.max((commits if commits.num_rows else minutes)[
        "in_force_time" if commits.num_rows else "minute"
    ].cast("int64")).as_py()  # fmt: skip
    return Figures(
        group_type=types[-1] if types else "no members",
        members=sum(row["to"] is None for row in history.members),
        generations=len(history.generations),
        rebalances=len(history.rebalances),
        longest_standstill_ms=max(standstills, default=None),
        total_standstill_ms=sum(standstills),
        commits=pc.sum(minutes["commits"]).as_py() or commits.num_rows,
        records=max(pc.sum(minutes["sum_advance"]).as_py() or 0, 0),
        last_commit=None if last is None else last // 1_000,
        lag=None if lag is None or not lag.last else sum(lag.last.values()),
        lag_ms=None if lag is None else lag_of(lag),
    )


@dataclass(frozen=True, slots=True)
class _Subject:
    """A group and what is computed of it first."""

    history: GroupHistory
    span: Span
    limits: Limits
    names: Mapping[str, str]
    stays: Sequence[Stay]
    activity: Activity
    lag: LagSeries | None
    unknown: Sequence[Unknown]

    def name(self, member_id: str) -> str:
        return self.names.get(member_id) or shown(member_id)


def group_view(
    history: GroupHistory,
    findings: Sequence[Finding],
    limits: Limits,
    span: Span,
) -> tuple[GroupView, Figures]:
    """The section of a group, and the figures by which it is compared."""
    points = max(limits.points, _FEWEST_POINTS)
    lag, unknown = lag_series(history.lag, span, points), unknown_times(history, span)
    found = figures(history, lag)
    charted = _Charts()
    if limits.points:
        names = member_names(history.members)
        charted = _charts(
            _Subject(
                history,
                span,
                limits,
                names,
                stays(history.assignments, names, span),
                activity(history.minutes, history.commits, span, points),
                lag,
                unknown,
            )
        )
    return GroupView(
        name=shown(history.group),
        period=clock_range(span.since, span.until),
        facts=_facts(history, found, span, lag),
        certainty=sentences(history, span, unknown),
        is_certain=not unknown,
        findings=finding_views(findings, span, limits.findings),
        more_findings=max(len(findings) - limits.findings, 0),
        axis=charts.axis(span, _rebalance_times(history), unknown),
        owners=charted.owners,
        rebalances=charted.rebalances,
        values=charted.values,
        missing=charted.missing,
        tables=charted.tables,
    ), found


def _rebalance_times(history: GroupHistory) -> list[int]:
    return [milliseconds(row["time"]) for row in history.rebalances if row["time"] is not None]


def _facts(
    history: GroupHistory, found: Figures, span: Span, series: LagSeries | None
) -> list[Fact]:
    protocols = dict.fromkeys(row["protocol"] for row in history.generations if row["protocol"])
    lag = "not known" if found.lag is None else counted(found.lag, "record")
    behind = "" if found.lag_ms is None else f"{duration(found.lag_ms)} behind"
    unknown = 0 if series is None else series.unknown
    if unknown:
        behind += f"{', ' if behind else ''}not known of {counted(unknown, 'partition')}"
    day, _, time = (
        ("none", "", "") if found.last_commit is None
        else plain_clock(found.last_commit, span.length).partition(" ")
    )  # fmt: skip
    standstill = found.longest_standstill_ms
    total = f"{duration(found.total_standstill_ms)} in all" if standstill is not None else ""
    return [
        Fact("Type", found.group_type, ", ".join(dict.fromkeys(map(shown, protocols)))),
        Fact("Members at the end", f"{found.members:,}"),
        Fact("Rebalances", f"{found.rebalances:,}", f"{counted(found.generations, 'generation')}"),
        Fact("Longest standstill", duration(standstill), total),
        Fact("Records committed", short_number(found.records), counted(found.commits, "commit")),
        Fact("Lag at the end", lag, behind),
        Fact("Last commit", time or day, f"{day} UTC" if time else ""),
    ]


# --- charts


@dataclass(frozen=True, slots=True)
class _Charts:
    owners: charts.OwnersChart | None = None
    rebalances: charts.RebalanceChart | None = None
    values: Sequence[charts.ValueChart] = ()
    missing: Sequence[str] = ()
    tables: Mapping[str, Table] = field(default_factory=dict)


def _charts(subject: _Subject) -> _Charts:
    partitions = _partitions(subject)
    values = [_rate_chart(subject)]
    missing = []
    if subject.lag is None:
        missing.append("Lag is not drawn: this history has no samples of the ends of topics.")
    else:
        values += _lag_charts(subject.lag)
    owners = None
    if subject.stays:
        owners = _owners_chart(subject, partitions)
    elif subject.history.generations:
        missing.append("Owners are not drawn: nothing was assigned, or not to known partitions.")
    else:
        missing.append("Owners are not drawn: the group had no members, so others committed.")
    rebalances, rows = _rebalances(subject)
    tables = {
        "owners": owners_table(subject.stays, subject.span, subject.limits.rows),
        "rebalances": rows,
        "values": values_table(subject.activity, subject.lag, subject.span),
        "members": members_table(
            subject.history.members, subject.names, subject.span, subject.limits.rows
        ),
    }
    return _Charts(owners, rebalances, values, missing, tables)


def _partitions(subject: _Subject) -> set[TopicPartition]:
    minutes = subject.history.minutes.group_by(["topic", "partition"]).aggregate([])
    committed = zip(minutes["topic"].to_pylist(), minutes["partition"].to_pylist(), strict=True)
    return {TopicPartition(*key) for key in committed} | {stay.partition for stay in subject.stays}


def _owners_chart(subject: _Subject, partitions: Iterable[TopicPartition]) -> charts.OwnersChart:
    every = set(partitions)
    lag = {} if subject.lag is None else subject.lag.last
    lanes = worst_partitions(every, subject.stays, lag, MOST_PARTITIONS)
    found = bands(subject.stays, lanes, len(every), subject.span, subject.limits.bands)
    members = members_in_order(subject.stays)
    summary = (
        f"{counted(len(lanes), 'partition')} and {counted(len(members), 'member')} from "
        f"{clock_range(subject.span.since, subject.span.until)}. The table has each owner."
    )
    return charts.owners_chart(found, charts.styles_of(members), summary)


def _rate_chart(subject: _Subject) -> charts.ValueChart:
    rates = subject.activity.rate()
    for shade in subject.unknown:
        rates = _without(rates, subject.activity.width, shade, subject.span)
    largest = short_number(float(max(rates, default=0.0))) if len(rates) else "0"
    return charts.value_chart(
        "rate",
        "Records committed per second",
        "records/s",
        [("area", "records committed per second", rates)],
        f"At most {largest} records per second, in steps of {duration(subject.activity.width)}.",
    )


def _without(rates: Any, width: int, unknown: Unknown, span: Span) -> Any:
    """nan in place of 0 where records are missing."""
    first = (unknown.since - span.since) // width
    last = -(-(unknown.until - span.since) // width)
    kept = rates.copy()
    part = kept[first:last]
    part[part == 0] = float("nan")
    return kept


def _lag_charts(lag: LagSeries) -> list[charts.ValueChart]:
    total = 0 if not lag.last else sum(lag.last.values())
    found = [
        charts.value_chart(
            "lag",
            "Lag",
            "records",
            [("main", "all partitions", lag.total), ("second", "largest partition", lag.largest)],
            f"{counted(total, 'record')} at the end.",
        )
    ]
    if lag.has_times:
        behind = lag_of(lag)
        found.append(
            charts.value_chart(
                "behind",
                "Time behind the end of the log",
                "ms",
                [("main", "partition that is behind most", lag.largest_ms)],
                f"{duration(behind)} at the end.",
            )
        )
    return found


def _rebalances(subject: _Subject) -> tuple[charts.RebalanceChart | None, Table]:
    history, span = subject.history, subject.span
    of_generations = {key_of(row): row for row in history.rebalances}
    stems: list[tuple[float, int | None, Mark, str]] = []
    rows: list[tuple[str, ...]] = []
    for generation in history.generations:
        rebalance = of_generations.get(key_of(generation))
        why = cause_text(
            generation, rebalance, lambda member: subject.names.get(member, shown(member))
        )
        time = generation["time"]
        when = "-" if time is None else plain_clock(milliseconds(time), span.length)
        stood = None if rebalance is None else rebalance["standstill_ms"]
        rows.append((
            when, f"{generation['type']} {generation['generation']}", why, _took(rebalance),
            duration(stood),
        ))  # fmt: skip
        if rebalance is not None and time is not None:
            text = f"{when} UTC, generation {generation['generation']}: {why}"
            position = span.position(milliseconds(time))
            stems.append((position, stood, mark_of(rebalance), text))
    table = Table(
        "Generations and why they began",
        ("Time (UTC)", "Generation", "Why", "Took", "Standstill"),
        rows[-subject.limits.rows :],
        max(len(rows) - subject.limits.rows, 0),
        "earlier",
    )
    return _rebalance_chart(subject, stems), table


def _took(rebalance: Any) -> str:
    if rebalance is None:
        return "-"
    took = rebalance["sync_ms"] if rebalance["sync_ms"] is not None else rebalance["converge_ms"]
    return duration(took)


def _rebalance_chart(
    subject: _Subject, stems: list[tuple[float, int | None, Mark, str]]
) -> charts.RebalanceChart | None:
    if not stems:
        return None
    most = subject.limits.rebalances
    longest = sorted(stems, key=lambda stem: -(stem[1] or 0))[:most]
    known = [stood for _, stood, _, _ in stems if stood is not None]
    stood = f"the longest standstill was {duration(max(known))}" if known else "no standstill known"
    summary = f"{counted(len(stems), 'rebalance')}; {stood}."
    drawn = sorted(longest, key=lambda stem: stem[0])
    return charts.rebalance_chart(drawn, len(stems) - len(longest), summary)
