"""Show why a group is not stable: the members that are awaited, for which request, and until when.

A Kohort server knows it. It is read from the HTTP port of --http, or of the config http.listen of
the broker that coordinates the group. Other brokers do not tell.
"""

import argparse
import asyncio
from typing import Any, Final

from kohort.cli.client_options import add_client_arguments, run_with_admin
from kohort.cli.exit_codes import FAILED
from kohort.cli.name_arguments import add_name
from kohort.cli.near_names import near_groups
from kohort.cli.output import Table, add_output_argument, check_output, print_message, show
from kohort.cli.rebalance_journal import TIMEOUT_S, checked_url, journal_url, read_explanation
from kohort.client.admin import Admin, GroupDescription
from kohort.client.resets import iso
from kohort.errors import KohortError
from kohort.types import GroupId

_COLUMNS: Final = ("MEMBER-ID", "CLIENT-ID", "AWAITED", "UNTIL")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add_name(parser, "--group", "GROUP", "group id")
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="HTTP port of the Kohort server that coordinates the group, as HOST:PORT or URL",
    )
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    if options.http is None:
        return run_with_admin(options, lambda admin: _find(admin, options))
    return _show_from(checked_url(options.http), options)


async def _find(admin: Admin, options: argparse.Namespace) -> int:
    group = GroupId(options.group)
    about = (await admin.describe_groups([group]))[group]
    if not isinstance(about, GroupDescription):
        print_message(f"group {group}: {about}")
        return FAILED
    if not about.exists:
        hint = await near_groups(admin, [group])
        print_message(f"group {group} does not exist{hint}")
        return FAILED
    url = await journal_url(admin, about)
    if url is None:
        print_message(
            f"group {group} is {about.state}; its coordinator {about.coordinator_address} has no "
            "HTTP port that tells why: start a Kohort server with --http, or name its port by "
            "--http"
        )
        return FAILED
    return await asyncio.to_thread(_show_from, url, options)


def _show_from(url: str, options: argparse.Namespace) -> int:
    try:
        explanation = read_explanation(url, options.group, TIMEOUT_S)
    except KohortError as error:
        print_message(f"group {options.group}: {error}")
        return FAILED
    rows = [
        (each["member_id"], each["client_id"], each["what"], _time(each["until"]))
        for each in explanation["awaited"]
    ]
    if rows or options.output != "table":
        show(options.output, Table(_COLUMNS, rows), explanation)
    if options.output == "table":
        print_message(_sentence(explanation))
    return 0


def _sentence(explanation: dict[str, Any]) -> str:
    why = f": {explanation['why']}" if explanation["why"] else ""
    until = explanation["until"]
    end = "" if until is None else f"; this phase ends at {iso(until)}"
    return f"group {explanation['group_id']} is {explanation['state']}{why}{end}"


def _time(until: int | None) -> str | None:
    return None if until is None else iso(until)
