"""The charts of a group as numbers: shares of the width, and pixels of the height.

Widths are shares, so one chart fits every screen, and a picture. Templates draw what is here, and
decide nothing. All charts of a group have one time axis, and the same marks: a line at each
rebalance, and a shade where the history does not know what happened.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import Final

from kohort.report.causes import MARKS, Mark
from kohort.report.certainty import Unknown
from kohort.report.names import counted, short_number, shown
from kohort.report.owners import LABELLED, Band, Bands
from kohort.report.series import Floats
from kohort.report.spans import Span, Tick, duration

LANE, LANE_GAP, HEADING, TOP = 15, 3, 19, 4
"""Heights in pixels: of a lane, between lanes, of a line with a topic's name, above everything."""
VALUES_HEIGHT: Final = 88
REBALANCES_HEIGHT: Final = 72
STYLES: Final = 24
"""Colours and patterns of members; the next ones begin again."""
MOST_MARKS: Final = 200
_MOST_LABELS: Final = 160
_PATH_WIDTH: Final = 1_000
_SECONDS: Final = (100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 360_000_000)
"""Lines of the axis of standstills, which is logarithmic, in ms."""


@dataclass(frozen=True, slots=True)
class Shade:
    begin: float
    width: float
    why: str


@dataclass(frozen=True, slots=True)
class Axis:
    """What all charts of a group have in common."""

    since: int
    until: int
    ticks: Sequence[Tick]
    marks: Sequence[float]
    shades: Sequence[Shade]


@dataclass(frozen=True, slots=True)
class Owner:
    """All bands of a member."""

    style: int
    name: str
    rectangles: Sequence[tuple[float, float, int]]
    """Left edge, width, top."""


