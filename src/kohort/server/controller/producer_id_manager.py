"""Ids for the producers of this node (Kafka's ProducerIdManager)."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from kohort.errors import ErrorCode, KafkaError

MIN_IDS: Final = 10
"""Ids in hand at which more are taken."""


class ProducerIdManager:
    """Ids in hand, whose reservation no power loss undoes.

    A transactional id keeps its producer id over restarts, so that must not be given again.
    """

    def __init__(self, next_block: Callable[[], Awaitable[Iterable[int]]]) -> None:
        """`next_block` returns more new ids than `MIN_IDS`, whose reservation is durable, or
        raises.
        """
        self._next_block = next_block
        self._ids: deque[int] = deque()
        self._filling = asyncio.Lock()

    async def fill(self) -> None:
        """Return when there are ids in hand. Raises what `next_block` raises."""
        if len(self._ids) > MIN_IDS:
            return
        async with self._filling:
            if len(self._ids) <= MIN_IDS:
                self._ids += await self._next_block()

    def next(self) -> int:
        """A new id. Raises KafkaError COORDINATOR_LOAD_IN_PROGRESS if none is in hand."""
        if not self._ids:
            raise KafkaError(ErrorCode.coordinator_load_in_progress, "no producer ids in hand")
        return self._ids.popleft()
