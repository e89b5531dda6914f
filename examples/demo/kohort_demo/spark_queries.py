"""Two Spark queries of one group, each counting the flights of its partitions into Parquet."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from kohort_demo.errors import DemoError
from kohort_demo.group import GroupState
from kohort_demo.spark_delays import parsed, per_hour

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES: Final = ("spark-1", "spark-2")
PER_TRIGGER: Final = 60_000
"""Records of a micro-batch of one query: some micro-batches, so that the second query finds work.
"""
STALLED_S: Final = 1_800.0
"""How long the queries may read and commit nothing before the demo gives up."""
MAX_POLL_INTERVAL_MS: Final = 3_000 * int(STALLED_S)
"""Two thirds of it are longer than `STALLED_S`: on no machine does a query lose partitions to the
other one in the middle of a micro-batch, whose flights both of them would count.
"""
SESSION_TIMEOUT_MS: Final = 1_000 * int(STALLED_S)
"""The queries leave the group in good order, so nobody has to wait for this."""
POLL_S: Final = 0.3
NO_WORKER: Final = "Python worker failed to connect back"
"""Spark gives the Python of a streaming source 10 s for its start, on however busy a machine."""


class Queries:
    """The tables lie in `directory`, one part for each query and micro-batch; it is recreated.

    A query whose Python did not start within Spark's time limit starts again from its checkpoint;
    `say` gets a line about it.
    """

    def __init__(
        self,
        spark: "SparkSession",
        address: str,
        topic: str,
        group: str,
        directory: Path,
        say: Callable[[str], None],
    ) -> None:
        self._spark = spark
        self._address = address
        self._topic = topic
        self._group = group
        self.directory = directory
        self._say = say
        self._running: dict[str, Any] = {}
        self._ended: list[Any] = []
        """Those that have been started again."""
        shutil.rmtree(directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for query in self._running.values():
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
            .option("kafka.max.poll.interval.ms", MAX_POLL_INTERVAL_MS)
            .option("kafka.session.timeout.ms", SESSION_TIMEOUT_MS)
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
        self._running[name] = writer.trigger(processingTime="0 seconds").start()

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
        before: object = None
        changed = time.monotonic()
        while True:
            self._go_on()
            group, read = state(), self.read()
            on_progress(read)
            if group.lag == 0:
                return read
            now, found = time.monotonic(), (group.lag, group.members, read)
            if found != before:
                before, changed = found, now
            elif now - changed > STALLED_S:
                raise DemoError(
                    f"Spark made no progress in {STALLED_S:g} s, with a lag of {group.lag:,}"
                )
            time.sleep(POLL_S)

    def _go_on(self) -> None:
        """Start again what Spark's time limit has ended. Raises DemoError for other failures."""
        for name, query in [*self._running.items()]:
            if (error := query.exception()) is None:
                continue
            if NO_WORKER not in str(error):
                raise DemoError(f"{name} failed: {str(error).strip().splitlines()[0]}")
            self._say(
                f"{name}'s Python needed more than the 10 s that Spark waits for it: "
                "the query starts again from its checkpoint."
            )
            self._ended.append(query)
            self.start(name)

    def read(self) -> dict[str, int]:
        """Records by query."""
        read = dict.fromkeys(self._running, 0)
        for each in (*self._ended, *self._running.values()):
            read[each.name] += sum(progress.numInputRows for progress in each.recentProgress)
        return read

    def table(self) -> "DataFrame":
        """All that was written."""
        return self._spark.read.parquet(str(self.directory / "table"))
