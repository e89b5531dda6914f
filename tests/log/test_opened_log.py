"""The first work on a log that was opened reads what nobody has read yet, and gives way meanwhile.

Work is counted, not timed: each look at the clock says that the slice is over.
"""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest

from kohort.errors import ErrorCode
from kohort.log import compaction, producer_state_manager, scan
from kohort.log.base import LogConfig
from kohort.log.files import FileBacking
from kohort.log.latest_offsets import LatestOffsets
from kohort.log.local import LocalDirectory
from kohort.log.segment import Segment
from kohort.protocol.batches import encode_pair
from kohort.runtime.lookups import look_up
from kohort.util.heavy_work import HeavyWork
from kohort.util.time_slice import TimeSlices

from .conftest import NOW, ORDERS, ORDERS_ID, batch, from_producer, records_of

BATCHES = 200_000
"""Ten times what a start leaves unread."""
SEGMENTS = 500
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=64 << 20)
RECORD = encode_pair(b"k", b"v" * 30, 0)
HEADERS_AT_ONCE = 1_000
"""Headers that are read in 3 ms."""
INDEXES_AT_ONCE = 50
"""Indexes that are read in 5 ms."""


class Turns:
    """What was counted in each turn of the loop."""

    def __init__(self):
        self.total = self.longest = self._now = 0

    def count(self):
        self.total += 1
        self._now += 1
        self.longest = max(self.longest, self._now)

    @asynccontextmanager
    async def counted(self):
        async def turn():
            while True:
                self._now = 0
                await asyncio.sleep(0)

        self.total = self.longest = 0
        turning = asyncio.create_task(turn())
        await asyncio.sleep(0)
        try:
            yield
        finally:
            turning.cancel()


@pytest.fixture
def path(data, monkeypatch):
    monkeypatch.setattr(TimeSlices, "is_over", True)
    # Sealed segments are synced in the background, which takes the most time by far.
    monkeypatch.setattr("kohort.log.files.sync_all", lambda paths: None)
    return data


@pytest.fixture
def headers(monkeypatch):
    """Headers that are read on the loop."""
    turns, found = Turns(), scan.headers

    def counting(store, position):
        for each in found(store, position):
            turns.count()
            yield each

    monkeypatch.setattr(scan, "headers", counting)
    return turns


@pytest.fixture
def indexes(monkeypatch):
    """Indexes of segments that are read on the loop."""
    turns, resume = Turns(), Segment.resume

    def counting(segment):
        turns.count()
        resume(segment)

    monkeypatch.setattr(Segment, "resume", counting)
    return turns


@asynccontextmanager
async def opened(path, fill, config=COMPACTED):
    """A log that `fill` has filled before it was opened again."""
    with_log = LocalDirectory(path)
    with suppress(FileExistsError):
        with_log.directories.make({ORDERS: ORDERS_ID})
    fill(with_log.open(ORDERS, config))
    with_log.close()
    again = LocalDirectory(path)
    log = again.open(ORDERS, config)
    try:
        yield log
    finally:
        await log.durable()
        again.close()


def small_batches(count):
    def fill(log):
        for _ in range(count):
            log.append_encoded(RECORD, 1, NOW)

    return fill


def forget_indexes(log):
    """As those of sealed segments whose data is on the disk when a log is opened."""
    for segment in log.segments[:-1]:
        segment._resumed = False


def small_segments(log):
    """A segment for each batch."""
    log.configure(LogConfig(segment_bytes=130))
    for at in range(SEGMENTS):
        log.append(batch(b"%030d" % at, timestamp=NOW + at), NOW)


async def test_the_first_compaction_reads_headers_in_slices(path, headers, monkeypatch):
    # else it is all read at the start
    monkeypatch.setattr(producer_state_manager, "_SNAPSHOT_BYTES", 1 << 30)
    monkeypatch.setattr(compaction.Compaction, "run", lambda run, target: [])  # it has a thread
    async with opened(path, small_batches(BATCHES)) as log:
        log.configure(LogConfig(cleanup_policy=COMPACTED.cleanup_policy, segment_bytes=1 << 20))
        log.append_encoded(RECORD, 1, NOW)
        async with headers.counted():
            assert not await log.compact(NOW)
        assert headers.total >= BATCHES
        assert headers.longest < HEADERS_AT_ONCE


