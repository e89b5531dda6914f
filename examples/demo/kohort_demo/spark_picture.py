"""Delays over the day: bars for a terminal, and the same as an SVG picture."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

BAR: Final = 40
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 760, 320, 48, 48, 40


class Hour(NamedTuple):
    """Flights that were to leave in one hour of the day, in New York."""

    hour: int
    flights: int
    delay: float
    """Minutes at departure, on average."""


class Carrier(NamedTuple):
    """All flights of one."""

    name: str
    flights: int
    departed: int
    delay: float


def carriers_table(carriers: Sequence[Carrier]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1))
    table.add_column("carrier")
    for name in ("flights", "departed", "average delay"):
        table.add_column(name, justify="right")
    for each in carriers:
        table.add_row(each.name, f"{each.flights:,}", f"{each.departed:,}", f"{each.delay:.1f} min")
    return table


def bars(hours: Sequence[Hour]) -> Text:
    """One line for each hour of the day."""
    most = max((each.delay for each in hours), default=1.0)
    lines = Text()
    for each in hours:
        length = max(round(each.delay / most * BAR), 0)
        lines.append(f"{each.hour:>4}:00 ")
        lines.append("█" * length, "cyan")
        lines.append(f" {each.delay:.1f} min\n")
    return lines


def svg(hours: Sequence[Hour], title: str) -> str:
    """The picture; it names no fonts or scripts from elsewhere."""
    most = max((each.delay for each in hours), default=1.0)
    step = (_WIDTH - _LEFT - 16) / max(len(hours), 1)
    scale = (_HEIGHT - _TOP - _BOTTOM) / max(most, 1.0)
    floor = _HEIGHT - _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="28" font-size="16" fill="#222222">{title}</text>',
        *_grid(most, scale, floor),
    ]
    for index, each in enumerate(hours):
        height = max(each.delay, 0) * scale
        left = _LEFT + index * step
        parts.append(
            f'<rect x="{left + 2:.1f}" y="{floor - height:.1f}" width="{step - 4:.1f}" '
            f'height="{height:.1f}"'
            f' fill="#2a7f9e"><title>{each.hour}:00, {each.flights:,} flights, '
            f"{each.delay:.1f} min</title></rect>"
        )
        parts.append(
            f'<text x="{left + step / 2:.1f}" y="{floor + 18}" font-size="12" fill="#444444"'
            f' text-anchor="middle">{each.hour}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _grid(most: float, scale: float, floor: int) -> list[str]:
    parts = []
    for minutes in range(0, int(most) + 1, 5):
        at = floor - minutes * scale
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - 16}" y1="{at:.1f}" y2="{at:.1f}" stroke="#dddddd"/>'
        )
        parts.append(
            f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" font-size="12" fill="#444444" '
            f'text-anchor="end">{minutes}</text>'
        )
    return parts
