"""Histories of logs on disk, built without Spark."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from history.folded import OPTIONS
from history.offset_logs import LOG_PARTITION, Record, batch_of
from history.recorded import Recording
from kohort.history.group_fold import GroupOptions
from kohort.history_files.building import Tasks, add_batch, planned, steps
from kohort.history_files.directory import opened_for_writing
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.folding import LogRange, Reader, TaskResult, fold_ranges


def build(recording: Recording, directory: Path, log: str = "whole", limit: int = 700) -> None:
    """Build the history of a recorded log in batches of `limit` records."""
    logs = {number: recording.records(log, number) for number in recording.log_partitions}
    build_logs(logs, directory, limit)


def build_logs(
    logs: Mapping[int, pa.Table],
    directory: Path,
    limit: int = 700,
    *,
    cluster: str | None = None,
    topic_id: str | None = None,
    options: GroupOptions = OPTIONS,
) -> None:
    """Build the history of these records by log partition, in batches of `limit` records."""
    files = LocalFiles(directory)
    ends = {number: _end(records) for number, records in logs.items()}

    def read(log_range):
        offsets = logs[log_range.log_partition]["offset"]
        in_range = pc.and_(
            pc.greater_equal(offsets, log_range.start), pc.less(offsets, log_range.end)
        )
        return logs[log_range.log_partition].filter(in_range).to_batches(max_chunksize=100)

    def run(tasks):
        return [fold_ranges(files, ranges, read, options) for ranges in tasks]

    with opened_for_writing(files, 0) as history:
        for batch_ends in steps(planned(history.current, {}, ends), limit):
            ranges = planned(history.current, {}, batch_ends)
            add_batch(history, ranges, run, tasks=2, now_ms=0, cluster=cluster, topic_id=topic_id)


def _end(records: pa.Table) -> int:
    return 0 if not records.num_rows else pc.max(records["offset"]).as_py() + 1


def build_parts(parts: Sequence[Sequence[Record]], directory: Path, log_start: int = 0) -> None:
    """Build the history of one log partition, a build for each part of its records.

    `log_start`: first offset that the log has at the last build.
    """
    files = LocalFiles(directory)
    for number, records in enumerate(parts, 1):
        start = log_start if number == len(parts) else 0
        ends = {LOG_PARTITION: records[-1]["offset"] + 1}

        def read(_: LogRange, records: Sequence[Record] = records) -> list[pa.RecordBatch]:
            return [batch_of(list(records))]

        def fold(tasks: Tasks, read: Reader = read) -> list[TaskResult]:
            return [fold_ranges(files, ranges, read) for ranges in tasks]

        with opened_for_writing(files, 0) as history:
            ranges = planned(history.current, {LOG_PARTITION: start}, ends, after_pause=True)
            add_batch(history, ranges, fold, tasks=1, now_ms=0)
