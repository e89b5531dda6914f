"""Numbers and times in the texts of findings."""

from datetime import UTC, datetime, timedelta

import pytest

from kohort.findings.windows import episodes
from kohort.findings.wording import count, names, partitions, span, tally

START = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.25, "0.2 s"), (9, "9 s"), (9.96, "10 s"), (59.6, "1 min"),
        (80, "1 min 20 s"),
        (3_600, "1 h"), (3_605, "1 h"), (5_400, "1 h 30 min"), (90_000, "1 d 1 h"), (-3, "0 s"),
    ],
)  # fmt: skip
def test_a_span_has_its_two_largest_units(seconds, text):
    assert span(seconds) == span(timedelta(seconds=seconds)) == text


def test_numbers_and_names_are_short():
    assert count(1, "member") == "1 member"
    assert count(1_200, "member") == "1,200 members"
    assert partitions([3]) == "partition 3"
    assert partitions(range(9)) == "partitions 0, 1, 2, 3, 4 and 4 more"
    assert names(["b", "a", "b"]) == "a, b"
    assert tally(["left", "vanished", "left"]) == "2 × left, 1 × vanished"


def test_windows_that_overlap_are_one_episode():
    minutes = [0, 1, 2, 3, 20, 21, 22, 60]
    times = [START + timedelta(minutes=each) for each in minutes]
    window = timedelta(minutes=2)
    assert episodes(times, 3, window) == [range(4), range(4, 7)]
    assert episodes(times[:2], 3, window) == []
    assert episodes([], 1, window) == []
