"""The nodes that follow the metadata log of this one, with their fetch offsets."""

import asyncio
from collections.abc import Hashable
from contextlib import suppress
from typing import Final

MAX_WAIT_S: Final = 0.1
"""A node that is slow does not hold up changes for longer."""


class Followers:
    """Followers by connection; a follower has all records before the offset that it fetches."""

    def __init__(self) -> None:
        self._offsets: dict[Hashable, int] = {}
        self._moved = asyncio.Event()
        """Set, and replaced, when a follower fetches from a later offset, or is removed."""

    def update(self, connection: Hashable, offset: int) -> None:
        """The node at the other end fetches from `offset` on."""
        self._offsets[connection] = offset
        self._notify()

    def remove(self, connection: Hashable) -> None:
        """Stop waiting for a node."""
        self._offsets.pop(connection, None)
        self._notify()

    async def await_caught_up(self, offset: int) -> None:
        """Return when all followers have the records before `offset`, or after `MAX_WAIT_S`."""
        if self._are_caught_up(offset):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(MAX_WAIT_S):
                while not self._are_caught_up(offset):
                    await self._moved.wait()

    def _are_caught_up(self, offset: int) -> bool:
        return all(fetched >= offset for fetched in self._offsets.values())

    def _notify(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()
