"""A thread with an event loop, to which other threads hand work."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from kohort.errors import KohortError
from kohort.testing.embedded.server_time import ServerTimeLoop

T = TypeVar("T")

CALL_TIMEOUT_S: Final = 60.0
"""Longest time of one call; TimeoutError after that."""


class LoopThread:
    """Runs a `ServerTimeLoop` from `start` to `close`."""

    def __init__(self) -> None:
        self.loop: ServerTimeLoop
        self._ended: asyncio.Event
        self._has_started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kohort-embedded", daemon=True)

    def start(self) -> None:
        """Start the thread, and wait until its loop runs."""
        self._thread.start()
        self._has_started.wait()

    def close(self) -> None:
        """End the loop and the thread. Idempotent."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()

    def call(self, function: Callable[[], T]) -> T:
        """The result of `function`, called on the loop. Raises what it raises, KohortError."""

        async def work() -> T:
            return function()

        return self.run(work())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that runs on the loop. Raises what it raises, KohortError."""
        try:
            result: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:
            work.close()
            raise KohortError("the embedded Kafka is closed") from None
        return result.result(CALL_TIMEOUT_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=ServerTimeLoop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ServerTimeLoop)
        self.loop, self._ended = loop, asyncio.Event()
        self._has_started.set()
        await self._ended.wait()
