"""A process that was replaced writes nothing, and two do not serve as one node."""

import asyncio
from urllib.parse import quote
from uuid import UUID

import asyncpg
import pytest

from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log.base import LogConfig
from kohort.log.postgres.directory import PostgresDirectory
from kohort.log.postgres.fence import LOCK, STATE
from kohort.log.postgres.writer import INSERT
from log.conftest import NOW, ORDERS, ORDERS_ID, batch, values_of

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
    directory.on_lost.append(lambda: lost.append(True))
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


async def test_a_server_whose_lease_was_over_writes_nothing_beside_another(open_directory, sql):
    """As one that hung for longer than its lease, while one with another id was started."""
    log = open_directory(node=1, exclusive=True).open(ORDERS, LogConfig())
    log.append(batch(b"a"), NOW)
    await log.durable()
    await sql.execute("update nodes set lease_until = now()")
    await asyncio.to_thread(open_directory, node=2, exclusive=True)
    log.append(batch(b"b"), NOW)
    with pytest.raises((KafkaError, KohortError)):
        await log.durable()
    assert await sql.fetchval("select count(*) from batches") == 1


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
async def test_one_of_two_servers_starts(database, sql, isolation):
    """Whatever the database or the role has as the default of transactions."""
    url = f"{database}&default_transaction_isolation={quote(isolation)}"
    async with sql.transaction():
        await sql.execute(BEGINNING, LOCK)
        starting = [
            asyncio.to_thread(PostgresDirectory, url, node=node, exclusive=True) for node in (1, 2)
        ]
        results = asyncio.gather(*starting, return_exceptions=True)
        while await sql.fetchval("select count(*) from pg_locks where not granted") < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    served = [each for each in await results if isinstance(each, PostgresDirectory)]
    for each in served:
        await asyncio.to_thread(each.close)
    assert len(served) == 1


async def test_so_does_one_whose_lease_is_taken(open_directory, sql):
    directory = open_directory()
    directory.confirm_start()
    log = directory.open(ORDERS, LogConfig())
    await sql.execute(TAKE_OVER)
    lost = asyncio.Event()
    directory.on_lost.append(lost.set)
    await lost.wait()
    with pytest.raises(KafkaError):
        log.ensure_open()


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


@pytest.mark.parametrize(
    "change",
    [
        lambda places: places.make({ORDERS: UUID(int=8)}),
        lambda places: places.set_aside(ORDERS),
    ],
    ids=["make", "set aside"],
)
async def test_a_server_that_was_replaced_takes_no_log_from_another(open_directory, sql, change):
    directory = open_directory()
    lost = []
    directory.on_lost.append(lambda: lost.append(True))
    await sql.execute(TAKE_OVER)
    with pytest.raises(OSError, match="another process"):
        await asyncio.to_thread(change, directory.directories)
    assert lost == [True]
    assert await sql.fetchval("select topic_id from logs where state = 'live'") == ORDERS_ID


def test_a_node_is_served_by_one_process(open_directory, database):
    open_directory(node=3)
    with pytest.raises(KohortError, match="another process serves as node 3"):
        open_directory(node=3)
    open_directory(node=4)


async def test_a_lock_that_was_lost_is_logged(open_directory, sql, caplog):
    directory = open_directory()
    await sql.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where application_name = 'kohort node 1 control'"
    )
    while "the connection that holds this node's lock was lost" not in caplog.text:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    directory.close()


async def test_a_node_whose_process_has_lost_its_lock_is_not_free(open_directory, sql):
    """As when a firewall has ended that connection alone."""
    directory = open_directory(node=3)
    directory.confirm_start()
    await sql.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where application_name = 'kohort node 3 control'"
    )
    with pytest.raises(KohortError, match="another process serves as node 3"):
        await asyncio.to_thread(open_directory, node=3)


def test_a_node_that_has_ended_is_free_at_once(open_directory):
    first = open_directory()
    log = first.open(ORDERS, LogConfig())
    log.append(batch(b"a"), NOW)
    first.close()
    assert values_of(open_directory().open(ORDERS, LogConfig())) == [b"a"]


async def test_what_waits_for_a_server_that_was_replaced_is_told_to_ask_another(
    open_directory, sql
):
    log = open_directory().open(ORDERS, LogConfig())
    log.append(batch(b"a"), NOW)
    await log.durable()
    await sql.execute(TAKE_OVER)
    log.trim(1)
    with pytest.raises(KafkaError) as refused:
        await log.durable()
    assert refused.value.code is ErrorCode.not_leader_or_follower
