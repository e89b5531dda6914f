"""A batch read: the topics from `startingOffsets` to `endingOffsets`, as they are when the query is planned."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kohort.spark import fetching
from kohort.spark.asking import Asking, validate_topics
from kohort.spark.options import ReadOptions
from kohort.spark.ranges import OffsetRange, ranges, split


class BatchReader(DataSourceReader):
    """`partitions` asks the cluster on the driver; `read` runs in the workers."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options, asking = self._options, Asking(self._options)
        partitions = asking.partitions()
        validate_topics(options, {tp.topic for tp in partitions})
        start = asking.resolve(options.starting, partitions)
        end = asking.resolve(options.ending, partitions)
        found = split(ranges(start, end), options.min_partitions, options.max_records_per_partition)
        # Spark takes no partitions at all as one whose value is None.
        return list[InputPartition](found) or [OffsetRange("", 0, 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        wanted = cast("OffsetRange", partition)
        return fetching.read(self._options, wanted) if wanted.size else iter(())
