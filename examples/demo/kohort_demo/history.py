"""The history of the groups that were shown: built from the server's log, their timelines, and
their report."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape

from kohort.errors import KohortError
from kohort_demo.server import Server
from kohort_demo.waiting import waiting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DIRECTORY: Final = "history"
REPORT: Final = "report.html"
LAST: Final = 12
"""Events of a group that are shown."""


def show_history(
    spark: "SparkSession", server: Server, groups: Sequence[str], data: Path, console: Console
) -> None:
    """Build the history, and show what each group did; one line says why, if that fails."""
    from kohort.spark import history

    directory = data / DIRECTORY
    try:
        with waiting(console, lambda: "Reading what the groups did from __consumer_offsets"):
            result = history.build(spark, server.address, str(directory))
        console.print(
            f"\n[bold]History[/]: {result.records:,} records of __consumer_offsets as tables in "
            f"{escape(str(directory))}.",
            soft_wrap=True,
        )
        for group in groups:
            _show(directory, group, console)
        _report(directory, console)
    except (KohortError, OSError) as error:
        console.print(f"The history is left out: {escape(str(error))}", soft_wrap=True)


def _report(directory: Path, console: Console) -> None:
    """Write the page of all groups, and say where it is."""
    if importlib.util.find_spec("jinja2") is None:
        console.print("\nThe report is left out: pip install 'kohort[report]'", markup=False)
        return
    from kohort.cli.history_report import write_page
    from kohort.history_files.directory import HistoryDirectory
    from kohort.history_files.file_system import LocalFiles

    page = directory.parent / REPORT
    write_page(HistoryDirectory(LocalFiles(directory)), str(directory), page)
    console.print(
        f"\n[bold]Report[/]: who owned what, why each generation began, commits: open "
        f"{escape(page.absolute().as_uri())} in a browser.",
        soft_wrap=True,
    )


def _show(directory: Path, group: str, console: Console) -> None:
    from kohort.cli.history_timeline import timeline
    from kohort.history_files.directory import HistoryDirectory
    from kohort.history_files.file_system import LocalFiles
    from kohort.history_files.reading import GroupReader

    reader = GroupReader(HistoryDirectory(LocalFiles(directory)), group)
    if reader.log_partition is None:
        return
    events = [event for event in timeline(reader) if event.time is not None]
    console.print(f"Group {escape(group)}:")
    for event in events[-LAST:]:
        assert event.time is not None
        number = "" if event.generation is None else f"generation {event.generation}"
        text = f"  {event.time:%H:%M:%S} {number or event.event:<14} {event.changes}"
        console.print(text, markup=False, soft_wrap=True)
    console.print(
        f"  kohort history show {directory} {group} shows it again.", markup=False, soft_wrap=True
    )
