"""The options that specify the new offsets of a reset: Kafka's by their names, and a group's."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kohort.cli.near_names import near_groups
from kohort.cli.options import RefusedError
from kohort.cli.output import print_message
from kohort.client.admin import Admin
from kohort.client.resets import (
    Moment,
    Scope,
    ShiftBy,
    Specification,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToOffsets,
    ToTime,
    parse_datetime,
    parse_duration,
    partitions_of,
    read_offsets,
)
from kohort.errors import ConfigError, KohortError, unless_error
from kohort.types import GroupId

FLAGS: Final = (
    "to_earliest",
    "to_latest",
    "to_current",
    "to_offset",
    "shift_by",
    "to_datetime",
    "by_duration",
    "from_file",
    "from_group",
)


def add_specification_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--to-earliest", action="store_true", help="to the start of the log")
    add("--to-latest", action="store_true", help="to the end of the log")
    add(
        "--to-current",
        action="store_true",
        help=("to the committed offset, or to the end of the log if there is none"),
    )
    add("--to-offset", metavar="OFFSET", type=int, help="to this offset")
    add(
        "--shift-by",
        metavar="N",
        type=int,
        help="by N offsets forwards, or backwards if N is negative",
    )
    add(
        "--to-datetime",
        metavar="TIME",
        help="to the first record at or after this ISO 8601 time, as 2026-01-31T09:30:00.000+01:00 "
        "(UTC unless it has a zone)",
    )
    add(
        "--by-duration",
        metavar="PnDTnHnMnS",
        help=("to the first record within this duration before now"),
    )
    add(
        "--from-file",
        metavar="CSV",
        type=Path,
        help=("to the offsets in a CSV file of --export (- for standard input)"),
    )
    add("--from-group", metavar="GROUP", help="to the committed offsets of another group")


def has_scope(options: argparse.Namespace) -> bool:
    """A file names its partitions itself; anything else needs one scope."""
    scopes = [bool(options.topic), options.all_topics]
    return not any(scopes) if options.from_file is not None else sum(scopes) == 1


def specification(options: argparse.Namespace, now_ms: int) -> Specification | None:
    """The reset of the options; None for --from-group, whose offsets are read from the cluster.

    Raises RefusedError.
    """
    specs = [
        flag
        for flag in FLAGS
        if not any(getattr(options, flag) is absent for absent in (None, False))
    ]
    if len(specs) != 1:
        every = ", ".join(f"--{flag.replace('_', '-')}" for flag in FLAGS)
        raise RefusedError(f"exactly one specification is needed: {every}")
    if options.from_group is not None:
        if options.from_group in options.group:
            raise RefusedError(f"--from-group {options.from_group}: is the same group")
        return None
    try:
        return _specification(options, specs[0], now_ms)
    except ConfigError as error:
        raise RefusedError(f"--{specs[0].replace('_', '-')}: {error}") from error


async def of_group(
    admin: Admin, source: GroupId, groups: Sequence[GroupId], scope: Scope | None
) -> ToOffsets:
    """To the offsets that `source` has committed, in the scope. Raises KohortError."""
    committed = unless_error((await admin.committed([source]))[source])
    partitions = set(committed) if scope is None else await partitions_of(admin, scope)
    offsets = {tp: offset.offset for tp, offset in committed.items() if tp in partitions}
    if not offsets:
        with_commits = " there" if committed else await near_groups(admin, [source])
        raise KohortError(f"group {source} has no committed offsets{with_commits}")
    return ToOffsets(
        {(group, tp): offset for group in groups for tp, offset in offsets.items()},
        f"from-group {source}",
    )


def _specification(options: argparse.Namespace, flag: str, now_ms: int) -> Specification:
    match flag:
        case "to_earliest":
            return ToEarliest()
        case "to_latest":
            return ToLatest()
        case "to_current":
            return ToCurrent()
        case "to_offset":
            return ToOffset(options.to_offset)
        case "shift_by":
            return ShiftBy(options.shift_by)
        case "to_datetime":
            return _to_time("to-datetime", parse_datetime(options.to_datetime))
        case "by_duration":
            # Not before 1970: Kafka gives negative timestamps other meanings, of which -1 is the
            # log's end.
            at_ms = max(now_ms - parse_duration(options.by_duration), 0)
            return _to_time(f"by-duration {options.by_duration}:", Moment(at_ms, has_zone=True))
        case _:
            return _from_file(options)


def _to_time(name: str, moment: Moment) -> ToTime:
    """Print the time in UTC on stderr, because time zones are often wrong."""
    if moment.at_ms < 0:
        raise ConfigError(f"{moment.describe()} is before 1970: use --to-earliest")
    assumed = "" if moment.has_zone else "; without a zone: read as UTC, as Kafka does"
    print_message(f"{name} {moment.describe()}{assumed}")
    return ToTime(moment.at_ms, f"{name} {moment.describe().split(' ')[0]}")


def _from_file(options: argparse.Namespace) -> ToOffsets:
    path = options.from_file
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        text = text.removeprefix("\ufeff")  # a byte-order mark, as spreadsheets write it
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    if options.all_groups:
        raise ConfigError("needs --group instead of --all-groups")
    groups = list(dict.fromkeys(map(GroupId, options.group)))
    offsets = read_offsets(text, groups)
    if missing := [group for group in groups if not any(owner == group for owner, _ in offsets)]:
        raise ConfigError(f"{path}: has no offsets of {', '.join(missing)}")
    return ToOffsets(offsets, f"from-file {path}")
