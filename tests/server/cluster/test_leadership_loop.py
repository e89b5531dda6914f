"""Nodes that share a storage: each leads a part, and all of it moves."""

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Producer

from kohort.cluster import (
    LEASE_MS,
    NO_LEADER,
    Endpoint,
    LeaderChanged,
    NodeFenced,
    NodeRegistered,
    ReassignmentPlanned,
)
from kohort.errors import ErrorCode
from kohort.log.memory import memory_log
from kohort.log.memory_cluster import MemoryCluster, MemoryStorage
from kohort.protocol.batches import Record, build, iterate
from kohort.server.broker import Broker
from kohort.server.cluster import NodeSettings
from kohort.server.cluster.leadership_loop import LeadershipLoop
from kohort.server.cluster.led_partitions import run_all
from kohort.server.cluster_admin import ClusterAdmin
from kohort.server.config import Config
from kohort.server.controller import SharedController, coordinator_topics
from kohort.server.metadata import TopicRecord, decode_batches
from kohort.server.metadata_log import SharedMetadataLog
from kohort.server.metadata_log.shared import COMPACTED_AFTER
from kohort.server.replicas import SharedReplicaManager
from kohort.types import TopicPartition
from server.cluster.nodes_bench import MemoryNode, MovableClock, SharedCluster
from server.net.bench import Peer
from waiting import until

TEN_S = timedelta(seconds=10)
ORDERS = {"name": "orders", "num_partitions": 6, "replication_factor": 1}


async def create(cluster: SharedCluster, node: int) -> None:
    peer = await cluster.peer(node)
    answer = await peer.ask("create_topics", 7, topics=[ORDERS], timeout_ms=30_000)
    assert answer.topics[0].error_code == 0


async def test_every_partition_is_led_by_one_node_of_three() -> None:
    async with SharedCluster() as cluster:
        await create(cluster, 2)
        leaders = await cluster.leaders("orders")
        assert Counter(leader.node for leader in leaders) == {1: 2, 2: 2, 3: 2}
        # It came first; what it leads moves once the others have been there for a while.
        for topic in ("__consumer_offsets", "__transaction_state"):
            assert {leader.node for leader in await cluster.leaders(topic)} == {1}


async def test_new_partitions_have_leaders_when_their_creation_is_told() -> None:
    grown = [{"name": "orders", "count": 9, "assignments": None}]
    async with SharedCluster(1) as cluster:
        broker, peer, storage = cluster.brokers[1], await cluster.peer(1), cluster.storages[1]
        for topic in ("__consumer_offsets", "__transaction_state"):
            await cluster.leaders(topic)  # a decision in progress would be one on the new topic too

        async def told(api: str, version: int, topics: list[dict[str, Any]]) -> list[int]:
            await peer.ask(api, version, topics=topics, timeout_ms=30_000)
            return leading(broker)

        for api, version, topics in (
            ("create_topics", 7, [ORDERS]),
            ("create_partitions", 3, grown),
        ):
            gate, seen = asyncio.Semaphore(0), storage.observations
            storage.gate = gate
            await until(lambda seen=seen: storage.observations > seen)  # type: ignore[misc]
            creating = asyncio.create_task(told(api, version, topics))
            await until(lambda: NO_LEADER in leading(broker))
            await asyncio.wait((creating,), timeout=0.3)
            storage.gate = None
            for _ in range(9):
                gate.release()
            assert set(await creating) == {1}
        assert len(leading(broker)) == 9


def leading(broker: Broker) -> list[int]:
    """The leaders of the topic; none if it is not there."""
    topic = broker.topics.get("orders")
    return [] if topic is None else [leader.node for leader in broker.nodes.leaders(topic)]


