"""What is Kohort's below a data directory, and how it comes and goes.

Rules:

- Only directories with a mark (`partition_mark`) are ever moved or removed. A directory that has
  the name of a partition and no mark is somebody else's, and stays as it is.
- A directory gets its name when its mark is on the disk: it is made as `~new-…`, marked, synced,
  renamed, and the data directory is synced. So no power loss leaves a partition without a mark.
- A marked directory that belongs to no topic is renamed `<partition>.<id>-stray` and kept for
  `stray.retention.ms`. A deleted topic's directories are renamed `~removed-…` and removed.

Everything here blocks on the disk, and may be called in any thread.
"""

import contextlib
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Final
from uuid import UUID

from kohort.log.directory_format import FORMAT_FILE, DirectoryFormat, encode_format
from kohort.log.durability import sync_all
from kohort.log.files import read_file, replace_file
from kohort.log.partition_directories import NameTakenError
from kohort.log.partition_mark import MARK, NEW_MARK, read_mark, write_mark
from kohort.types import TopicPartition

logger = logging.getLogger("kohort.log")

_NEW: Final = "~new-"
_REMOVED: Final = "~removed-"
"""No topic can have a tilde in its name."""
_STRAY: Final = "-stray"
_STRAY_NAME: Final = re.compile(r".+\.[0-9a-f]{32}-stray")
_NEW_NAME: Final = re.compile(_NEW + r"[0-9a-f]{32}")
_REMOVED_NAME: Final = re.compile(_REMOVED + r"([0-9a-f]{32}|\d+-\d+)")
"""Version 0.1 gave them two numbers."""
_MAX_NAME: Final = 255
_BATCH_SIZE: Final = 256
"""Directories that are made, synced and renamed together."""


class DataDirectory:
    """The `PartitionDirectories` of a directory on disk."""

    def __init__(
        self,
        path: Path,
        executor: Executor,
        stored_format: DirectoryFormat | None,
        *,
        is_case_insensitive: bool | None = None,
    ) -> None:
        """`path` is locked by this process and has the format `stored_format`; `executor` runs
        syncs.

        `is_case_insensitive` is found out if it is None.
        """
        self.cluster_id = None if stored_format is None else stored_format.cluster_id
        self.written_by = "0.1" if stored_format is None else stored_format.written_by
        self._workers = 1 if stored_format is None else stored_format.workers
        self.is_case_insensitive = (
            _ignores_case(path) if is_case_insensitive is None else is_case_insensitive
        )
        self._path = path
        self._executor = executor
        self._removal = Lock()
        self._removed: list[str] = []
        """Directories that were renamed and are still to be removed."""
        for leftover in _named(path, _REMOVED_NAME):
            # Version 0.1 made them without marks.
            executor.submit(remove_partition_directory, leftover, marked=stored_format is not None)
        for leftover in _named(path, _NEW_NAME):
            executor.submit(_remove_unfinished, leftover)

    def __repr__(self) -> str:
        return f"<DataDirectory {self._path} cluster={self.cluster_id}>"

    def marks(self) -> dict[TopicPartition, UUID | None]:
        return {partition: self._mark(partition) for partition in partition_names(self._path)}

    def _mark(self, partition: TopicPartition) -> UUID | None:
        try:
            return read_mark(self._at(partition))
        except OSError as error:
            logger.error("cannot read partition.metadata of %s: %s", partition, error)
            return None

    def is_taken(self, partition: TopicPartition) -> bool:
        return os.path.lexists(self._at(partition))

    def make(self, partitions: Mapping[TopicPartition, UUID]) -> None:
        names = list(partitions)
        self._free(names)
        published: list[str] = []
        try:
            for start in range(0, len(names), _BATCH_SIZE):
                some = {
                    partition: partitions[partition]
                    for partition in names[start : start + _BATCH_SIZE]
                }
                self._make_some(some, published)
            sync_all((str(self._path),))
        except OSError:
            for path in published:
                with contextlib.suppress(OSError):
                    self._throw_away(path)
            raise

    def _make_some(self, partitions: Mapping[TopicPartition, UUID], published: list[str]) -> None:
        unfinished = [f"{self._path}/{_NEW}{token_hex(16)}" for _ in partitions]
        try:
            for path in unfinished:
                os.mkdir(path)
            self._beside_each_other(_mark_and_sync, unfinished, partitions.values())
            for path, partition in zip(unfinished, partitions, strict=True):
                os.rename(path, self._at(partition))
                published.append(self._at(partition))
        except OSError:
            for path in unfinished:
                _remove_unfinished(path)
            raise

    def _free(self, partitions: Iterable[TopicPartition]) -> None:
        """Have no place with one of these names, or raise."""
        taken = [partition for partition in partitions if self.is_taken(partition)]
        for partition in taken:
            if read_mark(self._at(partition)) is None:
                raise NameTakenError(partition, f"{self._path}/{partition}")
        for partition in taken:
            self.set_aside(partition)

    def mark(self, partitions: Mapping[TopicPartition, UUID]) -> None:
        paths = [self._at(partition) for partition in partitions]
        self._beside_each_other(_mark_and_sync, paths, partitions.values())

    def _beside_each_other(self, work: object, *arguments: Iterable[object]) -> None:
        for _ in self._executor.map(work, *arguments):  # type: ignore[arg-type]
            pass

    def set_aside(self, partition: TopicPartition) -> str:
        suffix = f".{token_hex(16)}{_STRAY}"
        name = str(partition)[: _MAX_NAME - len(suffix)] + suffix
        aside = f"{self._path}/{name}"
        os.rename(self._at(partition), aside)
        os.utime(aside)  # its time is counted from now
        sync_all((str(self._path),))
        logger.warning("renamed directory %s, which belongs to no topic, to %s", partition, name)
        return name

    def remove(self, partition: TopicPartition, topic_id: UUID) -> None:
        if read_mark(self._at(partition)) != topic_id:
            return
        self._throw_away(self._at(partition))

    def _throw_away(self, path: str) -> None:
        """Rename a marked directory at once, and remove it later."""
        removed = f"{self._path}/{_REMOVED}{token_hex(16)}"
        os.rename(path, removed)
        with self._removal:
            self._removed.append(removed)
            if len(self._removed) == 1:
                self._executor.submit(self._remove_renamed)

    def _remove_renamed(self) -> None:
        with self._removal:
            removed, self._removed = self._removed, []
        # Else a power loss could bring the old name back when the mark is gone already.
        sync_all((str(self._path),))
        for path in removed:
            with contextlib.suppress(OSError):  # tried again at the next start
                remove_partition_directory(path, marked=True)

    def remove_strays(self, now: int, retention_ms: int) -> None:
        """Remove what was set aside more than `retention_ms` ago; -1 keeps it. Raises OSError."""
        if retention_ms < 0:
            return
        for path in _named(self._path, _STRAY_NAME):
            since = os.stat(path).st_mtime_ns // 1_000_000
            if now - since > retention_ms and read_mark(path) is not None:
                logger.warning(
                    "deleting stray directory %s after %d ms (stray.retention.ms is %d)",
                    path, now - since, retention_ms,
                )  # fmt: skip
                self._executor.submit(remove_partition_directory, path, marked=True)

    def settle(self, cluster_id: str) -> None:
        content = encode_format(cluster_id, self._workers)
        path = f"{self._path}/{FORMAT_FILE}"
        if read_file(path) != content:
            replace_file(path, content, durable=True)
            sync_all((str(self._path),))
        self.cluster_id = cluster_id

    def _at(self, partition: TopicPartition) -> str:
        return f"{self._path}/{checked_name(partition)}"


