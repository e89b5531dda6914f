"""Spark tasks that fold log partitions into files. Only the names of the files go back to Spark."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from kohort.history.group_fold import GroupOptions
from kohort.history_files.building import Tasks
from kohort.history_files.file_system import open_files
from kohort.history_files.folding import LogRange, TaskResult, fold_ranges, runs
from kohort.spark import workers
from kohort.spark.error_messages import cause_first
from kohort.spark.history.sources import RecordReader

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession

RESULT: Final = "result string"
RECORDS_PER_TASK: Final = 200_000
"""Records for which another task is worth its start."""
TASKS_PER_CORE: Final = 3
DEFAULT_CORES: Final = 4
"""With Spark Connect, which does not tell."""


def task_limit(spark: "SparkSession", records: int) -> int:
    """The number of tasks for so many records."""
    from pyspark.sql.utils import is_remote

    cores = DEFAULT_CORES if is_remote() else spark.sparkContext.defaultParallelism
    return max(min(cores * TASKS_PER_CORE, records // RECORDS_PER_TASK), 1)


def run_tasks(
    spark: "SparkSession",
    location: str,
    read: RecordReader,
    tasks: Tasks,
    options: GroupOptions,
    topic_names: Mapping[str, str],
) -> list[TaskResult]:
    """Fold the ranges of `tasks`, each in a Spark task. Raises KohortError."""
    if not tasks:
        return []
    from pyspark.sql.utils import is_remote

    work = FoldTask(location, read, tasks, options, topic_names)
    if is_remote():
        frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work.run_rows, RESULT)
        results = [row.result for row in frame.collect()]
    else:  # `mapInArrow` would need pandas
        results = (
            spark.sparkContext.parallelize(range(len(tasks)), len(tasks)).map(work.run).collect()
        )
    return list(map(TaskResult.from_json, results))


@cause_first
class FoldTask(workers.TaskObject):
    """The work of the tasks of a batch."""

    def __init__(
        self,
        location: str,
        read: RecordReader,
        tasks: Tasks,
        options: GroupOptions,
        topic_names: Mapping[str, str],
    ) -> None:
        self._location = location
        self._read = read
        self._tasks = tasks
        self._options = options
        self._topic_names = topic_names

    def run(self, number: int) -> str:
        """Do the task with this number."""
        workers.settle()
        files = open_files(self._location)
        ranges = self._tasks[number]
        return fold_ranges(files, ranges, self._read, self._options, self._topic_names).to_json()

    def run_rows(self, numbers: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        """Do the tasks whose numbers are the rows."""
        for batch in numbers:
            yield from (_row(self.run(number)) for number in batch.column(0).to_pylist())


def run_on_frame(
    records: "DataFrame",
    location: str,
    ranges: Sequence[LogRange],
    tasks: int,
    options: GroupOptions,
    topic_names: Mapping[str, str],
) -> list[TaskResult]:
    """Fold `ranges` of a DataFrame of records. Records that are there twice count once."""
    from pyspark.sql.functions import broadcast, col

    by_partition = {log_range.log_partition: log_range for log_range in ranges}
    rows = [(each.log_partition, each.start, each.end) for each in ranges]
    bounds = records.sparkSession.createDataFrame(rows, "_number int, _start long, _end long")
    chosen = records.join(
        broadcast(bounds),
        (col("partition") == col("_number"))
        & (col("offset") >= col("_start"))
        & (col("offset") < col("_end")),
        "left_semi",
    )
    work = FrameTask(location, by_partition, options, topic_names)
    ordered = chosen.repartition(tasks, "partition").sortWithinPartitions("partition", "offset")
    return [
        TaskResult.from_json(row.result) for row in ordered.mapInArrow(work.run, RESULT).collect()
    ]


@cause_first
class FrameTask(workers.TaskObject):
    """Folds rows of a DataFrame that are ordered by log partition and offset."""

    def __init__(
        self,
        location: str,
        ranges: Mapping[int, LogRange],
        options: GroupOptions,
        topic_names: Mapping[str, str],
    ) -> None:
        self._location = location
        self._ranges = ranges
        self._options = options
        self._topic_names = topic_names

    def run(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        files = open_files(self._location)
        for number, records in log_partitions(batches):
            ranges, read = [self._ranges[number]], partial(_given, records)
            result = fold_ranges(files, ranges, read, self._options, self._topic_names)
            yield _row(result.to_json())


def log_partitions(
    batches: "Iterable[pa.RecordBatch]",
) -> "Iterator[tuple[int, Iterator[pa.RecordBatch]]]":
    """The batches of each log partition, of rows that are ordered by log partition and offset.

    Of rows with the same offset the first is taken.
    """
    parts = (run for batch in batches for run in runs(batch))
    for number, group in groupby(parts, key=lambda part: part[0]):
        yield number, _distinct(records for _, records in group)


def _distinct(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import numpy as np
    import pyarrow as pa

    last = -1
    for batch in batches:
        offsets: Any = batch.column("offset").to_numpy()
        is_new = np.diff(offsets, prepend=last) > 0
        last = int(offsets[-1])
        yield batch if is_new.all() else batch.filter(pa.array(is_new))


def _given(records: "Iterator[pa.RecordBatch]", _: LogRange) -> "Iterator[pa.RecordBatch]":
    return records


def _row(result: str) -> "pa.RecordBatch":
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"result": [result]})
