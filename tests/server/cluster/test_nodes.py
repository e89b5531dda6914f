"""What clients are told of the nodes of a cluster."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kohort.cluster import Cluster, Leader, LeaderChanged, NodeFenced, NodeRegistered, worker_of
from kohort.cluster import Endpoint as NodeEndpoint
from kohort.errors import ErrorCode
from kohort.log.local import LocalDirectory
from kohort.log.remote_log import RemoteLog
from kohort.security import Endpoint
from kohort.server.cluster.nodes import (
    MAX_DEPARTED_MS,
    NO_NODE,
    ClusterNodes,
    LocalNodes,
    Node,
    RecentlyDepartedNodes,
)
from kohort.server.controller import NewPartitions, open_controller
from kohort.server.handlers.metadata import TOPICS_PER_TURN
from kohort.server.metadata import METADATA, OFFSETS_TOPIC, MetadataImage
from kohort.server.metadata_log.local import METADATA_LOG_CONFIG, LocalMetadataLog
from kohort.server.replicas import Topic
from kohort.types import Timestamp, TopicIdPartition, TopicPartition
from server.handlers.bench import HandlerBench, alone
from server.identities import ENDPOINT
from server.topic_deletion import delete_topic

WORKERS = 3


class NoLeaders(LocalNodes):
    def leaders(self, topic: Topic) -> list[Leader]:
        return [Leader(-1, 7) for _ in topic.partitions]


def bench_of(index: int) -> HandlerBench:
    """Worker `index` of three, whose first one has the node id 10 and the port 9092."""
    bench = HandlerBench()
    bench.controller = open_controller(
        bench.directory,
        bench.config,
        bench.clock.timestamp,
        lambda partition: worker_of(partition, WORKERS) == index,
    )
    bench.nodes = LocalNodes(
        bench.topics,
        bench.controller.image,
        count=WORKERS,
        index=index,
        first_id=10,
        rack="r1",
    )
    bench.peer = replace(bench.peer, endpoint=replace(ENDPOINT, port=9092 + index))
    return bench


def test_the_partitions_of_a_topic_are_spread() -> None:
    places = [TopicPartition("orders", partition) for partition in range(12)]
    assert Counter(worker_of(each, 4) for each in places) == dict.fromkeys(range(4), 3)


@pytest.mark.parametrize("index", range(WORKERS))
async def test_metadata_has_all_workers_and_their_partitions(index: int) -> None:
    bench = bench_of(index)
    bench.controller.topics.create("t", 6)
    answer = await bench.ask("metadata", 12, topics=[{"name": "t"}])
    brokers = [(each.node_id, each.host, each.port, each.rack) for each in answer.brokers]
    assert brokers == [(10 + n, "broker.test", 9092 + n, "r1") for n in range(3)]
    assert answer.controller_id == 10
    (topic,) = answer.topics
    for each in topic.partitions:
        leader = 10 + worker_of(TopicPartition("t", each.partition_index), WORKERS)
        assert (each.leader_id, each.replica_nodes) == (leader, (leader,))
    cluster = await bench.ask("describe_cluster", 1, endpoint_type=1)
    assert [each.broker_id for each in cluster.brokers] == [10, 11, 12]
    metadata = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
    quorum = await bench.ask("describe_quorum", 2, topics=[metadata])
    (voters,) = quorum.topics[0].partitions
    assert (voters.leader_id, [each.replica_id for each in voters.current_voters]) == (10, [10])
    assert [each.listeners[0].port for each in quorum.nodes] == [9092]
    (directory,) = (await bench.ask("describe_log_dirs", 4, topics=None)).results
    described = {each.name: each.partitions for each in directory.topics}["t"]
    mine = [n for n in range(6) if worker_of(TopicPartition("t", n), WORKERS) == index]
    assert [each.partition_index for each in described] == mine


@pytest.mark.parametrize("index", range(WORKERS))
async def test_clients_of_a_unix_socket_get_those_of_all_workers(index: int) -> None:
    bench = bench_of(index)
    own = "unix:/run/k" + (f".{index}" if index else "")
    endpoint = replace(ENDPOINT, host=own, port=0)
    assert [(each.host, each.port) for each in bench.nodes.all(endpoint)] == [
        ("unix:/run/k", 0),
        ("unix:/run/k.1", 0),
        ("unix:/run/k.2", 0),
    ]


async def test_logs_that_are_led_elsewhere_are_not_here() -> None:
    bench = bench_of(0)
    partitions = bench.controller.topics.create("t", 6).partitions
    here = [worker_of(log.topic_partition, WORKERS) == 0 for log in partitions]
    assert [isinstance(log, RemoteLog) for log in partitions] == [not each for each in here]
    assert set(bench.directory.names()) == {
        log.topic_partition for log, is_here in zip(partitions, here, strict=True) if is_here
    } | {TopicPartition("__cluster_metadata", 0)}
    await bench.controller.topics.create_partitions([NewPartitions("t", 9)])
    delete_topic(bench.controller, "t")
    bench.controller.writer.flush()
    assert set(bench.directory.names()) == {TopicPartition("__cluster_metadata", 0)}


async def test_a_partition_led_by_another_node_is_refused() -> None:
    bench = bench_of(0)
    topic = bench.controller.topics.create("t", 3)
    (elsewhere, *_) = [
        log.topic_partition.partition for log in topic.partitions if isinstance(log, RemoteLog)
    ]
    wanted: dict[str, Any] = {"partition_index": elsewhere, "timestamp": -1}
    answer = await bench.ask(
        "list_offsets", 7, topics=[{"name": "t", "partitions": [wanted]}], replica_id=-1
    )
    (found,) = answer.topics[0].partitions
    assert found.error_code is ErrorCode.not_leader_or_follower


async def test_the_leader_of_its_partition_coordinates_a_group() -> None:
    told = []
    for index in range(WORKERS):
        bench = bench_of(index)
        bench.controller.topics.create(OFFSETS_TOPIC, 50, internal=True)
        answer = await bench.ask(
            "find_coordinator", 4, coordinator_keys=["g1", "g2", "g3", "g4"], key_type=0
        )
        found = [(each.node_id, each.port) for each in answer.coordinators]
        assert all(port - 9092 == node_id - 10 for node_id, port in found)
        assert len(set(found)) > 1
        told.append(found)
    assert told == [told[0]] * WORKERS


async def test_a_partition_without_a_leader_and_its_groups() -> None:
    bench = HandlerBench()
    bench.controller.topics.create("t", 1)
    bench.nodes = alone(bench.topics, kind=NoLeaders)
    answer = await bench.ask("metadata", 12, topics=[{"name": "t"}])
    (partition,) = answer.topics[0].partitions
    assert partition.error_code is ErrorCode.leader_not_available
    assert (partition.leader_id, partition.leader_epoch, partition.replica_nodes) == (-1, 7, ())
    without = bench_of(0)
    answer = await without.ask("find_coordinator", 4, coordinator_keys=["g"], key_type=0)
    (coordinator,) = answer.coordinators
    assert coordinator.error_code is ErrorCode.coordinator_not_available
    assert coordinator.node_id == -1


def test_a_node_that_is_not_there() -> None:
    assert alone(HandlerBench().topics, node_id=1).node(2, ENDPOINT) is NO_NODE
    assert LocalNodes(
        HandlerBench().topics, MetadataImage(), count=2, index=0, first_id=1, rack=None
    ).node(3, ENDPOINT) is (NO_NODE)


def led_by_others(bench: HandlerBench, partitions: int) -> None:
    """Make a topic whose partitions were led in the epochs 5, 6, … by nodes that are gone."""
    topic = bench.controller.topics.create("t", partitions)
    log = LocalMetadataLog(
        bench.directory.open(METADATA, METADATA_LOG_CONFIG), bench.clock.timestamp, ""
    )
    for partition in range(partitions):
        log.commit(LeaderChanged(TopicIdPartition(topic.id, partition), Leader(77, 5 + partition)))


async def epochs_told(bench: HandlerBench) -> list[int]:
    topics = [{"name": "t"}]
    (told,) = (await bench.ask("metadata", 12, topics=topics)).topics
    return [each.leader_epoch for each in told.partitions]


class TestLeaderEpochs:
    """Of partitions that nodes of a cluster have led before."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[HandlerBench]:
        bench = HandlerBench()
        with closing(LocalDirectory(tmp_path)) as bench.directory:
            bench.restart()
            led_by_others(bench, 3)
        with closing(LocalDirectory(tmp_path)) as bench.directory:
            yield bench

    async def test_a_server_that_is_alone_goes_on_with_them(self, bench: HandlerBench) -> None:
        bench.restart()
        assert await epochs_told(bench) == [5, 6, 7]
        asked = [
            {"partition": 1, "current_leader_epoch": epoch, "leader_epoch": 6} for epoch in (5, 6)
        ]
        (told,) = (
            await bench.ask(
                "offset_for_leader_epoch", 4, topics=[{"topic": "t", "partitions": asked}]
            )
        ).topics
        assert [
            (each.error_code, each.leader_epoch, each.end_offset) for each in told.partitions
        ] == [
            (ErrorCode.fenced_leader_epoch, -1, -1),
            (ErrorCode.none, 6, 0),
        ]

    async def test_each_worker_tells_those_of_all(self, bench: HandlerBench) -> None:
        bench.controller = open_controller(
            bench.directory, bench.config, bench.clock.timestamp, lambda _: False
        )
        bench.nodes = LocalNodes(
            bench.topics,
            bench.controller.image,
            count=WORKERS,
            index=1,
            first_id=10,
            rack=None,
        )
        assert await epochs_told(bench) == [5, 6, 7]


