"""Registers the source with a session, which then starts its queries sooner."""

import logging
import os
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
"""Of Spark's file managers the one that starts no process for each local file of a checkpoint.

The other one, Spark's first choice, runs `chmod` and `readlink`: 50 ms for each micro-batch. Both
write a file under another name and rename it. PySpark 4.0 has it in another package.
"""
_log = logging.getLogger("kohort.spark")


def register(spark: "SparkSession") -> None:
    """Register the source with `spark`, and set what its queries gain by; the log tells it (INFO).

    That is the PYTHONPATH of Python processes started from now on (see `startup`; not with Spark
    Connect, whose server starts them), and those of `SETTINGS` that the session has not set; with a
    local master also CHECKPOINTS.
    """
    from pyspark.sql.utils import is_remote

    settings = dict(SETTINGS)
    if not is_remote():
        settings |= _local_checkpoints(spark)
        _prepend(spark.sparkContext.environment, "PYTHONPATH", STARTUP)
    for name, value in settings.items():
        if spark.conf.get(name, None) is None:
            spark.conf.set(name, value)
            _log.info("set %s=%s for this session", name, value)
    if is_remote() or not _is_known(spark):
        spark.dataSource.register(KohortDataSource)


def _is_known(spark: "SparkSession") -> bool:
    """Whether PySpark has found `pyspark_kohort`; it warns of a second registration."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    session: Any = spark._jsparkSession
    try:
        return bool(
            session.sessionState().dataSourceManager().dataSourceExists(KohortDataSource.name())
        )
    except Py4JError:
        return False


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
        _log.info("put %s on the %s of Spark's Python processes", entry, name)
