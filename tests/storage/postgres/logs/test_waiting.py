"""What the durability of a log waits for, and what it does not."""

import asyncio
from uuid import UUID

import pytest

from kohort.log.base import LogConfig
from kohort.storage.postgres.fence import RECORDS
from kohort.storage.postgres.logs.operations import Operation
from kohort.types import TopicPartition
from log.conftest import NOW, ORDERS, ORDERS_ID, fill, values_of
from storage.postgres.conftest import waiting

SMALL = LogConfig(segment_bytes=2_000)
COMPACTED = LogConfig(segment_bytes=2_000, cleanup_policy=frozenset({"compact"}))
OTHER = TopicPartition("orders", 1)


@pytest.fixture
async def pair(open_directory):
    """A directory, and two logs with some records."""
    directory = open_directory()
    directory.directories.make({OTHER: UUID(int=8)})
    logs = [directory.open(each, SMALL) for each in (ORDERS, OTHER)]
    for log in logs:
        fill(log, 100)
        await log.written()
    return directory, *logs


@pytest.mark.parametrize("table", ["logs", "segments", "batches"])
async def test_other_logs_do_not_wait_for_removals(pair, sql, table):
    directory, log, other = pair
    held = {"logs": "id", "segments": "log", "batches": "log"}[table]
    async with asyncio.timeout(60), sql.transaction():
        await sql.execute(f"select from {table} where {held} = $1 for update", log.number)
        directory.remove(ORDERS, ORDERS_ID)
        await waiting(sql)
        fill(other, 100, first=100)
        other.trim(150)
        await other.durable()
        await other.written()
        assert len(values_of(other)) == 50
    while await sql.fetchval(f"select exists (select from {table} where {held} = {log.number})"):  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_a_deletion_waits_for_few_segments(pair, sql):
    """Retention may delete thousands of them."""
    _, log, other = pair
    log.configure(LogConfig(segment_bytes=2_000, retention_bytes=4_000))
    second = log.segments[1].base_offset
    async with asyncio.timeout(60), sql.transaction():
        await sql.execute(
            "select from segments where log = $1 and base = $2 for update", log.number, second
        )
        assert await log.retain(NOW) > 3
        for each in (log, other):
            each.trim(95)
        await asyncio.gather(log.durable(), other.durable())
        await waiting(sql)
        for each in (log, other):
            fill(each, 10, first=100)
            await each.durable()
    await log.written()
    assert await sql.fetchval("select min(base) from segments where log = $1", log.number) > second


async def test_no_append_waits_for_a_compaction(pair, sql):
    _, log, _ = pair
    log.configure(COMPACTED)
    async with sql.transaction():
        await sql.execute("select from segments where log = $1 for update", log.number)
        compacting = asyncio.ensure_future(log.compact(NOW))
        await waiting(sql)
        async with asyncio.timeout(60):
            fill(log, 10, first=100)
            await log.durable()
        assert not compacting.done()
    assert await compacting


async def test_an_awaited_operation_is_run_first(open_directory):
    operations = open_directory()._session.operations
    done, begin = [], asyncio.Event()

    async def appended():
        await begin.wait()

    def add(log):
        async def work(connection):
            done.append(log)

        return operations.add(Operation(log, f"operation of {log}", work, appended))

    first, last, _ = [add(log) for log in (1, 2, 3)], add(1), add(4)
    assert not operations.is_settled(4)
    waiting = [asyncio.ensure_future(each) for each in (operations.settled(4), first[2].done())]
    await asyncio.sleep(0)
    begin.set()
    await asyncio.gather(*waiting, last.done())
    assert done == [1, 4, 2, 3, 1]


async def test_written_does_not_wait_for_later_appends(open_directory, sql):
    """A log may have appends that are to be written at all times."""
    log = open_directory().open(ORDERS, SMALL)
    async with sql.transaction():
        await sql.execute("select from nodes where lane = any($1) for update", list(RECORDS))
        fill(log, 30)  # some segments
        await waiting(sql)
        written = asyncio.ensure_future(log.written())
        await asyncio.sleep(0)
        fill(log, 1, first=30)
    async with asyncio.timeout(60):
        await written
