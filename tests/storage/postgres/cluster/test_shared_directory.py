"""The logs of several nodes in PostgreSQL: what one has written, the next leader has."""

import asyncio
import contextlib
from dataclasses import replace
from uuid import UUID

import pytest

from kohort.cluster import FencedError
from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import LogConfig
from kohort.protocol import batches
from kohort.storage.postgres.cluster import shared_directory
from kohort.storage.postgres.cluster.postgres_cluster import PostgresCluster
from kohort.storage.postgres.cluster.shared_directory import OPEN_CHUNK
from kohort.storage.postgres.logs.reading import READ_ON_BYTES
from kohort.types import TopicPartition
from log.conftest import NOW, ORDERS, ORDERS_ID, batch, values_of
from storage.postgres.conftest import waiting

METADATA_LOG = TopicPartition("__cluster_metadata", 0)
OTHER_ID = UUID(int=77)
CONFIG = LogConfig()
COMPACTED = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=150, min_cleanable_dirty_ratio=0.0
)
END_SESSION = "update nodes set session = session + 1 where node = 1"


@pytest.fixture
async def node(database):
    """Opens nodes with sessions."""
    made = []

    async def node(number, url=database):
        cluster = PostgresCluster(url, number, METADATA_LOG, stray_retention_ms=-1)
        made.append(cluster)
        await cluster.open()
        await cluster.storage.claim()
        return cluster

    yield node
    for each in made:
        await each.close()


async def take(cluster, epoch, topic_id=ORDERS_ID, config=CONFIG, position=0):
    return await cluster.logs.take(ORDERS, topic_id, config, epoch, position)


def metadata():
    """A record of the metadata log, which ends at offset 1 with it."""
    return batches.pack([(b"k", b"v")], NOW)


async def write(log, *values):
    log.append(batch(*values), NOW)
    await log.durable()


async def read(log):
    log.read(0, 1 << 20)  # begins to load what is not in memory
    await log.loaded()
    return values_of(log)


async def test_the_next_leader_has_all_records_and_knows_the_epochs(node):
    first, second = await node(1), await node(2)
    log = await take(first, 4)
    await write(log, b"a")
    await write(log, b"b")
    await first.logs.release(ORDERS)
    with pytest.raises(KafkaError) as refused:
        log.append(batch(b"c"), NOW)
    assert refused.value.code is ErrorCode.not_leader_or_follower
    log = await take(second, 6)
    assert await read(log) == [b"a", b"b"]
    await write(log, b"c")
    assert log.leader_epoch == 6
    assert log.leader_epochs.end_of(4, 0, 3) == (4, 2)
    assert [log.leader_epochs.at(offset) for offset in range(3)] == [4, 4, 6]


async def test_a_release_of_a_log_writes_its_pending_appends(node):
    first, second = await node(1), await node(2)
    log = await take(first, 0)
    log.append(batch(b"a"), NOW)
    await first.logs.release(ORDERS)
    assert await read(await take(second, 1)) == [b"a"]


async def test_no_batch_is_written_after_the_session_ended(node, sql):
    first, second = await node(1), await node(2)
    log = await take(first, 0)
    await write(log, b"a")
    await sql.execute(END_SESSION)
    log.append(batch(b"b"), NOW)
    with pytest.raises(KafkaError) as refused:
        await log.durable()
    assert refused.value.code is ErrorCode.not_leader_or_follower
    assert await read(await take(second, 1)) == [b"a"]


async def test_a_release_that_finds_the_session_over_says_so(node, sql):
    first, second = await node(1), await node(2)
    log = await take(first, 0)
    await write(log, b"a")
    await sql.execute(END_SESSION)
    log.append(batch(b"b"), NOW)
    with pytest.raises(OSError, match="may not be written"):
        await first.logs.release(ORDERS)
    await first.storage.claim()
    assert await read(await take(second, 1)) == [b"a"]


