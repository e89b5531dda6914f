"""Rules about members: how often they come, how they depart, and who they are."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

from kohort.findings.commit_series import ADVANCE
from kohort.findings.facts import Facts, Row, at_row, micros, positions
from kohort.findings.finding import Finding
from kohort.findings.windows import episodes
from kohort.findings.wording import count, names, span, tally

_DAY: Final = timedelta(days=1)
_STILL_THERE: Final = "still there"
OUT_OF_POLL_LOOP: Final = "out of the poll loop"
VANISHED: Final = "vanished"
REPLACED: Final = "replaced"
_LOOK_THE_SAME: Final = "; several processes with this group.instance.id look the same"
"""A classic group keeps the client id and host of the first one, and logs them for all."""
_REGULAR: Final = 1.5
"""So many usual gaps between commits go into a timeout: else a silence says nothing."""
_SOON: Final = 5
"""Usual gaps after a departure in which records that are there are committed; 60 s at least."""
_DEFAULT_CLIENT_ID: Final = re.compile(
    r"consumer-.*-\d+|console-consumer|rdkafka|sarama|kgo|kafkajs|(aio)?kafka-python.*|aiokafka.*"
    r"|kohort|kohort-spark|"
)
"""Of Java, librdkafka, sarama, franz-go, KafkaJS, kafka-python, aiokafka, Kohort; or none."""


def flapping_member(facts: Facts) -> Iterator[Finding]:
    """Clients that join again and again."""
    limits = facts.thresholds
    for client in facts.clients:
        joins = [row for row in client.members if row["complete"]]
        if client.instance_id is not None and len(client.origins) > 1:
            continue  # Two processes with one instance id: static_collision.
        times = [row["from"] for row in joins]
        window = timedelta(seconds=limits.flapping_window_s)
        for episode in episodes(times, limits.flapping_joins, window):
            rows = joins[episode.start : episode.stop]
            since, until = rows[0]["from"], rows[-1]["from"]
            ends = [row["ended_by"] or _STILL_THERE for row in rows]
            yield facts.finding(
                "flapping-member", client.label, since, until,
                f"{client.label} joined {len(rows)} times in {span(until - since)}; its members "
                f"ended by: {tally(ends)}{_LOOK_THE_SAME if REPLACED in ends else ''}",
                positions(rows, "from_offset"),
            )  # fmt: skip


def static_collision(facts: Facts) -> Iterator[Finding]:
    """Instance ids that two clients have."""
    limits = facts.thresholds
    window = timedelta(seconds=limits.collision_window_s)
    for client in facts.clients:
        if client.instance_id is None:
            continue
        rows = [row for row in client.members if row["replaces"] is not None and row["complete"]]
        for episode in episodes(
            [row["from"] for row in rows], limits.collision_replacements, window
        ):
            some = rows[episode.start : episode.stop]
            origins = [
                f"{row['client_id']} at {str(row['client_host']).lstrip('/')}" for row in some
            ]
            if len(set(origins)) < 2:
                continue
            since, until = some[0]["from"], some[-1]["from"]
            yield facts.finding(
                "static-collision", client.label, since, until,
                f"instance {client.label} was replaced {len(some)} times in {span(until - since)} "
                f"by {names(origins)}",
                positions(some, "from_offset"),
            )  # fmt: skip


# --- departures


def out_of_poll_loop(facts: Facts) -> Iterator[Finding]:
    """Members that were removed as they did not poll."""
    for client in facts.clients:
        gaps = [(row, _gap(facts, row, OUT_OF_POLL_LOOP)) for row in client.members]
        found = [(row, gap) for row, gap in gaps if gap is not None]
        if not found:
            continue
        rows = [row for row, _ in found]
        longest = max(gap for _, gap in found)
        timeout = rows[-1]["rebalance_timeout_ms"] / 1000
        yield facts.finding(
            "out-of-poll-loop", client.label, rows[0]["to"], rows[-1]["to"],
            f"{client.label} left the poll loop {count(len(rows), 'time')}; its longest time "
            f"without a commit was {span(longest)}, with max.poll.interval.ms of {span(timeout)}",
            positions(rows, "to_offset"),
        )  # fmt: skip


def session_too_short(facts: Facts) -> Iterator[Finding]:
    """Clients whose sessions expire during pauses."""
    limits = facts.thresholds
    for client in facts.clients:
        rows = [
            row
            for row, after in pairwise(client.members)
            if row["ended_by"] == VANISHED
            and facts.session_s(row) < limits.short_session_s
            and (after["from"] - row["to"]).total_seconds() <= limits.back_within_s
            and _gap(facts, row, VANISHED) is not None
        ]
        for episode in episodes([row["to"] for row in rows], limits.vanished_a_day, _DAY):
            some = rows[episode.start : episode.stop]
            since, until = some[0]["to"], some[-1]["to"]
            yield facts.finding(
                "session-too-short", client.label, since, until,
                f"the session of {client.label} expired {len(some)} times in {span(until - since)} "
                f"and it was back within {limits.back_within_s} s; its session timeout is "
                f"{span(facts.session_s(some[-1]))}",
                positions(some, "to_offset"),
            )  # fmt: skip


def _gap(facts: Facts, member: Row, ended_by: str) -> timedelta | None:
    """Time from the last commit to a departure of this kind; None: it is of another, or not sure.

    A member without records does not commit, and a normal departure looks like an expired session
    then. So its commits have to be regular before, and records have to be there at the departure.
    """
    if member["ended_by"] != ended_by or not member["complete"]:
        return None
    timeout_ms = member["rebalance_timeout_ms"] if ended_by == OUT_OF_POLL_LOOP else None
    timeout_s = facts.session_s(member) if timeout_ms is None else timeout_ms / 1000
    return _silence(facts, member, timeout_s)


def _silence(facts: Facts, member: Row, timeout_s: float) -> timedelta | None:
    """Time from the last commit of a departed member; None: it may have had no records."""
    to_us = micros(member["to"])
    owned = [
        row for row in facts.assignments_of.get(member["member_id"], ()) if row["to"] is not None
    ]
    last_us = None
    has_records = False
    for row in owned:
        series = facts.series.get((row["topic"], row["partition"]))
        if series is None or row["to"] < member["to"] - timedelta(seconds=timeout_s):
            continue
        before = series.count_until(to_us)
        usual_us = series.usual_gap_us(before)
        if not before or usual_us is None or usual_us * _REGULAR > timeout_s * 1_000_000:
            continue
        last = int(series.times[before - 1])
        last_us = last if last_us is None else max(last_us, last)
        soon_us = to_us + max(60_000_000, _SOON * usual_us)
        after = series.kinds[before : series.count_until(soon_us)]
        has_records = has_records or bool((after == ADVANCE).any())
    if last_us is None or not has_records:
        return None
    return timedelta(microseconds=to_us - last_us)


# --- strangers


def stranger(facts: Facts) -> Iterator[Finding]:
    """Short visits of clients that are not of the group's application."""
    limits = facts.thresholds
    begun = _begin(facts)
    for row in facts.history.members:
        stay = (row["to"] or facts.at) - row["from"]
        if (
            not row["complete"]
            or row["to"] is None
            or begun is None
            or stay.total_seconds() >= limits.stranger_s
            or (row["from"] - begun).total_seconds() < limits.stranger_group_age_s
            or _DEFAULT_CLIENT_ID.fullmatch(row["client_id"] or "") is None
            or _is_of_the_application(facts, row)
        ):
            continue
        partitions = len(facts.assignments_of.get(row["member_id"], ()))
        yield facts.finding(
            "stranger", facts.label(row["member_id"]), row["from"], row["to"],
            f"{facts.label(row['member_id'])} was a member for {span(stay)} and owned "
            f"{count(partitions, 'partition')}",
            [at_row(row, "from_offset"), at_row(row, "to_offset")],
        )  # fmt: skip


