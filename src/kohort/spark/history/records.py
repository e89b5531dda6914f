"""Tables without a directory: the records of a log as one frame, and functions that fold them.

    records = history.group_records(spark, bootstrap="broker:9092")
    records.transform(history.commits).where("kind = 'rewind'").show()

Each action reads and folds the log again. `kohort.spark.history.build` does so once.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kohort.errors import ConfigError
from kohort.history.damage import split_damage
from kohort.history.schema import COMMITS, COVERAGE, OFFSETS, RECORDS, TABLES
from kohort.history_files.folding import records_of
from kohort.spark import workers
from kohort.spark.error_messages import cause_first
from kohort.spark.history.folding import log_partitions
from kohort.spark.history.sources import (
    BOOTSTRAP,
    MAX_BATCH_BYTES,
    TOPIC,
    BrokerLog,
    FileLog,
    Log,
    broker_options,
    paths_of,
)
from kohort.spark.history.spark_types import to_spark
from kohort.spark.history.topic_names import by_uuid, names_of, with_names
from kohort.spark.registration import register

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession


def group_records(
    spark: "SparkSession",
    *,
    bootstrap: str | None = None,
    path: str | None = None,
    archive: "DataFrame | None" = None,
    options: Mapping[str, str] | None = None,
    topic_names: Mapping[Any, str] | None = None,
) -> "DataFrame":
    """The records of `__consumer_offsets` with the fields of their batches.

    Of a broker (`bootstrap`, with further `kafka.*` options), of segment files (`path`), or of a
    DataFrame with key, value, partition, offset and timestamp (`archive`). Brokers and data
    directories are asked at once for the names of topics, as groups may own these by id.
    `topic_names`: further names by topic id, of an archive for example.

    Raises ConfigError unless one of the three is given; KohortError if a broker does not respond.
    """
    if [bootstrap, path, archive].count(None) != 2:
        raise ConfigError(
            "group_records reads from bootstrap servers, a path or an archive: give one of them"
        )
    known = by_uuid(topic_names)
    if archive is not None:
        return with_names(archive, known)
    register(spark)
    reader = spark.read.format("kohort")
    log: Log
    if bootstrap is not None:
        of_broker = broker_options({BOOTSTRAP: bootstrap, **(options or {})})
        reader, log = reader.options(**of_broker), BrokerLog(of_broker)
    else:
        reader = reader.options(
            subscribe=TOPIC, path=path, includeBatchFields="true", damagedBatches="rows",
            maxInflatedBatchBytes=MAX_BATCH_BYTES,
        )  # fmt: skip
        log = FileLog(paths_of(path or ""))
    return with_names(reader.load().select(*RECORDS.names), log.topic_names() | known)


def offsets(records: "DataFrame") -> "DataFrame":
    """Every record of a committed offset."""
    return _table(records, "commits").select(*OFFSETS.names)


def commits(records: "DataFrame") -> "DataFrame":
    """The commits that came into force, with what was in force before."""
    return _table(records, "commits").where("in_force is not null")


def groups(records: "DataFrame") -> "DataFrame":
    """Every other record, decoded."""
    return _table(records, "groups")


def generations(records: "DataFrame") -> "DataFrame":
    """The generations or epochs of groups."""
    return _table(records, "generations")


def rebalances(records: "DataFrame") -> "DataFrame":
    """What each rebalance changed, and how long it took."""
    return _table(records, "rebalances")


def members(records: "DataFrame") -> "DataFrame":
    """Members from when they joined to when they departed."""
    return _table(records, "members")


def assignments(records: "DataFrame") -> "DataFrame":
    """The owners of partitions."""
    return _table(records, "assignments")


def minutes(records: "DataFrame") -> "DataFrame":
    """Commits of each partition by minute."""
    return _table(records, "minutes")


def coverage(records: "DataFrame") -> "DataFrame":
    """What the records tell of each log partition."""
    return _table(records, "coverage")


def _table(records: "DataFrame", table: str) -> "DataFrame":
    schema = COVERAGE if table == "coverage" else TABLES[table]
    ordered = records.repartition("partition").sortWithinPartitions("partition", "offset")
    return ordered.mapInArrow(RowsOfTable(table, names_of(records)).run, to_spark(schema))


@cause_first
class RowsOfTable(workers.TaskObject):
    """Folds records that are ordered by log partition and offset into the rows of one table."""

    def __init__(self, table: str, topic_names: Mapping[str, str]) -> None:
        self._table = table
        self._topic_names = topic_names

    def run(self, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for number, records in log_partitions(batches):
            yield from self._rows(number, records)

    def _rows(self, number: int, batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from kohort.history.fold import fold_parts
        from kohort.history.state import State

        state = State.new(number)
        state.groups.name_topics(self._topic_names)
        for batch in batches:
            whole, errors = split_damage(state, records_of(batch))
            if errors is not None and self._table == "groups":
                yield errors
            if not whole.num_rows:
                continue
            for rows, after in fold_parts(state, whole):
                state = after
                if (found := rows.get(self._table)) is not None and found.num_rows:
                    yield found
        last = state.coverage_row() if self._table == "coverage" else state.open_rows()[self._table]
        if last.num_rows:
            yield last


assert set(OFFSETS.names) <= set(COMMITS.names)
