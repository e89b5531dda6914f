"""Who was a member and owned what, as a sequence of periods without changes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, zip_longest
from operator import itemgetter
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Period:
    """A time in which neither members nor owners changed."""

    since: datetime
    until: datetime
    log_partition: int
    offset: int
    """Of the record at its beginning."""
    members: Mapping[str, Row]
    owners: Mapping[tuple[str, int], str]
    """(topic, partition) → member id."""

    @property
    def seconds(self) -> float:
        return (self.until - self.since).total_seconds()

    def counts(self) -> dict[str, int]:
        """Member id → number of partitions that it owns."""
        counts = dict.fromkeys(self.members, 0)
        for member_id in self.owners.values():
            if member_id in counts:
                counts[member_id] += 1
        return counts


@dataclass(frozen=True, slots=True)
class Change:
    """What begins and ends at one record of the log."""

    log_partition: int
    offset: int
    time: datetime
    departed: Sequence[Row]
    """Rows of members that end here, and `released` of assignments."""
    released: Sequence[Row]
    joined: Sequence[Row]
    assigned: Sequence[Row]


def changes_of(members: Iterable[Row], assignments: Iterable[Row]) -> list[Change]:
    """The changes of a group, in the order of the log."""
    found: dict[tuple[int, int], tuple[list[Row], ...]] = defaultdict(lambda: ([], [], [], []))
    for departed, joined, rows in ((0, 2, members), (1, 3, assignments)):
        for row in rows:
            number = row["log_partition"]
            found[number, row["from_offset"]][joined].append(row)
            if row["to_offset"] is not None:
                found[number, row["to_offset"]][departed].append(row)
    return [
        Change(*place, _time(rows), *rows)
        for place, rows in sorted(found.items(), key=itemgetter(0))
    ]


def _time(rows: Sequence[Sequence[Row]]) -> datetime:
    """Record time of a change."""
    departed, released, joined, assigned = rows
    for row in chain(joined, assigned):
        begin: datetime = row["from"]
        return begin
    end: datetime = next(chain(departed, released))["to"]
    return end


def periods(changes: Sequence[Change], at: datetime, least_s: float) -> Iterator[Period]:
    """The periods of at least `least_s` seconds up to `at`, in order."""
    present: dict[str, Row] = {}
    owners: dict[tuple[str, int], str] = {}
    for change, following in zip_longest(changes, changes[1:]):
        for row in change.departed:
            present.pop(row["member_id"], None)
        for row in change.released:
            if owners.get((row["topic"], row["partition"])) == row["member_id"]:
                del owners[row["topic"], row["partition"]]
        for row in change.joined:
            present[row["member_id"]] = row
        for row in change.assigned:
            owners[row["topic"], row["partition"]] = row["member_id"]
        until = at if following is None else following.time
        if (until - change.time).total_seconds() >= least_s:
            yield Period(
                change.time, until, change.log_partition, change.offset, dict(present), dict(owners)
            )
