"""Signs of life while something takes its time: live on a terminal, lines of text elsewhere."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

LINE_SECONDS = 10.0
"""How often a line is written where there is no terminal."""
REFRESH_SECONDS = 0.5


@contextmanager
def waiting(console: Console, text: Callable[[], str]) -> Iterator[None]:
    """Show what is being done, and for how long, until the block ends."""
    if console.is_terminal:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(text())
            with repeated(REFRESH_SECONDS, lambda: progress.update(task, description=text())):
                yield
    else:
        with lines(console, text):
            yield


@contextmanager
def counting(console: Console, text: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how many of `total` are done, which the block tells."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(text, total=total)

        def tell(done: int) -> None:
            progress.update(task, completed=done)

        if console.is_terminal:
            yield tell
        else:
            shown = progress.tasks[0]
            with lines(console, lambda: f"{text}: {shown.completed:,.0f} of {total:,}"):
                yield tell


@contextmanager
def lines(console: Console, text: Callable[[], str]) -> Iterator[None]:
    """Write a line every `LINE_SECONDS`."""
    begun = time.monotonic()

    def write() -> None:
        spent = time.monotonic() - begun
        console.print(f"  {text()} ({spent:.0f} s)", markup=False, soft_wrap=True)

    with repeated(LINE_SECONDS, write):
        yield


@contextmanager
def repeated(seconds: float, what: Callable[[], None]) -> Iterator[None]:
    """Do it in another thread, again and again, until the block ends."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(seconds):
            what()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
