"""Recovery: loads the segments on disk when a log is opened, and repairs them.

The possible damage depends on how the last process ended:

- CLEAN: it closed its logs, and they are on the disk.
- KILLED: it died, the machine did not. All written data is there. The last batch may be cut, and
  index entries may be missing, so batches are checked from the last index entry of the last segment
  on.
- CRASHED: the machine went down. Data that was not synced may be missing or torn. Every batch from
  the recovery point on is checked, and the log ends before the first damaged one.

A CLEAN log is treated as a KILLED one, which costs very little.
"""

import contextlib
import logging
import os
import re
from enum import Enum
from itertools import pairwise

from kohort.log import files
from kohort.log.backing import Checkpoint
from kohort.log.segment import Segment
from kohort.log.storage import OpenFiles

logger = logging.getLogger("kohort.log")

_SEGMENT = re.compile(r"(\d{20})\.log")
_SWAP = re.compile(r"(\d{20})-(\d{20})\.swap")
_LEFTOVER = (files.CLEANED, files.DELETED, files.NEW)


class LastEnd(Enum):
    """How the last process with this directory ended."""

    CLEAN = "clean"
    KILLED = "killed"
    CRASHED = "crashed"


def load(
    path: str, open_files: OpenFiles, interval: int, last_end: LastEnd
) -> tuple[list[Segment], Checkpoint]:
    """The segments in the directory `path`, the last one ready to append, and the checkpoint.

    Raises OSError.
    """
    names = os.listdir(path)
    if any(name.endswith((*_LEFTOVER, files.SWAP)) for name in names):
        _tidy(path, names)
        names = os.listdir(path)
    checkpoint = Checkpoint()
    if files.CHECKPOINT in names:
        checkpoint = files.decode_checkpoint(files.read_file(f"{path}/{files.CHECKPOINT}"))
    bases = sorted(int(match[1]) for match in map(_SEGMENT.fullmatch, names) if match)
    segments = [_found(path, base, open_files, interval) for base in bases]
    for segment, following in pairwise(segments):
        segment.end_offset = following.base_offset
    if last_end is LastEnd.CRASHED:
        segments = _check_all(path, segments, checkpoint.recovery_point)
    elif segments:
        _report(path, segments[-1], segments[-1].recover(everything=False))
    if not segments or segments[-1].end_offset < checkpoint.start_offset:
        segments = _start_anew(path, segments, checkpoint, open_files, interval)
    if last_end is not LastEnd.CLEAN:
        _distrust(segments, checkpoint.recovery_point)
    return segments, checkpoint


def _distrust(segments: list[Segment], recovery_point: int) -> None:
    """Mark the data of a killed process as unsynced, because it may be in memory only.

    A retry of a batch that was written and never acknowledged is a duplicate, and is acknowledged
    once its first copy is durable.
    """
    for segment in segments:
        segment.unsynced = segment.size > 0 and segment.end_offset > recovery_point


def _found(path: str, base_offset: int, open_files: OpenFiles, interval: int) -> Segment:
    status = os.stat(files.segment_path(path, base_offset, files.LOG))
    segment = files.open_segment(path, base_offset, status.st_size, open_files, interval)
    segment.created = segment.modified = status.st_mtime_ns // 1_000_000
    return segment


def _check_all(path: str, segments: list[Segment], recovery_point: int) -> list[Segment]:
    """Check `segments`: cut the first damaged one, and remove those after it."""
    for number, segment in enumerate(segments):
        is_active = number == len(segments) - 1
        if segment.end_offset <= recovery_point and not is_active:
            continue
        end_offset = segment.end_offset
        cut = segment.recover(everything=True)
        _report(path, segment, cut)
        if is_active:
            break
        if cut or not segment.size:
            for lost in segments[number + 1 :]:
                logger.warning(
                    ("removing %r of %s, which follows records that were lost"), lost, path
                )
                _remove_files(path, lost.base_offset)
            return segments[: number + 1]
        segment.end_offset = end_offset
        segment.seal()
    return segments


def _start_anew(
    path: str, segments: list[Segment], checkpoint: Checkpoint, open_files: OpenFiles, interval: int
) -> list[Segment]:
    """Start with one empty segment, because the log is new or all its untrimmed data is lost."""
    for segment in segments:
        segment.close()
        _remove_files(path, segment.base_offset)
    return [files.open_segment(path, checkpoint.start_offset, 0, open_files, interval)]


def _report(path: str, segment: Segment, cut: int) -> None:
    if cut:
        logger.warning(
            "cut %d bytes off %s: the last batch there was not written whole; the log "
            "ends at offset %d",
            cut, files.segment_path(path, segment.base_offset, files.LOG), segment.end_offset,
        )  # fmt: skip


def _tidy(path: str, names: list[str]) -> None:
    """Complete or remove unfinished work."""
    for name in names:
        if match := _SWAP.fullmatch(name):
            finish_swap(path, int(match[1]), int(match[2]), names)
    for name in names:
        if name.endswith(_LEFTOVER):
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
    for suffix in (files.INDEX, files.TIMEINDEX):  # they may be of the old segment, and are rebuilt
        with contextlib.suppress(FileNotFoundError):
            os.unlink(files.segment_path(path, base_offset, suffix))
    swap = files.swap_path(path, base_offset, end_offset)
    os.rename(swap, files.segment_path(path, base_offset, files.LOG))


def _remove_files(path: str, base_offset: int) -> None:
    for suffix in (files.TIMEINDEX, files.INDEX, files.LOG):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(files.segment_path(path, base_offset, suffix))
