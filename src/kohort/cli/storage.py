"""Copy all data of a server into another place, and check a place.

A place is a data directory, or the URL of a PostgreSQL database.
"""

import argparse

from kohort.cli import storage_check, storage_copy

_PLACE = "DIR|postgresql://…"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    copy = commands.add_parser(
        "copy",
        help="copy topics, groups, transactions, users and configs into an empty storage",
        description=storage_copy.__doc__,
    )
    copy.epilog = parser.epilog
    copy.add_argument("--from", dest="source", metavar=_PLACE, required=True, help="source storage")
    copy.add_argument(
        "--to",
        dest="target",
        metavar=_PLACE,
        required=True,
        help="target storage, which must be empty",
    )
    copy.add_argument("--verify-only", action="store_true", help="only compare source and target")
    copy.set_defaults(run=storage_copy.run)
    check = commands.add_parser(
        "check",
        help="check whether a server can use a storage",
        description=storage_check.__doc__,
    )
    check.epilog = parser.epilog
    check.add_argument("--storage", metavar=_PLACE, required=True, help="storage to check")
    check.set_defaults(run=storage_check.run)


def run(options: argparse.Namespace) -> int:
    """The exit code. Raises RefusedError."""
    code: int = options.run(options)
    return code
