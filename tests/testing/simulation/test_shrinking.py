"""The search for a small list of faults."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from kohort.testing import Fault
from kohort.testing.simulation.shrinking import shrink


def fault(at_s: int, seconds: float = 0.0) -> Fault:
    return Fault(float(at_s), "pause", "worker", seconds)


@given(st.integers(1, 40), st.data())
def test_only_the_needed_faults_are_left(count: int, data: st.DataObject) -> None:
    faults = [fault(at_s) for at_s in range(count)]
    needed = data.draw(st.sets(st.sampled_from(faults)))
    found = shrink(faults, lambda fewer: needed <= set(fewer), 10_000)
    assert set(found) == needed
    assert found == sorted(found, key=lambda each: each.at_s)


@given(st.integers(0, 12), st.integers(0, 30))
def test_the_smallest_list_fails_with_any_number_of_tries(tries: int, count: int) -> None:
    calls = 0

    def still_fails(fewer: Sequence[Fault]) -> bool:
        nonlocal calls
        calls += 1
        return len(fewer) >= count // 2

    found = shrink([fault(at_s) for at_s in range(count)], still_fails, tries)
    assert len(found) >= count // 2
    assert calls <= tries


def test_faults_are_made_shorter() -> None:
    def still_fails(faults: Sequence[Fault]) -> bool:
        return any(each.seconds > 10 for each in faults)

    assert shrink([fault(1, 60), fault(2, 100)], still_fails, 100) == [fault(2, 12.5)]
