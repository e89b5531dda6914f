"""Durations of the phases of rebalances, as cumulative histograms."""

from typing import Final

from kohort.coordinator.journal import Rebalance
from kohort.util.histogram import Histogram

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class RebalanceDurations:
    """One histogram per phase; a round without a sync phase counts in the first only."""

    def __init__(self) -> None:
        self.join = Histogram(BOUNDS_S)
        self.sync = Histogram(BOUNDS_S)

    def observe(self, rebalance: Rebalance) -> None:
        self.join.observe(rebalance.join_ms / 1000)
        if rebalance.joined is not None:
            self.sync.observe(rebalance.sync_ms / 1000)
