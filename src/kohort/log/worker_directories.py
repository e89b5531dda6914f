"""The data directories of several processes that serve one cluster, and moves between them.

Process 0 has the data directory itself, process 1 has `worker1` below it, and so on. Each of them
is a data directory with a lock and a last end of its own. No directory of a partition has a name
like `worker1`, without a dash.

`kohort.properties` of the data directory says over how many processes its partitions are spread.
When that number changes, partitions are renamed from directory to directory, in this order, so that
a process that is killed, or a power loss, leaves what the next start can go on with:

1. all directories are locked, and what forbids a move is found before anything changes;
2. all say of their last end what is true of the worst: a log that has to be recovered is recovered
   wherever it is;
3. `kohort.properties` says that partitions are being moved, which every server refuses;
4. the directories of partitions are renamed, and so is what was set aside in directories that go;
5. directories that are needed no more are removed;
6. `kohort.properties` has the new number.
"""

import contextlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from kohort.errors import KohortError
from kohort.log.data_directory import partition_names
from kohort.log.directory_format import FORMAT_FILE, METADATA_NAME, MOVING, encode_format, examine
from kohort.log.durability import sync_all
from kohort.log.files import replace_file
from kohort.log.lock import LOCK_FILES, DirectoryLock, locked
from kohort.log.partition_mark import MARK, new_cluster_id, read_mark
from kohort.types import TopicPartition

logger = logging.getLogger("kohort.log")

_NAME: Final = re.compile(r"worker([1-9][0-9]{0,3})")
_OWN_FILES: Final = (FORMAT_FILE, *LOCK_FILES)
"""Files of a directory without partitions; the lock is removed last."""

Place: TypeAlias = Callable[[TopicPartition], int]
"""The worker that has a partition, from 0 on."""


class _Move(NamedTuple):
    name: str
    source: Path
    target: Path


def directory_of(path: Path, worker: int) -> Path:
    """The data directory of a worker of the data directory `path`."""
    return path / f"worker{worker}" if worker else path


def directories_of(path: Path) -> list[Path]:
    """The data directory `path` and those of the workers that are there, in order."""
    return [path, *(directory_of(path, number) for number in _numbers(path))]


def _numbers(path: Path) -> list[int]:
    return sorted(int(match[1]) for name in os.listdir(path) if (match := _NAME.fullmatch(name)))


def spread(path: Path, workers: int, worker_of: Place) -> None:
    """Move every partition to the worker that `worker_of` names, and make the workers' directories.

    Nothing moves if the number of workers has not changed. Raises KohortError if another process
    uses one of the directories, or what is there cannot be moved; OSError.
    """
    stored_format = examine(path)
    if stored_format is None and (path / METADATA_NAME).is_dir():
        raise KohortError(
            f"{path} was made by Kohort 0.1; start it once with one worker, which converts it"
        )
    if stored_format is not None:
        ensure_whole(path, stored_format.workers)
        if stored_format.workers == workers:
            _ensure_unused(path)
            return
    with ExitStack() as locks:
        root = _locked(locks, path)
        cluster_id = new_cluster_id() if stored_format is None else stored_format.cluster_id
        if stored_format is None:
            _write_format(path, cluster_id, MOVING)  # without it the directory would be foreign
        count = max(workers - 1, *_numbers(path), 0) + 1
        paths = [directory_of(path, number) for number in range(count)]
        new = [directory for directory in paths if not directory.exists()]
        held = [root, *(_locked(locks, directory) for directory in paths[1:])]
        try:
            moves = list(_moves(paths, workers, worker_of))
        except KohortError:
            for lock in held:
                lock.mark_clean()  # those that were, and nothing has changed
            for directory in new:
                _remove(directory)
            raise
        _agree(held)
        _write_format(path, cluster_id, MOVING)
        for directory in paths[1:workers]:
            _write_format(directory, cluster_id, 1)
        for move in moves:
            os.rename(move.source / move.name, move.target / move.name)
        sync_all([str(directory) for directory in paths])
        for directory in paths[workers:]:
            _remove(directory)
        _write_format(path, cluster_id, workers)
        for lock in held[:workers]:
            lock.mark_clean()
    if moves:
        logger.info("moved %d partitions for %d workers", len(moves), workers)


def _locked(locks: ExitStack, path: Path) -> DirectoryLock:
    lock = DirectoryLock(path)
    locks.callback(lock.release)
    return lock


def ensure_there(path: Path) -> None:
    """Raise KohortError if the directory of a worker, which `spread` has made, is gone."""
    if not (path / FORMAT_FILE).exists():
        raise KohortError(
            f"{path} is missing, which has the partitions of a worker; restore it from a copy"
        )


def ensure_whole(path: Path, workers: int) -> None:
    """Raise KohortError if the directory of a worker is missing."""
    for directory in (directory_of(path, number) for number in range(1, workers)):
        if not (directory / FORMAT_FILE).exists():
            raise KohortError(
                f"{directory} is missing, which has the partitions of one of {workers} workers; "
                "restore it from a copy"
            )


def _ensure_unused(path: Path) -> None:
    """Raise KohortError if a directory is in use by a process."""
    for directory in directories_of(path):
        if (directory / LOCK_FILES[-1]).exists():
            with locked(directory):
                pass


def _agree(locks: Sequence[DirectoryLock]) -> None:
    old = [lock for lock in locks if not lock.is_new]
    last_ends = {lock.last_end for lock in old}
    whole_indexes = all(lock.has_whole_indexes for lock in old)
    for lock in locks:
        lock.agree(last_ends, whole_indexes=whole_indexes)


def _moves(paths: Sequence[Path], workers: int, worker_of: Place) -> Iterator[_Move]:
    """Moves of partition directories. Raises KohortError if one of them is not possible."""
    for number, source in enumerate(paths):
        if source.stat().st_dev != paths[0].stat().st_dev:
            raise KohortError(
                f"{source} is on another file system than {paths[0]}: partitions cannot be moved "
                "there; start as many workers as before, or move it"
            )
        for partition in partition_names(source):
            if read_mark(str(source / str(partition))) is None:
                raise KohortError(
                    f"{source / str(partition)} has the name of a partition and no {MARK}, so it "
                    "cannot be moved; move it away or restore that file, or start as many workers "
                    "as before"
                )
            target = paths[worker_of(partition)]
            if target != source:
                yield _free(_Move(str(partition), source, target))
        if number >= workers:
            for name in _set_aside(source):
                yield _free(_Move(name, source, paths[0]))


def _free(move: _Move) -> _Move:
    if os.path.lexists(move.target / move.name):
        raise KohortError(
            f"{move.source / move.name} cannot be moved to {move.target}: there is one of that "
            "name; move one of them away"
        )
    return move


def _set_aside(path: Path) -> list[str]:
    """The directories of strays and of partitions that are being made or removed."""
    partitions = {str(partition) for partition in partition_names(path)}
    with os.scandir(path) as entries:
        return sorted(
            entry.name for entry in entries if entry.is_dir() and entry.name not in partitions
        )


def _remove(path: Path) -> None:
    """Remove a worker's directory that has no partition any more; other files stay, with it."""
    if set(os.listdir(path)) <= set(_OWN_FILES):
        for name in _OWN_FILES:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path / name)
        with contextlib.suppress(OSError):
            os.rmdir(path)
    else:
        logger.warning("%s is no longer used, and contains files that Kohort did not create", path)


def _write_format(path: Path, cluster_id: str, workers: int) -> None:
    replace_file(str(path / FORMAT_FILE), encode_format(cluster_id, workers), durable=True)
    sync_all((str(path),))
