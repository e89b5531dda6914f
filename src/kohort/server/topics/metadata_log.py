"""The log that `ClusterState` is the fold of: one `commit` per change, read once at the start."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final

from kohort import __version__
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log.base import Log, LogConfig
from kohort.log.durability import sync_all
from kohort.protocol import batches
from kohort.server.logs import fields
from kohort.server.topics.cluster_metadata import (
    ClusterState,
    MetadataRecord,
    UndecodableError,
    decode_batches,
    encode_batch,
)
from kohort.types import Timestamp

METADATA_LOG: Final = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=1 << 20)
"""Small segments: only those that are full are compacted."""

logger = logging.getLogger("kohort.topics")

_READ_SIZE: Final = 1 << 20


class MetadataLog:
    """`state`, and the one way to change it.

    Every change is synced, whatever the durability of the server, and a batch is on the disk before
    the next one is appended: so a hole in the log is damage, and never a power loss. After a sync
    that failed nothing more is changed until the server is started again: nobody knows what of the
    log is on the disk.
    """

    def __init__(self, log: Log, now: Callable[[], Timestamp], written_by: str) -> None:
        """Replay what is in `log`, which was opened with `synced_by_owner`.

        `written_by` is the version of Kohort that wrote it, as far as is known. Raises KohortError
        if a record cannot be read or the log is not served, OSError.
        """
        log.ensure_open()
        self.state = ClusterState()
        self._log = log
        self._now = now
        self._syncing = asyncio.Lock()
        self._appended = self._synced = 0
        """Batches, of this process."""
        self._unsynced: set[str] = set()
        self._failure: OSError | None = None
        try:
            for _, record in self._records():
                self.state.replay(record)
        except UndecodableError as error:
            raise KohortError(
                f"{log.topic_partition}: {error}. This is Kohort {__version__}, and Kohort "
                f"{written_by} was the last to serve from it: start the later one. If that is this "
                f"version, the record is damaged: restore {log.topic_partition} from a copy"
            ) from error

    def commit(self, *records: MetadataRecord) -> None:
        """Append the records as one batch, and replay them.

        It waits for the disk if the batch before was not made `durable`. Raises KafkaError
        KAFKA_STORAGE_ERROR, and then nothing has happened.
        """
        now = self._now()
        try:
            if self._failure is not None:
                raise self._failure
            if self._synced < self._appended:
                self.flush()
            self._log.append(encode_batch(records, now), now)
        except OSError as error:
            raise storage_error(error) from error
        self._appended += 1
        for record in records:
            self.state.replay(record)

    async def durable(self) -> None:
        """Return when every change made by now is on the disk. Raises OSError."""
        async with self._syncing:
            paths, appended = self._to_sync(), self._appended
            if paths:
                await asyncio.to_thread(self._sync, paths)
                self._unsynced.difference_update(paths)
            self._synced = max(self._synced, appended)

    def flush(self) -> None:
        """Have every change made by now on the disk, blocking until it is. Raises OSError."""
        paths = self._to_sync()
        self._sync(paths)
        self._unsynced.difference_update(paths)
        self._synced = self._appended

    def _to_sync(self) -> tuple[str, ...]:
        # Collected names stay until their sync has succeeded: the task that waited for it may have
        # been cancelled.
        self._unsynced.update(self._log.unsynced())
        if self._failure is not None:
            raise self._failure
        return tuple(self._unsynced)

    def _sync(self, paths: tuple[str, ...]) -> None:
        try:
            sync_all(paths)
        except OSError as error:
            self._failure = error
            logger.error(
                "a change of topics did not reach the disk, so no topic can be changed until the "
                "server is started again",
                extra=fields(why=error),
            )
            raise

    def _records(self) -> Iterator[tuple[int, MetadataRecord]]:
        offset = self._log.start_offset
        while offset < self._log.end_offset:
            data = self._log.read(offset, _READ_SIZE)
            if not data:
                return  # what was behind it is compacted away
            yield from decode_batches(data)
            *_, (_, last) = batches.iterate(data)
            offset = last.last_offset + 1


def storage_error(error: OSError) -> KafkaError:
    """The error for a client whose request the storage failed."""
    return KafkaError(
        ErrorCode.kafka_storage_error, (f"The storage failed: {error.strerror or error}")
    )
