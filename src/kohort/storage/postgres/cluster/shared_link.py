"""A connection of the cluster's storage that several tasks use."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from kohort.errors import KohortError
from kohort.storage.postgres.errors import outcome
from kohort.storage.postgres.link import Link


class SharedLink:
    """A link that several tasks use, one after the other."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._turn = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def use(self) -> AsyncIterator[Any]:
        """The connection; a statement that was not completed ends it.

        Raises OSError, UnknownOutcomeError.
        """
        async with self._turn:
            done = False
            try:
                with outcome():
                    yield await self._link.get()
                done = True
            except (OSError, KohortError):
                done = True  # PostgreSQL has said so
                raise
            finally:
                if not done:
                    self._link.drop()

    async def close(self) -> None:
        await self._link.close()
