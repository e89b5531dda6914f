"""Show damage in the logs of a data directory, and end each damaged log before it.

Every byte is read and checked; nothing is changed without --execute, and then nothing is deleted:
what is cut off is kept beside the log, in files that end with .cut. A torn tail, which a killed
server leaves, needs no repair: the next start cuts it off. The server must be stopped.

exit codes: 0 no log is damaged, or all that were are repaired; 1 something could not be read or
written; 2 refused: a server has the directory, or it is none; 3 damage was found, and --execute was
not given
"""

import argparse
import sys
from pathlib import Path

from kohort.cli.exit_codes import FAILED, FOUND
from kohort.cli.options import RefusedError
from kohort.errors import KohortError
from kohort.log import directory_format, recovery, repair
from kohort.log.data_directory import partition_names
from kohort.log.lock import locked
from kohort.suggestions import did_you_mean


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DATA_DIR", type=Path, help="the data directory")
    parser.add_argument(
        "partitions",
        metavar="TOPIC-PARTITION",
        nargs="*",
        help="the logs to check (default: all), by the names of their directories",
    )
    parser.add_argument("--execute", action="store_true", help="cut what is shown, and keep it")


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    directory: Path = options.directory
    try:
        directory_format.examine(directory)
        with locked(directory):
            names = _wanted(directory, options.partitions)
            codes = {_repair(str(directory / name), execute=options.execute) for name in names}
    except KohortError as error:
        raise RefusedError(str(error)) from error
    except OSError as error:
        raise RefusedError(f"{directory} cannot be read: {error.strerror}") from error
    for code in (FAILED, FOUND):
        if code in codes:
            return code
    return 0


def _wanted(directory: Path, named: list[str]) -> list[str]:
    """The directories of the logs to check. Raises RefusedError for one that does not exist."""
    there = [str(partition) for partition in partition_names(directory)]
    for name in named:
        if name not in there:
            raise RefusedError(f"{directory} has no log {name}{did_you_mean(name, there)}")
    return named or there


def _repair(path: str, *, execute: bool) -> int:
    """Check one log, and repair it; the exit code for it."""
    try:
        if recovery.has_swaps(path):
            if not execute:
                print(f"{path}: a compaction was interrupted; --execute completes it first")
                return FOUND
            recovery.complete_swaps(path)
        cut = repair.examine(path)
        if cut is None:
            return 0
        _show(path, cut)
        if not execute:
            return FOUND
        for kept in repair.execute(path, cut):
            print(f"  kept {kept}")
    except OSError as error:
        print(f"kohort: {path}: {error.strerror or error}", file=sys.stderr)
        return FAILED
    print(f"  repaired: the log ends at offset {cut.damage.offset}")
    return 0


def _show(path: str, cut: repair.Cut) -> None:
    print(f"{Path(path).name}: {cut.damage}")
    print(
        f"  to cut: {cut.bytes} bytes from there on, offsets {cut.damage.offset} to "
        f"{cut.end_offset - 1}, with {cut.batches} whole batches behind the damage"
        if cut.bytes
        else "  to cut: nothing; the log is to end where its records do"
    )
    for file in cut.files:
        print(f"  to take out: {file}")
