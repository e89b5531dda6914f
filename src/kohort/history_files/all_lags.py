"""Lag of all groups at all samples, from the files of a history, without Spark.

A part of the log partitions is read at a time (`parts`), and of its topics some at a time. So
memory is bounded: by the commits of the part, and by the samples of these topics.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kohort.history.lag import COMMIT_COLUMNS, in_force, lag_batches
from kohort.history.numbering import values_in
from kohort.history_files.file_system import Files
from kohort.history_files.parts import states_of, stored_commits
from kohort.history_files.samples import TABLE, read_stored_samples
from kohort.history_files.snapshot import Snapshot

SAMPLES_AT_ONCE: Final = 4_000_000


def lags_of_part(
    files: Files, snapshot: Snapshot, log_partitions: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Rows of LAG of the groups in some log partitions. Raises KohortError.

    A group that is in several log partitions has rows of each.
    """
    samples = sum(file.rows for file in snapshot.files_of(TABLE))
    if not samples:
        return
    commits = _commits(files, snapshot, log_partitions)
    topics = sorted(values_in(commits["topic"]))
    slices = -(-samples // SAMPLES_AT_ONCE)
    for number in range(slices):
        some = pa.array(topics[number::slices], pa.string())
        of_topics = commits if slices == 1 else commits.filter(pc.field("topic").isin(some))
        ends = read_stored_samples(files, snapshot, topics=some.to_pylist())
        yield from lag_batches(of_topics, ends)


def _commits(files: Files, snapshot: Snapshot, log_partitions: Sequence[int]) -> pa.Table:
    """All commits that were in force; tombstones whose cause is not decided are in states."""
    stored = stored_commits(files, snapshot, log_partitions).select(COMMIT_COLUMNS)
    waiting = []
    some = [each for each in log_partitions if snapshot.log_partitions[each].open_commits != 0]
    for state in states_of(files, snapshot, some):
        rows = state.open_rows().get("commits")
        if rows is not None:
            table = in_force(pa.Table.from_batches([rows])).select(COMMIT_COLUMNS)
            waiting.append(_encoded(table))
    return pa.concat_tables([stored, *waiting])


def _encoded(rows: pa.Table) -> pa.Table:
    """Names as dictionaries."""
    columns = [
        column.dictionary_encode() if pa.types.is_string(column.type) else column
        for column in rows.columns
    ]
    return pa.table(columns, rows.column_names)
