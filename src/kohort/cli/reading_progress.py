"""Progress of reading a partition: a line on a terminal, after a second."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.progress import Progress

PROGRESS_DELAY_S: Final = 1.0


@contextmanager
def reading_progress(name: str, start: int, end: int) -> Iterator[Callable[[int], None]]:
    """Give a function to call with each offset that was read. Shows the progress on stderr."""
    since = time.monotonic()
    drawn: Progress | None = None
    with ExitStack() as stack:

        def show(offset: int) -> None:
            nonlocal drawn
            if (
                drawn is None
                and sys.stderr.isatty()
                and time.monotonic() - since > PROGRESS_DELAY_S
            ):
                drawn = stack.enter_context(_progress())
                drawn.add_task(f"reading {name}", total=end - start)
            if drawn is not None:
                drawn.update(drawn.task_ids[0], completed=offset - start)

        yield show


def _progress() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    return Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)
