"""The ready pipeline: topics, through a group, into a partitioned table of Parquet or Delta files.

Spark's file sink writes each micro-batch once, by the checkpoint: a repeated batch replaces a
partial one. A micro-batch is written twice only if this member was killed and another one repeats
it. Rows keep topic, partition and offset, by which duplicates are found.
"""

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ConfigError
from kohort.spark.membership import validate_group
from kohort.spark.options import GroupMode, parse_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS: Final = ("parquet", "delta")
VALUES: Final = ("text", "binary", "json", "csv")
TIMES: Final = {"date": "to_date(timestamp)", "hour": "hour(timestamp)"}
"""Columns that are made for the partitions of the table, if they are named there."""
CHECKPOINT: Final = "_checkpoint"
"""Inside the table's directory: readers pass over names that begin with an underscore."""
DELTA: Final[dict[str, bool | float | int | str | None]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """What goes where."""

    topics: tuple[str, ...]
    to: str
    """Directory or URL of the table."""
    kafka: Mapping[str, str]
    """`kafka.*` options, without the prefix."""
    group: str | None = None
    mode: str | None = None
    start: str = "earliest"
    format: str = "parquet"
    values: str = "text"
    schema: str | None = None
    """Of JSON or CSV values, as DDL: `carrier string, delay int`."""
    partition_by: tuple[str, ...] = ("date",)
    checkpoint: str | None = None
    every: str | None = None
    """Between micro-batches: `10 seconds`; None: what is there now, and an end."""
    max_records: int | None = None
    """In one micro-batch."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the data source, besides."""

    def __post_init__(self) -> None:
        for name, value, known in (
            ("format", self.format, FORMATS),
            ("values", self.values, VALUES),
        ):
            if value not in known:
                raise ConfigError(f"{name} {value!r}: it is one of {', '.join(known)}")
        if (self.values in ("json", "csv")) != (self.schema is not None):
            raise ConfigError(
                "values of json and csv need a schema, such as 'carrier string, delay "
                "int'; others have none"
            )
        if self.format == "delta" and importlib.util.find_spec("delta") is None:
            raise ConfigError(
                "format delta needs Delta's package: pip install delta-spark; or take parquet"
            )
        source = parse_read(self.source(), streaming=True)
        if source.group_mode is GroupMode.MEMBER:
            validate_group(source)

    def source(self) -> dict[str, str]:
        """Options of the data source."""
        given = {f"kafka.{name}": value for name, value in self.kafka.items()}
        given |= {"subscribe": ",".join(self.topics), "startingOffsets": self.start, **self.options}
        optional = {
            "group.id": self.group,
            "groupMode": self.mode,
            "maxOffsetsPerTrigger": self.max_records,
        }
        return given | {name: str(value) for name, value in optional.items() if value is not None}

    def configured(self, builder: "SparkSession.Builder") -> "SparkSession.Builder":
        """With what the session needs for it: Delta's own function knows the JAR for this Spark."""
        if self.format != "delta":
            return builder
        delta = importlib.import_module("delta")
        configured: SparkSession.Builder = delta.configure_spark_with_delta_pip(builder).config(
            map=DELTA
        )
        return configured

    def read(self, spark: "SparkSession") -> "DataFrame":
        """The topics as rows of the table.

        Raises ConfigError for a wrong schema or partition column.
        """
        frame = self._columns(spark.readStream.format("kohort").options(**self.source()).load())
        if missing := [name for name in self.partition_by if name not in frame.columns]:
            raise ConfigError(
                f"partition by {missing[0]}: there is no such column, only "
                f"{', '.join(frame.columns)}"
            )
        names = [name.lower() for name in frame.columns]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(
                f"schema: the table has a column {twice[0]} of its own; rename that of the values"
            )
        return frame

    def _columns(self, frame: "DataFrame") -> "DataFrame":
        from pyspark.errors import AnalysisException

        escaped = (self.schema or "").replace("'", "\\'")
        values = {
            "binary": ["value"],
            "text": ["cast(value as string) value"],
            "json": [f"from_json(cast(value as string), '{escaped}') value"],
            "csv": [f"from_csv(cast(value as string), '{escaped}') value"],
        }[self.values]
        made = [
            f"{expression} as {name}"
            for name, expression in TIMES.items()
            if name in self.partition_by
        ]
        key = "key" if self.values == "binary" else "cast(key as string) key"
        try:
            found = frame.selectExpr(
                key, *values, "topic", "partition", "offset", "timestamp", *made
            )
        except AnalysisException as error:
            raise ConfigError(
                f"schema {self.schema!r}: {str(error).partition(chr(10))[0]}"
            ) from None
        return found.select("value.*", "*").drop("value") if self.schema is not None else found

    def start_query(self, frame: "DataFrame") -> Any:
        """The streaming query, running."""
        checkpoint = self.checkpoint or f"{self.to.rstrip('/')}/{CHECKPOINT}"
        writer = frame.writeStream.format(self.format).option("checkpointLocation", checkpoint)
        writer = writer.partitionBy(*self.partition_by) if self.partition_by else writer
        writer = (
            writer.trigger(processingTime=self.every)
            if self.every
            else writer.trigger(availableNow=True)
        )
        return writer.queryName(" ".join(self.topics)).start(self.to)
