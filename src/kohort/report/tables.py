"""The tables of a group's section: each chart has one with the same content."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any, Final

import numpy as np

from kohort.report.names import short_number, shown
from kohort.report.owners import Stay
from kohort.report.series import Activity, Floats, LagSeries
from kohort.report.spans import MINUTE, Span, duration, milliseconds, plain_clock

VALUE_ROWS: Final = 48
"""Rows of the table of numbers over time."""
STILL: Final = "still there"


@dataclass(frozen=True, slots=True)
class Table:
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    hidden: int = 0
    """Rows that are left out."""
    which: str = "more"
    """Which rows these are: more or earlier."""


def owners_table(stays: Sequence[Stay], span: Span, most: int) -> Table:
    latest = sorted(stays, key=lambda stay: -stay.since)[:most]
    rows = [
        (
            f"{shown(stay.partition.topic)} {stay.partition.partition}",
            stay.member,
            plain_clock(stay.since, span.length),
            STILL if stay.until is None else plain_clock(stay.until, span.length),
            "-" if stay.until is None else duration(stay.until - stay.since),
            "-" if stay.generation is None else f"{stay.generation}",
        )
        for stay in sorted(latest, key=lambda stay: (stay.partition, stay.since))
    ]
    columns = ("Partition", "Owner", "From (UTC)", "To (UTC)", "Owned for", "Generation")
    return Table("Owners of partitions", columns, rows, len(stays) - len(rows), "earlier")


def members_table(
    members: Iterable[Mapping[str, Any]], names: Mapping[str, str], span: Span, most: int
) -> Table:
    every = list(members)
    rows = [
        (
            names[row["member_id"]],
            shown(row["member_id"]),
            shown(row["client_id"] or ""),
            shown((row["client_host"] or "").lstrip("/")),
            "before"
            if row["from"] is None
            else plain_clock(milliseconds(row["from"]), span.length),
            STILL if row["to"] is None else plain_clock(milliseconds(row["to"]), span.length),
            "-" if row["ended_by"] is None else row["ended_by"],
        )
        for row in every[-most:]
    ]
    columns = ("Member", "Member id", "Client id", "Host", "From (UTC)", "To (UTC)", "Ended by")
    return Table("Members", columns, rows, len(every) - len(rows), "earlier")


def values_table(activity: Activity, lag: LagSeries | None, span: Span) -> Table:
    """At most `VALUE_ROWS` rows: means of rates, and the largest lag of each."""
    count = len(activity.records)
    step = -(-count // VALUE_ROWS)
    starts = np.arange(0, count, step)
    seconds = step * activity.width / 1_000
    columns = ["From (UTC)", "Records per second", "Commits per minute"]
    cells = [
        [plain_clock(span.since + int(start) * activity.width, span.length) for start in starts],
        [short_number(total / seconds) for total in np.add.reduceat(activity.records, starts)],
        [
            short_number(total / seconds * (MINUTE / 1_000))
            for total in np.add.reduceat(activity.commits, starts)
        ],
    ]
    if lag is not None:
        columns += ["Lag in records"]
        cells.append(_largest(lag.total, lag.width, starts * activity.width, short_number))
        if lag.has_times:
            columns += ["Behind"]
            cells.append(
                _largest(lag.largest_ms, lag.width, starts * activity.width,
                         lambda value: duration(round(value)))
            )  # fmt: skip
    return Table("Commits and lag over time", columns, list(zip(*cells, strict=True)))


def _largest(values: Floats, width: int, starts: Any, text: Any) -> list[str]:
    edges = [min(int(start) // width, len(values) - 1) for start in starts] + [len(values)]
    found = []
    for begin, end in pairwise(edges):
        known = [value for value in values[begin : max(end, begin + 1)] if isfinite(value)]
        found.append(text(float(max(known))) if known else "not known")
    return found


def lag_of(lag: LagSeries) -> int | None:
    """The last known time behind, in ms."""
    known = lag.largest_ms[np.isfinite(lag.largest_ms)]
    return int(known[-1]) if len(known) else None
