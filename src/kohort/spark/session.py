"""Starts a Spark session, local or on a cluster, with the data source registered."""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ConfigError
from kohort.spark.java import java_environment
from kohort.spark.java_process import java_ends_if_not_connected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local"
JAVA_OPTIONS: Final = "SPARK_SUBMIT_OPTS"
LOGGING: Final = (
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
)
LOG_LEVEL: Final = "spark.log.level"
TASK_FAILURES: Final = "org.apache.spark.scheduler.TaskSetManager"
"""The logger that has each failure of a task, also of one that is tried again."""


@contextmanager
def spark_session(
    name: str,
    *,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    configured: "Callable[[SparkSession.Builder], SparkSession.Builder]" = lambda builder: builder,
    with_vectors: bool = True,
) -> "Iterator[SparkSession]":
    """A session that is stopped at the end; `settings` override those of `configured`.

    Without `with_vectors` Java does not load the module for MLlib's vectors, of which it warns.
    Raises ConfigError without PySpark, without a Java for it, or if Spark does not start.
    """
    try:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError("PySpark is not installed: pip install 'kohort[spark]'") from None
    from kohort.spark.registration import register

    os.environ.update(java_environment(with_vectors=with_vectors))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not _has_logging():
        # Options of the driver's Java. Spark's configuration is applied after them.
        options = os.environ.get(JAVA_OPTIONS, "").replace(LOGGING, "")
        os.environ[JAVA_OPTIONS] = f"{LOGGING} {options}".strip()
    chosen: dict[str, bool | float | int | str | None] = {**_settings(master), **(settings or {})}
    builder = configured(SparkSession.builder.master(master).appName(name))
    try:
        with java_ends_if_not_connected():
            spark = builder.config(map=chosen).getOrCreate()
    except PySparkRuntimeError as error:
        raise ConfigError(f"Spark did not start with master {master}: {error}") from error
    try:
        quieten(spark)
        register(spark)
        yield spark
    finally:
        with suppress(Py4JError, OSError):  # Spark's Java may have ended before
            spark.stop()


def quieten(spark: "SparkSession") -> None:
    """Have Spark log only failed tasks, including those that are retried; errors are raised.

    Unless the user has configured Spark's logging or its level.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    context = spark.sparkContext
    if _has_logging() or context.getConf().contains(LOG_LEVEL):
        return
    context.setLogLevel("OFF")
    jvm: Any = context._jvm
    log4j = jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(TASK_FAILURES, log4j.Level.WARN)


def _settings(master: str) -> dict[str, str]:
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith(LOCAL):
        # Only local processes connect; and a laptop's own name may not resolve.
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        settings["spark.sql.shuffle.partitions"] = "4"
    return settings


def _has_logging() -> bool:
    """Whether the user's Spark has a logging configuration."""
    home = os.environ.get("SPARK_HOME")
    directory = os.environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    return directory is not None and bool(list(Path(directory).glob("log4j2.*")))
