"""A server put together in this process: opened in order, closed in order, and what survives it."""

import asyncio
import getpass
import os
import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from kohort.client.admin import Admin
from kohort.client.cluster import Cluster
from kohort.client.config import ClientConfig
from kohort.coordinator.config import MigrationPolicy
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.metadata_hash import group_hash, topic_hash
from kohort.coordinator.requests import (
    ConsumerGroupHeartbeat,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from kohort.errors import KohortError
from kohort.log.partition import PartitionLog
from kohort.protocol.apis import BY_NAME
from kohort.protocol.batches import Record, build, read_header
from kohort.server.addresses import Address, cannot_listen
from kohort.server.broker import Broker
from kohort.server.config import group_coordinator_config
from kohort.server.config.config import Config
from kohort.server.config.resources import ResourceType
from kohort.server.metadata import METADATA, OFFSETS_TOPIC
from kohort.server.metadata_log.local import METADATA_LOG_CONFIG
from server.cluster.nodes_bench import MovableClock
from server.net.bench import Peer
from server.topic_deletion import delete_topic

END = {"transactional_id": "t", "producer_id": 0, "producer_epoch": 0, "committed": True}
MEMORY = {"listeners": "127.0.0.1:0", "storage": "memory"}
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


async def request(address: Address, data: bytes = API_VERSIONS) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(data)
    answer = await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
    writer.close()
    return answer


async def test_a_broker_answers_while_it_is_open() -> None:
    async with Broker(Config(MEMORY)) as broker:
        assert broker.address.port
        assert broker.advertised == broker.address
        assert (await request(broker.address)).startswith(struct.pack(">ih", 1, 0))
        assert str(broker.address) in repr(broker)
    with pytest.raises(ConnectionRefusedError):
        await request(broker.address)


async def test_each_start_in_memory_has_a_higher_leader_epoch() -> None:
    """A consumer with a position of the server before learns that it ends at the log's start."""
    epochs = []
    clock = MovableClock()
    config = Config(MEMORY | {"memory.restart.visible": True})
    for _ in range(2):
        async with Broker(config, clock=clock) as broker:
            peer = Peer(*await asyncio.open_connection(*broker.address))
            topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
            await peer.ask("create_topics", 7, topics=topics, timeout=9_000, validate_only=False)
            log = broker.topics.log("t", 0)
            assert log is not None
            log.append(build([Record(None, b"a")]), clock.timestamp())
            known = await peer.ask("metadata", 9, topics=[{"name": "t"}])
            epochs.append(known.topics[0].partitions[0].leader_epoch)
            assert read_header(log.read(0, 1_000)).partition_leader_epoch == epochs[-1]
            if epochs[1:]:
                asked = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epochs[0]}
                answer = await peer.ask(
                    "offset_for_leader_epoch",
                    4,
                    replica_id=-1,
                    topics=[{"topic": "t", "partitions": [asked]}],
                )
                (end,) = answer.topics[0].partitions
                assert (end.error_code, end.leader_epoch, end.end_offset) == (0, epochs[0], 0)
            peer.leave()
        clock.ahead_ms += 1_000
    assert 0 < epochs[0] < epochs[1] < 2**31


async def test_the_group_log_is_made_once_and_as_kafka_makes_it(tmp_path: Path) -> None:
    settings = {
        "listeners": "127.0.0.1:0",
        "log.dir": str(tmp_path),
        "offsets.topic.num.partitions": 3,
    }
    async with Broker(Config(settings)) as broker:
        topic = broker.topics.get(OFFSETS_TOPIC)
        assert topic is not None
        first = topic.id
        assert topic.internal
        assert len(topic.partitions) == 3
        assert topic.configs == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "4194304",
        }
    async with Broker(Config(settings | {"offsets.topic.num.partitions": 7})) as broker:
        topic = broker.topics.get(OFFSETS_TOPIC)
        assert topic is not None
        assert (topic.id, len(topic.partitions)) == (first, 3)


async def test_the_group_logs_topic_is_durable_before_anything_is_acknowledged(
    tmp_path: Path,
) -> None:
    settings = {"listeners": "127.0.0.1:0", "log.dir": str(tmp_path), "durability": "fsync"}
    async with Broker(Config(settings)) as broker:
        log = broker.logs.open(METADATA, METADATA_LOG_CONFIG)
        assert isinstance(log, PartitionLog)
        assert log.end_offset > 0
        assert log.unsynced() == []


