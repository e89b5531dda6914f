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
    """What came so far, of micro-batches that had rows."""

    def __init__(self, unfit: str) -> None:
        """`unfit`: where values are that do not fit the schema."""
        self._unfit = unfit
        self.batches = self.rows = self.not_parsed = 0
        self._last = -1

    def add(self, recent: Sequence[Any]) -> list[str]:
        """A line for each micro-batch that was not told of before."""
        lines = []
        for each in recent:
            if each.batchId <= self._last or not each.numInputRows:
                continue
            self._last = each.batchId
            self.batches += 1
            self.rows += each.numInputRows
            if (observed := each.observedMetrics.get(NOT_PARSED)) is not None:
                self.not_parsed += observed[NOT_PARSED]
            seconds = each.durationMs.get("triggerExecution", 0) / 1000
            lines.append(
                f"micro-batch {each.batchId}: {each.numInputRows:,} records in {seconds:.1f} s"
            )
        return lines

    @property
    def line(self) -> str:
        """All of it."""
        found = f"{self.rows:,} records in {self.batches:,} micro-batches"
        if not self.not_parsed:
            return found
        return f"{found}; {self.not_parsed:,} do not fit the schema: {self._unfit} has them"


@contextmanager
def progress(name: str, unfit: str) -> Iterator[Callable[[Sequence[Any]], None]]:
    """What to call with the query's recent progress, often; what is shown goes to stderr.

    `unfit`: where values are that do not fit the schema.
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
