"""A server with its logs in PostgreSQL."""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

import asyncpg
import pytest

from kohort.client import ClientConfig, Consumer, Producer, TopicPartition
from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.errors import ErrorCode, KohortError
from kohort.server.broker import Broker
from kohort.server.config import Config, as_text
from peers.postgres import Postgres
from server.net.bench import Peer

WAITING = (
    "select count(*) > 0 from pg_stat_activity "
    "where wait_event_type = 'Lock' and application_name like 'kohort%lane%'"
)
"""Whether an append waits in the database."""
ORDERS = TopicPartition("orders", 0)
OF_0_2 = Path(__file__).with_name("database_of_0_2.sql")


def config(database: str, settings: Mapping[str, str] = {}) -> Config:
    given = {
        "listeners": "127.0.0.1:0",
        "storage": database,
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
    }
    return Config({**given, **settings})


async def produce(broker: Broker, *values: bytes) -> None:
    async with Producer(ClientConfig(bootstrap=str(broker.address))) as producer:
        for value in values:
            await producer.send_and_wait("orders", value, partition=0)


async def consume(broker: Broker, count: int, group_id: str | None = None) -> list[bytes | None]:
    """The first records of the partition; with a group they are committed."""
    client = ClientConfig(bootstrap=str(broker.address))
    async with Consumer(client, group_id=group_id) as consumer:
        await consumer.assign([ORDERS])
        found = [(await anext(consumer)).value for _ in range(count)]
        if group_id is not None:
            await consumer.commit()
    return found


async def test_records_and_groups_survive_a_restart(database: str) -> None:
    async with Broker(config(database)) as broker:
        cluster_id = broker.cluster_id
        await produce(broker, b"1", b"2", b"3")
        assert await consume(broker, 2, "billing") == [b"1", b"2"]
    async with Broker(config(database)) as broker:
        assert broker.cluster_id == cluster_id
        await produce(broker, b"4")
        assert await consume(broker, 2, "billing") == [b"3", b"4"]
        assert await consume(broker, 4) == [b"1", b"2", b"3", b"4"]


async def test_a_database_of_a_server_alone_is_that_of_a_node(database: str) -> None:
    """Version 0.2 wrote it without `cluster.enabled`, as node 0."""
    async with Broker(config(database)):
        pass  # makes the tables
    sql = await asyncpg.connect(database)
    await sql.execute("truncate batches, logs, segments, meta, nodes")
    await sql.execute(OF_0_2.read_text())
    await sql.close()
    own = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    kept = {"offsets.retention.minutes": "2147483647"}
    for record in (b"3", b"4"):
        async with Broker(config(database, {**own, **kept})) as broker:
            assert broker.cluster_id == "rvKril1YQa-la4YhB_UTrA"
            assert list(broker.controller.image.scram_users.snapshot()) == ["alice"]
            assert broker.topics.get("gone") is None
            await produce(broker, record)
    async with Broker(config(database, {**own, **kept})) as broker:
        assert await consume(broker, 3, "billing") == [b"2", b"3", b"4"]
        assert await consume(broker, 4) == [b"1", b"2", b"3", b"4"]
        paid = TopicPartition("orders", 1)
        async with Consumer(ClientConfig(bootstrap=broker.bootstrap)) as consumer:
            await consumer.assign([paid])
            assert (await anext(consumer)).value == b"paid"


async def test_records_are_acknowledged_when_they_are_committed(database: str) -> None:
    operator, watcher = await asyncpg.connect(database), await asyncpg.connect(database)
    async with Broker(config(database)) as broker:
        await produce(broker, b"1")
        locked = operator.transaction()
        await locked.start()
        await operator.execute("lock table batches in exclusive mode")
        producing = asyncio.ensure_future(produce(broker, b"2"))
        while not await watcher.fetchval(WAITING):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert not producing.done()
        assert await consume(broker, 1) == [b"1"]
        assert not producing.done()
        await locked.rollback()
        await producing
    await operator.close()
    await watcher.close()


async def test_transactions_survive_a_restart(database: str) -> None:
    async with Broker(config(database)) as broker:
        client = ClientConfig(bootstrap=str(broker.address))
        async with Producer(client, transactional_id="t") as producer:
            async with producer.transaction():
                await producer.send("orders", b"1", partition=0)
            await abort(producer)
            async with producer.transaction():
                await producer.send("orders", b"2", partition=0)
    async with Broker(config(database)) as broker:
        client = ClientConfig(bootstrap=str(broker.address))
        async with Consumer(client, isolation_level="read_committed") as consumer:
            await consumer.assign([ORDERS])
            assert [(await anext(consumer)).value for _ in range(2)] == [b"1", b"2"]


async def abort(producer: Producer[bytes, bytes]) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async with producer.transaction():
            await producer.send("orders", b"dropped", partition=0)
            raise ZeroDivisionError


async def test_topics_that_are_deleted_and_made_again(database: str) -> None:
    async with Broker(config(database)) as broker:
        await produce(broker, b"old")
        async with Cluster(ClientConfig(bootstrap=str(broker.address))) as cluster:
            await Admin(cluster).delete_topic("orders")
        await produce(broker, b"new")
    async with Broker(config(database)) as broker:
        assert await consume(broker, 1) == [b"new"]


async def test_the_node_id_is_taken(database: str) -> None:
    async with Broker(config(database)):
        with pytest.raises(KohortError, match=r"another process at .* serves as node 0"):
            await Broker(config(database)).start()


