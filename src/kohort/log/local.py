"""Logs in files: one directory for each partition, `<topic>-<partition>`, below one data directory.

An acknowledged append has reached the operating system (durability "os": it survives a killed
process), or the disk ("fsync": it survives a power failure).
"""

import os
import shutil
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Literal

from kohort.errors import ErrorCode
from kohort.log import recovery
from kohort.log.base import LogConfig
from kohort.log.cleaner import clean_all
from kohort.log.durability import GroupCommit, sync_all
from kohort.log.files import FileBacking
from kohort.log.lock import DirectoryLock
from kohort.log.partition import PartitionLog
from kohort.log.recovery import LastEnd
from kohort.log.storage import OpenFiles
from kohort.types import Instant, TopicPartition

Durability = Literal["os", "fsync"]

_REMOVED = "~removed-"
"""How directories that are being deleted are named; no topic can have a tilde in its name."""
_THREADS = 4


class LocalDirectory:
    """A `LogDirectory` on disk. For one process, and in it for one thread."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "os",
        max_open_files: int = 256,
    ) -> None:
        """Take the directory `path`, which is made if it does not exist.

        Raises KohortError if another process has it (its text names the directory and the process),
        OSError.
        """
        self._path = Path(path)
        self._lock = DirectoryLock(self._path)
        self._durable = durability == "fsync"
        self._files = OpenFiles(max_open_files)
        self._executor = ThreadPoolExecutor(_THREADS, "kohort-log")
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._removals = count()
        self._closed = False
        for leftover in self._path.glob(_REMOVED + "*"):
            self._executor.submit(shutil.rmtree, leftover, ignore_errors=True)

    def __repr__(self) -> str:
        return f"<LocalDirectory {self._path} {len(self._logs)} logs>"

    @property
    def last_end(self) -> LastEnd:
        """How the process that had the directory before has ended."""
        return self._lock.last_end

    def open(self, topic_partition: TopicPartition, config: LogConfig) -> PartitionLog:
        log = self._logs.get(topic_partition)
        if log is None:
            log = self._logs[topic_partition] = self._open(topic_partition, config)
        return log

    def _open(self, topic_partition: TopicPartition, config: LogConfig) -> PartitionLog:
        path = self._directory(topic_partition)
        is_new = not os.path.isdir(path)
        if is_new:
            os.mkdir(path)
        # A new directory needs no check, whatever happened to the old ones.
        last_end = LastEnd.CLEAN if is_new else self._lock.last_end
        segments, checkpoint = recovery.load(
            path, self._files, config.index_interval_bytes, last_end
        )
        backing = FileBacking(
            path,
            self._files,
            self._executor,
            checkpoint.recovery_point,
            durable=self._durable,
            on_failure=self._lock.distrust,
        )
        for segment in segments[:-1]:
            # a killed process left it in memory: the recovery point waits for it
            if segment.unsynced:
                backing.sealed(segment)
        if not self._durable:
            return PartitionLog(topic_partition, config, backing, segments, checkpoint)
        commit = GroupCommit(lambda: log.unsynced(), self._executor, self._lock.distrust)
        log = PartitionLog(topic_partition, config, backing, segments, checkpoint, commit)
        return log

    def _directory(self, topic_partition: TopicPartition) -> str:
        name = str(topic_partition)
        if "/" in name or "\0" in name or name.startswith(_REMOVED):
            raise ValueError(f"{name!r} cannot be the name of a directory")
        return f"{self._path}/{name}"

    def remove(self, topic_partition: TopicPartition) -> None:
        log = self._logs.pop(topic_partition, None)
        if log is not None:
            log.end(ErrorCode.unknown_topic_or_partition)
        path = self._directory(topic_partition)
        if not os.path.isdir(path):
            return
        # Renamed, it is gone at once and for good; deleting the files of a large log takes its
        # time.
        removed = f"{self._path}/{_REMOVED}{os.getpid()}-{next(self._removals)}"
        os.rename(path, removed)
        self._executor.submit(shutil.rmtree, removed, ignore_errors=True)

    def names(self) -> Iterable[TopicPartition]:
        found: list[TopicPartition] = []
        with os.scandir(self._path) as entries:
            for entry in entries:
                topic, dash, partition = entry.name.rpartition("-")
                if dash and topic and partition.isdecimal() and "~" not in topic and entry.is_dir():
                    found.append(TopicPartition(topic, int(partition)))
        return sorted(found)

    async def clean(self, now: Instant) -> None:
        await clean_all(self._logs.values(), now)

    def close(self) -> None:
        """Bring everything to the disk, close every log and let go of the directory. Idempotent.

        Raises OSError if something did not reach the disk; the next start then checks all of it.
        """
        if self._closed:
            return
        self._closed = True
        failures: list[BaseException] = []
        syncing: list[Future[None]] = []
        for log in self._logs.values():
            try:
                syncing.append(self._executor.submit(sync_all, log.unsynced()))
                log.close()
            except OSError as error:
                failures.append(error)
        self._logs.clear()
        self._executor.shutdown()
        failures += filter(None, (sync.exception() for sync in syncing))
        try:
            if failures:
                self._lock.distrust()
                raise failures[0]
            self._lock.mark_clean()
        finally:
            self._lock.release()
