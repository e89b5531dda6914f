"""Connections that end, and a database that is away: nothing acknowledged is lost, none doubled."""

import asyncio
import contextlib
import signal

import asyncpg
import pytest

from gate import SlowCall
from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import LogConfig
from kohort.storage.postgres.cluster import shared_directory
from kohort.storage.postgres.fence import lane_of
from kohort.storage.postgres.logs import backing
from kohort.storage.postgres.logs.writer import MAX_STATEMENT_BYTES
from kohort.types import TopicPartition
from log.conftest import NOW, ORDERS, ORDERS_ID, batch, fill, records_of, values_of
from peers.postgres import Postgres
from storage.postgres.conftest import waiting
from storage.postgres.node_logs import NodeLogs
from waiting import until

TINY = LogConfig(segment_bytes=500)
"""A segment has a batch of `fill`, or two."""
LOGS = [TopicPartition("orders", number) for number in range(6)]
TERMINATE = (
    "select pg_terminate_backend(pid) from pg_stat_activity "
    "where application_name like 'kohort node%lane%' and state = 'active'"
)


class Producing:
    """Appends to many logs as fast as they are acknowledged."""

    def __init__(self, directory):
        directory.directories.make(dict.fromkeys(LOGS, ORDERS_ID))
        self.logs = [directory.open(partition, LogConfig()) for partition in LOGS]
        self.acknowledged = {partition: [] for partition in LOGS}
        self._ending = False

    async def run(self, log):
        number = 0
        while not self._ending:
            value = b"%d" % number
            number += 1
            log.append(batch(value), NOW)
            await log.durable()
            self.acknowledged[log.topic_partition].append(value)

    async def __aenter__(self):
        self._tasks = [asyncio.ensure_future(self.run(log)) for log in self.logs]
        return self

    async def __aexit__(self, *_):
        self._ending = True
        await asyncio.gather(*self._tasks)

    @property
    def count(self):
        return sum(map(len, self.acknowledged.values()))

    async def go_on(self, more=50):
        """Return when so many appends more are acknowledged."""
        end = self.count + more
        while self.count < end:
            await asyncio.sleep(0.001)
            for task in self._tasks:
                if task.done():
                    task.result()


async def assert_all_there(url, produced):
    """A later server finds every acknowledged record once, in order."""
    directory = await asyncio.to_thread(NodeLogs, url, node=2)
    for log in LOGS:
        opened = await asyncio.to_thread(directory.open, log, LogConfig())
        found = await asyncio.to_thread(values_of, opened)
        assert found == produced.acknowledged[log]
    directory.close()


async def test_backends_that_are_terminated_in_flight(open_directory, database, postgres):
    produced = Producing(open_directory())
    operator = await asyncpg.connect(postgres.url)
    ended = 0
    async with produced:
        while ended < 30:
            await produced.go_on(10)
            ended += len(await operator.fetch(TERMINATE))
    await operator.close()
    await assert_all_there(database, produced)


async def test_a_database_that_crashes_and_restarts(tmp_path):
    with await asyncio.to_thread(Postgres.start, fsync=True) as cluster:
        url = cluster.new_schema()
        directory = await asyncio.to_thread(NodeLogs, url)
        produced = Producing(directory)
        async with produced:
            for how in (signal.SIGQUIT, signal.SIGINT, signal.SIGQUIT):
                await produced.go_on(30)
                await asyncio.to_thread(cluster.restart, how)
                await produced.go_on(30)
        await assert_all_there(url, produced)
        directory.close()


async def test_a_statement_whose_answer_was_lost_is_not_repeated(open_directory, sql):
    """The row is there when the lane looks again after its connection has ended."""
    directory = open_directory()
    log = directory.open(ORDERS, LogConfig())
    log.append(batch(b"a"), NOW)
    await log.durable()
    await sql.execute(TERMINATE.replace("and state = 'active'", ""))
    for value in (b"b", b"c"):
        log.append(batch(value), NOW)
        await log.durable()
    assert values_of(log) == [b"a", b"b", b"c"]
    assert await sql.fetchval("select count(*) from batches") == 3


async def test_a_batch_behind_a_refused_one_is_not_written(open_directory, sql):
    """A batch that was appended while the refused one was in flight would leave a hole."""
    directory = open_directory()
    log = directory.open(ORDERS, LogConfig())
    log.append(batch(b"a"), NOW)
    await log.durable()
    await sql.execute("alter table batches add constraint small check (octet_length(data) < 500)")
    async with sql.transaction():
        await sql.execute("lock table batches in access exclusive mode")
        log.append(batch(bytes(1000)), NOW)
        refused = asyncio.create_task(log.durable())
        await asyncio.sleep(0.2)  # the statement waits for the table
        log.append(batch(b"behind"), NOW)
        behind = asyncio.create_task(log.durable())
        await asyncio.sleep(0)
    for task in (refused, behind):
        with pytest.raises((OSError, KafkaError)):
            await task
    opened = []
    directory.on_reopened.append(opened.append)
    await directory.reopen()
    (again,) = opened
    assert again.end_offset == 1
    again.append(batch(b"b"), NOW)
    await again.durable()
    assert [tuple(row) for row in await sql.fetch("select base, next from batches order by 1")] == [
        (0, 1),
        (1, 2),
    ]


