"""The checks of `kohort storage check` in a data directory; they change nothing."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from errno import ENOENT
from pathlib import Path

from kohort.errors import KohortError
from kohort.log import directory_format, files, leader_epoch_checkpoint, recovery, repair, scan
from kohort.log.data_directory import partition_names
from kohort.log.directory_format import METADATA_NAME
from kohort.log.findings import Finding, Fold, Level, LoggedPartition
from kohort.log.leader_epochs import LeaderEpochs
from kohort.log.lock import locked
from kohort.log.partition_mark import MARK, base64_id, read_mark
from kohort.log.stores import OpenFiles
from kohort.log.worker_directories import directories_of, ensure_whole
from kohort.protocol.batches import Header
from kohort.types import TopicPartition


def check(path: Path, fold: Fold) -> Iterator[Finding]:
    """All findings of the directory; every byte is read. Raises OSError."""
    try:
        current = directory_format.examine(path)
    except KohortError as error:
        yield Finding(Level.PROBLEM, "format", str(error))
        return
    if current is None and not path.exists():
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(path))
    if current is None:
        yield Finding(Level.WARNING, "format", "no server has made it yet, or version 0.1 did")
        return
    try:
        ensure_whole(path, current.workers)
    except KohortError as error:
        yield Finding(Level.PROBLEM, "format", str(error))
        return
    text = (
        f"version {current.version}, of Kohort {current.written_by}, cluster {current.cluster_id}"
    )
    yield Finding(Level.OK, "format", text)
    free = shutil.disk_usage(path).free
    yield Finding(Level.OK, "size", f"{free / 1e9:.1f} GB are free on its volume")
    try:
        with ExitStack() as locks:
            paths = directories_of(path)
            for directory in paths:
                locks.enter_context(locked(directory))
            yield Finding(Level.OK, "lock", "no server uses it")
            yield from _check_logs(paths, fold)
    except KohortError as error:
        yield Finding(Level.WARNING, "lock", f"{error}; the logs were not checked")


def _check_logs(paths: Sequence[Path], fold: Fold) -> Iterator[Finding]:
    try:
        partitions = _logged_partitions(paths[0], fold)
    except (KohortError, ValueError) as error:
        partitions = None
        yield Finding(Level.PROBLEM, "metadata", f"{error}; topics and logs were not compared")
    yield from _logs(paths, partitions or {})
    if partitions is not None:
        yield from _places(paths, partitions)


def _logged_partitions(path: Path, fold: Fold) -> Mapping[TopicPartition, LoggedPartition] | None:
    """The partitions of all topics; None in a new directory. Raises KohortError, ValueError."""
    if not partition_names(path):
        return None
    directory = path / METADATA_NAME
    if not directory.is_dir():
        raise KohortError(f"{directory} is missing: restore it from a backup")
    return fold(bytes(batch) for _, _, batch in _batches(str(directory)))


def _batches(directory: str, leader_epoch: int = 0) -> Iterator[tuple[str, Header, memoryview]]:
    """File, header and bytes of the batches of a log, in order."""
    for segment in recovery.found_segments(directory, OpenFiles(), leader_epoch=leader_epoch):
        file = files.segment_path(directory, segment.base_offset, files.LOG)
        for _, header, batch in scan.intact(segment.log, 0, segment.base_offset):
            yield file, header, batch
        segment.log.close()


def _logs(
    paths: Sequence[Path], expected: Mapping[TopicPartition, LoggedPartition]
) -> Iterator[Finding]:
    logs = damaged = 0
    for path in paths:
        for partition in partition_names(path):
            logs += 1
            directory = str(path / str(partition))
            epoch = expected[partition].leader_epoch if partition in expected else 0
            cut = None if recovery.has_swaps(directory) else repair.examine(directory, epoch)
            if cut is not None:
                damaged += 1
                problem = f"{cut.damage}; see kohort repair {paths[0]} {partition}"
                yield Finding(Level.PROBLEM, "log", problem)
            else:
                yield from _epochs(directory, epoch)
    if not damaged:
        yield Finding(Level.OK, "logs", f"none of {logs} is damaged")


def _epochs(directory: str, leader_epoch: int) -> Iterator[Finding]:
    """Problems of the leader epochs of a log that has some."""
    entries = files.load_epochs(directory)
    if not entries and not leader_epoch:
        return
    stored, last = LeaderEpochs.of(entries), 0
    start_offset = repair.read_checkpoint(directory).start_offset
    for file, header, _ in _batches(directory, leader_epoch):
        offset, epoch = header.base_offset, header.partition_leader_epoch
        if epoch < last:
            text = (
                f"{file} has a batch of the leader epoch {epoch} at offset {offset}, behind one of "
                f"{last}: restore the file from a backup; clients may read records twice"
            )
            yield Finding(Level.PROBLEM, "epoch", text)
            return
        if header.last_offset >= start_offset and stored.at(max(offset, start_offset)) != epoch:
            path = f"{directory}/{leader_epoch_checkpoint.NAME}"
            text = (
                f"{path} does not have the leader epoch {epoch}, which begins at offset {offset}: "
                "remove the file, and the next start writes it again"
            )
            yield Finding(Level.WARNING, "epoch", text)
            return
        last = epoch


def _places(
    paths: Sequence[Path], expected: Mapping[TopicPartition, LoggedPartition]
) -> Iterator[Finding]:
    """Compare the directories of partitions with the topics."""
    missing = set(expected)
    for path in paths:
        for partition in partition_names(path):
            if str(partition) == METADATA_NAME:
                continue
            missing.discard(partition)
            finding = _place(path / str(partition), expected.get(partition))
            if finding is not None:
                yield finding
    for partition in sorted(missing):
        text = (
            f"{paths[0] / str(partition)} is missing: restore it from a backup, or the next start "
            "makes it, without records"
        )
        yield Finding(Level.WARNING, "topics", text)
    if not missing:
        yield Finding(Level.OK, "topics", f"each of {len(expected)} partitions has its log")


def _place(directory: Path, expected: LoggedPartition | None) -> Finding | None:
    topic_id = read_mark(str(directory))
    if expected is None and topic_id is not None:
        text = (
            f"{directory} belongs to no topic: the next start renames it, and removes it after "
            "stray.retention.ms"
        )
        return Finding(Level.WARNING, "topics", text)
    if expected is None:
        text = f"{directory} has no {MARK}, and is left as it is"
        return Finding(Level.WARNING, "topics", text)
    if topic_id == expected.topic_id:
        return None
    text = (
        f"{directory} belongs to another topic, or has no {MARK}: that of its topic has the line "
        f"'topic_id: {base64_id(expected.topic_id)}'; its partition is not served"
    )
    return Finding(Level.PROBLEM, "topics", text)
