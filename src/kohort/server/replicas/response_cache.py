"""Encoded responses about topics, kept until a topic changes.

Encoding a Metadata response takes half a millisecond for a hundred partitions, and a thousand
clients send the same request when they start.
"""

from collections.abc import Hashable
from typing import Final

MAX_RESPONSES: Final = 64


class ResponseCache:
    """Response bodies by their request; the oldest goes when there are too many."""

    def __init__(self) -> None:
        self._bodies: dict[Hashable, bytes] = {}
        self.cleared = 0
        """Times that it was cleared: a response begun before that is not to be kept."""

    def __len__(self) -> int:
        return len(self._bodies)

    def get(self, request: Hashable) -> bytes | None:
        return self._bodies.get(request)

    def put(self, request: Hashable, body: bytes) -> None:
        if len(self._bodies) >= MAX_RESPONSES:
            del self._bodies[next(iter(self._bodies))]
        self._bodies[request] = body

    def clear(self) -> None:
        self.cleared += 1
        self._bodies.clear()
