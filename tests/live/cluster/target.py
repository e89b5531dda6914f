"""A cluster as a server under test, to which faults come instead of restarts."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from live.cluster.checks import check_batches
from live.cluster.database import Database
from live.cluster.faults import Fault, Faults
from live.cluster.nodes import Nodes


class ClusterTarget:
    def __init__(
        self,
        directory: Path,
        *,
        topics: Mapping[str, int],
        seed: int,
        settings: Mapping[str, str],
        report: Callable[[str], None] = print,
    ) -> None:
        """`topics`: those of which partitions are moved, and how many those are."""
        self.violations: list[str] = []
        self.faults: Counter[str] = Counter()
        self._report = report
        self._deck: list[Fault] = []
        self._database = Database()
        self._nodes = Nodes(self._database.url, directory, settings)
        self._faults = Faults(
            self._nodes,
            self._database,
            random.Random(seed),
            self.violations.append,
            topics,
            lambda: None,
        )
        self.address = self._nodes.address
        self._nodes.start_all()

    def restart(self, _how: signal.Signals, _away_seconds: float = 0) -> None:
        """Have the next fault happen; back when it is over."""
        self.violations += self._nodes.ended()
        self._deck = self._deck or self._faults.deck()
        fault = self._deck.pop()
        self._report(fault.__name__)
        self.faults[fault.__name__] += 1
        asyncio.run(fault(self._faults))

    def check(self) -> list[str]:
        """What is wrong with the nodes and the tables."""
        return [*self.violations, *self._nodes.ended(), *check_batches(self._database.primary)]

    def stop(self) -> None:
        self._nodes.stop()
        self._database.stop()
