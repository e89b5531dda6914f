"""Sampled ends of the partitions that groups commit, for lag in time.

Every `INTERVAL_S` the ends of at most `MAX_PARTITIONS` partitions are sampled, those of other nodes
included. A partition has at most `CAPACITY` samples, some 800 bytes. When they are full, every
second one of the older half goes: recent ones are 30 s apart, old ones hours or days. So a lag in
time is the more exact the shorter it is.

A group may lag behind the oldest sample, as all do after a restart. For at most `MAX_SEEDS`
partitions in each round, the batch at the commit is read from this server's log: its timestamps are
two more samples. Only its header is decoded.
"""

import asyncio
import logging
from array import array
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Reversible
from itertools import chain, islice
from typing import Final

from kohort.errors import KafkaError
from kohort.lag import EndSample, lag_by_samples
from kohort.log.base import Log
from kohort.log.remote_log import RemoteLog
from kohort.protocol.batches import read_header
from kohort.runtime.groups import Groups
from kohort.server.cluster import FindLogOffsets, LogOffsets
from kohort.server.replicas import Topics
from kohort.types import Timestamp, TopicPartition
from kohort.util.time_slice import TimeSlices

logger = logging.getLogger("kohort.background")

INTERVAL_S: Final = 30.0
MAX_PARTITIONS: Final = 20_000
MAX_SEEDS: Final = 500
CAPACITY: Final = 32
COARSE: Final = 0.25
"""A confidence above this share of a lag, and above two intervals, asks for another seed."""


class EndRing:
    """Sampled ends of one partition in the order of their times, which both ascend."""

    __slots__ = ("_ends", "_times")

    def __init__(self) -> None:
        self._times, self._ends = array("q"), array("q")

    def __len__(self) -> int:
        return len(self._times)

    def __iter__(self) -> Iterator[EndSample]:
        return map(EndSample, self._times, self._ends)

    def __reversed__(self) -> Iterator[EndSample]:
        return map(EndSample, reversed(self._times), reversed(self._ends))

    def add(self, time: int, end: int) -> None:
        """Add the newest sample.

        Samples that contradict it go: a later time (the clock was set back), a larger end (the
        topic was recreated). Of equal ends the first and the last stay.
        """
        times, ends = self._times, self._ends
        while times and (times[-1] >= time or ends[-1] > end):
            times.pop()
            ends.pop()
        if len(ends) > 1 and ends[-2] == end:
            times[-1] = time
            return
        times.append(time)
        ends.append(end)
        if len(times) > CAPACITY:
            half = CAPACITY // 2
            del times[1:half:2], ends[1:half:2]

    def seed(self, time: int, end: int) -> None:
        """Add an older sample, unless it contradicts the others."""
        times, ends = self._times, self._ends
        place = bisect_left(times, time)
        fits_before = place == 0 or ends[place - 1] <= end
        fits_after = place == len(ends) or (times[place] > time and ends[place] >= end)
        if time >= 0 and fits_before and fits_after and len(times) < CAPACITY:
            times.insert(place, time)
            ends.insert(place, end)


class EndSamples:
    """The sampled ends of all partitions that the groups of this node committed."""

    def __init__(
        self,
        groups: Groups,
        topics: Topics,
        find_log_offsets: FindLogOffsets,
        now: Callable[[], Timestamp],
    ) -> None:
        """`now`: Unix time in ms, as that of records."""
        self._groups, self._topics, self.now = groups, topics, now
        self._find_log_offsets = find_log_offsets
        self._rings: dict[TopicPartition, EndRing] = {}

    def up_to_now(self, partition: TopicPartition, end: int, now: int) -> Reversible[EndSample]:
        """The samples of a partition, and its end now as the last one."""
        ring = self._rings.get(partition)
        return _WithLast(ring or (), EndSample(now, end))

    async def run(self) -> None:
        """Sample without end, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            try:
                await self.sample()
            except Exception:
                logger.exception("sampling the ends of partitions failed")

    async def sample(self) -> None:
        """Take one sample of each partition; read in slices."""
        slices = TimeSlices()
        partitions = dict.fromkeys([tp async for tp, _ in self._commits(slices)])
        while len(partitions) > MAX_PARTITIONS:
            partitions.popitem()
        ends = await self._find_log_offsets(partitions)
        now = int(self.now())
        rings: dict[TopicPartition, EndRing] = {}
        for partition, (_, end) in ends.items():
            ring = rings[partition] = self._rings.get(partition) or EndRing()
            ring.add(now, end)
            await slices.give_way()
        self._rings = rings
        await self._seed(ends, now, slices)

    async def _commits(self, slices: TimeSlices) -> AsyncIterator[tuple[TopicPartition, int]]:
        count = 0
        for group in tuple(self._groups.groups()):
            for partition, value in tuple(islice(group.offsets.items(), MAX_PARTITIONS - count)):
                count += 1
                yield partition, value.offset
                await slices.give_way()

    async def _seed(
        self, ends: Mapping[TopicPartition, LogOffsets], now: int, slices: TimeSlices
    ) -> None:
        reads = 0
        async for partition, committed in self._commits(slices):
            log_offsets, ring = ends.get(partition), self._rings.get(partition)
            if log_offsets is None or ring is None:
                continue
            position = max(committed, log_offsets.start)
            if position >= log_offsets.end or not _is_vague(ring, position, now):
                continue
            log = self._topics.log(*partition)
            if log is None or isinstance(log, RemoteLog):
                continue
            for time, end in _seeds(log, position):
                ring.seed(time, end)
            reads += 1
            if reads >= MAX_SEEDS:
                return


class _WithLast:
    """Samples and one more; most lags are between the last two, so that nothing is copied."""

    __slots__ = ("_last", "_samples")

    def __init__(self, samples: Reversible[EndSample], last: EndSample) -> None:
        self._samples, self._last = samples, last

    def __iter__(self) -> Iterator[EndSample]:
        return chain(self._samples, (self._last,))

    def __reversed__(self) -> Iterator[EndSample]:
        return chain((self._last,), reversed(self._samples))


def _is_vague(ring: EndRing, position: int, now: int) -> bool:
    """Whether the lag in time at `position` is unknown, or little more than a guess."""
    found = lag_by_samples(position, ring, now)
    if found.lag_ms is None or found.confidence_ms is None:
        return True
    return found.confidence_ms > max(COARSE * found.lag_ms, 2 * INTERVAL_S * 1000)


def _seeds(log: Log, position: int) -> list[tuple[int, int]]:
    """Ends of the log before and after the batch at `position`, by its timestamps.

    None if it cannot be read, or is not in memory yet.
    """
    try:
        batch = log.read(position, 1, durable=True)
        if not batch:
            return []
        header = read_header(batch)
    except (KafkaError, OSError):
        return []
    return [
        (header.base_timestamp, min(header.base_offset, position)),
        (header.max_timestamp, header.last_offset + 1),
    ]
