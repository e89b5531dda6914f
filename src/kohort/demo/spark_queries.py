"""Two Spark queries of one group, each counting the flights of its partitions into Parquet."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kohort.demo.errors import DemoError
from kohort.demo.group import GroupState
from kohort.demo.spark_delays import parsed, per_hour

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES: Final = ("spark-1", "spark-2")
PER_TRIGGER: Final = 60_000
"""Records of a micro-batch of one query: some micro-batches, so that the second query finds work.
"""
TIMEOUT_S: Final = 180.0
POLL_S: Final = 0.3


class Queries:
    """The tables lie in `directory`, one part for each query and micro-batch; it is recreated."""

    def __init__(
        self, spark: "SparkSession", address: str, topic: str, group: str, directory: Path
    ) -> None:
        self._spark = spark
        self._address = address
        self._topic = topic
        self._group = group
        self.directory = directory
        self._running: list[Any] = []
        shutil.rmtree(directory, ignore_errors=True)

    def __enter__(self) -> "Queries":
        return self

    def __exit__(self, *_: object) -> None:
        for query in self._running:
            query.stop()

    def start(self, name: str) -> None:
        """One more member of the group."""
        records = (
            self._spark.readStream.format("kohort")
            .option("kafka.bootstrap.servers", self._address)
            .option("kafka.client.id", name)
            .option("subscribe", self._topic)
            .option("startingOffsets", "earliest")
            .option("group.id", self._group)
            # Each query counts what it reads; `latest` adds their counts up.
            .option("statefulMember", "true")
            .option("maxOffsetsPerTrigger", PER_TRIGGER)
            .load()
        )
        writer = (
            per_hour(parsed(records))
            .writeStream.outputMode("update")
            .foreachBatch(self._saving(name))
        )
        writer = writer.option(
            "checkpointLocation", str(self.directory / "checkpoints" / name)
        ).queryName(name)
        self._running.append(writer.trigger(processingTime="0 seconds").start())

    def _saving(self, name: str) -> "Callable[[DataFrame, int], None]":
        table = self.directory / "table"

        def save(totals: "DataFrame", batch: int) -> None:
            # A micro-batch that is repeated writes the same place again: exactly once, by the
            # checkpoint.
            totals.write.mode("overwrite").parquet(str(table / f"query={name}" / f"batch={batch}"))

        return save

    def run(
        self, state: Callable[[], GroupState], on_progress: Callable[[dict[str, int]], None]
    ) -> dict[str, int]:
        """Until the group has processed the whole topic; what each query read. Raises DemoError."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            self._validate()
            on_progress(self.read())
            found = state()
            if found.lag == 0 and sum(self.read().values()) >= _records(found):
                return self.read()
            if time.monotonic() > deadline:
                raise DemoError(f"Spark had not read the topic after {TIMEOUT_S:g} s")
            time.sleep(POLL_S)

    def _validate(self) -> None:
        for query in self._running:
            if (error := query.exception()) is not None:
                raise DemoError(f"{query.name} failed: {str(error).strip().splitlines()[0]}")

    def read(self) -> dict[str, int]:
        """Records by query."""
        return {
            each.name: sum(progress.numInputRows for progress in each.recentProgress)
            for each in self._running
        }

    def table(self) -> "DataFrame":
        """All that was written."""
        return self._spark.read.parquet(str(self.directory / "table"))


def _records(group: GroupState) -> int:
    return sum(partition.end for partition in group.partitions)
