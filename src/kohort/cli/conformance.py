"""Compare a server's responses with Apache Kafka's, field by field, over raw requests.

The scenarios create groups and topics with unique names, and delete them. The server should have
group.initial.rebalance.delay.ms and group.consumer.assignment.interval.ms of 0: otherwise joins and
target assignments are later than recorded. Exit code 1 if responses differ. The scenarios are those
of the extra `conformance`.
"""

import argparse
from typing import Final

from kohort.cli.options import RefusedError
from kohort.cli.output import print_message

PROFILES: Final = (
    "default", "small", "expiring", "retention", "rack", "upgrade", "downgrade", "disabled",
    "secured", "classic",
)  # fmt: skip
"""The values of `kohort_conformance.scenario`, for the help without the extra."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The same as of `python -m kohort_conformance`."""
    parser.add_argument(
        "address", metavar="HOST:PORT", nargs="?", help="address of the server to compare"
    )
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        action="append",
        default=[],
        help="run only these scenarios, by name or pattern, as static_members or '*.join*'",
    )
    parser.add_argument(
        "--profile",
        metavar="|".join(PROFILES),
        default="default",
        help="configuration of the server; small has group.max.size=2 and short limits (default: "
        "default)",
    )
    parser.add_argument("--list", action="store_true", help="list the scenarios and exit")
    parser.add_argument(
        "--output",
        metavar="table|json",
        default="table",
        help="format of the report (default: table)",
    )


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError, and ModuleNotFoundError without the extra."""
    from kohort_conformance import command

    try:
        return command.run(options, lambda text: print_message(f"{text}, as by kohort serve --dev"))
    except command.NotComparedError as error:
        raise RefusedError(f"{error}{_remedy(error, options.address)}") from error


def _remedy(error: Exception, address: str) -> str:
    """Advice if no server listens."""
    cause = error.__cause__ and error.__cause__.__cause__
    if not isinstance(cause, ConnectionRefusedError):
        return ""
    return f"; start a server by `kohort serve --memory --dev --listen {address}`, or name another"
