"""Rebalances as log lines and as counters."""

import logging
from collections import Counter

from kohort.coordinator.journal import Rebalance
from kohort.coordinator.rounds import MOST_CAUSES
from kohort.server.logs import fields
from kohort.server.monitoring.phases import Phases

logger = logging.getLogger("kohort.groups")


class Rebalances:
    """Logs every rebalance that ended, and counts it."""

    def __init__(self) -> None:
        self.causes: Counter[tuple[str, str, str]] = Counter()
        """Rebalances by (type of the group, first cause, outcome)."""
        self.phases = Phases()

    def observe(self, rebalance: Rebalance) -> None:
        """Log one rebalance, count it, and add the durations of its phases."""
        first = rebalance.causes[0].what if rebalance.causes else "unknown"
        self.causes[rebalance.type, first, rebalance.outcome] += 1
        self.phases.observe(rebalance)
        logger.info("rebalance", extra=fields(**_log_fields(rebalance)))


def _log_fields(rebalance: Rebalance) -> dict[str, object]:
    causes = Counter(
        " ".join(
            word
            for word in (cause.what, cause.client_id or cause.member_id, f"({cause.reason})")
            if word != "()"
        )
        for cause in rebalance.causes
    )
    values: dict[str, object] = {
        "group": rebalance.group,
        "generation": rebalance.generation,
        "outcome": rebalance.outcome,
        "members": len(rebalance.members),
        "join_ms": rebalance.join_ms,
        "sync_ms": rebalance.sync_ms,
        "causes": [cause if count == 1 else f"{cause} ×{count}" for cause, count in causes.items()],
    }
    if rebalance.more_causes:
        values["more_causes"] = rebalance.more_causes
    if rebalance.awaited:
        values["awaited"] = list(rebalance.awaited[:MOST_CAUSES])
    return values