async def test_min_compaction_lag_reads_indexes_in_slices(path, indexes):
    lag = LogConfig(cleanup_policy=COMPACTED.cleanup_policy, min_compaction_lag_ms=SEGMENTS // 2)
    async with opened(path, small_segments, lag) as log:
        forget_indexes(log)
        async with indexes.counted():
            assert await log.compact(NOW + SEGMENTS)
        assert indexes.total > SEGMENTS // 2
        assert indexes.longest < INDEXES_AT_ONCE


async def test_a_lookup_of_the_largest_timestamp_reads_indexes_in_slices(path, indexes):
    async with opened(path, small_segments) as log:
        forget_indexes(log)
        async with indexes.counted():
            found = await look_up(log.max_timestamp(), TimeSlices(), HeavyWork())
        assert found == (SEGMENTS - 1, NOW + SEGMENTS - 1)
        assert indexes.total > SEGMENTS // 2
        assert indexes.longest < INDEXES_AT_ONCE


async def test_a_snapshot_of_producers_that_were_not_read(path, headers, monkeypatch):
    """The append after which it is due reads none of them."""
    sent = from_producer(5, 0, 0)

    def fill(log):
        log.append(sent, NOW)
        small_batches(2_000)(log)

    async with opened(path, fill) as log:
        monkeypatch.setattr(producer_state_manager, "_SNAPSHOT_BYTES", 1_000)
        saved = []
        monkeypatch.setattr(FileBacking, "save_producers", lambda _, saving: saved.append(saving))
        async with headers.counted():
            small_batches(6)(log)
            assert (headers.total, saved) == (0, [])
            while not saved:  # noqa: ASYNC110 - there is no event for a slice
                await asyncio.sleep(0)
        assert headers.longest < HEADERS_AT_ONCE
        assert log.append(sent, NOW).duplicate


class TestMeanwhile:
    """What happens to the log while its producers are read for a compaction."""

    @asynccontextmanager
    async def compacting(self, path, count=2_000):
        def fill(log):
            log.append(from_producer(5, 0, 0), NOW)
            small_batches(count)(log)

        async with opened(path, fill) as log:
            log._producers.forget()  # as where the snapshot is further behind
            log._backing.save_producers(b"")
            log.configure(LogConfig(cleanup_policy=COMPACTED.cleanup_policy, segment_bytes=5_000))
            log.append_encoded(RECORD, 1, NOW)
            compacted = asyncio.create_task(log.compact(NOW))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not log._producers.is_loaded
            yield log, compacted

    async def test_producer_appends_while_producers_are_read(self, path):
        async with self.compacting(path) as (log, compacted):
            log.append(from_producer(5, 0, 1), NOW)
            assert await compacted
            assert log.append(from_producer(5, 0, 1), NOW).duplicate
            assert log.append(from_producer(5, 0, 0), NOW).duplicate

    async def test_records_are_deleted_while_producers_are_read(self, path):
        async with self.compacting(path) as (log, compacted):
            log.trim(100)
            assert not await compacted
            assert await log.compact(NOW)
            assert records_of(log)[-1].offset == log.end_offset - 1

    async def test_log_is_closed_while_producers_are_read(self, path):
        async with self.compacting(path) as (log, compacted):
            log.end(ErrorCode.not_leader_or_follower)
            assert not await compacted

    async def test_second_compaction_while_producers_are_read(self, path):
        async with self.compacting(path) as (log, compacted):
            assert sorted([await log.compact(NOW), await compacted]) == [False, True]


@pytest.mark.parametrize("end", ["done", "stopped", "damaged"])
async def test_a_compaction_gives_its_memory_back(path, monkeypatch, end):
    maps = []

    class Observed(LatestOffsets):
        def __init__(self, most_keys):
            super().__init__(most_keys)
            maps.append(self._mapped)

        def update(self, offsets):
            if end == "stopped":
                log.end(ErrorCode.not_leader_or_follower)
            elif end == "damaged":
                raise OSError("the disk is gone")
            super().update(offsets)

    monkeypatch.setattr(compaction, "LatestOffsets", Observed)
    async with opened(path, small_batches(2_000)) as log:
        log.configure(LogConfig(cleanup_policy=COMPACTED.cleanup_policy, segment_bytes=5_000))
        log.append_encoded(RECORD, 1, NOW)
        if end == "damaged":
            with pytest.raises(OSError, match="gone"):
                await log.compact(NOW)
        else:
            assert await log.compact(NOW) == (end == "done")
        assert [each.closed for each in maps] == [True]
