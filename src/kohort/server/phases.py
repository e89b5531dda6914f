"""How long the phases of rebalances took, as cumulative histograms."""

from bisect import bisect_left
from typing import Final

from kohort.coordinator.journal import Rebalance

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Histogram:
    """Counts of values by upper bound."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def buckets(self) -> list[tuple[str, int]]:
        """(upper bound, values up to it), as Prometheus wants them; the last one is +Inf."""
        total, found = 0, []
        for bound, count in zip([*map(str, BOUNDS_S), "+Inf"], self._counts, strict=True):
            total += count
            found.append((bound, total))
        return found


class Phases:
    """One histogram for each phase; a round that never reached its sync phase counts in the first only."""

    def __init__(self) -> None:
        self.join = Histogram()
        self.sync = Histogram()

    def observe(self, rebalance: Rebalance) -> None:
        self.join.observe(rebalance.join_ms / 1000)
        if rebalance.joined is not None:
            self.sync.observe(rebalance.sync_ms / 1000)
