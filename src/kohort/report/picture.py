"""The report as one SVG: of a group with the charts of the page, of all groups as a list.

An SVG breaks no lines, so this lays out text by the width that its characters have on average.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any, Final

from markupsafe import Markup

from kohort.report.page import Page, environment
from kohort.report.style import picture_style
from kohort.report.view import GroupView

WIDTH, MARGIN, GUTTER = 1_200, 32, 44
PLOT: Final = WIDTH - 2 * MARGIN - GUTTER
MOST_ROWS: Final = 40
"""Groups of an overview."""
_FINDINGS: Final = 6
_FONTS: Final = "Inter, Noto Sans, DejaVu Sans, Liberation Sans, Helvetica, Arial, sans-serif"
_CHARACTER: Final = 7.1
"""Width of a character of 13 pixels, on average, in the widest of these fonts."""
_SIGNS: Final = "Empty: no owner. Dotted line: a rebalance. Hatched: not known."
_COLUMNS: Final = (0, 280, 476, 566, 656, 730, 830, 1_036)
"""Left edges of the columns of an overview."""
_TITLES: Final = (
    "Group", "Worst finding", "Standstill", "Rebalances", "Members", "Lag", "Last commit (UTC)",
    "Commits",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Text:
    kind: str
    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Box:
    kind: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Bars:
    x: float
    y: float
    path: str


@dataclass(frozen=True, slots=True)
class Drawing:
    kind: str
    y: float
    height: float
    chart: Any


@dataclass(slots=True)
class _Layout:
    """What is placed so far; `y` is where the next thing begins."""

    y: float = 52
    texts: list[Text] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    sparks: list[Bars] = field(default_factory=list)
    drawings: list[Drawing] = field(default_factory=list)

    def line(self, kind: str, text: str, x: float = 0, height: float = 20) -> None:
        self.texts.append(Text(kind, MARGIN + x, self.y, text))
        self.y += height

    def paragraph(self, kind: str, text: str, x: float = 0, indent: float = 0) -> None:
        most = int((WIDTH - 2 * MARGIN - x - indent) / _CHARACTER)
        for number, part in enumerate(wrap(text, most) or [""]):
            self.line(kind, part, x + (indent if number else 0), 18)

    def draw(self, kind: str, height: float, chart: Any) -> None:
        self.drawings.append(Drawing(kind, self.y, height, chart))
        self.y += height + 52


def picture(page: Page) -> str:
    """The SVG of a page: of its only group, or of the list of all."""
    layout = _Layout()
    layout.line("title", page.title, height=26)
    layout.paragraph("lead", page.summary)
    layout.line("soft", f"{page.period} · made {page.made} by Kohort {page.version}", height=30)
    if page.rows:
        _overview(layout, page)
        axis = None
    else:
        axis = page.groups[0].axis
        _group(layout, page.groups[0])
    return _rendered(layout, axis)


def _rendered(layout: _Layout, axis: Any) -> str:
    return (
        environment()
        .get_template("picture.svg")
        .render(
            width=WIDTH,
            height=round(layout.y + 8),
            margin=MARGIN,
            plot_width=PLOT,
            fonts=_FONTS,
            style=Markup(picture_style() + _STYLE),  # nosec B704  our own text
            x=lambda share: f"{share * PLOT:.6g}",
            axis=axis,
            texts=layout.texts,
            boxes=layout.boxes,
            sparks=layout.sparks,
            drawings=layout.drawings,
        )
    )


def _group(layout: _Layout, view: GroupView) -> None:
    _facts(layout, view)
    layout.paragraph("lead", " ".join(view.certainty))
    layout.y += 10
    for finding in view.findings[:_FINDINGS]:
        text = f"{finding.severity.upper()}  {finding.id}: {finding.text} ({finding.when})"
        layout.paragraph(finding.severity, text, indent=20)
    left = len(view.findings) - _FINDINGS + view.more_findings
    if left > 0:
        layout.line("soft", f"{left} more findings")
    layout.y += 16
    if view.owners is not None:
        layout.line("chart-title", "Owners of partitions", height=8)
        _legend(layout, ((owner.style, owner.name) for owner in view.owners.owners))
        layout.line("soft", _SIGNS, height=6)
        layout.draw("owners", view.owners.height, view.owners)
    if view.rebalances is not None:
        marks = ", ".join(f"{mark.symbol} {mark.text}" for mark in view.rebalances.legend)
        layout.line("chart-title", "Rebalances and their standstill", height=20)
        layout.line("soft", f"{view.rebalances.summary}  {marks}", height=10)
        layout.draw("rebalances", view.rebalances.height + 12, view.rebalances)
    for chart in view.values:
        names = " · ".join(
            f"{line.name}{' (dashed)' if line.kind == 'second' else ''}" for line in chart.lines
        )
        layout.line("chart-title", chart.title, height=20)
        layout.line("soft", f"{chart.summary}  {names if len(chart.lines) > 1 else ''}", height=10)
        layout.draw("values", chart.height + 8, chart)
    for reason in view.missing:
        layout.line("soft", reason)


def _facts(layout: _Layout, view: GroupView) -> None:
    width = (WIDTH - 2 * MARGIN) / max(len(view.facts), 1)
    top = layout.y
    for number, fact in enumerate(view.facts):
        layout.boxes.append(Box("panel", MARGIN + number * width, top - 14, width - 8, 62))
        for kind, text, below in (
            ("label", fact.name, 4),
            ("figure", _cut(fact.value, width - 24, 8.6), 24),
            ("label", _cut(fact.detail, width - 24, 6.2), 40),
        ):
            layout.texts.append(Text(kind, MARGIN + number * width + 8, top + below, text))
    layout.y = top + 76


def _cut(text: str, width: float, character: float) -> str:
    most = int(width / character)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _legend(layout: _Layout, members: Iterable[tuple[int, str]]) -> None:
    x = 0.0
    layout.y += 14
    for style, name in members:
        width = len(name) * _CHARACTER + 48
        if x and x + width > WIDTH - 2 * MARGIN:
            x, layout.y = 0.0, layout.y + 18
        layout.boxes.append(Box(f"m{style} swatch", MARGIN + x, layout.y - 10, 16, 11))
        layout.texts.append(Text("name", MARGIN + x + 22, layout.y, name))
        x += width
    layout.y += 20


def _overview(layout: _Layout, page: Page) -> None:
    layout.y += 6
    for left, title in zip(_COLUMNS, _TITLES, strict=True):
        layout.texts.append(Text("label", MARGIN + left, layout.y, title))
    layout.y += 8
    for row in page.rows[:MOST_ROWS]:
        layout.boxes.append(Box("rule", MARGIN, layout.y, WIDTH - 2 * MARGIN, 1))
        layout.y += 18
        badge = "" if row.severity == "none" else f"{row.severity}: "
        cells = (
            ("name", row.name), (row.severity, f"{badge}{row.finding}"), ("name", row.standstill),
            ("name", row.rebalances), ("name", row.members), ("name", row.lag),
            ("name", row.last_commit),
        )  # fmt: skip
        _cells(layout, cells)
        layout.sparks.append(Bars(MARGIN + _COLUMNS[-1], layout.y - 12, row.spark))
        layout.y += 8
    if len(page.rows) > MOST_ROWS:
        layout.y += 22
        layout.line("soft", f"{len(page.rows) - MOST_ROWS:,} more groups")


def _cells(layout: _Layout, cells: Sequence[tuple[str, str]]) -> None:
    for (kind, text), left, right in zip(cells, _COLUMNS, _COLUMNS[1:], strict=False):
        cut = _cut(text, right - left - 12, _CHARACTER)
        layout.texts.append(Text(kind, MARGIN + left, layout.y, cut))


_STYLE: Final = """
.paper{fill:#ffffff}.panel{fill:#f6f8fa;stroke:#d8dee4}.rule{fill:#d8dee4}.spark{fill:#0b5cad}
.swatch{stroke:#1d2329;stroke-opacity:.55}
.title{font-size:24px;font-weight:700;fill:#1d2329}
.lead,.name{font-size:13px;fill:#1d2329}.soft{font-size:12px;fill:#59636e}
.label{font-size:11px;fill:#59636e}.figure{font-size:15px;font-weight:600;fill:#1d2329}
.chart-title{font-size:14px;font-weight:600;fill:#1d2329}
.error,.warning,.info,.none{font-size:13px}
text.error{fill:#b3261e}text.warning{fill:#8a5300}text.info{fill:#0b5cad}text.none{fill:#2d6a3e}
"""
