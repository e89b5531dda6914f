"""What a log needs from where it is kept: segments, and the few things beside them that survive a
restart.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kohort.log.segment import Segment


class Checkpoint(NamedTuple):
    """What a log knows beside its segments."""

    start_offset: int = 0
    recovery_point: int = 0
    """All below is on the disk for certain."""
    cleaned: int = 0
    """All below was compacted."""


class Backing(Protocol):
    """Where one log lives."""

    def new_segment(self, base_offset: int, interval: int) -> Segment:
        """An empty segment; nothing is stored before the first append. `interval` is that of its
        index, in bytes.
        """
        ...

    def sealed(self, segment: Segment) -> None:
        """Nothing is appended to `segment` any more."""
        ...

    def unsynced_names(self) -> list[str]:
        """The directories whose entries have changed, if files were made since this was last
        called.
        """
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
        """What `save_producers` stored, b"" if nothing. Raises OSError."""
        ...

    def compaction_target(self, base_offset: int) -> Segment:
        """An empty segment for compaction to write, in another thread. Raises OSError."""
        ...

    def replace(self, old: Sequence[Segment], new: Segment) -> Segment:
        """Put a compacted segment in the place of those it was made from; a crash leaves either.
        Raises OSError.
        """
        ...
