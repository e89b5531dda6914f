"""Rules about rebalances: how many, how long, and by which assignor."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from kohort.findings.facts import Facts, Row, at_row, positions
from kohort.findings.finding import Finding
from kohort.findings.windows import episodes
from kohort.findings.wording import count, names, span

_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_DEPARTED: Final = ("left", "vanished", "out_of_poll_loop", "replaced", "unknown")
EAGER: Final = frozenset(("range", "roundrobin", "sticky"))
"""Assignors of Kafka before which all members give up all partitions."""
_PER_RESTART: Final = 2
"""Rebalances of a member that departs and joins again."""


def rebalance_storm(facts: Facts) -> Iterator[Finding]:
    """More rebalances than restarts explain, or that stop the group for too long."""
    rows = [row for row in facts.history.rebalances if row["complete"]]
    yield from _many(facts, rows)
    yield from _long(facts, rows)


def _many(facts: Facts, rows: Sequence[Row]) -> Iterator[Finding]:
    limits = facts.thresholds
    window = timedelta(seconds=limits.storm_window_s)
    times = [row["time"] for row in rows]
    clients = [_clients(facts, row) for row in rows]
    storms = []
    for start, end in _windows(times, window):
        if end - start < limits.storm_rebalances:
            continue
        changed = set[int]().union(*clients[start:end])
        if end - start > _PER_RESTART * len(changed):
            storms.append(range(start, end))
    for episode in _joined(storms):
        some = rows[episode.start : episode.stop]
        since, until = some[0]["time"], some[-1]["time"]
        counts = Counter(chain.from_iterable(clients[episode.start : episode.stop]))
        labels = [facts.clients[number].label for number, _ in counts.most_common(3) if number >= 0]
        who = f"; most often of {names(labels)}" if labels else ", without a change of members"
        yield facts.finding(
            "rebalance-storm", "", since, until,
            f"{len(some)} rebalances in {span(until - since)} by "
            f"{count(len(counts), 'client')}{who}",
            positions(some),
        )  # fmt: skip


def _windows(times: Sequence[datetime], window: timedelta) -> Iterator[tuple[int, int]]:
    """(start, end) of the events in each window that ends with an event."""
    start = 0
    for end, time in enumerate(times, 1):
        while time - times[start] > window:
            start += 1
        yield start, end


def _joined(ranges: Sequence[range]) -> list[range]:
    """Ascending ranges; those that overlap as one."""
    found: list[range] = []
    for each in ranges:
        if found and each.start < found[-1].stop:
            found[-1] = range(found[-1].start, max(each.stop, found[-1].stop))
        else:
            found.append(each)
    return found


def _clients(facts: Facts, row: Row) -> set[int]:
    """The clients that a rebalance changed."""
    members = [*(row["joined"] or ()), *(each for name in _DEPARTED for each in row[name] or ())]
    numbers = facts.client_numbers
    return {numbers.get(member_id, -1 - index) for index, member_id in enumerate(members)}


# --- standstill


def _long(facts: Facts, rows: Sequence[Row]) -> Iterator[Finding]:
    limits = facts.thresholds
    stops = [(row, standstill_s(facts, row)) for row in rows]
    stopped = [(row, seconds) for row, seconds in stops if seconds > 0]
    times = [row["time"] for row, _ in stopped]
    long = []
    for start, end in _windows(times, _HOUR):
        total = _covered(stopped[start:end])
        if total >= limits.storm_standstill * _HOUR.total_seconds():
            long.append(range(start, end))
    for episode in _joined(long):
        some = stopped[episode.start : episode.stop]
        since = some[0][0]["time"]
        until = some[-1][0]["time"] + timedelta(seconds=some[-1][1])
        total = _covered(some)
        yield facts.finding(
            "rebalance-storm", "standstill", since, min(until, facts.at),
            f"{count(len(some), 'rebalance')} stopped partitions for {span(total)} of "
            f"{span(max(until - since, _HOUR))}",
            positions([row for row, _ in some]),
        )  # fmt: skip


def standstill_s(facts: Facts, row: Row) -> float:
    """Seconds for which a partition that moved stood still; 0: none, or there was nothing to do.

    A rebalance ends after the rebalance timeout at the latest, and may wait for a session before.
    What is longer is a topic without records.
    """
    standstill_ms = row["standstill_ms"]
    if standstill_ms is None or standstill_ms > facts.longest_rebalance_ms:
        return 0.0
    return float(standstill_ms / 1000)


def _covered(stopped: Sequence[tuple[Row, float]]) -> float:
    """Seconds that the standstills take together; those at the same time count once."""
    total, reached = 0.0, None
    for row, seconds in stopped:
        start, end = row["time"], row["time"] + timedelta(seconds=seconds)
        begin = start if reached is None else max(start, reached)
        if end > begin:
            total += (end - begin).total_seconds()
            reached = end
    return total


def eager_standstill(facts: Facts) -> Iterator[Finding]:
    """Groups whose rebalances take partitions from all members."""
    limits = facts.thresholds
    rows = []
    for row in facts.history.rebalances:
        generation = facts.generation_at(row["log_partition"], row["log_offset"])
        if (
            generation is not None
            and row["type"] == "classic"
            and generation["protocol"] in EAGER
            and standstill_s(facts, row) > limits.eager_standstill_s
        ):
            rows.append(row)
    for episode in episodes([row["time"] for row in rows], limits.eager_rebalances, _DAY):
        some = rows[episode.start : episode.stop]
        since, until = some[0]["time"], some[-1]["time"]
        seconds = sorted(standstill_s(facts, row) for row in some)
        yield facts.finding(
            "eager-standstill", "", since, until,
            f"{len(some)} rebalances in {span(until - since)} stopped partitions for "
            f"{span(seconds[0])} to {span(seconds[-1])} each",
            positions(some),
        )  # fmt: skip


# --- assignors


def mixed_assignors(facts: Facts) -> Iterator[Finding]:
    """Members that do not agree on an assignor."""
    yield from _changing_assignor(facts)
    yield from _unlike_assignors(facts)


def _changing_assignor(facts: Facts) -> Iterator[Finding]:
    """A change to another assignor is a deploy; one back to a former assignor is a mix."""
    chosen: list[Row] = []
    for row in facts.history.generations:
        is_choice = row["type"] == "classic" and row["protocol"] and row["members"]
        if is_choice and (not chosen or row["protocol"] != chosen[-1]["protocol"]):
            chosen.append(row)
    protocols = [row["protocol"] for row in chosen]
    if len(set(protocols)) < len(protocols):
        since, until = chosen[1]["time"], chosen[-1]["time"]
        yield facts.finding(
            "mixed-assignors", "", since, until,
            f"the assignor changed {count(len(chosen) - 1, 'time')} in {span(until - since)} "
            f"between {names(protocols)}",
            positions(chosen),
        )  # fmt: skip


def _unlike_assignors(facts: Facts) -> Iterator[Finding]:
    limits = facts.thresholds
    settled = [
        row
        for row in facts.present
        if row["assignors"] and (facts.at - row["from"]).total_seconds() >= limits.mixed_assignors_s
    ]
    for is_classic in (True, False):
        of_kind = [row for row in settled if (row["session_timeout_ms"] is not None) == is_classic]
        lists = {tuple(row["assignors"]) for row in of_kind}
        if len(lists) < 2:
            continue
        since = max(row["from"] for row in of_kind)
        texts = [f"{', '.join(each)}" for each in sorted(lists)]
        yield facts.finding(
            "mixed-assignors", "members", since, facts.at,
            f"{count(len(of_kind), 'member')} name unlike assignors: {'; '.join(texts)}",
            positions(of_kind, "from_offset"),
        )  # fmt: skip


# --- generations without a sync


def unsynced_generations(facts: Facts) -> Iterator[Finding]:
    """Rounds that ended before the leader synced."""
    limits = facts.thresholds
    rows = [row for row in facts.history.generations if row["complete"] and row["skipped"]]
    window = timedelta(seconds=limits.unsynced_window_s)
    found = [
        range(start, end)
        for start, end in _windows([row["time"] for row in rows], window)
        if sum(row["skipped"] for row in rows[start:end]) >= limits.unsynced_generations
    ]
    for episode in _joined(found):
        some = rows[episode.start : episode.stop]
        since, until = some[0]["time"], some[-1]["time"]
        total = sum(row["skipped"] for row in some)
        yield facts.finding(
            "unsynced-generations", "", since, until,
            f"{total} generations were never synced, up to generation {some[-1]['generation']}",
            [at_row(row) for row in some],
        )  # fmt: skip


REBALANCE_RULES: Final = (
    rebalance_storm,
    eager_standstill,
    mixed_assignors,
    unsynced_generations,
)
