"""Recovery: loads the segments on disk when a log is opened, and repairs them.

The possible damage depends on how the last process ended:

- CLEAN: it closed its logs, and they are on the disk.
- KILLED: it died, the machine did not. All written data is there. The last batch may be cut, and
  index entries may be missing, so batches are checked from the last index entry of the last segment
  on.
- CRASHED: the machine went down. Data that was not synced may be missing or torn. Every batch from
  the recovery point on is checked, and the log ends before the first damaged one.

After CLEAN the same is done as after KILLED, because it costs next to nothing.

A torn tail is cut off. What else is not as it was written refuses the log (see `damage`): a valid
batch behind an invalid one, a segment that does not end where the next one begins, a log that ends
before what was on the disk for certain. Only after CRASHED, beyond the recovery point, a hole is no
surprise; the log ends before it. Whatever is cut is kept aside (see `quarantine`).
"""

import contextlib
import logging
import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain, pairwise

from kohort.log import files, leader_epoch_checkpoint, quarantine, scan
from kohort.log.backing import Checkpoint
from kohort.log.damage import CorruptLogError, Damage
from kohort.log.leader_epochs import EpochEntry, LeaderEpochs
from kohort.log.segment import Segment
from kohort.log.segment_recovery import Progress, unobserved
from kohort.log.stores import OpenFiles

logger = logging.getLogger("kohort.log")

_INITIAL = Checkpoint()
"""The one of every log that has nothing to tell: there may be very many empty logs."""
_SEGMENT = re.compile(r"(\d{20})\.log")
_INDEX = re.compile(r"(\d{20})\.index")
_SWAP = re.compile(r"(\d{20})-(\d{20})\.swap")
_LEFTOVER = re.compile(
    r"\d{20}\.(log|index|timeindex|txnindex)\.(cleaned|deleted)"
    r"|(\d{20}\.log|checkpoint|producers|partition\.metadata|leader-epoch-checkpoint)\.new"
)
"""Unfinished work, by the exact names that are given to it: other files are an operator's."""


class LastEnd(Enum):
    """How the last process with this directory ended."""

    CLEAN = "clean"
    KILLED = "killed"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryContext:
    """Facts about a log that its recovery cannot read from its files."""

    last_end: LastEnd
    topic_partition: str | None = None
    """As in its checkpoint; None: not compared."""
    leader_epoch: int = 0
    """Epoch in which the log is led from now on, or was."""
    is_compacted: bool = False
    """The policy is to compact: offsets may be missing in sealed segments, whatever the checkpoint
    says."""
    may_have_holes: bool = True
    """After CRASHED, unsynced bytes may be missing in the middle; False if every batch was synced
    before the next."""
    has_whole_indexes: bool = False
    """No power loss can have taken rows of the indexes."""


def load(
    path: str,
    open_files: OpenFiles,
    interval: int,
    context: RecoveryContext,
    progress: Progress = unobserved,
) -> tuple[list[Segment], Checkpoint]:
    """The segments in the directory `path`, the last one ready to append, and the checkpoint.

    Raises CorruptLogError, and then no segment was changed; KafkaError if the directory has another
    log; OSError.
    """
    last_end = context.last_end
    names = os.listdir(path)
    if any(_LEFTOVER.fullmatch(name) or _SWAP.fullmatch(name) for name in names):
        _tidy(path, names)
        names = os.listdir(path)
    checkpoint = Checkpoint()
    if files.CHECKPOINT in names:
        checkpoint = files.load_checkpoint(path, context.topic_partition)
    stored_epochs = files.load_epochs(path) if leader_epoch_checkpoint.NAME in names else ()
    latest_epoch = max(context.leader_epoch, *(entry.epoch for entry in stored_epochs), 0)
    if last_end is LastEnd.CRASHED:
        stored_epochs = ()  # it may be an older one
    segments = _segments(path, names, open_files, interval, latest_epoch)
    if last_end is LastEnd.KILLED:
        _tell_of_lost_records(path, names, segments)
    try:
        opening = _Opening(
            path, segments, checkpoint, context.is_compacted, context.has_whole_indexes, progress
        )
        crashed = last_end is LastEnd.CRASHED
        segments = opening.check(crashed=crashed, holes=context.may_have_holes and crashed)
    except BaseException:
        for segment in segments:
            segment.close()
        raise
    if not segments or segments[-1].end_offset < checkpoint.start_offset:
        segments = _start_anew(path, segments, checkpoint, open_files, interval, latest_epoch)
    elif segments[-1].end_offset:
        _tell_of_lost_start(path, names, segments[0].base_offset, checkpoint, last_end)
    if last_end is not LastEnd.CLEAN:
        _distrust(segments, checkpoint.recovery_point)
    end_offset = segments[-1].end_offset
    checkpoint = checkpoint._replace(
        recovery_point=min(checkpoint.recovery_point, end_offset),
        cleaned=min(checkpoint.cleaned, end_offset),
        epochs=_epochs(segments, stored_epochs, latest_epoch, checkpoint.start_offset),
    )
    return segments, _INITIAL if checkpoint == _INITIAL else checkpoint


