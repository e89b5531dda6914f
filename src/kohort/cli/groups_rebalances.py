"""Show why a group rebalanced: the journal that `kohort serve --http` keeps, in words.

The journal is of Kohort's HTTP port. Kafka's protocol has none, so of other brokers `kohort groups
watch` shows what changes from now on.
"""

import argparse
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from kohort.cli.exit_codes import FAILED
from kohort.cli.names import add_name
from kohort.cli.options import RefusedError
from kohort.cli.output import Table, add_output_argument, check_output, print_message, show
from kohort.coordinator.journal import Cause
from kohort.demo.words import why
from kohort.errors import KohortError

HTTP: Final = "127.0.0.1:9100"
TIMEOUT_S: Final = 30.0
_COLUMNS: Final = ("ENDED", "OUTCOME", "GENERATION", "JOIN-MS", "SYNC-MS", "#MEMBERS", "CAUSES")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_name(parser, "--group", "GROUP", "the group")
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        default=HTTP,
        help=f"the HTTP port of the server, or its http:// or https:// URL (default: {HTTP})",
    )
    add_output_argument(parser)


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    check_output(options)
    url = options.http if "://" in options.http else f"http://{options.http}"
    if not url.startswith(("http://", "https://")):
        raise RefusedError(f"--http {options.http}: is not HOST:PORT, http:// or https://")
    try:
        told = _asked(f"{url.rstrip('/')}/groups/{quote(options.group, safe='')}")
    except KohortError as error:
        print_message(f"group {options.group}: {error}")
        return FAILED
    journal = told["journal"]
    show(options.output, Table(_COLUMNS, list(map(_row, journal))), journal)
    if not journal and options.output == "table":
        print_message(f"group {options.group} has not rebalanced since the server started")
    return 0


def _asked(url: str) -> dict[str, Any]:
    """The response of the HTTP port. Raises KohortError."""
    try:
        # The scheme was checked.
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:  # nosec B310
            found: dict[str, Any] = json.load(response)
            return found
    except urllib.error.HTTPError as error:
        raise KohortError(_reason(error)) from error
    except OSError as error:
        why_not = getattr(error, "reason", error)
        raise KohortError(
            f"{url} does not respond ({why_not}): start the server with --http, or name its port "
            "by --http"
        ) from error
    except ValueError as error:
        raise KohortError(f"{url} is no HTTP port of Kohort: {error}") from error


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"{error.url}: {error}"


def _row(told: Mapping[str, Any]) -> tuple[object, ...]:
    started, joined, ended = told["started"], told["joined"], told["ended"]
    causes = tuple(
        Cause(each["what"], each["member_id"], each["client_id"], each["reason"])
        for each in told["causes"]
    )
    missing = f"; without {', '.join(told['awaited'])}" if told["awaited"] else ""
    return (
        datetime.fromtimestamp(ended / 1000, UTC).isoformat(timespec="milliseconds"),
        told["outcome"],
        told["generation"],
        (ended if joined is None else joined) - started,
        0 if joined is None else ended - joined,
        len(told["members"]),
        f"{why(causes)}{missing}",
    )
