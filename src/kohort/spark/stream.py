"""A streaming read whose positions are those of the checkpoint (`groupMode` none and reporting).

One object lives in a process beside the driver for as long as the query runs. Spark calls
`latestOffset` at every trigger. Its `start` is the end of the last batch whose sink has succeeded,
and that end is reported. `commit` receives it a batch later, and never for the last batch.

Offsets go backwards only where data was lost: a topic was recreated, or a log was cut. That ends
the query, unless `failOnDataLoss` is false; then reading continues at the next existing record.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kohort.errors import KohortError
from kohort.spark import fetching
from kohort.spark.offset_queries import OffsetQueries, validate_named
from kohort.spark.options import GroupMode, ReadOptions
from kohort.spark.positions import Positions, SparkOffset, begun, from_spark, to_spark
from kohort.spark.ranges import OffsetRange, limited, ranges, split
from kohort.spark.reporting import Reporter
from kohort.types import TopicPartition

logger: Final = logging.getLogger("kohort.spark")


class DataLossError(KohortError):
    """Records that were to be read are gone; `failOnDataLoss` says whether that ends the query."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The common part of all streaming reads.

    Planners create and pickle it too, so it connects when it is first used.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.queries = OffsetQueries(options)
        self.target: Positions | None = None
        """Of Trigger.AvailableNow: where the run ends."""
        self._reporter = Reporter(options) if options.group_mode is GroupMode.REPORTING else None
        self._latest: Positions | None = None

    # --- what Spark asks ---

    def initialOffset(self) -> SparkOffset:  # noqa: N802
        partitions = self.queries.partitions()
        validate_named(self.options, partitions)
        return to_spark(self.queries.resolve(self.options.starting, partitions))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.target = self.queries.latest(self.queries.partitions())

    def latestOffset(self, start: SparkOffset, limit: ReadLimit) -> SparkOffset:  # noqa: N802
        at = from_spark(start)
        if self._reporter is not None:
            self._reporter.report(at)
        there = self.queries.partitions()
        self.left(at, there)
        latest = self.ends(there, at)
        begin = self.queries.earliest(latest.keys() - at.keys()) | at
        latest = {tp: end for tp, end in latest.items() if tp in begin}
        ends = limited(limit.max_rows, begin, latest) if isinstance(limit, ReadMaxRows) else latest
        return to_spark(ends) if ends != at else start

    def reportLatestOffset(self) -> SparkOffset | None:  # noqa: N802
        return None if self._latest is None else to_spark(self._latest)

    def partitions(self, start: SparkOffset, end: SparkOffset) -> Sequence[InputPartition]:
        return self.planned(from_spark(start) | begun(end), from_spark(end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return fetching.read(self.options, cast("OffsetRange", partition))

    # --- what it is made of ---

    def left(self, at: Positions, there: Collection[TopicPartition]) -> Positions:
        """`at` without partitions that are gone, which is data loss."""
        found = {tp: position for tp, position in at.items() if tp in there}
        for tp in sorted(at.keys() - found.keys()):
            self.lost(f"{tp} is gone, with what was behind offset {at[tp]}")
        return found

    def ends(self, partitions: Sequence[TopicPartition], at: Positions) -> Positions:
        """Where these end now, or where the run does. What is behind `at` is data loss."""
        latest = self._latest = self.queries.latest(partitions)
        self.left({tp: at[tp] for tp in partitions if tp in at}, latest)
        for tp, end in latest.items():
            if end < at.get(tp, 0):
                self.lost(f"{tp} ends at offset {end}, before {at[tp]}, where it was to be read on")
        if self.target is None:
            return latest
        until = {tp: max(self.target.get(tp, -1), at.get(tp, -1)) for tp in latest}
        return {tp: min(end, until[tp]) for tp, end in latest.items() if until[tp] >= 0}

    def planned(self, start: Positions, end: Positions) -> list[InputPartition]:
        """The ranges from `start` to `end`.

        A partition without a start is new, and read from its first record.
        """
        moved = {tp: offset for tp, offset in end.items() if offset != start.get(tp)}
        earliest = self.queries.earliest(moved.keys() & set(self.queries.partitions()))
        for tp in sorted(moved.keys() - earliest.keys()):
            self.lost(f"{tp} is gone, with what was to be read of it")
        wanted = self._up_to_the_end({tp: offset for tp, offset in moved.items() if tp in earliest})
        begin = {
            tp: self._begin(tp, start.get(tp, earliest[tp]), earliest[tp], wanted[tp])
            for tp in wanted
        }
        found = split(
            ranges(begin, wanted),
            self.options.min_partitions,
            self.options.max_records_per_partition,
        )
        return list[InputPartition](found)

    def _up_to_the_end(self, wanted: Positions) -> Positions:
        """`wanted`, limited to the present ends.

        A batch that a restart repeats was planned long ago.
        """
        known = self._latest or {}
        latest = self.queries.latest(tp for tp, end in wanted.items() if end > known.get(tp, -1))
        for tp, end in latest.items():
            if end < wanted[tp]:
                self.lost(
                    f"{tp} ends at offset {end}, before {wanted[tp]}, up to where it was to be read"
                )
        return wanted | {tp: min(end, wanted[tp]) for tp, end in latest.items()}

    def _begin(self, tp: TopicPartition, start: int, earliest: int, end: int) -> int:
        if start < earliest or end < start:
            self.lost(fetching.lost(tp, start, earliest))
            return earliest
        return start

    def lost(self, what: str) -> None:
        """Raise DataLossError, or tell it in the log, as `failOnDataLoss` says."""
        if self.options.fail_on_data_loss:
            advice = (
                ""
                if "failOnDataLoss" in what
                else ("; set failOnDataLoss to false to go on without it")
            )
            raise DataLossError(what + advice)
        logger.warning("data loss: %s", what)