def registered(node: int, host: str) -> NodeRegistered:
    endpoint = NodeEndpoint(ENDPOINT.listener, host, 9092)
    return NodeRegistered(node, 1, (endpoint,), registered_at=Timestamp(0))


class TestANodeThatHasLeft:
    @pytest.fixture(autouse=True)
    def join_cluster(self) -> None:
        self.bench, self.cluster = HandlerBench(), Cluster()
        self.former = RecentlyDepartedNodes(self.bench.clock.now)
        self.nodes = ClusterNodes(self.cluster, self.bench.topics, 1, lambda: 1, None, self.former)

    def replay(self, record: NodeRegistered | NodeFenced) -> None:
        self.cluster.replay(record)
        self.former.update(self.cluster.nodes)

    def listed(self) -> list[tuple[int, str]]:
        return [(each.id, each.host) for each in self.nodes.all(ENDPOINT)]

    def test_a_fenced_node_is_listed_a_little_longer(self) -> None:
        self.replay(registered(2, "two"))
        self.replay(registered(3, "three"))
        self.replay(NodeFenced(2))
        everybody = [(1, ENDPOINT.host), (2, "two"), (3, "three")]
        assert self.listed() == everybody
        assert (self.nodes.ids, self.nodes.node(2, ENDPOINT)) == ({1, 3}, NO_NODE)
        self.bench.clock.ms += MAX_DEPARTED_MS - 1
        self.former.update(self.cluster.nodes)
        assert self.listed() == everybody
        self.bench.clock.ms += 1
        assert self.listed() == [(1, ENDPOINT.host), (3, "three")]

    def test_a_returned_node_is_listed_with_its_new_address(self) -> None:
        self.replay(registered(2, "two"))
        self.replay(NodeFenced(2))
        self.replay(registered(2, "elsewhere"))
        assert self.listed() == [(1, ENDPOINT.host), (2, "elsewhere")]
        self.replay(NodeFenced(2))
        assert self.listed() == [(1, ENDPOINT.host), (2, "elsewhere")]

    def test_the_process_that_has_taken_the_id_of_this_one_is_the_node(self) -> None:
        self.replay(registered(1, "one"))
        assert self.listed() == [(1, ENDPOINT.host)]
        later = replace(registered(1, "elsewhere"), session=2)
        self.replay(later)
        assert self.listed() == [(1, "elsewhere")]
        self.replay(replace(later, endpoints=()))
        assert self.listed() == [(1, ENDPOINT.host)]  # an empty list would be a dead end

    def test_a_fenced_node_is_listed_before_the_first_update(self) -> None:
        self.replay(registered(2, "two"))
        self.cluster.replay(NodeFenced(2))
        assert self.listed() == [(1, ENDPOINT.host), (2, "two")]
        self.bench.clock.ms += MAX_DEPARTED_MS
        assert self.listed() == [(1, ENDPOINT.host)]

    async def test_a_kept_metadata_response_loses_a_departed_node_in_time(self) -> None:
        """Responses are kept as long as nothing is logged."""
        topic = self.bench.controller.topics.create("t", 1)
        self.bench.nodes = self.nodes
        self.cluster.replay(LeaderChanged(TopicIdPartition(topic.id, 0), Leader(1, 0)))
        self.replay(registered(1, "one"))
        self.replay(registered(2, "two"))
        self.replay(NodeFenced(2))
        told = []
        for _ in range(3):
            answer = await self.bench.ask("metadata", 12, topics=[{"name": "t"}])
            told.append([each.node_id for each in answer.brokers])
            self.bench.clock.ms += MAX_DEPARTED_MS // 2
        assert told == [[1, 2], [1, 2], [1]]


