"""Offset ranges of Spark tasks: splitting large ones, and sharing a limit, as in Spark's source."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.datasource import InputPartition

from kohort.spark.positions import Positions
from kohort.types import TopicPartition


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """Records of one partition with offsets in [start, end)."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str | None = None
    """Of the topic when this was planned; None if the brokers tell none."""

    @property
    def size(self) -> int:
        return self.end - self.start


def range_row(offset_range: OffsetRange) -> Any:
    """The Arrow record batch with one row for this range, as `readRanges` has it."""
    import pyarrow as pa  # type: ignore[import-untyped]

    from kohort.columnar.columns import offset_column, partition_column, topic_column

    topic_id = offset_range.topic_id
    columns = {
        "topic": topic_column(offset_range.topic, 1),
        "partition": partition_column(offset_range.partition, 1),
        "start": offset_column(offset_range.start, 1),
        "end": offset_column(offset_range.end, 1),
        "topicId": pa.nulls(1, pa.string()) if topic_id is None else topic_column(topic_id, 1),
    }
    return pa.RecordBatch.from_arrays([*columns.values()], [*columns])


def ranges(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    ids: Mapping[str, str],
) -> list[OffsetRange]:
    """One for each partition that has something to read; `ids` by topic."""
    return [
        OffsetRange(tp.topic, tp.partition, start[tp], end[tp], ids.get(tp.topic))
        for tp in sorted(end)
        if tp in start and end[tp] > start[tp]
    ]


def split(
    offset_ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Split large ranges: at least `min_partitions`, of at most `max_records` each.

    The formula is that of Spark's KafkaOffsetRangeCalculator: each range gets a share of the tasks
    by its size, small ones stay whole.
    """
    all_ranges = list(offset_ranges)
    if max_records is not None:
        all_ranges = [
            part
            for offset_range in all_ranges
            for part in _parts(offset_range, math.ceil(offset_range.size / max_records))
        ]
    if min_partitions is None or len(all_ranges) >= min_partitions:
        return all_ranges
    total = sum(offset_range.size for offset_range in all_ranges)
    large = {
        offset_range
        for offset_range in all_ranges
        if _share(offset_range.size, total, min_partitions) > 1
    }
    tasks = max(min_partitions - (len(all_ranges) - len(large)), 1)
    size = sum(offset_range.size for offset_range in large)
    return [
        part
        for offset_range in all_ranges
        for part in _parts(
            offset_range, _share(offset_range.size, size, tasks) if offset_range in large else 1
        )
    ]


def _share(size: int, total: int, tasks: int) -> int:
    """The tasks for `size` of `total`, rounded as Java does: half a task up."""
    return max(math.floor(size / total * tasks + 0.5), 1)


def _parts(offset_range: OffsetRange, count: int) -> Iterable[OffsetRange]:
    """`offset_range` in `count` parts that differ by one offset at most, the smaller ones first.

    There are no empty ones.
    """
    start = offset_range.start
    for remaining in range(min(count, offset_range.size), 0, -1):
        end = start + (offset_range.end - start) // remaining
        yield replace(offset_range, start=start, end=end)
        start = end


def limited(
    limit: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> Positions:
    """The ends of a micro-batch of about `limit` records, shared by available records.

    Each partition gets at least one.
    """
    sizes = {tp: end[tp] - start[tp] for tp in end if end[tp] > start.get(tp, end[tp])}
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    ends = dict(end)
    for tp, size in sizes.items():
        share = limit * size / total
        ends[tp] = start[tp] + min(size, math.ceil(share) if share < 1 else math.floor(share))
    return ends