async def test_a_session_that_is_given_up_was_ended_by_nobody_else(node, sql, monkeypatch):
    monkeypatch.setattr(shared_directory, "RELEASE_TIMEOUT_S", 0.1)
    first = await node(1)
    log = await take(first, 0)
    await write(log, b"a")
    async with sql.transaction():
        process = await sql.fetchval("select pg_backend_pid()")
        await sql.execute("select from nodes for update")  # what is written waits
        log.append(batch(b"b"), NOW)
        await waiting(sql)
        with pytest.raises(OSError, match=f"may not be written: the process {process} of Postgre"):
            await first.logs.release(ORDERS)
    with pytest.raises(FencedError) as over:
        await first.storage.renew()
    assert "the session of this node is over: what was appended to orders-0" in str(over.value)
    assert "another process" not in str(over.value)


async def test_no_log_is_taken_without_a_session(node, sql):
    first = await node(1)
    await sql.execute(END_SESSION)
    with pytest.raises(OSError, match="session"):
        await take(first, 0)


async def test_a_new_session_takes_its_logs_again(node, sql):
    first = await node(1)
    await write(await take(first, 0), b"a")
    await sql.execute(END_SESSION)
    await first.storage.claim()
    log = await take(first, 1)
    await write(log, b"b")
    assert await read(log) == [b"a", b"b"]


async def test_records_lost_while_the_log_had_no_leader_end_the_session(node, sql):
    """As when a snapshot of the disk is restored, and all leases are over by then."""
    cluster = await node(1)
    log = await take(cluster, 4)
    await write(log, b"a")
    await write(log, b"lost")
    await cluster.logs.release(ORDERS)
    await sql.execute("delete from batches where base = 1")
    with pytest.raises(OSError, match="has lost"):
        await take(cluster, 4)
    with pytest.raises(FencedError):
        await cluster.storage.renew()
    await cluster.storage.claim()
    log = await take(cluster, 5)
    assert await read(log) == [b"a"]
    assert log.leader_epochs.end_of(4, 0, 1) == (4, 1)


async def test_records_lost_before_a_new_leader_epoch_keep_the_session(node, sql):
    cluster = await node(1)
    await write(await take(cluster, 4), b"lost")
    await cluster.logs.release(ORDERS)
    await sql.execute("delete from batches")
    assert (await take(cluster, 5)).leader_epoch == 5
    await cluster.storage.renew()


async def test_the_log_of_another_topic_of_that_name_is_set_aside(node, sql):
    first = await node(1)
    await write(await take(first, 0), b"a")
    await first.logs.release(ORDERS)
    log = await take(first, 0, OTHER_ID)
    assert log.end_offset == 0
    assert await sql.fetchval("select count(*) from logs where state = 'stray'") == 1


async def test_one_log_that_cannot_be_opened_holds_up_no_other(node, sql):
    cluster = await node(1)
    partitions = [ORDERS._replace(partition=number) for number in range(20)]

    async def take_all(topic_id):
        opening = (cluster.logs.take(each, topic_id, CONFIG, 0, 0) for each in partitions)
        return await asyncio.gather(*opening, return_exceptions=True)

    await take_all(ORDERS_ID)
    for partition in partitions:
        await cluster.logs.release(partition)
    await sql.execute(
        "alter table logs add constraint kept check (state <> 'stray' or partition <> 7)"
    )
    taken = await take_all(OTHER_ID)
    assert [at for at, each in enumerate(taken) if isinstance(each, OSError)] == [7]
    assert await sql.fetchval("select count(*) from logs where state = 'stray'") == 19


async def test_no_later_topic_is_set_aside(node, sql):
    """A node that lags leads a topic that was deleted, and made again under its name."""
    lagging, leader = await node(1), await node(2)
    await take(lagging, 0)
    await leader.storage.append(0, metadata(), {})
    await write(await take(leader, 0, OTHER_ID, position=1), b"a")
    with pytest.raises(OSError, match="another topic"):
        await take(lagging, 0)
    assert await read(await take(leader, 0, OTHER_ID, position=1)) == [b"a"]
    assert await sql.fetchval("select count(*) from logs where state = 'stray'") == 1


async def test_many_logs_are_taken_by_few_statements(node, database, postgres):
    cluster = await node(1, f"{database}&log_statement=all")
    places = [TopicPartition("orders", number) for number in range(2 * OPEN_CHUNK)]
    before = postgres.log.count("execute ")
    taking = [cluster.logs.take(place, ORDERS_ID, CONFIG, 3, 0) for place in places]
    logs = await asyncio.gather(*taking)
    assert [log.topic_partition for log in logs] == places
    assert postgres.log.count("execute ") - before < 50


