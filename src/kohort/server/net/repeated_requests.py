"""Requests that a connection sends again with little change: heartbeats, and commits of one topic.

A handler reads such a request from its bytes once and leaves a `RepeatedRequest` with the
connection. The connection compares its next frame with it, and does not parse the frame if it is
the same request. Only parsing is saved: each request is decided by the current state.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final

from kohort.errors import ErrorCode

CORRELATION_ID: Final = 8
"""Offset of the correlation id in a frame: behind the size, the API key and the version."""
AFTER_CORRELATION_ID: Final = CORRELATION_ID + 4


class RepeatedRequest(ABC):
    """A request that its connection may send again, and its state while it is in progress."""

    __slots__ = ()

    api_key: ClassVar[int]

    @abstractmethod
    def matches(self, frame: bytes) -> bool:
        """Whether `frame` is this request again; if so, the values that changed are kept.

        A request that is processed otherwise by now does not match.
        """

    @abstractmethod
    def submit(self, respond: Callable[[ErrorCode], None]) -> None:
        """Process the request that matched; `respond` is called with its error, now or later."""

    @abstractmethod
    def response(self, error: ErrorCode) -> bytes:
        """The whole response frame for the request that matched last."""


class SameRequest(RepeatedRequest):
    """A request that comes again with the same bytes but for the correlation id."""

    __slots__ = ("_before_id", "_behind_id", "_id")

    def __init__(self, frame: bytes) -> None:
        self._before_id = frame[:CORRELATION_ID]
        self._behind_id = frame[AFTER_CORRELATION_ID:]
        self._id = b""

    def matches(self, frame: bytes) -> bool:
        if (
            frame[AFTER_CORRELATION_ID:] != self._behind_id
            or frame[:CORRELATION_ID] != self._before_id
        ):
            return False
        self._id = frame[CORRELATION_ID:AFTER_CORRELATION_ID]
        return True