@pytest.mark.parametrize("setting", ["true", "false"])
async def test_nodes_on_one_database_form_a_cluster_whatever_cluster_enabled_is(
    database: str, setting: str
) -> None:
    async with Broker(config(database, {"cluster.enabled": setting})) as broker:
        await produce(broker, b"1")
        async with Broker(config(database, {"node.id": "5"})) as other:
            assert await consume(other, 1) == [b"1"]


async def test_a_server_leads_all_of_its_database_when_it_has_started(database: str) -> None:
    async with Broker(config(database)) as broker:
        await produce(broker, b"1")
    async with Broker(config(database)) as broker:
        logs = [log for topic in broker.topics.all() for log in topic.partitions]
        for log in logs:
            log.ensure_open()
        assert len(logs) == 7


async def test_a_server_whose_session_was_ended_begins_another_one(
    database: str, postgres: Postgres
) -> None:
    schema = database.rpartition("=")[2]
    async with Broker(config(database)) as broker:
        await produce(broker, b"1")
        postgres.execute(f"update {schema}.nodes set session = session + 1")
        await produce(broker, b"2")
        assert await consume(broker, 2) == [b"1", b"2"]
        assert not broker.lost.is_set()


async def test_a_database_that_cannot_be_used(database: str) -> None:
    secret = database.replace("kohort@", "kohort:secret@").replace("search_path=", "search_path=x")
    with pytest.raises(KohortError, match="schema") as refused:
        await Broker(config(secret)).start()
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://kohort:secret@db:5432/kafka?sslmode=require", "postgresql://db:5432/kafka"),
        ("postgresql://kohort@db/kafka?sslpassword=secret", "postgresql://db/kafka"),
        ("postgresql:///kafka?host=/run&password=secret", "postgresql:///kafka"),
        ("postgresql://kohort:secret@[::1]:5432,db/kafka", "postgresql://[::1]:5432,db/kafka"),
        ("postgresql://kohort@%2Frun%2Fdb/kafka", "postgresql://%2Frun%2Fdb/kafka"),
        ("postgresql://kohort:a@secret@db/kafka", "postgresql://db/kafka"),
        ("postgresql://kohort:a:secret@db/kafka", "postgresql://db/kafka"),
    ],
)
def test_the_password_is_not_shown(url: str, shown: str) -> None:
    assert as_text(config(url)["storage"]) == shown


@pytest.mark.parametrize("ends", ["/", "?", "#", "[", "]", "/1?", "?x=", "?1"])
@pytest.mark.parametrize("first", ["secret", "1"])
def test_a_password_that_ends_too_early_is_refused_and_not_shown(first: str, ends: str) -> None:
    url = f"postgresql://kohort:{first}{ends}secret@db:5432/kafka?search_path=kohort"
    assert "secret" not in str(as_text(url))
    with pytest.raises(KohortError, match=r"write / \? # @") as refused:
        config(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("storage", ["disk", "mysql://db", "postgresql:", "sqlite:///x"])
def test_other_places_are_refused(storage: str) -> None:
    with pytest.raises(KohortError, match="local, memory or postgresql"):
        config(storage)


async def test_groups_are_loaded_from_what_is_not_in_memory(database: str) -> None:
    async with Broker(config(database)) as broker:
        await produce(broker, b"1")
        for number in range(20):
            await consume(broker, 1, f"group {number}")
    async with Broker(config(database)) as broker:
        await broker.groups.loaded()
        assert len(tuple(broker.groups.groups())) == 20


async def test_changes_that_wait_for_the_database_do_not_hold_the_loop(database: str) -> None:
    operator = await asyncpg.connect(database)
    async with Broker(config(database)) as broker:
        peers = [Peer(*await asyncio.open_connection(*broker.address)) for _ in range(3)]
        locked = operator.transaction()
        await locked.start()
        await operator.execute("lock table batches in exclusive mode")
        changes = [asyncio.create_task(set_quota(peer, f"c{n}")) for n, peer in enumerate(peers)]
        async with Cluster(ClientConfig(bootstrap=str(broker.address))) as cluster:
            while len(broker.controller.image.quotas.entities) < len(peers):
                await cluster.metadata()
        assert not any(change.done() for change in changes)
        await locked.rollback()
        assert await asyncio.gather(*changes) == [ErrorCode.none] * len(peers)
        for peer in peers:
            peer.leave()
    await operator.close()


async def set_quota(peer: Peer, client_id: str) -> ErrorCode:
    entry = {
        "entity": [{"entity_type": "client-id", "entity_name": client_id}],
        "ops": [{"key": "producer_byte_rate", "value": 1e6, "remove": False}],
    }
    answer = await peer.ask("alter_client_quotas", 1, entries=[entry], validate_only=False)
    return ErrorCode(answer.entries[0].error_code)


async def test_clients_do_not_wait_for_the_removal_of_deleted_topics(database: str) -> None:
    operator = await asyncpg.connect(database)
    async with Broker(config(database)) as broker:
        await produce(broker, b"1")
        client = ClientConfig(bootstrap=str(broker.address))
        async with Cluster(client) as cluster, operator.transaction():
            admin = Admin(cluster)
            await admin.create_topic("payments", partitions=10)
            await operator.execute("select from logs where topic = 'payments' for update")
            await admin.delete_topic("payments")
            async with Producer(client, transactional_id="t") as producer, producer.transaction():
                await producer.send("orders", b"2", partition=0)
            await admin.delete_records({ORDERS: 1})
            await admin.set_scram_password("alice", "secret")
        left = "select exists (select from logs where topic = 'payments')"
        while await operator.fetchval(left):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await operator.close()
