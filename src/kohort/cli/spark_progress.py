"""Progress of a streaming query: one redrawn line on a terminal, else a line per micro-batch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from kohort.spark.pipeline import NOT_PARSED
from kohort.util.printable import printable


class Tally:
    """Counts of micro-batches with rows, so far."""

    def __init__(self, unfit: str) -> None:
        """`unfit`: the place of values that do not fit the schema."""
        self._unfit = unfit
        self.batches = self.rows = self.not_parsed = 0
        self._last = -1

    def add(self, recent: Sequence[Any]) -> list[str]:
        """Count new micro-batches; a line for each."""
        lines = []
        for progress in recent:
            if progress.batchId <= self._last or not progress.numInputRows:
                continue
            self._last = progress.batchId
            self.batches += 1
            self.rows += progress.numInputRows
            if (observed := progress.observedMetrics.get(NOT_PARSED)) is not None:
                self.not_parsed += observed[NOT_PARSED]
            seconds = progress.durationMs.get("triggerExecution", 0) / 1000
            lines.append(
                f"micro-batch {progress.batchId}: {progress.numInputRows:,} records "
                f"in {seconds:.1f} s"
            )
        return lines

    @property
    def line(self) -> str:
        """A summary of all micro-batches."""
        summary = f"{self.rows:,} records in {self.batches:,} micro-batches"
        if not self.not_parsed:
            return summary
        return f"{summary}; {self.not_parsed:,} do not fit the schema: {self._unfit} has them"


@contextmanager
def progress(name: str, unfit: str) -> Iterator[Callable[[Sequence[Any]], None]]:
    """Give a function to call with the query's recent progress. Shows it on stderr.

    `unfit`: the place of values that do not fit the schema.
    """
    console = Console(stderr=True, highlight=False)
    tally = Tally(unfit)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console, disable=not console.is_terminal) as drawn:
            task = drawn.add_task(escape(printable(f"{name}: starting")))

            def show(recent: Sequence[Any]) -> None:
                lines = tally.add(recent)
                if not console.is_terminal:
                    for line in lines:
                        console.print(printable(f"{name}: {line}"), markup=False, soft_wrap=True)
                elif lines:
                    now = printable(f"{name}: {tally.line}; {lines[-1]}")
                    drawn.update(task, description=escape(now))

            yield show
    finally:
        console.print(printable(f"{name}: {tally.line}"), markup=False)
