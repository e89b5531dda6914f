"""JVM options of every Spark driver that tests start, in this process or in one of its own.

A driver loads 15,000 classes before its first query. With a class archive (JEP 350) and the C1
compiler its start takes 10 s of processor time, with C1 alone 16 s, with neither 24 s.

As a program, this module makes the archive:

    PYTHONPATH=tests python -m peers.spark
"""

import hashlib
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from peers.kafka import QUICK_START, TOOLS, building

VARIABLE = "SPARK_SUBMIT_OPTS"
"""The environment variable from which Spark takes them."""
PATIENCE_S = 180

# Beyond a session: Parquet, a stream, and Arrow between Java and Python.
PROGRAM = """
import sys
from kohort.spark.session import spark_session

table, checkpoint = sys.argv[1:]
with spark_session("archive", master="local[2]") as spark:
    rows = spark.range(100).repartition(2)
    rows.mapInArrow(lambda batches: batches, "id long").write.parquet(table)
    stream = spark.readStream.schema("id long").parquet(table)
    writer = stream.writeStream.format("memory").queryName("seen").trigger(availableNow=True)
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()
    assert spark.table("seen").groupBy("id").count().count() == 100
    gateway = spark.sparkContext._gateway
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


def options() -> list[str]:
    """Those for a driver of this Java and this PySpark, with the archive if it has been made."""
    archive = _archive()
    if archive is None or not archive.exists():
        return [*QUICK_START]
    # The archive of another Java or of other JARs is passed over, which needs no warning.
    return [*QUICK_START, f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"]


def make_archive() -> None:
    """Make the archive if it is missing, and have the drivers of this process use it."""
    archive = _archive()
    if archive is not None:
        with building("spark-classes"):
            if not archive.exists():
                _make(archive)
    os.environ[VARIABLE] = " ".join(options())


def _archive() -> Path | None:
    """Where it lies: the name tells the Java and the JARs that it is for."""
    java, spark = shutil.which("java"), find_spec("pyspark")
    if java is None or spark is None or spark.origin is None:
        return None
    places = f"{Path(java).resolve()} {spark.origin} {Path(spark.origin).stat().st_mtime_ns}"
    return TOOLS / f"spark-{hashlib.sha256(places.encode()).hexdigest()[:12]}.jsa"


def _make(archive: Path) -> None:
    work = archive.with_suffix(".work")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    made = work / "classes.jsa"
    environment = {
        **os.environ,
        VARIABLE: " ".join([*QUICK_START, f"-XX:ArchiveClassesAtExit={made}", "-Xlog:disable"]),
    }
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(work / "table"), str(work / "checkpoint")],
            env=environment, capture_output=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip
    if made.exists():  # a Java that makes none, or not in time, starts as it does without
        made.rename(archive)
    shutil.rmtree(work)


if __name__ == "__main__":
    make_archive()