class _Resident(NamedTuple):
    """A member that stayed long."""

    offset: int
    """Of its first record."""
    host: str | None
    family: str


def _is_of_the_application(facts: Facts, row: Row) -> bool:
    """Whether other members, that stayed longer, have its host or a client id like its own."""
    others = [each for each in facts.once(_residents) if each.offset < row["from_offset"]]
    host, family = row["client_host"], _family(row)
    return not others or any(each.host == host or each.family == family for each in others)


def _residents(facts: Facts) -> list[_Resident]:
    return [
        _Resident(row["from_offset"], row["client_host"], _family(row))
        for row in facts.history.members
        if _stay_s(facts, row) >= facts.thresholds.stranger_s
    ]


def _stay_s(facts: Facts, row: Row) -> float:
    seconds: float = ((row["to"] or facts.at) - row["from"]).total_seconds()
    return seconds


def _family(row: Row) -> str:
    """The client id without what differs between members of one application."""
    return re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", row["client_id"] or "")


def _begin(facts: Facts) -> datetime | None:
    """Time of the first row of the group."""
    rows = facts.history
    times = [
        *(row["time"] for row in rows.generations[:1]),
        *(row["from"] for row in rows.members[:1]),
        *rows.earlier["in_force_time"].to_pylist(),
    ]
    return min((time for time in times if time is not None), default=None)


MEMBER_RULES: Final = (
    flapping_member,
    static_collision,
    out_of_poll_loop,
    session_too_short,
    stranger,
)
