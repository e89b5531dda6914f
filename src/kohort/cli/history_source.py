"""The history of a group as an argument of commands: its directory, a time, and their errors."""

import argparse
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from kohort.cli.exit_codes import FAILED
from kohort.cli.options import RefusedError
from kohort.cli.output import print_message, warn
from kohort.errors import ConfigError, KohortError
from kohort.util.text import did_you_mean, join_names

if TYPE_CHECKING:
    from kohort.history_files.directory import HistoryDirectory
    from kohort.history_files.reading import GroupReader


def add_history_argument(parser: argparse.ArgumentParser, *, required: bool, help: str) -> None:
    parser.add_argument("--history", metavar="DIR", required=required, help=help)


def moment_of(flag: str, text: str | None) -> datetime | None:
    """The time of an option. Raises RefusedError for one without a zone."""
    from kohort.history_files.moments import parse_moment

    try:
        return None if text is None else parse_moment(text)
    except ConfigError as error:
        raise RefusedError(f"{flag} {error}") from error


def open_history(location: str) -> "HistoryDirectory":
    """Raises RefusedError if it is not the directory of a history."""
    from kohort.history_files.directory import HistoryDirectory
    from kohort.history_files.file_system import open_files

    try:
        return HistoryDirectory(open_files(location))
    except ConfigError as error:
        raise RefusedError(str(error)) from error


def with_history(location: str, work: Callable[["HistoryDirectory"], int]) -> int:
    """The exit code of `work` on a history; of its errors, which are printed, FAILED.

    Raises RefusedError for its ConfigError.
    """
    try:
        return work(open_history(location))
    except RefusedError:
        raise
    except ConfigError as error:
        raise RefusedError(str(error)) from error
    except OSError as error:
        print_message(f"{location}: {error.strerror or error}")
    except KohortError as error:
        print_message(str(error))
    return FAILED


def read_group(
    directory: "HistoryDirectory", group: str, moment: datetime | None = None
) -> "GroupReader":
    """The rows of a group that the history knows.

    Raises StateRefusedError for a time of which rows were removed; KohortError, also if there is no
    such group.
    """
    from kohort.cli.reset_tables import StateRefusedError
    from kohort.history_files.reading import GroupReader

    location = directory.files.location
    try:
        reader = GroupReader(directory, group, moment)
    except ConfigError as error:
        raise StateRefusedError(str(error)) from error
    except OSError as error:
        raise KohortError(f"{location}: {error.strerror or error}") from error
    if reader.log_partition is None:
        hint = did_you_mean(group, reader.groups())
        raise KohortError(f"group {group} has no record in {location}{hint}")
    return reader


def warn_of_others(reader: "GroupReader", group: str) -> None:
    """Warn of log partitions with records of a group that are not shown."""
    others = reader.other_log_partitions
    if others:
        warn(
            f"group {group} has records in several log partitions, as the number of partitions of "
            f"__consumer_offsets was changed: these are those of {reader.log_partition}, which has "
            f"the latest, and not those of {join_names(map(str, sorted(others)))}; kohort history "
            "report has all"
        )
