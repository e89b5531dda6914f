"""Literal histories: rows of a group with the columns that a test names, the others null."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from kohort.findings.finding import Finding
from kohort.history.group_fold import GroupOptions
from kohort.history.schema import (
    ASSIGNMENTS,
    COMMITS,
    COMMITTED,
    COVERAGE,
    GENERATIONS,
    LAG,
    MEMBERS,
    MINUTES,
    REBALANCES,
    SAMPLES,
)
from kohort.history_files.group_history import GroupHistory

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def at(minutes: float) -> datetime:
    """So many minutes after noon."""
    return NOON + timedelta(minutes=minutes)


def row(schema: pa.Schema, **columns):
    return {**dict.fromkeys(schema.names), "log_partition": 7, **columns}


def member(member_id, since=0.0, until=None, **columns):
    defaults = {
        "group": "billing", "life": 0, "member_id": member_id, "client_id": member_id,
        "client_host": "/10.0.0.1", "from": at(since), "from_offset": int(since * 100),
        "to": None if until is None else at(until), "complete": True,
    }  # fmt: skip
    return row(MEMBERS, **defaults | columns)


def assignment(partition, member_id, since=0.0, until=None, topic="orders", generation=1):
    return row(
        ASSIGNMENTS, group="billing", life=0, topic=topic, partition=partition,
        member_id=member_id, **{"from": at(since), "from_offset": int(since * 100)},
        to=None if until is None else at(until), generation=generation,
    )  # fmt: skip


def generation(number, minutes, members=(), **columns):
    defaults = {
        "group": "billing", "life": 0, "type": "classic", "generation": number,
        "log_offset": int(minutes * 100), "time": at(minutes), "members": list(members),
        "protocol": "range", "ended_by": "next", "complete": True,
    }  # fmt: skip
    return row(GENERATIONS, **defaults | columns)


def rebalance(number, minutes, **columns):
    lists = ("joined", "left", "vanished", "out_of_poll_loop", "replaced", "unknown")
    defaults = {
        "group": "billing", "life": 0, "type": "classic", "generation": number,
        "log_offset": int(minutes * 100), "time": at(minutes), "rounds": 1, "sync_ms": 40,
        "complete": True, **{name: [] for name in lists},
    }  # fmt: skip
    return row(REBALANCES, **defaults | columns)


def minute(minutes, partition=0, commits=6, records=600, topic="orders"):
    return row(
        MINUTES, group="billing", topic=topic, partition=partition, minute=at(minutes),
        log_offset=int(minutes * 100), commits=commits, last=records, sum_advance=records,
    )  # fmt: skip


def commit(minutes, partition=0, advance=100, topic="orders", kind="advance"):
    return row(
        COMMITS, group="billing", topic=topic, partition=partition, in_force_time=at(minutes),
        time=at(minutes), log_offset=int(minutes * 100), advance=advance, kind=kind,
    )  # fmt: skip


def lag(minutes, records, partition=0, behind_ms=None, topic="orders"):
    return {
        **dict.fromkeys(LAG.names), "group": "billing", "topic": topic, "partition": partition,
        "time": at(minutes), "lag": records, "lag_ms": behind_ms, "case": "ok",
        "method": "sampled", "lost": 0,
    }  # fmt: skip


def coverage(end=60.0, gaps=(), **columns):
    return row(COVERAGE, first=0, end=int(end * 100), last_time=at(end), gaps=list(gaps), **columns)


def history(
    group="billing", *, members=(), assignments=(), generations=(), rebalances=(), minutes=(),
    commits=(), lags=(), coverages=None, end=60.0,
):  # fmt: skip
    """A history whose log ends an hour after noon, unless `end` says otherwise."""
    rows = [coverage(end)] if coverages is None else list(coverages)
    return GroupHistory(
        group=group,
        log_partitions=(7,),
        since=None,
        end=at(end),
        generations=list(generations),
        rebalances=list(rebalances),
        members=list(members),
        assignments=list(assignments),
        commits=pa.Table.from_pylist(list(commits), schema=COMMITS),
        earlier=COMMITTED.empty_table(),
        open_commits=COMMITS.empty_table(),
        minutes=pa.Table.from_pylist(list(minutes), schema=MINUTES),
        lag=pa.Table.from_pylist(list(lags), schema=LAG),
        samples=SAMPLES.empty_table(),
        coverage=rows,
        options=GroupOptions(),
        is_complete=not any(row["gaps"] for row in rows),
    )


def busy(group="billing"):
    """An hour: three members, one that vanishes, one that comes, and a lag that grows and falls."""
    names = ("billing-1", "billing-2", "billing-3", "billing-4")
    partitions = range(12)
    first = [assignment(p, names[p // 4], 0, 20) for p in partitions]
    second = [assignment(p, names[p % 2], 20.3, 35, generation=2) for p in partitions]
    third = [
        assignment(p, (names[0], names[1], names[3])[p % 3], 35.1, generation=3) for p in partitions
    ]
    return history(
        group,
        members=[
            member(names[0]), member(names[1]), member(names[2], 0, 20, ended_by="vanished"),
            member(names[3], 35, client_host="/10.0.0.9"),
        ],
        assignments=[*first, *second, *third],
        generations=[
            generation(1, 0, names[:3]), generation(2, 20.3, names[:2]),
            generation(3, 35.1, (names[0], names[1], names[3]), ended_by="open"),
        ],
        rebalances=[
            rebalance(1, 0, joined=list(names[:3]), added=12),
            rebalance(2, 20.3, vanished=[names[2]], moved=8, kept=4, standstill_ms=46_000),
            rebalance(3, 35.1, joined=[names[3]], moved=5, kept=7, standstill_ms=900),
        ],
        minutes=[
            minute(m, p, commits=0 if 19 < m < 21 else 12, records=(600 + 40 * p) * (1 + m % 7))
            for m in range(60) for p in partitions if not 19 <= m < 21
        ],
        lags=[
            lag(m, max(0, (m - 15) * 90 * (p + 1)) if m < 36 else max(0, (60 - m) * 80 * (p + 1)),
                p, max(0, (m - 15) * 2_000) if m < 36 else max(0, (60 - m) * 1_800))
            for m in range(60) for p in partitions
        ],
    )  # fmt: skip


def finding(severity="warning", since=10.0, **columns) -> Finding:
    defaults = {
        "id": "rewind", "group": "billing", "subject": "orders-3", "since": at(since),
        "until": at(since + 1), "severity": severity,
        "text": "orders-3 was set back from 5,000 to 120.",
    }  # fmt: skip
    return Finding(**defaults | columns)
