"""A data directory as the target of a copy.

Until the copy is complete, the directory's `kohort.properties` says so, and no server takes it.
"""

import os
from pathlib import Path
from typing import Final
from uuid import UUID

from kohort.errors import KohortError
from kohort.log import directory_format, files, recovery
from kohort.log.backing import Checkpoint
from kohort.log.copying import Extent
from kohort.log.data_directory import checked_name, partition_names, remove_partition_directory
from kohort.log.durability import sync_all
from kohort.log.lock import DirectoryLock
from kohort.log.partition_mark import read_mark, write_mark
from kohort.log.repair import read_checkpoint
from kohort.log.segment import Segment
from kohort.log.segment_storage import MAX_SEGMENT_SIZE
from kohort.log.stores import OpenFiles
from kohort.types import TopicPartition

_INTERVAL: Final = 4096


class FileTarget:
    """The `Target` in files. Every method raises OSError."""

    largest_segment = MAX_SEGMENT_SIZE

    def __init__(self, path: Path) -> None:
        """Lock the directory, which is made if there is none.

        Raises KohortError if it has anything but what a copy has left, or another process uses it.
        """
        self._path = path
        self._logs: set[TopicPartition] = set()
        """Those of the source."""
        self._begun = directory_format.cluster_of_unfinished_copy(path)
        if self._begun is None and (
            directory_format.examine(path) is not None or (path.exists() and partition_names(path))
        ):
            raise KohortError(
                f"{path} has data, and a copy needs an empty directory: name another one, or "
                "remove what is in this one"
            )
        self._lock = DirectoryLock(path)

    def begin(self, cluster_id: str) -> None:
        if self._begun not in (None, cluster_id):
            raise KohortError(
                f"{self._path} has a part of a copy of another cluster, {self._begun}: remove it "
                f"(rm -r {self._path}), or name another directory"
            )
        self._put_format(directory_format.unfinished_copy(cluster_id))

    def _put_format(self, content: bytes) -> None:
        path = str(self._path)
        files.replace_file(f"{path}/{directory_format.FORMAT_FILE}", content, durable=True)
        sync_all((path,))

    def _at(self, partition: TopicPartition) -> str:
        return f"{self._path}/{checked_name(partition)}"

    def copied(self, partition: TopicPartition, topic_id: UUID) -> Extent | None:
        self._logs.add(partition)
        path = self._at(partition)
        if read_mark(path) != topic_id or not os.path.exists(f"{path}/{files.PRODUCERS}"):
            return None
        checkpoint = read_checkpoint(path)
        size = sum(segment.size for segment in recovery.found_segments(path, OpenFiles()))
        return Extent(checkpoint.start_offset, checkpoint.recovery_point, size, checkpoint.cleaned)

    def add_log(self, partition: TopicPartition, topic_id: UUID) -> "FileLogCopy":
        self._logs.add(partition)
        path = self._at(partition)
        if os.path.exists(path):
            remove_partition_directory(path, marked=False)
        os.mkdir(path)
        write_mark(path, topic_id)
        return FileLogCopy(path)

    def complete(self, cluster_id: str) -> None:
        for partition in partition_names(self._path):
            if partition not in self._logs:
                remove_partition_directory(self._at(partition), marked=False)
        sync_all((str(self._path),))
        self._put_format(directory_format.encode_format(cluster_id))
        self._lock.confirm()
        self._lock.mark_clean()

    def close(self) -> None:
        self._lock.release()


class FileLogCopy:
    """The `LogCopy` in a directory."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._end_offset = 0

    def new_segment(self, base_offset: int) -> Segment:
        return files.open_segment(self._path, base_offset, 0, OpenFiles(), _INTERVAL)

    def store(self, segment: Segment, *, is_active: bool) -> None:
        segment.log.create()
        if not is_active:
            segment.seal()
        segment.close()
        base = segment.base_offset
        paths = [files.segment_path(self._path, base, end) for end in (files.LOG, *files.INDEXES)]
        if segment.size:
            os.utime(paths[0], ns=(segment.modified * 1_000_000,) * 2)
        sync_all(paths)
        self._end_offset = segment.end_offset

    def finish(self, checkpoint: Checkpoint, producers: bytes) -> None:
        synced = checkpoint._replace(recovery_point=self._end_offset)
        files.store_checkpoint(self._path, synced, durable=True)
        if checkpoint.epochs:
            files.store_epochs(self._path, checkpoint.epochs, durable=True)
        sync_all((self._path,))
        # With this file, the log was copied whole.
        files.replace_file(f"{self._path}/{files.PRODUCERS}", producers, durable=True)
        sync_all((self._path,))