async def test_clients_go_on_when_nodes_leave() -> None:
    async with SharedCluster() as cluster:
        await create(cluster, 1)
        await cluster.leaders("orders")
        producer = AIOKafkaProducer(bootstrap_servers=cluster.address)
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.address,
            group_id="g",
            auto_offset_reset="earliest",
            metadata_max_age_ms=500,
        )
        async with producer, consumer:
            for at in range(60):
                if at in (20, 40):
                    await cluster.stop(at // 20)
                await producer.send_and_wait("orders", b"%d" % at, partition=at % 6)
            found: set[bytes] = set()
            async with asyncio.timeout(60):
                while len(found) < 60:
                    for records in (await consumer.getmany(timeout_ms=100)).values():
                        found |= {record.value for record in records}
            await consumer.commit()
            assert sum([await consumer.committed(each) for each in consumer.assignment()]) == 60
        assert {leader.node for leader in await cluster.leaders("orders")} == {3}


async def test_a_partition_that_moves_leaves_nothing_behind() -> None:
    async with SharedCluster(2) as cluster:
        await create(cluster, 1)
        place, former = cluster.place("orders"), (await cluster.leaders("orders"))[0]
        to = 3 - former.node
        waiting = asyncio.create_task(fetch(await cluster.peer(former.node), 60_000))
        await sent(waiting)
        await cluster.move(place, to)
        assert (await waiting).error_code is ErrorCode.not_leader_or_follower
        leader = (await cluster.leaders("orders"))[0]
        assert leader == (to, former.epoch + 1)
        assert (await produce(cluster, to, 0)).error_code == 0
        refused = await produce(cluster, former.node, 0)
        assert refused.error_code is ErrorCode.not_leader_or_follower


@pytest.mark.parametrize("known", [0, 1])
async def test_batches_on_their_way_to_the_next_leader_keep_their_order(known: int) -> None:
    """The first one comes before it leads. `known`: batches that the former leader took."""
    refused = ErrorCode.not_leader_or_follower
    async with SharedCluster(2) as cluster:
        await create(cluster, 1)
        place, former = cluster.place("orders"), (await cluster.leaders("orders"))[0]
        to = 3 - former.node

        async def codes(peer: Peer, *sequences: int) -> list[int]:
            return [(await produce_numbered(peer, each)).error_code for each in sequences]

        assert await codes(await cluster.peer(former.node), *range(known)) == [0] * known
        peer = await cluster.peer(to)
        assert await codes(peer, known) == [refused]
        await cluster.move(place, to)
        await cluster.leaders("orders")
        assert await codes(peer, known + 1, known + 2) == [refused] * 2
        assert await codes(peer, known, known + 1, known + 2, known + 3) == [0] * 4


async def test_a_batch_that_the_former_leader_never_took_comes_before_the_next_one() -> None:
    """As Java's producer sends them: the first to a leader that hangs, the next to the new one."""
    refused = ErrorCode.not_leader_or_follower
    async with SharedCluster(2) as cluster:
        await create(cluster, 1)
        place, former = cluster.place("orders"), (await cluster.leaders("orders"))[0]
        await cluster.move(place, 3 - former.node)
        await cluster.leaders("orders")
        old, new = await cluster.peer(former.node), await cluster.peer(3 - former.node)
        codes = [
            (await produce_numbered(peer, sequence)).error_code
            for peer, sequence in ((new, 1), (new, 2), (old, 0), (new, 0), (new, 1), (new, 2))
        ]
    assert codes == [refused, refused, refused, 0, 0, 0]


async def test_an_unknown_producer_begins_anywhere_once_a_new_leader_is_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with SharedCluster(2) as cluster:
        await create(cluster, 1)
        place, former = cluster.place("orders"), (await cluster.leaders("orders"))[0]
        first = await cluster.peer(former.node)
        assert (await produce_numbered(first, 5, producer_id=1)).error_code == 0  # led by no other
        await cluster.move(place, 3 - former.node)
        await cluster.leaders("orders")
        peer = await cluster.peer(3 - former.node)
        assert (await produce_numbered(peer, 6, producer_id=1)).error_code == 0
        refused = await produce_numbered(peer, 7)
        assert refused.error_code is ErrorCode.not_leader_or_follower
        monkeypatch.setattr("kohort.server.cluster.led_partitions.PRODUCER_TRANSITION_MS", 0)
        log = cluster.brokers[3 - former.node].topics.log("orders", 0)
        await until(lambda: not log.in_leader_transition)
        assert (await produce_numbered(peer, 7)).error_code == 0


async def test_a_log_that_is_opened_again_is_still_newly_led() -> None:
    async with SharedCluster(2) as cluster:
        await create(cluster, 1)
        place, former = cluster.place("orders"), (await cluster.leaders("orders"))[0]
        await cluster.move(place, 3 - former.node)
        await cluster.leaders("orders")
        broker = cluster.brokers[3 - former.node]
        again = memory_log(TopicPartition("orders", 0))
        for tell in broker.logs.on_reopened:
            tell(again)
        assert broker.topics.log("orders", 0) is again
        assert again.in_leader_transition


async def test_a_former_leader_names_the_current_leader() -> None:
    async with SharedCluster(2) as cluster:
        await create(cluster, 1)
        place, former = cluster.place("orders"), (await cluster.leaders("orders"))[0]
        to = 3 - former.node
        await cluster.move(place, to)
        await cluster.leaders("orders")
        host, port = cluster.brokers[to].address
        peer = await cluster.peer(former.node)
        data = {"index": 0, "records": build([Record(None, b"a")])}
        produced = await peer.ask(
            "produce", 10, transactional_id=None, acks=-1, timeout_ms=1_000,
            topic_data=[{"name": "orders", "partition_data": [data]}],
        )  # fmt: skip
        wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10_000}
        fetched = await peer.ask(
            "fetch", 16, max_wait_ms=0, min_bytes=1, max_bytes=10_000,
            topics=[{"topic_id": place.topic_id, "partitions": [wanted]}],
        )  # fmt: skip
        for answer, partition in (
            (produced, produced.responses[0].partition_responses[0]),
            (fetched, fetched.responses[0].partitions[0]),
        ):
            assert partition.error_code is ErrorCode.not_leader_or_follower
            leader = partition.current_leader
            assert (leader.leader_id, leader.leader_epoch) == (to, former.epoch + 1)
            (node,) = answer.node_endpoints
            assert (node.node_id, node.host, node.port) == (to, host, port)


