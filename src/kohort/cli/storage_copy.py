"""Copy all data of a server into an empty data directory or schema of PostgreSQL.

Servers must be stopped. No server starts on an incomplete copy; the same command continues an
interrupted one. Then every byte of source and target is read and compared: batches, offsets,
producers, transactions.
"""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

from kohort.cli.exit_codes import FAILED, FOUND
from kohort.cli.options import RefusedError
from kohort.cli.output import print_line, print_message
from kohort.cli.storage_locations import describe_error, in_postgres, refusal_of
from kohort.errors import KohortError
from kohort.log import directory_format
from kohort.log.copying import Source, Target, copy_all, differences, logs_of
from kohort.log.file_copy import FileTarget
from kohort.log.local import LocalDirectory
from kohort.log.recovery import LastEnd
from kohort.log.worker_logs import WorkerLogs

T = TypeVar("T")

_PROGRESS_INTERVAL_S: Final = 5.0
_MB: Final = 1_000_000


class _Progress:
    """Lines on standard error, while much is read."""

    def __init__(self, action: str, total: int) -> None:
        """`total` in bytes."""
        self._action = action
        self._total = total
        self._done = 0
        self._began = self._reported = time.monotonic()
        self.existing = 0
        """Logs that did not have to be copied."""

    def already(self, count: int) -> None:
        """So many bytes of a log are there."""
        self._total -= count
        self.existing += 1

    def __call__(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._reported >= _PROGRESS_INTERVAL_S:
            self._reported = now
            total = f"{self._total / _MB:.0f} MB"
            print_line(f"{self._action} {self._done / _MB:.0f} of {total}", to=sys.stderr)

    def summary(self) -> str:
        seconds = max(time.monotonic() - self._began, 0.001)
        rate = self._done / _MB / seconds
        return f"{self._done / _MB:.1f} MB in {seconds:.1f} s ({rate:.0f} MB/s)"


def run(options: argparse.Namespace) -> int:
    """The exit code. Raises RefusedError."""
    in_postgres(options.target)  # a source may take long to open
    with closing(_opened(options.source, open_logs)) as source:
        try:
            logs = [log for log, _ in logs_of(source)]
            total = sum(log.size for log in logs)
            if not options.verify_only:
                with closing(_opened(options.target, open_target)) as target:
                    copying = _Progress("copied", total)
                    copy_all(source, target, copying, copying.already)
                    existing = f", {copying.existing} were there" if copying.existing else ""
                    count = len(logs) - copying.existing
                    print_line(f"copied {count} partitions, {copying.summary()}{existing}")
            with closing(_opened(options.target, open_logs)) as copy:
                comparing = _Progress("compared", 2 * total)
                mismatches = list(differences(source, copy, comparing))
        except RefusedError:
            raise
        except (KohortError, OSError) as error:
            print_message(describe_error(error))
            return FAILED
    for mismatch in mismatches:
        print_line(str(mismatch))
    if mismatches:
        print_line("the copy differs: do not serve from it")
        return FOUND
    print_line(f"verified: both places have the same {len(logs)} partitions, {comparing.summary()}")
    return 0


def _opened(location: str, how: Callable[[str], T]) -> T:
    """Raises RefusedError."""
    try:
        return how(location)
    except (KohortError, OSError) as error:
        raise refusal_of(location, error) from error


def open_logs(location: str) -> Source:
    """The logs of stopped servers. Raises KohortError, OSError."""
    if in_postgres(location):
        from kohort.storage.postgres.logs.source import PostgresSource

        return PostgresSource(location)
    path = Path(location)
    contents = directory_format.examine(path)
    if contents is None:
        raise KohortError(
            f"{path} is not a data directory of Kohort, or was written by version 0.1"
        )
    several = contents.workers > 1
    directory = WorkerLogs(path, contents.workers) if several else LocalDirectory(path)
    if directory.last_end is LastEnd.CRASHED:
        directory.close()
        raise KohortError(
            f"the machine went down while a server used {path}: start and stop the server once"
        )
    return directory


def open_target(location: str) -> Target:
    """The target of a copy. Raises KohortError if it is not empty or in use, OSError."""
    if in_postgres(location):
        from kohort.storage.postgres.logs.copy import PostgresTarget

        return PostgresTarget(location)
    return FileTarget(Path(location))
