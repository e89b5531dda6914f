"""`follow`: a stream of offset ranges that keeps a history current.

Each micro-batch folds the ranges that its rows name. The history decides what is still to be read:
a micro-batch begins where the history ends, whatever Spark repeats after a restart, so no row is
there twice. The checkpoint is in the directory of the history.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ConfigError, KohortError
from kohort.history_files.building import planned
from kohort.history_files.directory import CHECKPOINT, WritableHistory, opened_for_writing
from kohort.history_files.file_system import open_files
from kohort.history_files.samples import add_samples
from kohort.spark.history.building import (
    Work,
    fold_batch,
    log_work,
    maintain,
    now_ms,
    validate_cluster,
    validate_keep,
)
from kohort.spark.history.finding import FindingSearch, in_tasks
from kohort.spark.history.sampling import Sampler, TopicsToSample, log_failure, take
from kohort.spark.history.sources import BOOTSTRAP, BrokerLog, Offsets, broker_options, is_path
from kohort.spark.history.tables import hadoop_path
from kohort.spark.registration import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVERY: Final = "60 seconds"
MAX_OFFSETS: Final = "20000000"
"""Of a micro-batch, so that the first one of a long log does not read the whole log."""
POLL_INTERVAL_S: Final = 0.2
STORE_SAMPLES_S: Final = 60.0
"""How long samples wait while no records arrive."""
LEFTOVERS_EVERY: Final = 100
"""Micro-batches after which the files of failed tasks are removed."""

OnBatch = Callable[[int, float], None]
"""Called after a micro-batch with its number of records and its seconds."""


def follow(
    spark: "SparkSession",
    source: str | Mapping[str, str],
    out: str,
    *,
    every: str = EVERY,
    keep_ms: int | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    on_batch: OnBatch | None = None,
    samples: bool = True,
) -> None:
    """Keep the history in the directory `out` current, until `is_stopped` is true.

    `source`: bootstrap servers, or `kafka.*` options. `every`: the interval of micro-batches. The
    last micro-batch is finished before the function returns. `samples`: sample the ends of the
    topics that groups commit too, each 30 s.

    Raises LockedError if another build writes into `out`; ConfigError; KohortError if a micro-batch
    failed. A later call continues.
    """
    if isinstance(source, str):
        if is_path(source):
            raise ConfigError(
                f"{source}: files cannot be followed, only brokers; build again later"
            )
        source = {BOOTSTRAP: source}
    validate_keep(keep_ms)
    register(spark)
    options = broker_options(source)
    log = BrokerLog(options)
    files = open_files(out)
    with opened_for_writing(files, now_ms()) as history:
        offsets = log.offsets()
        validate_cluster(history, offsets)
        planned(history.current, offsets.starts, offsets.ends)
        work = log_work(spark, log, files.location)
        sampler = _sampler(history, work) if samples else None
        _Stream(spark, history, work, log, offsets, keep_ms, on_batch, sampler).run(
            options, every, hadoop_path(f"{files.location}/{CHECKPOINT}"), is_stopped
        )


def _sampler(history: WritableHistory, work: Work) -> Sampler | None:
    if (ends := work.ends) is None:
        return None
    topics = TopicsToSample.of(history)
    return Sampler(lambda is_ended: take(ends, topics, is_ended))


class _Stream:
    """One run of the stream."""

    def __init__(
        self,
        spark: "SparkSession",
        history: WritableHistory,
        work: Work,
        log: BrokerLog,
        offsets: Offsets,
        keep_ms: int | None,
        on_batch: OnBatch | None,
        sampler: Sampler | None,
    ) -> None:
        self._spark = spark
        self._history = history
        self._work = work
        self._log = log
        self._offsets = offsets
        self._keep_ms = keep_ms
        self._on_batch = on_batch
        self._sampler = sampler
        self._search = FindingSearch(history, now_ms, run=in_tasks(spark))
        self._in_batch = threading.Lock()
        self._is_ending = False
        self._failure: str | None = None
        """Of the micro-batch that failed."""
        self._batches = 0

    def run(
        self,
        options: Mapping[str, str],
        every: str,
        checkpoint: str,
        is_stopped: Callable[[], bool],
    ) -> None:
        from pyspark.errors import PySparkException

        reading = self._spark.readStream.format("kohort").options(**options)
        ranges = reading.options(
            readRanges="true", startingOffsets="earliest", maxOffsetsPerTrigger=MAX_OFFSETS
        )
        try:
            query: Any = (
                ranges.load()
                .writeStream.foreachBatch(self._batch)
                .option("checkpointLocation", checkpoint)
                .queryName("kohort history")
                .trigger(processingTime=every)
                .start()
            )
            with self._sampler or nullcontext():
                while query.isActive and not is_stopped():
                    time.sleep(POLL_INTERVAL_S)
                    self._maybe_store_samples()
            with self._in_batch:
                self._is_ending = True
                query.stop()
                self._store_samples()
        except PySparkException as error:
            raise KohortError(_first_line(error)) from error
        if self._failure is not None:
            raise KohortError(self._failure)
        if (failure := query.exception()) is not None:
            raise KohortError(_first_line(failure))

    def _maybe_store_samples(self) -> None:
        """Store the samples of the last minute and search, unless a micro-batch does so now."""
        if self._sampler is None or not self._sampler.is_due(STORE_SAMPLES_S):
            return
        if self._in_batch.acquire(blocking=False):
            try:
                self._store_samples()
                self._search.after_batch()
            finally:
                self._in_batch.release()

    def _store_samples(self) -> None:
        if self._sampler is None:
            return
        try:
            add_samples(self._history, self._sampler.collect(), now_ms())
        except (KohortError, OSError) as error:
            log_failure(error)

    def _batch(self, ranges: "DataFrame", _number: int) -> None:
        with self._in_batch:
            # If Spark takes an interrupted batch for done, the next one reads its records.
            if self._is_ending:
                return
            try:
                self._fold(ranges)
            except (KohortError, OSError) as error:
                self._failure = str(error)
                raise

    def _fold(self, ranges: "DataFrame") -> None:
        began = time.monotonic()
        reached = self._history.current.ends()
        ends = {
            row.partition: max(row.end, reached.get(row.partition, 0)) for row in ranges.collect()
        }
        batch = planned(
            self._history.current, self._log.starts(), ends, after_pause=not self._batches
        )
        if not batch:
            return
        fold_batch(self._spark, self._history, batch, self._work.runner(batch), self._offsets)
        self._store_samples()
        self._search.after_batch()
        maintain(self._history, self._keep_ms)
        self._search.end_batch()
        self._batches += 1
        if self._batches % LEFTOVERS_EVERY == 0:
            self._history.remove_leftovers(now_ms())
        if self._on_batch is not None:
            self._on_batch(sum(each.size for each in batch), time.monotonic() - began)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
