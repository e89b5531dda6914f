"""Status of partitions by their last lags: each rule, and which comes first."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from kohort.history.schema import LAG, STATUS
from kohort.history.status import STATUSES, StatusLimits, status_table

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)

FINE = {
    "group": "g", "topic": "t", "partition": 0, "time": AT - 10 * SECOND, "committed": 90,
    "start": 0, "end": 100, "lag": 10, "lag_ms": 500, "lost": 0, "method": "sampled",
    "confidence_ms": 15_000, "velocity": 0.1, "trend": "steady", "case": "ok",
    "commit_time": AT - 15 * SECOND, "commit_gap_ms": 5_000, "repeats": 0, "grown": 5,
    "grown_repeated": 5, "rewound": 0,
}  # fmt: skip
SILENT = {"commit_time": AT - 61 * SECOND, "lag_ms": 61_000}
LAGS = {"lag": 5_000, "lag_ms": 61_000, "trend": "growing"}
STALLS = {"repeats": 9}
REWINDS = {"rewound": 1}
LOSES = {"loss_ms": 6 * 3_600_000 - 1}
RECREATED = {"committed": None, "lag": None, "lag_ms": None, "case": "no commit"}


def statuses(*rows, **options):
    table = pa.Table.from_pylist([FINE | row for row in rows], LAG)
    found = status_table(table, AT, **options)
    assert found.schema == STATUS
    assert set(found["status"].to_pylist()) <= set(STATUSES)
    return found.to_pylist()


def status(row, **options):
    (found,) = statuses(row, **options)
    return found["status"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({}, "ok"),
        ({"lag": 0, "lag_ms": 0, "trend": "growing"}, "ok"),
        (SILENT, "stopped"),
        (SILENT | {"lag": 0}, "ok"),
        (SILENT | {"grown": 0}, "ok"),
        (SILENT | {"commit_time": AT - 60 * SECOND}, "ok"),
        (SILENT | {"commit_gap_ms": 20_000}, "ok"),
        (SILENT | {"commit_gap_ms": 12_000}, "stopped"),
        (SILENT | {"commit_gap_ms": None}, "stopped"),
        (SILENT | {"lag_ms": None}, "stopped"),
        (SILENT | {"lag_ms": 50_000}, "ok"),  # the sample is 10 s old
        (SILENT | {"lag_ms": 50_001}, "stopped"),
        (REWINDS, "rewind"),
        (REWINDS | {"lag": 0}, "rewind"),
        (STALLS, "stall"),
        (STALLS | {"repeats": 8}, "ok"),
        (STALLS | {"grown_repeated": 0}, "ok"),
        (STALLS | {"lag": 0}, "ok"),
        (LAGS, "warn"),
        (LAGS | {"lag_ms": None}, "warn"),
        (LAGS | {"commit_gap_ms": 30_500}, "ok"),
        (LAGS | {"lag": 1_000}, "ok"),
        (LAGS | {"lag_ms": 60_000}, "ok"),
        (LAGS | {"trend": "steady"}, "ok"),
        (LAGS | {"trend": None}, "ok"),
        (LOSES, "loss"),
        (LOSES | {"loss_ms": 6 * 3_600_000}, "ok"),
        (LOSES | {"lag": 0}, "ok"),
        ({"lost": 1}, "loss"),
        (RECREATED, "unknown"),
        ({"time": AT - timedelta(minutes=15)}, "ok"),
        ({"time": AT - timedelta(minutes=15, milliseconds=1)}, "unknown"),
        ({"time": AT - timedelta(hours=6), "method": "grid"}, "ok"),
        ({"time": AT - timedelta(hours=6, milliseconds=1), "method": "grid"}, "unknown"),
    ],
)
def test_each_rule_has_its_status(row, expected):
    assert status(row) == expected


def test_the_first_rule_that_fits_counts():
    rules: list[tuple[str, dict[str, object]]] = [
        ("unknown", {"time": AT - timedelta(hours=1)}), ("stopped", SILENT), ("rewind", REWINDS),
        ("stall", STALLS), ("loss", LOSES), ("warn", LAGS),
    ]  # fmt: skip
    for first in range(len(rules)):
        row = {name: value for _, rule in reversed(rules[first:]) for name, value in rule.items()}
        assert status(row) == rules[first][0]


def test_a_stopped_group_without_members_is_empty():
    assert status(SILENT, empty_groups=["g"]) == "empty"
    assert status(SILENT, empty_groups=["other"]) == "stopped"
    assert status({}, empty_groups=["g"]) == "ok"


def test_a_group_that_lacks_records_is_unknown():
    assert status(SILENT, unknown_groups=["g"], empty_groups=["g"]) == "unknown"


def test_limits_are_options():
    assert status(LAGS | {"lag": 50}, limits=StatusLimits(lag=49)) == "warn"
    assert status(SILENT, limits=StatusLimits(silence_ms=90_000)) == "ok"


def test_the_last_row_of_each_partition_up_to_the_moment_counts():
    rows = [
        {"partition": number, "time": AT + seconds * SECOND, "lag": 100 + seconds}
        for seconds in (1, 0, -1) for number in (1, 0)
    ]  # fmt: skip
    found = statuses(*rows, {"group": "a", "time": AT + SECOND}, {"group": "h"})
    assert [(row["group"], row["partition"], row["lag"]) for row in found] == [
        ("g", 0, 100), ("g", 1, 100), ("h", 0, 10),
    ]  # fmt: skip


def test_a_partition_whose_offset_was_removed_has_no_status():
    assert statuses(RECREATED | {"commit_time": None}) == []
    assert statuses() == []