async def test_one_that_cannot_be_taken_leaves_the_others(node, sql):
    first = await node(1)
    await write(await take(first, 0), b"a")
    await write(await take(first, 0), b"b")
    await first.logs.release(ORDERS)
    await sql.execute("update batches set next = 9 where base = 0")
    other = TopicPartition("orders", 1)
    damaged, log = await asyncio.gather(
        take(first, 0), first.logs.take(other, ORDERS_ID, CONFIG, 0, 0)
    )
    await write(log, b"c")
    with pytest.raises(KafkaError):
        damaged.ensure_open()


async def test_epochs_are_known_whose_batches_compaction_took_away(node):
    first = await node(1)
    for epoch in (4, 6):
        log = await take(first, epoch, config=COMPACTED)
        await write(log, b"a" * 50)
        await write(log, b"b" * 50)
        await first.logs.release(ORDERS)
    log = await take(first, 8, config=COMPACTED)
    assert await log.compact(NOW)
    await first.logs.release(ORDERS)
    epochs = (await take(first, 9, config=COMPACTED)).leader_epochs
    assert [epochs.end_of(epoch, 0, 4) for epoch in (4, 6, 9)] == [(4, 2), (6, 4), (9, 4)]


async def test_one_log_that_failed_is_opened_again_in_the_same_session(node, sql):
    first = await node(1)
    session = first.storage.session
    failed = await take(first, 0)
    other = await first.logs.take(TopicPartition("orders", 1), ORDERS_ID, CONFIG, 0, 0)
    await write(failed, b"a")
    await sql.execute("alter table batches add constraint small check (octet_length(data) < 500)")
    with pytest.raises(OSError, match="small"):
        await write(failed, bytes(500))
    reopened = []
    first.logs.on_reopened.append(reopened.append)
    await sql.execute("alter table batches drop constraint small")
    await first.logs.reopen()
    (log,) = reopened
    await write(log, b"b")
    await write(other, b"c")
    assert await read(log) == [b"a", b"b"]
    await first.storage.renew()
    assert first.storage.session == session


async def read_all(standby):
    """The batches that a standby reads, one read after the other."""
    found, offset = [], (await standby.source.checkpoint()).start_offset
    while data := await standby.source.read_on(offset):
        found += [header for _, header in batches.iterate(data)]
        offset = found[-1].last_offset + 1
    return [header.base_offset for header in found]


async def test_the_next_leader_reads_what_the_leader_appends(node):
    first, second = await node(1), await node(2)
    standby = second.logs.stand_by(ORDERS, ORDERS_ID, CONFIG)
    assert await read_all(standby) == []
    log = await take(first, 0)
    standby = second.logs.stand_by(ORDERS, ORDERS_ID, CONFIG)
    for count in (0, 3, 5):
        while log.end_offset < count:
            await write(log, b"%d" % log.end_offset)
        assert await read_all(standby) == list(range(count))
    large = batch(bytes(READ_ON_BYTES))
    for _ in range(2):
        log.append(large, NOW)
    await log.durable()
    assert len(await standby.source.read_on(5)) == len(large)
    assert await read_all(standby) == list(range(7))
    assert await standby.source.read_on(7) == b""


async def test_the_checkpoint_tells_that_batches_were_removed(node, sql):
    config = replace(COMPACTED, segment_bytes=100)
    first, second = await node(1), await node(2)
    log = await first.logs.take(ORDERS, ORDERS_ID, config, 0, 0)
    for value in range(4):
        log.append(batch(b"%d" % value, key=b"a"), NOW)
    await log.durable()
    standby = second.logs.stand_by(ORDERS, ORDERS_ID, config)
    before = await standby.source.checkpoint()
    assert before == log.checkpoint
    assert await log.compact(NOW)
    assert await sql.fetchval("select cleaned from logs where topic = 'orders'") == 3
    await first.logs.release(ORDERS)
    taken = await second.logs.take(ORDERS, ORDERS_ID, config, 1, 0)
    assert before != taken.checkpoint
    standby = first.logs.stand_by(ORDERS, ORDERS_ID, config)
    assert await standby.source.checkpoint() == taken.checkpoint


