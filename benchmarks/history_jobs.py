"""Jobs that `benchmarks.history` measures, each in a process of its own.

    python -m benchmarks.history_jobs fold SEGMENTS OUT
    python -m benchmarks.history_jobs build SEGMENTS OUT
    python -m benchmarks.history_jobs committed OUT TIME
    python -m benchmarks.history_jobs status OUT TIME
    python -m benchmarks.history_jobs lag OUT
    python -m benchmarks.history_jobs udf BOOTSTRAP TOPIC JARS
    python -m benchmarks.history_jobs duckdb OUT TIME

The last line of the output is JSON. `result`: how many rows there are, and a checksum of the
offsets; `work_s`: the seconds from when Spark had started to the result.
`udf` is what one writes without Kohort: Spark's Kafka connector and a Python function per row.
"""

import json
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kohort.spark import history

marks: list[float] = []
"""When Spark had started, and when the work was done."""


@contextmanager
def session(**settings: str) -> Iterator[Any]:
    """Spark with its default settings, but quiet."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("history")
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1")
    for name, value in settings.items():
        builder = builder.config(name.replace("_", "."), value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    marks.append(time.monotonic())
    try:
        yield spark
    finally:
        marks.append(time.monotonic())
        spark.stop()


def fold(segments: str, out: str) -> dict[str, int]:
    """Fold the segments into tables."""
    with session() as spark:
        return {"rows": history.build(spark, segments, out, findings=False).records}


def build(segments: str, out: str) -> dict[str, int]:
    """The same, and look for faults in all groups."""
    with session() as spark:
        result = history.build(spark, segments, out)
    findings = [file.rows for file in result.snapshot.files if file.table == "findings"]
    return {"rows": result.records, "findings": sum(findings)}


def committed(out: str, time: str) -> dict[str, int]:
    """The committed offsets of all groups at a time, from the tables."""
    with session() as spark:
        return _totals(history.read(spark, out).committed_offsets(time))


def status(out: str, time: str) -> dict[str, int]:
    """The status of all partitions of groups at a time."""
    from pyspark.sql.functions import count
    from pyspark.sql.functions import sum as total

    with session() as spark:
        statuses = history.read(spark, out).status(time)
        (row,) = statuses.agg(count("status"), total("committed")).collect()
    return {"rows": row[0], "sum": row[1]}


def lag(out: str) -> dict[str, int]:
    """The lag of all partitions of groups at all samples."""
    from pyspark.sql.functions import count
    from pyspark.sql.functions import sum as total

    with session() as spark:
        (row,) = history.read(spark, out).lag.agg(count("lag"), total("lag")).collect()
    return {"rows": row[0], "sum": row[1]}


def _totals(offsets: Any) -> dict[str, int]:
    from pyspark.sql.functions import count
    from pyspark.sql.functions import sum as total

    (row,) = offsets.agg(count("committed"), total("committed")).collect()
    return {"rows": row[0], "sum": row[1]}


def udf(bootstrap: str, topic: str, jars: str) -> dict[str, int]:
    """The last committed offset of each partition: decoded by a Python function for each row."""
    from pyspark.sql.functions import col, max_by
    from pyspark.sql.functions import udf as function

    def decode(key: bytes, value: bytes | None) -> Any:
        (kind, size) = struct.unpack_from(">hh", key)
        if kind not in (0, 1):
            return None
        group_end = 4 + size
        (topic_size,) = struct.unpack_from(">h", key, group_end)
        topic_end = group_end + 2 + topic_size
        return (
            key[4:group_end].decode(),
            key[group_end + 2 : topic_end].decode(),
            struct.unpack_from(">i", key, topic_end)[0],
            None if value is None else struct.unpack_from(">q", value, 2)[0],
        )

    with session(spark_jars=jars) as spark:
        decoded = function(decode, "group string, topic string, partition int, committed long")
        records = (
            spark.read.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .load()
        )
        rows = records.select(decoded(col("key"), col("value")).alias("row"), "offset")
        last = (
            rows.where("row is not null")
            .groupBy("row.group", "row.topic", "row.partition")
            .agg(max_by("row.committed", "offset").alias("committed"))
        )
        return _totals(last)


def duckdb(out: str, time: str) -> dict[str, int]:
    """The committed offsets at a time, from the same Parquet."""
    import duckdb as database

    query = """
        select count(committed), sum(committed) from (
            select arg_max(committed, in_force) as committed
            from read_parquet(?)
            where in_force_time <= ?::timestamptz and kind <> 'superseded'
            group by "group", topic, partition
        )
    """
    (row,) = database.execute(query, [f"{out}/commits/**/*.parquet", time]).fetchall()
    return {"rows": row[0], "sum": int(row[1])}


JOBS: dict[str, Callable[..., dict[str, int]]] = {
    "fold": fold,
    "build": build,
    "committed": committed,
    "status": status,
    "lag": lag,
    "udf": udf,
    "duckdb": duckdb,
}

if __name__ == "__main__":
    found = JOBS[sys.argv[1]](*sys.argv[2:])
    work_s = marks[1] - marks[0] if marks else None
    print(json.dumps({"result": found, "work_s": work_s}), flush=True)
