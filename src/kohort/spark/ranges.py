"""Offset ranges of Spark tasks: splitting large ones, and sharing a limit, as in Spark's source."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

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
    whole = list(offset_ranges)
    if max_records is not None:
        whole = [
            part for each in whole for part in _parts(each, math.ceil(each.size / max_records))
        ]
    if min_partitions is None or len(whole) >= min_partitions:
        return whole
    total = sum(each.size for each in whole)
    large = {each for each in whole if _share(each.size, total, min_partitions) > 1}
    tasks = max(min_partitions - (len(whole) - len(large)), 1)
    size = sum(each.size for each in large)
    return [
        part
        for each in whole
        for part in _parts(each, _share(each.size, size, tasks) if each in large else 1)
    ]


def _share(size: int, total: int, tasks: int) -> int:
    """The tasks for `size` of `total`, rounded as Java does: half a task up."""
    return max(math.floor(size / total * tasks + 0.5), 1)


def _parts(whole: OffsetRange, count: int) -> Iterable[OffsetRange]:
    """`whole` in `count` parts that differ by one offset at most, the smaller ones first.

    There are no empty ones.
    """
    start = whole.start
    for remaining in range(min(count, whole.size), 0, -1):
        end = start + (whole.end - start) // remaining
        yield replace(whole, start=start, end=end)
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
