"""`read`: the tables of a history as DataFrames, of its newest snapshot.

Stored rows are read from Parquet. Rows that have not ended are in the states of the fold, which
tasks read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final

from kohort.history.gaps import Gap
from kohort.history.schema import COMMITS, COVERAGE, OFFSETS, STORED_TABLES, TABLES
from kohort.history.status import LIMITS, StatusLimits
from kohort.history_files.certainty import NO_CUT, Limits, limits_of
from kohort.history_files.directory import HistoryDirectory
from kohort.history_files.file_system import open_files
from kohort.history_files.moments import parse_moment, validate_kept
from kohort.history_files.snapshot import Snapshot, StoredState
from kohort.history_files.stored_rows import RECORDED, StoredRows
from kohort.spark import workers
from kohort.spark.error_messages import cause_first
from kohort.spark.history.certainty import committed_at, uncertain
from kohort.spark.history.lags import lag, lag_of_history, status_of_history
from kohort.spark.history.moments import coverage_at, cut_offsets, table_at
from kohort.spark.history.spark_types import to_spark
from kohort.spark.registration import start_workers_sooner

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kohort.history.state import State

STATES_PER_TASK: Final = 8
POSITIONS: Final = "positions"
"""Not a table: the positions of the open rows of RECORDED."""
_HADOOP: Final = {"s3": "s3a"}
"""PyArrow's names of file systems → Hadoop's."""


def read(spark: "SparkSession", out: str) -> "HistoryTables":
    """The tables of the history in the directory `out`, as of its newest snapshot.

    Frames stay readable for 15 minutes while a build writes into the directory; without one they
    do for ever. Raises ConfigError if `out` has no history; KohortError.
    """
    directory = HistoryDirectory(open_files(out))
    start_workers_sooner(spark)
    return HistoryTables(spark, directory.files.location, directory.snapshot())


@dataclass(frozen=True)
class HistoryTables:
    """The tables of a history: lazy frames, with the columns of `kohort.history.schema`."""

    _spark: "SparkSession"
    _location: str
    _snapshot: Snapshot
    _moment: datetime | None = None

    @property
    def offsets(self) -> "DataFrame":
        """Every record of a committed offset, as it is in the log."""
        return self._commits.select(*OFFSETS.names)

    @property
    def commits(self) -> "DataFrame":
        """The commits that came into force, with what was in force before."""
        return self._commits.where("in_force is not null")

    @property
    def groups(self) -> "DataFrame":
        """Every other record: generations, members, assignments, markers of transactions."""
        return self._table("groups")

    @property
    def generations(self) -> "DataFrame":
        """The generations or epochs of groups."""
        return self._table("generations")

    @property
    def rebalances(self) -> "DataFrame":
        """What each rebalance changed, and how long it took."""
        return self._table("rebalances")

    @property
    def members(self) -> "DataFrame":
        """Members from when they joined to when they departed."""
        return self._table("members")

    @property
    def assignments(self) -> "DataFrame":
        """The owners of partitions."""
        return self._table("assignments")

    @property
    def minutes(self) -> "DataFrame":
        """Commits of each partition by minute."""
        return self._table("minutes")

    @property
    def samples(self) -> "DataFrame":
        """Ends of the topics that groups commit, at the times at which they were asked for."""
        from pyspark.sql.functions import col, lit

        samples = self._stored("samples")
        return samples if self._moment is None else samples.where(col("time") <= lit(self._moment))

    @property
    def lag(self) -> "DataFrame":
        """The lag of each partition of each group at the times of samples.

        Tasks read the files themselves unless the tables are cut: this is faster than `lag` of
        frames.
        """
        if self._moment is not None:
            return lag(self.commits, self.samples)
        return lag_of_history(self._spark, self._location, self._snapshot)

    def status(
        self, at: "str | datetime | None" = None, limits: StatusLimits = LIMITS
    ) -> "DataFrame":
        """The status of each partition of each group at a time, by default that of the last sample.

        Tasks read the files themselves: this is faster than `status` of a frame. Raises
        ConfigError, also for a time whose rows `--keep` has removed.
        """
        moment = self._moment if at is None else parse_moment(at)
        return status_of_history(self._spark, self._location, self._snapshot, moment, limits)

    @property
    def findings(self) -> "DataFrame":
        """Faults of groups that builds found, each as it was found last."""
        from pyspark.sql import Window
        from pyspark.sql.functions import col, lit, row_number

        rows = self._stored("findings")
        if self._moment is not None:
            rows = rows.where(col("found") <= lit(self._moment))
        latest = Window.partitionBy("group", "id", "subject", "since").orderBy(col("found").desc())
        ranked = rows.withColumn("_rank", row_number().over(latest))
        return ranked.where("_rank = 1").drop("_rank")

    @property
    def coverage(self) -> "DataFrame":
        """What the tables know of each log partition."""
        coverage = self._of_states("coverage", to_spark(COVERAGE))
        if self._moment is None:
            return coverage
        return coverage_at(coverage, self._cuts, self._moment)

    def at(self, moment: str | datetime) -> "HistoryTables":
        """The tables as they were at a time, which needs a zone: "2026-01-31T10:42Z".

        Raises ConfigError, also for a time whose rows `--keep` has removed.
        """
        time = parse_moment(moment)
        validate_kept(self._snapshot, time)
        return replace(self, _moment=time)

    def committed_offsets(self, moment: "str | datetime | None" = None) -> "DataFrame":
        """The committed offset of each group and partition at a time, by default the latest.

        The column `certainty` is "exact", or "unknown" where compaction has removed what the
        answer needs, or it cannot be decoded: `committed` is null then.
        """
        at = self if moment is None else self.at(moment)
        cuts = at._cuts
        limits = at._limits(cuts)
        stored = at._stored("commits", every=bool(uncertain(limits)))
        has_errors = any(file.errors for file in self._snapshot.files_of("commits"))
        # Tombstones whose cause is not decided yet are in states.
        commits = stored.unionByName(at._open_commits("commits", COMMITS))
        return committed_at(commits, cuts, limits, has_errors=has_errors)

    def _limits(self, cuts: Mapping[int, int]) -> dict[int, Limits]:
        """What can be relied on before the cuts, by log partition.

        Runs a job if a log partition has more gaps than the snapshot names.
        """
        stored = self._snapshot.log_partitions
        gaps: dict[int, Sequence[Gap]] = {
            number: each.gaps for number, each in stored.items() if each.gaps is not None
        }
        others = [each for number, each in stored.items() if number not in gaps]
        if others:
            for row in self._of_states("coverage", to_spark(COVERAGE), others).collect():
                gaps[row.log_partition] = row.gaps
        return {number: limits_of(of, cuts.get(number, NO_CUT)) for number, of in gaps.items()}

    @cached_property
    def _cuts(self) -> dict[int, int]:
        """Log partition → first offset that is not seen. Runs a job if states have open rows."""
        if self._moment is None:
            return {}
        stored = StoredRows(open_files(self._location), self._snapshot)
        cuts = stored.first_offsets(self._moment, is_later=True)
        if self._states_with_open_commits():
            positions = self._open_commits(POSITIONS, position_schema())
            for number, offset in cut_offsets(positions, self._moment).items():
                cuts[number] = min(cuts.get(number, offset), offset)
        return cuts

    @property
    def _commits(self) -> "DataFrame":
        return self._table("commits")

    def _table(self, name: str) -> "DataFrame":
        if name == "commits":
            open_rows = self._open_commits(name, COMMITS)
        else:
            open_rows = self._of_states(name, to_spark(TABLES[name]))
        rows = self._stored(name).unionByName(open_rows)
        return rows if self._moment is None else table_at(name, rows, self._cuts)

    def _stored(self, name: str, *, every: bool = False) -> "DataFrame":
        """Stored rows; without `every`, no files whose rows all begin after the moment."""
        schema = to_spark(STORED_TABLES[name])
        until = None if every else self._moment
        paths = [
            hadoop_path(f"{self._location.rstrip('/')}/{file.path}")
            for file in self._snapshot.files_of(name, until=until)
        ]
        if not paths:
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(*paths)

    def _open_commits(self, name: str, schema: "pa.Schema") -> "DataFrame":
        """`_of_states` of `commits` or their positions: few states have some."""
        return self._of_states(name, to_spark(schema), self._states_with_open_commits())

    def _states_with_open_commits(self) -> list[StoredState]:
        states = self._snapshot.log_partitions.values()
        return [each for each in states if each.open_commits != 0 and each.state is not None]

    def _of_states(
        self, name: str, schema: "StructType", states: Iterable[StoredState] | None = None
    ) -> "DataFrame":
        """Rows of these states, or of all."""
        if states is None:
            states = self._snapshot.log_partitions.values()
        paths = [stored.state for stored in states if stored.state is not None]
        if not paths:
            return self._spark.createDataFrame([], schema)
        tasks = [paths[at : at + STATES_PER_TASK] for at in range(0, len(paths), STATES_PER_TASK)]
        work = OpenRows(self._location, tasks, name)
        return self._spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(work.run, schema)


@cause_first
class OpenRows(workers.TaskObject):
    """Rows of a table that have not ended, or coverage, from states; a row is a task's number."""

    def __init__(self, location: str, tasks: Sequence[Sequence[str]], table: str) -> None:
        self._location = location
        self._tasks = tasks
        self._table = table

    def run(self, numbers: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from kohort.history.state import State

        files = open_files(self._location)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for path in self._tasks[number]:
                    rows = self._rows(State.from_arrow(files.read(path)))
                    yield from (batch for batch in rows if batch.num_rows)

    def _rows(self, state: "State") -> "list[pa.RecordBatch]":
        if self._table == "coverage":
            return [state.coverage_row()]
        open_rows = state.open_rows()
        if self._table == POSITIONS:
            names = position_schema().names
            return [open_rows[name].select(names) for name in RECORDED if name in open_rows]
        return [open_rows[self._table]] if self._table in open_rows else []


def position_schema() -> "pa.Schema":
    """The columns that every record has: its position and time."""
    import pyarrow as pa

    names = ("log_partition", "log_offset", "time")
    return pa.schema([COMMITS.field(name) for name in names])


def hadoop_path(path: str) -> str:
    """A path for Spark's readers; local ones are absolute, whatever Spark's default is."""
    scheme, separator, rest = path.partition("://")
    if separator:
        return f"{_HADOOP.get(scheme, scheme)}://{rest}"
    from pathlib import Path

    return Path(path.removeprefix("file:")).absolute().as_uri()


assert COMMITS.names[: len(OFFSETS.names)] == OFFSETS.names
