"""Ids for idempotent producers, never given twice (Kafka's ProducerIdManager).

A block of ids is reserved by one record before its first id is given; what is left of a block when
the server ends is lost, which costs nothing: there are 2^63 of them.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from kohort.errors import ErrorCode, KafkaError

BLOCK: Final = 1_000
MAX_ID: Final = 2**63 - 1
IN_HAND: Final = 100
FEW: Final = 10
"""Ids in hand at which `DurableProducerIds` takes more."""


class ProducerIdManager:
    """Hands out ids from reserved blocks."""

    def __init__(self, start: int, reserve: Callable[[int], None]) -> None:
        """`start` is the first id never reserved; `reserve(end)` logs a reservation or raises.

        The reservation is of the ids below `end`.
        """
        self._next = self._end = self._reserved = start
        self._reserve = reserve

    def next(self) -> int:
        """A new id.

        Raises what `reserve` raises, and KafkaError UNKNOWN_SERVER_ERROR if no ids are left.
        """
        if self._next == self._end:
            block = self.block()
            self._next, self._end = block.start, block.stop
        given, self._next = self._next, self._next + 1
        return given

    def block(self) -> range:
        """New ids for somebody else to hand out. Raises as `next` does."""
        start, end = self._reserved, min(self._reserved + BLOCK, MAX_ID)
        if start == end:
            raise KafkaError(ErrorCode.unknown_server_error, "no producer ids are left")
        self._reserve(end)
        self._reserved = end
        return range(start, end)

    def reserved_elsewhere(self, end: int) -> None:
        """Another node has reserved the ids below `end`."""
        self._reserved = end

    def drop_block(self) -> None:
        """Give no more ids of the block: its reservation may not be on the disk."""
        self._next = self._end


class DurableProducerIds:
    """Ids in hand, whose reservation no power loss takes back.

    A transactional id keeps its producer id over restarts, so that must not be given again.
    """

    def __init__(self, take: Callable[[], Awaitable[Iterable[int]]]) -> None:
        """`take` returns more new ids than `FEW`, whose reservation is durable, or raises."""
        self._take = take
        self._in_hand: deque[int] = deque()
        self._filling = asyncio.Lock()

    async def fill(self) -> None:
        """Return when there are ids in hand.

        Raises what `take` raises.
        """
        if len(self._in_hand) > FEW:
            return
        async with self._filling:
            if len(self._in_hand) <= FEW:
                self._in_hand += await self._take()

    def next(self) -> int:
        """A new id. Raises KafkaError COORDINATOR_LOAD_IN_PROGRESS if none is in hand."""
        if not self._in_hand:
            raise KafkaError(ErrorCode.coordinator_load_in_progress, "no producer ids in hand")
        return self._in_hand.popleft()
