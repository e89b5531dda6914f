"""Responses of several groups, collected for one response: requests that name many groups."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any


class ResponseCollector:
    """Hands out one callback per request; calls `finished` with all responses, in that order.

    Responses may come in any order, also while requests are still being submitted: `seal` says that
    there are no more requests.
    """

    def __init__(self, finished: Callable[[Sequence[Any]], None]) -> None:
        self._finished = finished
        self._responses: list[Any] = []
        self._missing = 1  # until sealed

    def callback(self) -> Callable[[Any], None]:
        """A callback that takes one response."""
        self._missing += 1
        self._responses.append(None)
        return partial(self._take, len(self._responses) - 1)

    def seal(self) -> None:
        """End the requests: if no response is missing, `finished` is called now."""
        self._arrived()

    def _take(self, index: int, response: Any) -> None:
        self._responses[index] = response
        self._arrived()

    def _arrived(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._finished(self._responses)
