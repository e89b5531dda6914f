"""Logs in files: one directory for each partition, `<topic>-<partition>`, below one data directory.

An acknowledged append has reached the operating system (durability "os": it survives a killed
process), or the disk ("fsync": it survives a power failure).
"""

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal
from uuid import UUID

from kohort.errors import ErrorCode, KafkaError, KohortError, fresh
from kohort.log import directory_format, recovery
from kohort.log.backing import Checkpoint
from kohort.log.base import Log, LogConfig
from kohort.log.cleaner import compact_all, retain_all
from kohort.log.damage import OpeningStoppedError
from kohort.log.data_directory import DataDirectory, checked_name, partition_names
from kohort.log.directory_format import DirectoryFormat
from kohort.log.durability import GroupCommit, rewrite, sync_all
from kohort.log.files import FileBacking, store_epochs
from kohort.log.health import DiskHealth
from kohort.log.leader_epochs import LeaderEpochs
from kohort.log.lock import DirectoryLock
from kohort.log.offline_log import OfflineLog
from kohort.log.parallel_recovery import Found, Outcome, recover_all
from kohort.log.partition import PartitionLog
from kohort.log.partition_mark import new_cluster_id
from kohort.log.problems import Problems
from kohort.log.recovery import LastEnd, RecoveryContext
from kohort.log.segment import Segment
from kohort.log.segment_recovery import Progress
from kohort.log.stores import OpenFiles, ensure_room
from kohort.types import Timestamp, TopicPartition

Durability = Literal["os", "fsync"]

_THREADS = 4
_WEEK_MS = 7 * 86_400_000