async def test_offsets_of_a_topic_whose_deletion_a_crash_cut_short_are_forgotten(
    tmp_path: Path,
) -> None:
    settings = {"listeners": "127.0.0.1:0", "log.dir": str(tmp_path)}

    async def ask(broker: Broker, make: Any, **fields: Any) -> Any:
        await broker.groups.loaded()
        answer = asyncio.get_running_loop().create_future()
        broker.groups.submit(make(on_response=answer.set_result, group="g", **fields))
        return await answer

    async with Broker(Config(settings)) as broker:
        for name in ("gone", "here"):
            broker.controller.topics.create(name, 1)
        offsets = tuple(OffsetToCommit(name, 0, 7) for name in ("gone", "here"))
        await ask(
            broker,
            OffsetCommit,
            version=9,
            generation=-1,
            member_id="",
            instance_id=None,
            offsets=offsets,
        )
        broker.controller.replicas.deletions.on_deleted.clear()  # as if it were killed here
        delete_topic(broker.controller, "gone")
    async with Broker(Config(settings)) as broker:
        await broker.groups.loaded()
        await asyncio.sleep(0)
        fetched = await ask(broker, OffsetFetch, partitions=None)
        assert [offset.topic for offset in fetched.offsets] == ["here"]


async def test_consumer_groups_know_the_rack_of_the_broker() -> None:
    async with Broker(Config(MEMORY | {"broker.rack": "r1"})) as broker:
        await broker.groups.loaded()
        topic = broker.controller.topics.create("t", 3)
        answer = asyncio.get_running_loop().create_future()
        broker.groups.submit(
            ConsumerGroupHeartbeat(
                on_response=answer.set_result,
                group="g",
                member_id="m",
                member_epoch=0,
                topics=("t",),
                owned={},
                rebalance_timeout_ms=1_000,
                client_id="c",
                client_host="/127.0.0.1",
            )
        )
        await answer
        group = broker.groups.group("g")
        assert isinstance(group, ConsumerGroup)
        assert group.metadata_hash == group_hash({"t": topic_hash(topic.id, "t", 3, "r1")})


async def test_the_advertised_address_takes_the_bound_port_for_0() -> None:
    async with Broker(Config(MEMORY | {"advertised.listeners": "kohort.example:0"})) as broker:
        assert broker.advertised == ("kohort.example", broker.address.port)
    async with Broker(Config(MEMORY | {"advertised.listeners": "kohort.example:9092"})) as broker:
        assert broker.advertised == ("kohort.example", 9092)


async def test_a_name_with_port_0_is_one_address() -> None:
    async with Broker(Config(MEMORY | {"listeners": "localhost:0"})) as broker:
        assert broker.address.host in ("127.0.0.1", "::1")
        await request(broker.address)
    with pytest.raises(KohortError, match="cannot be listened on"):
        await Broker(
            Config(MEMORY | {"listeners": "no-such-host.invalid:0", "insecure": True})
        ).start()


async def test_a_broker_that_cannot_open_leaves_no_file_or_lock(tmp_path: Path) -> None:
    async with Broker(Config(MEMORY)) as other:
        settings = {"listeners": str(other.address), "log.dir": str(tmp_path)}
        with pytest.raises(
            KohortError, match=("in use by another process; choose another address with --listen")
        ):
            await Broker(Config(settings)).start()
        http = {
            "listeners": "127.0.0.1:0",
            "log.dir": str(tmp_path),
            "http.listen": str(other.address),
        }
        with pytest.raises(KohortError, match="--http"):
            await Broker(Config(http)).start()
        assert not os.listdir(tmp_path)  # nothing was made
    async with Broker(Config({"listeners": "127.0.0.1:0", "log.dir": str(tmp_path)})):
        pass


async def test_a_directory_is_one_servers(tmp_path: Path) -> None:
    settings = Config({"listeners": "127.0.0.1:0", "log.dir": str(tmp_path)})
    async with Broker(settings):
        with pytest.raises(KohortError, match=str(tmp_path)):
            await Broker(settings).start()
    async with Broker(settings):
        pass


async def test_closing_twice_or_before_it_was_opened_is_nothing() -> None:
    broker = Broker(Config(MEMORY))
    await broker.close()
    async with broker:
        pass
    await broker.close()


async def test_closing_does_not_wait_for_idle_or_silent_peers() -> None:
    async with Broker(Config(MEMORY)) as broker:
        silent = socket.create_connection(broker.address)
        half = socket.create_connection(broker.address)
        half.sendall(API_VERSIONS[:7])
        began = asyncio.get_running_loop().time()
        await broker.close()
        assert asyncio.get_running_loop().time() - began < 1
        silent.close()
        half.close()


