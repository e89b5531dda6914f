"""Who processed what, and how often: from the members' own reports.

A member may die between processing a batch and committing it. Its successor then starts at the last
commit and processes those records again; batches begin and end where commits are, so what counts
twice can be told exactly. A member whose session expired while its process stood still may go on
with a batch or two until it notices: it and its successor process the same records.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Counts: TypeAlias = tuple[int, int, int]
"""Flights, flights that left, minutes of delay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkReport:
    """One batch that a member processed: offsets `first` to `next` - 1."""

    member: str
    partition: int
    first: int
    next: int
    at: float
    carriers: Mapping[str, Counts] = field(default_factory=dict)

    @property
    def records(self) -> int:
        return self.next - self.first

    @classmethod
    def told(cls, member: str, line: Mapping[str, Any]) -> "WorkReport":
        """From one line of a member's output."""
        carriers = {
            carrier: (int(n), int(left), int(minutes))
            for carrier, (n, left, minutes) in line["carriers"].items()
        }
        return cls(
            member=member,
            partition=line["partition"],
            first=line["first"],
            next=line["next"],
            at=line["at"],
            carriers=carriers,
        )


@dataclass(frozen=True, slots=True)
class WorkTally:
    """What all reports come to."""

    processed: Mapping[str, int]
    """Member → records, those included that were processed again by someone."""
    again: Mapping[str, int]
    """Member → records that it had processed and somebody else had to process again."""
    reached: Mapping[int, int]
    """Partition → all below this offset was processed."""
    skipped: tuple[str, ...]
    """Sentences about records that nobody processed, which must not happen."""
    carriers: Mapping[str, Counts]
    """Each record once."""

    @property
    def duplicates(self) -> int:
        return sum(self.again.values())

    @property
    def records(self) -> int:
        """Records processed at least once."""
        return sum(self.reached.values())


def tally(reports: Iterable[WorkReport]) -> WorkTally:
    batches: dict[int, list[WorkReport]] = {}
    for report in reports:
        batches.setdefault(report.partition, []).append(report)
    covering = {partition: _covering(found) for partition, found in sorted(batches.items())}
    reached = {partition: kept[-1].next if kept else 0 for partition, kept in covering.items()}
    once = [report for kept in covering.values() for report in kept]
    processed = _records(report for found in batches.values() for report in found)
    first_time = _records(once)
    again = {
        member: records - first_time.get(member, 0)
        for member, records in processed.items()
        if records != first_time.get(member, 0)
    }
    skipped = [_gap(found, reached[partition]) for partition, found in sorted(batches.items())]
    told = tuple(sentence for sentence in skipped if sentence is not None)
    return WorkTally(processed, again, reached, told, _added_up(once))


def _covering(batches: Iterable[WorkReport]) -> list[WorkReport]:
    """The batches that lead from a partition's start as far as they do, each record in one.

    Of batches that end at one offset it is the last.
    """
    ending: dict[int, WorkReport] = {}
    for report in sorted(batches, key=lambda report: (report.first, report.at)):
        if report.first == 0 or report.first in ending:
            before = ending.setdefault(report.next, report)
            ending[report.next] = max(before, report, key=lambda each: each.at)
    kept, at = [], max(ending, default=0)
    while at:
        kept.append(ending[at])
        at = ending[at].first
    return kept[::-1]


def _records(reports: Iterable[WorkReport]) -> dict[str, int]:
    """By member."""
    total: dict[str, int] = {}
    for report in reports:
        total[report.member] = total.get(report.member, 0) + report.records
    return total


def _gap(batches: Iterable[WorkReport], reached: int) -> str | None:
    """Who left out what, if all before some batch was not processed."""
    report = min(
        (each for each in batches if each.first > reached),
        key=lambda each: (each.first, each.at),
        default=None,
    )
    if report is None:
        return None
    where = f"partition {report.partition}: {report.member} went on at offset {report.first:,}"
    return f"{where}, {reached:,} was reached"


def _added_up(reports: Iterable[WorkReport]) -> dict[str, Counts]:
    total: dict[str, Counts] = {}
    for report in reports:
        for carrier, counts in report.carriers.items():
            flights, left, minutes = total.get(carrier, (0, 0, 0))
            total[carrier] = (flights + counts[0], left + counts[1], minutes + counts[2])
    return total
