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
from collections.abc import Iterator, Sequence
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
    from kohort.findings.finding import Finding
    from kohort.history_files.directory import HistoryDirectory
    from kohort.history_files.group_history import GroupHistory
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


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    if options.all == (options.group is not None):
        raise RefusedError("name one GROUP, or give --all")
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
    from kohort.report.building import page_of_all
    from kohort.report.page import render

    page = page_of_all(_groups(directory, None, None, None), _origin(source, None, None))
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
    from kohort.report.building import page_of_all, page_of_group

    origin = _origin(options.directory, since, until)
    groups = _groups(directory, options.group, since, until)
    if options.all:
        if (page := page_of_all(groups, origin)) is None:
            print_message(f"{options.directory} has no groups in this time")
        return page
    for history, findings in groups:
        return page_of_group(history, findings, origin)
    _print_absent(options, directory)
    return None


def _print_absent(options: argparse.Namespace, directory: "HistoryDirectory") -> None:
    from kohort.history_files.reading import GroupReader

    names = GroupReader(directory, options.group).groups()
    if options.group in names:
        print_message(f"group {options.group} has no record in this time")
        return
    hint = did_you_mean(options.group, names)
    print_message(f"group {options.group} has no record in {options.directory}{hint}")


def _groups(
    directory: "HistoryDirectory",
    group: str | None,
    since: datetime | None,
    until: datetime | None,
) -> "Iterator[tuple[GroupHistory, Sequence[Finding]]]":
    from kohort.findings.commit_series import COLUMNS
    from kohort.findings.search import find
    from kohort.findings.thresholds import Thresholds
    from kohort.history_files.group_history import group_histories

    chosen = None if group is None else [group]
    for history in group_histories(directory, chosen, since, until, commit_columns=COLUMNS):
        findings = () if history.end is None else find(history, Thresholds(), history.end)
        yield history, findings


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
