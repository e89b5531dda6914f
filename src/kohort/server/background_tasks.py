"""Work of a server beside its requests: warming up, forgetting deleted topics, cleaning logs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Final

from kohort.log.base import LogDirectory
from kohort.runtime.clock import Clock
from kohort.runtime.groups import Groups
from kohort.server.config import Config
from kohort.server.replicas import Topics
from kohort.util.time_slice import TimeSlices

logger = logging.getLogger("kohort.background")

MIN_INTERVAL_MS: Final = 100
"""Shortest pause between two passes: a backoff of 0, which Kafka allows, must not busy the loop."""
REOPEN_INTERVAL_S: Final = 5.0
"""Seconds between two attempts to open the logs that could not be read."""


class BackgroundTasks:
    """The background tasks of a server, from `start` to `close`.

    One that is repeated logs its failure and runs again after its interval.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        logs: LogDirectory,
        topics: Topics,
        groups: Groups,
        warm_ups: Iterable[Callable[[], object]],
    ) -> None:
        """`warm_ups` are called once, each in a turn of the loop of its own."""
        self._config = config
        self._clock = clock
        self._logs = logs
        self._topics = topics
        self._groups = groups
        self._warm_ups = warm_ups
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start every task."""
        self._begin(self._warm_up())
        self._begin(self._forget_deleted_topics())
        self._begin(
            self._repeat("opening logs again", lambda: REOPEN_INTERVAL_S, self._logs.reopen)
        )
        self._begin(self._repeat("retention", self._cleaning_interval_s, self._retain))
        self._begin(self._repeat("compaction", self._cleaning_interval_s, self._compact))

    async def close(self) -> None:
        """Cancel every task. Idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    def _cleaning_interval_s(self) -> float:
        # A pass costs microseconds per log in which nothing is due.
        interval_ms: int = min(
            self._config["log.retention.check.interval.ms"], self._config["log.cleaner.backoff.ms"]
        )
        return max(interval_ms, MIN_INTERVAL_MS) / 1000

    async def _repeat(
        self, name: str, interval: Callable[[], float], work: Callable[[], Awaitable[None]]
    ) -> None:
        while True:
            interval_s = interval()
            await asyncio.sleep(interval_s)
            try:
                await work()
            except Exception:
                logger.exception("%s failed, retrying in %g s", name, interval_s)

    async def _retain(self) -> None:
        """Delete segments that are due, also during a long compaction."""
        await self._logs.retain(self._clock.timestamp())

    async def _compact(self) -> None:
        """Compact logs that are due, of topics, groups and transactions."""
        await self._logs.compact(self._clock.timestamp())

    async def _forget_deleted_topics(self) -> None:
        """Forget offsets of topics that no longer exist.

        A server that is killed between deleting a topic and forgetting its offsets leaves them.
        """
        await self._groups.loaded()
        slices = TimeSlices()
        committed: set[str] = set()
        for group in tuple(self._groups.groups()):
            committed.update(group.offsets.topics)
            await slices.give_way()
        deleted = committed - {topic.name for topic in self._topics.all()}
        if deleted:
            logger.info("deleting the offsets of deleted topics: %s", ", ".join(sorted(deleted)))
            self._groups.topics_deleted(deleted)

    async def _warm_up(self) -> None:
        for warm_up in self._warm_ups:
            await asyncio.sleep(0)
            warm_up()
