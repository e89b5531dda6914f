"""The judge itself: each thing that must never happen is seen when it does."""

from threading import Thread

import pytest

from interop.timeline import OBSERVER, Committed, Event, Gone, Owns, Records, Timeline, violations

A_HOLD = Owns("a", 1, frozenset({"t-0"}))


def took(member: str, at: int, *offsets: int) -> Records:
    return Records(member, at, "t-0", offsets, tuple(str(offset) for offset in offsets))


def handed_over(*, second_starts: int) -> list[Event]:
    return [
        A_HOLD,
        took("a", 2, 0, 1, 2),
        Committed("a", 3, {"t-0": 2}),
        Gone("a", 4),
        Owns("b", 5, frozenset({"t-0"})),
        took("b", 6, *range(second_starts, 4)),
        Committed("b", 7, {"t-0": 4}),
    ]


def test_events_are_taken_while_a_condition_is_looked_at() -> None:
    timeline = Timeline()

    def said() -> bool:
        member = Thread(target=timeline.add, args=[A_HOLD], daemon=True)
        member.start()
        member.join(60)
        return not member.is_alive()

    timeline.wait_until(said, "an event while it waits", 0)
    assert timeline.events == [A_HOLD]


def test_a_hand_over_from_the_committed_offset_is_right() -> None:
    assert violations(handed_over(second_starts=2), {"t-0": 4}) == []


def test_a_lost_commit_is_seen() -> None:
    assert violations(handed_over(second_starts=0), {"t-0": 4}) == [
        "b's hold of t-0 began at offset 0, although 2 was committed"
    ]


def test_a_skipped_record_is_seen() -> None:
    found = violations([A_HOLD, took("a", 2, 0, 1), took("a", 3, 3)], {"t-0": 4})
    assert found == [
        "t-0: 1 of 4 records never processed, from offset 2 on",
        "a's hold of t-0: offset 1 was followed by 3",
    ]


def test_a_commit_ahead_of_processing_is_seen() -> None:
    found = violations(
        [A_HOLD, took("a", 2, 0), Committed("a", 3, {"t-0": 2}), took("a", 4, 1)], {"t-0": 2}
    )
    assert found == ["t-0: 2 committed before offset 1 was processed"]


def test_a_commit_seen_by_an_observer_may_be_seen_early_but_counts() -> None:
    seen = Committed(OBSERVER, 2, {"t-0": 2})
    assert violations([A_HOLD, seen, took("a", 3, 0, 1)], {"t-0": 2}) == []
    again: list[Event] = [
        A_HOLD,
        took("a", 1, 0, 1),
        seen,
        Owns("b", 5, frozenset({"t-0"})),
        Gone("a", 4),
        took("b", 6, 1),
    ]
    assert violations(again, {"t-0": 2}) == [
        "b's hold of t-0 began at offset 1, although 2 was committed"
    ]


@pytest.mark.parametrize(("end_of_first", "right"), [(4, True), (6, False)])
def test_two_owners_at_one_time_are_seen(end_of_first: int, right: bool) -> None:
    events: list[Event] = [A_HOLD, Owns("b", 5, frozenset({"t-0"})), Gone("a", end_of_first)]
    assert violations(events, {}) == (
        [] if right else [("b's hold of t-0 began before a's had ended")]
    )
