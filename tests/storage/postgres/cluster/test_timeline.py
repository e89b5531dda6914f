"""A database that has gone back under a node: nothing is appended behind a hole."""

import asyncio

import pytest

from kohort.log.base import LogConfig
from kohort.storage.postgres.cluster.timeline import find_lost_logs
from log.conftest import NOW, ORDERS, ORDERS_ID, batch


async def test_a_topic_that_is_deleted_meanwhile_is_not_taken_to_be_lost(open_directory, sql):
    directory = open_directory()
    log = directory.open(ORDERS, LogConfig())
    log.append(batch(b"a"), NOW)
    await log.durable()

    class Slow:
        """A connection that takes longer than the deletion."""

        async def fetch(self, *arguments):
            directory.remove(ORDERS, ORDERS_ID)
            while await sql.fetchval("select exists (select from logs)"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            return await sql.fetch(*arguments)

    assert not await find_lost_logs(Slow(), [log])


async def test_tables_are_restored_on_the_same_connections(open_directory, sql):
    directory, lost = open_directory(), asyncio.Event()
    directory.fence.on_lost.append(lost.set)
    log = directory.open(ORDERS, LogConfig())
    log.append(batch(b"lost"), NOW)
    await log.durable()
    await sql.execute("alter table batches rename to away")
    log.append(batch(b"refused"), NOW)
    with pytest.raises(OSError, match="batches"):
        await log.durable()
    await sql.execute("delete from away; alter table away rename to batches")
    await directory.reopen()
    await lost.wait()
