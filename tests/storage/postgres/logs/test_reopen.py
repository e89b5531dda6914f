"""Logs as they are read from the tables again."""

import asyncio

import pytest

from kohort.errors import KafkaError, KohortError
from kohort.log.base import LogConfig
from kohort.storage.postgres import schema
from kohort.storage.postgres.fence import RECORDS
from log.conftest import (
    DAY,
    NOW,
    ORDERS,
    ORDERS_ID,
    batch,
    fill,
    from_producer,
    looked_up,
    records_of,
    values_of,
)
from storage.postgres.node_logs import NodeLogs

SMALL = LogConfig(segment_bytes=2_000)
LANES_LOCKED = "select from nodes where lane = any($1) for update"


def test_a_reopened_log_has_the_same_records_and_lookups(open_directory, reopened):
    directory = open_directory()
    log = directory.open(ORDERS, SMALL)
    fill(log, 100)
    log.trim(7)
    before = records_of(log)
    again = reopened(directory, SMALL)
    assert (again.start_offset, again.end_offset, again.high_watermark) == (7, 100, 100)
    assert records_of(again) == before
    assert again.size == log.size
    assert [segment.base_offset for segment in again.segments] == [
        segment.base_offset for segment in log.segments
    ]
    assert looked_up(again.offset_for_timestamp(NOW + 50)) == (50, NOW + 50)
    assert looked_up(again.max_timestamp()) == (99, NOW + 99)
    assert again.append(batch(b"next"), NOW).base_offset == 100
    assert values_of(again, 99)[1] == b"next"


async def test_producers_whose_batches_are_deleted(open_directory, reopened):
    directory = open_directory()
    log = directory.open(ORDERS, LogConfig(retention_ms=1_000))
    for at in range(3):
        log.append(from_producer(3, 2, at), NOW)
    await log.durable()
    assert await log.retain(NOW + 2_000)
    again = reopened(directory)
    assert again.append(from_producer(3, 2, 2), NOW).duplicate
    assert again.append(from_producer(3, 2, 3), NOW).base_offset == 3


async def test_a_server_that_is_gone_without_a_word(open_directory):
    """Another node reads what the first one has written, which never closed its logs."""
    log = open_directory(node=1).open(ORDERS, SMALL)
    fill(log, 100)
    log.append(from_producer(7, 0, 0, count=3), NOW)
    await log.durable()
    other = await read_by_another(open_directory, SMALL)
    assert await offsets_in(other) == list(range(103))
    assert other.append(from_producer(7, 0, 0, count=3), NOW).duplicate
    assert other.append(from_producer(7, 0, 3), NOW).base_offset == 103


async def read_by_another(open_directory, config):
    """The log as another node reads it, in a thread as when a server starts."""
    return await asyncio.to_thread(open_directory(node=2).open, ORDERS, config)


async def offsets_in(log):
    return [each.offset for each in await asyncio.to_thread(records_of, log)]


async def test_an_empty_log_keeps_its_end(open_directory, reopened):
    directory = open_directory()
    log = directory.open(ORDERS, LogConfig(retention_ms=1))
    fill(log, 10)
    await log.durable()
    assert await log.retain(NOW + DAY) == 1
    await log.written()
    again = reopened(directory)
    assert (again.start_offset, again.end_offset) == (10, 10)
    assert again.append(batch(b"a"), NOW).base_offset == 10


async def test_retention_deletes_rows(open_directory, sql):
    directory = open_directory()
    log = directory.open(ORDERS, LogConfig(segment_bytes=2_000, retention_bytes=4_000))
    fill(log, 100)
    await log.durable()
    assert await log.retain(NOW) > 3
    left = log.end_offset - log.start_offset
    await log.written()
    assert await sql.fetchval("select count(*) from batches") == left