def test_the_coordinator_goes_by_the_configuration() -> None:
    config = group_coordinator_config(
        Config(
            {
                "group.min.session.timeout.ms": 1,
                "group.max.session.timeout.ms": 2,
                "group.initial.rebalance.delay.ms": 3,
                "group.max.size": 4,
                "offset.metadata.max.bytes": 5,
                "offsets.retention.minutes": 6,
                "message.max.bytes": 7,
                "group.consumer.heartbeat.interval.ms": 8_000,
                "group.consumer.max.size": 9,
                "group.consumer.assignors": "range",
                "group.consumer.migration.policy": "upgrade",
            }
        )
    )
    assert config.consumer_migration_policy is MigrationPolicy.UPGRADE
    assert (config.min_session_timeout_ms, config.max_session_timeout_ms) == (1, 2)
    assert (
        config.initial_rebalance_delay_ms,
        config.max_size,
        config.offset_metadata_max_bytes,
    ) == (3, 4, 5)
    assert (config.offsets_retention_ms, config.max_record_bytes) == (360_000, 7)
    assert config.consumer_group("g").heartbeat_interval_ms == 8_000
    assert (config.consumer_max_size, config.consumer_assignors) == (9, ("range",))


@pytest.mark.parametrize(
    ("number", "told"), [(98, "in use"), (13, "permission denied"), (99, "Cannot assign")]
)
def test_the_error_of_an_address_names_its_cause(number: int, told: str) -> None:
    error = OSError(number, "Cannot assign requested address")
    assert told in cannot_listen(Address("127.0.0.1", 9092), error, "--listen")


async def test_broker_configs_set_by_clients_are_in_force_after_a_restart(tmp_path: Path) -> None:
    """Without a change of the configuration that the program gave."""
    given = Config({"listeners": "127.0.0.1:0", "log.dir": str(tmp_path)})
    async with Broker(given) as broker:
        broker.controller.writer.commit(
            *broker.controller.configuration.set_configs(
                ResourceType.BROKER, "", {"max.connections.per.ip": "1"}
            )
        )
        await refuse_a_second_connection(broker.address)
        await broker.controller.writer.durable()
    async with Broker(given) as broker:
        await refuse_a_second_connection(broker.address)
    assert given["max.connections.per.ip"] == 2**31 - 1


async def refuse_a_second_connection(address: Address) -> None:
    _, writer = await asyncio.open_connection(*address)
    with pytest.raises((asyncio.IncompleteReadError, OSError)):
        await request(address)
    writer.close()
    await writer.wait_closed()


async def test_each_listener_answers_with_its_own_address() -> None:
    settings = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "advertised.listeners": "OUTSIDE://kohort.example:9093",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "storage": "memory",
    }
    async with Broker(Config(settings)) as broker:
        inside, outside = broker.addresses["INSIDE"], broker.addresses["OUTSIDE"]
        assert (broker.address, broker.advertised) == (inside, inside)
        assert await brokers_by(*inside) == {inside}
        assert await brokers_by(*outside) == {("kohort.example", 9093)}


async def brokers_by(host: str, port: int) -> set[tuple[str, int]]:
    """The addresses that Metadata has."""
    peer = Peer(*await asyncio.open_connection(host, port))
    try:
        answer = await peer.ask("metadata", 12, topics=[])
        return {(broker.host, broker.port) for broker in answer.brokers}
    finally:
        peer.leave()


async def test_a_unix_socket_is_for_the_user_of_the_server(tmp_path: Path) -> None:
    path = tmp_path / "kohort.sock"
    settings = MEMORY | {"local.socket": str(path), "max.connections": 1}
    seen = []

    def look(_services: Any, exchange: Any, _request: Any) -> None:
        seen.append(exchange.peer)
        exchange.respond_encoded(bytes(6))

    async with Broker(Config(settings)) as broker:
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(KohortError, match=r"local\.socket: .* in use"):
            await Broker(Config(settings)).start()
        broker.dispatcher.register(BY_NAME["end_txn"].key, look)
        for _ in range(2):
            peer = Peer(*await asyncio.open_unix_connection(str(path)))
            await peer.ask("end_txn", 0, **END)
            answer = await peer.ask("metadata", 12, topics=[])
            assert [(each.host, each.port) for each in answer.brokers] == [(f"unix:{path}", 0)]
    assert [each.principal for each in seen] == [("Local", getpass.getuser())] * 2
    assert not path.exists()
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))
    async with Broker(Config(settings)):
        pass


async def test_our_client_connects_to_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "kohort.sock"
    client = ClientConfig(bootstrap=f"unix:{path}")
    async with Broker(Config(MEMORY | {"local.socket": str(path)})) as broker:
        async with Cluster(client) as cluster:
            await Admin(cluster).create_topic("orders")
            assert "orders" in (await cluster.metadata(["orders"])).topics
        assert broker.listener.statistics().accepted >= 1


async def test_a_file_that_is_no_socket_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_text("text")
    with pytest.raises(KohortError, match=r"local\.socket: .* cannot be used"):
        await Broker(Config(MEMORY | {"local.socket": str(path)})).start()
    assert path.read_text() == "text"
