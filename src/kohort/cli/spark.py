"""`kohort spark TOPIC… --to DIRECTORY`: topics into Parquet or Delta tables, by Spark.

With --group the query is a member of the group: several queries share the partitions, and take over
those of a stopped one. Without --every it processes the available records and exits. With --every
it runs until Ctrl-C or SIGTERM.

  kohort spark orders --group etl --to tables/orders --every '10 seconds'
  kohort spark orders --to tables/orders --values json \\
      --schema 'id long, total double' --partition-by date,hour
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from kohort.cli.client_options import add_client_arguments
from kohort.cli.exit_codes import FAILED
from kohort.cli.options import RefusedError
from kohort.cli.output import print_message
from kohort.cli.spark_commands import (
    add_spark_arguments,
    failure,
    kafka_options,
    quieten_pyspark,
    running_spark,
    spark_properties,
)
from kohort.client.errors import AuthenticationError, GaveUpError
from kohort.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kohort.spark.pipeline import Pipeline

STOP_TIMEOUT_S: Final = 60.0
POLL_INTERVAL_S: Final = 0.5
_SETTINGS: Final = {
    # More than there can be between two polls; each one costs some calls into Java.
    "spark.sql.streaming.numRecentProgressUpdates": "8",
    # A query that was killed while it wrote its first offsets left a part of that file. By default
    # Spark refuses such a checkpoint for ever.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_client_arguments(parser)
    add = parser.add_argument
    add("topics", nargs="+", metavar="TOPIC", help="topics to read")
    add(
        "--to",
        required=True,
        metavar="DIR",
        help=("directory of the table; the checkpoint is its subdirectory _checkpoint"),
    )
    add("--group", metavar="NAME", help="consumer group of the query")
    add(
        "--mode",
        metavar="member|reporting|none",
        help=("group mode of the query (default: member)"),
    )
    add(
        "--start",
        default="earliest",
        metavar="earliest|latest|JSON",
        help="start offset of a new query (default: earliest)",
    )
    add(
        "--format",
        default="parquet",
        metavar="parquet|delta",
        help="format of the table (default: parquet)",
    )
    add(
        "--values",
        default="text",
        metavar="text|binary|json|csv",
        help="format of the record values (default: text)",
    )
    add(
        "--schema",
        metavar="DDL",
        help=("columns of JSON or CSV values, as 'carrier string, delay int'"),
    )
    add(
        "--dead-letters",
        metavar="TOPIC",
        help="topic for records whose JSON or CSV value does not match the schema; the table "
        "contains them too",
    )
    add(
        "--partition-by",
        default="date",
        metavar="COLUMN,…",
        help=("partition columns: date, hour, or columns of the table (default: date)"),
    )
    add(
        "--every",
        metavar="INTERVAL",
        help=(
            "run continuously with this trigger interval, as '10 seconds' (default: process "
            "available records and exit)"
        ),
    )
    add(
        "--compact",
        action="store_true",
        help="write fewer files: shuffle rows before the write",
    )
    add("--max-records", type=int, metavar="N", help="maximum number of records in a micro-batch")
    add(
        "--checkpoint",
        metavar="DIR",
        help=("checkpoint directory (default: _checkpoint in the table's directory)"),
    )
    add(
        "--http",
        metavar="HOST:PORT",
        help="address of an HTTP port with Prometheus metrics (/metrics)",
    )
    add_spark_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Run the query to its end, or until a signal; the exit code. Raises RefusedError."""
    quieten_pyspark()
    from kohort.spark.pipeline import Pipeline

    try:
        pipeline = Pipeline(
            topics=tuple(options.topics), to=options.to, kafka=kafka_options(options),
            group=options.group, mode=options.mode,
            start=options.start, format=options.format, values=options.values,
            schema=options.schema, dead_letters=options.dead_letters,
            partition_by=tuple(
                name.strip() for name in options.partition_by.split(",") if name.strip()
            ),
            checkpoint=options.checkpoint, every=options.every, max_records=options.max_records,
            compact=options.compact,
        )  # fmt: skip
        settings = _SETTINGS | spark_properties(options)
        session = running_spark("kohort spark", options.master, settings, pipeline.configured)
        with session as (spark, received):
            return _run_query(pipeline, spark, received, options.http)
    except ConfigError as error:
        raise RefusedError(str(error)) from error


@contextmanager
def _exposed(spark: "SparkSession", address: str | None) -> Iterator[None]:
    """The port with the metrics of the query, if there is one. Raises RefusedError."""
    if address is None:
        yield
        return
    from prometheus_client import CollectorRegistry, start_http_server

    from kohort.spark.metrics import register

    registry = CollectorRegistry()
    register(spark, registry=registry)
    host, _, port = address.rpartition(":")
    try:
        server, _ = start_http_server(int(port), host, registry)
    except (ValueError, OverflowError, OSError) as error:
        raise RefusedError(f"--http {address}: {error}; it is HOST:PORT") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _run_query(
    pipeline: "Pipeline", spark: "SparkSession", received: list[int], address: str | None
) -> int:
    """Run the query; the exit code. A signal ends a continuous query successfully, others not."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        with _exposed(spark, address):
            failed = not received and not _await_query(
                _start_query(pipeline, spark), pipeline.unfit, received
            )
    except (AuthenticationError, GaveUpError, KafkaError) as error:  # the topic of dead letters
        print_message(str(error))
        failed = True
    except (Py4JError, OSError) as error:
        failed = not received  # otherwise the signal ended Spark too
        if failed:
            print_message(
                f"Spark ended: {' '.join(str(error).split())}; see its log, and give its "
                "driver more memory"
            )
    if failed:
        return FAILED
    return 128 + received[0] if received and pipeline.every is None else 0


def _start_query(pipeline: "Pipeline", spark: "SparkSession") -> Any:
    """The running query. Raises ConfigError if Spark, or the data source in it, refuses it."""
    from pyspark.errors import PySparkException

    try:
        return pipeline.start_query(pipeline.read(spark))
    except PySparkException as error:
        raise ConfigError(failure(str(error))) from error


def _await_query(query: Any, unfit: str, received: list[int]) -> bool:
    """Show the progress until the query ends or a signal arrives; False if the query failed.

    `unfit`: the place of values that do not fit the schema.
    """
    from kohort.cli.spark_progress import progress

    with progress(query.name, unfit) as show:
        while query.isActive and not received:
            time.sleep(POLL_INTERVAL_S)
            show(query.recentProgress)
        if received:
            query.stop()
            _await_end(query)
        show(query.recentProgress)
    if received or (error := query.exception()) is None:
        return True
    print_message(failure(str(error)))
    return False


def _await_end(query: Any) -> None:
    """Wait until the query has ended, and its member has left the group."""
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while query.isActive and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)
