"""Sentences about rebalances, for people."""

from kohort.coordinator.journal import Rebalance


def became(rebalance: Rebalance) -> str:
    """What it made: `generation 3`, or why it made none."""
    if rebalance.outcome == "stable":
        return f"generation {rebalance.generation}"
    if rebalance.outcome == "empty":
        return "an empty group"
    return f"{rebalance.outcome}, another round followed"
