"""Sends records whose value does not fit the schema of a pipeline to a dead letter topic.

A record keeps its key, value, headers and timestamp. Headers that Kafka Connect's
DeadLetterQueueReporter writes (KIP-298) are added. The task that reads the record sends it, and
ends when the brokers have it. A task that Spark repeats sends it again: delivery is at least once.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kohort.spark import background
from kohort.spark.write_options import WriteOptions, parse_write

if TYPE_CHECKING:
    from pyspark.sql import Column

PREFIX: Final = "__connect.errors."
ERROR: Final = "kohort.client.errors.DeserializationError"
"""Exception that the headers name: the one of `kohort.client` for such a record."""


def options(kafka: Mapping[str, str], topic: str) -> WriteOptions:
    """The options of a write to `topic`, from `kafka.*` options with the prefix.

    Raises RefusedOptionsError.
    """
    return parse_write({**kafka, "topic": topic, "includeTimestamp": "true"})


def letter(is_dead: "Column", message: str) -> "Column":
    """The dead letter of a row with the columns of a read with headers; null unless `is_dead`.

    `message` is the value of the header `exception.message`.
    """
    from pyspark.sql.functions import array, coalesce, col, concat, lit, struct, when

    error_headers = {
        "topic": col("topic"),
        "partition": col("partition"),
        "offset": col("offset"),
        "stage": lit("VALUE_CONVERTER"),
        "exception.class.name": lit(ERROR),
        "exception.message": lit(message),
    }
    added = array(*(
        struct(
            lit(PREFIX + name).alias("key"), value.cast("string").cast("binary").alias("value")
        )
        for name, value in error_headers.items()
    ))  # fmt: skip
    headers = concat(coalesce(col("headers"), array()), added).alias("headers")
    return when(is_dead, struct("key", "value", "timestamp", headers))


def is_kept(letter: "Column", options: WriteOptions) -> "Column":
    """Column that is true for rows without a letter. Evaluating it sends the letters."""
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import functions

    def send(letters: pa.Array) -> pa.Array:
        from kohort.spark.row_sender import RowSender  # loads LLVM, which only tasks need

        rows = letters.drop_null()
        if len(rows):
            with RowSender(options) as sending:
                sending.send(options.topic or "", pa.RecordBatch.from_struct_array(rows))
        return letters.is_null()

    arrow_udf: Any = functions.arrow_udf  # type: ignore[attr-defined]  # not in PySpark's stubs
    # Spark may evaluate a deterministic column twice, or not at all.
    kept: Column = arrow_udf(send, "boolean").asNondeterministic()(letter)
    return kept


def validate_topic(options: WriteOptions) -> None:
    """Request the topic. Brokers with auto.create.topics.enable create it.

    Raises KafkaError, and GaveUpError if it does not exist.
    """
    from kohort.spark.row_sender import partition_count

    async def request() -> int:
        cluster = await background.cluster(options.kafka)
        timeout_ms = cluster.config.default_api_timeout_ms
        return await partition_count(cluster, options.topic or "", timeout_ms)

    background.run(request())
