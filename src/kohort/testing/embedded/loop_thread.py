"""A thread with an event loop, to which other threads hand work."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from kohort.errors import KohortError
from kohort.testing.embedded.server_time import ServerTimeLoop

T = TypeVar("T")

CALL_TIMEOUT_S: Final = 60.0
"""Longest time of a call that does not wait."""
WAIT_TIMEOUT_S: Final = 1_800.0
"""Longest time of a call that waits; an advance by a year takes about ten minutes."""


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

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = CALL_TIMEOUT_S) -> T:
        """The result of a coroutine that runs on the loop; it is cancelled if the caller is.

        Raises what it raises, and KohortError: the loop is closed, or needs more than `timeout_s`.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise KohortError(
                "the embedded Kafka waits for this function, which may not use it: decide in "
                "`when` by the request alone"
            )
        result = self._submit(work)
        try:
            return result.result(timeout_s)
        except concurrent.futures.CancelledError:
            raise KohortError("the embedded Kafka was closed meanwhile") from None
        except TimeoutError:
            if result.done():  # one of the coroutine itself
                raise
            raise KohortError(
                f"the embedded Kafka did not respond within {timeout_s:g} s"
            ) from None
        finally:
            result.cancel()

    def _submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        try:
            return asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:
            work.close()
            raise KohortError("the embedded Kafka is closed") from None

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=ServerTimeLoop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ServerTimeLoop)
        self.loop, self._ended = loop, asyncio.Event()
        self._has_started.set()
        await self._ended.wait()
