"""Finding damage in the log of one partition, and ending the log before it.

Every byte is read: each batch is checked by its CRC, and the offsets of batches and segments must
follow each other. A torn tail is no damage, as the next start cuts it off. Nothing is deleted: what
is cut is kept beside the log (see `quarantine`).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from kohort.log import files, quarantine, recovery, scan
from kohort.log.backing import Checkpoint
from kohort.log.damage import Damage
from kohort.log.durability import sync_path
from kohort.log.segment import Segment
from kohort.log.stores import OpenFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The records that are lost if a log is cut at its first damage."""

    damage: Damage
    end_offset: int
    """Offset after the last record of the log as it is."""
    bytes: int
    batches: int
    """Whole batches behind the damage, which are taken out too."""
    files: tuple[str, ...]
    """The segments behind the one that is damaged, which are taken out whole."""


def examine(directory: str, leader_epoch: int = 0) -> Cut | None:
    """What has to be cut off the log in `directory`; None if it is not damaged.

    No batch has a larger epoch than `leader_epoch` and those of the log's own file. Raises OSError.
    """
    checkpoint = read_checkpoint(directory)
    segments = recovery.found_segments(directory, OpenFiles(), leader_epoch=leader_epoch)
    if not segments and (damage := recovery.all_missing(directory, checkpoint)):
        return Cut(damage=damage, end_offset=damage.offset, bytes=0, batches=0, files=())
    try:
        for number, segment in enumerate(segments):
            following = segments[number + 1 :]
            damage = _damage(directory, segment, following, checkpoint)
            if damage is not None:
                return _cut(directory, segment, following, damage)
    finally:
        for segment in segments:
            segment.log.close()
    return None


def execute(directory: str, cut: Cut) -> list[str]:
    """Cut it; returns the files that keep what was cut. Raises OSError."""
    kept: list[str] = []
    for file in reversed(cut.files):
        kept.append(quarantine.keep_whole(file))
        remove_indexes(file)
    descriptor = os.open(cut.damage.file, os.O_RDWR | os.O_CREAT, 0o644)  # it may be missing
    try:
        if os.fstat(descriptor).st_size > cut.damage.position:
            kept.append(quarantine.keep_tail(cut.damage.file, cut.damage.position))
        os.ftruncate(descriptor, cut.damage.position)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    remove_indexes(cut.damage.file)
    _lower_checkpoint(directory, cut.damage.offset)
    return kept


def _damage(
    directory: str, segment: Segment, following: list[Segment], checkpoint: Checkpoint
) -> Damage | None:
    end, next_offset = _end(segment, gaps=bool(following) or _has_gaps(segment, checkpoint))
    if following:
        if end == segment.size and next_offset == following[0].base_offset:
            return None
        problem = (
            "no valid batch is there"
            if end < segment.size
            else f"the records up to offset {following[0].base_offset - 1} are missing"
        )
    elif end < segment.size and scan.trailing_batches(segment.log, end, next_offset) is not None:
        problem = "no valid batch follows there, but whole ones lie behind"
    elif next_offset < checkpoint.recovery_point:
        last = checkpoint.recovery_point - 1
        problem = f"the records up to offset {last}, which were synced, are missing"
    else:
        return None
    file = files.segment_path(directory, segment.base_offset, files.LOG)
    return Damage(file=file, position=end, offset=next_offset, what=problem)


def _has_gaps(segment: Segment, checkpoint: Checkpoint) -> bool:
    return segment.base_offset < checkpoint.cleaned


def _end(segment: Segment, *, gaps: bool) -> tuple[int, int]:
    """(position, offset) of the end of what is valid in a segment."""
    position, next_offset = 0, segment.base_offset
    for start, header, _ in scan.intact(segment.log, 0, segment.base_offset):
        if header.base_offset != next_offset and not gaps:
            break
        position, next_offset = start + header.size, header.last_offset + 1
    return position, next_offset


def _cut(directory: str, segment: Segment, following: list[Segment], damage: Damage) -> Cut:
    behind = list(_behind(segment, following, damage))
    return Cut(
        damage=damage,
        end_offset=max([damage.offset, *(offset for _, offset in behind)]),
        bytes=segment.size - damage.position + sum(later.size for later in following),
        batches=sum(batches for batches, _ in behind),
        files=tuple(
            files.segment_path(directory, later.base_offset, files.LOG) for later in following
        ),
    )


def _behind(
    segment: Segment, following: list[Segment], damage: Damage
) -> Iterator[tuple[int, int]]:
    """(whole batches, offset after the last one) behind the damage, segment by segment."""
    trailing = scan.trailing_batches(segment.log, damage.position, damage.offset)
    if trailing is not None:
        yield trailing.batches, trailing.end_offset
    for later in following:
        trailing = scan.trailing_batches(later.log, 0, later.base_offset)
        if trailing is not None:
            yield trailing.batches, trailing.end_offset


def remove_indexes(file: str) -> None:
    """Remove the indexes of a cut segment; the next start recreates them."""
    for suffix in files.INDEXES:
        path = file.removesuffix(files.LOG) + suffix
        if os.path.lexists(path):
            os.unlink(path)


def read_checkpoint(directory: str) -> Checkpoint:
    """The checkpoint of the log; the default one if it is missing or broken."""
    try:
        return files.decode_checkpoint(files.read_file(f"{directory}/{files.CHECKPOINT}"))
    except ValueError:
        return Checkpoint()


def _lower_checkpoint(directory: str, end_offset: int) -> None:
    checkpoint = read_checkpoint(directory)
    start_offset, recovery_point, cleaned = (min(value, end_offset) for value in checkpoint[:3])
    lowered = Checkpoint(start_offset, recovery_point, cleaned)
    files.store_checkpoint(directory, lowered, durable=True)
    sync_path(directory)
