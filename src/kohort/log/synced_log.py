"""The durable side of a partition's log: what is on the disk, and what happens if it cannot be.

A log without `commit` is durable with each append: its high watermark is its end. Its owner syncs
it, if anyone. With one, the high watermark moves after each sync; see `durability` for syncs that
fail.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future

from kohort.errors import ErrorCode
from kohort.log.backing import Backing, Checkpoint
from kohort.log.durability import Commit, Syncable, sync_all
from kohort.log.leader_epochs import EpochEntry, LeaderEpochs
from kohort.log.problems import Problems
from kohort.log.readable_log import ReadableLog
from kohort.log.segment import Segment
from kohort.types import TopicPartition


class SyncedLog(ReadableLog):
    """A log that is synced, and its checkpoint; the `LogSync` of `PartitionLog`."""

    __slots__ = (
        "_backing", "_commit", "_saved", "_syncing", "cleaned", "failed_syncs", "leader_epoch",
        "leader_epochs",
    )  # fmt: skip

    syncs_in_order = False

    def __init__(
        self,
        topic_partition: TopicPartition,
        backing: Backing,
        segments: list[Segment],
        checkpoint: Checkpoint,
        commit: Callable[[Syncable], Commit] | None,
        problems: Problems,
        leader_epochs: LeaderEpochs,
    ) -> None:
        """As `PartitionLog`."""
        super().__init__(topic_partition, backing, segments, checkpoint.start_offset, problems)
        self.leader_epochs = leader_epochs
        self.leader_epoch = leader_epochs.current
        self._backing = backing
        self.cleaned = checkpoint.cleaned
        """Offset up to which the log was compacted."""
        self._saved = checkpoint
        """The checkpoint as it is stored."""
        if checkpoint.epochs != self._epochs():
            self._saved = checkpoint._replace(epochs=self._epochs())
        self._syncing: tuple[tuple[Segment, int], int] | None = None
        """The end as a segment and a position, and as an offset, once the sync under way is done.
        """
        self._commit = None if commit is None else commit(self)
        self.failed_syncs = 0

    # The checkpoint

    @property
    def recovery_point(self) -> int:
        """The segments below this offset are durable, and no crash makes them be checked again."""
        return self._backing.recovery_point()

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.start_offset, self.recovery_point, self.cleaned)

    def _epochs(self) -> tuple[EpochEntry, ...]:
        if not self.leader_epochs.current:
            return ()
        return self.leader_epochs.entries(self.start_offset)

    def _save(self) -> None:
        """Store the checkpoint if it has changed. Raises OSError."""
        checkpoint = self.checkpoint._replace(epochs=self._epochs())
        if checkpoint != self._saved:
            self._backing.save(checkpoint)
            self._saved = checkpoint

    def prepare_clean_shutdown(self) -> Callable[[], None]:
        """Set the recovery point to the end of the log, which the caller has synced.

        Returns a function that stores it, for another thread. Raises OSError, as that does, and if
        nothing could be synced.
        """
        if self._closed is not None:
            return _nothing
        self._check_disk()
        self._backing.all_synced(self.high_watermark)
        self._save()
        return self._backing.pending_save()

    # Syncs

    async def durable(self) -> None:
        if self._commit is None:
            return
        if self._closed is None:
            await self._commit.wait()
        elif self.can_reopen:
            raise self._refusal()

    def running_sync(self) -> Future[None] | None:
        """The fsync whose result is not handled yet; None if there is none."""
        return None if self._commit is None else self._commit.running_sync()

    def unsynced(self) -> list[str]:
        if not self.end_offset:
            return []
        paths = list(self._segments.unsynced_files())
        # A file gets its name with its first append, so that name is still to be synced then.
        has_file = self._segments.active.log.file() is not None
        return paths + self._backing.unsynced_names(keep=not has_file)

    def sync(self, names: Iterable[str]) -> None:
        self._backing.sync(names)

    def begin_sync(self) -> Callable[[], None]:
        self._syncing = _end_of(self._segments.active), self.end_offset
        paths, save = self.unsynced(), self._backing.pending_save()

        def sync() -> None:
            sync_all(paths)
            save()  # what the checkpoint says is on the disk is there by now

        return sync

    def synced(self) -> None:
        if self._syncing is not None and self._closed is None:
            self._high_watermark_position, self.high_watermark = self._syncing
            self._backing.synced(self.high_watermark)
            self._notify()

    def owner_synced(self, end_offset: int) -> None:
        self._backing.synced(end_offset)

    # Syncs that fail

    def owner_sync_failed(self, error: OSError, durable_end: int) -> None:
        self.high_watermark = durable_end
        self.sync_failed(error)

    def sync_failed(self, error: OSError) -> None:
        self.failed_syncs += 1
        self._backing.sync_failed(error)
        with contextlib.suppress(OSError):  # else before the disk is tried again
            self._take_back()

    def retry_sync(self) -> Callable[[], None]:
        self._take_back()
        return self._backing.rewrite_end(self._segments.active)

    def sync_resumed(self) -> None:
        self._backing.sync_resumed()

    async def work_ended(self) -> bool:
        """Wait, after the end of the log, for the syncs, deletion and compaction under way.

        False if a sync has failed: written data may not be on the disk, and a later sync of the
        same files would not report it. Raises OSError if segments cannot be deleted.
        """
        is_synced = self._commit is None or await self._commit.ended()
        return await asyncio.to_thread(self._backing.work_ended()) and is_synced

    def _take_back(self) -> None:
        """Remove records that are not durable: their appends failed. Raises OSError."""
        if self._closed is not None or self.end_offset <= self.high_watermark:
            return
        self._truncate(self.high_watermark)
        self._high_watermark_position = _end_of(self._segments.active)
        self.end_offset = self.high_watermark
        self._producers.forget()
        self._producers.discard_snapshot()
        self._backing.taken_back(self.end_offset)
        self._notify()

    def _truncate(self, end_offset: int) -> None:
        self._segments.truncate(end_offset)

    def end(self, code: ErrorCode) -> None:
        if self._commit is not None:
            self._commit.close()
        if code is ErrorCode.unknown_topic_or_partition:
            self._backing.removed()
        super().end(code)

    def _check_disk(self) -> None:
        """Raise OSError if nothing that is appended can become durable."""
        if self._commit is not None and self._commit.failure is not None:
            raise OSError(self._commit.failure.errno, "the disk refuses what is written")


def _end_of(segment: Segment) -> tuple[Segment, int]:
    return segment, segment.size


def _nothing() -> None:
    pass
