"""Who was a member and owned what, as a sequence of periods without changes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
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


def periods(
    members: list[Row], assignments: list[Row], at: datetime, least_s: float
) -> Iterator[Period]:
    """The periods of at least `least_s` seconds up to `at`, in order."""
    begins: dict[tuple[int, int], list[tuple[bool, Row]]] = defaultdict(list)
    ends: dict[tuple[int, int], list[tuple[bool, Row]]] = defaultdict(list)
    for is_member, rows in ((True, members), (False, assignments)):
        for row in rows:
            begins[row["log_partition"], row["from_offset"]].append((is_member, row))
            if row["to_offset"] is not None:
                ends[row["log_partition"], row["to_offset"]].append((is_member, row))
    places = sorted(begins.keys() | ends.keys())
    present: dict[str, Row] = {}
    owners: dict[tuple[str, int], str] = {}
    for place, following in zip_longest(places, places[1:]):
        for is_member, row in ends[place]:
            if is_member:
                present.pop(row["member_id"], None)
            elif owners.get((row["topic"], row["partition"])) == row["member_id"]:
                del owners[row["topic"], row["partition"]]
        for is_member, row in begins[place]:
            if is_member:
                present[row["member_id"]] = row
            else:
                owners[row["topic"], row["partition"]] = row["member_id"]
        since = _time(begins, ends, place)
        until = at if following is None else _time(begins, ends, following)
        if (until - since).total_seconds() >= least_s:
            yield Period(since, until, place[0], place[1], dict(present), dict(owners))


def _time(
    begins: Mapping[tuple[int, int], list[tuple[bool, Row]]],
    ends: Mapping[tuple[int, int], list[tuple[bool, Row]]],
    place: tuple[int, int],
) -> datetime:
    """Record time at a log position."""
    for _, row in begins.get(place, ()):
        time: datetime = row["from"]
        return time
    end: datetime = ends[place][0][1]["to"]
    return end
