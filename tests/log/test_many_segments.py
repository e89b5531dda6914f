"""Work over thousands of segments gives way to the event loop, and decides again after it did."""

import asyncio
import errno
import os
import shutil
from dataclasses import replace
from uuid import UUID

import pytest

from kohort.errors import ErrorCode
from kohort.log import partition, recovery
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.memory import MemoryDirectory
from kohort.log.recovery import LastEnd
from kohort.log.stores import OpenFiles
from kohort.util.time_slice import TimeSlices
from storage.postgres.node_logs import NodeLogs
from turns import BOUND_MS, cpu_ms, longest_turn_ms

from .conftest import NOW, ORDERS, ORDERS_ID, batch, records_of

SMALL = LogConfig(segment_bytes=130)
"""Each batch makes a segment of its own."""
COUNT = {"memory": 20_000, "local": 4_000, "postgres": 200}
"""Segments; as many as take some seconds to make."""


def fill(log, count):
    for at in range(count):
        log.append(batch(b"%030d" % at, key=b"%d" % (at % 7), timestamp=NOW + at), NOW)
    assert len(log.segments) == count


@pytest.fixture(params=["memory", "local", "postgres"])
def kind(request):
    return request.param


@pytest.fixture
def directory(kind, data, request, monkeypatch):
    if kind == "local":
        # Sealed segments are synced in the background, which takes the most time by far.
        monkeypatch.setattr("kohort.log.files.sync_all", lambda paths: None)
        made = LocalDirectory(data)
    elif kind == "postgres":
        made = NodeLogs(request.getfixturevalue("database"))
    else:
        made = MemoryDirectory()
    made.directories.make({ORDERS: ORDERS_ID})
    yield made
    made.close()


@pytest.fixture
async def log(directory, kind):
    log = directory.open(ORDERS, SMALL)
    fill(log, COUNT[kind])
    await log.durable()
    log.configure(replace(SMALL, segment_bytes=1 << 20))
    return log


@pytest.mark.parametrize("why", ["retention.ms", "retention.bytes", "DeleteRecords"])
async def test_retention_holds_up_nobody(log, why):
    count = len(log.segments)
    if why == "DeleteRecords":
        log.trim(count - 1)
    elif why == "retention.ms":
        log.configure(replace(log.config, retention_ms=0))
    else:
        log.configure(replace(log.config, retention_bytes=log.segments[-1].size))
    worst, deleted = await longest_turn_ms(log.retain(NOW + count - 1))
    print(f"{worst:.0f} ms")
    assert deleted == count - 1
    assert worst < BOUND_MS
    assert (log.start_offset, log.end_offset) == (count - 1, count)
    assert [record.offset for record in records_of(log)] == [count - 1]


async def test_compaction_holds_up_nobody(log):
    count = len(log.segments)
    log.configure(replace(log.config, cleanup_policy=frozenset({"compact"})))
    worst, compacted = await longest_turn_ms(log.compact(NOW + count))
    print(f"{worst:.0f} ms")
    assert compacted
    assert worst < BOUND_MS
    assert len(log.segments) < count / 50
    assert [record.offset for record in records_of(log)][-8:-1] == list(range(count - 8, count - 1))


def test_closing_holds_up_nobody(log):
    assert cpu_ms(lambda: log.end(ErrorCode.not_leader_or_follower)) < BOUND_MS


@pytest.mark.parametrize("kind", ["local"])
async def test_opening_again_holds_up_nobody(directory, log):
    count = len(log.segments)
    log.end(ErrorCode.kafka_storage_error)
    worst, _ = await longest_turn_ms(directory.reopen())
    print(f"{worst:.0f} ms")
    assert worst < BOUND_MS
    again = directory.open(ORDERS, SMALL)
    assert again is not log
    assert [record.offset for record in records_of(again)] == [*range(count)]


class Slow(TimeSlices):
    """Each slice has time for one step, so that others get their turn after each."""

    is_over = True