async def test_a_standby_reads_again_after_its_connection_was_lost(node, sql):
    first, second = await node(1), await node(2)
    await write(await take(first, 0), b"a")
    standby = second.logs.stand_by(ORDERS, ORDERS_ID, CONFIG)
    assert await read_all(standby) == [0]
    await sql.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where application_name = 'kohort node 2 reading'"
    )
    with contextlib.suppress(OSError):
        await standby.source.read_on(0)
    assert await read_all(standby) == [0]


async def swept(cluster):
    """Return when a sweep is over."""
    deletions = cluster.logs._session.deletions
    await cluster.logs.retain(NOW)
    while deletions._is_due():  # noqa: ASYNC110 - nothing tells of its end
        await asyncio.sleep(0.01)


async def states(sql):
    return {row["topic"]: row["state"] for row in await sql.fetch("select * from logs")}


async def test_logs_of_topics_deleted_while_no_node_had_a_session_are_set_aside(node, sql):
    """Each node marks them when it learns of the deletion; all of them may have ended before."""
    first, billing = await node(1), TopicPartition("billing", 0)
    assert await first.storage.append(0, metadata(), {})
    await take(first, 0)
    await first.logs.take(billing, OTHER_ID, CONFIG, 0, 1)
    first.logs.bind_topics(lambda: (1, {OTHER_ID}))
    await sql.execute(END_SESSION)
    first.storage.fence.lose()
    first.logs.remove(ORDERS, ORDERS_ID)
    second = await node(2)
    second.logs.bind_topics(lambda: (1, {OTHER_ID}))
    await swept(second)
    assert await states(sql) == {
        "__cluster_metadata": "live",
        "orders": "stray",
        "billing": "live",
    }


async def test_logs_are_not_set_aside_before_the_whole_metadata_log_is_known(node, sql):
    """The topic may be one that this node does not know of yet."""
    first, second = await node(1), await node(2)
    assert await first.storage.append(0, metadata(), {})
    await take(first, 0)
    second.logs.bind_topics(lambda: (0, set()))
    await swept(second)
    assert (await states(sql))["orders"] == "live"
    second.logs.bind_topics(lambda: (1, {ORDERS_ID}))
    await swept(second)
    assert (await states(sql))["orders"] == "live"


async def add_logs(sql, topic, count, state):
    """Logs of a topic that no node knows, in that state for an hour."""
    await sql.execute(
        "insert into logs (id, topic, partition, topic_id, state, state_since) "
        "select nextval('log_ids'), $1, number, $2, $3, now() - interval '1 hour' "
        "from generate_series(0, $4 - 1) number",
        topic,
        OTHER_ID,
        state,
        count,
    )


async def partitions(sql, state):
    query = "select partition from logs where topic = 'old' and state = $1 order by 1"
    return [number for (number,) in await sql.fetch(query, state)]


async def test_one_log_that_cannot_be_set_aside_holds_up_no_other(node, sql, caplog):
    only = await node(1)
    only.logs.bind_topics(lambda: (0, set()))
    await add_logs(sql, "old", 20, "live")
    await add_logs(sql, "gone", 1, "removed")  # marked, and left, by another node
    await sql.execute(
        "alter table logs add constraint kept check (state <> 'stray' or partition <> 7)"
    )
    await swept(only)
    assert await partitions(sql, "live") == [7]
    assert len(await partitions(sql, "stray")) == 19
    assert caplog.text.count("failed") == 1, "of the one alone"
    assert not await sql.fetchval("select exists (select from logs where topic = 'gone')")
    await sql.execute("alter table logs drop constraint kept")
    await swept(only)
    assert len(await partitions(sql, "stray")) == 20


async def test_one_stray_that_cannot_be_removed_holds_up_no_other(node, sql, caplog):
    only = await node(1)
    await add_logs(sql, "old", 20, "stray")
    await add_logs(sql, "gone", 1, "removed")
    await sql.execute(
        "alter table logs add constraint kept check (state <> 'removed' or partition <> 7)"
    )
    only.logs._stray_retention_ms = 60_000
    await swept(only)
    assert await partitions(sql, "stray") == [7]
    assert await sql.fetchval("select count(*) from logs where topic in ('old', 'gone')") == 1
    assert caplog.text.count("failed") == 1, "of the one alone"
    await sql.execute("alter table logs drop constraint kept")
    await swept(only)
    assert not await sql.fetchval("select exists (select from logs where topic = 'old')")
