"""Show the timeline of a group from the tables of a history, and its committed offsets.

The timeline has each generation with the members that joined and departed, offsets that were set
back or removed, and the end of the group. --at shows everything as it was at a time. Spark is not
needed.
"""

import argparse
from datetime import datetime
from typing import TYPE_CHECKING, Final

from kohort.cli.exit_codes import FAILED, FOUND
from kohort.cli.history_source import moment_of, warn_of_others, with_history
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, add_output_argument, check_output, print_message, show
from kohort.util.text import did_you_mean

if TYPE_CHECKING:
    from kohort.history_files.directory import HistoryDirectory
    from kohort.history_files.reading import GroupReader

LAST: Final = 100
_TIMELINE: Final = ("TIME", "EVENT", "GENERATION", "#MEMBERS", "CHANGES")
_PARTITIONS: Final = (
    "TOPIC", "PARTITION", "COMMITTED", "COMMIT-TIME", "#COMMITS", "CERTAINTY", "OWNER",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", metavar="DIR", help="directory or URL of the history")
    add("group", metavar="GROUP", help="group id")
    add(
        "--last",
        metavar="N",
        type=int,
        default=LAST,
        help=f"show the last N events (default: {LAST})",
    )
    add("--at", metavar="TIME", help="show the group as it was, as 2026-01-31T10:42Z")
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    if options.last < 1:
        raise RefusedError(f"--last {options.last}: is not a number of events")
    moment = moment_of("--at", options.at)
    return with_history(options.directory, lambda directory: _show_at(options, directory, moment))


def _show_at(
    options: argparse.Namespace, directory: "HistoryDirectory", moment: datetime | None
) -> int:
    from kohort.history_files.reading import GroupReader

    reader = GroupReader(directory, options.group, moment)
    if reader.log_partition is None:
        hint = did_you_mean(options.group, reader.groups())
        print_message(f"group {options.group} has no record in {options.directory}{hint}")
        return FAILED
    warn_of_others(reader, options.group)
    return _show(options, reader)


def _show(options: argparse.Namespace, reader: "GroupReader") -> int:
    from kohort.cli.history_timeline import partitions, timeline
    from kohort.history_files.certainty import UNKNOWN

    events = timeline(reader)
    shown = events[-options.last :]
    offsets = partitions(reader)
    unknown = sum(row["certainty"] == UNKNOWN for row in offsets)
    is_certain = reader.is_certain() and not unknown
    as_json = {
        "group": options.group,
        "log_partition": reader.log_partition,
        "other_log_partitions": reader.other_log_partitions,
        "certainty": "exact" if is_certain else "unknown",
        "events": [event.as_json() for event in shown],
        "partitions": offsets,
    }
    show(options.output, Table(_TIMELINE, [event.row() for event in shown]), as_json)
    if options.output == "table":
        _print_hidden(len(events) - len(shown))
        if offsets:
            print()
            columns = ("topic", "partition", "committed", "time", "commits", "certainty", "owner")
            rows = [tuple(row[column] for column in columns) for row in offsets]
            show("table", Table(_PARTITIONS, rows), None)
    if is_certain:
        return 0
    if not reader.is_certain():
        print_message(
            "incomplete: compaction had removed records before they were collected, so that "
            "earlier events may be missing"
        )
    if unknown:
        print_message(
            f"incomplete: {unknown:,} of the committed offsets are unknown, because records were "
            "removed before they were collected, or cannot be decoded"
        )
    return FOUND


def _print_hidden(count: int) -> None:
    if count:
        print_message(f"{count:,} earlier events are not shown; --last chooses them")