def _epochs(
    segments: list[Segment], stored: Sequence[EpochEntry], current: int, start_offset: int
) -> tuple[EpochEntry, ...]:
    """The leader epochs: those that are `stored`, or those of all batches if these lack some."""
    if not current:
        return ()
    start_offset, end_offset = max(start_offset, segments[0].base_offset), segments[-1].end_offset
    epochs: Iterable[tuple[int, int]] = [
        entry for entry in stored if entry.start_offset < end_offset
    ]
    last = max(segment.last_epoch for segment in segments[-2:])
    begins_with = min((offset for _, offset in epochs), default=end_offset)
    if begins_with > start_offset or last != max((epoch for epoch, _ in epochs), default=-1):
        epochs = chain.from_iterable(segment.epochs() for segment in segments)
    return LeaderEpochs(current, end_offset, epochs).entries(start_offset)


def all_missing(path: str, checkpoint: Checkpoint) -> Damage | None:
    """The damage of the log in `path`, which has no segment; None if it was never more."""
    start, synced = checkpoint.start_offset, checkpoint.recovery_point
    if synced <= start:
        return None
    return Damage(
        file=files.segment_path(path, start, files.LOG),
        position=0,
        offset=start,
        what=f"the records up to offset {synced - 1}, which were synced, are missing",
    )


def complete_swaps(path: str) -> None:
    """Complete or remove what a compaction left that was interrupted. Raises OSError."""
    _tidy(path, os.listdir(path))


def has_swaps(path: str) -> bool:
    """Whether a compaction was interrupted. Raises OSError."""
    return any(_SWAP.fullmatch(name) for name in os.listdir(path))


def found_segments(
    path: str, open_files: OpenFiles, interval: int = 4096, leader_epoch: int = 0
) -> list[Segment]:
    """The segments in the directory `path`, in order and unchecked. Raises OSError."""
    latest_epoch = max(leader_epoch, *(entry.epoch for entry in files.load_epochs(path)), 0)
    return _segments(path, os.listdir(path), open_files, interval, latest_epoch)


def _segments(
    path: str, names: Iterable[str], open_files: OpenFiles, interval: int, latest_epoch: int
) -> list[Segment]:
    matches = map(_SEGMENT.fullmatch, names)
    bases = sorted(int(match[1]) for match in matches if match)
    segments = [_found(path, base, open_files, interval, latest_epoch) for base in bases]
    for segment, following in pairwise(segments):
        segment.end_offset = following.base_offset
    return segments


def _tell_of_lost_start(
    path: str, names: Collection[str], start: int, checkpoint: Checkpoint, last_end: LastEnd
) -> None:
    """Warn if the first segments of a log, or its checkpoint, are gone.

    A log that was closed has stored where it starts; a killed process may have deleted old segments
    since it last did.
    """
    was_closed = last_end is LastEnd.CLEAN
    if files.CHECKPOINT not in names:
        if was_closed:
            logger.warning(
                "%s/%s is missing: the log starts at its first segment, at offset %d",
                path, files.CHECKPOINT, start,
            )  # fmt: skip
    elif start > checkpoint.start_offset:
        logger.log(
            logging.WARNING if was_closed else logging.INFO,
            "%s starts at offset %d instead of %d in its checkpoint: earlier segments are "
            "missing",
            path, start, checkpoint.start_offset,
        )  # fmt: skip


