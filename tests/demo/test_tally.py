"""Who processed what: in order, twice after a death, or not at all."""

import pytest

from kohort_demo.tally import WorkReport, tally


def report(member: str, first: int, following: int, at: float, partition: int = 0) -> WorkReport:
    flights = following - first
    return WorkReport(
        member=member,
        partition=partition,
        first=first,
        next=following,
        at=at,
        carriers={"UA": (flights, flights, 10)},
    )


def test_batches_in_order_count_once() -> None:
    result = tally([report("a", 0, 5, 1), report("a", 5, 9, 2), report("b", 0, 3, 2, partition=1)])
    assert result.processed == {"a": 9, "b": 3}
    assert (result.duplicates, result.skipped, result.records) == (0, (), 12)
    assert result.carriers == {"UA": (12, 12, 30)}


def test_records_that_a_dead_member_did_not_commit_count_once() -> None:
    """`a` died with offset 5 committed; `b` starts there, in batches of another size."""
    result = tally(
        [report("a", 0, 5, 1), report("a", 5, 8, 2), report("a", 8, 9, 3), report("b", 5, 12, 9)]
    )
    assert result.processed == {"a": 9, "b": 7}
    assert result.again == {"a": 4}
    assert (result.records, result.skipped) == (12, ())
    assert result.carriers["UA"][0] == 12


@pytest.mark.parametrize("following", [9, 12, 14])
def test_a_member_that_went_on_after_its_session_leaves_no_gap(following: int) -> None:
    """`a` stood still, and its successor `b` was already at offset 12 when it went on."""
    reports = [report("a", 0, 5, 1), report("a", 5, 8, 2), report("b", 5, 10, 3)]
    reports += [report("b", 10, 12, 4), report("a", 8, following, 5), report("b", 12, 20, 6)]
    result = tally(reports)
    assert (result.skipped, result.records) == ((), 20)
    assert result.carriers["UA"][0] == 20
    assert sum(result.processed.values()) - result.duplicates == 20


def test_a_gap_is_told() -> None:
    result = tally([report("a", 0, 5, 1), report("b", 7, 9, 2)])
    assert result.skipped == ("partition 0: b went on at offset 7, 5 was reached",)


def test_the_clock_decides_and_not_the_order_of_arrival() -> None:
    assert tally([report("b", 5, 9, 2), report("a", 0, 5, 1)]).duplicates == 0


def test_a_member_line_becomes_a_report() -> None:
    line = {"partition": 2, "first": 10, "next": 12, "at": 1.5, "carriers": {"HA": [2, 1, -7]}}
    told = WorkReport.told("a", line)
    assert (told.records, told.carriers) == (2, {"HA": (2, 1, -7)})


@pytest.mark.parametrize("reports", [[], [report("a", 0, 1, 1)]])
def test_an_empty_or_short_show(reports: list[WorkReport]) -> None:
    assert tally(reports).records == len(reports)