async def test_a_refused_batch_takes_the_log_offline_until_it_is_reopened(open_directory, sql):
    directory = open_directory()
    log = directory.open(ORDERS, LogConfig())
    log.append(batch(b"a"), NOW)
    await log.durable()
    await sql.execute("alter table batches add constraint small check (octet_length(data) < 500)")
    log.append(batch(bytes(1000)), NOW)
    with pytest.raises(OSError, match="small"):
        await log.durable()
    with pytest.raises(KafkaError) as refused:
        log.append(batch(b"b"), NOW)
    assert refused.value.code is ErrorCode.kafka_storage_error
    with pytest.raises(KafkaError):
        await log.durable()
    assert directory.problems.texts(9)
    opened = []
    directory.on_reopened.append(opened.append)
    await directory.reopen()
    (again,) = opened
    assert again.end_offset == 1
    again.append(batch(b"b"), NOW)
    await again.durable()
    assert [record.value for record in records_of(again, 1)] == [b"b"]
    assert not directory.problems.texts(9)


async def test_a_release_writes_nothing_behind_what_was_refused(open_directory, sql, monkeypatch):
    """While other logs of the lane are still written."""
    monkeypatch.setattr(shared_directory, "RELEASE_TIMEOUT_S", 60)
    directory = open_directory()
    log, _, other = (directory.open(partition, LogConfig()) for partition in LOGS[:3])
    assert lane_of("orders", log.number) == lane_of("orders", other.number)
    await sql.execute("alter table batches add check (octet_length(data) < 1000000)")
    async with sql.transaction():
        # The other log waits for the end of this.
        await sql.execute("insert into batches values ($1, 0, 1, 0, 0, '')", other.number)
        log.append(batch(bytes(MAX_STATEMENT_BYTES - 1000)), NOW)
        other.append(batch(bytes(10_000)), NOW)
        await waiting(sql)
        log.append(batch(b"behind"), NOW)
        releasing = [asyncio.ensure_future(directory.release(LOGS[at])) for at in (0, 2)]
        await asyncio.sleep(0)
        await sql.execute("delete from batches")
    refused, _ = await asyncio.gather(*releasing, return_exceptions=True)
    assert "check constraint" in str(refused)
    assert [row["log"] for row in await sql.fetch("select log from batches")] == [other.number]


async def test_a_segment_with_refused_batches_is_not_stored(open_directory, sql):
    """A segment that is full is stored behind its batches, some of which never will be there."""
    directory = open_directory()
    log, other = (directory.open(partition, TINY) for partition in LOGS[:2])
    fill(other, 2)
    await other.durable()
    await sql.execute("alter table batches add check (base < 3)")
    async with sql.transaction():
        await sql.execute("lock table batches in share mode")
        fill(log, 3)
        await waiting(sql)
        fill(log, 20, first=3)
    with pytest.raises(OSError, match="check"):
        await log.durable()
    while not log.can_reopen:  # noqa: ASYNC110 - its operations go on
        await asyncio.sleep(0.01)
    again = await asyncio.to_thread(open_directory(node=2).open, ORDERS, TINY)
    assert again.end_offset == 3
    assert len(await asyncio.to_thread(records_of, again)) == 3


async def test_a_segment_that_is_refused_hides_no_batches(open_directory, sql):
    """Without its row in the table of segments nobody would read its batches."""
    directory = open_directory()
    await sql.execute("alter table segments add constraint later check (base > 0)")
    acknowledged = []
    for number in range(40):
        if number == 20:
            await sql.execute("alter table segments drop constraint later")
            while directory.problems.texts(9):  # operations of the log may be under way
                await directory.reopen()
                await asyncio.sleep(0.01)
        with contextlib.suppress(OSError, KafkaError):
            log = directory.open(ORDERS, TINY)
            log.append(batch(b"%d" % number + bytes(100)), NOW)
            await log.durable()
            acknowledged.append(number)
            await log.written()
    assert acknowledged[-1] == 39
    again = await asyncio.to_thread(open_directory(node=2).open, ORDERS, TINY)
    values = await asyncio.to_thread(values_of, again)
    found = [int(value.rstrip(b"\0")) for value in values]
    assert sorted({*acknowledged} - {*found}) == []


async def test_a_deletion_that_is_refused_is_not_told_to_be_done_later(open_directory, sql):
    directory = open_directory()
    log = directory.open(ORDERS, LogConfig())
    fill(log, 2)
    await log.durable()
    await sql.execute("alter table logs add constraint kept check (start_offset = 0)")
    for _ in range(2):
        log.trim(1)
        with pytest.raises(OSError, match="kept"):
            await log.durable()
        await directory.reopen()
        log = directory.open(ORDERS, LogConfig())
    assert log.start_offset == 0


