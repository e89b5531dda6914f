"""Show the rebalances of a group: from Kohort's journal, or from the log of any Kafka broker.

The journal of a Kohort server has the causes and the duration of each phase since the server
started. It is read from the HTTP port of --http, or of the broker's config http.listen. Without a
journal, or with --log, the group's partition of __consumer_offsets is read, which needs READ on the
topic: it has each generation with its members and their partitions, but no causes, and compaction
removes older ones.
"""

import argparse
import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kohort.cli import rebalance_journal
from kohort.cli.client_options import add_client_arguments, run_with_admin
from kohort.cli.exit_codes import FAILED
from kohort.cli.name_arguments import add_name
from kohort.cli.near_names import near_groups
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, add_output_argument, check_output, print_message, show, warn
from kohort.cli.rebalance_journal import (
    CONFIGURED_PORT_TIMEOUT_S,
    TIMEOUT_S,
    checked_url,
    journal_url,
    read_journal,
)
from kohort.client.admin import Admin, GroupDescription
from kohort.client.resets import now_ms, parse_datetime, parse_duration
from kohort.errors import ConfigError, KohortError
from kohort.types import GroupId

if TYPE_CHECKING:
    from kohort.cli.group_log import GroupLog

LAST: Final = 100
_COLUMNS: Final = ("ENDED", "OUTCOME", "GENERATION", "JOIN-MS", "SYNC-MS", "#MEMBERS")
_AGO: Final = re.compile(r"(\d+)(s|m|h|d)")
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add_name(parser, "--group", "GROUP", "group id")
    either = parser.add_mutually_exclusive_group()
    either.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="HTTP port of the Kohort server whose journal is read, as HOST:PORT or URL",
    )
    either.add_argument(
        "--log", action="store_true", help="read __consumer_offsets even if a journal is available"
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="show only rebalances that ended after this time: an age (90s, 30m, 2h, 7d or "
        "PnDTnHnMnS) or an ISO 8601 time (UTC unless it has a zone)",
    )
    parser.add_argument(
        "--last",
        metavar="N",
        type=int,
        default=LAST,
        help=f"show the last N rebalances (default: {LAST})",
    )
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    if options.last < 1:
        raise RefusedError(f"--last {options.last}: is not a number of rebalances")
    since = _since(options.since, now_ms())
    if options.http is not None:
        return _show_port(options, since)
    return run_with_admin(options, lambda admin: _show(admin, options, since))


def _since(text: str | None, now: int) -> int:
    """In ms since the epoch; 0 for all. Raises RefusedError."""
    if text is None:
        return 0
    try:
        if ago := _AGO.fullmatch(text):
            return max(now - int(ago[1]) * _UNITS_MS[ago[2]], 0)
        if text.upper().startswith("P"):
            return max(now - parse_duration(text), 0)
        return parse_datetime(text).at_ms
    except ConfigError:
        raise RefusedError(
            f"--since {text}: is not a time as 2h, PT2H or 2026-01-31T09:30:00Z"
        ) from None


def _show_port(options: argparse.Namespace, since: int) -> int:
    url = checked_url(options.http)
    try:
        journal = read_journal(url, options.group, TIMEOUT_S)
    except KohortError as error:
        print_message(f"group {options.group}: {error}")
        return FAILED
    if not journal and options.output == "table":
        print_message(f"group {options.group} has not rebalanced since the server started")
    _show_journal(options, journal, since)
    return 0


def _show_journal(
    options: argparse.Namespace, journal: Sequence[dict[str, Any]], since: int
) -> None:
    recent = [entry for entry in journal if entry["ended"] >= since]
    entries = recent[-options.last :]
    rows = list(map(rebalance_journal.row, entries))
    show(options.output, Table((*_COLUMNS, "CAUSES"), rows), entries)
    _print_hidden_count(options, len(journal) - len(entries))


async def _show(admin: Admin, options: argparse.Namespace, since: int) -> int:
    group = GroupId(options.group)
    about = (await admin.describe_groups([group]))[group]
    exists = isinstance(about, GroupDescription) and about.exists
    if not options.log and isinstance(about, GroupDescription) and exists:
        journal = await _journal(admin, about)
        if journal:
            _show_journal(options, journal, since)
            return 0
    # Each command of groups imports this module, and no other one needs the coordinator.
    from kohort.cli.group_log import read_group_log

    log = await read_group_log(
        admin,
        group,
        last=options.last,
        shows=lambda generation: generation.ended is None or generation.ended >= since,
        may_be_elsewhere=exists,
    )
    for why in log.unreadable:
        warn(f"a record of group {group} is not readable, {log.partition}, {why}")
    if log.unreadable_count > len(log.unreadable):
        warn(f"{log.unreadable_count - len(log.unreadable):,} more are not readable")
    if not log.is_found:
        hint = await near_groups(admin, [group])
        print_message(f"group {group} has no record in {log.partition}{hint}")
        return FAILED
    _show_log(options, log)
    return 0


async def _journal(admin: Admin, about: GroupDescription) -> list[dict[str, Any]]:
    """The group's journal from the port that the broker's configs name; empty without one."""
    url = await journal_url(admin, about)
    if url is None:
        return []
    try:
        return await asyncio.to_thread(read_journal, url, about.group, CONFIGURED_PORT_TIMEOUT_S)
    except KohortError as error:
        print_message(f"no journal, so the log is read: {error}")
        return []


def _show_log(options: argparse.Namespace, log: "GroupLog") -> None:
    from kohort.cli import generation_format

    generations = list(log.generations)
    if generations or options.output != "table":
        rows = list(map(generation_format.row, generations))
        as_json = list(map(generation_format.as_json, generations))
        show(options.output, Table((*_COLUMNS, "CHANGES"), rows), as_json)
    _print_hidden_count(options, log.count - len(generations))
    if options.output == "table":
        print_message(_describe_log(options, log))


def _print_hidden_count(options: argparse.Namespace, count: int) -> None:
    if count and options.output == "table":
        print_message(f"{count:,} earlier ones are not shown; --last and --since choose them")


def _describe_log(options: argparse.Namespace, log: "GroupLog") -> str:
    """The last line: a summary of the group's records."""
    if log.count:
        return (
            f"read from {log.partition}: compaction removes older generations, and causes are only "
            "in the journal of kohort serve --http"
        )
    if log.other_protocol is not None:
        return (
            f"group {options.group} is of the {log.other_protocol} protocol, whose records in "
            f"{log.partition} this command does not read"
        )
    if log.has_offsets:
        return f"group {options.group} has had no members: only offsets were committed for it"
    return f"no generation of group {options.group} in {log.partition} is readable"
