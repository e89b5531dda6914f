"""One compaction of the log of a partition: it is planned, run in a thread, and installed.

The log goes on appending and reading meanwhile. It may also lose segments, or close: what was
compacted of them is dropped then.
"""

import asyncio
from collections import deque
from typing import Protocol

from kohort.errors import KafkaError
from kohort.log.backing import Backing
from kohort.log.base import LogConfig
from kohort.log.compaction import Cleaned, Compaction, StoppedError
from kohort.log.producer_state_manager import ProducerStateManager
from kohort.log.segment_list import SegmentList
from kohort.types import Timestamp
from kohort.util.time_slice import TimeSlices, in_slices


class CleanableLog(Protocol):
    """A log as its compaction needs it."""

    cleaned: int
    """Offset up to which it was compacted."""

    @property
    def is_closed(self) -> bool: ...

    @property
    def config(self) -> LogConfig: ...

    @property
    def last_stable_offset(self) -> int:
        """End of the durable records whose transactions are decided.

        Later records supersede none: their appends may still fail.
        """
        ...

    def fail(self, problem: str) -> None:
        """End the log, to be opened again."""
        ...

    def compacted(self) -> None:
        """Store that segments were replaced. Raises OSError."""
        ...


class PartitionCleaner:
    """One compaction of one log."""

    __slots__ = (
        "_backing", "_compaction", "_cuts", "_log", "_producers", "_segments", "_swapping",
        "ended",
    )  # fmt: skip

    def __init__(
        self,
        log: CleanableLog,
        segments: SegmentList,
        producers: ProducerStateManager,
        backing: Backing,
    ) -> None:
        self._log = log
        self._segments = segments
        self._producers = producers
        self._backing = backing
        self._compaction: Compaction | None = None
        """None until it is planned."""
        self._cuts = segments.cuts
        """Number of cuts before the run: after a later one, a source may be appended to."""
        self._swapping: Cleaned | None = None
        """Result whose swap has begun and is being synced; None if there is none."""
        self.ended = asyncio.Event()
        """Set by the log when `run` has ended."""

    def stop(self) -> None:
        """Make a run in its thread end soon, without effect."""
        if self._compaction is not None:
            self._compaction.stopped = True

    def drop_swap(self) -> None:
        """Undo a begun swap. To be called before a cut, after which a source may be appended to.

        Raises OSError.
        """
        if self._swapping is not None:
            self._backing.drop_swap(self._swapping.sources, self._swapping.result)

    async def run(self, now: Timestamp) -> bool:
        """Compact the log if enough of it is dirty; True if it was. Raises KafkaError, OSError."""
        compaction = await self._plan(now)
        if compaction is None:
            return False
        compaction.keep = self._producers.loaded().last_offsets()
        self._compaction = compaction
        try:
            if self._producers.is_transactional:
                compaction.aborted = await self._segments.copied_aborted_indexes()
            cleaned = deque(
                await asyncio.to_thread(compaction.run, self._backing.compaction_target)
            )
            compaction.segments = ()
            return await self._install(cleaned)
        except StoppedError:
            return False
        except FileNotFoundError:
            if not self._log.is_closed and set(compaction.segments) <= set(self._segments):
                raise
            return False  # deleted during the run
        finally:
            compaction.stopped = True  # if this was cancelled, the thread goes on

    async def _plan(self, now: int) -> Compaction | None:
        """A run, for which the producers are read; None if there is none, or the log has changed.

        Raises KafkaError, OSError.
        """
        log, changes = self._log, self._segments.changes
        plan = Compaction.plan(
            tuple(self._segments), log.config, log.cleaned, now, log.last_stable_offset
        )
        try:
            compaction = await in_slices(plan)
            if compaction is not None:
                await self._producers.load()
        except (KafkaError, OSError):
            if not log.is_closed and self._segments.changes == changes:
                raise
            return None  # segments that it read are gone
        is_due = not log.is_closed and log.config.is_compacted
        return compaction if is_due and self._segments.changes == changes else None

    async def _install(self, cleaned: deque[Cleaned]) -> bool:
        """Swap in the compacted segments, unless the log or their sources are gone meanwhile.

        Each is forgotten then: thousands of segments are not freed at once.
        """
        was_cleaned, slices = bool(cleaned), TimeSlices()
        while cleaned:
            await slices.give_way()
            piece = cleaned.popleft()
            try:
                if self._has_sources(piece):
                    await self._swap(piece)
                else:
                    piece.result.close()
            except OSError as error:
                # which of them is on the disk is seen when it is opened again
                self._log.fail(f"a compaction could not be completed ({error.strerror or error})")
                raise
        if not self._log.is_closed:
            self._log.compacted()
        return was_cleaned

    async def _swap(self, piece: Cleaned) -> None:
        sync = self._backing.begin_swap(piece.sources, piece.result, piece.end)
        if sync is not None:
            self._swapping = piece
            try:
                await asyncio.to_thread(sync)
            finally:
                self._swapping = None
            if not self._has_sources(piece):
                self._backing.drop_swap(piece.sources, piece.result)
                return
        self._segments.replace(piece.sources, piece.result)
        self._log.cleaned = max(self._log.cleaned, piece.end)

    def _has_sources(self, piece: Cleaned) -> bool:
        """Whether the log still has the segments that a piece was made from, as they were."""
        is_uncut = not self._log.is_closed and self._segments.cuts == self._cuts
        return is_uncut and self._segments.has_run(piece.sources)
