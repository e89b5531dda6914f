"""A batch read from `startingOffsets` to `endingOffsets`, of topics as they are at planning."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kohort.errors import ConfigError
from kohort.spark import fetching
from kohort.spark.offset_queries import OffsetQueries, validate_named
from kohort.spark.options import ReadOptions
from kohort.spark.positions import Positions
from kohort.spark.ranges import OffsetRange, ranges, split


class BatchReader(DataSourceReader):
    """`partitions` asks the cluster on the driver; `read` runs in the workers."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options, queries = self._options, OffsetQueries(self._options)
        partitions = queries.partitions()
        validate_named(options, partitions)
        start = queries.resolve(options.starting, partitions)
        end = queries.resolve(options.ending, partitions)
        if options.starting.at is not None or options.ending.at is not None:
            end = _up_to_the_end(options, start, end, queries.latest(partitions))
        if options.fail_on_data_loss:
            _validate_order(options, start, end)
        found = split(ranges(start, end), options.min_partitions, options.max_records_per_partition)
        # Spark takes no partitions at all as one whose value is None.
        return list[InputPartition](found) or [OffsetRange("", 0, 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        wanted = cast("OffsetRange", partition)
        return fetching.read(self._options, wanted) if wanted.size else iter(())


def _up_to_the_end(
    options: ReadOptions, start: Positions, end: Positions, latest: Positions
) -> Positions:
    """The end of a read whose offsets were named, at most the end of each partition.

    Raises ConfigError for an offset beyond that, unless `failOnDataLoss` is false: records were
    lost, or the option is wrong.
    """
    for bound, offsets in ((options.starting, start), (options.ending, end)):
        behind = sorted(tp for tp, offset in offsets.items() if offset > latest.get(tp, 0))
        if behind and options.fail_on_data_loss:
            tp = behind[0]
            raise ConfigError(
                f"option {bound.option}: {offsets[tp]} of {tp} is behind its end, offset "
                f"{latest.get(tp, 0)}; "
                "correct it, or set failOnDataLoss to false to read what is there"
            )
    return {tp: min(offset, latest.get(tp, 0)) for tp, offset in end.items()}


def _validate_order(options: ReadOptions, start: Positions, end: Positions) -> None:
    """Raise ConfigError where a read would end before it starts.

    Either the options contradict each other, or the records are gone.
    """
    if backwards := sorted(tp for tp in end if end[tp] < start[tp]):
        tp = backwards[0]
        raise ConfigError(
            f"options {options.starting.option} and {options.ending.option}: {tp} would "
            f"be read from offset {start[tp]}"
            f" to {end[tp]}, before it; correct them, or set failOnDataLoss to false to "
            "go on without it"
        )
