"""Lag in time of groups on any Kafka broker, by a bounded number of requests.

1. *Fetch* of the first unread records (`first_records`): exact, but needs READ on the topic.
2. *ListOffsets* for a grid of times, for partitions without an answer: needs DESCRIBE alone. The
   grid has times 1 s, 4 s, 16 s… to 48 days ago. The interval of each partition is then halved
   `HALVINGS` times, by one request to each leader.

Groups that read the same partition at other offsets are in other requests, because a request has
each partition once. Leaders are asked at the same time. All of it ends after a time limit, and
partitions without an answer by then have no lag in time.

Topics with `cleanup.policy=compact` are found by DescribeConfigs, if its response is allowed.
"""

import asyncio
import time
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeAlias

from kohort.client.admin.config_apis import ConfigResource, describe_configs
from kohort.client.admin.first_records import FirstRecord, first_records
from kohort.client.admin.lag import PartitionLag
from kohort.client.cluster import Cluster, Isolation, Offset, list_offsets
from kohort.errors import KohortError
from kohort.lag import NOT_FETCHED, EndSample, NextRecord, time_lag
from kohort.types import TopicPartition

GRID_AGES_MS: Final = tuple(1000 * 4**power for power in range(12))
HALVINGS: Final = 4
FINE_MS: Final = 1_000
"""Shorter intervals are not halved."""

Bounds: TypeAlias = tuple[TopicPartition, int, int]
"""A partition, the position of a group, and the end of the log."""
Grid: TypeAlias = list[EndSample]


