"""A chaos run of three nodes on one PostgreSQL."""

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from live.chaos.checks import Content
from live.chaos.run import GROUP_LOG, Plans, Run
from live.chaos.settings import (
    MEMBERS,
    PARTITIONS,
    PRODUCERS,
    SERVER_SETTINGS,
    TOPICS,
)
from live.cluster import programs
from live.cluster.checks import check_batches
from live.cluster.database import Database
from live.cluster.faults import Fault, Faults
from live.cluster.nodes import Nodes
from live.cluster.programs import Fed, Programs, check_fed

CALM_EVERY = 10
"""Faults until every client has to show that it goes on."""
WORKING_SECONDS = (0.2, 4.0)
"""From one fault to the next."""
WITHIN_SECONDS = 60.0
"""In which every client goes on by itself."""
WHOLE_RUN = (1e9, 1e9)
PLANS = Plans(
    tuple(replace(each, life_seconds=WHOLE_RUN) if each.idempotent else each for each in PRODUCERS),
    tuple(replace(each, life_seconds=WHOLE_RUN) if each.number == 1 else each for each in MEMBERS),
)
"""Nobody but the fault's end helps a client that lives for the whole run."""


class ClusterRun(Run):
    leaders_stay = False

    def __init__(
        self,
        directory: Path,
        *,
        seed: int,
        kills: int = 0,
        seconds: float = math.inf,
        report: Callable[[str], None] = lambda _: None,
        database: Database | None = None,
    ) -> None:
        """It ends after so many kills or seconds; without kills, after each fault came once."""
        self._seconds = seconds
        self.database = database or Database()
        settings = {**SERVER_SETTINGS, "cluster.rebalance.delay.ms": "500"}
        self.nodes = Nodes(self.database.url, directory, settings)
        super().__init__(
            self.nodes.address,
            directory / "clients.log",
            kills=kills,
            seed=seed,
            plans=PLANS,
            recovery_seconds=WITHIN_SECONDS,
            report=report,
        )
        self._directory = directory
        self._fed: Mapping[str, Fed] = {}
        self._others: Programs | None = None
        if not (reason := programs.missing()):
            self.clients |= {each.name for each in programs.PROGRAMS}
            self.groups += programs.GROUPS
            self.topics += programs.FED_TOPICS
        else:
            report(f"without Apache Kafka's clients and franz-go: {reason}")
        self._has_programs = not reason
        self.faults: Counter[str] = Counter()
        self._faults = Faults(
            self.nodes,
            self.database,
            self.random,
            self.ledger.violation,
            dict.fromkeys(TOPICS, PARTITIONS) | {GROUP_LOG: 4},
            self.count_kill,
        )
        self._deck = self.deal()

    def deal(self) -> list[Fault]:
        """The faults that come next, the last of them first."""
        return self._faults.deck(each_once=not self.kills)

    def is_over(self) -> bool:
        if not self.kills:
            return not self._deck
        return super().is_over() or self.elapsed_s > self._seconds

    async def start(self) -> None:
        await asyncio.to_thread(self.nodes.start_all)

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        if not self._has_programs:
            async with super().working():
                yield
            return
        others = self._others = Programs(self.address, self._directory, self.ledger)
        try:
            async with super().working():
                yield
        finally:
            self._fed = await asyncio.to_thread(others.stop)

    async def disturb(self) -> None:
        await asyncio.sleep(self.random.uniform(*WORKING_SECONDS))
        self._look()
        self._deck = self._deck or self.deal()
        fault = self._deck.pop()
        self.report(f"{self.elapsed_s:.1f} s: {fault.__name__}")
        await fault(self._faults)
        self.faults[fault.__name__] += 1
        if self.faults.total() % CALM_EVERY == 0:
            await self.heal()
            await self.all_go_on()
            self.report(f"{self.elapsed_s:.1f} s: all were asked to go on")

    def _look(self) -> None:
        for each in self.nodes.ended():
            self.ledger.violation(each)
        if self._others is not None:
            self._others.restart_ended()

    async def heal(self) -> None:
        await asyncio.to_thread(self.nodes.await_listening)
        self._look()

    def check(
        self, contents: dict[str, dict[int, Content]], names: Mapping[UUID, str]
    ) -> Iterator[str]:
        yield from super().check(contents, names)
        for topic, fed in self._fed.items():
            yield from check_fed(topic, fed, contents[topic])
        yield from check_batches(self.database.primary)

    def stop(self) -> None:
        self.nodes.stop()
        self.database.stop()
