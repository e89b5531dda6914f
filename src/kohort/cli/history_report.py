"""Write what groups did as one HTML page, and as a picture.

The page shows who owned which partition, why each generation began, how long partitions stood
still, commits and lag over time, and findings. --all shows all groups, the worst first. The file
loads nothing from elsewhere, and opens without a network. Spark is not needed.

  kohort history report history billing --out billing.html
  kohort history report history --all --since 2026-01-30T00:00Z --png groups.png
"""

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kohort import __version__
from kohort.cli.exit_codes import FAILED, FOUND
from kohort.cli.history_source import moment_of, with_history
from kohort.cli.options import RefusedError
from kohort.cli.output import print_message
from kohort.errors import KohortError
from kohort.util.text import did_you_mean

if TYPE_CHECKING:
    from kohort.history_files.directory import HistoryDirectory
    from kohort.report.building import Origin
    from kohort.report.page import Page

DEFAULT_OUT: Final = "report.html"
STDOUT: Final = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", metavar="DIR", help="directory or URL of the history")
    add("group", metavar="GROUP", nargs="?", help="group id")
    add("--all", action="store_true", help="all groups, the worst first")
    add(
        "--out",
        metavar="FILE",
        help=f"file of the HTML page, - for stdout (default: {DEFAULT_OUT}; none with --png)",
    )
    add("--png", metavar="FILE", help="also write a picture; with --all that of the list of groups")
    add("--since", metavar="TIME", help="show from this time on, as 2026-01-31T10:42Z")
    add("--until", metavar="TIME", help="show up to this time")
    add(
        "--processes",
        metavar="N",
        type=int,
        help="with --all: read groups in at most N processes (default: one for each processor)",
    )


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    if options.all == (options.group is not None):
        raise RefusedError("name one GROUP, or give --all")
    if options.processes is not None and options.processes < 1:
        raise RefusedError(f"--processes {options.processes}: is not a number from 1 on")
    import jinja2  # noqa: F401  # the first package that may be missing: its extra has all

    since, until = moment_of("--since", options.since), moment_of("--until", options.until)
    if since is not None and until is not None and since >= until:
        raise RefusedError(f"--since {options.since}: is not before --until {options.until}")
    return with_history(
        options.directory, lambda directory: _report(options, directory, since, until)
    )


def _report(
    options: argparse.Namespace,
    directory: "HistoryDirectory",
    since: datetime | None,
    until: datetime | None,
) -> int:
    try:
        page = _page(options, directory, since, until)
        return FAILED if page is None else _write(options, page)
    except OSError as error:  # of a file that is written, too
        print_message(f"{error.filename or options.directory}: {error.strerror or error}")
        return FAILED


def write_page(directory: "HistoryDirectory", source: str, out: Path) -> None:
    """Write the page of all groups of a history. `source`: how the page names the directory.

    Raises KohortError, also if there are no groups; OSError.
    """
    from kohort.cli.report_groups import page_of_history
    from kohort.report.page import render

    page = page_of_history(directory, _origin(source, None, None))
    if page is None:
        raise KohortError(f"{source} has no groups")
    _replace(out, render(page).encode())


def _origin(source: str, since: datetime | None, until: datetime | None) -> "Origin":
    from kohort.report.building import Origin
    from kohort.report.spans import milliseconds

    return Origin(
        source=source,
        made=milliseconds(datetime.now(UTC)),
        version=__version__,
        since=None if since is None else milliseconds(since),
        until=None if until is None else milliseconds(until),
    )


def _page(
    options: argparse.Namespace,
    directory: "HistoryDirectory",
    since: datetime | None,
    until: datetime | None,
) -> "Page | None":
    """The page; None if the history has nothing to show, which is said."""
    from kohort.cli.report_groups import page_of_history, page_of_one

    origin = _origin(options.directory, since, until)
    if options.all:
        page = page_of_history(directory, origin, since, until, options.processes)
        if page is None:
            print_message(f"{options.directory} has no groups in this time")
        return page
    page = page_of_one(directory, options.group, origin, since, until)
    if page is None:
        _print_absent(options, directory)
    return page


def _print_absent(options: argparse.Namespace, directory: "HistoryDirectory") -> None:
    from kohort.history_files.reading import GroupReader

    names = GroupReader(directory, options.group).groups()
    if options.group in names:
        print_message(f"group {options.group} has no record in this time")
        return
    hint = did_you_mean(options.group, names)
    print_message(f"group {options.group} has no record in {options.directory}{hint}")


def _write(options: argparse.Namespace, page: "Page") -> int:
    if options.png is not None:
        from kohort.report.picture import picture
        from kohort.report.png import png

        _write_file(options.png, png(picture(page)))
    out = options.out or (DEFAULT_OUT if options.png is None else None)
    if out is not None:
        from kohort.report.page import render

        _write_file(out, render(page).encode())
    if all(view.is_certain for view in (*page.groups, *page.brief)):
        return 0
    print_message(
        "incomplete: records were missing when the history was built, and the report says where"
    )
    return FOUND


def _write_file(name: str, data: bytes) -> None:
    if name == STDOUT:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    _replace(Path(name), data)
    print_message(f"{name}: {len(data):,} bytes")


def _replace(path: Path, data: bytes) -> None:
    """Write a file as a whole or not at all. Raises OSError."""
    unfinished = path.with_name(f".{path.name[:200]}.{os.getpid()}")
    try:
        unfinished.write_bytes(data)
        unfinished.replace(path)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        unfinished.unlink(missing_ok=True)