async def test_librdkafka_needs_no_metadata_to_follow_a_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with SharedCluster(2) as cluster:
        await create(cluster, 1)
        former = await cluster.leaders("orders")
        producer = Producer({"bootstrap.servers": cluster.address})
        await asyncio.to_thread(deliver, producer)
        await cluster.move(cluster.place("orders"), 3 - former[0].node)
        await cluster.leaders("orders")
        for broker in cluster.brokers.values():  # Metadata goes on to name the former leader
            monkeypatch.setattr(broker.nodes, "leaders", lambda _: former)
            broker.topics.responses.clear()
        await asyncio.to_thread(deliver, producer)


def deliver(producer: Producer) -> None:
    failures: list[Any] = []
    producer.produce("orders", b"a", partition=0, on_delivery=lambda e, _: failures.append(e))
    producer.flush(10)
    assert failures == [None]


async def test_a_group_goes_on_where_its_partition_goes() -> None:
    async with SharedCluster(2, offsets_topic_num_partitions=1) as cluster:
        (former,) = await cluster.leaders("__consumer_offsets")
        to = 3 - former.node
        old, new = await cluster.peer(former.node), await cluster.peer(to)
        join = {
            "group_id": "g", "session_timeout": TEN_S, "rebalance_timeout": TEN_S,
            "member_id": "", "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }  # fmt: skip
        a = await old.ask("join_group", 3, **join)
        member = {"group_id": "g", "generation_id": 1, "member_id": a.member_id}
        assignment = [{"member_id": a.member_id, "assignment": b"a"}]
        assert (await old.ask("sync_group", 2, **member, assignments=assignment)).error_code == 0
        waiting = asyncio.create_task(
            (await cluster.peer(former.node)).ask("join_group", 3, **join)
        )
        await sent(waiting)
        assert (await new.ask("heartbeat", 4, **member)).error_code is ErrorCode.not_coordinator
        await cluster.move(cluster.place("__consumer_offsets"), to)
        assert (await waiting).error_code is ErrorCode.not_coordinator
        assert (await old.ask("heartbeat", 4, **member)).error_code is ErrorCode.not_coordinator
        await cluster.leaders("__consumer_offsets")
        found = await old.ask("find_coordinator", 2, key="g", key_type=0)
        assert found.node_id == to
        async with asyncio.timeout(60):
            while error := (await new.ask("heartbeat", 4, **member)).error_code:
                assert error is ErrorCode.coordinator_load_in_progress


async def test_a_partition_is_served_until_its_next_leader_has_read_it() -> None:
    async with SharedCluster(2, offsets_topic_num_partitions=1) as cluster:
        await create(cluster, 1)
        (former,) = await cluster.leaders("__consumer_offsets")
        to = 3 - former.node
        logs = cluster.storages[to].logs
        logs.is_readable.clear()
        assert await commit(cluster, former.node, 1) == 0
        await cluster.plan_move(cluster.place("__consumer_offsets"), to)
        async with asyncio.timeout(60):
            while not standbys(cluster, to):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            before = cluster.storages[former.node].observations
            while cluster.storages[former.node].observations < before + 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await commit(cluster, former.node, 2) == 0
        assert await commit(cluster, to, 3) == ErrorCode.not_coordinator
        logs.is_readable.set()
        async with asyncio.timeout(60):
            while error := await commit(cluster, to, 4):
                assert error in (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress)
        assert await commit(cluster, former.node, 5) == ErrorCode.not_coordinator
        assert not standbys(cluster, to)
        group = cluster.brokers[to].groups.group("g")
        assert group is not None
        assert group.offsets["orders", 0].offset == 4
        assert not cluster.brokers[former.node].groups.group("g")


async def test_a_plan_that_is_called_off_leaves_all_as_it_was() -> None:
    async with SharedCluster(2, offsets_topic_num_partitions=1) as cluster:
        await create(cluster, 1)
        leaders = await cluster.leaders("__consumer_offsets")
        former, place = leaders[0].node, cluster.place("__consumer_offsets")
        cluster.storages[3 - former].logs.is_readable.clear()
        metadata = await cluster.plan_move(place, 3 - former)
        async with asyncio.timeout(60):
            while not standbys(cluster, 3 - former):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            await metadata.decide(lambda: [ReassignmentPlanned(place, None)])
            while standbys(cluster, 3 - former):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert await cluster.leaders("__consumer_offsets") == leaders
        assert await commit(cluster, former, 1) == 0
        cluster.storages[3 - former].logs.is_readable.set()


async def test_a_node_that_is_stopped_hands_over_what_it_leads_before_it_is_gone() -> None:
    async with SharedCluster(cluster_rebalance_delay_ms=0) as cluster:
        await create(cluster, 1)
        topics = ("orders", "__consumer_offsets", "__transaction_state")
        for topic in topics:
            while set(await shares(cluster, topic)) != {2}:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await cluster.stop(1)
        for topic in topics:
            assert await shares(cluster, topic) == [3, 3]
        fenced = NodeFenced(1)
        records = [
            record
            for batch in cluster.shared.metadata
            for _, record in decode_batches(batch)
            if record == fenced or isinstance(record, LeaderChanged)
        ]
        assert records[-1] == fenced


async def test_a_drained_node_gets_nothing_in_its_next_session() -> None:
    async with SharedCluster(2) as cluster:
        await create(cluster, 1)
        await ClusterAdmin(MemoryStorage(cluster.shared, 3)).drain(1)
        session = cluster.storages[1].session
        cluster.shared.fence(1)
        metadata = SharedMetadataLog(cluster.storages[2], cluster.clock.timestamp)
        known = metadata.state.cluster.nodes
        async with asyncio.timeout(60):
            while 1 not in known or known[1].session == session:
                await cluster.storages[2].wait_beyond(metadata.end_offset)
                await metadata.read_to_end()
        assert known[1].is_draining


async def test_partitions_not_read_within_the_drain_are_taken_over_after_the_node_left() -> None:
    async with SharedCluster(2, cluster_drain_timeout_ms=200) as cluster:
        await create(cluster, 1)
        await cluster.leaders("orders")
        assert await commit(cluster, 1, 1) == 0
        cluster.storages[2].logs.is_readable.clear()
        await cluster.stop(1)
        for topic in ("orders", "__consumer_offsets", "__transaction_state"):
            assert {leader.node for leader in await cluster.leaders(topic)} == {2}
        async with asyncio.timeout(60):
            while error := await commit(cluster, 2, 2):
                assert error == ErrorCode.coordinator_load_in_progress


async def test_nodes_that_nobody_can_replace_end_at_once() -> None:
    async with SharedCluster(2, cluster_drain_timeout_ms=600_000) as cluster:
        async with asyncio.timeout(60):
            await asyncio.gather(cluster.stop(1), cluster.stop(2))
            await cluster.start(1)
            await cluster.stop(1)


async def commit(cluster: SharedCluster, node: int, offset: int) -> int:
    """The error of committing an offset of partition 0 of "orders"."""
    peer = await cluster.peer(node)
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    answer = await peer.ask(
        "offset_commit", 5, group_id="g", generation_id_or_member_epoch=-1, member_id="",
        topics=[{"name": "orders", "partitions": [partition]}],
    )  # fmt: skip
    return int(answer.topics[0].partitions[0].error_code)


def standbys(cluster: SharedCluster, node: int) -> Collection[TopicPartition]:
    """What a node reads before it leads it."""
    replicas = cluster.brokers[node].controller.replicas
    assert isinstance(replicas, SharedReplicaManager)
    return replicas.standbys.keys()


async def shares(cluster: SharedCluster, topic: str) -> list[int]:
    """How many partitions of a topic each of its leaders leads."""
    return list(Counter(leader.node for leader in await cluster.leaders(topic)).values())


async def test_a_transaction_ends_though_its_partitions_move() -> None:
    settings = {"transaction_state_log_num_partitions": 1}
    async with SharedCluster(2, **settings) as cluster:
        await create(cluster, 1)
        await cluster.leaders("orders")
        producer = AIOKafkaProducer(bootstrap_servers=cluster.address, transactional_id="t")
        async with producer:
            for outcome in (producer.commit_transaction, producer.abort_transaction):
                await producer.begin_transaction()
                for partition in range(6):
                    await producer.send_and_wait("orders", b"a", partition=partition)
                for topic in ("orders", "__transaction_state"):
                    former = (await cluster.leaders(topic))[0]
                    await cluster.move(cluster.place(topic), 3 - former.node)
                    await cluster.leaders(topic)
                await outcome()
        leaders = await cluster.leaders("orders")
        async with asyncio.timeout(60):
            for partition, leader in enumerate(leaders):
                log = cluster.brokers[leader.node].topics.log("orders", partition)
                assert log is not None
                # two records, two markers
                while log.last_stable_offset < 4:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                assert log.end_offset == 4
                assert len(log.read_committed(0, 10_000)[1]) == 1


async def test_leader_epochs_tell_old_knowledge_and_where_epochs_ended() -> None:
    async with SharedCluster(2) as cluster:
        await create(cluster, 1)
        place, first = cluster.place("orders"), (await cluster.leaders("orders"))[0]
        assert (await produce(cluster, first.node, 0)).base_offset == 0
        await cluster.move(place, 3 - first.node)
        assert (await produce(cluster, 3 - first.node, 0)).base_offset == 1
        await cluster.move(place, first.node)
        await cluster.leaders("orders")
        peer = await cluster.peer(first.node)
        for known, error in (
            (1, ErrorCode.fenced_leader_epoch),
            (2, ErrorCode.none),
            (3, ErrorCode.unknown_leader_epoch),
        ):
            fetched = await fetch(peer, 0, current_leader_epoch=known)
            assert fetched.error_code is error
            wanted = {"partition_index": 0, "current_leader_epoch": known, "timestamp": -2}
            answer = await peer.ask(
                "list_offsets", 7, replica_id=-1, isolation_level=0,
                topics=[{"name": "orders", "partitions": [wanted]}],
            )  # fmt: skip
            listed = answer.topics[0].partitions[0]
            assert (listed.error_code, listed.leader_epoch) == (error, -1 if error else 0)
            assert await end_of_epoch(peer, known, 0) == (error or (0, 1))
        assert await end_of_epoch(peer, 2, 1) == (1, 2)
        assert await end_of_epoch(peer, 2, 2) == (2, 2)
        assert await end_of_epoch(peer, 2, 3) == (-1, -1)
        records = (await fetch(peer, 0)).records
        assert [header.partition_leader_epoch for _, header in iterate(records)] == [0, 1]


async def test_a_node_that_is_gone_is_replaced_and_one_that_was_fenced_comes_back() -> None:
    async with SharedCluster(2) as cluster:
        await create(cluster, 1)
        former = await cluster.leaders("orders")
        cluster.shared.fence(1)
        cluster.clock.ahead_ms += LEASE_MS + 1
        leaders = await cluster.leaders("orders")
        while leaders == former:
            await asyncio.sleep(0.01)
            leaders = await cluster.leaders("orders")
        assert sorted(cluster.brokers[1].nodes.ids) == [1, 2]
        moved = {leader.epoch for leader, old in zip(leaders, former, strict=True) if old != leader}
        assert moved == {1}


async def test_a_node_whose_lease_is_over_serves_nothing() -> None:
    async with SharedCluster(1) as cluster:
        await create(cluster, 1)
        await cluster.leaders("orders")
        cluster.storages[1].failure = OSError("the storage is away")
        cluster.clock.ahead_ms += LEASE_MS
        assert (await produce(cluster, 1, 0)).error_code is ErrorCode.not_leader_or_follower
        cluster.storages[1].failure = None
        await cluster.leaders("orders")
        assert (await produce(cluster, 1, 0)).error_code == 0


async def test_a_node_that_was_stopped_for_longer_than_its_lease_gives_no_old_answer() -> None:
    async with SharedCluster(1) as cluster:
        await create(cluster, 1)
        await cluster.leaders("orders")
        peer = await cluster.peer(1)
        assert (await fetch(peer, 0)).error_code == 0
        cluster.storages[1].failure = OSError("the storage is away")
        cluster.clock.ahead_ms += LEASE_MS
        assert (await fetch(peer, 0)).error_code is ErrorCode.not_leader_or_follower


async def test_a_node_that_comes_while_the_nodes_are_looked_at_stays() -> None:
    async with SharedCluster(1) as cluster:
        storage = cluster.storages[1]
        storage.gate = asyncio.Semaphore(0)
        seen = storage.observations
        await until(lambda: storage.observations == seen + 1)
        await cluster.start(2)
        session = cluster.storages[2].session
        metadata = SharedMetadataLog(cluster.storages[2], cluster.clock.timestamp)
        async with asyncio.timeout(60):
            while 2 not in metadata.state.cluster.nodes:
                await cluster.storages[2].wait_beyond(metadata.end_offset)
                await metadata.read_to_end()
        storage.gate.release()
        await until(lambda: storage.observations >= seen + 2)
        storage.gate = None
        assert cluster.shared.rows[2].session == session


async def test_a_node_that_cannot_read_what_is_logged_ends() -> None:
    async with SharedCluster(2) as cluster:
        end_offset = cluster.shared.end_offset
        unknown = end_offset.to_bytes(8) + build([Record(b'{"zone":"x"}', b"{}")])[8:]
        assert await cluster.storages[1].append(end_offset, unknown, {})
        for broker in cluster.brokers.values():
            await asyncio.wait_for(broker.lost.wait(), 60)


async def test_a_node_without_a_session_tells_of_itself() -> None:
    async with SharedCluster(2) as cluster:
        two = await cluster.peer(2)
        cluster.storages[2].failure = OSError("the storage is away")
        storage = cluster.storages[1]
        metadata = SharedMetadataLog(storage, cluster.clock.timestamp)
        # The other node does the same once the lease has ended.
        await metadata.decide(lambda: [NodeFenced(2)] if 2 in metadata.state.cluster.nodes else [])
        async with asyncio.timeout(60):
            while cluster.brokers[2].controller.metadata.end_offset < metadata.end_offset:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        told = await two.ask("metadata", 9, topics=[])
        assert {broker.node_id for broker in told.brokers} == {1, 2}


async def test_a_change_of_a_topic_is_logged_by_one_node(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kohort.topics")
    grown = [{"name": "orders", "count": 9, "assignments": None}]
    async with SharedCluster(2) as cluster:
        await create(cluster, 2)
        await cluster.leaders("orders")
        peer = await cluster.peer(1)
        await peer.ask("create_partitions", 3, topics=grown, timeout_ms=30_000)
        await cluster.leaders("orders")
        await peer.ask("delete_topics", 6, topics=[{"name": "orders"}], timeout_ms=30_000)
        async with asyncio.timeout(60):
            while cluster.brokers[2].topics.get("orders") is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert [each.getMessage() for each in caplog.records] == [
        "created a topic", "added partitions to a topic", "deleted a topic"
    ]  # fmt: skip


async def test_one_of_two_nodes_makes_a_topic() -> None:
    async with SharedCluster(2) as cluster:
        peers = [await cluster.peer(node) for node in (1, 2)]
        made = await asyncio.gather(
            *(peer.ask("create_topics", 7, topics=[ORDERS], timeout_ms=30_000) for peer in peers)
        )
        errors = [each.topics[0].error_code for each in made]
        assert sum(error == 0 for error in errors) == 1
        assert not {*errors} - {
            ErrorCode.none, ErrorCode.not_controller, ErrorCode.topic_already_exists
        }  # fmt: skip
        assert len(await cluster.leaders("orders")) == 6
        deleted = {"topics": [{"name": "orders"}], "timeout_ms": 30_000}
        assert (await peers[0].ask("delete_topics", 6, **deleted)).responses[0].error_code == 0
        async with asyncio.timeout(60):
            while cluster.brokers[2].topics.get("orders") is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not [each for each in cluster.shared.logs if each.topic == "orders"]


async def produce(cluster: SharedCluster, node: int, partition: int) -> Any:
    """The response to one batch."""
    return await produce_to(await cluster.peer(node), partition, build([Record(None, b"a")]))


async def produce_numbered(peer: Peer, sequence: int, *, producer_id: int = 7) -> Any:
    """The response to one batch of an idempotent producer, in partition 0."""
    batch = build(
        [Record(None, b"a")], producer_id=producer_id, producer_epoch=0, base_sequence=sequence
    )
    return await produce_to(peer, 0, batch)


async def produce_to(peer: Peer, partition: int, records: bytes) -> Any:
    data = {"index": partition, "records": records}
    answer = await peer.ask(
        "produce", 9, transactional_id=None, acks=-1, timeout_ms=1_000,
        topic_data=[{"name": "orders", "partition_data": [data]}],
    )  # fmt: skip
    return answer.responses[0].partition_responses[0]


async def fetch(peer: Peer, max_wait_ms: int, **fields: Any) -> Any:
    """The response to a fetch of partition 0 from its start."""
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10_000, **fields}
    answer = await peer.ask(
        "fetch", 12, max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=10_000,
        topics=[{"topic": "orders", "partitions": [wanted]}],
    )  # fmt: skip
    return answer.responses[0].partitions[0]


async def end_of_epoch(peer: Peer, known: int, epoch: int) -> Any:
    """Epoch and end offset, or the error."""
    wanted = {"partition": 0, "current_leader_epoch": known, "leader_epoch": epoch}
    answer = await peer.ask(
        "offset_for_leader_epoch", 4, replica_id=-2,
        topics=[{"topic": "orders", "partitions": [wanted]}],
    )  # fmt: skip
    end = answer.topics[0].partitions[0]
    return end.error_code or (end.leader_epoch, end.end_offset)


async def sent(task: asyncio.Task[Any]) -> None:
    """Return when the request of a task is likely to wait in the server."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()


async def test_a_long_metadata_log_is_compacted_for_nodes_that_come() -> None:
    async with SharedCluster(2) as cluster:
        await create(cluster, 1)
        metadata = SharedMetadataLog(cluster.storages[2], cluster.clock.timestamp)
        planned = ReassignmentPlanned(cluster.place("orders"), None)
        await metadata.decide(lambda: [planned] * (COMPACTED_AFTER + 1))
        async with asyncio.timeout(60):
            while not cluster.shared.compacted:  # noqa: ASYNC110 - a node does so when it can
                await asyncio.sleep(0.01)
        await cluster.start(3)
        assert len(await cluster.leaders("orders")) == 6
        assert len(cluster.shared.metadata) < 20


async def test_nodes_are_observed_more_often_than_leases_are_renewed() -> None:
    async with SharedCluster(2) as cluster:
        await create(cluster, 1)
        await cluster.leaders("orders")
        storage = cluster.storages[1]
        looked, renewed = storage.observations, storage.renewals
        while storage.renewals < renewed + 3:  # noqa: ASYNC110 - as time goes by
            await asyncio.sleep(0.01)
        assert storage.observations - looked > 2 * 3


COORDINATORS = coordinator_topics(Config({"node.id": 1}))


async def opened_loop(
    node: MemoryNode, clock: MovableClock, topics: Sequence[TopicRecord] = ()
) -> tuple[LeadershipLoop, SharedController]:
    """The loop of a node with a session, as the first of a cluster with these topics.

    It does only what the test calls.
    """
    metadata = SharedMetadataLog(node.storage, clock.timestamp)
    await node.storage.claim()
    await metadata.decide(lambda: topics)
    controller = SharedController(node.logs, Config({"node.id": 1}), metadata)
    loop = LeadershipLoop(
        node.storage, metadata, controller.replicas, clock,
        NodeSettings(rebalance_delay_ms=0, drain_timeout_ms=0), claimed_at=clock.now(),
    )  # fmt: skip
    return loop, controller


async def test_a_first_node_is_not_ready_before_it_has_given_itself_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It registers, and then decides who leads what."""
    clock = MovableClock()
    node = MemoryNode(MemoryCluster(clock.timestamp), 1)
    manager, controller = await opened_loop(node, clock, COORDINATORS)
    replicas = controller.replicas
    append, ready = node.storage.append, []

    async def appended(*arguments: Any) -> bool:
        ready.append(manager.status().is_ready)
        return await append(*arguments)

    monkeypatch.setattr(node.storage, "append", appended)
    await manager.work()
    assert len(ready) >= 2
    assert not any(ready)
    assert manager.status().is_ready
    assert replicas.led_epochs


async def test_a_node_that_comes_back_before_it_is_fenced_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever decides again after another node has appended observes the nodes again."""
    clock = MovableClock()
    shared = MemoryCluster(clock.timestamp)
    node, other = MemoryNode(shared, 1), MemoryStorage(shared, 2)
    manager, controller = await opened_loop(node, clock, COORDINATORS)
    await manager.tick()
    registered = NodeRegistered(2, await other.claim(), (), clock.timestamp())
    metadata = SharedMetadataLog(other, clock.timestamp)
    await metadata.decide(lambda: [registered])
    clock.ahead_ms += LEASE_MS
    append, fenced = node.storage.append, []

    async def appended(end: int, batch: bytes, fences: Mapping[int, int]) -> bool:
        if fences and not fenced:
            fenced.append(fences)
            await other.renew()
            await metadata.decide(lambda: [registered])
        return await append(end, batch, fences)

    monkeypatch.setattr(node.storage, "append", appended)
    await manager.tick()
    assert fenced
    assert controller.metadata.state.cluster.nodes.keys() == {1, 2}
    await other.renew()


async def test_trouble_is_told_once_and_its_end_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kohort.cluster")
    clock = MovableClock()
    node = MemoryNode(MemoryCluster(clock.timestamp), 1)
    manager, _ = await opened_loop(node, clock)

    async def refused() -> Any:
        raise OSError("too many connections")

    async def silent() -> Any:
        raise TimeoutError

    for failing in (refused, silent):
        with monkeypatch.context() as patched:
            patched.setattr(node.storage, "observe", failing)
            for _ in range(3):
                await manager.tick()  # the lease is renewed each time
            patched.setattr(node.storage, "renew", failing)
            await manager.tick()
            assert manager.status().error is not None
    await manager.tick()
    assert manager.status().error is None
    *told, end = caplog.records
    assert [record.__dict__["kohort_fields"] for record in told] == [
        {"why": "too many connections"},
        {"why": "the database does not respond"},
    ]
    assert end.getMessage() == "participating in the cluster again"


async def test_a_node_whose_id_was_taken_waits_and_sends_clients_to_its_successor(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = MovableClock()
    shared = MemoryCluster(clock.timestamp)
    node = MemoryNode(shared, 1)
    manager, controller = await opened_loop(node, clock, COORDINATORS)
    replicas = controller.replicas
    await manager.tick()
    clock.ahead_ms += LEASE_MS
    successor = MemoryStorage(shared, 1)
    registered = NodeRegistered(
        1, await successor.claim(), (Endpoint("PLAINTEXT", "elsewhere", 9092),), clock.timestamp()
    )
    await SharedMetadataLog(successor, clock.timestamp).decide(lambda: [registered])
    for _ in range(3):
        await manager.tick()
        await successor.renew()
        assert not replicas.led_epochs
    assert controller.metadata.state.cluster.nodes == {1: registered}
    assert "another process serves as node 1" in str(manager.status().reasons())
    await successor.release()
    await manager.tick()
    assert replicas.led_epochs
    assert manager.status().is_ready


async def test_partitions_are_opened_once_though_one_of_them_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)
    clock = MovableClock()
    node = MemoryNode(MemoryCluster(clock.timestamp), 1)
    orders = TopicRecord(id=UUID(int=1), name="orders", partitions=3)
    manager, controller = await opened_loop(node, clock, [orders])
    replicas = controller.replicas
    taken: Counter[int] = Counter()
    is_open, take = asyncio.Event(), node.logs.take

    async def take_slowly(partition: TopicPartition, *wanted: Any) -> Any:
        taken[partition.partition] += 1
        if taken[1] == 1 == partition.partition:
            raise OSError("the database is away")
        await is_open.wait()
        return await take(partition, *wanted)

    node.logs.take = take_slowly  # type: ignore[method-assign]
    working = asyncio.create_task(manager.work())
    await until(lambda: taken[2])
    await sent(working)
    is_open.set()
    await working
    await manager.work()
    assert taken == {0: 1, 1: 2, 2: 1}
    assert [record.getMessage() for record in caplog.records] == [
        "cannot open partitions, retrying"
    ]
    assert len(replicas.led_epochs) == replicas.leaderships_gained == 3


async def test_tasks_begun_together_have_ended_after_a_cancellation() -> None:
    running: set[int] = set()

    async def take(number: int) -> None:
        running.add(number)
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(20):
                await asyncio.sleep(0)
            running.remove(number)

    for turns in range(6):
        cancelled = asyncio.create_task(run_all(map(take, range(45))))
        for _ in range(turns):
            await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        assert cancelled.cancelled()
        assert not running, turns