def checked_name(partition: TopicPartition) -> str:
    """The name of a partition's directory. Raises ValueError for one that leads elsewhere."""
    name = str(partition)
    if "/" in name or "\0" in name or name.startswith("~"):
        raise ValueError(f"{name!r} cannot be the name of a directory")
    return name


def partition_names(path: Path) -> list[TopicPartition]:
    """What has the name of a partition and is a directory, in order. Raises OSError."""
    partitions: list[TopicPartition] = []
    with os.scandir(path) as entries:
        for entry in entries:
            topic, dash, partition = entry.name.rpartition("-")
            if (
                dash
                and topic
                and "~" not in topic
                and re.fullmatch("0|[1-9][0-9]{0,9}", partition)
                and entry.is_dir()
            ):
                partitions.append(TopicPartition(topic, int(partition)))
    return sorted(partitions)


def remove_partition_directory(path: str, *, marked: bool) -> None:
    """Remove the files of a partition and its directory, the mark last; `marked`: only if it is.

    What is interrupted is still marked, and is completed at the next start. Directories inside are
    not Kohort's: then the rest stays. Raises OSError.
    """
    if marked and read_mark(path) is None:
        with contextlib.suppress(OSError):  # all but the directory itself may be gone already
            os.rmdir(path)
        return
    for name in sorted(os.listdir(path), key=lambda name: name == MARK):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}/{name}")
    os.rmdir(path)


def _remove_unfinished(path: str) -> None:
    """Remove a directory that was never given its name, if it is as `make` leaves it."""
    with contextlib.suppress(OSError):
        if set(os.listdir(path)) <= {MARK, NEW_MARK}:
            for name in (NEW_MARK, MARK):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{path}/{name}")
            os.rmdir(path)


def _mark_and_sync(path: str, topic_id: UUID) -> None:
    write_mark(path, topic_id)
    sync_all((path,))


def _named(path: Path, pattern: re.Pattern[str]) -> Iterator[str]:
    return (f"{path}/{name}" for name in os.listdir(path) if pattern.fullmatch(name))


def _ignores_case(path: Path) -> bool:
    """Whether `.lock`, which is there, is found under another case."""
    return (path / ".LOCK").exists()
