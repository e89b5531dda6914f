"""A connection whose callers block: the start of a server, and what other threads read.

It has a thread and an event loop of its own, so it works while the server's loop is blocked, or not
running yet.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from threading import Thread
from typing import Any, Final, TypeVar

from kohort.cluster import FencedError, UnknownOutcomeError
from kohort.storage.postgres import exclusive_lock
from kohort.storage.postgres.errors import DatabaseError, outcome
from kohort.storage.postgres.link import Connection, Link, Opened, retry_delays

T = TypeVar("T")

CONTROL_TIMEOUT_S: Final = 5.0
"""Seconds that a blocked caller waits for a database that is away."""


class BlockingConnection:
    """One connection with a thread. Its methods are for other threads than that."""

    def __init__(self, url: str, name: str, opened: Opened | None = None) -> None:
        """The arguments are those of `Link`."""
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="kohort-postgres", daemon=True)
        self._thread.start()
        self.link = Link(url, name, opened)
        self._turn = asyncio.Lock()
        self._exclusive_connection: Connection | None = None
        """The connection with the exclusive lock; None if no lock is to be held."""
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work` in that thread, alone; blocks. Raises what it raises."""
        return asyncio.run_coroutine_threadsafe(self._in_turn(work), self._loop).result()

    async def _in_turn(self, work: Coroutine[Any, Any, T]) -> T:
        async with self._turn:
            return await work

    def query(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """The result of statements that may be repeated; blocks. Raises OSError, KohortError."""
        return self.run(self._query(work))

    async def _query(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        delays = iter(retry_delays())
        delay, waited = next(delays), 0.0
        while True:
            try:
                with outcome():
                    connection = await self.link.get()
                    await self._lock_again(connection)
                    return await work(connection)
            except FencedError as error:
                raise DatabaseError(None, str(error)) from error
            except UnknownOutcomeError as error:
                self.link.drop()
                if waited >= CONTROL_TIMEOUT_S:
                    raise DatabaseError(None, f"PostgreSQL cannot be reached: {error}") from error
            await asyncio.sleep(delay)
            waited += delay
            delay = next(delays, delay)

    def keep_exclusive(self, connection: Connection) -> None:
        """Take the exclusive lock with each later connection; `connection` has it."""
        self._exclusive_connection = connection

    async def _lock_again(self, connection: Connection) -> None:
        if self._exclusive_connection not in (None, connection):
            await exclusive_lock.lock(connection, exclusive_lock.EXCLUSIVE)
            self._exclusive_connection = connection

    def close(self) -> None:
        """Close the connection, and end the thread. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self.run(self.link.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
