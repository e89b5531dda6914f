"""What a server does beside answering: it makes ready, lets old segments go, and compacts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kohort.protocol.apis import APIS

if TYPE_CHECKING:
    from kohort.server.broker import Broker

logger = logging.getLogger("kohort.chores")


class Chores:
    """Periodic tasks of a broker, from `start` to `close`. One that fails says so and is tried again in time."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        config = self._broker.config
        self._begin(self._warm_up())
        self._every("retention", config["log.retention.check.interval.ms"], self._apply_retention)
        if config["log.cleaner.enable"]:
            self._every("compaction", max(config["log.cleaner.backoff.ms"], 100), self._compact)

    async def close(self) -> None:
        """Stop them, in the middle if need be. Idempotent."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Awaitable[None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))  # type: ignore[arg-type]

    def _every(self, name: str, interval_ms: int, chore: Callable[[], Awaitable[None]]) -> None:
        self._begin(self._repeat(name, interval_ms / 1000, chore))

    async def _repeat(self, name: str, interval_s: float, chore: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await chore()
            except Exception:
                logger.exception("%s failed and is tried again in %g s", name, interval_s)

    async def _warm_up(self) -> None:
        """Import the handlers one by one, so that no client waits for an import; answer others in between."""
        for api_key in APIS:
            await asyncio.sleep(0)
            self._broker.listener.handler(api_key)