class LocalDirectory:
    """A `LogDirectory` on disk. For one process, and in it for one thread."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "os",
        max_open_files: int | None = None,
        stray_retention_ms: int = _WEEK_MS,
        recovery_threads: int = 2,
        is_case_insensitive: bool | None = None,
        cluster_id: str | None = None,
        workers: int = 1,
    ) -> None:
        """Take the directory `path`, which is made if it does not exist.

        `is_case_insensitive` is found out if it is None. Without `cluster_id`, a new directory is
        one of a new cluster. `workers` is the number of processes over which the partitions are
        spread, of which this is the first. Raises KohortError if the directory is not Kohort's,
        needs a later version, is spread over another number, or belongs to another process (the
        text names the directory and says what to do), OSError.
        """
        self._path = Path(path)
        # Nothing is written, not even the lock, into a directory that is not Kohort's.
        _ensure_spread(self._path, workers)
        self._lock = DirectoryLock(self._path)
        self._durable = durability == "fsync"
        self._files = OpenFiles(max_open_files)
        self._stray_retention_ms = stray_retention_ms
        self._recovery_threads = recovery_threads
        self._logs: dict[TopicPartition, PartitionLog | OfflineLog] = {}
        self._recovered: dict[TopicPartition, Outcome] = {}
        """Logs that were recovered after a crash of the machine and not opened yet."""
        self._retired: dict[TopicPartition, PartitionLog | OfflineLog] = {}
        """Logs that were closed without a sync, and may be opened again."""
        self._owned: set[TopicPartition] = set()
        """Logs that their owners sync."""
        self._leader_epochs: dict[TopicPartition, int] = {}
        """In which logs are led, if that is not 0."""
        self._reopening: TopicPartition | None = None
        """The log that `reopen` checks now."""
        self.on_reopened: list[Callable[[Log], None]] = []
        self.on_written: list[Callable[[float], None]] = []
        self._closed = False
        self._stopped = False
        self.problems = Problems()
        self._executor = ThreadPoolExecutor(_THREADS, "kohort-log")
        try:
            self.directories = self._open_directories(is_case_insensitive, cluster_id, workers)
        except BaseException:
            self._executor.shutdown()
            self._lock.release()
            raise

    def _open_directories(
        self, is_case_insensitive: bool | None, cluster_id: str | None, workers: int
    ) -> DataDirectory:
        current = _ensure_spread(self._path, workers)
        directories = DataDirectory(
            self._path,
            self._executor,
            current,
            is_case_insensitive=is_case_insensitive,
        )
        if current is None and not partition_names(self._path):
            directories.settle(cluster_id or new_cluster_id())
        return directories

    def __repr__(self) -> str:
        return f"<LocalDirectory {self._path} {len(self._logs)} logs>"

    @property
    def last_end(self) -> LastEnd:
        """How the last process with this directory ended."""
        return self._lock.last_end

    @property
    def owned(self) -> "LocalDirectory":
        return self

    def stop_opening(self) -> None:
        """Make `open` raise OpeningStoppedError from now on, also during a check; thread-safe."""
        self._stopped = True

    def confirm_start(self) -> None:
        """Note that every log was opened and the server serves. Raises OSError.

        From now on it matters how this process ends.
        """
        if not any(isinstance(log, OfflineLog) for log in self._logs.values()):
            self._lock.confirm()

    def _go_on(self, checked: int = 0) -> None:  # noqa: ARG002
        if self._stopped:
            raise OpeningStoppedError

    def recover(self, logs: Iterable[tuple[TopicPartition, LogConfig, int]]) -> None:
        if self._lock.last_end is not LastEnd.CRASHED:
            return
        configs: dict[TopicPartition, LogConfig] = {}
        for topic_partition, config, leader_epoch in logs:
            if topic_partition not in self._logs:
                configs[topic_partition] = config
                self._lead(topic_partition, leader_epoch)
        if not configs:
            return

        def load(topic_partition: TopicPartition, progress: Progress) -> Found:
            def go_on(checked: int) -> None:
                self._go_on()
                progress(checked)

            return self._recovery(topic_partition, configs[topic_partition], go_on)

        paths = {partition: self._directory(partition) for partition in configs}
        self._recovered = recover_all(paths, load, self._recovery_threads)

    def _lead(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        if leader_epoch:
            self._leader_epochs[topic_partition] = leader_epoch

    def _recovery_context(
        self, topic_partition: TopicPartition, config: LogConfig, last_end: LastEnd
    ) -> RecoveryContext:
        return RecoveryContext(
            last_end=last_end,
            topic_partition=str(topic_partition),
            leader_epoch=self._leader_epochs.get(topic_partition, 0),
            is_compacted=config.is_compacted,
        )

    def _recovery(
        self, topic_partition: TopicPartition, config: LogConfig, progress: Progress
    ) -> Found:
        """Recover a log after a crash of the machine, in any thread; its files are closed again."""
        progress(0)
        own_files = OpenFiles()
        segments, checkpoint = recovery.load(
            self._directory(topic_partition),
            own_files,
            config.index_interval_bytes,
            self._recovery_context(topic_partition, config, LastEnd.CRASHED),
            progress,
        )
        for segment in segments:
            segment.close()
        own_files.join(self._files)
        return segments, checkpoint

    def open(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        synced_by_owner: bool = False,
        leader_epoch: int = 0,
    ) -> PartitionLog | OfflineLog:
        log = self._logs.get(topic_partition)
        if log is None:
            self._lead(topic_partition, leader_epoch)
            if synced_by_owner:
                self._owned.add(topic_partition)
            log = self._open(topic_partition, config, synced_by_owner)
            self._logs[topic_partition] = log
            if isinstance(log, PartitionLog):
                crashed = self._lock.last_end is LastEnd.CRASHED
                log.restore_producers(self._go_on, crashed=crashed)
        return log

    def refuse(self, topic_partition: TopicPartition, why: str) -> None:
        failure = KafkaError(ErrorCode.kafka_storage_error, why)
        self._logs[topic_partition] = self._refused(topic_partition, LogConfig(), failure)

    def _refused(
        self, topic_partition: TopicPartition, config: LogConfig, error: KafkaError | OSError
    ) -> OfflineLog:
        can_reopen = isinstance(error, OSError)
        if isinstance(error, OSError):
            message = f"cannot open the log, retrying: {error}"
            error = KafkaError(ErrorCode.kafka_storage_error, message)
        self._lock.distrust_check()
        self.problems.begin(topic_partition, error.message)
        return OfflineLog(topic_partition, config, error, can_reopen=can_reopen)

    # Opening again

    async def reopen(self) -> None:
        for log in [candidate for candidate in self._logs.values() if candidate.can_reopen]:
            topic_partition = log.topic_partition
            self._reopening = topic_partition
            try:
                opened = await self._reopened(log)
            finally:
                self._reopening = None
            if opened is not None and self._logs.get(topic_partition) is log:
                self._logs[topic_partition] = opened
                for tell in self.on_reopened:
                    tell(opened)

        await self._accept_appends()

    async def _accept_appends(self) -> None:
        """End the problem of each log whose refused append the disk would take now.

        A server that is not healthy may get no appends that could show it.
        """
        for topic_partition, (_, size) in tuple(self.problems.refused_appends.items()):
            directory = self._directory(topic_partition)
            with contextlib.suppress(OSError):
                await asyncio.to_thread(ensure_room, directory, size)
                self.problems.append_accepted(topic_partition, size)

    async def _reopened(self, log: PartitionLog | OfflineLog) -> PartitionLog | OfflineLog | None:
        """The log that takes the place of a failed one; None if it fails as before."""
        topic_partition = log.topic_partition
        path = self._directory(topic_partition)
        last_end = self._lock.last_end if isinstance(log, OfflineLog) else LastEnd.KILLED
        try:
            # The new log has the same directory, in which a sync under way stores a checkpoint, and
            # a compaction or a deletion renames and removes segments.
            if isinstance(log, OfflineLog):
                is_synced = not self._durable
            else:
                is_synced = await log.work_ended()
            # The check may take long.
            recovered = await asyncio.to_thread(
                self._check, topic_partition, path, log.config, last_end, is_synced
            )
            if self._logs.get(topic_partition) is not log:
                return None  # deleted meanwhile
            self._recovered[topic_partition] = recovered
            owned = topic_partition in self._owned
            opened = self._loaded(topic_partition, log.config, path, LastEnd.KILLED, owned)
        except (KafkaError, OSError) as error:
            if self._logs.get(topic_partition) is not log:
                return None
            refused = self._refused(topic_partition, log.config, error)
            return refused if isinstance(error, KafkaError) else None
        self.problems.end_all(topic_partition)
        opened.restore_producers(self._go_on, crashed=last_end is LastEnd.CRASHED)
        return opened

    def _check(
        self,
        topic_partition: TopicPartition,
        path: str,
        config: LogConfig,
        last_end: LastEnd,
        is_synced: bool,
    ) -> Found:
        """Recover the log in `path` with its producers, in any thread; its files are closed again.

        `is_synced`: False if a sync of the log has failed. Raises KafkaError, OSError.
        """
        own_files = OpenFiles()
        segments, checkpoint = recovery.load(
            path,
            own_files,
            config.index_interval_bytes,
            self._recovery_context(topic_partition, config, last_end),
            self._go_on,
        )
        backing = self._backing(
            topic_partition, path, own_files, checkpoint, durable=False, saves_in_sync=False
        )
        log = PartitionLog(topic_partition, config, backing, segments, checkpoint)
        log.restore_producers(self._go_on)
        for segment in segments:
            segment.close()
        own_files.join(self._files)
        if self._durable or not is_synced:
            _sync_found(path, segments, after_failed_sync=not is_synced)
        return segments, checkpoint

    def _open(
        self, topic_partition: TopicPartition, config: LogConfig, synced_by_owner: bool
    ) -> PartitionLog | OfflineLog:
        self._go_on()
        if topic_partition == self._reopening:
            raise OSError(errno.EBUSY, "the log that was there before is still being checked")
        path = self._directory(topic_partition)
        is_new = not os.path.isdir(path)
        if is_new:
            os.mkdir(path)
        # A new directory needs no check, whatever happened to the old ones.
        last_end = LastEnd.CLEAN if is_new else self._lock.last_end
        retired = self._retired.pop(topic_partition, None)
        if retired is not None and not is_new:
            last_end = LastEnd.KILLED
        try:
            return self._loaded(
                topic_partition,
                config,
                path,
                last_end,
                synced_by_owner,
                after_failed_sync=retired is not None and _is_doubtful(retired),
            )
        except (KafkaError, OSError) as error:
            if is_new:
                raise
            return self._refused(topic_partition, config, error)

    def _loaded(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        path: str,
        last_end: LastEnd,
        synced_by_owner: bool,
        *,
        after_failed_sync: bool = False,
    ) -> PartitionLog:
        """`after_failed_sync`: a sync of the log may have failed in this process."""
        in_commits = self._durable and not synced_by_owner
        is_synced = self._durable or synced_by_owner
        recovered = self._recovered.pop(topic_partition, None)
        if isinstance(recovered, KafkaError | OSError):
            raise fresh(recovered)
        segments, checkpoint = recovered or recovery.load(
            path,
            self._files,
            config.index_interval_bytes,
            replace(
                self._recovery_context(topic_partition, config, last_end),
                may_have_holes=not synced_by_owner,
                has_whole_indexes=self._lock.has_whole_indexes,
            ),
            self._go_on,
        )
        backing = self._backing(
            topic_partition,
            path,
            self._files,
            checkpoint,
            durable=is_synced,
            saves_in_sync=in_commits,
            # The first append makes the file of an empty segment.
            has_new_names=last_end is not LastEnd.CLEAN or segments[-1].log.file() is None,
        )
        if checkpoint.epochs:
            store_epochs(path, checkpoint.epochs, durable=is_synced)
        for segment in segments[:-1]:
            # a killed process left it in memory: the recovery point waits for it
            if segment.unsynced:
                backing.sealed(segment)
        log = PartitionLog(
            topic_partition,
            config,
            backing,
            segments,
            checkpoint,
            partial(GroupCommit, executor=self._executor) if in_commits else None,
            self.problems,
            LeaderEpochs.of(checkpoint.epochs),
        )
        if is_synced:  # what readers see from the start is durable
            after_failed_sync |= self._lock.has_failed_sync
            _sync_found(path, segments, after_failed_sync=after_failed_sync)
            backing.synced(log.end_offset)
        return log

    def _backing(
        self,
        topic_partition: TopicPartition,
        path: str,
        files: OpenFiles,
        checkpoint: Checkpoint,
        *,
        durable: bool,
        saves_in_sync: bool,
        has_new_names: bool = True,
    ) -> FileBacking:
        return FileBacking(
            path,
            files,
            self._executor,
            checkpoint,
            durable=durable,
            saves_in_sync=saves_in_sync,
            has_new_names=has_new_names,
            health=DiskHealth(topic_partition, self.problems, self._lock.distrust),
        )

    def _directory(self, topic_partition: TopicPartition) -> str:
        return f"{self._path}/{checked_name(topic_partition)}"

    def retire(self, topic_partition: TopicPartition) -> None:
        log = self._logs.pop(topic_partition, None)
        if log is not None:
            log.end(ErrorCode.unknown_topic_or_partition)
            self.problems.forget(topic_partition)
            self._retired[topic_partition] = log
            self._leader_epochs.pop(topic_partition, None)

    def remove(self, topic_partition: TopicPartition, topic_id: UUID) -> None:
        self.retire(topic_partition)
        self._retired.pop(topic_partition, None)
        self.directories.remove(topic_partition, topic_id)

    def names(self) -> Iterable[TopicPartition]:
        return partition_names(self._path)

    async def retain(self, now: Timestamp) -> None:
        await retain_all(self._logs.values(), now)
        # It looks at the name of every partition's directory.
        await asyncio.to_thread(self.directories.remove_strays, now, self._stray_retention_ms)

    async def compact(self, now: Timestamp) -> None:
        await compact_all(self._logs.values(), now)

    def close(self) -> None:
        """Sync all data, close every log and release the directory. Idempotent.

        Raises OSError if data did not reach the disk; the next start then checks all of it. Waits
        for the syncs under way, also those that no append waits for.
        """
        if self._closed:
            return
        self._closed = self._stopped = True
        syncing: list[Future[None]] = []
        own_names: set[str] = set()  # of this directory: synced once, not for each log
        for log in self._logs.values():
            if (running := log.running_sync()) is not None:
                syncing.append(running)
            paths = set(log.unsynced())
            own_names |= paths & {str(self._path)}
            if paths := paths - own_names:
                syncing.append(self._executor.submit(sync_all, paths))
        if own_names:
            syncing.append(self._executor.submit(sync_all, own_names))
        failures = _failures(syncing) or self._prepare_clean_shutdown()
        failures += self._close_logs()
        self._executor.shutdown()
        try:
            if failures:
                self._lock.distrust()
                raise fresh(failures[0])
            self._lock.mark_clean()
        finally:
            self._lock.release()

    def _prepare_clean_shutdown(self) -> list[BaseException]:
        """Set the recovery point of each log to its end, and return the failures.

        The next start then takes no damage there for a torn tail.
        """
        try:
            return _failures(
                [self._executor.submit(log.prepare_clean_shutdown()) for log in self._logs.values()]
            )
        except OSError as error:
            return [error.with_traceback(None)]

    def _close_logs(self) -> list[BaseException]:
        """Close each log; what failed."""
        failures: list[BaseException] = []
        for log in self._logs.values():
            try:
                log.close()
            except OSError as error:
                failures.append(error.with_traceback(None))
        self._logs.clear()
        return failures


def _ensure_spread(path: Path, workers: int) -> DirectoryFormat | None:
    """The format of the directory, None if it is new.

    Raises KohortError if the directory is not Kohort's, or spread over another number of workers.
    """
    current = directory_format.examine(path)
    if current is not None and current.workers != workers:
        raise KohortError(
            f"the partitions of {path} lie where {current.workers or 'other'} workers have them, "
            f"and not {workers}; 'kohort serve --workers {workers}' moves them"
        )
    return current


def _is_doubtful(log: PartitionLog | OfflineLog) -> bool:
    """Whether a sync of a log that has ended has failed, or may fail yet."""
    return log.failed_syncs > 0 or log.running_sync() is not None


def _failures(running: Sequence[Future[None]]) -> list[BaseException]:
    """The errors of these futures, once all have ended."""
    return [error for future in running if (error := future.exception()) is not None]


def _sync_found(path: str, segments: Sequence[Segment], *, after_failed_sync: bool = False) -> None:
    """Sync what a process that was killed left in memory. Raises OSError.

    `after_failed_sync`: the files are rewritten first.
    The names of files that are made later are not part of it: the log that appends syncs them.
    """
    # A failed sync cuts the last segment, and this cut may be in memory only, too.
    unsynced = [
        segment
        for segment in segments
        if segment.unsynced or (after_failed_sync and segment is segments[-1])
    ]
    files = [file for segment in unsynced if (file := segment.log.file()) is not None]
    if files:
        for file in files if after_failed_sync else ():
            rewrite(file)
        sync_all((*files, path, os.path.dirname(path)))
    for segment in unsynced:
        segment.unsynced = False
