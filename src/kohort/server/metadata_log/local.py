"""The log that `MetadataImage` is the fold of: one `commit` per change, read once at the start."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterator
from threading import Lock
from typing import Final, Protocol
from uuid import UUID

from kohort import __version__
from kohort.errors import KafkaError, KohortError, fresh
from kohort.log.base import Log, LogConfig
from kohort.log.durability import resumed
from kohort.protocol import batches
from kohort.server.logging import fields
from kohort.server.metadata import (
    MetadataImage,
    MetadataRecord,
    UndecodableError,
    decode_batches,
    encode_batch,
    storage_error,
)
from kohort.server.metadata_log.pending_changes import PendingChanges
from kohort.types import Timestamp

METADATA_LOG_CONFIG: Final = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=1 << 20)
"""Small segments: only those that are full are compacted."""

logger = logging.getLogger("kohort.topics")

_READ_SIZE: Final = 1 << 20


class MetadataLog(Protocol):
    """A metadata log, and the image that its records give."""

    state: MetadataImage
    on_rollback: Callable[[Collection[UUID]], None]
    """Called with the ids of topics whose changes were rolled back, when `state` is as before."""

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        ...

    @property
    def last_change(self) -> int:
        """Number of the latest change, for `durable`."""
        ...

    def commit(self, *records: MetadataRecord) -> None:
        """Log the records together, and replay them. Raises KafkaError."""
        ...

    async def durable(self, change: int | None = None, /) -> None:
        """Return when that change, or every change made by now, cannot be lost. Raises OSError."""
        ...


class LocalMetadataLog:
    """`state`, and the one way to change it.

    Every change is synced, whatever the durability of the server, and a batch is on the disk before
    the next one is appended, unless the log never has holes: so one is damage, and no power loss.

    After a failed sync it is unknown what of the log is on the disk. The changes that were not
    durable are rolled back, in `state` and in the log, and further ones are rejected until the end
    of the log could be written and synced again.
    """

    def __init__(self, log: Log, now: Callable[[], Timestamp], written_by: str) -> None:
        """Replay what is in `log`, which was opened with `synced_by_owner`.

        `written_by` is the version of Kohort that wrote it, as far as is known. Raises KohortError
        if a record cannot be read or the log is not served, OSError.
        """
        log.ensure_open()
        self.state = MetadataImage()
        self.on_rollback: Callable[[Collection[UUID]], None] = _ignore
        self._log = log
        self._now = now
        self._disk = Lock()
        """Held by each sync: of two at a time, only one would meet an error of the disk."""
        self._changes = PendingChanges(self.state)
        """Those that are appended, and not durable."""
        self._durable_end = log.end_offset
        self._durable_end_moved = asyncio.Event()
        """Set, and replaced, when more is durable."""
        self._unsynced: set[str] = set()
        self._failure: OSError | None = None
        """Why nothing can be changed now. Threads that sync set it."""
        self._round: asyncio.Task[None] | None = None
        self._retrying: asyncio.Task[None] | None = None
        try:
            for _, record in self._records():
                self.state.replay(record)
        except UndecodableError as error:
            raise KohortError(
                f"{log.topic_partition}: {error}. This is Kohort {__version__}, and Kohort "
                f"{written_by} was the last to serve from it: start the later one. If that is this "
                f"version, the record is damaged: restore {log.topic_partition} from a copy"
            ) from error

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return self._log.end_offset

    @property
    def durable_end(self) -> int:
        """Offset behind the records that are on the disk."""
        return self._durable_end

    @property
    def last_change(self) -> int:
        """Number of the latest change, for `durable`."""
        return self._changes.last

    def read(self, offset: int) -> bytes:
        """Batches from the one with that offset on, as far as they are durable: a megabyte or less.

        Empty at the end. Raises KafkaError, OSError.
        """
        if offset >= self._durable_end:
            return b""
        data = self._log.read(offset, _READ_SIZE)
        size = len(data)
        for position, header in batches.iterate(data):
            if header.base_offset >= self._durable_end:
                size = position
                break
        return bytes(data[:size])

    async def wait_beyond(self, offset: int) -> None:
        """Return as soon as more than `offset` is durable."""
        while self._durable_end <= offset:
            await self._durable_end_moved.wait()

    def commit(self, *records: MetadataRecord) -> None:
        """Append the records as one batch, and replay them.

        It waits for the disk if the batch before was not made `durable`, and one after it could
        be stored without it. Raises KafkaError KAFKA_STORAGE_ERROR, and then nothing has happened.
        """
        now = self._now()
        try:
            if self._failure is not None:
                self._retry_soon()
                raise fresh(self._failure)
            if self._changes and not self._log.syncs_in_order:
                self.flush()
            self._log.append(encode_batch(records, now), now)
        except OSError as error:
            raise storage_error(error) from error
        self._changes.apply(records)

    async def durable(self, change: int | None = None) -> None:
        """Return when that change, or every change made by now, is on the disk.

        Raises OSError if it was rolled back.
        """
        await self._changes.await_durable(change, self._sync_round)

    async def _sync_round(self) -> None:
        if self._round is None:
            self._round = asyncio.create_task(self._sync_pending())
        await asyncio.shield(self._round)

    async def _sync_pending(self) -> None:
        # A task of its own: a failed sync is handled once, even if its callers were cancelled.
        try:
            last, end = self._changes.last, self._log.end_offset
            paths = self._unsynced_paths()
            await asyncio.to_thread(self._sync, paths)
            self._on_synced(paths, last, end)
        except OSError as error:
            self._roll_back(error)
        finally:
            self._round = None

    def flush(self) -> None:
        """Sync every change made by now, blocking.

        Raises OSError, and then they were rolled back.
        """
        try:
            paths = self._unsynced_paths()
            self._sync(paths)
        except OSError as error:
            self._roll_back(error)
            raise
        self._on_synced(paths, self._changes.last, self._log.end_offset)

    def _unsynced_paths(self) -> tuple[str, ...]:
        self._unsynced.update(self._log.unsynced())
        return tuple(self._unsynced)

    def _sync(self, paths: tuple[str, ...]) -> None:
        with self._disk:
            if self._failure is not None:
                raise fresh(self._failure)
            try:
                self._log.sync(paths)
            except OSError as error:
                self._failure = fresh(error)
                raise

    def _on_synced(self, paths: tuple[str, ...], change: int, end_offset: int) -> None:
        self._unsynced.difference_update(paths)
        self._log.owner_synced(end_offset)
        self._changes.mark_durable(change)
        if end_offset > self._durable_end:
            self._durable_end = end_offset
            self._durable_end_moved.set()
            self._durable_end_moved = asyncio.Event()

    # After a sync that failed

    def _roll_back(self, error: OSError) -> None:
        """Reset `state` and log to the last durable change."""
        self._failure = error
        lost = len(self._changes)
        if not lost and self._retrying is not None:
            return  # another sync has met the same error
        topics = self._changes.undo(error)
        self._log.owner_sync_failed(error, self._durable_end)
        logger.error(
            "metadata changes were rolled back; further changes are rejected until the disk "
            "accepts writes",
            extra=fields(changes=lost, why=error),
        )
        self.on_rollback(topics)
        self._retry_soon()

    def _retry_soon(self) -> None:
        if self._retrying is None:
            with contextlib.suppress(RuntimeError):  # no event loop: the next change tries it
                self._retrying = asyncio.get_running_loop().create_task(self._retry())

    async def _retry(self) -> None:
        try:
            log: Log | None = None
            while log is not self._log:  # another one may have taken its place meanwhile
                log = self._log
                await resumed(self, None)
            self._failure = None
            log.sync_resumed()
        finally:
            self._retrying = None

    def sync_failed(self, error: OSError) -> None:
        """Report that `retry_sync` failed."""
        self._log.sync_failed(error)

    def retry_sync(self) -> Callable[[], None]:
        """Function that writes and syncs the end of the log once more, in another thread.

        Both raise OSError if the disk does not work yet.
        """
        try:
            self._log.ensure_open()
        except KafkaError as error:  # it is yet to be reopened
            raise OSError(None, error.message) from error
        return self._log.retry_sync()

    def on_log_reopened(self, log: Log) -> None:
        """Append to `log` from now on: it replaces one that failed."""
        self._log = log
        if self._failure is not None:
            # It may have changes that were rolled back: the failed log could not be truncated.
            log.owner_sync_failed(self._failure, self._durable_end)

    def close(self) -> None:
        """Sync every change, blocking, and try the disk no more. Idempotent.

        A sync under way may fail, whose files the log itself would not sync again: the changes are
        rolled back then, and the log reports it before its directory is closed.
        """
        if self._changes:
            with contextlib.suppress(OSError):
                self.flush()
        if self._retrying is not None:
            self._retrying.cancel()

    def _records(self) -> Iterator[tuple[int, MetadataRecord]]:
        offset = self._log.start_offset
        while offset < self._log.end_offset:
            data = self._log.read(offset, _READ_SIZE)
            if not data:
                return  # the rest was compacted away
            yield from decode_batches(data)
            *_, (_, last) = batches.iterate(data)
            offset = last.last_offset + 1


def _ignore(_: Collection[UUID]) -> None:
    pass
