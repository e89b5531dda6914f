"""Show who committed which offsets of a group, from its history: an audit of commits.

Kafka logs no sender. BY is the member that the partition was assigned to then, marked "inferred";
`outside` is a commit while the group had no members, from a tool, Spark, Kafka Connect or a simple
consumer. A commit that was part of a reset has the kind RESET: from outside, several partitions at
one commit time, and not an advance as usual. A commit that cannot be decoded has the kind
unreadable. The kind of the next one has a question mark, as what was committed before it is not
known. Spark is not needed.
"""

import argparse
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kohort.cli.audit_rows import AuditedCommit, audited
from kohort.cli.exit_codes import FAILED, FOUND
from kohort.cli.group_options import add_topic_argument, topics
from kohort.cli.history_source import moment_of, open_history, read_group, warn_of_others
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, add_output_argument, check_output, print_message, show
from kohort.errors import KohortError

if TYPE_CHECKING:
    from kohort.history.resets import Reset
    from kohort.history_files.directory import HistoryDirectory
    from kohort.history_files.reading import GroupReader

COLUMNS: Final = (
    "TIME", "TOPIC", "PARTITION", "KIND", "PREVIOUS", "COMMITTED", "BY", "CLIENT-ID", "HOST",
    "GENERATION", "METADATA", "LOG-OFFSET",
)  # fmt: skip
MAX_SHOWN: Final = 6
"""Partitions of a reset that are named; more are counted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", metavar="DIR", help="directory or URL of the history")
    add("group", metavar="GROUP", help="group id")
    add_topic_argument(parser, "only a topic, or some of its partitions; repeatable")
    add("--since", metavar="TIME", help="only commits from this time on, as 2026-01-31T10:42Z")
    add("--until", metavar="TIME", help="only commits up to this time")
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    scope = topics(options) if options.topic else None
    since, until = moment_of("--since", options.since), moment_of("--until", options.until)
    if since is not None and until is not None and since > until:
        raise RefusedError(f"--since {options.since}: is after --until {options.until}")
    directory = open_history(options.directory)
    try:
        reader = read_group(directory, options.group)
        warn_of_others(reader, options.group)
        commits, resets = audited(reader, scope, since, until)
        _show(options, commits, resets)
        if _is_complete(directory, reader, options.group, since, until):
            return 0
    except KohortError as error:
        print_message(str(error))
        return FAILED
    print_message(
        "incomplete: records were removed before they were collected, so that commits of this time "
        "may be missing"
    )
    return FOUND


def _is_complete(
    directory: "HistoryDirectory",
    reader: "GroupReader",
    group: str,
    since: datetime | None,
    until: datetime | None,
) -> bool:
    """Whether no record is missing between the two times."""
    from kohort.history_files.certainty import NO_CUT

    removed = reader.snapshot.removed_until_ms
    if removed is not None and (since is None or since.timestamp() * 1000 < removed):
        return False
    start = 0 if since is None else read_group(directory, group, since).cut
    end = NO_CUT if until is None else read_group(directory, group, until).cut
    return not any(
        gap["hole"] <= end and (gap["complete_from"] is None or gap["complete_from"] > start)
        for gap in reader.coverage()["gaps"]
    )


def _show(options: argparse.Namespace, commits: list[AuditedCommit], resets: "list[Reset]") -> None:
    as_json = {
        "group": options.group,
        "commits": [commit.as_json() for commit in commits],
        "resets": [_as_json(reset) for reset in resets],
    }
    show(options.output, Table(COLUMNS, [commit.row() for commit in commits]), as_json)
    if options.output == "table":
        for reset in resets:
            print_message(_line(reset))


def _line(reset: "Reset") -> str:
    texts = [f"{each.partition}: {_number(each.previous)} → {each.committed}" for each in
             reset.partitions]  # fmt: skip
    more = f" and {len(texts) - MAX_SHOWN} more" if len(texts) > MAX_SHOWN else ""
    return (
        f"reset at {_text(reset.time)}: topic {reset.topic}, {len(texts)} of "
        f"{reset.known_partitions} partitions: {', '.join(texts[:MAX_SHOWN])}{more}"
    )


def _number(offset: int | None) -> str:
    return "-" if offset is None else str(offset)


def _as_json(reset: "Reset") -> dict[str, Any]:
    return {
        "time": _text(reset.time),
        "commit_time": _text(reset.commit_time),
        "topic": reset.topic,
        "log_partition": reset.log_partition,
        "log_offset": reset.log_offset,
        "known_partitions": reset.known_partitions,
        "partitions": [
            {
                "partition": each.partition,
                "log_offset": each.log_offset,
                "previous": each.previous,
                "committed": each.committed,
            }
            for each in reset.partitions
        ],
    }


def _text(time: datetime | None) -> str | None:
    from kohort.history_files.reading import text_of

    return text_of(time)