async def test_a_start_reads_nothing_that_is_yet_to_be_removed(open_directory, reopened, sql):
    directory = open_directory()
    log = directory.open(ORDERS, LogConfig(segment_bytes=2_000, retention_bytes=4_000))
    fill(log, 100)
    await log.durable()
    assert await log.retain(NOW) > 3
    start, end, size = log.start_offset, log.end_offset, log.size
    await directory.released()
    assert await sql.fetchval("select min(base) from segments") < start
    again = reopened(directory, log.config)  # in the event loop, where nothing can be loaded
    assert (again.start_offset, again.end_offset) == (start, end)
    await again.retain(NOW)
    await again.written()
    assert await sql.fetchval("select min(base) from segments") == start
    assert again.size == size


async def test_compacted_records_stay_removed_for_the_next_leader(open_directory, sql):
    config = LogConfig(segment_bytes=20_000, cleanup_policy=frozenset({"compact"}))
    log = open_directory(node=1).open(ORDERS, config)
    for number in range(600):
        log.append(batch(bytes(100), key=b"%d" % (number % 5)), NOW)
    await log.durable()
    rows = await sql.fetchval("select count(*) from batches")
    assert await log.compact(NOW)
    await log.durable()
    assert await sql.fetchval("select count(*) from batches") < rows / 2
    left = await offsets_in(log)
    assert len(left) < 300
    assert await offsets_in(await read_by_another(open_directory, config)) == left


async def test_appends_in_flight_of_a_deleted_topic_leave_no_rows(open_directory, sql):
    """Its rows would belong to no log."""
    directory = open_directory()
    log = directory.open(ORDERS, LogConfig())
    fill(log, 1)
    await log.durable()
    async with sql.transaction():
        await sql.execute(LANES_LOCKED, RECORDS)
        fill(log, 1)
        while not await sql.fetchval("select exists (select from pg_locks where not granted)"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        directory.remove(ORDERS, ORDERS_ID)
        while await sql.fetchval("select exists (select from logs where state = 'live')"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    while await sql.fetchval("select exists (select from logs)"):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await sql.execute(LANES_LOCKED, RECORDS)
    assert await sql.fetchval("select count(*) from batches") == 0


def test_rows_that_are_missing_are_told(open_directory, postgres, database):
    directory = open_directory(cached_bytes=0)
    log = directory.open(ORDERS, LogConfig())
    for _ in range(10):
        log.append(batch(bytes(50_000)), NOW)
    directory.close()
    schema_name = database.rpartition("=")[2]
    log = open_directory(cached_bytes=0).open(ORDERS, LogConfig())
    postgres.execute(f"delete from {schema_name}.batches where base = 3")
    with pytest.raises(KafkaError, match="rows are missing"):
        values_of(log)


class TestSchema:
    def test_a_schema_of_a_later_version_is_refused(self, open_directory, postgres, database):
        open_directory().close()
        schema_name = database.rpartition("=")[2]
        postgres.execute(f"update {schema_name}.meta set version = {schema.VERSION + 1}")
        with pytest.raises(KohortError, match="start a later one"):
            NodeLogs(database)

    def test_tables_of_others_are_refused(self, postgres, database):
        schema_name = database.rpartition("=")[2]
        postgres.execute(f"create table {schema_name}.logs (line text)")
        with pytest.raises(KohortError, match="Kohort did not make"):
            NodeLogs(database)

    def test_a_schema_that_does_not_exist(self, postgres):
        with pytest.raises(KohortError, match="create one"):
            NodeLogs(f"{postgres.url}?search_path=nowhere")

    def test_a_role_that_may_not_read_the_tables(self, open_directory, postgres, database):
        open_directory().close()
        role = database.rpartition("=")[2]
        stranger = database.replace("kohort@", f"{role}@")
        postgres.execute(f"create role {role} login")
        with pytest.raises(KohortError, match=f"that the role {role} may use: create one, GRANT"):
            NodeLogs(stranger)
        postgres.execute(f"grant usage on schema {role} to {role}")
        with pytest.raises(KohortError, match=f"GRANT SELECT, UPDATE ON {role}.meta TO {role}"):
            NodeLogs(stranger)


def test_a_database_that_is_not_there():
    with pytest.raises(OSError, match="PostgreSQL cannot be reached"):
        NodeLogs("postgresql://kohort@127.0.0.1:1/postgres")
