"""A streaming read whose positions are those of the checkpoint (`groupMode` none and reporting).

One object lives in a process beside the driver for as long as the query runs. Spark calls
`latestOffset` at every trigger. Its `start` is the end of the last batch whose sink has succeeded,
and that end is reported. `commit` receives it a batch later, and never for the last batch.

Offsets go backwards only where data was lost: a log was cut. A topic that was deleted and created
again has another id than the one in the checkpoint. Both end the query, unless `failOnDataLoss` is
false; then reading continues at the next existing record, in a new topic at the first.
"""

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kohort.spark import fetching
from kohort.spark.data_loss import AGAIN, GONE, deleted, out_of_range, raise_or_warn
from kohort.spark.error_messages import cause_first
from kohort.spark.offset_queries import Existing, OffsetQueries, ids_of, validate_named
from kohort.spark.options import GroupMode, ReadOptions
from kohort.spark.positions import (
    BEGIN,
    EARLIEST,
    Positions,
    SparkOffset,
    TopicIds,
    batch_start,
    from_spark,
    offset_of,
    recreated,
    to_spark,
    topic_ids,
    without_topics,
)
from kohort.spark.ranges import OffsetRange, limited, ranges, split
from kohort.spark.reporting_stream import Reporter
from kohort.spark.workers import TaskObject
from kohort.types import TopicPartition
from kohort.util.text import offset_span


