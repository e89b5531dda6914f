"""What the demo says of the flights that Spark counted."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from kohort_demo import flights
from kohort_demo.errors import DemoError
from kohort_demo.group import GroupState
from kohort_demo.spark import deviation
from kohort_demo.spark_queries import (
    MAX_POLL_INTERVAL_MS,
    NAMES,
    NO_WORKER,
    SESSION_TIMEOUT_MS,
    STALLED_S,
    Queries,
)


def test_every_flight_once_needs_no_words() -> None:
    assert deviation(flights.COUNT) is None


def test_flights_that_were_counted_twice_are_explained() -> None:
    told = deviation(389_058)
    assert told is not None
    assert told.startswith("52,282 flights were counted twice: a query lost partitions")
    assert "bug" not in told


def test_flights_that_were_left_out_are_a_bug() -> None:
    with pytest.raises(DemoError, match="a bug: 336,775 of 336,776 flights were counted"):
        deviation(336_775)


def test_no_query_loses_partitions_before_the_demo_gives_up() -> None:
    assert MAX_POLL_INTERVAL_MS * 2 / 3 > STALLED_S * 1_000
    assert SESSION_TIMEOUT_MS >= STALLED_S * 1_000


class Query:
    """A query that read so many records, and then failed if there is an `error`."""

    def __init__(self, name: str, read: int, error: str | None = None) -> None:
        self.name = name
        self.recentProgress = [SimpleNamespace(numInputRows=read)]
        self._error = error

    def exception(self) -> Exception | None:
        return None if self._error is None else RuntimeError(self._error)

    def stop(self) -> None:
        """It has no processes."""


class Fakes(Queries):
    """Starts the next of these queries."""

    def __init__(self, directory: Path, *queries: Query) -> None:
        self.said: list[str] = []
        self._next = iter(queries)
        super().__init__(None, "", "", "", directory, self.said.append)  # type: ignore[arg-type]

    def start(self, name: str) -> None:
        self._running[name] = next(self._next)


PROCESSED = GroupState(group="flight-delays")


def test_a_query_whose_python_started_too_late_starts_again(tmp_path: Path) -> None:
    failed = Query("spark-1", 3, f"[STREAM_FAILED] {NO_WORKER}.")
    with Fakes(tmp_path, failed, Query("spark-2", 5), Query("spark-1", 4)) as queries:
        for name in NAMES:
            queries.start(name)
        assert queries.run(lambda: PROCESSED, lambda _: None) == {"spark-1": 7, "spark-2": 5}
    assert len(queries.said) == 1
    assert queries.said[0].startswith("spark-1's Python needed more than the 10 s")


def test_any_other_failure_ends_the_demo(tmp_path: Path) -> None:
    with Fakes(tmp_path, Query("spark-1", 3, "no space left\n at a.b.C")) as queries:
        queries.start("spark-1")
        with pytest.raises(DemoError, match=r"^spark-1 failed: no space left$"):
            queries.run(lambda: PROCESSED, lambda _: None)
