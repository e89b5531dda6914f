"""The trend that `kohort groups watch` shows, from lags at set times."""

import pytest

from cli.test_groups_watch import FIRST, SECOND, look
from kohort.cli.groups_watch import Watched, changes
from kohort.cli.lag_history import LagHistory, duration_text, trend_text
from kohort.client.admin import PartitionLag
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.lag import NO_TREND, Direction, Trend
from kohort.types import TopicPartition


def lag(tp: TopicPartition, committed: int, end: int) -> PartitionLag:
    return PartitionLag(
        partition=tp, committed=OffsetAndMetadata(offset=committed), start=0, end=end
    )


def seen(seconds: int, end_per_s: int, committed_per_s: int, ahead: int = 0) -> LagHistory:
    """A lag each second."""
    history = LagHistory()
    for second in range(seconds + 1):
        found = lag(FIRST, committed_per_s * second, ahead + end_per_s * second)
        history.add({FIRST: found, SECOND: lag(SECOND, 5, 5)}, 1_000 * second)
    return history


def test_a_lag_that_falls_has_its_velocity_and_the_time_until_it_is_0() -> None:
    history = seen(120, 10, 40, ahead=9_600)
    assert history.trend(FIRST).velocity == pytest.approx(-30)
    assert trend_text(history.trend(FIRST)) == "-30/s, 0 in 3 min"
    assert trend_text(history.total()) == "-30/s, 0 in 3 min"
    assert trend_text(history.trend(SECOND)) == "steady"


def test_the_trend_is_unknown_in_the_first_30_seconds() -> None:
    assert seen(29, 10, 0).trend(FIRST) == NO_TREND
    assert seen(29, 10, 0).total() == NO_TREND
    assert trend_text(NO_TREND) == ""
    assert seen(40, 10, 0).trend(FIRST).direction is Direction.GROWING


def test_partitions_that_are_gone_or_have_no_commit_have_no_trend() -> None:
    history = seen(60, 10, 0)
    history.add({SECOND: PartitionLag(partition=SECOND, start=0, end=5)}, 61_000)
    assert history.trend(FIRST) == history.trend(SECOND) == NO_TREND
    assert LagHistory().total() == NO_TREND


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 s"), (999, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (90 * 60_000, "1 h")],
)
def test_durations_are_shown_in_their_largest_unit(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text


def test_a_line_tells_when_the_lag_changes_its_direction() -> None:
    group = look()
    steady = Watched(group.group, group.partition_lags, {}, Trend(0.0, Direction.STEADY))
    growing = Watched(group.group, group.partition_lags, {}, Trend(12.0, Direction.GROWING))
    assert list(changes(steady, growing)) == ["the lag is growing: +12/s"]
    assert list(changes(growing, growing)) == []
    assert list(changes(growing, steady)) == ["the lag is steady"]


def test_a_line_tells_that_retention_passed_a_commit() -> None:
    before = look()
    lost = PartitionLag(partition=FIRST, committed=OffsetAndMetadata(offset=4), start=6, end=9)
    after = Watched(before.group, before.partition_lags | {FIRST: lost})
    told = "orders-0: 2 offsets were removed from the log before they were read"
    assert list(changes(before, after)) == [told]
    assert list(changes(after, after)) == []
