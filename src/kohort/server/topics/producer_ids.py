"""Ids for idempotent producers, never given twice (Kafka's ProducerIdManager).

A block of ids is reserved by one record before its first id is given; what is left of a block when
the server ends is lost, which costs nothing: there are 2^63 of them.
"""

from collections.abc import Callable
from typing import Final

from kohort.errors import ErrorCode, KafkaError

BLOCK: Final = 1_000
MAX_ID: Final = 2**63 - 1


class ProducerIdManager:
    """Hands out ids from reserved blocks."""

    def __init__(self, start: int, reserve: Callable[[int], None]) -> None:
        """`start` is the first id never reserved; `reserve(end)` logs a reservation or raises.

        The reservation is of the ids below `end`.
        """
        self._next = self._end = start
        self._reserve = reserve

    def next(self) -> int:
        """A new id.

        Raises what `reserve` raises, and KafkaError UNKNOWN_SERVER_ERROR if no ids are left.
        """
        if self._next == self._end:
            end = min(self._end + BLOCK, MAX_ID)
            if end == self._end:
                raise KafkaError(ErrorCode.unknown_server_error, "no producer ids are left")
            self._reserve(end)
            self._end = end
        given, self._next = self._next, self._next + 1
        return given

    def drop_block(self) -> None:
        """Give no more ids of the block: its reservation may not be on the disk."""
        self._next = self._end
