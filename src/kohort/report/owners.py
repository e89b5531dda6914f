"""Who owned what: bands of members over time, a lane for each partition.

Lanes are those of the worst partitions. Bands that would be narrower than the resolution are
counted, and drawn as one of many owners: the resolution falls until there are few enough bands.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kohort.report.names import shown
from kohort.report.spans import Span, milliseconds

RESOLUTIONS: Final = (2_000, 1_000, 500, 250, 120, 60, 25)
"""Narrowest bands, as parts of the width. The last one keeps 40 lanes under 1,000 bands."""
OFTEN: Final = "owners changed too often to be drawn"
LABELLED: Final = 0.06
"""Share of the width from which on a band has the name of its owner."""

Row = Mapping[str, Any]


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Stay:
    """A member owned a partition, in ms; `until` is None if it still does."""

    partition: TopicPartition
    member: str
    since: int
    until: int | None
    generation: int | None


@dataclass(frozen=True, slots=True)
class Band:
    """A stay in a chart: shares of the width, and the number of its lane."""

    member: str
    lane: int
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Bands:
    lanes: Sequence[TopicPartition]
    """The partitions that are drawn, by topic and number."""
    more_partitions: int
    bands: Sequence[Band]
    """By lane and time."""
    often: Sequence[Band]
    """Where stays are too short to be drawn."""
    too_narrow: int
    """How many they are."""


def stays(assignments: Iterable[Row], name: Mapping[str, str], span: Span) -> list[Stay]:
    """The stays in the span, by partition and time."""
    found = []
    for row in assignments:
        since = span.since if row["from"] is None else milliseconds(row["from"])
        until = None if row["to"] is None else milliseconds(row["to"])
        if since < span.until and (until is None or until > span.since):
            partition = TopicPartition(row["topic"], row["partition"])
            member = name.get(row["member_id"]) or shown(row["member_id"])
            found.append(Stay(partition, member, since, until, row["generation"]))
    return sorted(found, key=lambda stay: (stay.partition, stay.since))


def worst_partitions(
    partitions: Iterable[TopicPartition],
    all_stays: Sequence[Stay],
    lag: Mapping[TopicPartition, int],
    most: int,
) -> list[TopicPartition]:
    """The partitions with the most lag, then those that changed owners most, by name."""
    changes = Counter(stay.partition for stay in all_stays)
    ranked = sorted(
        set(partitions) | set(changes),
        key=lambda partition: (-lag.get(partition, 0), -changes[partition], partition),
    )
    return sorted(ranked[:most])


def bands(
    all_stays: Sequence[Stay], lanes: Sequence[TopicPartition], total: int, span: Span, most: int
) -> Bands:
    """The bands of these lanes, at most so many; `total` is the number of all partitions."""
    numbers = {partition: number for number, partition in enumerate(lanes)}
    of_lanes = [
        Band(
            stay.member,
            numbers[stay.partition],
            span.position(stay.since),
            span.position(span.until if stay.until is None else stay.until),
        )
        for stay in all_stays
        if stay.partition in numbers
    ]
    for resolution in RESOLUTIONS:
        drawn, often = _drawn(of_lanes, resolution)
        if len(drawn) + len(often) <= most:
            break
    return Bands(lanes, total - len(lanes), drawn, often, len(of_lanes) - len(drawn))


def _drawn(of_lanes: Sequence[Band], resolution: int) -> tuple[list[Band], list[Band]]:
    """The bands that are wide enough, and where only others are."""
    drawn: list[Band] = []
    covered: dict[int, set[int]] = defaultdict(set)
    narrow: dict[int, set[int]] = defaultdict(set)
    for band in of_lanes:
        begin, end = round(band.begin * resolution), round(band.end * resolution)
        if begin < end:
            drawn.append(Band(band.member, band.lane, begin / resolution, end / resolution))
            covered[band.lane].update(range(begin, end))
        else:
            narrow[band.lane].add(min(begin, resolution - 1))
    often = [
        Band(OFTEN, lane, begin / resolution, end / resolution)
        for lane, cells in sorted(narrow.items())
        for begin, end in _runs(cells - covered[lane])
    ]
    return drawn, often


def _runs(cells: Iterable[int]) -> list[tuple[int, int]]:
    """Consecutive numbers as a first one, and one after the last."""
    found: list[tuple[int, int]] = []
    for cell in sorted(cells):
        if found and found[-1][1] == cell:
            found[-1] = (found[-1][0], cell + 1)
        else:
            found.append((cell, cell + 1))
    return found


def members_in_order(all_stays: Iterable[Stay]) -> list[str]:
    """Members that owned a partition, in order of the first one."""
    ordered = sorted(all_stays, key=lambda stay: stay.since)
    return list(dict.fromkeys(stay.member for stay in ordered))
