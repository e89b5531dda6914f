"""Lag in records against a reader that counts, for every small log."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.lag import NOT_FETCHED, Case, NextRecord, RecordsLag, records_lag

OFFSETS = st.integers(0, 2**63 - 1)


@dataclass(frozen=True)
class Log:
    """A log as a consumer sees it."""

    start: int
    end: int
    stable: int
    records: Sequence[int]
    """Offsets of the records that are left, markers not included."""

    def unread(self, committed: int, *, read_committed: bool) -> list[int]:
        """The records that a consumer gets from the commit on."""
        end = self.stable if read_committed else self.end
        return [offset for offset in self.records if max(committed, self.start) <= offset < end]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    start = draw(st.integers(0, 5))
    end = draw(st.integers(start, start + 8))
    stable = draw(st.integers(start, end))
    return Log(start, end, stable, sorted(draw(st.sets(st.integers(start, end))) - {end}))


@settings(max_examples=examples(60))
@given(log=logs(), committed=st.integers(0, 16), read_committed=st.booleans())
def test_lag_is_never_below_the_records_that_a_reader_counts(
    log: Log, committed: int, read_committed: bool
) -> None:
    found = records_lag(committed, log.start, log.end, log.stable, read_committed=read_committed)
    unread = log.unread(committed, read_committed=read_committed)
    assert found.lag is not None
    assert found.lag >= len(unread)


@settings(max_examples=examples(60))
@given(log=logs(), committed=st.integers(0, 16), read_committed=st.booleans())
def test_lag_is_what_a_reader_counts_if_offsets_behind_the_next_record_are_all_records(
    log: Log, committed: int, read_committed: bool
) -> None:
    unread = log.unread(committed, read_committed=read_committed)
    end = log.stable if read_committed else log.end
    found = records_lag(
        committed,
        log.start,
        log.end,
        log.stable,
        read_committed=read_committed,
        next_record=unread[0] if unread else None,
    )
    if not unread or len(unread) == end - unread[0]:
        assert found.lag == len(unread)
    else:
        assert found.lag is not None
        assert found.lag > len(unread)


@settings(max_examples=examples(60))
@given(
    committed=st.none() | st.integers(-(2**63), 2**63 - 1),
    start=OFFSETS,
    end=OFFSETS,
    stable=st.none() | OFFSETS,
    read_committed=st.booleans(),
    next_record=st.just(NOT_FETCHED) | st.none() | OFFSETS,
    has_holes=st.booleans(),
)
def test_no_figure_is_negative_and_the_lag_is_null_without_a_commit_only(
    committed: int | None,
    start: int,
    end: int,
    stable: int | None,
    read_committed: bool,
    next_record: NextRecord,
    has_holes: bool,
) -> None:
    found = records_lag(
        committed,
        start,
        end,
        stable,
        read_committed=read_committed,
        next_record=next_record,
        has_holes=has_holes,
    )
    assert found.lost >= 0
    assert (found.lost > 0) == (found.case is Case.RETENTION_PASSED)
    assert (found.lag is None) == (found.case is Case.NO_COMMIT)
    assert (found.lag is None) == (committed is None or committed < 0)
    assert found.lag is None or found.lag >= 0
    if found.case in (Case.STALE_END, Case.MARKERS):
        assert found.lag == 0


@pytest.mark.parametrize("committed", [None, -1, -5])
def test_no_commit_is_no_lag_and_not_the_whole_log(committed: int | None) -> None:
    assert records_lag(committed, 3, 10) == RecordsLag(None, 0, Case.NO_COMMIT)


def test_records_below_the_log_start_are_lost_and_no_lag() -> None:
    assert records_lag(3, 10, 14) == RecordsLag(4, 7, Case.RETENTION_PASSED)


def test_a_commit_at_the_log_start_lost_nothing() -> None:
    assert records_lag(10, 10, 14) == RecordsLag(4, 0, Case.OK)


def test_an_end_below_the_commit_is_stale() -> None:
    assert records_lag(15, 0, 14) == RecordsLag(0, 0, Case.STALE_END)


def test_a_reader_of_committed_records_lags_behind_the_last_stable_offset() -> None:
    assert records_lag(5, 0, 14, 8, read_committed=True) == RecordsLag(3, 0, Case.OK)
    assert records_lag(5, 0, 14, 8) == RecordsLag(9, 0, Case.OK)


def test_a_commit_above_the_last_stable_offset_is_no_stale_end() -> None:
    assert records_lag(10, 0, 14, 8, read_committed=True) == RecordsLag(0, 0, Case.OK)


def test_a_fetch_without_records_shows_that_markers_are_left() -> None:
    assert records_lag(13, 0, 14, next_record=None) == RecordsLag(0, 0, Case.MARKERS)
    assert records_lag(14, 0, 14, next_record=None) == RecordsLag(0, 0, Case.OK)


def test_a_next_record_that_came_after_the_end_was_read_is_no_lag() -> None:
    assert records_lag(13, 0, 14, next_record=14) == RecordsLag(0, 0, Case.MARKERS)


def test_a_next_record_above_the_commit_shortens_the_lag_to_an_upper_bound() -> None:
    assert records_lag(5, 0, 14, next_record=10) == RecordsLag(4, 0, Case.UPPER_BOUND)
    assert records_lag(5, 0, 14, next_record=5) == RecordsLag(9, 0, Case.OK)


def test_lag_of_a_compacted_topic_is_an_upper_bound_but_0_is_exact() -> None:
    assert records_lag(5, 0, 14, has_holes=True) == RecordsLag(9, 0, Case.UPPER_BOUND)
    assert records_lag(14, 0, 14, has_holes=True) == RecordsLag(0, 0, Case.OK)