class ComesAndGoes(LocalNodes):
    """Another node is there whenever it is asked for the second time."""

    asked = 0

    def all(self, endpoint: Endpoint) -> list[Node]:
        self.asked += 1
        other = Node(1, "another.test", 9092, None)
        return [*super().all(endpoint), *([] if self.asked % 2 else [other])]


@pytest.mark.parametrize("version", [8, 12])
async def test_a_node_that_comes_while_a_long_response_is_made(version: int) -> None:
    bench = HandlerBench()
    names = {f"t{number}" for number in range(3 * TOPICS_PER_TURN)}
    for name in names:
        bench.controller.topics.create(name, 1)
    bench.nodes = alone(bench.topics, kind=ComesAndGoes)
    answer = await bench.ask("metadata", version, topics=None)
    assert {each.name for each in answer.topics} == names
    assert [each.node_id for each in answer.brokers] in ([0], [0, 1])


class TestListenersThatNotAllNodesHave:
    """Node 1 has none that clients of node 2 use, and leads the only partition."""

    @pytest.fixture(autouse=True)
    def _cluster(self) -> None:
        self.bench, cluster = HandlerBench(), Cluster()
        topic = self.bench.controller.topics.create("t", 1)
        inside = NodeEndpoint("INSIDE", "one", 9092)
        cluster.replay(NodeRegistered(1, 1, (inside,), registered_at=Timestamp(0)))
        cluster.replay(registered(2, "two"))
        cluster.replay(LeaderChanged(TopicIdPartition(topic.id, 0), Leader(1, 3)))
        former = RecentlyDepartedNodes(self.bench.clock.now)
        self.bench.nodes = ClusterNodes(cluster, self.bench.topics, 2, lambda: 1, None, former)

    @pytest.mark.parametrize(
        ("version", "error"),
        [(5, ErrorCode.leader_not_available), (6, ErrorCode.listener_not_found)],
    )
    async def test_clients_are_told_that_they_cannot_reach_the_leader(
        self, version: int, error: ErrorCode
    ) -> None:
        answer = await self.bench.ask("metadata", version, topics=[{"name": "t"}])
        assert [each.node_id for each in answer.brokers] == [2]
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (error, -1)
        assert partition.replica_nodes == partition.offline_replicas == (1,)

    async def test_a_description_has_no_such_leader(self) -> None:
        answer = await self.bench.ask(
            "describe_topic_partitions", 0, topics=[{"name": "t"}], response_partition_limit=10
        )
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (ErrorCode.none, -1)
        assert (partition.leader_epoch, partition.offline_replicas) == (3, (1,))

    async def test_the_controller_is_a_node_that_they_can_reach(self) -> None:
        metadata = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
        assert (await self.bench.ask("metadata", 12, topics=[])).controller_id == 2
        assert (await self.bench.ask("describe_cluster", 1, endpoint_type=1)).controller_id == 2
        quorum = await self.bench.ask("describe_quorum", 2, topics=[metadata])
        assert [each.node_id for each in quorum.nodes] == [2]
