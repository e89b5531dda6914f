"""A database that has gone back under a server that is alone: nothing is appended behind a hole."""

import asyncio
import logging
import signal

import pytest

from kohort.errors import KohortError
from kohort.log.base import LogConfig
from kohort.log.postgres.directory import PostgresDirectory
from kohort.log.postgres.history import find_lost
from kohort.types import TopicPartition
from log.conftest import NOW, ORDERS, ORDERS_ID, batch, values_of
from peers.postgres import Backup

LOST = "the database has lost what was acknowledged from offset"
METADATA = TopicPartition("metadata", 0)


class Server:
    """The logs of a server, which is told when it is to end."""

    def __init__(self, url):
        self.directory = PostgresDirectory(url)
        self.lost = asyncio.Event()
        self.directory.on_lost.append(self.lost.set)
        if not self.directory.directories.is_taken(ORDERS):
            self.directory.directories.make({ORDERS: ORDERS_ID, METADATA: ORDERS_ID})
        self.log = self.directory.open(ORDERS, LogConfig())
        self.metadata = self.directory.open(METADATA, LogConfig(), synced_by_owner=True)

    async def append(self, value):
        self.log.append(batch(value), NOW)
        await self.log.durable()

    async def change(self, value):
        """Append to the log that its owner syncs."""
        self.metadata.append(batch(value), NOW)
        await asyncio.to_thread(self.metadata.sync, self.metadata.unsynced())

    async def ended(self):
        await self.lost.wait()
        await asyncio.to_thread(self.directory.close)


async def started(primary):
    return await asyncio.to_thread(Server, primary.url)


async def values_at_next_start(primary):
    """What a later server has, and the epoch in which it goes on."""
    later = await started(primary)
    values = await asyncio.to_thread(values_of, later.log)
    epoch = later.log.leader_epoch
    await asyncio.to_thread(later.directory.close)
    return values, epoch


@pytest.mark.parametrize("promoted", [True, False])
async def test_what_was_acknowledged_is_lost(primary, promoted, caplog):
    backup, server = Backup(primary), await started(primary)
    await server.append(b"a")
    await asyncio.to_thread(backup.take)
    await server.append(b"lost")
    await server.append(b"too")
    with caplog.at_level(logging.ERROR, logger="kohort.log"):
        await asyncio.to_thread(backup.restore, promoted=promoted)
        with pytest.raises((OSError, KohortError)):
            await server.append(b"b")
        await server.ended()
    told = [each.getMessage() for each in caplog.records]
    assert f"orders-0: {LOST} 1 to 2, as after a failover to a standby that lagged behind" in told
    assert any("start this server again" in text for text in told)
    assert not any(text.startswith("metadata-0") for text in told)
    assert primary.execute("select base, next from batches") == ["0|1"]
    assert await values_at_next_start(primary) == ([b"a"], 1)


async def test_a_server_that_writes_nothing_notices(primary):
    backup, server = Backup(primary), await started(primary)
    server.directory.confirm_start()
    await asyncio.to_thread(backup.take)
    await server.append(b"lost")
    await asyncio.to_thread(backup.restore)
    await server.ended()
    assert await values_at_next_start(primary) == ([], 1)


async def test_changes_of_topics_are_lost(primary):
    backup, server = Backup(primary), await started(primary)
    await server.change(b"a")
    await asyncio.to_thread(backup.take)
    await server.change(b"lost")
    await asyncio.to_thread(backup.restore)
    with pytest.raises(OSError, match="start this server again"):
        await server.change(b"b")
    await server.ended()
    assert primary.execute("select base, next from batches") == ["0|1"]


@pytest.mark.parametrize("restarts", [False, True])
async def test_only_a_deletion_is_lost(primary, restarts):
    """A database that restarts has replayed WAL of its own, which is longer than what was lost."""
    backup, server = Backup(primary), await started(primary)
    await server.append(b"a")
    await asyncio.to_thread(backup.take)
    server.log.trim(1)
    await server.log.durable()
    await asyncio.to_thread(backup.restore)
    if restarts:
        primary.execute("select pg_logical_emit_message(true, '', repeat('x', 40000000))")
        await asyncio.to_thread(primary.restart)
    with pytest.raises((OSError, KohortError)):
        await server.append(b"b")
    await server.ended()
    assert await values_at_next_start(primary) == ([b"a"], 0)


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

    assert not await find_lost(Slow(), [log])


async def test_tables_are_restored_on_the_same_connections(open_directory, sql):
    directory, lost = open_directory(), asyncio.Event()
    directory.on_lost.append(lost.set)
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


async def test_changes_that_wait_for_a_restart_are_not_taken_to_be_lost(primary):
    server = await started(primary)
    await server.change(b"a")
    primary.end(signal.SIGINT)
    changing = asyncio.create_task(server.change(b"b"))
    await server_waits(server)
    await asyncio.to_thread(primary.run)
    await changing
    await server.append(b"c")
    await asyncio.to_thread(server.directory.close)
    assert primary.execute("select base, next from batches order by log, base") == [
        "0|1",
        "0|1",
        "1|2",
    ]


async def server_waits(server):
    while server.metadata.end_offset < 2:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)


async def test_a_standby_that_lacks_nothing_is_gone_on_with(primary):
    with await asyncio.to_thread(primary.standby) as standby:
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        url = f"postgresql://kohort@{hosts}/postgres?target_session_attrs=read-write"
        server = await asyncio.to_thread(Server, url)
        await server.change(b"a")
        await server.append(b"a")
        await server.append(b"b")
        server.log.trim(1)
        await server.log.durable()
        await asyncio.to_thread(primary.end)
        await asyncio.to_thread(standby.promote)
        await server.append(b"c")
        await server.change(b"b")
        assert values_of(server.log) == [b"b", b"c"]
        assert not server.lost.is_set()
        await asyncio.to_thread(server.directory.close)
        assert await values_at_next_start(standby) == ([b"b", b"c"], 0)
