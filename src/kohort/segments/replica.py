"""One copy of a partition: a directory with segments.

The name of a segment is its base offset: all records before it are in segments before it.

When compaction replaces segments, their files are gone for a moment before the new one has its
name. It is complete by then, as `….swap`, and is read under that name.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Final
from uuid import UUID

from kohort.errors import KohortError
from kohort.log.partition_mark import MARK, base64_id, decode_mark
from kohort.segments.batch_walk import LogEnd, end_of
from kohort.segments.offset_index import has_index, last_position
from kohort.segments.segment import BASE_OFFSET, SEGMENT, Segment
from kohort.segments.storage import Directory, File
from kohort.types import TopicPartition

_SWAP: Final = re.compile(rf"{BASE_OFFSET}(?:-\d{{20}}|\.log)\.swap")
"""Kohort's names have the end of the replaced segments, too."""
PIECE_BYTES: Final = 100 * 1024 * 1024
"""Bytes for a task, those of a segment of `__consumer_offsets`."""
_LISTINGS: Final = 20
"""Times that a directory may change while it is listed."""


@dataclass(frozen=True)
class Replica:
    """One copy of a partition, to be used in any process."""

    directory: Directory
    partition: TopicPartition
    names: frozenset[str] | None = None
    """The segment files to read; None: all."""

    def __str__(self) -> str:
        return str(self.directory)

    def segments(self) -> list[Segment]:
        """Its segments as of now, by base offset. Raises KohortError."""
        found = self._listed()
        if not self.directory.is_local:
            return found
        # Listing is not atomic: an entry that is renamed meanwhile may be missed.
        for _ in range(_LISTINGS):
            before, found = found, self._listed()
            if [segment.name for segment in before] == [segment.name for segment in found]:
                return found
        raise KohortError(f"{self} changes faster than it can be listed")

    def _listed(self) -> list[Segment]:
        try:
            entries = self.directory.entries()
        except FileNotFoundError:
            raise KohortError(f"{self} is gone: the partition was moved or deleted") from None
        found: dict[int, Segment] = {}
        for entry in entries:
            if entry.is_directory:
                continue
            if match := SEGMENT.fullmatch(entry.name):
                if self.names is None or entry.name in self.names:
                    found[int(match[1])] = Segment(int(match[1]), entry.name, entry.size)
            elif self.names is None and (match := _SWAP.fullmatch(entry.name)):
                found.setdefault(int(match[1]), Segment(int(match[1]), entry.name, entry.size))
        return [found[base_offset] for base_offset in sorted(found)]

    @contextmanager
    def opened(self, segment: Segment) -> Iterator[File | None]:
        """Open a segment; None if it was replaced or deleted since it was listed.

        Raises KohortError, also for an OSError while it is read.
        """
        file = self.directory.open(segment.name)
        if file is None:
            yield None
            return
        with file:
            try:
                yield file
            except OSError as error:
                raise KohortError(f"{self}/{segment.name} cannot be read: {error}") from None

    def start(self) -> int:
        """Its first offset: the base offset of its first segment. Raises KohortError."""
        segments = self.segments()
        return segments[0].base_offset if segments else 0

    def end(self) -> int:
        """The offset behind its last whole record batch. Raises KohortError.

        If the last segment is damaged, the damaged batch counts as one offset.
        """
        return self.log_end().offset

    def log_end(self) -> LogEnd:
        """The same, and what is to be doubted there. Raises KohortError."""
        for _ in range(_LISTINGS):
            segments = self.segments()
            if not segments:
                return LogEnd(0, is_damaged=False, followed=0)
            last = segments[-1]
            with self.opened(last) as file:
                if file is not None:
                    position = last_position(self.directory, file, last)
                    return end_of(file, last, position)
        raise KohortError(f"{self} changes faster than it can be read")

    def topic_id(self) -> str | None:
        """The id of its topic, as Kafka's tools show it; None if its directory has none."""
        topic_id = self.topic_uuid()
        return None if topic_id is None else base64_id(topic_id)

    def topic_uuid(self) -> UUID | None:
        """The id of its topic; None if its directory has none."""
        return decode_mark(self.directory.read(MARK))

    def pieces(self, start: int, end: int, size: int = PIECE_BYTES) -> list[tuple[int, int]]:
        """The ranges of offsets of about `size` bytes each that together are [start, end).

        Only a segment with an index is divided: without one it is read from its beginning. Raises
        KohortError.
        """
        segments = self.segments()
        cuts: list[int] = []
        filled = 0
        for number, segment in enumerate(segments):
            following = segments[number + 1 : number + 2]
            segment_end = following[0].base_offset if following else end
            if segment_end <= start or segment.base_offset >= end:
                continue
            if filled and filled + segment.size > size:
                cuts.append(segment.base_offset)
                filled = 0
            filled += segment.size
            parts = segment.size // size
            if parts > 1 and has_index(self.directory, segment):
                span = segment_end - segment.base_offset
                cuts += [segment.base_offset + span * part // parts for part in range(1, parts)]
                filled = segment.size // parts
        bounds = [start, *(cut for cut in cuts if start < cut < end), end]
        return [(first, last) for first, last in pairwise(bounds) if first < last]