def _tell_of_lost_records(path: str, names: Iterable[str], segments: list[Segment]) -> None:
    """Warn of records that an index names and no segment has.

    Batches are written before their rows, so they were there. For logs of a killed process: a crash
    of the machine may take the one and leave the other.
    """
    sizes = {segment.base_offset: segment.size for segment in segments[:-1]}
    for match in filter(None, map(_INDEX.fullmatch, names)):
        base_offset = int(match[1])
        if base_offset in sizes:
            continue  # it must end where the next segment begins
        last = files.last_index_row(path, base_offset)
        size = segments[-1].size if segments and segments[-1].base_offset == base_offset else 0
        if last is not None and last[1] >= size:
            logger.warning(
                "%s was removed or truncated: records up to offset %d are missing",
                files.segment_path(path, base_offset, files.LOG), base_offset + last[0],
            )  # fmt: skip


def _distrust(segments: list[Segment], recovery_point: int) -> None:
    """Mark the data of a killed process as unsynced, because it may be in memory only.

    A retry of a batch that was written and never acknowledged is a duplicate, and is acknowledged
    once its first copy is durable.
    """
    for segment in segments:
        segment.unsynced |= segment.size > 0 and segment.end_offset > recovery_point


def _found(
    path: str, base_offset: int, open_files: OpenFiles, interval: int, latest_epoch: int
) -> Segment:
    status = os.stat(files.segment_path(path, base_offset, files.LOG))
    segment = files.open_segment(
        path, base_offset, status.st_size, open_files, interval, latest_epoch=latest_epoch
    )
    segment.created = segment.modified = status.st_mtime_ns // 1_000_000
    return segment


class _Opening:
    """One log that is being opened."""

    def __init__(
        self,
        path: str,
        segments: list[Segment],
        checkpoint: Checkpoint,
        compacted: bool,
        whole_indexes: bool,
        progress: Progress,
    ) -> None:
        self._path = path
        self._segments = segments
        self._checkpoint = checkpoint
        self._compacted = compacted
        self._whole_indexes = whole_indexes
        self._progress = progress

    def check(self, *, crashed: bool, holes: bool) -> list[Segment]:
        """The segments that are whole, the last one ready to append.

        After a crash of the machine, every batch beyond the recovery point is checked; with
        `holes`, the log ends there before the first that is not whole. Raises CorruptLogError,
        OSError.
        """
        if not self._segments and (damage := all_missing(self._path, self._checkpoint)):
            raise CorruptLogError(damage)
        for number, segment in enumerate(self._segments):
            self._progress(0)
            if number == len(self._segments) - 1:
                self._recover_active(segment, crashed=crashed, holes=holes)
            elif not crashed or segment.end_offset <= self._checkpoint.recovery_point:
                segment.check_end(self._progress, times_known=self._whole_indexes)
            elif not self._recover_sealed(segment, holes=holes):
                self._set_aside(self._segments[number + 1 :])
                return self._segments[: number + 1]
        return self._segments

    def _recover_active(self, segment: Segment, *, crashed: bool, holes: bool) -> None:
        end = segment.recover(
            everything=crashed,
            gaps=self._gaps(segment),
            progress=self._progress,
            times_known=self._whole_indexes,
        )
        if not holes:
            self._refuse_batches_behind(segment, end)
        if segment.end_offset < self._checkpoint.recovery_point:
            raise self._corrupt(
                segment,
                end,
                f"the records up to offset {self._checkpoint.recovery_point - 1}, which were "
                "synced, are missing",
            )
        self._cut(segment, end)

    def _recover_sealed(self, segment: Segment, *, holes: bool) -> bool:
        """Whether the segment is whole; else it ends before the hole."""
        next_base = segment.end_offset
        # A power loss may take the checkpoint that says what was compacted.
        gaps = self._compacted or self._gaps(segment)
        end = segment.recover(everything=True, gaps=gaps, progress=self._progress)
        if end == segment.size and segment.end_offset == next_base:
            segment.seal()
            return True
        if not holes:
            raise self._corrupt(segment, end, "no valid batch is there")
        self._cut(segment, end)
        return False

    def _gaps(self, segment: Segment) -> bool:
        """Whether compaction may have left gaps between offsets."""
        return segment.base_offset < self._checkpoint.cleaned

    def _refuse_batches_behind(self, segment: Segment, end: int) -> None:
        if end == segment.size:
            return
        trailing = scan.trailing_batches(segment.log, end, segment.end_offset)
        if trailing is not None:
            raise self._corrupt(
                segment,
                end,
                f"no valid batch follows there, but {trailing.batches} whole ones lie behind, from "
                f"byte {trailing.position}, offset {trailing.offset}, on",
            )

    def _corrupt(self, segment: Segment, position: int, problem: str) -> CorruptLogError:
        file = files.segment_path(self._path, segment.base_offset, files.LOG)
        return CorruptLogError(
            Damage(file=file, position=position, offset=segment.end_offset, what=problem)
        )

    def _cut(self, segment: Segment, end: int) -> None:
        """End the segment at `end`, and keep what lies behind."""
        cut = segment.size - end
        if not cut:
            return
        file = files.segment_path(self._path, segment.base_offset, files.LOG)
        kept = quarantine.keep_tail(file, end)
        segment.truncate(end)
        logger.warning(
            "truncated %d bytes of %s after an incomplete batch; the log ends at offset %d, "
            "and the bytes are kept in %s",
            cut, file, segment.end_offset, kept,
        )  # fmt: skip

    def _set_aside(self, segments: list[Segment]) -> None:
        for segment in segments:
            segment.close()
            kept = _keep_aside(self._path, segment.base_offset)
            logger.warning(
                "segment %r of %s follows lost records: it is not served, and kept as %s",
                segment, self._path, kept,
            )  # fmt: skip