class TimeLags:
    """Finds lags in time, and remembers the first unread records of positions that stay."""

    def __init__(self, cluster: Cluster, isolation: Isolation, timeout_ms: int) -> None:
        """`timeout_ms` is the time limit of each `find`."""
        self._cluster, self._isolation, self._timeout_ms = cluster, isolation, timeout_ms
        self._records: dict[tuple[TopicPartition, int], FirstRecord] = {}
        self._grids: dict[tuple[TopicPartition, int], Grid] = {}
        self._compacted: dict[str, bool] = {}

    async def find(
        self, groups: Sequence[Mapping[TopicPartition, PartitionLag]], now_ms: int | None = None
    ) -> list[dict[TopicPartition, PartitionLag]]:
        """The lags of each group with their lags in time at `now_ms`, as far as they are known.

        The default is the time of this machine's clock.
        """
        if now_ms is None:
            now_ms = time.time_ns() // 1_000_000
        unread = list(_unread(groups))
        self._forget({(tp, position) for tp, position, _ in unread})
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timeout_ms / 1000), asyncio.TaskGroup() as tasks:
                tasks.create_task(self._find_compacted({tp.topic for tp, _, _ in unread}))
                tasks.create_task(self._find_times(unread, now_ms))
        return [
            {tp: self._timed(lag, now_ms) for tp, lag in partition_lags.items()}
            for partition_lags in groups
        ]

    def _forget(self, positions: set[tuple[TopicPartition, int]]) -> None:
        """Keep the records of these positions only; records of a grid move with the time."""
        self._records = {key: found for key, found in self._records.items() if key in positions}
        self._grids = {}

    async def _find_times(self, unread: Sequence[Bounds], now_ms: int) -> None:
        with suppress(KohortError):
            await self._fetch(unread)
        with suppress(KohortError):
            unknown = [bounds for bounds in unread if not self._is_known(bounds)]
            await self._list_times(unknown, now_ms)

    async def _fetch(self, unread: Sequence[Bounds]) -> None:
        unknown = [bounds for bounds in unread if not self._is_known(bounds)]
        fetch_ms = self._timeout_ms // 2
        for together in _layers(unknown):
            fetched = await first_records(
                self._cluster,
                {tp: (position, end) for tp, position, end in together},
                self._isolation,
                timeout_ms=fetch_ms,
            )
            for tp, position, _ in together:
                if tp in fetched:
                    self._records[tp, position] = fetched[tp]
            if len(fetched) < len(together):
                fetch_ms = min(fetch_ms, self._timeout_ms // 10)  # a leader may be silent

    def _is_known(self, bounds: Bounds) -> bool:
        """Whether the first unread record is known, or that there is none up to the end."""
        tp, position, end = bounds
        found = self._records.get((tp, position))
        return found is not None and (
            (found.offset is not None and found.timestamp >= 0)
            or (found.offset is None and found.searched_to >= end)
        )

    async def _list_times(self, unknown: Sequence[Bounds], now_ms: int) -> None:
        if not unknown:
            return
        ends = {tp: end for tp, _, end in unknown}
        lists = await asyncio.gather(
            *(self._offsets_at(dict.fromkeys(ends, now_ms - age), ends) for age in GRID_AGES_MS)
        )
        coarse: dict[TopicPartition, Grid] = {tp: [EndSample(now_ms, ends[tp])] for tp in ends}
        for offsets in lists:
            for tp, sample in offsets.items():
                insort(coarse[tp], sample)
        answered = [bounds for bounds in unknown if len(coarse[bounds[0]]) > 1]
        for tp, position, _ in answered:
            self._grids[tp, position] = list(coarse[tp])
        for together in _layers(answered):
            await self._halve(together, ends)

    async def _halve(self, together: Sequence[Bounds], ends: Mapping[TopicPartition, int]) -> None:
        for _ in range(HALVINGS):
            middles = {
                tp: middle
                for tp, position, _ in together
                if (middle := _middle(position, self._grids[tp, position])) is not None
            }
            if not middles:
                return
            offsets = await self._offsets_at(middles, ends)
            for tp, position, _ in together:
                if tp in offsets and tp in middles:
                    insort(self._grids[tp, position], offsets[tp])

    async def _offsets_at(
        self, times: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, EndSample]:
        listed = await list_offsets(
            self._cluster, times, self._isolation, timeout_ms=self._timeout_ms // 4
        )
        return {
            tp: EndSample(times[tp], ends[tp] if offset.offset < 0 else offset.offset)
            for tp, offset in listed.items()
            if isinstance(offset, Offset)
        }

    async def _find_compacted(self, topics: Iterable[str]) -> None:
        unknown = [ConfigResource("topic", topic) for topic in set(topics) - self._compacted.keys()]
        if not unknown:
            return
        for resource, configs in (await describe_configs(self._cluster, unknown)).items():
            if isinstance(configs, KohortError):
                continue
            policy = configs.get("cleanup.policy")
            self._compacted[resource.name] = "compact" in ((policy and policy.value) or "")

    def _timed(self, lag: PartitionLag, now_ms: int) -> PartitionLag:
        position = lag.position
        if position is None:
            return lag
        found = self._records.get((lag.partition, position))
        is_compacted = self._compacted.get(lag.partition.topic, False)
        lag = replace(
            lag,
            next_record=NOT_FETCHED if found is None else _next_record(found, lag.end),
            has_holes=is_compacted or (found is not None and found.is_transactional),
        )
        if lag.records is None:
            return lag
        return replace(
            lag,
            time=time_lag(
                lag.records,
                position,
                now_ms,
                timestamp=None if found is None else found.timestamp,
                grid=self._grids.get((lag.partition, position), ()),
            ),
        )


def _unread(groups: Iterable[Mapping[TopicPartition, PartitionLag]]) -> Iterator[Bounds]:
    for partition_lags in groups:
        for tp, lag in partition_lags.items():
            if lag.lag and lag.position is not None and lag.end is not None:
                yield tp, lag.position, lag.end


def _layers(unread: Iterable[Bounds]) -> list[list[Bounds]]:
    """Lists with each partition at most once; a position of several groups is in one of them."""
    layers: list[list[Bounds]] = []
    counts: dict[TopicPartition, int] = {}
    for bounds in {(tp, position): (tp, position, end) for tp, position, end in unread}.values():
        number = counts.get(bounds[0], 0)
        counts[bounds[0]] = number + 1
        if number == len(layers):
            layers.append([])
        layers[number].append(bounds)
    return layers


def _middle(position: int, grid: Grid) -> int | None:
    """The time in the middle of the interval that has the append; None if it is short enough."""
    for before, after in zip(reversed(grid[:-1]), reversed(grid), strict=False):
        if before.end <= position:
            interval = after.time - before.time
            return before.time + interval // 2 if interval > FINE_MS else None
    return None


def _next_record(found: FirstRecord, end: int | None) -> NextRecord:
    if found.offset is not None:
        return found.offset
    if end is not None and found.searched_to < end:
        return found.searched_to
    return None
