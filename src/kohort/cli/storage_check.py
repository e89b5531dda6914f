"""Show whether a server can use a place, and what would be unwise.

For PostgreSQL: version, encryption, sessions (a pooler of transactions cannot be used), settings
that lose data, privileges, tables, nodes, and how long a commit takes. For a data directory, whose
server must be stopped: format, lock and free space. If no server uses the place, every batch is
read: damage, gaps, the order of leader epochs, logs without a topic and topics without a log.
Nothing is changed.
"""

import argparse
import asyncio
from collections.abc import Iterable
from pathlib import Path

from kohort.cli.exit_codes import FAILED, FOUND
from kohort.cli.storage_places import in_postgres, refused
from kohort.log import directory_check
from kohort.log.findings import Finding, Level
from kohort.server.topics import known_partitions

_CODES = {Level.PROBLEM: FAILED, Level.WARNING: FOUND, Level.OK: 0}


def run(options: argparse.Namespace) -> int:
    """The exit code. Raises RefusedError."""
    levels = set()
    try:
        for level, what, text in _findings(options.storage):
            levels.add(level)
            print(f"{level.value:<8} {what}: {text}", flush=True)
    except OSError as error:
        raise refused(options.storage, error) from error
    return next(code for level, code in _CODES.items() if level in levels)


def _findings(place: str) -> Iterable[Finding]:
    if in_postgres(place):
        from kohort.log.postgres.check import check

        return asyncio.run(check(place, known_partitions))
    return directory_check.check(Path(place), known_partitions)
