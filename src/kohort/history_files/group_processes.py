"""Applies functions to each group of a history, in several processes.

A process reads a part of the groups at a time, so each takes the memory of a part. Results come in
the order of the groups, whatever the number of processes. The processes end with the one that
started them, however that ends.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Final, TypeVar

import pyarrow as pa  # type: ignore[import-untyped]

from kohort.errors import KohortError
from kohort.history_files.group_history import GroupHistories, GroupHistory, GroupPart
from kohort.util.processors import processors

Result = TypeVar("Result")
ROWS_PER_PROCESS: Final = 500_000
"""Rows for which another process is worth its start, which takes about a second."""


class GroupProcesses:
    """Processes that read the groups of a history; a context manager that ends them.

    `most`: how many, by default one for each processor if there are enough rows. A single one is
    this process.
    """

    def __init__(
        self, histories: GroupHistories, parts: Sequence[GroupPart], most: int | None = None
    ) -> None:
        self._histories = histories
        self._executor: ProcessPoolExecutor | None = None
        if (count := _number_of_processes(parts, most)) > 1:
            context = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(count, context, _begin, (histories,))

    def __enter__(self) -> "GroupProcesses":
        return self

    def __exit__(self, *_: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def each(
        self, parts: Sequence[GroupPart], function: Callable[[GroupHistory], Result]
    ) -> Iterator[Result]:
        """What `function` makes of each group of these parts, in their order.

        Function and results have to be picklable. Raises KohortError, also if a process was
        killed; and what `function` raises.
        """
        if self._executor is None:
            for part in parts:
                yield from map(function, self._histories.read(part))
            return
        # The largest ones first, so that no process is left with one at the end.
        largest_first = sorted(range(len(parts)), key=lambda number: -parts[number].rows)
        try:
            results = {
                number: self._executor.submit(_each, function, parts[number])
                for number in largest_first
            }
            for number in range(len(parts)):
                yield from results.pop(number).result()
        except BrokenProcessPool:
            raise KohortError(
                "a process that read groups was killed: if memory ran out, use fewer processes"
            ) from None


def _number_of_processes(parts: Sequence[GroupPart], most: int | None) -> int:
    if most is None:
        most = min(processors(), -(-sum(part.rows for part in parts) // ROWS_PER_PROCESS))
    return max(min(most, len(parts)), 1)


# --- in the processes

_read: list[GroupHistories] = []
"""What this process reads."""


def _begin(histories: GroupHistories) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ^C goes to all processes, and one reports it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pa.set_cpu_count(1)
    _read.append(histories)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _each(function: Callable[[GroupHistory], Result], part: GroupPart) -> list[Result]:
    (histories,) = _read
    return list(map(function, histories.read(part)))
