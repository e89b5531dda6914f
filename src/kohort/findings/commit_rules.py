"""Rules about commits: where they go, how often, and by whom."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.findings.commit_series import (
    ADVANCE,
    MEMBER,
    OUTSIDE,
    REPEAT,
    REWIND,
    SECOND_US,
    CommitSeries,
)
from kohort.findings.facts import Facts, Row, at_row, micros, time_of
from kohort.findings.finding import Finding, Position
from kohort.findings.wording import count, partitions, span
from kohort.history.numbering import distinct, names_in, places_of
from kohort.history.resets import find_resets
from kohort.history.rows import rows_of

_TOGETHER: Final = timedelta(seconds=10)
"""Rewinds of a topic's partitions that are one."""
_MIN_COMMITS: Final = 20
"""Of a partition in the last minutes, from which on its habits are known."""
_MIN_GAPS: Final = 3
"""Of commits that are rare."""


# --- offsets that go back


def rewind(facts: Facts) -> Iterator[Finding]:
    """Members that set their own offsets back."""
    found: dict[tuple[str, Any], list[tuple[CommitSeries, int]]] = defaultdict(list)
    zombies = {(name, index) for name, index, _ in facts.once(_zombies)}
    for series in facts.series.values():
        for at in series.rewinds.tolist():
            if (series.name, at) not in zombies and _stays_back(facts, series, at):
                found[series.topic, series.members[at]].append((series, at))
    for (topic, member_id), commits in sorted(found.items(), key=lambda item: str(item[0])):
        yield from _rewinds(facts, topic, member_id, commits)


def _stays_back(facts: Facts, series: CommitSeries, index: int) -> bool:
    """Whether the offset before the rewind is not reached again soon."""
    level, time_us = int(series.previous[index]), int(series.times[index])
    limit_us = int(facts.thresholds.rewind_s * SECOND_US)
    if micros(facts.at) - time_us < limit_us:
        return False
    later = series.committed[index + 1 : series.count_until(time_us + limit_us)]
    return not bool((later >= level).any())


def _rewinds(
    facts: Facts, topic: str, member_id: str | None, commits: list[tuple[CommitSeries, int]]
) -> Iterator[Finding]:
    """The rewinds of one member in a topic, those of one moment together."""
    ordered = sorted(commits, key=lambda each: int(each[0].times[each[1]]))
    groups: list[list[tuple[CommitSeries, int]]] = []
    last_us = None
    for series, index in ordered:
        time_us = int(series.times[index])
        if last_us is None or time_us - last_us > micros_of(_TOGETHER):
            groups.append([])
        groups[-1].append((series, index))
        last_us = time_us
    for some in groups:
        since = time_of(some[0][0].times[some[0][1]])
        until = time_of(some[-1][0].times[some[-1][1]])
        back = [int(series.previous[index] - series.committed[index]) for series, index in some]
        who = "a transaction" if member_id is None else facts.label(member_id)
        yield facts.finding(
            "rewind", topic, since, until,
            f"{who} set back {topic} {partitions(series.partition for series, _ in some)} by up "
            f"to {count(max(back), 'record')}",
            [series.position(index) for series, index in some],
        )  # fmt: skip


def micros_of(time: timedelta) -> int:
    return round(time.total_seconds() * SECOND_US)


def zombie_commit(facts: Facts) -> Iterator[Finding]:
    """Former owners that commit still."""
    for name, index, owner in facts.once(_zombies):
        series = facts.series[owner["topic"], owner["partition"]]
        time = time_of(series.times[index])
        yield facts.finding(
            "zombie-commit", name, time, time,
            f"{span(time - owner['from'])} after {name} moved to "
            f"{facts.label(owner['member_id'])}, its offset went back from "
            f"{int(series.previous[index]):,} to {int(series.committed[index]):,}",
            [at_row(owner, "from_offset"), series.position(index)],
        )  # fmt: skip


def _zombies(facts: Facts) -> list[tuple[str, int, Row]]:
    """(partition, index of the commit, its new owner) of commits below a new owner's."""
    limit = timedelta(seconds=facts.thresholds.zombie_commit_s)
    found = []
    former: dict[tuple[str, int], Row] = {}
    for row in facts.history.assignments:
        key = row["topic"], row["partition"]
        before, former[key] = former.get(key), row
        series = facts.series.get(key)
        if before is None or before["member_id"] == row["member_id"] or series is None:
            continue
        if not len(series.rewinds):
            continue
        start = int(np.searchsorted(series.times, micros(row["from"])))
        soon = series.count_until(micros(row["from"] + limit))
        first, end = np.searchsorted(series.rewinds, (start, soon))
        for index in series.rewinds[first:end].tolist():
            by_new = index > start or series.log_offsets[index] > row["from_offset"]
            if by_new and _is_new_owners(series, index, row):
                found.append((series.name, index, row))
    return found


