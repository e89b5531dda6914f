"""Who processed what, and how often: from the members' own reports, in the order of the clock.

A member may die between processing a batch and committing it. Its successor then starts at the last
commit and processes those records again; batches begin and end where commits are, so what counts
twice can be told exactly.
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
    kept: dict[int, list[WorkReport]] = {}
    processed: dict[str, int] = {}
    again: dict[str, int] = {}
    skipped: list[str] = []
    for report in sorted(reports, key=lambda report: report.at):
        batches = kept.setdefault(report.partition, [])
        processed[report.member] = processed.get(report.member, 0) + report.records
        while batches and batches[-1].first >= report.first:
            repeated = batches.pop()
            again[repeated.member] = again.get(repeated.member, 0) + repeated.records
        reached = batches[-1].next if batches else 0
        if reached != report.first:
            skipped.append(_gap(report, reached))
        batches.append(report)
    remaining = [report for batches in kept.values() for report in batches]
    reached_now = {partition: batches[-1].next for partition, batches in sorted(kept.items())}
    return WorkTally(processed, again, reached_now, tuple(skipped), _added_up(remaining))


def _gap(report: WorkReport, reached: int) -> str:
    where = f"partition {report.partition}: {report.member} went on at offset {report.first:,}"
    return f"{where}, {reached:,} was reached"


def _added_up(reports: Iterable[WorkReport]) -> dict[str, Counts]:
    total: dict[str, Counts] = {}
    for report in reports:
        for carrier, counts in report.carriers.items():
            flights, left, minutes = total.get(carrier, (0, 0, 0))
            total[carrier] = (flights + counts[0], left + counts[1], minutes + counts[2])
    return total
