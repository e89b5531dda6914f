"""Rules about assignments: who owns too much, too little, or nothing."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.findings.facts import Facts, Row
from kohort.findings.finding import Finding, Position
from kohort.findings.timeline import Period, periods
from kohort.findings.wording import count, names, partitions, span
from kohort.history.numbering import distinct, integers, names_in, places_of

_OWNING: Final = "consumer"
"""Type of the groups, and protocol type of the classic ones, whose partitions are in the log."""


def hot_partition(facts: Facts) -> Iterator[Finding]:
    """Partitions with far more records than the others of their topic."""
    limits = facts.thresholds
    since = facts.at - timedelta(seconds=limits.hot_window_s)
    if not facts.is_known_since(since):
        return
    for topic, records in _records(facts, since).items():
        total, usual = sum(records.values()), median(records.values())
        if len(records) < limits.hot_partitions or total < limits.hot_records:
            continue
        for number, amount in sorted(records.items()):
            if amount >= limits.hot_ratio * usual and amount >= limits.hot_share * total:
                yield facts.finding(
                    "hot-partition", f"{topic}-{number}", since, facts.at,
                    f"{topic}-{number} had {amount:,} of {total:,} records of {topic} in "
                    f"{span(facts.at - since)}; the median of its {len(records)} partitions is "
                    f"{usual:,.0f}",
                    _last_commits(facts, topic, number),
                )  # fmt: skip


def _records(facts: Facts, since: datetime) -> Mapping[str, dict[int, int]]:
    """Topic → partition → records that the group has read since; 0 of those that it only owns."""
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for row in facts.history.assignments:
        if row["to"] is None:
            found[row["topic"]][row["partition"]] = 0
    minutes = facts.history.minutes
    recent = minutes.filter(pc.greater_equal(minutes["minute"], since))
    topic_names = names_in(recent["topic"])
    (topics, numbers), places = distinct(
        places_of(recent["topic"], topic_names), integers(recent["partition"])
    )
    sums = np.zeros(len(topics), np.int64)
    np.add.at(sums, places, pc.fill_null(recent["sum_advance"], 0).to_numpy())
    of_rows = topic_names.take(pa.array(topics)).to_pylist()
    for topic, number, records in zip(of_rows, numbers.tolist(), sums.tolist(), strict=True):
        found[topic][number] = max(records, 0)
    return found


def _last_commits(facts: Facts, topic: str, partition: int) -> list[Position]:
    series = facts.series.get((topic, partition))
    return [] if series is None or not len(series) else [series.position(len(series) - 1)]


# --- how partitions are shared


def uneven_assignment(facts: Facts) -> Iterator[Finding]:
    """Members that own far more than others with the same topics."""
    limits = facts.thresholds
    for period, alike in _settled(facts):
        counts = period.counts()
        owned = {member_id: counts[member_id] for member_id in alike}
        least, most = min(owned.values()), max(owned.values())
        if not least or most <= limits.uneven_ratio * least:
            continue
        # In the order of their names, so that the same members are the same subject.
        busiest = min((each for each in alike if owned[each] == most), key=facts.label)
        idlest = min((each for each in alike if owned[each] == least), key=facts.label)
        yield facts.finding(
            "uneven-assignment", facts.label(busiest), period.since, period.until,
            f"{facts.label(busiest)} owned {count(most, 'partition')} and {facts.label(idlest)} "
            f"{least} for {span(period.seconds)}, of {count(len(alike), 'member')} with the same "
            "topics",
            [Position(period.log_partition, period.offset)],
        )  # fmt: skip


def idle_member(facts: Facts) -> Iterator[Finding]:
    """Members that own nothing."""
    for period, alike in _settled(facts):
        counts = period.counts()
        idle = [member_id for member_id in alike if not counts[member_id]]
        if not idle or len(idle) == len(alike):
            continue
        total = sum(counts[member_id] for member_id in alike)
        labels = sorted(map(facts.label, idle))
        yield facts.finding(
            "idle-member", labels[0] if len(labels) == 1 else "", period.since, period.until,
            f"{names(labels)} owned no partition for {span(period.seconds)}; "
            f"{count(len(alike), 'member')} with the same topics had "
            f"{count(total, 'partition')}",
            [Position(period.log_partition, period.offset)],
        )  # fmt: skip


def _settled(facts: Facts) -> Iterator[tuple[Period, Sequence[str]]]:
    """Periods long enough, each with members of the same subscription, two or more."""
    for period in _known_periods(facts, facts.thresholds.uneven_s):
        alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for member_id, row in period.members.items():
            alike[tuple(row["topics"] or ())].append(member_id)
        for topics, members in sorted(alike.items()):
            if topics and len(members) > 1:
                yield period, members


def _known_periods(facts: Facts, least_s: float) -> Iterator[Period]:
    """Periods in which the log says all of who owned what, and somebody owned something."""
    for period in periods(facts.changes, facts.at, least_s):
        generation = facts.generation_at(period.log_partition, period.offset)
        if (
            generation is not None
            and generation["complete"]
            and _owns(generation)
            and period.owners
        ):
            yield period


def _owns(generation: Row) -> bool:
    kind = generation["type"]
    return bool(kind == _OWNING or (kind == "classic" and generation["protocol_type"] == _OWNING))


def unassigned(facts: Facts) -> Iterator[Finding]:
    """Partitions of subscribed topics that nobody owns."""
    owned: dict[str, set[int]] = defaultdict(set)
    """Topic → partitions that had an owner before."""
    for period in _known_periods(facts, facts.thresholds.unassigned_s):
        now: dict[str, set[int]] = defaultdict(set)
        for topic, number in period.owners:
            now[topic].add(number)
        for topic in sorted(now):
            known = owned[topic] | facts.sampled_partitions.get(topic, set())
            missing = known - now[topic]
            if missing and _is_subscribed(topic, period.members.values()):
                yield facts.finding(
                    "unassigned", topic, period.since, period.until,
                    f"{topic} {partitions(missing)} had no owner for {span(period.seconds)}, while "
                    f"{count(len(now[topic]), 'other partition')} of it had one",
                    [Position(period.log_partition, period.offset)],
                )  # fmt: skip
            owned[topic] |= now[topic]


def _is_subscribed(topic: str, members: Iterable[Row]) -> bool:
    return any(topic in (row["topics"] or ()) for row in members)


def split_group(facts: Facts) -> Iterator[Finding]:
    """Groups of which a part is in another log partition."""
    numbers = sorted({row["log_partition"] for row in facts.history.generations})
    committed = facts.commits["log_partition"].unique().to_pylist()
    numbers = sorted({*numbers, *committed})
    if len(numbers) > 1:
        firsts = [Position(number, _first_offset(facts, number)) for number in numbers]
        times = [_first_time(facts, number) for number in numbers]
        yield facts.finding(
            "split-group", "", max(times), facts.at,
            f"the group has records in {partitions(numbers)} of __consumer_offsets",
            firsts,
        )  # fmt: skip


def _rows(facts: Facts, number: int) -> list[tuple[int, datetime]]:
    """(offset, time) of the first generation and the first commit of a log partition."""
    found = [
        (row["log_offset"], row["time"])
        for row in facts.history.generations
        if row["log_partition"] == number
    ][:1]
    commits = facts.commits.filter(pc.equal(facts.commits["log_partition"], number)).slice(0, 1)
    return found + [(row["log_offset"], row["in_force_time"]) for row in commits.to_pylist()]


def _first_offset(facts: Facts, number: int) -> int:
    return min(offset for offset, _ in _rows(facts, number))


def _first_time(facts: Facts, number: int) -> datetime:
    return min(time for _, time in _rows(facts, number))


ASSIGNMENT_RULES: Final = (
    hot_partition,
    uneven_assignment,
    idle_member,
    unassigned,
    split_group,
)
