"""What `kohort storage check` looks at in a data directory; nothing is changed."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from kohort.errors import KohortError
from kohort.log import directory_format, recovery, repair
from kohort.log.data_directory import partition_names
from kohort.log.findings import Finding, Level
from kohort.log.lock import locked
from kohort.log.worker_directories import directories_of


def check(path: Path) -> Iterator[Finding]:
    """What there is to say of the directory; every byte is read. Raises OSError."""
    try:
        found = directory_format.examine(path)
    except KohortError as error:
        yield Finding(Level.PROBLEM, "format", str(error))
        return
    if found is None:
        yield Finding(Level.WARNING, "format", "no server has made it yet, or version 0.1 did")
        return
    text = f"version {found.version}, of Kohort {found.written_by}, cluster {found.cluster_id}"
    yield Finding(Level.OK, "format", text)
    free = shutil.disk_usage(path).free
    yield Finding(Level.OK, "size", f"{free / 1e9:.1f} GB are free on its volume")
    try:
        with ExitStack() as locks:
            paths = directories_of(path)
            for each in paths:
                locks.enter_context(locked(each))
            yield Finding(Level.OK, "lock", "no server uses it")
            yield from _logs(paths)
    except KohortError as error:
        yield Finding(Level.WARNING, "lock", f"{error}; the logs were not checked")


def _logs(paths: Sequence[Path]) -> Iterator[Finding]:
    logs = damaged = 0
    for path in paths:
        for each in partition_names(path):
            logs += 1
            directory = str(path / str(each))
            cut = None if recovery.has_swaps(directory) else repair.examine(directory)
            if cut is not None:
                damaged += 1
                told = f"{cut.damage}; see kohort repair {paths[0]} {each}"
                yield Finding(Level.PROBLEM, "log", told)
    if not damaged:
        yield Finding(Level.OK, "logs", f"none of {logs} is damaged")
