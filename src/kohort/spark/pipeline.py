"""The ready pipeline: topics, through a group, into a partitioned table of Parquet or Delta files.

Spark's file sink writes each micro-batch once, by the checkpoint: a repeated batch replaces a
partial one. A micro-batch is written twice only if this member was killed and another one repeats
it. Rows keep topic, partition and offset, by which duplicates are found.
"""

import importlib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from kohort.errors import ConfigError
from kohort.spark import dead_letters
from kohort.spark.membership import REBALANCE_TIMEOUT_MS, validate_group
from kohort.spark.option_values import INT32_MAX, PREFIX
from kohort.spark.options import GroupMode, parse_read

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS: Final = ("parquet", "delta")
VALUES: Final = ("text", "binary", "json", "csv")
CORRUPT: Final = "_corrupt_record"
"""Column of a JSON or CSV value that does not fit the schema; null for others. Spark's name."""
NOT_PARSED: Final = "not_parsed"
"""Name of the observed metrics, and of the count in them, of such values in a micro-batch."""
TIMES: Final = {"date": "to_date(timestamp)", "hour": "hour(timestamp)"}
"""Columns that are added if the table is partitioned by them."""
CHECKPOINT: Final = "_checkpoint"
"""Inside the table's directory: readers pass over names that begin with an underscore."""
REBALANCE_INTERVALS: Final = 3
"""Rebalance timeout of a member, in intervals between micro-batches.

The group waits for two thirds of it, and Spark reports the end of a micro-batch at the next
trigger. So a micro-batch may take two intervals.
"""
_UNITS: Final = {
    "week": 604_800_000, "day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1_000,
    "millisecond": 1, "microsecond": 0.001,
}  # fmt: skip
_INTERVAL: Final = re.compile(
    rf"\s*(\d+(?:\.\d+)?)\s+({'|'.join(_UNITS)})s?(?=\s|$)", re.IGNORECASE
)
DELTA: Final[dict[str, bool | float | int | str | None]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Topics, table and settings of a pipeline."""

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
    """Schema of JSON or CSV values, as DDL: `carrier string, delay int`."""
    dead_letters: str | None = None
    """Topic of the records whose value does not fit the schema; None keeps them in CORRUPT."""
    partition_by: tuple[str, ...] = ("date",)
    checkpoint: str | None = None
    every: str | None = None
    """Interval of micro-batches: `10 seconds`; None: process the available records and end."""
    max_records: int | None = None
    """Most records in one micro-batch."""
    compact: bool = False
    """Few files: the tasks of a micro-batch exchange their rows before they write."""
    options: Mapping[str, str] = field(default_factory=dict)
    """More options of the data source."""

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("format", self.format, FORMATS),
            ("values", self.values, VALUES),
        ):
            if value not in choices:
                raise ConfigError(f"{name} {value!r}: it is one of {', '.join(choices)}")
        if (self.values in ("json", "csv")) != (self.schema is not None):
            raise ConfigError(
                "values of json and csv need a schema, such as 'carrier string, delay "
                "int'; others have none"
            )
        if self.dead_letters is not None:
            self._validate_dead_letters(self.dead_letters)
        if self.format == "delta" and importlib.util.find_spec("delta") is None:
            raise ConfigError(
                "format delta needs Delta's package: pip install delta-spark; or take parquet"
            )
        if self.every is not None:
            interval_ms(self.every)
        source = parse_read(self.source(), streaming=True)
        if source.group_mode is GroupMode.MEMBER:
            validate_group(source)

    def _validate_dead_letters(self, topic: str) -> None:
        if self.schema is None:
            raise ConfigError("dead letters are values of json and csv that do not fit the schema")
        if topic in self.topics:
            raise ConfigError(f"dead letters cannot go to topic {topic}, which is read")
        dead_letters.options(self._kafka, topic)

    @property
    def unfit(self) -> str:
        """The place of values that do not fit the schema, for messages."""
        return f"column {CORRUPT}" if self.dead_letters is None else f"topic {self.dead_letters}"

    @property
    def _kafka(self) -> dict[str, str]:
        return {f"{PREFIX}{name}": value for name, value in self.kafka.items()}

    def source(self) -> dict[str, str]:
        """Options of the data source."""
        options = self._kafka
        if self.dead_letters is not None:
            options["includeHeaders"] = "true"
        if self.every is not None and self._is_member:
            timeout_ms = min(REBALANCE_INTERVALS * interval_ms(self.every), INT32_MAX)
            timeouts = {"kafka.max.poll.interval.ms": str(max(timeout_ms, REBALANCE_TIMEOUT_MS))}
            options = timeouts | options
        options |= {
            "subscribe": ",".join(self.topics),
            "startingOffsets": self.start,
            **self.options,
        }
        optional = {
            "group.id": self.group,
            "groupMode": self.mode,
            "maxOffsetsPerTrigger": self.max_records,
        }
        return options | {name: str(value) for name, value in optional.items() if value is not None}

    @property
    def _is_member(self) -> bool:
        return self.group is not None and self.mode in (None, GroupMode.MEMBER.value)

    def configured(self, builder: "SparkSession.Builder") -> "SparkSession.Builder":
        """The builder with the settings of the format; Delta adds the JAR for this Spark."""
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
        # Spark then chooses the number of tasks by the size of the rows.
        return frame.hint("rebalance", *self.partition_by) if self.compact else frame

    def _columns(self, frame: "DataFrame") -> "DataFrame":
        from pyspark.errors import AnalysisException
        from pyspark.sql.functions import expr

        made = [
            f"{expression} as {name}"
            for name, expression in TIMES.items()
            if name in self.partition_by
        ]
        key = "key" if self.values == "binary" else "cast(key as string) key"
        others = ("topic", "partition", "offset", "timestamp", *made)
        if self.schema is None:
            value = "value" if self.values == "binary" else "cast(value as string) value"
            return frame.selectExpr(key, value, *others)
        try:
            parsed = frame.select(self._parsed(self.schema), "*")
        except AnalysisException as error:
            raise ConfigError(
                f"schema {self.schema!r}: {str(error).partition(chr(10))[0]}"
            ) from None
        parsed = parsed.observe(NOT_PARSED, expr(f"count(parsed.{CORRUPT}) as {NOT_PARSED}"))
        if self.dead_letters is None:
            return parsed.selectExpr("parsed.*", key, *others)
        fitting = self._kept(parsed, self.dead_letters)
        return fitting.selectExpr("parsed.*", key, *others).drop(CORRUPT)

    def _kept(self, parsed: "DataFrame", topic: str) -> "DataFrame":
        """The rows whose value fits the schema; the tasks send the others to `topic`."""
        from pyspark.sql.functions import col

        letter = dead_letters.letter(
            col(f"parsed.{CORRUPT}").isNotNull(), f"the value does not fit the schema {self.schema}"
        )
        return parsed.where(dead_letters.is_kept(letter, dead_letters.options(self._kafka, topic)))

    def _parsed(self, schema: str) -> "Column":
        """The values as a struct `parsed`. Values that do not fit are in CORRUPT, as in Spark."""
        from pyspark.sql.functions import col, from_csv, from_json
        from pyspark.sql.types import StringType, StructType

        columns = cast("StructType", StructType.fromDDL(schema))
        if CORRUPT not in columns.names:
            columns = columns.add(CORRUPT, StringType())
        text, options = col("value").cast("string"), {"columnNameOfCorruptRecord": CORRUPT}
        parsed = (
            from_json(text, columns, options)
            if self.values == "json"
            else from_csv(text, columns.toDDL(), options)
        )
        return parsed.alias("parsed")

    def start_query(self, frame: "DataFrame") -> Any:
        """The streaming query, running.

        Raises KafkaError or GaveUpError if the topic of dead letters does not exist.
        """
        if self.dead_letters is not None:
            dead_letters.validate_topic(dead_letters.options(self._kafka, self.dead_letters))
        checkpoint = self.checkpoint or f"{self.to.rstrip('/')}/{CHECKPOINT}"
        writer = frame.writeStream.format(self.format).option("checkpointLocation", checkpoint)
        writer = writer.partitionBy(*self.partition_by) if self.partition_by else writer
        writer = (
            writer.trigger(processingTime=self.every)
            if self.every
            else writer.trigger(availableNow=True)
        )
        return writer.queryName(" ".join(self.topics)).start(self.to)


def interval_ms(text: str) -> int:
    """An interval of a trigger, as `1 minute 30 seconds`. Raises ConfigError."""
    remaining, parts = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE), []
    while (part := _INTERVAL.match(remaining)) is not None:
        parts.append(float(part[1]) * _UNITS[part[2].lower()])
        remaining = remaining[part.end() :]
    if remaining.strip() or not parts:
        raise ConfigError(
            f"every {text!r}: it is a number and a unit, from microseconds to weeks, such as "
            "'10 seconds'"
        )
    return int(sum(parts))
