"""Registers the source with a session, which then starts its queries sooner."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kohort.spark import startup
from kohort.spark.source import KohortDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STARTUP: Final = str(Path(startup.__file__).parent)
SETTINGS: Final = {"spark.sql.execution.arrow.maxBytesPerBatch": "4m"}
"""Rows go to Python in batches, and large ones take new memory each time, in the JVM as well as in
Python.
"""
CHECKPOINTS: Final = "spark.sql.streaming.checkpointFileManagerClass"
FILE_MANAGERS: Final = tuple(
    f"org.apache.spark.sql.execution.streaming.{package}FileSystemBasedCheckpointFileManager"
    for package in ("checkpointing.", "")
)
"""Spark's file manager that starts no process for each local file of a checkpoint.

Spark's default runs `chmod` and `readlink`: 50 ms for each micro-batch. Both
write a file under another name and rename it. PySpark 4.0 has it in another package.
"""
_FILTER: Final = "org.apache.logging.log4j.core.filter.RegexFilter"
_REPLACED: Final = f".*data source {KohortDataSource.name()} replaced .*"
"""A warning of Spark's DataSourceManager."""
_log = logging.getLogger("kohort.spark")


def register(spark: "SparkSession") -> None:
    """Register the source with `spark`, and set what makes its queries faster; logged at INFO.

    These are the PYTHONPATH of Python processes started from now on (see `startup`; not with Spark
    Connect, whose server starts them), and those of `SETTINGS` that the session has not set; with a
    local master also CHECKPOINTS.
    """
    from pyspark.sql.utils import is_remote

    settings = dict(SETTINGS)
    if not is_remote():
        settings |= _local_checkpoints(spark)
        start_workers_sooner(spark)
    for name, value in settings.items():
        if spark.conf.get(name, None) is None:
            spark.conf.set(name, value)
            _log.info("set %s=%s for this session", name, value)
    with nullcontext() if is_remote() else _without_warnings(spark):
        spark.dataSource.register(KohortDataSource)


def start_workers_sooner(spark: "SparkSession") -> None:
    """Have Python processes that are started from now on start sooner, see `startup`.

    Not with Spark Connect, whose server starts them.
    """
    from pyspark.sql.utils import is_remote

    if not is_remote():
        _prepend(spark.sparkContext.environment, "PYTHONPATH", STARTUP)


@contextmanager
def _without_warnings(spark: "SparkSession") -> Iterator[None]:
    """Drop Spark's warning that the source replaces the one that PySpark found (`pyspark_kohort`).

    That one has to be replaced: its processes do not get the session's PYTHONPATH. No level is set
    for it, as another thread may set one meanwhile, and a logger with a level of its own does not
    follow `SparkContext.setLogLevel`. A JVM that logs by anything but Log4j's core, such as
    Logback, warns.
    """
    jvm: Any = spark.sparkContext._jvm
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(_FILTER):
        yield
        return
    log4j = jvm.org.apache.logging.log4j
    result = log4j.core.Filter.Result
    dropped = log4j.core.filter.RegexFilter.createFilter(
        _REPLACED, None, False, result.DENY, result.NEUTRAL
    )
    context = log4j.LogManager.getContext(False)
    context.addFilter(dropped)
    try:
        yield
    finally:
        context.removeFilter(dropped)


def _local_checkpoints(spark: "SparkSession") -> dict[str, str]:
    """Settings for checkpoints on the disk of this machine, where Spark runs as a whole."""
    context = spark.sparkContext
    if not (context.master or "").startswith("local"):
        return {}
    jvm: Any = context._jvm
    loadable = jvm.org.apache.spark.util.Utils.classIsLoadable
    return {CHECKPOINTS: next(filter(loadable, FILE_MANAGERS))}


def _prepend(environment: dict[str, str], name: str, entry: str) -> None:
    """Put `entry` in front of a path in the environment of Spark's Python processes."""
    entries = environment.get(name, "").split(os.pathsep)
    if entry not in entries:
        environment[name] = os.pathsep.join([entry, *filter(None, entries)])
        _log.info("added %s to the %s of Spark's Python processes", entry, name)
