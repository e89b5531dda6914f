"""A log that a flood of bad peers cannot fill."""

import logging
import time
from collections.abc import Callable
from typing import Final

PERIOD_S: Final = 10.0
PER_PERIOD: Final = 20


class QuietLog:
    """Passes on so many lines in each period; the first line of the next one says how many were
    left out.
    """

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._period_ends = 0.0
        self._lines = 0

    def log(self, level: int, message: str, *arguments: object) -> None:
        """Log as `logging` does, or count the line as left out."""
        now = self._clock()
        if now >= self._period_ends:
            if self._lines > PER_PERIOD:
                self._logger.log(
                    level, "%d more lines like these were left out", self._lines - PER_PERIOD
                )
            self._period_ends = now + PERIOD_S
            self._lines = 0
        self._lines += 1
        if self._lines <= PER_PERIOD:
            self._logger.log(level, message, *arguments)
