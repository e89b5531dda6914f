"""Counters that a client keeps, and `values` shows.

They are changed on the event loop's thread and read from any: each is copied in one step.
"""

from typing import Final

from kohort.client.errors import GaveUpError
from kohort.client.metrics.values import Durations, RequestMetrics
from kohort.errors import KafkaError
from kohort.util.histogram import Histogram

BOUNDS_S: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)
"""Upper bounds of the buckets: from a request within a machine to a rebalance or a time limit."""


class DurationCounter:
    """Counts durations."""

    __slots__ = ("_histogram", "_last_s")

    def __init__(self) -> None:
        self._histogram = Histogram(BOUNDS_S)
        self._last_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self._histogram.observe(seconds)
        self._last_s = seconds

    def snapshot(self) -> Durations:
        """The counters of this moment."""
        buckets = tuple(self._histogram.buckets())
        return Durations(
            count=buckets[-1][1],
            total_ms=self._histogram.sum_s * 1000,
            last_ms=self._last_s * 1000,
            buckets=buckets,
        )


class ReasonCounter:
    """Counts errors by `reason`."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def count(self, why: str) -> None:
        """Count one more for that reason."""
        self._counts[why] = self._counts.get(why, 0) + 1

    def snapshot(self) -> dict[str, int]:
        """The counters of this moment."""
        return dict(self._counts)


class RequestCounter:
    """Counts requests of one kind, and those that failed."""

    __slots__ = ("failures", "latency")

    def __init__(self) -> None:
        self.latency = DurationCounter()
        self.failures = ReasonCounter()

    def snapshot(self) -> RequestMetrics:
        """The counters of this moment."""
        return RequestMetrics(latency=self.latency.snapshot(), failures=self.failures.snapshot())


def reason(error: BaseException) -> str:
    """The kind of an error: the name of its wire code, else of its class. Of few values."""
    if isinstance(error, GaveUpError) and error.last is not None:
        return reason(error.last)
    return error.code.name.upper() if isinstance(error, KafkaError) else type(error).__name__
