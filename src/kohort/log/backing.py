"""The place where a log is kept: its segments, and the other files that survive a restart."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kohort.log.segment import Segment


class Checkpoint(NamedTuple):
    """State of a log that its segments do not contain."""

    start_offset: int = 0
    recovery_point: int = 0
    """All below is on the disk for certain."""
    cleaned: int = 0
    """All below was compacted."""


class Backing(Protocol):
    """The storage of one log."""

    def new_segment(self, base_offset: int, interval: int) -> Segment:
        """Create an empty segment.

        Nothing is stored before the first append. `interval` is that of its index, in bytes.
        """
        ...

    def sealed(self, segment: Segment) -> None:
        """Note that nothing more is appended to `segment`."""
        ...

    def unsynced_names(self) -> list[str]:
        """The directories whose entries changed since the last call."""
        ...

    def recovery_point(self) -> int:
        """Offset below which all is on the disk."""
        ...

    def discard(self, segments: Sequence[Segment]) -> None:
        """Delete segments. Raises OSError."""
        ...

    def save(self, checkpoint: Checkpoint) -> None:
        """Store it in place of the one before, at once and whole. Raises OSError."""
        ...

    def save_producers(self, snapshot: bytes) -> None:
        """Store it in place of the one before, at once and whole. Raises OSError."""
        ...

    def load_producers(self) -> bytes:
        """The bytes that `save_producers` stored, b"" if there are none. Raises OSError."""
        ...

    def compaction_target(self, base_offset: int) -> Segment:
        """An empty segment for compaction to write, in another thread. Raises OSError."""
        ...

    def replace(self, old: Sequence[Segment], new: Segment) -> Segment:
        """Replace the segments `old` by the compacted segment `new`.

        After a crash either is there. Raises OSError.
        """
        ...
