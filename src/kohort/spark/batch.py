"""A batch read from `startingOffsets` to `endingOffsets`, of topics as they are at planning."""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, cast

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kohort.errors import ConfigError
from kohort.spark import fetching, frames
from kohort.spark.data_loss import DataLossError, raise_or_warn
from kohort.spark.error_messages import cause_first
from kohort.spark.logs import log_to_stderr
from kohort.spark.offset_queries import Existing, OffsetQueries, validate_named
from kohort.spark.options import Bound, ReadOptions
from kohort.spark.positions import Positions
from kohort.spark.ranges import OffsetRange, split
from kohort.spark.workers import TaskObject
from kohort.types import TopicPartition
from kohort.util.text import offset_span


class Queries(Protocol):
    """Existing partitions, their offsets, and the ranges that tasks read."""

    def partitions(self) -> Existing: ...
    def resolve(self, bound: Bound, partitions: Iterable[TopicPartition]) -> Positions: ...
    def latest(self, partitions: Iterable[TopicPartition]) -> Positions: ...
    def ranges(
        self, start: Positions, end: Positions, partitions: Existing
    ) -> Sequence[OffsetRange]: ...


@cause_first
class BatchReader(TaskObject, DataSourceReader):
    """`partitions` asks the cluster on the driver; `read` runs in the workers."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._plan = secrets.token_hex(8)

    def queries(self) -> Queries:
        """The queries of the partitions, offsets and ranges to read."""
        return OffsetQueries(self._options)

    def partitions(self) -> Sequence[InputPartition]:
        options, queries = self._options, self.queries()
        partitions = queries.partitions()
        validate_named(options, partitions)
        start = queries.resolve(options.starting, partitions)
        end = queries.resolve(options.ending, partitions)
        if options.starting.offsets is not None or options.ending.offsets is not None:
            end = _limit_to_end(options, start, end, queries.latest(partitions))
        _validate_order(options, start, end)
        offset_ranges = split(
            queries.ranges(start, end, partitions),
            options.min_partitions,
            options.max_records_per_partition,
        )
        # Spark takes an empty list for one partition with the value None.
        return list[InputPartition](offset_ranges) or [OffsetRange("", 0, 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if self._options.ending.everywhere is not None:
            log_to_stderr()
            frames.warn_of_reuse(self._plan)
        offset_range = cast("OffsetRange", partition)
        return self._records(offset_range) if offset_range.size else iter(())

    def records(self, offset_range: OffsetRange) -> Iterator[Any]:
        """The records of a range, in a task."""
        return fetching.read(self._options, offset_range)

    def _records(self, offset_range: OffsetRange) -> Iterator[Any]:
        try:
            yield from self.records(offset_range)
        except DataLossError as error:
            raise DataLossError(f"{error}; if the frame was used before: {frames.ADVICE}") from None


def _limit_to_end(
    options: ReadOptions, start: Positions, end: Positions, latest: Positions
) -> Positions:
    """Limit explicit end offsets to the end of each partition.

    An offset beyond the end is an error of the option, or of lost records.
    """
    for bound, offsets in ((options.starting, start), (options.ending, end)):
        for tp in sorted(tp for tp, offset in offsets.items() if offset > latest.get(tp, 0)):
            _refuse_or_warn(
                options,
                f"option {bound.option}: offset {offsets[tp]} of {tp} is beyond its end, offset "
                f"{latest.get(tp, 0)}: lost are {offset_span(latest.get(tp, 0), offsets[tp])}",
            )
    return {tp: min(offset, latest.get(tp, 0)) for tp, offset in end.items()}


def _validate_order(options: ReadOptions, start: Positions, end: Positions) -> None:
    """Raise ConfigError, or log a warning, if a read would end before it starts.

    Either the options contradict each other, or the records were deleted.
    """
    for tp in sorted(tp for tp in end if end[tp] < start[tp]):
        _refuse_or_warn(
            options,
            f"options {options.starting.option} and {options.ending.option}: {tp} would be read "
            f"from offset {start[tp]} to {end[tp]}, before it",
        )


def _refuse_or_warn(options: ReadOptions, problem: str) -> None:
    """Raise ConfigError, or log a warning if `failOnDataLoss` is false."""
    if options.fail_on_data_loss:
        raise ConfigError(f"{problem}; correct it, or set failOnDataLoss to false to read the rest")
    raise_or_warn(problem, fail=False)