async def test_a_compaction_of_a_log_that_was_closed_changes_nothing(
    open_directory, sql, monkeypatch
):
    """Another node may lead the partition by the time at which its thread comes to the tables."""
    config = LogConfig(segment_bytes=20_000, cleanup_policy=frozenset({"compact"}))
    log = open_directory().open(ORDERS, config)
    for number in range(300):
        log.append(batch(bytes(100), key=b"%d" % (number % 5)), NOW)
    await log.durable()
    slow = SlowCall(monkeypatch, backing, "packed")
    compacting = asyncio.create_task(log.compact(NOW))
    await slow.reached()
    log.close()
    await log.written()
    slow.open()
    assert not await compacting
    await log.written()
    assert await sql.fetchval("select count(*) from batches") == 300


async def test_a_database_that_is_away(tmp_path):
    """Appends wait, and are refused once too much waits; then all goes on."""
    with await asyncio.to_thread(Postgres.start) as cluster:
        directory = await asyncio.to_thread(NodeLogs, cluster.new_schema())
        directory.directories.make({ORDERS: ORDERS_ID})
        log = directory.open(ORDERS, LogConfig())
        log.append(batch(b"a"), NOW)
        await log.durable()
        cluster.end()
        with pytest.raises(OSError, match="too much"):
            append_without_end(log)
        assert log.high_watermark == 1
        waiting = asyncio.ensure_future(log.durable())
        while not directory.problems.texts(9):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert "rejects writes" in directory.problems.texts(9)[0]
        await asyncio.to_thread(cluster.run)
        await waiting
        assert log.high_watermark == log.end_offset
        assert not directory.problems.texts(9)
        log.append(batch(b"b"), NOW)
        await log.durable()
        directory.close()


def append_without_end(log):
    while True:
        log.append(batch(bytes(1_000_000)), NOW)


async def test_a_release_writes_what_is_left(open_directory):
    directory = open_directory()
    log = directory.open(ORDERS, LogConfig())
    for number in range(50):
        log.append(batch(b"%d" % number), NOW)
    await directory.release(ORDERS)
    other = open_directory(node=2)
    again = await asyncio.to_thread(other.open, ORDERS, LogConfig())
    assert again.end_offset == 50


KEPT = "alter table logs add constraint kept check (state <> 'removed')"


async def refused_mark(directory, sql, caplog):
    """Delete a topic; return when the database has refused to mark its log."""
    fill(directory.open(ORDERS, LogConfig()), 2)
    await directory.open(ORDERS, LogConfig()).durable()
    await sql.execute(KEPT)
    directory.remove(ORDERS, ORDERS_ID)
    while "removing deleted partitions failed" not in caplog.text:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await sql.execute("alter table logs drop constraint kept")


async def test_the_removal_of_a_topic_that_was_refused_is_tried_again(open_directory, sql, caplog):
    directory = open_directory()
    await refused_mark(directory, sql, caplog)
    await directory.retain(NOW)
    for table in ("logs", "batches"):
        while await sql.fetchval(f"select exists (select from {table})"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_removal_that_is_refused_to_the_end_does_not_hold_up_the_end(
    open_directory, sql, caplog
):
    directory = open_directory()
    await refused_mark(directory, sql, caplog)
    await sql.execute(KEPT)
    await asyncio.to_thread(directory.close)
    assert await sql.fetchval("select state from logs") == "live"


def open_logs(directory, count):
    """Make and open logs of one topic; returns their partitions."""
    partitions = [ORDERS._replace(partition=number) for number in range(count)]
    directory.directories.make(dict.fromkeys(partitions, ORDERS_ID))
    for partition in partitions:
        directory.open(partition, LogConfig())
    return partitions


@pytest.mark.parametrize("state", ["marked", "removed"])
async def test_one_removal_that_is_refused_holds_up_no_other(open_directory, sql, caplog, state):
    directory = open_directory()
    partitions = open_logs(directory, 20)
    if state == "marked":
        await sql.execute(
            "alter table logs add constraint kept check (state <> 'removed' or partition <> 7)"
        )
    else:
        await sql.execute("create table keeping (id int references logs)")
        await sql.execute("insert into keeping select id from logs where partition = 7")
    for partition in partitions:
        directory.remove(partition, ORDERS_ID)
    await until(lambda: sql.fetchval("select count(*) <= 1 from logs"))
    assert await sql.fetchval("select partition from logs") == 7
    await until(lambda: "failed" in caplog.text)
    assert caplog.text.count("failed") == 1, "of the one alone"
    if state == "marked":
        await sql.execute("alter table logs drop constraint kept")
        await directory.retain(NOW)
        await until(lambda: sql.fetchval("select not exists (select from logs)"))


async def test_removals_that_are_all_refused_are_not_tried_one_by_one(open_directory, sql, caplog):
    directory = open_directory()
    partitions = open_logs(directory, 100)
    await sql.execute(KEPT)
    for partition in partitions:
        directory.remove(partition, ORDERS_ID)
    deletions = directory._session.deletions
    await until(lambda: not deletions._deleted)
    assert caplog.text.count("removing deleted partitions failed") == 10
    await sql.execute("alter table logs drop constraint kept")
    await directory.retain(NOW)
    await until(lambda: sql.fetchval("select not exists (select from logs)"))