@dataclass(frozen=True, slots=True)
class Label:
    """The name of an owner in a band."""

    left: float
    width: float
    top: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnersChart:
    height: int
    summary: str
    headings: Sequence[tuple[int, str]]
    """Top of the line, and the topic."""
    lanes: Sequence[tuple[int, int, str]]
    """Top, partition, and its whole name."""
    owners: Sequence[Owner]
    often: Sequence[tuple[float, float, int]]
    """The same of `Bands.often`."""
    labels: Sequence[Label]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Line:
    kind: str
    """main, area or second."""
    name: str
    path: str
    """Of an SVG that is 1,000 wide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueChart:
    key: str
    title: str
    summary: str
    height: int
    top: float
    """The value at the upper edge; the lower one is 0."""
    unit: str
    """records, records/s or ms."""
    grid: Sequence[tuple[float, str]]
    """Distance from the upper edge, and the value there."""
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Stem:
    """A rebalance: how long partitions stood still, and why."""

    position: float
    top: float
    """Of the symbol; near the lower edge if the standstill is not known."""
    mark: Mark
    text: str
    is_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceChart:
    height: int
    summary: str
    grid: Sequence[tuple[float, str]]
    stems: Sequence[Stem]
    legend: Sequence[Mark]
    notes: Sequence[str]


def axis(span: Span, rebalances: Iterable[int], unknown: Iterable[Unknown]) -> Axis:
    """`rebalances` are their times."""
    marks = {round(span.position(time) * 1_000) for time in rebalances}
    shades = [
        Shade(begin, span.position(one.until) - begin, one.why)
        for one in unknown
        if (begin := span.position(one.since)) < span.position(one.until)
    ]
    shown_marks = [mark / 1_000 for mark in sorted(marks)] if len(marks) <= MOST_MARKS else []
    return Axis(span.since, span.until, span.ticks(), shown_marks, shades)


def styles_of(members: Iterable[str]) -> dict[str, int]:
    """Member → its colour and pattern."""
    return {member: number % STYLES for number, member in enumerate(members)}


def owners_chart(found: Bands, styles: Mapping[str, int], summary: str) -> OwnersChart:
    tops, headings, height = _lanes(found)
    by_member: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for band in found.bands:
        by_member[band.member].append((band.begin, band.end - band.begin, tops[band.lane]))
    return OwnersChart(
        height=height,
        summary=summary,
        headings=headings,
        lanes=[
            (top, lane.partition, f"{shown(lane.topic)} {lane.partition}")
            for top, lane in zip(tops, found.lanes, strict=True)
        ],
        owners=[
            Owner(style, member, by_member[member])
            for member, style in styles.items()
            if member in by_member
        ],
        often=[(band.begin, band.end - band.begin, tops[band.lane]) for band in found.often],
        labels=_labels(found.bands, tops),
        notes=_notes(found),
    )


def _lanes(found: Bands) -> tuple[list[int], list[tuple[int, str]], int]:
    """The top of each lane, the lines with topics, and the height of all."""
    tops, headings, height = [], [], TOP
    topic = None
    for lane in found.lanes:
        if lane.topic != topic:
            topic = lane.topic
            headings.append((height, shown(topic)))
            height += HEADING
        tops.append(height)
        height += LANE + LANE_GAP
    return tops, headings, height + 1


def _labels(bands: Sequence[Band], tops: Sequence[int]) -> list[Label]:
    wide = [band for band in bands if band.end - band.begin >= LABELLED]
    wide.sort(key=lambda band: band.begin - band.end)
    return [
        Label(band.begin, band.end - band.begin, tops[band.lane], band.member)
        for band in wide[:_MOST_LABELS]
    ]


def _notes(found: Bands) -> list[str]:
    notes = []
    if found.more_partitions:
        count = counted(found.more_partitions, "more partition")
        notes.append(f"{count} not drawn: these have the most lag and changes of owner.")
    if found.too_narrow:
        count = counted(found.too_narrow, "change")
        notes.append(f"{count} of owners too short to be drawn at this width.")
    return notes


def value_chart(
    key: str, title: str, unit: str, lines: Sequence[tuple[str, str, Floats]], summary: str
) -> ValueChart:
    """`lines` are kind, name, and values at equal distances; nan: not known."""
    largest = max((float(v) for _, _, values in lines for v in values if isfinite(v)), default=0.0)
    top = _nice_duration(largest) if unit == "ms" else _nice(largest)
    text: Callable[[float], str] = (
        (lambda value: duration(round(value))) if unit == "ms" else short_number
    )
    return ValueChart(
        key=key,
        title=title,
        summary=summary,
        height=VALUES_HEIGHT,
        top=top,
        unit=unit,
        grid=[(0.0, text(top)), (VALUES_HEIGHT / 2, text(top / 2)), (VALUES_HEIGHT, "0")],
        lines=[Line(kind, name, _path(values, top, kind)) for kind, name, values in lines],
    )


def _path(values: Floats, top: float, kind: str) -> str:
    """A path with a piece for each run of known values; an area reaches down to 0."""
    pieces: list[list[str]] = [[]]
    runs: list[tuple[int, int]] = []
    step = _PATH_WIDTH / len(values)
    for index, value in enumerate(values):
        if not isfinite(value):
            pieces.append([])
            continue
        left, right = round(index * step), round((index + 1) * step)
        height = round(VALUES_HEIGHT * (1 - float(value) / top), 1)
        if not pieces[-1]:
            runs.append((left, right))
        runs[-1] = (runs[-1][0], right)
        pieces[-1] += (f"{left} {height:g}", f"{right} {height:g}")
    drawn = [_thinned(piece) for piece in pieces if piece]
    if kind != "area":
        return "".join(f"M{'L'.join(piece)}" for piece in drawn)
    return "".join(
        f"M{left} {VALUES_HEIGHT}L{'L'.join(piece)}L{right} {VALUES_HEIGHT}Z"
        for piece, (left, right) in zip(drawn, runs, strict=True)
    )


def _thinned(points: Sequence[str]) -> list[str]:
    """Without the points between two at the same height."""
    heights = [point.partition(" ")[2] for point in points]
    last = len(points) - 1
    return [
        point
        for index, point in enumerate(points)
        if index in (0, last) or not heights[index - 1] == heights[index] == heights[index + 1]
    ]


def _nice(largest: float) -> float:
    """A round number that is at least as large."""
    if largest <= 0:
        return 1.0
    unit = 10.0 ** floor(log10(largest))
    return next(unit * step for step in (1, 2, 4, 6, 8, 10, 20) if largest <= unit * step * 1.0001)


def _nice_duration(largest: float) -> float:
    units = (1_000, 60_000, 3_600_000, 86_400_000)
    unit = max((unit for unit in units if unit <= largest), default=1_000)
    for step in (1, 2, 4, 6, 10, 20, 30, 60):
        if largest <= unit * step and (unit < units[-1] or step < 60):
            return float(unit * step)
    return float(unit * 2 * ceil(largest / unit / 2))


def rebalance_chart(
    rebalances: Sequence[tuple[float, int | None, Mark, str]], hidden: int, summary: str
) -> RebalanceChart:
    """`rebalances` are position, standstill in ms, mark, and text."""
    largest = max((stood or 0 for _, stood, _, _ in rebalances), default=0)
    highest = next((at for at, ms in enumerate(_SECONDS) if ms >= largest), len(_SECONDS) - 1)
    levels = _SECONDS[: max(highest, 1) + 1]
    used = {mark.kind for _, _, mark, _ in rebalances}
    notes = [f"{counted(hidden, 'shorter rebalance')} not drawn."] if hidden else []
    return RebalanceChart(
        height=REBALANCES_HEIGHT,
        summary=summary,
        grid=[(_height(ms, levels), duration(ms)) for ms in levels[-4:]],
        stems=[
            Stem(position, _height(stood, levels), mark, text, stood is not None)
            for position, stood, mark, text in rebalances
        ],
        legend=[mark for mark in MARKS if mark.kind in used],
        notes=notes,
    )


def _height(stood: int | None, levels: Sequence[int]) -> float:
    """Distance from the upper edge, by the logarithm; a line of 10 ms is the lower edge."""
    if stood is None:
        return float(REBALANCES_HEIGHT - 8)
    if stood <= 10:
        return float(REBALANCES_HEIGHT)
    share = (log10(stood) - 1) / (log10(levels[-1]) - 1)
    return round(REBALANCES_HEIGHT * (1 - min(share, 1.0)), 1)
