"""Rules of other monitors as they publish them, and the table that holds Kohort against them."""

import math
from itertools import cycle
from pathlib import Path

import pytest

from peers.lag_monitors import (
    Commit,
    Ends,
    Scene,
    burrow,
    burrow_status,
    klag,
    offset_time,
    velocity,
)
from peers.lag_table import MONITORS, markdown

PAGE = Path(__file__).parents[2] / "docs" / "lag-monitors.md"


def test_the_table_of_the_page_is_what_the_command_prints() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert "\n".join(line for line in lines if line.startswith("|")) == markdown()


# --- Burrow


def status(*commits: tuple[int, int], ends: tuple[int, ...], since_last: int = 1) -> str:
    """Of commits, each with its lag, 10 s apart."""
    kept = [(10 * place, offset, lag) for place, (offset, lag) in enumerate(commits)]
    return burrow_status(kept, ends, kept[-1][0] + since_last)


def test_burrow_finds_a_rewind_until_the_former_offset_is_reached() -> None:
    """The two tables of linkedin/Burrow#714."""
    assert status((10, 0), (20, 0), (30, 0), (20, 10), ends=(10, 20, 30, 40)) == "REWIND"
    assert status((20, 0), (30, 0), (20, 10), (30, 15), ends=(20, 30, 40, 45)) == "OK"


def test_burrow_waits_with_a_stop_while_a_recent_end_was_not_above_the_commit() -> None:
    """linkedin/Burrow#338: a topic that receives records very slowly."""
    assert status((5, 0), (6, 0), ends=(6, 6, 7), since_last=5_000) == "OK"
    assert status((5, 0), (6, 0), ends=(7, 7, 7), since_last=5_000) == "STOP"


@pytest.mark.parametrize(
    ("lags", "offsets", "expected"),
    [
        ((3, 0, 5), (1, 2, 3), "OK"),
        ((3, 4, 5), (1, 1, 1), "STALL"),
        ((3, 4, 4), (1, 2, 3), "WARN"),
        ((3, 4, 2), (1, 2, 3), "OK"),
    ],
    ids=["a lag of 0", "one offset", "a lag that never fell", "a lag that fell once"],
)
def test_burrow_judges_the_lags_of_its_window(
    lags: tuple[int, ...], offsets: tuple[int, ...], expected: str
) -> None:
    assert status(*zip(offsets, lags, strict=True), ends=(100,)) == expected


def test_burrow_has_no_status_of_a_partition_without_commits() -> None:
    assert burrow(Scene(commits=[], ends=lambda at: Ends(0, at)), 100) == "no status"


# --- kafka-lag-exporter


def test_the_exporter_interpolates_and_extrapolates_times_of_offsets() -> None:
    points = [Commit(100, 1_000), Commit(200, 2_000)]
    assert [offset_time(points, offset) for offset in (1_000, 1_500, 2_000, 500)] == [
        *(100, 150, 200, 50)
    ]
    assert math.isnan(offset_time(points[:1], 500))
    assert offset_time([Commit(100, 1_000), Commit(900, 1_000)], 999) == -math.inf


# --- klag


def test_the_velocity_of_klag_is_a_regression_of_three_lags_or_more() -> None:
    assert velocity((0, 60, 120), (0, 300, 600)) == pytest.approx(5)
    assert velocity((0, 60), (0, 300)) is None


def test_klag_says_that_records_are_lost_when_the_lag_exceeds_the_log() -> None:
    scene = Scene(commits=[Commit(0, 10)], ends=lambda at: Ends(500, 1_000))
    found = klag(scene, 600)
    assert found is not None
    assert found.diagnosis == ("Data loss risk", "Stuck consumer")
    assert found.retention_percent == pytest.approx(198)


def test_all_monitors_find_nothing_in_a_consumer_that_follows() -> None:
    lags = cycle((9, 20, 14, 25))
    commits = [Commit(time, 5 * time - next(lags)) for time in range(10, 4_000, 10)]
    scene = Scene(commits=commits, ends=lambda at: Ends(0, 5 * at))
    said = {name: says(scene, 3_600) for name, says in MONITORS.items()}
    assert said["Burrow 1.9"] == "OK"
    assert said["Kohort"].startswith("ok:")
