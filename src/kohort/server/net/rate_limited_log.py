"""A log whose lines per period are bounded, so that misbehaving clients cannot fill it."""

import logging
import time
from collections.abc import Callable
from typing import Final

PERIOD_S: Final = 10.0
PER_PERIOD: Final = 20


class RateLimitedLog:
    """Logs up to `PER_PERIOD` lines per period, then says how many lines it dropped."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] | None = None) -> None:
        """`clock` is in seconds; None: `time.monotonic`."""
        self._logger = logger
        self._clock = clock or time.monotonic
        self._period_ends = 0.0
        self._lines = 0

    def log(self, level: int, message: str, *arguments: object) -> None:
        """Log as `logging` does, or count the line as dropped."""
        now = self._clock()
        if now >= self._period_ends:
            if self._lines > PER_PERIOD:
                self._logger.log(
                    level, "%d similar lines were suppressed", self._lines - PER_PERIOD
                )
            self._period_ends = now + PERIOD_S
            self._lines = 0
        self._lines += 1
        if self._lines <= PER_PERIOD:
            self._logger.log(level, message, *arguments)
