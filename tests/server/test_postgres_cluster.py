"""Several nodes on one PostgreSQL."""

import asyncio
import contextlib
import gc
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from kohort.client import ClientConfig, Consumer, Producer, TopicPartition
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.errors import ConfigError, KohortError
from kohort.server.broker import Broker
from kohort.server.cluster.shared_node import STARTUP_TIMEOUT_S
from kohort.server.config import Config
from kohort.storage.postgres.fence import CLUSTER, LEASE
from kohort.testing.server_process import ServerProcess
from server.postgres_nodes_bench import PARTITIONS, SETTINGS, WITHIN_S, Nodes, config, create

TERMINATE = (
    "select pg_terminate_backend(pid) from pg_stat_activity "
    "where application_name like 'kohort node%'"
)


@pytest.fixture
async def nodes(database: str) -> AsyncIterator[Nodes]:
    async with Nodes(database) as nodes:
        yield nodes


@contextlib.asynccontextmanager
async def _operator(database: str) -> AsyncIterator["asyncpg.Connection[Any]"]:
    connection = await asyncpg.connect(database)
    try:
        yield connection
    finally:
        await connection.close()


async def produce(nodes: Nodes, *values: bytes) -> None:
    async with Producer(nodes.client) as producer:
        for at, value in enumerate(values):
            await producer.send_and_wait("orders", value, partition=at % PARTITIONS)


async def consume(nodes: Nodes, count: int) -> set[bytes | None]:
    """The records of a group that commits them."""
    async with asyncio.timeout(WITHIN_S), Consumer(nodes.client, group_id="billing") as consumer:
        await consumer.assign([TopicPartition("orders", each) for each in range(PARTITIONS)])
        found = {(await anext(consumer)).value for _ in range(count)}
        await consumer.commit()
    return found


def values(first: int) -> list[bytes]:
    return [b"%d" % each for each in range(first, first + 2 * PARTITIONS)]


async def test_a_node_that_leaves_has_others_lead_what_it_led(nodes: Nodes) -> None:
    await nodes.start(1, 2)
    await nodes.create()
    await nodes.led_by(1, 2)
    await produce(nodes, *values(0))
    assert await consume(nodes, 2 * PARTITIONS) == set(values(0))
    await nodes.stop(1)
    await nodes.led_by(2)
    await produce(nodes, *values(100))
    assert await consume(nodes, 2 * PARTITIONS) == set(values(100))


async def test_all_that_was_written_is_there_after_all_nodes_ended(nodes: Nodes) -> None:
    await nodes.start(1, 2)
    await nodes.create()
    await nodes.led_by(1, 2)
    await produce(nodes, *values(0))
    cluster_id = nodes.brokers[1].cluster_id
    await nodes.stop(1)
    await nodes.stop(2)
    await nodes.start(3)
    await nodes.led_by(3)
    assert nodes.brokers[3].cluster_id == cluster_id
    assert await consume(nodes, 2 * PARTITIONS) == set(values(0))


async def test_a_node_whose_session_was_ended_begins_another(nodes: Nodes, database: str) -> None:
    await nodes.start(1)
    await nodes.create()
    await nodes.led_by(1)
    await produce(nodes, *values(0))
    connection = await asyncpg.connect(database)
    await connection.execute("update nodes set session = session + 1 where node = 1")
    await connection.close()
    await produce(nodes, *values(100))
    assert await consume(nodes, 4 * PARTITIONS) == {*values(0), *values(100)}