@cause_first
class StreamReader(TaskObject, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The common part of all streaming reads.

    Planners create and pickle it too, so it connects when it is first used.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.queries = OffsetQueries(options)
        self.target: Positions | None = None
        """End offsets of the run, with Trigger.AvailableNow."""
        self._reporter = Reporter(options) if options.group_mode is GroupMode.REPORTING else None
        self._latest: Positions | None = None
        self._initial_positions: Positions | None = None
        """Start offsets of a new query, if `startingOffsets` depends on the time.

        Spark asks for them again when it plans the first micro-batch, also after a restart. So the
        offset of that micro-batch has them, too.
        """
        self._last_trigger_s = -math.inf
        """Monotonic time of the last trigger that read records."""

    # --- called by Spark ---

    def initialOffset(self) -> SparkOffset:  # noqa: N802
        existing = self.queries.partitions()
        validate_named(self.options, existing)
        positions = self._initial_positions or self.queries.resolve(self.options.starting, existing)
        if self.options.starting.everywhere != EARLIEST and self.options.starting.offsets is None:
            self._initial_positions = positions
        return to_spark(positions, self.ids_beside(positions, existing, {}))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.target = self.queries.latest(self.queries.partitions())

    def latestOffset(self, start: SparkOffset, limit: ReadLimit) -> SparkOffset:  # noqa: N802
        existing = self.queries.partitions()
        recreated_topics = self.recreated(start, existing)
        if self._reporter is not None:
            self._reporter.report(without_topics(from_spark(start), recreated_topics))
        positions = self.without_missing(from_spark(start), existing, recreated_topics)
        latest = self.ends(tuple(existing), positions)
        begin = self.queries.earliest(latest.keys() - positions.keys()) | positions
        latest = {tp: end for tp, end in latest.items() if tp in begin}
        if self.is_too_little(begin, latest):
            return start
        ends = limited(limit.max_rows, begin, latest) if isinstance(limit, ReadMaxRows) else latest
        is_first = (
            positions == self._initial_positions
            and BEGIN not in start
            and self.options.checkpoint_topic_ids
        )
        begin = positions if is_first else {}
        end = offset_of(ends, begin, self.ids_beside(ends, existing, topic_ids(start)))
        unchanged = not recreated_topics and not begin and ends == from_spark(start)
        # Without ids, keys that only this source understands goes from the checkpoint at once.
        return start if unchanged and self.options.checkpoint_topic_ids else end

    def reportLatestOffset(self) -> SparkOffset | None:  # noqa: N802
        return None if self._latest is None else to_spark(self._latest)

    def partitions(self, start: SparkOffset, end: SparkOffset) -> Sequence[InputPartition]:
        before, ids = topic_ids(start), topic_ids(end)
        positions = without_topics(from_spark(start), recreated(before, ids))
        return self.plan_ranges(positions | batch_start(end), from_spark(end), ids)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return fetching.read(self.options, cast("OffsetRange", partition))

    # --- steps ---

    def ids_beside(self, positions: Positions, existing: Existing, before: TopicIds) -> TopicIds:
        """The ids of the topics of `positions`: the current ones, or else those of `before`."""
        if not self.options.checkpoint_topic_ids:
            return {}
        ids = before | ids_of(existing)
        topics = {tp.topic for tp in positions}
        return {topic: topic_id for topic, topic_id in ids.items() if topic in topics}

    def recreated(self, start: SparkOffset, existing: Existing) -> Collection[str]:
        """The topics that were deleted and created again since `start`."""
        if not self.options.checkpoint_topic_ids:
            return ()
        return recreated(topic_ids(start), ids_of(existing))

    def without_missing(
        self,
        offsets: Positions,
        existing: Collection[TopicPartition],
        recreated: Collection[str] = (),
    ) -> Positions:
        """`offsets` without partitions that no longer exist, which is data loss."""
        kept = {
            tp: position
            for tp, position in without_topics(offsets, recreated).items()
            if tp in existing
        }
        missing = sorted(offsets.keys() - kept.keys())
        self.queries.validate_deleted({tp.topic for tp in missing}.difference(recreated))
        for tp in missing:
            how = AGAIN if tp.topic in recreated else GONE
            self.report_data_loss(f"{tp} {how}, with what was behind offset {offsets[tp]}")
        return kept

    def ends(self, partitions: Sequence[TopicPartition], start: Positions) -> Positions:
        """End offsets, limited to those of the run. An end below `start` is data loss."""
        latest = self._latest = self.queries.latest(partitions)
        self.without_missing({tp: start[tp] for tp in partitions if tp in start}, latest)
        for tp, end in latest.items():
            if end < start.get(tp, 0):
                self.report_data_loss(
                    f"{tp} ends at offset {end}, before {start[tp]}, where it was to be read on"
                )
        if self.target is None:
            return latest
        limits = {tp: max(self.target.get(tp, -1), start.get(tp, -1)) for tp in latest}
        return {tp: min(end, limits[tp]) for tp, end in latest.items() if limits[tp] >= 0}

    def is_too_little(self, begin: Positions, latest: Positions) -> bool:
        """Whether there are fewer records than `minOffsetsPerTrigger`, so that this trigger waits.

        As in Spark's source, the first trigger never waits. Nor does a trigger `maxTriggerDelay`
        after the last one that did not wait.
        """
        now_s, options = time.monotonic(), self.options
        available = sum(latest[tp] - begin[tp] for tp in latest)
        if available < (options.min_offsets_per_trigger or 0) and (
            now_s - self._last_trigger_s < options.max_trigger_delay_ms / 1000
        ):
            return True
        self._last_trigger_s = now_s
        return False

    def plan_ranges(
        self, start: Positions, end: Positions, ids: Mapping[str, str]
    ) -> list[InputPartition]:
        """The ranges from `start` to `end` in the topics with these `ids`.

        A partition without a start is new, and read from its first record. A topic that was
        recreated since the plan is left out: the next plan begins at its first record.
        """
        moved = {tp: offset for tp, offset in end.items() if offset != start.get(tp)}
        existing = self.queries.partitions()
        recreated_topics = recreated(ids, ids_of(existing))
        earliest = self.queries.earliest(
            without_topics(moved, recreated_topics).keys() & existing.keys()
        )
        missing = sorted(moved.keys() - earliest.keys())
        self.queries.validate_deleted({tp.topic for tp in missing}.difference(recreated_topics))
        for tp in missing:
            how = AGAIN if tp.topic in recreated_topics else GONE
            self.report_data_loss(deleted(tp, how, start.get(tp, 0), moved[tp]))
        ends = self._limited_to_end({tp: offset for tp, offset in moved.items() if tp in earliest})
        begin = {
            tp: self._begin(tp, start.get(tp, earliest[tp]), earliest[tp], ends[tp]) for tp in ends
        }
        tasks = split(
            ranges(begin, ends, ids_of(existing)),
            self.options.min_partitions,
            self.options.max_records_per_partition,
        )
        return list[InputPartition](tasks)

    def _limited_to_end(self, ends: Positions) -> Positions:
        """`ends`, limited to the current ends: a batch that a restart repeats may be old."""
        known_ends = self._latest or {}
        latest = self.queries.latest(tp for tp, end in ends.items() if end > known_ends.get(tp, -1))
        for tp, end in latest.items():
            if end < ends[tp]:
                self.report_data_loss(
                    f"{tp} ends at offset {end}, before {ends[tp]}, up to where it was to be "
                    f"read: {offset_span(end, ends[tp])}"
                )
        return ends | {tp: min(end, ends[tp]) for tp, end in latest.items()}

    def _begin(self, tp: TopicPartition, start: int, earliest: int, end: int) -> int:
        if start < earliest or end < start:
            self.report_data_loss(out_of_range(tp, start, earliest, end))
            return earliest
        return start

    def report_data_loss(self, loss: str) -> None:
        """Raise DataLossError if `failOnDataLoss` is true, otherwise log a warning."""
        raise_or_warn(loss, fail=self.options.fail_on_data_loss)
