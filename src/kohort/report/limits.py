"""How much of a group is drawn: all of one group, less of each in a page of many.

A page of 1,000 groups has at most 6 MB and 20,000 points: the worst `DETAILED_GROUPS` of them have
charts, the others their findings and figures.
"""

from dataclasses import dataclass
from typing import Final

MOST_POINTS: Final = 20_000
"""Of `minutes`, in a page."""
DETAILED_GROUPS: Final = 24
MOST_PARTITIONS: Final = 40
"""Lanes of a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Largest numbers in the section of a group."""

    points: int
    """Of a line."""
    bands: int
    rebalances: int
    """Drawn in the chart."""
    rows: int
    """Of each table."""
    findings: int


WHOLE: Final = Limits(points=1_000, bands=8_000, rebalances=1_000, rows=500, findings=200)
"""Of a page of one group."""
ONE_OF_MANY: Final = Limits(points=400, bands=1_000, rebalances=150, rows=40, findings=20)
BRIEF: Final = Limits(points=0, bands=0, rebalances=0, rows=0, findings=3)


def sparkline_points(groups: int) -> int:
    """Bars of each group in the overview."""
    left = MOST_POINTS - min(groups, DETAILED_GROUPS) * ONE_OF_MANY.points
    return min(max(left // max(groups, 1), 1), 30)
