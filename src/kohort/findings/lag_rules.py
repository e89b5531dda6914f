"""Rules about lag. Without samples there are no rows of lag, and no findings here."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from kohort.findings.facts import Facts, Row, at_row, micros, time_of
from kohort.findings.finding import Finding, Position
from kohort.findings.lag_series import MS_US, UNKNOWN, Array, LagSeries, runs
from kohort.findings.wording import count, partitions, span
from kohort.history.status import LIMITS, are_stalled, are_stopped

_GRID_AGE_US: Final = LIMITS.grid_age_ms * MS_US
"""Rows of a grid are further apart."""


def stuck_commit(facts: Facts) -> Iterator[Finding]:
    """Partitions whose owner commits one offset again and again."""
    for series in facts.lags.values():
        mask = are_stalled(series.lag, series.repeats, series.grown_repeated)
        mask &= facts.have_members(series.time) & facts.are_known(series.time)
        for first, last in runs(mask, facts.thresholds.stall_samples):
            since, until = time_of(series.time[first]), time_of(series.time[last])
            yield facts.finding(
                "stuck-commit", series.name, since, until,
                f"{series.name} was committed at {int(series.committed[last]):,} again and again "
                f"for {span(until - since)}, while its lag reached "
                f"{count(int(series.lag[last]), 'record')}",
                _last_commit(facts, series, last),
            )  # fmt: skip


def stopped(facts: Facts) -> Iterator[Finding]:
    """Partitions whose owner commits no more; those of members that are found as a whole apart."""
    whole = {key for _, keys in (*facts.once(_zombies), *facts.once(_silent)) for key in keys}
    for series in facts.lags.values():
        mask = _is_stopped(facts, series) & facts.have_members(series.time)
        for first, last in runs(mask, facts.thresholds.stall_samples):
            goes_on = last == len(series) - 1
            if goes_on and series.key in whole:
                continue
            since, until = time_of(series.commit_time[first]), time_of(series.time[last])
            yield facts.finding(
                "stopped", series.name, since, until,
                f"{series.name} had no commit for {span(until - since)}, while its usual gap is "
                f"{span(max(int(series.commit_gap_ms[last]), 0) / 1000)} and "
                f"{count(int(series.grown[last]), 'record')} came",
                _last_commit(facts, series, last),
            )  # fmt: skip


def _is_stopped(facts: Facts, series: LagSeries) -> Array:
    limits = facts.thresholds
    gaps_us = np.maximum(series.commit_gap_ms, 0) * MS_US * limits.stop_gaps
    most_us = np.maximum(limits.stop_s * 1_000_000, gaps_us)
    is_stopped = are_stopped(
        series.lag, series.grown, series.silence_us(), series.lag_ms * MS_US, most_us
    )
    return is_stopped & (series.commit_time != UNKNOWN) & facts.are_known(series.time)


def _last_commit(facts: Facts, series: LagSeries, index: int) -> list[Position]:
    """The commit that is in force at a row, if it is of the period."""
    commits = facts.series.get(series.key)
    found = 0 if commits is None else commits.count_until(int(series.time[index]))
    return [commits.position(found - 1)] if commits is not None and found else []


# --- members as a whole


def zombie_member(facts: Facts) -> Iterator[Finding]:
    """Members that hold partitions and do not work, while others do."""
    for member, keys in facts.once(_zombies):
        since = max(time_of(facts.lags[key].commit_time[-1]) for key in keys)
        records = sum(int(facts.lags[key].grown[-1]) for key in keys)
        label = facts.label(member["member_id"])
        yield facts.finding(
            "zombie-member", label, since, facts.at,
            f"{label} committed none of {count(len(keys), 'partition')} with new records for "
            f"{span(facts.at - since)}, in which {count(records, 'record')} came; other members "
            "commit",
            [at_row(member, "from_offset")],
        )  # fmt: skip


def _zombies(facts: Facts) -> list[tuple[Row, list[tuple[str, int]]]]:
    """Present members whose growing partitions are all stopped, and these."""
    least = facts.thresholds.stall_samples
    active: set[str] = set()
    suspects = []
    for member in facts.present:
        keys = _growing(facts, member)
        series = [facts.lags[key] for key in keys]
        if _commits_now(facts, member):
            active.add(member["member_id"])
        elif keys and all(_ends_in_run(_is_stopped(facts, each), least) for each in series):
            suspects.append((member, keys))
    has_committed = [each for each in suspects if _commits_of(facts, each[0])]
    return has_committed if active else []


def _commits_now(facts: Facts, member: Row) -> bool:
    """Whether a present member has committed one of its partitions just now."""
    limit_us = facts.thresholds.stop_s * 1_000_000
    owned = (facts.lags.get(key) for key in _owned_since(facts, member))
    return any(
        series is not None and _is_recent(facts, series) and series.silence_us()[-1] <= limit_us
        for series in owned
    )


def _ends_in_run(mask: Array, least: int) -> bool:
    return len(mask) >= least and bool(mask[-least:].all())


def _growing(facts: Facts, member: Row) -> list[tuple[str, int]]:
    """Partitions of a present member with lag rows of now, that have grown since their commit."""
    found = []
    for row in facts.assignments_of.get(member["member_id"], ()):
        series = facts.lags.get((row["topic"], row["partition"]))
        is_now = row["to"] is None and series is not None and _is_recent(facts, series)
        if series is not None and is_now and int(series.grown[-1]) > 0:
            found.append(series.key)
    return found


def _is_recent(facts: Facts, series: LagSeries) -> bool:
    """Whether the last row says something about now."""
    limit_us = _GRID_AGE_US if series.is_grid[-1] else facts.thresholds.sample_s * 1_000_000
    return micros(facts.at) - int(series.time[-1]) <= limit_us


def _commits_of(facts: Facts, member: Row) -> int:
    """Number of commits in the partitions of a present member since it owns them."""
    total = 0
    for row in facts.assignments_of.get(member["member_id"], ()):
        series = facts.series.get((row["topic"], row["partition"]))
        if row["to"] is None and series is not None:
            total += len(series.since(micros(row["from"])))
    return total


def never_commits(facts: Facts) -> Iterator[Finding]:
    """Members that read and do not commit."""
    for member, keys in facts.once(_silent):
        since = max(_owned_since(facts, member).values())
        label = facts.label(member["member_id"])
        yield facts.finding(
            "never-commits", label, since, facts.at,
            f"{label} owns {count(len(keys), 'partition')} with new records for "
            f"{span(facts.at - since)}, and committed none",
            [at_row(member, "from_offset")],
        )  # fmt: skip


def _silent(facts: Facts) -> list[tuple[Row, list[tuple[str, int]]]]:
    """Present members that never committed, and their partitions that grow."""
    limit = timedelta(seconds=facts.thresholds.never_commits_s)
    if not facts.history.samples.num_rows or not facts.is_known_since(facts.at):
        return []
    found = []
    for member in facts.present:
        owned = _owned_since(facts, member)
        if not owned or facts.at - max(owned.values()) < limit or _commits_of(facts, member):
            continue
        growing = [key for key, since in owned.items() if _has_grown(facts, key, since, limit)]
        if growing:
            found.append((member, growing))
    return found


def _owned_since(facts: Facts, member: Row) -> Mapping[tuple[str, int], datetime]:
    return {
        (row["topic"], row["partition"]): row["from"]
        for row in facts.assignments_of.get(member["member_id"], ())
        if row["to"] is None
    }


def _has_grown(facts: Facts, key: tuple[str, int], since: datetime, least: timedelta) -> bool:
    """Whether samples since then show records, over a time of `least` or more."""
    series = facts.ends.get(key)
    if series is None:
        return False
    later = series.since(micros(since))
    if len(later.time) < 2:
        return False
    lasted = timedelta(microseconds=int(later.time[-1] - later.time[0]))
    return lasted >= least / 2 and bool(later.end[-1] > later.end[0])


# --- loss


def data_loss(facts: Facts) -> Iterator[Finding]:
    """Records that retention removes before they are read."""
    for series in facts.lags.values():
        for first, last in runs(series.lost > 0, 1):
            lost = int(series.lost[first : last + 1].max())
            yield facts.finding(
                "data-loss", series.name, time_of(series.time[first]), time_of(series.time[last]),
                f"retention removed {count(lost, 'record')} of {series.name} behind the committed "
                f"offset {int(series.committed[first]):,}",
                _last_commit(facts, series, last),
            )  # fmt: skip
        loss_ms = int(series.loss_ms[-1])
        is_soon = 0 < loss_ms < facts.thresholds.loss_s * 1000
        if (
            is_soon
            and int(series.lag[-1]) > 0
            and int(series.lost[-1]) <= 0
            and _is_recent(facts, series)
        ):
            yield facts.finding(
                "data-loss", series.name, time_of(series.time[-1]), facts.at,
                f"retention reaches the committed offset of {series.name} in "
                f"{span(loss_ms / 1000)}; its lag is {count(int(series.lag[-1]), 'record')}",
                _last_commit(facts, series, len(series) - 1),
            )  # fmt: skip


def expires_soon(facts: Facts) -> Iterator[Finding]:
    """Groups without members whose offsets expire although they have lag."""
    if facts.present or not facts.is_known_since(facts.at):
        return
    limit = timedelta(seconds=facts.thresholds.expiry_s)
    retention = timedelta(milliseconds=facts.history.options.retention_ms)
    generation = facts.history.generations[-1] if facts.history.generations else None
    empty_since = None if generation is None else _empty_since(generation)
    soonest: datetime | None = None
    lagging = []
    for series in facts.lags.values():
        if int(series.lag[-1]) <= 0 or int(series.commit_time[-1]) == UNKNOWN:
            continue
        expiry = (empty_since or time_of(series.commit_time[-1])) + retention
        if expiry - facts.at < limit:
            lagging.append(series)
            soonest = expiry if soonest is None else min(soonest, expiry)
    if soonest is not None:
        records = sum(int(series.lag[-1]) for series in lagging)
        left = max(soonest - facts.at, timedelta())
        yield facts.finding(
            "expires-soon", "", soonest - limit, facts.at,
            f"offsets of {count(len(lagging), 'partition')} expire in {span(left)}, with a lag of "
            f"{count(records, 'record')}",
            [] if generation is None else [at_row(generation)],
        )  # fmt: skip


def _empty_since(generation: Row) -> datetime | None:
    """Time from which on offsets of a classic group expire; None: each by its own commit."""
    if generation["type"] != "classic" or not generation["protocol_type"]:
        return None
    time: datetime = generation["state_time"] or generation["time"]
    return time


def max_lag(facts: Facts) -> Iterator[Finding]:
    """Partitions over the limits of the options."""
    limits = facts.thresholds
    over: dict[str, list[LagSeries]] = {}
    for series in facts.lags.values():
        if not _is_recent(facts, series):
            continue
        is_over = limits.max_lag is not None and int(series.lag[-1]) > limits.max_lag
        is_late = limits.max_lag_s is not None and int(series.lag_ms[-1]) > limits.max_lag_s * 1000
        if is_over or is_late:
            over.setdefault(series.topic, []).append(series)
    for topic, some in sorted(over.items()):
        lag, lag_ms = _most(some)
        yield facts.finding(
            "max-lag", topic, min(time_of(series.time[-1]) for series in some), facts.at,
            f"{topic} {partitions(series.partition for series in some)} had a lag of up to "
            f"{count(lag, 'record')}" + (f" and {span(lag_ms / 1000)}" if lag_ms >= 0 else ""),
            [place for series in some for place in _last_commit(facts, series, len(series) - 1)],
        )  # fmt: skip


def _most(some: Iterable[LagSeries]) -> tuple[int, int]:
    pairs = [(int(series.lag[-1]), int(series.lag_ms[-1])) for series in some]
    return max(lag for lag, _ in pairs), max(lag_ms for _, lag_ms in pairs)


LAG_RULES: Final = (
    stuck_commit,
    stopped,
    zombie_member,
    data_loss,
    expires_soon,
    never_commits,
    max_lag,
)
