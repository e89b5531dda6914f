"""Repair of a damaged log that keeps the valid batches behind the damage.

Each damaged range of a segment is replaced by one batch without records, over the offsets that are
missing. Compaction leaves such batches too, so every client skips the offsets. The next start finds
a log without gaps. What was there is kept beside the segment (see `quarantine`).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from kohort.log import files, quarantine, recovery, scan
from kohort.log.durability import sync_path
from kohort.log.leader_epochs import LeaderEpochs
from kohort.log.repair import read_checkpoint, remove_indexes
from kohort.log.segment import Segment
from kohort.log.segment_storage import MAX_SEGMENT_SIZE
from kohort.log.stores import OpenFiles
from kohort.protocol.batches import (
    NO_TIMESTAMP,
    Header,
    Record,
    build,
    read_header,
    replace_records,
)

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """One damaged range of a segment, and the offsets that are missing there."""

    file: str
    start: int
    """First byte that is not valid."""
    end: int
    """Byte where valid batches go on, or the end of the segment."""
    offset: int
    """First offset that is missing."""
    next_offset: int
    """Offset of the next valid record."""
    leader_epoch: int
    """Leader epoch of the first missing record."""

    def __str__(self) -> str:
        return (
            f"{self.file}: bytes {self.start} to {self.end - 1} are not valid, and become a hole"
            if self.end > self.start
            else f"{self.file}: records are missing at byte {self.start}, which becomes a hole"
        ) + f" of the offsets {self.offset} to {self.next_offset - 1}"


def find(directory: str) -> list[Hole]:
    """The holes to make in the log in `directory`, in order. Raises OSError.

    Damage at the end, with nothing valid behind it, is none: `repair.examine` finds it.
    """
    cleaned = read_checkpoint(directory).cleaned
    epochs = LeaderEpochs.of(files.load_epochs(directory))
    segments = recovery.found_segments(directory, OpenFiles())
    try:
        return [
            Hole(
                file=files.segment_path(directory, segment.base_offset, files.LOG),
                start=start,
                end=end,
                offset=offset,
                next_offset=next_offset,
                leader_epoch=epochs.at(offset),
            )
            for segment, following in pairwise([*segments, None])
            if segment is not None
            for start, end, offset, next_offset in _in_segment(
                segment,
                None if following is None else following.base_offset,
                gaps=segment.base_offset < cleaned,
            )
        ]
    finally:
        for segment in segments:
            segment.log.close()


def fill(holes: list[Hole]) -> list[str]:
    """Replace each hole by a batch without records; returns the files that keep what was there.

    Raises OSError.
    """
    kept: list[str] = []
    for file in dict.fromkeys(hole.file for hole in holes):
        inside = [hole for hole in holes if hole.file == file]
        kept += [
            quarantine.keep_range(file, hole.start, hole.end)
            for hole in inside
            if hole.end > hole.start
        ]
        _rewrite(file, inside)
        remove_indexes(file)
        sync_path(os.path.dirname(file))
    return kept


def _in_segment(
    segment: Segment, limit: int | None, *, gaps: bool
) -> Iterator[tuple[int, int, int, int]]:
    """(start, end, first missing offset, next offset) of the holes; `limit` is the next base."""
    position, offset = 0, segment.base_offset
    while True:
        position, offset = _run(segment, position, offset, limit, gaps=gaps)
        if position == segment.size and offset == (limit or offset):
            return
        following = _next(segment, position, offset, limit, gaps=gaps)
        if following is None:
            if limit is not None:
                yield position, segment.size, offset, limit
            return
        end, next_offset = following
        if next_offset > offset:
            yield position, end, offset, next_offset
        position, offset = end, next_offset


def _run(
    segment: Segment, position: int, offset: int, limit: int | None, *, gaps: bool
) -> tuple[int, int]:
    """(position, offset) of the end of the valid batches from `position` on."""
    for start, header, _ in scan.intact(segment.log, position, offset):
        if (header.base_offset != offset and not gaps) or not _is_within(header, limit):
            break
        position, offset = start + header.size, header.last_offset + 1
    return position, offset


def _next(
    segment: Segment, position: int, offset: int, limit: int | None, *, gaps: bool
) -> tuple[int, int] | None:
    """(position, offset) of the next valid batch from `position` on, None if there is none.

    The offsets lie outside the CRC. A batch that does not follow the one before counts only if the
    next one follows it.
    """
    while (start := scan.next_start(segment.log, position, offset)) is not None:
        batches = scan.intact(segment.log, start, offset)
        _, header, _ = next(batches)
        following = next(batches, None)
        next_offset = limit if following is None else following[1].base_offset
        if _is_within(header, limit) and (
            gaps or start > position or next_offset == header.last_offset + 1
        ):
            return start, header.base_offset
        position = start + 1
    return None


def _is_within(header: Header, limit: int | None) -> bool:
    return limit is None or header.last_offset < limit


def _rewrite(file: str, holes: list[Hole]) -> None:
    """Write the segment again with the holes filled, and put it in its place."""
    with open(file, "rb") as source, open(file + files.NEW, "wb") as target:
        for hole in holes:
            _copy(source, target, hole.start - source.tell())
            for batch in _fillers(hole):
                target.write(batch)
            source.seek(hole.end)
        _copy(source, target, os.fstat(source.fileno()).st_size - source.tell())
        target.flush()
        os.fsync(target.fileno())
    os.replace(file + files.NEW, file)


def _copy(source: object, target: object, count: int) -> None:
    while count > 0:
        data = source.read(min(count, _CHUNK_BYTES))  # type: ignore[attr-defined]
        target.write(data)  # type: ignore[attr-defined]
        count -= len(data)


def _fillers(hole: Hole) -> Iterator[bytes]:
    """Batches without records over the offsets of a hole; one, unless it is larger than 2^31."""
    template = read_header(build([Record(None, None)]))
    for offset in range(hole.offset, hole.next_offset, MAX_SEGMENT_SIZE):
        header = template._replace(
            base_offset=offset,
            partition_leader_epoch=hole.leader_epoch,
            last_offset_delta=min(hole.next_offset - offset, MAX_SEGMENT_SIZE) - 1,
        )
        yield replace_records(header, b"", 0, NO_TIMESTAMP)
