"""What a server does beside answering: it makes ready, lets old segments go, and compacts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Final

from kohort.protocol.apis import APIS

if TYPE_CHECKING:
    from kohort.server.broker import Broker

logger = logging.getLogger("kohort.chores")

LEAST_INTERVAL_MS: Final = 100
"""A backoff of 0, which Kafka allows, must not keep the loop busy."""


class Chores:
    """Periodic tasks of a broker, from `start` to `close`. One that fails says so and is tried
    again in time.
    """

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        config = self._broker.config
        self._begin(self._warm_up())
        self._begin(self._forget_deleted_topics())
        # One pass does both; it costs microseconds per log where nothing is due.
        interval_ms = min(
            config["log.retention.check.interval.ms"], config["log.cleaner.backoff.ms"]
        )
        self._begin(
            self._repeat("cleaning", max(interval_ms, LEAST_INTERVAL_MS) / 1000, self._clean)
        )

    async def close(self) -> None:
        """Stop them, in the middle if need be. Idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _repeat(
        self, name: str, interval_s: float, chore: Callable[[], Awaitable[None]]
    ) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await chore()
            except Exception:
                logger.exception("%s failed and is tried again in %g s", name, interval_s)

    async def _clean(self) -> None:
        """Delete and compact what is due, of topics, groups and metadata."""
        await self._broker.logs.clean(self._broker.clock.now())

    async def _forget_deleted_topics(self) -> None:
        """Do what a server did not come to that was killed between deleting a topic and forgetting
        its offsets.
        """
        groups = self._broker.groups
        await groups.loaded()
        committed = {partition.topic for group in groups.groups() for partition in group.offsets}
        gone = committed - {topic.name for topic in self._broker.topics.all()}
        if gone:
            logger.info(
                ("forgetting the offsets of topics that were deleted: %s"), ", ".join(sorted(gone))
            )
            groups.topics_deleted(gone)

    async def _warm_up(self) -> None:
        """Import the handlers one by one, so that no client waits for an import; answer others in
        between.
        """
        for api_key in APIS:
            await asyncio.sleep(0)
            self._broker.listener.handler(api_key)
