"""The producers of one log: read when they are needed, and saved every few MiB.

Most logs never need them. `producer_state_recovery` reads them from the last snapshot and the
batches behind it. `producer_states` has the rules.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from kohort.errors import KafkaError, fresh
from kohort.log import producer_state_recovery
from kohort.log.aborted_index import IndexState
from kohort.log.backing import Backing
from kohort.log.producer_states import DISCARDED, ProducerSnapshot, ProducerStates
from kohort.log.segment_list import SegmentList
from kohort.log.segment_recovery import Progress, unobserved
from kohort.util.time_slice import in_slices

_SNAPSHOT_BYTES: Final = 4 * 1024 * 1024
"""Bytes appended between two snapshots of the producers, which bounds the scan after a crash."""
_SMALL_BATCH: Final = 200
"""Bytes as which a smaller batch counts for that: 20,000 producers take 20 ms of a snapshot."""


class ProducerStateManager:
    """The producers of one log."""

    __slots__ = (
        "_backing", "_damage", "_is_closed", "_is_new", "_producers", "_saving", "_segments",
        "is_transactional", "unsaved_bytes",
    )  # fmt: skip

    def __init__(self, segments: SegmentList, backing: Backing) -> None:
        # Not the log: in a cycle of references it would be freed by the garbage collector alone.
        self._segments = segments
        self._backing = backing
        self._is_closed = False
        self._producers: ProducerStates | None = None
        """None: not read yet."""
        self._is_new = not segments.active.end_offset
        """Whether no producer has appended as long as the producers were not read."""
        self._damage: KafkaError | None = None
        """Why the producers cannot be read."""
        self.is_transactional = False
        """Whether there ever was a transactional batch, so that the last stable offset depends on
        producers.
        """
        self.unsaved_bytes = 0
        """Bytes appended since the last snapshot."""
        self._saving: asyncio.Task[None] | None = None
        """Reads the producers, for a snapshot."""

    @property
    def is_loaded(self) -> bool:
        """Whether the producers are in memory."""
        return self._producers is not None

    @property
    def is_empty(self) -> bool:
        """Whether no producer is in memory: there is none, or they were not read yet."""
        return not self._producers

    def loaded(self) -> ProducerStates:
        """The producers; reads them if they are not in memory. Raises KafkaError, OSError."""
        if self._producers is None:
            if self._damage is not None:
                raise fresh(self._damage)
            if self._is_new:
                self._keep(ProducerStates())
            else:
                self._keep(self._read(self._stored()))
        assert self._producers is not None
        return self._producers

    def appended(self, size: int) -> None:
        """Count a batch of `size` bytes, and save the producers if a snapshot is due."""
        self.unsaved_bytes += size if size > _SMALL_BATCH else _SMALL_BATCH
        if self.unsaved_bytes > _SNAPSHOT_BYTES:
            self._save_soon()

    def expire(self, before: int) -> None:
        """Forget the producers in memory that appended nothing since `before` (ms)."""
        if self._producers is not None:
            self._producers.expire(before)

    def forget(self) -> None:
        """Drop the producers from memory; they are read again when they are needed."""
        self._producers, self._is_new = None, False

    def close(self) -> None:
        """Load and save nothing more in the background."""
        self._is_closed = True
        if self._saving is not None:
            self._saving.cancel()

    # Transactions

    def become_transactional(self) -> None:
        """Store a mark: the next start looks for open transactions, which hold readers back.

        A log without such a mark is opened without reading its batches. Raises OSError.
        """
        producers = self.loaded()
        if not producers.is_transactional:
            producers.is_transactional = True
            try:
                self._backing.save_producers(self._snapshot(producers))
            except OSError:
                producers.is_transactional = False
                raise
        self.is_transactional = True

    # Loading

    def restore(self, progress: Progress, *, crashed: bool) -> None:
        """Read the producers if a transaction may be open, or if the snapshot is old or lost.

        An open transaction holds readers back. `crashed`: a power loss may have taken the snapshot,
        because it is not synced. A new snapshot is best effort, for the first append, which reads
        what follows.
        """
        try:
            stored = self._stored()
            is_old = self._is_far_behind(stored.end_offset)
            if not (crashed or is_old or stored.is_broken or stored.producers.is_transactional):
                return
            producers = self._read(stored, progress)
        except OSError:
            self.is_transactional = True  # maybe: they are read when needed
            return
        except KafkaError as error:
            self.is_transactional, self._damage = True, fresh(error)
            return
        if is_old or stored.is_broken:
            with contextlib.suppress(OSError):
                self._backing.save_producers(self._snapshot(producers))
        if producers.is_transactional:
            self._keep(producers)

    def restore_all(self, progress: Progress) -> None:
        """Read the producers, blocking, and save them if that took long.

        Raises KafkaError, OSError.
        """
        stored = self._stored()
        if stored.end_offset == self._segments.active.end_offset:
            self._keep(stored.producers)
            return
        self._keep(self._read(stored, progress))
        if stored.is_broken or self._is_far_behind(stored.end_offset):
            self.save()

    async def load(self) -> None:
        """Read the producers, giving way to others; leave it if the log changes meanwhile.

        Raises KafkaError, OSError.
        """
        if self._producers is not None or self._damage is not None or self._is_new:
            return
        changes, stored = self._segments.changes, self._stored()
        segments = self._segments.since(stored.end_offset)
        aborted = await in_slices(producer_state_recovery.replay_batches(segments, stored))
        is_same = not self._is_closed and self._segments.changes == changes
        # A batch of a producer that was appended meanwhile has loaded them.
        if self._producers is None and is_same:
            producer_state_recovery.restore_aborted_indexes(stored, aborted)
            self._keep(stored.producers)

    def _keep(self, producers: ProducerStates) -> None:
        self._producers, self.is_transactional = producers, producers.is_transactional

    def _stored(self) -> ProducerSnapshot:
        return producer_state_recovery.load_last_snapshot(
            self._backing, self._segments, self._segments.active.end_offset
        )

    def _read(self, stored: ProducerSnapshot, progress: Progress = unobserved) -> ProducerStates:
        """The producers by a snapshot and the batches behind it.

        Rewrites indexes of aborted transactions that differ from the batches. Raises
        KafkaError, OSError.
        """
        steps = producer_state_recovery.replay_batches(
            self._segments.since(stored.end_offset), stored
        )
        try:
            while True:
                next(steps)
                progress(0)
        except StopIteration as end:
            producer_state_recovery.restore_aborted_indexes(stored, end.value)
        return stored.producers

    def _is_far_behind(self, offset: int) -> bool:
        """Whether the batches from `offset` on take long to read. Raises KafkaError, OSError."""
        segments, much = self._segments.since(offset), _SNAPSHOT_BYTES // 2
        size = sum(segment.size for segment in segments)
        return size > much and size - segments[0].position(offset) > much

    # Snapshots

    def save(self) -> None:
        """Save a snapshot; best effort: without it more headers are read the next time."""
        self.unsaved_bytes = 0
        with contextlib.suppress(OSError, KafkaError):
            self._backing.save_producers(self._snapshot(self.loaded()))

    def _save_soon(self) -> None:
        """Save a snapshot, in the background if the producers have to be read first."""
        if self._producers is None and not self._is_new:
            with contextlib.suppress(RuntimeError):  # without a loop, blocking delays no task
                self._saving = asyncio.get_running_loop().create_task(self._load_and_save())
                self.unsaved_bytes = 0
                return
        self.save()

    async def _load_and_save(self) -> None:
        with contextlib.suppress(KafkaError, OSError):  # else with the next snapshot
            await self.load()
        if self._producers is not None and not self._is_closed:
            self.save()

    def discard_snapshot(self) -> None:
        """Discard the stored snapshot, because records in it were removed and their offsets reused.

        Best effort, until the next one is saved.
        """
        with contextlib.suppress(OSError):
            if self._backing.load_producers():
                self._backing.save_producers(DISCARDED)

    def snapshot_for(self, indexes: Mapping[int, IndexState]) -> bytearray:
        """A snapshot for a log whose segments have these indexes of aborted transactions.

        `indexes` are by base offset. Raises KafkaError, OSError.
        """
        return self.loaded().dump(self._segments.active.end_offset, indexes)

    def _snapshot(self, producers: ProducerStates) -> bytearray:
        """Raises OSError."""
        indexes = (
            producer_state_recovery.aborted_index_states(self._segments)
            if producers.is_transactional
            else {}
        )
        return producers.dump(self._segments.active.end_offset, indexes)
