"""The place where a log is kept: its segments, and the other files that survive a restart."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from kohort.log.leader_epochs import EpochEntry
from kohort.log.segment import Segment
from kohort.protocol.batches import Buffer


class Checkpoint(NamedTuple):
    """State of a log that its segments do not contain."""

    start_offset: int = 0
    recovery_point: int = 0
    """All below is on the disk for certain."""
    cleaned: int = 0
    """All below was compacted."""
    epochs: tuple[EpochEntry, ...] = ()
    """Its leader epochs; none if it was never led in another one than 0."""


class Backing(Protocol):
    """The storage of one log."""

    def new_segment(self, base_offset: int, interval: int) -> Segment:
        """Create an empty segment.

        Nothing is stored before the first append. `interval` is that of its index, in bytes.
        """
        ...

    def sealed(self, segment: Segment) -> None:
        """Note that nothing more is appended to `segment`.

        It is synced in the background, unless the log syncs what it appends.
        """
        ...

    def unsynced_names(self, *, keep: bool) -> list[str]:
        """The directories whose entries changed since the last call.

        `keep`: the next call returns them too.
        """
        ...

    def sync(self, names: Iterable[str]) -> None:
        """fsync these files and directories; in any thread.

        Raises OSError.
        """
        ...

    def recovery_point(self) -> int:
        """Offset below which all is on the disk."""
        ...

    def synced(self, end_offset: int) -> None:
        """Note that the log has synced what it has appended, up to `end_offset`."""
        ...

    def all_synced(self, end_offset: int) -> None:
        """Note that all the log has, up to `end_offset`, is on the disk."""
        ...

    def discard(self, segments: Sequence[Segment]) -> Callable[[], None] | None:
        """Delete consecutive segments, which are not read any more.

        Returns what has to be called for that in any thread, if anything: it deletes their files,
        oldest first, and raises OSError. What failed is tried again with the next ones.
        """
        ...

    def save(self, checkpoint: Checkpoint) -> None:
        """Store it in place of the one before, whole. Raises OSError.

        Where it has to be durable that waits for `pending_save`.
        """
        ...

    def pending_save(self) -> Callable[[], None]:
        """Function that stores the checkpoint saved last, unless it is stored.

        It is called in another thread, and raises OSError.
        """
        ...

    def sync_failed(self, error: OSError) -> None:
        """A sync failed: written data may not reach the disk."""
        ...

    def rewrite_end(self, segment: Segment) -> Callable[[], None]:
        """Function that writes and syncs the end of `segment` once more.

        It is called in another thread, and raises OSError.
        """
        ...

    def sync_resumed(self) -> None:
        """Syncs succeed again, after `sync_failed`."""
        ...

    def work_ended(self) -> Callable[[], bool]:
        """Function that waits for all writes and deletions in the background.

        To be called in another thread, after the end of the log. It returns False if a sync has
        failed, and raises OSError if segments cannot be deleted. Later failures are not reported.
        """
        ...

    def taken_back(self, end_offset: int) -> None:
        """The records from `end_offset` on were removed."""
        ...

    def removed(self) -> None:
        """Store nothing more and report no failure: another log may get the name of this one."""
        ...

    def save_producers(self, snapshot: Buffer) -> None:
        """Store it in place of the one before, at once and whole. Raises OSError."""
        ...

    def load_producers(self) -> bytes:
        """The bytes that `save_producers` stored, b"" if there are none. Raises OSError."""
        ...

    def compaction_target(self, base_offset: int) -> Segment:
        """An empty segment for compaction to write, in another thread. Raises OSError."""
        ...

    def begin_swap(
        self, old: Sequence[Segment], new: Segment, cleaned: int
    ) -> Callable[[], None] | None:
        """Decide that a compacted segment takes the place of those it was made from.

        `cleaned` is the offset up to which the log is clean then.
        Returns what has to be called in another thread before `finish_swap`, if anything. A crash
        from here on leaves the new one. Raises OSError, as what is returned does.
        """
        ...

    def drop_swap(self, old: Sequence[Segment], new: Segment) -> None:
        """Take that back. Raises OSError."""
        ...

    def finish_swap(self, old: Sequence[Segment], new: Segment) -> Segment:
        """Put the compacted segment in its place. Raises OSError."""
        ...


class UnsyncedBacking:
    """The syncs of a `Backing` without files: there are none, so none fails or is repeated."""

    __slots__ = ()

    def unsynced_names(self, *, keep: bool) -> list[str]:  # noqa: ARG002
        return []

    def sync(self, names: Iterable[str]) -> None:
        pass

    def recovery_point(self) -> int:
        return 0

    def synced(self, end_offset: int) -> None:
        pass

    def all_synced(self, end_offset: int) -> None:
        pass

    def pending_save(self) -> Callable[[], None]:
        return _nothing

    def sync_failed(self, error: OSError) -> None:
        pass

    def rewrite_end(self, segment: Segment) -> Callable[[], None]:  # noqa: ARG002
        return _nothing

    def sync_resumed(self) -> None:
        pass

    def work_ended(self) -> Callable[[], bool]:
        return _all_synced

    def taken_back(self, end_offset: int) -> None:
        pass

    def removed(self) -> None:
        pass


def _nothing() -> None:
    pass


def _all_synced() -> bool:
    return True
