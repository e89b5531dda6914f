"""List consumer groups, by name; --state and --type show more, or select."""

import argparse

from kohort.cli.client_options import add_client_arguments
from kohort.cli.exit_codes import FAILED
from kohort.cli.group_options import one_of
from kohort.cli.output import (
    Table,
    add_output_argument,
    check_output,
    print_line,
    print_message,
    show,
)
from kohort.cli.watch import add_watch_arguments, run_watched
from kohort.client.admin import CONSUMER, GROUP_STATES, GROUP_TYPES, Admin, GroupListing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    parser.add_argument(
        "--state",
        metavar="STATES",
        nargs="?",
        const="",
        help="show states; with states (stable,empty) list only groups in them",
    )
    parser.add_argument(
        "--type",
        metavar="TYPES",
        nargs="?",
        const="",
        help="show types; with types (classic,consumer) list only groups of them",
    )
    add_watch_arguments(parser)
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    states = one_of("--state", options.state or "", GROUP_STATES)
    types = one_of("--type", options.type or "", GROUP_TYPES)

    async def work(admin: Admin) -> int:
        listing = await admin.list_groups(states=states, types=types)
        groups = [group for group in listing.groups if group.protocol_type in ("", CONSUMER)]
        _show(options, groups)
        for node, failure in listing.failures.items():
            print_message(f"broker {node} did not respond, its groups are missing here: {failure}")
        return FAILED if listing.failures else 0

    return run_watched(options, work)


def _show(options: argparse.Namespace, groups: list[GroupListing]) -> None:
    every = {
        "GROUP": [group.group for group in groups],
        "TYPE": None if options.type is None else [group.type for group in groups],
        "STATE": None if options.state is None else [group.state for group in groups],
    }
    columns = {name: cells for name, cells in every.items() if cells is not None}
    if len(columns) == 1 and options.output == "table":
        for group in groups:  # As in Kafka: names alone, for a loop in a shell.
            print_line(group.group)
        return
    show(
        options.output,
        Table(list(columns), list(zip(*columns.values(), strict=True))),
        [_json(group) for group in groups],
    )


def _json(listing: GroupListing) -> dict[str, object]:
    return {
        "group": listing.group,
        "state": listing.state,
        "type": listing.type,
        "protocol_type": listing.protocol_type,
        "coordinator": listing.coordinator,
    }