class TestMeanwhile:
    """What a pass found before it gave way may have changed."""

    @pytest.fixture(autouse=True)
    def slow(self, monkeypatch):
        monkeypatch.setattr(partition, "TimeSlices", Slow)

    @pytest.fixture
    async def log(self, directory):
        log = directory.open(ORDERS, SMALL)
        fill(log, 30)
        await log.durable()
        log.configure(replace(SMALL, segment_bytes=1 << 20))
        return log

    async def retaining(self, log, *, until):
        """The pass that deletes all segments, at the moment when so many are left."""
        log.configure(replace(log.config, retention_ms=0))
        retaining = asyncio.ensure_future(log.retain(NOW + 1_000))
        while len(log.segments) > until:  # noqa: ASYNC110 - there is no event for a slice
            await asyncio.sleep(0)
        assert len(log.segments) == until
        return retaining

    async def test_every_state_is_one_that_readers_may_see(self, log):
        log.configure(replace(log.config, retention_ms=0))
        retaining = asyncio.ensure_future(log.retain(NOW + 1_000))
        seen = set()
        while not retaining.done():
            await asyncio.sleep(0)
            seen.add(log.start_offset)
            assert [record.offset for record in records_of(log)] == [*range(log.start_offset, 30)]
        assert await retaining == 30
        assert seen >= {*range(1, 31)}

    async def test_a_segment_that_comes_meanwhile_stays(self, log):
        retaining = await self.retaining(log, until=2)
        log.append(batch(b"new", timestamp=NOW + 1_000), NOW + 1_000)
        await log.durable()
        await retaining
        assert records_of(log)[-1].value == b"new"

    async def test_the_configs_of_now_count(self, log):
        retaining = await self.retaining(log, until=20)
        log.configure(replace(log.config, retention_ms=-1))
        assert await retaining == 10
        assert (log.start_offset, len(log.segments)) == (10, 20)

    async def test_two_retention_passes_at_once(self, log):
        first = await self.retaining(log, until=20)
        assert sum(await asyncio.gather(first, log.retain(NOW + 1_000))) == 30
        assert (log.start_offset, log.end_offset, log.size) == (30, 30, 0)

    async def test_a_topic_that_is_deleted_and_made_again(self, directory, log):
        retaining = await self.retaining(log, until=20)
        directory.remove(ORDERS, ORDERS_ID)
        directory.directories.make({ORDERS: UUID(int=8)})
        again = directory.open(ORDERS, SMALL)
        fill(again, 30)
        assert await retaining == 10
        assert [record.offset for record in records_of(again)] == [*range(30)]

    async def test_a_compaction_at_the_same_time(self, log):
        log.configure(replace(log.config, cleanup_policy=frozenset({"compact", "delete"})))
        retaining = await self.retaining(log, until=25)
        log.configure(replace(log.config, retention_ms=-1))
        log.trim(20)
        await asyncio.gather(retaining, log.compact(NOW), log.retain(NOW))
        await log.retain(NOW)
        assert [record.offset for record in records_of(log)][-1] == 29
        assert (log.start_offset, log.end_offset) == (20, 30)


class TestCrash:
    """A process that ends between two slices leaves a log that the next one opens."""

    @pytest.fixture
    def kind(self):
        return "local"

    @pytest.mark.parametrize("left", [*range(0, 40, 3)])
    async def test_a_retention_that_crashed_after_any_number_of_files_can_be_reopened(
        self, directory, data, monkeypatch, left
    ):
        log = directory.open(ORDERS, SMALL)
        fill(log, 20)
        unlink, calls = os.unlink, []

        def fail_later(path, *, dir_fd=None):
            calls.append(path)
            if len(calls) > left:
                raise OSError(errno.EIO, "the machine is gone")
            unlink(path, dir_fd=dir_fd)

        log.configure(replace(log.config, retention_ms=0))
        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", fail_later)
            with pytest.raises(OSError, match="gone"):
                await log.retain(NOW + 1_000)
        for last_end in (LastEnd.KILLED, LastEnd.CRASHED):
            path = data.with_name(last_end.name)
            shutil.copytree(data / "orders-0", path / "orders-0")
            segments, checkpoint = recovery.load(
                f"{path}/orders-0",
                OpenFiles(),
                4096,
                recovery.RecoveryContext(last_end=last_end, topic_partition="orders-0"),
            )
            assert (checkpoint.start_offset, segments[-1].end_offset) == (20, 20)
            for segment in segments:
                segment.close()

        # What is left goes with the next segments, the oldest first.
        log.append(batch(b"a"), NOW)
        assert await log.retain(NOW + 1_000)
        assert sorted(data.glob("orders-0/*.log")) == [data / f"orders-0/{21:020}.log"]
