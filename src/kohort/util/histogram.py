"""Durations counted by upper bound, as Prometheus wants them."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts of values by upper bound."""

    __slots__ = ("_bounds_s", "_counts", "sum_s")

    def __init__(self, bounds_s: Sequence[float]) -> None:
        """`bounds_s` in seconds, ascending."""
        self._bounds_s = bounds_s
        self._counts = [0] * (len(bounds_s) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds_s, seconds)] += 1
        self.sum_s += seconds

    def buckets(self) -> list[tuple[str, int]]:
        """(upper bound, values up to it); the last one is +Inf."""
        total, buckets = 0, []
        for bound, count in zip([*map(str, self._bounds_s), "+Inf"], self._counts, strict=True):
            total += count
            buckets.append((bound, total))
        return buckets
