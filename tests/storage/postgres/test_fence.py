"""A process that was replaced writes nothing, and two do not serve as one node."""

import asyncio

import asyncpg
import pytest

from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log.base import LogConfig
from kohort.storage.postgres.fence import STATE
from kohort.storage.postgres.logs.writer import INSERT
from log.conftest import NOW, ORDERS, batch

BEGINNING = "select pg_advisory_xact_lock($1, hashtext(current_schema() || ' sessions'))"
TAKE_OVER = "update nodes set session = session + 1"


async def insert(connection, statement):
    """Append one batch as lane `STATE` of node 1, in its first session."""
    return await connection.execute(
        statement, 1, STATE, 1, [7], [0], [1], [0], [NOW], [batch(b"a")]
    )


async def committed_after_take_over(sql, database, statement):
    """Whether an append that was in flight during a take-over is committed after it."""
    other = await asyncpg.connect(database)
    try:
        appending = other.transaction()
        await appending.start()
        assert await insert(other, statement) == "INSERT 0 1"
        await sql.execute("set lock_timeout = '100ms'")
        try:
            await sql.execute(TAKE_OVER)
            taken_over = True
        except asyncpg.LockNotAvailableError:
            taken_over = False
        await appending.commit()
        return taken_over
    finally:
        await other.close()


async def test_a_take_over_waits_for_appends_in_flight(open_directory, sql, database):
    open_directory()
    assert not await committed_after_take_over(sql, database, INSERT)


async def test_without_the_lock_it_would_not(open_directory, sql, database):
    open_directory()
    unlocked = INSERT.replace(" for share", "")
    assert unlocked != INSERT
    assert await committed_after_take_over(sql, database, unlocked)


async def test_an_append_after_a_take_over_inserts_nothing(open_directory, sql):
    open_directory()
    await sql.execute(TAKE_OVER)
    assert await insert(sql, INSERT) == "INSERT 0 0"


async def test_an_append_that_waits_for_a_take_over_inserts_nothing(open_directory, sql, database):
    open_directory()
    other = await asyncpg.connect(database)
    taking = sql.transaction()
    await taking.start()
    await sql.execute(TAKE_OVER)
    appending = asyncio.ensure_future(insert(other, INSERT))
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and pid = $1"
    while not await sql.fetchval(waiting, other.get_server_pid()):
        await asyncio.sleep(0.005)
        await sql.execute("select pg_stat_clear_snapshot()")
    await taking.commit()
    assert await appending == "INSERT 0 0"
    await other.close()


async def test_a_server_that_was_replaced_ends_its_logs(open_directory, sql):
    directory = open_directory()
    lost = []
    directory.fence.on_lost.append(lambda: lost.append(True))
    log = directory.open(ORDERS, LogConfig())
    log.append(batch(b"a"), NOW)
    await log.durable()
    await sql.execute(TAKE_OVER)
    log.append(batch(b"b"), NOW)
    with pytest.raises(KohortError):
        await log.durable()
    assert lost == [True]
    with pytest.raises(KafkaError) as refused:
        log.append(batch(b"c"), NOW)
    assert refused.value.code is ErrorCode.not_leader_or_follower
    assert await sql.fetchval("select count(*) from batches") == 1


async def test_operations_are_fenced(open_directory, sql):
    directory = open_directory()
    log = directory.open(ORDERS, LogConfig())
    log.append(batch(b"a"), NOW)
    await log.durable()
    await sql.execute(TAKE_OVER)
    log.trim(1)
    with pytest.raises(KohortError):
        await log.durable()
    assert await sql.fetchval("select max(start_offset) from logs") == 0


async def test_waiters_of_a_replaced_server_get_not_leader_or_follower(open_directory, sql):
    log = open_directory().open(ORDERS, LogConfig())
    log.append(batch(b"a"), NOW)
    await log.durable()
    await sql.execute(TAKE_OVER)
    log.trim(1)
    with pytest.raises(KafkaError) as refused:
        await log.durable()
    assert refused.value.code is ErrorCode.not_leader_or_follower
