"""The logs of all workers of a data directory, as the source of a copy."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

from kohort.log.base import Log, LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.recovery import LastEnd
from kohort.log.worker_directories import directory_of, ensure_whole
from kohort.types import TopicPartition


class WorkerLogs:
    """The `Source` of a data directory whose partitions are spread over several workers."""

    def __init__(self, path: Path, workers: int) -> None:
        """Lock the directories. Raises KohortError, OSError."""
        ensure_whole(path, workers)
        self._places: dict[TopicPartition, LocalDirectory] = {}
        self._marks: dict[TopicPartition, UUID | None] = {}
        self.last_end = LastEnd.CLEAN
        """The worst one of all."""
        with ExitStack() as opened:
            for worker in range(workers):
                count = workers if worker == 0 else 1
                directory = LocalDirectory(directory_of(path, worker), workers=count)
                opened.callback(directory.close)
                if worker == 0:
                    self.cluster_id = directory.directories.cluster_id
                if directory.last_end is LastEnd.CRASHED:
                    self.last_end = LastEnd.CRASHED
                marks = directory.directories.marks()
                self._marks |= marks
                self._places |= dict.fromkeys(marks, directory)
            self._opened = opened.pop_all()

    @property
    def directories(self) -> "WorkerLogs":
        """The places of partitions."""
        return self

    def marks(self) -> Mapping[TopicPartition, UUID | None]:
        """The partitions of all workers, with the ids of their topics."""
        return self._marks

    def open(self, topic_partition: TopicPartition, config: LogConfig) -> Log:
        """The log of a partition."""
        return self._places[topic_partition].open(topic_partition, config)

    def close(self) -> None:
        """Let others have the directories. Idempotent."""
        self._opened.close()
