"""Check whether a server can use a storage, and report unsafe settings.

For PostgreSQL: version, encryption, connections, sessions (a pooler of transactions cannot be
used), settings that lose data, synchronous standbys, privileges, tables, nodes, and how long a
commit takes. For a data directory, whose server must be stopped: format, lock and free space. If no
server uses it, every batch is read: damage, gaps, the order of leader epochs, logs without a
topic and topics without a log. Nothing is changed.
"""

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path

from kohort.cli.exit_codes import FAILED, FOUND
from kohort.cli.output import print_line
from kohort.cli.storage_locations import in_postgres, refusal_of
from kohort.log import directory_check
from kohort.log.findings import Finding, Level
from kohort.server.metadata import read_logged_partitions

_CODES = {Level.PROBLEM: FAILED, Level.WARNING: FOUND, Level.OK: 0}


def run(options: argparse.Namespace) -> int:
    """The exit code. Raises RefusedError."""
    levels = set()

    def show(finding: Finding) -> None:
        level, subject, text = finding
        levels.add(level)
        print_line(f"{level.value:<8} {subject}: {text}")

    try:
        _check(options.storage, show)
    except OSError as error:
        raise refusal_of(options.storage, error) from error
    return next(code for level, code in _CODES.items() if level in levels)


def _check(location: str, show: Callable[[Finding], None]) -> None:
    """Show each finding at once. Raises RefusedError, OSError."""
    if in_postgres(location):
        asyncio.run(_check_database(location, show))
    else:
        for finding in directory_check.check(Path(location), read_logged_partitions):
            show(finding)


async def _check_database(url: str, show: Callable[[Finding], None]) -> None:
    from kohort.storage.postgres.check import check

    async for finding in check(url, read_logged_partitions):
        show(finding)