def _start_anew(
    path: str,
    segments: list[Segment],
    checkpoint: Checkpoint,
    open_files: OpenFiles,
    interval: int,
    latest_epoch: int,
) -> list[Segment]:
    """Start with one empty segment, because the log is new or all its untrimmed data is lost."""
    for segment in segments:
        segment.close()
        kept = _keep_aside(path, segment.base_offset)
        logger.warning(
            "segment %r of %s ends before the log start offset: it is kept as %s",
            segment,
            path,
            kept,
        )
    start = checkpoint.start_offset
    return [files.open_segment(path, start, 0, open_files, interval, latest_epoch=latest_epoch)]


def _tidy(path: str, names: list[str]) -> None:
    """Complete or remove unfinished work."""
    for name in names:
        if match := _SWAP.fullmatch(name):
            finish_swap(path, int(match[1]), int(match[2]), names)
    for name in names:
        if _LEFTOVER.fullmatch(name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{path}/{name}")


def finish_swap(path: str, base_offset: int, end_offset: int, names: list[str]) -> None:
    """Complete the replacement of segments by a compacted one.

    All, some or none of them may exist.
    """
    for name in names:
        match = _SEGMENT.fullmatch(name)
        if match and base_offset <= int(match[1]) < end_offset:
            _remove_files(path, int(match[1]))
    for suffix in files.INDEXES:  # they may be of the old segment, and are rebuilt
        with contextlib.suppress(FileNotFoundError):
            os.unlink(files.segment_path(path, base_offset, suffix))
    swap = files.swap_path(path, base_offset, end_offset)
    os.rename(swap, files.segment_path(path, base_offset, files.LOG))


def _keep_aside(path: str, base_offset: int) -> str:
    """Take a segment out of its log; returns where its batches are kept."""
    kept = quarantine.keep_whole(files.segment_path(path, base_offset, files.LOG))
    _remove_files(path, base_offset)
    return kept


def _remove_files(path: str, base_offset: int) -> None:
    for suffix in (*files.INDEXES, files.LOG):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(files.segment_path(path, base_offset, suffix))