async def test_lost_connections_leave_no_exception_that_nobody_retrieves(
    nodes: Nodes, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    await nodes.start(1, 2)
    await nodes.create()
    await nodes.led_by(1, 2)
    connection = await asyncpg.connect(database)
    for first in (0, 100, 200):
        await connection.execute(TERMINATE)
        await produce(nodes, *values(first))
    await connection.close()
    assert await consume(nodes, 6 * PARTITIONS) == {*values(0), *values(100), *values(200)}
    for number in (1, 2):
        await nodes.stop(number)
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_a_transaction_spans_the_partitions_of_all_nodes(nodes: Nodes) -> None:
    await nodes.start(1, 2)
    await nodes.create()
    await nodes.led_by(1, 2)
    async with (
        asyncio.timeout(WITHIN_S),
        AIOKafkaProducer(
            bootstrap_servers=nodes.client.bootstrap, transactional_id="billing"
        ) as producer,
        producer.transaction(),
    ):
        for partition in range(PARTITIONS):
            await producer.send_and_wait("orders", b"%d" % partition, partition=partition)
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=nodes.client.bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    async with asyncio.timeout(WITHIN_S), consumer:
        found = {(await anext(consumer)).value for _ in range(PARTITIONS)}
    assert found == {b"%d" % partition for partition in range(PARTITIONS)}


async def test_tables_of_two_clusters_are_refused(nodes: Nodes, database: str) -> None:
    await nodes.start(1)
    await nodes.stop(1)
    connection = await asyncpg.connect(database)
    await connection.execute("update meta set cluster_id = 'AAAAAAAAAAAAAAAAAAAAAA'")
    with pytest.raises(KohortError, match="is of the cluster AAAAAAAAAAAAAAAAAAAAAA, and its"):
        await Broker(config(database, 2)).start()
    assert not await connection.fetchval("select max(lease_until) > now() from nodes")
    await connection.close()


@pytest.mark.parametrize("table", ["nodes", "logs", "segments", "batches"])
async def test_a_role_that_may_not_write_is_refused_at_once(
    nodes: Nodes, as_application: str, database: str, table: str
) -> None:
    await nodes.start(1)
    role = as_application.partition("//")[2].partition("@")[0]
    connection = await asyncpg.connect(database)
    await connection.execute(f"revoke insert on {table} from {role}")
    await connection.close()
    async with asyncio.timeout(STARTUP_TIMEOUT_S / 2):
        with pytest.raises(KohortError, match=f"privileges of a server: GRANT INSERT ON {table}$"):
            await Broker(config(as_application, 2)).start()


async def test_a_deleted_topic_leaves_no_rows(nodes: Nodes, database: str) -> None:
    await nodes.start(1, 2)
    await nodes.create()
    await nodes.led_by(1, 2)
    await produce(nodes, *values(0))
    async with Cluster(nodes.client) as cluster:
        await Admin(cluster).delete_topic("orders")
    connection = await asyncpg.connect(database)
    left = "select count(*) from logs where topic = 'orders'"
    async with asyncio.timeout(WITHIN_S):
        while await connection.fetchval(left):  # noqa: ASYNC110 - the database has no event
            await asyncio.sleep(0.02)
    await connection.close()


async def test_nodes_that_start_again_remove_what_the_database_refused_to_mark(
    database: str,
) -> None:
    at_once = {"log.cleaner.backoff.ms": "0", "stray.retention.ms": "0"}
    async with Nodes(database, at_once) as nodes, _operator(database) as connection:
        await nodes.start(1)
        await nodes.create()
        await nodes.led_by(1)
        await connection.execute("alter table logs add constraint kept check (state = 'live')")
        async with Cluster(nodes.client) as cluster:
            await Admin(cluster).delete_topic("orders")
        await nodes.stop(1)
        await connection.execute("alter table logs drop constraint kept")
        live = "select count(*) from logs where topic = 'orders' and state = 'live'"
        assert await connection.fetchval(live) == PARTITIONS
        await nodes.start(1)
        marked = "select count(*) from logs where topic = 'orders' and state = 'removed'"
        async with asyncio.timeout(WITHIN_S):
            while await connection.fetchval(marked) < PARTITIONS:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert await connection.fetchval("select count(*) from logs where state = 'live'") > 0


async def test_no_node_serves_beside_a_server_of_an_earlier_version(database: str) -> None:
    """Version 0.2 without `cluster.enabled` takes no part in the metadata log."""
    async with Broker(config(database, 1)):
        pass
    sql = await asyncpg.connect(database)
    await sql.execute("delete from nodes where lane = $1", CLUSTER)
    await sql.execute(
        "update nodes set lease_until = now() + interval '1 minute' where lane = $1", LEASE
    )
    with pytest.raises(KohortError, match=r"node 1 .* of an earlier version.* stop it"):
        await Broker(config(database, 2)).start()
    await sql.execute("update nodes set lease_until = null")
    async with Broker(config(database, 2)):
        pass
    await sql.close()


async def test_a_node_that_could_not_connect_to_others_is_the_only_one(database: str) -> None:
    listener = {"listeners": "CLIENTS://127.0.0.1:0"}
    alone = {**listener, "listener.security.protocol.map": "CLIENTS:PLAINTEXT"}
    async with Broker(config(database, 1, **alone)):
        with pytest.raises(KohortError, match=r"node 1 .* could not connect to another node"):
            await Broker(config(database, 2)).start()
    async with Broker(config(database, 1)):
        with pytest.raises(KohortError, match=r"node 1 .* to which this one could not connect"):
            await Broker(config(database, 2, **alone)).start()


def test_a_cluster_needs_a_database() -> None:
    with pytest.raises(ConfigError, match=r"cluster\.enabled: nodes share a database"):
        Config({"cluster.enabled": "true", "storage": "memory"})


async def test_no_record_is_lost_when_nodes_are_killed_under_load(
    database: str, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:

        def start(node: int) -> ServerProcess:
            settings = {**SETTINGS, "storage": database, "node.id": str(node)}
            log = tmp_path / f"{node}.log"
            return stack.enter_context(ServerProcess(log=log, settings=settings))

        servers = [start(node) for node in range(3)]
        bootstrap = ",".join(each.address for each in servers)
        await create(ClientConfig(bootstrap=bootstrap))
        written: set[tuple[int, int, bytes]] = set()
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, metadata_max_age_ms=500
        )
        async with asyncio.timeout(2 * WITHIN_S), producer:

            async def load(count: int) -> None:
                for each in range(count):
                    value = b"%d" % (len(written) + each)
                    sent = await producer.send_and_wait("orders", value, partition=each % 6)
                    written.add((sent.partition, sent.offset, value))

            for killed in (2, 1):
                loading = asyncio.create_task(load(300))
                while len(written) % 300 < 100:  # noqa: ASYNC110 - written by the load
                    await asyncio.sleep(0.01)
                servers[killed].process.send_signal(signal.SIGKILL)
                await loading
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest"
        )
        found: list[tuple[int, int, bytes]] = []
        async with asyncio.timeout(WITHIN_S), consumer:
            while len(found) < len(written):
                record = await anext(consumer)
                found.append((record.partition, record.offset, record.value))
            await consumer.commit()
        assert len(written) == 600
        assert set(found) == written
