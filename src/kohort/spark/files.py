"""A batch read of `path`: segment files of Apache Kafka and Kohort, without a broker.

`kohort.segments` reads them. The driver lists the partitions and chooses of several replicas the
longest. A task reads a range of offsets of about a segment, and lists the files itself.
"""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

from kohort.errors import ConfigError
from kohort.protocol.compression import MAX_INFLATED
from kohort.segments import ReadSettings, Replica, find_replicas, longest, offset_at, read
from kohort.spark import workers
from kohort.spark.batch import BatchReader
from kohort.spark.data_loss import raise_or_warn
from kohort.spark.fetching import naming_option
from kohort.spark.offset_queries import Existing, validate_match
from kohort.spark.options import Bound, ReadOptions
from kohort.spark.positions import EARLIEST, Positions, validate_partitions
from kohort.spark.ranges import OffsetRange
from kohort.types import TopicPartition

_THREADS: Final = 8
"""Partitions in which a time is looked up at once."""
_INTERNAL: Final = frozenset((
    "__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state",
))  # fmt: skip
"""Topics that a pattern never matches, as from a broker."""


@dataclass(frozen=True, kw_only=True)
class FileRange(OffsetRange):
    """An offset range of a replica."""

    replica: Replica


class FileReader(BatchReader):
    """`partitions` lists the files on the driver; `read` runs in the workers."""

    def queries(self) -> "FileQueries":
        return FileQueries(self._options)

    def records(self, offset_range: OffsetRange) -> Iterator[Any]:
        workers.settle()
        assert isinstance(offset_range, FileRange)
        options = self._options
        settings = ReadSettings(
            include_headers=options.include_headers,
            include_batch_fields=options.include_batch_fields,
            check_crcs=options.check_crcs,
            max_inflated=options.max_inflated_batch_bytes or MAX_INFLATED,
            on_loss=partial(raise_or_warn, fail=options.fail_on_data_loss),
            damaged_rows=options.damaged_rows,
        )
        with naming_option():
            yield from read(offset_range.replica, offset_range.start, offset_range.end, settings)


class FileQueries:
    """The partitions of files and their offsets, as `OffsetQueries` has those of a cluster."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    @cached_property
    def _replicas(self) -> dict[TopicPartition, Replica]:
        found = find_replicas(self._options.paths, self._is_subscribed)
        topics = sorted({tp.topic for tp in found})
        if len(topics) > 1 and not self._has_subscription:
            raise ConfigError(
                f"option path has {len(topics)} topics ({', '.join(topics[:5])}"
                f"{', …' if len(topics) > 5 else ''}); choose by subscribe, subscribePattern or "
                "assign"
            )
        return {tp: longest(replicas) for tp, replicas in found.items()}

    @property
    def _has_subscription(self) -> bool:
        subscription = self._options.subscription
        return bool(subscription.topics or subscription.partitions or subscription.pattern)

    def _is_subscribed(self, tp: TopicPartition) -> bool:
        subscription = self._options.subscription
        if subscription.pattern is not None:
            return tp.topic not in _INTERNAL and bool(re.fullmatch(subscription.pattern, tp.topic))
        if subscription.partitions:
            return tp in subscription.partitions
        return not subscription.topics or tp.topic in subscription.topics

    def partitions(self) -> Existing:
        """The subscribed partitions, each with the id of its topic."""
        return {tp: replica.topic_id() for tp, replica in self._replicas.items()}

    def resolve(self, bound: Bound, partitions: Iterable[TopicPartition]) -> Positions:
        """The offsets of `bound`. Raises ConfigError if they do not match the partitions."""
        requested = tuple(partitions)
        if bound.timestamps is not None:
            validate_partitions(bound.option, bound.timestamps, requested)
            return self._by_time(bound, {tp: bound.timestamps[tp] for tp in requested})
        if bound.timestamp is not None:
            return self._by_time(bound, dict.fromkeys(requested, bound.timestamp))
        if bound.offsets is None:
            is_earliest = bound.everywhere == EARLIEST
            return {tp: self._offset(tp, is_earliest=is_earliest) for tp in requested}
        validate_partitions(bound.option, bound.offsets, requested)
        return {
            tp: offset if offset >= 0 else self._offset(tp, is_earliest=offset == EARLIEST)
            for tp in requested
            for offset in [bound.offsets[tp]]
        }

    def _by_time(self, bound: Bound, times: Positions) -> Positions:
        with ThreadPoolExecutor(_THREADS) as threads:
            looked_up = threads.map(offset_at, map(self._replicas.get, times), times.values())
            offsets = dict(zip(times, looked_up, strict=True))
        too_young = [tp for tp, offset in offsets.items() if offset is None]
        if too_young:
            validate_match(self._options, bound, too_young[0], times[too_young[0]])
        return {tp: self._ends[tp] if offset is None else offset for tp, offset in offsets.items()}

    def latest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The end of each partition."""
        return {tp: self._offset(tp, is_earliest=False) for tp in partitions}

    def _offset(self, tp: TopicPartition, *, is_earliest: bool) -> int:
        replica = self._replicas[tp]
        return replica.start() if is_earliest else self._ends[tp]

    @cached_property
    def _ends(self) -> Positions:
        return {tp: replica.end() for tp, replica in self._replicas.items()}

    def ranges(self, start: Positions, end: Positions, partitions: Existing) -> list[OffsetRange]:
        """Ranges of about a segment of each partition."""
        return [
            FileRange(tp.topic, tp.partition, first, last, partitions[tp], replica=replica)
            for tp in sorted(end)
            if end[tp] > start[tp]
            for replica in [self._replicas[tp]]
            for first, last in replica.pieces(start[tp], end[tp])
        ]
