"""Lag and status of groups as functions of frames, and status from the files of a history.

    t.commits.transform(history.lag, t.samples).transform(history.status, at="2026-01-31T10:42Z")

A lag needs the commits and samples of a topic's partition only. So both are shuffled by that in
one frame, and a task computes the lags of its partitions by `kohort.history.lag`. Windows of Spark
would take a join by time and several sorts.

`lag_of_history` and `status_of_history` are faster: their tasks read the files themselves, and only
lags or statuses go through Spark.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from kohort.history.schema import LAG, STATUS
from kohort.history.status import LIMITS, StatusLimits
from kohort.history_files.file_system import Files, open_files
from kohort.history_files.moments import parse_moment
from kohort.spark import workers
from kohort.spark.error_messages import cause_first
from kohort.spark.history.spark_types import to_spark

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession

    from kohort.history_files.snapshot import Snapshot

    ReadPart: TypeAlias = Callable[[Files, Snapshot, Sequence[int]], Iterable[pa.RecordBatch]]

KEY: Final = ("group", "topic", "partition")
_PRESENT: Final = "_has_members"
_COMMIT, _SAMPLED, _GRID = range(3)


def lag(commits: "DataFrame", samples: "DataFrame") -> "DataFrame":
    """The lag of each partition of each group at the times of samples, with the columns of LAG.

    `commits` and `samples` are frames with the columns of these tables. Partitions without samples
    have no rows.
    """
    from pyspark.sql.functions import col, lit, when, xxhash64

    # An id is compared only, and takes less as a number.
    topic_id = when(col("topic_id").isNotNull(), xxhash64("topic_id")).alias("topic_id")
    counted = commits.where("in_force is not null and kind <> 'superseded'").select(
        "topic", "partition", topic_id, lit(_COMMIT).cast("byte").alias("kind"), "group",
        col("in_force_time").alias("time"), col("committed").alias("start"),
        col("in_force").alias("end"),
    )  # fmt: skip
    kind = when(col("method") == "grid", _GRID).otherwise(_SAMPLED).cast("byte")
    ends = samples.select(
        "topic", "partition", topic_id, kind.alias("kind"), lit(None).cast("string").alias("group"),
        "time", "start", "end",
    )  # fmt: skip
    both = counted.unionByName(ends).repartition("topic", "partition")
    return both.mapInArrow(LagTask().run, to_spark(LAG))


@cause_first
class LagTask(workers.TaskObject):
    """Computes the lags of partitions, from rows of all their commits and samples."""

    def run(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        import pyarrow.compute as pc  # type: ignore[import-untyped]

        from kohort.history.lag import lag_batches

        workers.settle()
        parts = list(batches)
        if not parts:
            return
        rows = pa.Table.from_batches(parts)
        del parts
        kind = rows["kind"]
        commits = rows.filter(pc.equal(kind, _COMMIT)).rename_columns(
            {"time": "in_force_time", "start": "committed", "end": "in_force"}
        )
        samples = rows.filter(pc.not_equal(kind, _COMMIT))
        is_grid = pc.equal(samples["kind"], _GRID)
        method = pc.if_else(is_grid, "grid", "sampled")
        samples = samples.append_column("method", method)
        yield from lag_batches(commits.drop_columns("kind"), samples)


def status(
    lags: "DataFrame",
    at: str | datetime,
    members: "DataFrame | None" = None,
    limits: StatusLimits = LIMITS,
) -> "DataFrame":
    """The status of each partition of each group at a time, with the columns of STATUS.

    `lags`: a frame with the columns of LAG. `at` needs a zone. `members`: the table of members, by
    which groups without members are `empty`, and not `stopped`. Raises ConfigError.
    """
    from pyspark.sql.functions import broadcast, col, lit, max_by, struct

    time = parse_moment(at)
    last = (
        lags.where(col("time") <= lit(time))
        .groupBy(*KEY)
        .agg(max_by(struct(*LAG.names), "time").alias("last"))
        .select("last.*")
    )
    if members is None:
        last = last.withColumn(_PRESENT, lit(True))
    else:
        present = (
            members.where(
                (col("from") <= lit(time)) & (col("to").isNull() | (col("to") > lit(time)))
            )
            .select("group", lit(True).alias(_PRESENT))
            .distinct()
        )
        last = last.join(broadcast(present), "group", "left").select(*LAG.names, _PRESENT)
    return last.mapInArrow(StatusTask(time, limits).run, to_spark(STATUS))


@cause_first
class StatusTask(workers.TaskObject):
    """Tells the statuses of partitions by their last rows."""

    def __init__(self, at: datetime, limits: StatusLimits) -> None:
        self._at = at
        self._limits = limits

    def run(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        import pyarrow.compute as pc

        from kohort.history.status import status_table

        workers.settle()
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            empty = rows.filter(pc.is_null(rows[_PRESENT]))["group"].to_pylist()
            lags = rows.select(LAG.names).cast(LAG)
            found = status_table(lags, self._at, empty_groups=set(empty), limits=self._limits)
            yield from found.to_batches()


def lag_of_history(spark: "SparkSession", location: str, snapshot: "Snapshot") -> "DataFrame":
    """`lag` of the commits and samples of a history."""
    from kohort.history_files.all_lags import lags_of_part

    return _by_parts(spark, location, snapshot, lags_of_part, LAG)


def status_of_history(
    spark: "SparkSession",
    location: str,
    snapshot: "Snapshot",
    at: datetime | None,
    limits: StatusLimits = LIMITS,
) -> "DataFrame":
    """`kohort.history_files.status.status_at`, by tasks that each read some log partitions."""
    from kohort.history_files.status import moment_of

    moment = moment_of(snapshot, at)
    if moment is None:
        return spark.createDataFrame([], to_spark(STATUS))
    read = partial(_statuses, at=moment, limits=limits)
    return _by_parts(spark, location, snapshot, read, STATUS)


def _statuses(
    files: Files,
    snapshot: "Snapshot",
    log_partitions: Sequence[int],
    *,
    at: datetime,
    limits: StatusLimits,
) -> "list[pa.RecordBatch]":
    from kohort.history_files.status import status_of_part

    rows = status_of_part(files, snapshot, log_partitions, at, limits)
    return list(rows.to_batches())


def _by_parts(
    spark: "SparkSession",
    location: str,
    snapshot: "Snapshot",
    read: "ReadPart",
    schema: "pa.Schema",
) -> "DataFrame":
    """What `read` reads from each part of the log partitions."""
    from pyspark.sql.utils import is_remote

    from kohort.history_files.parts import parts_of
    from kohort.spark.history.folding import DEFAULT_CORES

    cores = DEFAULT_CORES if is_remote() else spark.sparkContext.defaultParallelism
    parts = parts_of(snapshot, cores)
    if not parts:
        return spark.createDataFrame([], to_spark(schema))
    work = PartTask(location, snapshot, parts, read)
    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(work.run, to_spark(schema))


@cause_first
class PartTask(workers.TaskObject):
    """Reads the files of a history; a row is the number of a part."""

    def __init__(
        self,
        location: str,
        snapshot: "Snapshot",
        parts: Sequence[Sequence[int]],
        read: "ReadPart",
    ) -> None:
        self._location = location
        self._snapshot = snapshot
        self._parts = parts
        self._read = read

    def run(self, numbers: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        workers.settle()
        files = open_files(self._location)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._read(files, self._snapshot, self._parts[number])