def _is_new_owners(series: CommitSeries, index: int, owner: Row) -> bool:
    """Whether the commit before this one was made after the move."""
    return index > 0 and int(series.log_offsets[index - 1]) > owner["from_offset"]


def manual_reset(facts: Facts) -> Iterator[Finding]:
    """Offsets that a tool has set."""
    if not any(_is_moved_from_outside(series) for series in facts.series.values()):
        return
    for reset in find_resets(facts.commits):
        if reset.time is None:
            continue
        changes = [
            each.committed - each.previous for each in reset.partitions if each.previous is not None
        ]
        back = -min(changes, default=0)
        forward = max(changes, default=0)
        moves = [
            text
            for amount, text in (
                (back, f"back by up to {back:,}"),
                (forward, f"forward by up to {forward:,}"),
            )
            if amount > 0
        ]
        yield facts.finding(
            "manual-reset", reset.topic, reset.time, reset.time,
            f"{len(reset.partitions)} of {count(reset.known_partitions, 'partition')} of "
            f"{reset.topic} were set from outside: {' and '.join(moves) or 'to the same offsets'}",
            [Position(reset.log_partition, each.log_offset) for each in reset.partitions],
        )  # fmt: skip


def _is_moved_from_outside(series: CommitSeries) -> bool:
    is_move = (series.kinds == ADVANCE) | (series.kinds == REWIND)
    return bool((is_move & (series.origins == OUTSIDE)).any())


# --- habits


def auto_commit(facts: Facts) -> Iterator[Finding]:
    """Commits by a timer of the client."""
    limits = facts.thresholds
    found = []
    for series in facts.once(_recent):
        gaps = np.diff(series.times) / SECOND_US
        is_timed = (
            np.abs(gaps - limits.auto_commit_s)
            <= limits.auto_commit_s * limits.auto_commit_tolerance
        )
        if (
            len(gaps) + 1 >= _MIN_COMMITS
            and is_timed.mean() >= 0.9
            and (series.kinds == REPEAT).any()
        ):
            found.append(series)
    if found:
        commits = sum(map(len, found))
        repeats = sum(int((series.kinds == REPEAT).sum()) for series in found)
        yield _habit(
            facts, "auto-commit", "", found,
            f"{count(len(found), 'partition')} had a commit each {limits.auto_commit_s:g} s, and "
            f"{repeats:,} of {count(commits, 'commit')} repeated the offset",
        )  # fmt: skip


def too_often(facts: Facts) -> Iterator[Finding]:
    """Commits by record or by poll."""
    limits = facts.thresholds
    for topic, some in _by_topic(facts.once(_recent)).items():
        found = []
        for series in some:
            seconds = (series.times[-1] - series.times[0]) / SECOND_US
            is_often = seconds >= limits.often_s and (len(series) - 1) / seconds > limits.often_rate
            if is_often and np.median(series.advances) < limits.often_records:
                found.append(series)
        if found:
            rate = max(
                (len(each) - 1) * SECOND_US / (each.times[-1] - each.times[0]) for each in found
            )
            records = max(float(np.median(each.advances)) for each in found)
            yield _habit(
                facts, "too-often", topic, found,
                f"{topic} {partitions(each.partition for each in found)} had up to {rate:.1f} "
                f"commits per second, with {records:g} records each",
            )  # fmt: skip


def too_rarely(facts: Facts) -> Iterator[Finding]:
    """Commits after long times, with many records."""
    limits = facts.thresholds
    found: dict[str, list[CommitSeries]] = defaultdict(list)
    for series in facts.series.values():
        is_known = series.is_exact & (series.origins == MEMBER)
        chosen = is_known & (series.kinds == ADVANCE)
        between = int(np.count_nonzero(chosen)) - 1
        if between < _MIN_GAPS or not _may_be_rare(series, between, limits.rarely_s):
            continue
        gaps = np.diff(series.times[chosen]) / SECOND_US
        if (
            np.median(gaps) >= limits.rarely_s
            and np.median(series.advances[chosen]) >= limits.rarely_records
        ):
            found[series.topic].append(series.part(chosen))
    for topic, some in sorted(found.items()):
        gap = max(float(np.median(np.diff(each.times))) for each in some) / SECOND_US
        records = max(int(np.median(each.advances)) for each in some)
        yield _habit(
            facts, "too-rarely", topic, some,
            f"{topic} {partitions(each.partition for each in some)} had a commit each "
            f"{span(gap)}, with {count(records, 'record')} each",
        )  # fmt: skip


