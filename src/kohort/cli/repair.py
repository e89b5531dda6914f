"""Show damage in the logs of a data directory, and repair each damaged log.

The server must be stopped. Every byte is read and checked. Nothing is changed without --execute,
and nothing is deleted: bytes cut off are kept beside the log, in files that end with .cut. A torn
tail after a killed server needs no repair: the next start truncates it.

A repaired log ends before its first damage. With --keep-rest, the valid batches after the damage
are kept, and consumers skip the damaged offsets.
"""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from kohort.cli.exit_codes import FAILED, FOUND
from kohort.cli.options import RefusedError
from kohort.cli.output import print_line, print_message
from kohort.errors import KohortError
from kohort.log import directory_format, gap_repair, recovery, repair
from kohort.log.data_directory import partition_names
from kohort.log.lock import locked
from kohort.log.worker_directories import directories_of
from kohort.util.text import did_you_mean

_METADATA = "__cluster_metadata-0"
_GROUPS = "__consumer_offsets-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DATA_DIR", type=Path, help="data directory")
    parser.add_argument(
        "partitions",
        metavar="TOPIC-PARTITION",
        nargs="*",
        help="logs to check, by the names of their directories (default: all)",
    )
    parser.add_argument(
        "--execute", action="store_true", help="cut off the damage shown, and keep it in .cut files"
    )
    parser.add_argument(
        "--keep-rest",
        action="store_true",
        help="keep the batches after the damage, instead of ending the log before it",
    )


def run(options: argparse.Namespace) -> int:
    """Raises RefusedError."""
    directory: Path = options.directory
    try:
        directory_format.examine(directory)
        directories = directories_of(directory)
        with ExitStack() as locks:
            for locked_path in directories:
                locks.enter_context(locked(locked_path))
            codes = {
                _repair(str(path), execute=options.execute, keep_rest=options.keep_rest)
                for path in _selected_logs(directories, options.partitions)
            }
    except KohortError as error:
        raise RefusedError(str(error)) from error
    except OSError as error:
        raise RefusedError(f"{directory} cannot be read: {error.strerror}") from error
    for code in (FAILED, FOUND):
        if code in codes:
            return code
    return 0


def _selected_logs(directories: Sequence[Path], named: list[str]) -> list[Path]:
    """The directories of the logs to check. Raises RefusedError for one that does not exist."""
    paths = {
        str(partition): directory / str(partition)
        for directory in directories
        for partition in partition_names(directory)
    }
    for name in named:
        if name not in paths:
            raise RefusedError(f"{directories[0]} has no log {name}{did_you_mean(name, paths)}")
    return [paths[name] for name in named or paths]


def _repair(path: str, *, execute: bool, keep_rest: bool) -> int:
    """Check one log, and repair it; the exit code for it."""
    try:
        if recovery.has_swaps(path):
            if not execute:
                print_line(f"{path}: a compaction was interrupted; --execute completes it first")
                return FOUND
            recovery.complete_swaps(path)
        kept_rest = False
        if keep_rest:
            holes = gap_repair.find(path)
            if holes and (not _may_keep_rest(path, holes) or not execute):
                return FOUND
            for copy in gap_repair.fill(holes):
                print_line(f"  kept {copy}")
            kept_rest = bool(holes)
        cut = repair.examine(path)
        if cut is None:
            if kept_rest:
                print_line("  repaired: the records after the damage are served")
            return 0
        _show(path, cut)
        if not execute:
            return FOUND
        for copy in repair.execute(path, cut):
            print_line(f"  kept {copy}")
    except OSError as error:
        print_message(f"{path}: {error.strerror or error}")
        return FAILED
    print_line(f"  repaired: the log ends at offset {cut.damage.offset}")
    return 0


def _may_keep_rest(path: str, holes: list[gap_repair.Hole]) -> bool:
    """Show the holes; False if the log must not have them."""
    name = Path(path).name
    for hole in holes:
        print_line(f"{name}: {hole}")
    if name == _METADATA:
        print_line(
            "  not done: a lost change of topics could bring deleted topics back, or apply later "
            "changes to other topics. Restore this directory from a copy, or end the log before "
            "the damage, without --keep-rest"
        )
        return False
    if name.startswith(_GROUPS):
        print_line(
            "  groups: commits, deletions and generations in the hole are lost. A group continues "
            "from its latest commit outside of the hole, and may read records again"
        )
    return True


def _show(path: str, cut: repair.Cut) -> None:
    print_line(f"{Path(path).name}: {cut.damage}")
    print_line(
        f"  to cut: {cut.bytes} bytes from there on, offsets {cut.damage.offset} to "
        f"{cut.end_offset - 1}, with {cut.batches} whole batches after the damage"
        if cut.bytes
        else "  to cut: nothing; the log will end at its last record"
    )
    for file in cut.files:
        print_line(f"  to take out: {file}")
