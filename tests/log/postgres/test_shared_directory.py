"""The logs of several nodes in PostgreSQL: what one has written, the next leader has."""

from uuid import UUID

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import LogConfig
from kohort.log.postgres.cluster import PostgresCluster
from kohort.types import TopicPartition
from log.conftest import NOW, ORDERS, ORDERS_ID, batch, values_of

METADATA_LOG = TopicPartition("__cluster_metadata", 0)
OTHER_ID = UUID(int=77)
CONFIG = LogConfig()
END_SESSION = "update nodes set session = session + 1 where node = 1"


@pytest.fixture
async def node(database):
    """Opens nodes with sessions."""
    made = []

    async def node(number):
        cluster = PostgresCluster(database, number, METADATA_LOG, stray_retention_ms=-1)
        made.append(cluster)
        await cluster.open()
        await cluster.storage.claim()
        return cluster

    yield node
    for each in made:
        await each.close()


async def take(cluster, epoch, topic_id=ORDERS_ID):
    return await cluster.logs.take(ORDERS, topic_id, CONFIG, epoch)


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


async def test_what_is_appended_before_a_release_is_written(node):
    first, second = await node(1), await node(2)
    log = await take(first, 0)
    log.append(batch(b"a"), NOW)
    await first.logs.release(ORDERS)
    assert await read(await take(second, 1)) == [b"a"]


async def test_nothing_is_written_once_the_session_is_over(node, sql):
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


async def test_the_log_of_another_topic_of_that_name_is_set_aside(node, sql):
    first = await node(1)
    await write(await take(first, 0), b"a")
    await first.logs.release(ORDERS)
    log = await take(first, 0, OTHER_ID)
    assert log.end_offset == 0
    assert await sql.fetchval("select count(*) from logs where state = 'stray'") == 1
