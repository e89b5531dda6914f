"""Times at which a log partition had no records: its coordinator may have been down."""

from typing import Any, Final, TypeAlias

import numpy as np

from kohort.columnar.commit_tables import NONE

Array: TypeAlias = Any

LEAST_US: Final = 1_000_000
"""A second: shorter silences say nothing."""
KEPT: Final = 64


class Silence:
    """The last silences of the log, in µs of its time: the running maximum of record times."""

    def __init__(self, silences: list[tuple[int, int]] | None = None) -> None:
        self.silences = silences or []
        """(last record before, first record after)."""
        self._coming: list[tuple[int, int, int]] = []

    def look_ahead(self, before: int, log_times: Array) -> None:
        """Find the silences of records that are to be folded; `before`: the log's time then."""
        former = np.empty_like(log_times)
        former[:1], former[1:] = before, log_times[:-1]
        found = np.flatnonzero(log_times - LEAST_US >= former)
        self._coming = [
            (row, int(former[row]), int(log_times[row]))
            for row in found[::-1].tolist()
            if former[row] != NONE
        ]

    def advance(self, record: int) -> None:
        """The records up to this one are folded."""
        while self._coming and self._coming[-1][0] <= record:
            _, start, end = self._coming.pop()
            self.silences.append((start, end))
        del self.silences[:-KEPT]

    def was_silent(self, since: int, until: int) -> bool:
        """Whether there was no record between these times, a second or more."""
        return until - since >= LEAST_US and any(
            start <= since and until <= end for start, end in reversed(self.silences)
        )