def _may_be_rare(series: CommitSeries, gaps: int, seconds: float) -> bool:
    """Whether the median of so many gaps can be as long: half of them are then."""
    return gaps * seconds * SECOND_US <= 2 * int(series.times[-1] - series.times[0])


def _recent(facts: Facts) -> list[CommitSeries]:
    """Commits of members in the last minutes, of partitions that have many."""
    since = micros(facts.at - timedelta(seconds=facts.thresholds.habit_window_s))
    found = []
    for series in facts.series.values():
        if len(series) - np.searchsorted(series.times, since) >= _MIN_COMMITS:
            recent = series.since(since)
            chosen = recent.part(recent.is_exact & (recent.origins == MEMBER))
            if len(chosen) >= _MIN_COMMITS:
                found.append(chosen)
    return found


def _by_topic(some: Sequence[CommitSeries]) -> Mapping[str, list[CommitSeries]]:
    found: dict[str, list[CommitSeries]] = defaultdict(list)
    for series in sorted(some, key=lambda each: (each.topic, each.partition)):
        found[series.topic].append(series)
    return found


def _habit(
    facts: Facts, id_: str, subject: str, some: Sequence[CommitSeries], sentence: str
) -> Finding:
    since = min(int(series.times[0]) for series in some)
    until = max(int(series.times[-1]) for series in some)
    evidence = [series.position(index) for series in some for index in (0, len(series) - 1)]
    return facts.finding(id_, subject, time_of(since), time_of(until), sentence, evidence)


# --- topics and transactions


def topic_recreated(facts: Facts) -> Iterator[Finding]:
    """Topics that were deleted and created again under their name."""
    columns = [
        "log_partition", "log_offset", "in_force_time", "topic", "partition", "topic_id", "kind",
    ]  # fmt: skip
    commits = facts.commits.select(columns)
    with_id = commits.filter(pc.is_valid(commits["topic_id"]))
    names, ids = names_in(with_id["topic"]), names_in(with_id["topic_id"])
    (topics, _), _ = distinct(
        places_of(with_id["topic"], names), places_of(with_id["topic_id"], ids)
    )
    is_changed = np.bincount(topics, minlength=len(names)) > 1
    for topic in names.filter(pa.array(is_changed)).to_pylist():
        yield from _recreated(facts, topic, commits.filter(pc.equal(commits["topic"], topic)))


def _recreated(facts: Facts, topic: str, commits: pa.Table) -> Iterator[Finding]:
    latest: dict[int, str] = {}
    """Partition → topic id of its last commit."""
    for row in rows_of(commits):
        if row["topic_id"] is not None:
            latest[row["partition"]] = row["topic_id"]
        elif row["kind"] == "tombstone":
            latest.pop(row["partition"], None)
    rows = rows_of(commits.filter(pc.is_valid(commits["topic_id"])))
    changes = [
        (former, row) for former, row in pairwise(rows) if row["topic_id"] != former["topic_id"]
    ]
    (former, first), last = changes[-1], rows[-1]
    stale = [number for number, topic_id in latest.items() if topic_id != last["topic_id"]]
    left = f"; the offset of {partitions(stale)} is that of the former one" if stale else ""
    yield facts.finding(
        "topic-recreated", topic, first["in_force_time"], last["in_force_time"],
        f"{topic} was created again with id {last['topic_id']}{left}",
        [at_row(former), at_row(first)],
        severity=None if stale else "info",
    )  # fmt: skip


def hanging_transaction(facts: Facts) -> Iterator[Finding]:
    """Transactions that do not end, or took too long."""
    limit = timedelta(seconds=facts.thresholds.hanging_transaction_s)
    found: dict[int, list[Row]] = defaultdict(list)
    for row in facts.history.open_commits.to_pylist():
        if row["producer_id"] is not None and facts.at - row["time"] >= limit:
            found[row["producer_id"]].append(row)
    for producer_id, rows in sorted(found.items()):
        since = min(row["time"] for row in rows)
        offsets = {(row["topic"], row["partition"]) for row in rows}
        yield facts.finding(
            "hanging-transaction", f"producer id {producer_id}", since, facts.at,
            f"a transaction of producer id {producer_id} with offsets of "
            f"{count(len(offsets), 'partition')} is open for {span(facts.at - since)}",
            [at_row(row) for row in rows],
        )  # fmt: skip


COMMIT_RULES: Final = (
    rewind,
    zombie_commit,
    manual_reset,
    auto_commit,
    too_often,
    too_rarely,
    topic_recreated,
    hanging_transaction,
)
