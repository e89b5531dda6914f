"""Nodes of a cluster and the leaders of partitions, as responses show them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kohort.cluster import NO_LEADER, Cluster, Leader, NodeRegistered, worker_of
from kohort.coordinator_common import partition_for
from kohort.log.base import LogState
from kohort.log.offline_log import UNKNOWN
from kohort.security.peer import Endpoint
from kohort.server.addresses import local_socket_of
from kohort.server.metadata import MetadataImage
from kohort.server.replicas import Topic, Topics
from kohort.types import Instant, TopicIdPartition, TopicPartition

MAX_DEPARTED_MS: Final = 9_000
"""Time for which Metadata lists a node after it has left: Kafka's `broker.session.timeout.ms`."""


class Node(NamedTuple):
    """A node as clients of one listener reach it."""

    id: int
    host: str
    port: int
    rack: str | None


NO_NODE = Node(NO_LEADER, "", -1, None)


class Nodes(Protocol):
    """Current state of the cluster."""

    @property
    def ids(self) -> Collection[int]:
        """Ids of all registered nodes."""
        ...

    def controller(self, endpoint: Endpoint) -> int:
        """The node that clients of this listener see as the controller, `NO_LEADER` if none is."""
        ...

    def all(self, endpoint: Endpoint) -> Sequence[Node]:
        """All nodes, with those that left recently, as clients of this listener reach them."""
        ...

    def node(self, node_id: int, endpoint: Endpoint) -> Node:
        """A node, `NO_NODE` if the cluster has none of that id."""
        ...

    def leaders(self, topic: Topic) -> Sequence[Leader]:
        """The leader of each partition; its node is `NO_LEADER` where there is none."""
        ...

    def leader(self, topic: Topic, partition: int) -> Leader:
        """The leader of one partition."""
        ...

    def coordinator(self, topic: str, key: str) -> int:
        """The node that coordinates a group or transactional id, `NO_LEADER` if there is none.

        `topic` is the coordinators' topic.
        """
        ...


class LocalNodes:
    """The workers of one machine, each of which leads a fixed share of the partitions.

    Their ids and ports are consecutive. A server alone is the only one of them.
    """

    def __init__(
        self,
        topics: Topics,
        image: MetadataImage,
        *,
        count: int,
        index: int,
        first_id: int,
        rack: str | None,
    ) -> None:
        """`index` is that of this worker, from 0 on; `first_id` the node id of worker 0."""
        self.ids: Collection[int] = range(first_id, first_id + count)
        self._first_id = first_id
        self._topics = topics
        self._image = image
        self._count = count
        self._index = index
        self._rack = rack

    def controller(self, endpoint: Endpoint) -> int:  # noqa: ARG002
        return self._first_id

    def all(self, endpoint: Endpoint) -> Sequence[Node]:
        return [self.node(node_id, endpoint) for node_id in self.ids]

    def node(self, node_id: int, endpoint: Endpoint) -> Node:
        if node_id not in self.ids:
            return NO_NODE
        worker = node_id - self._first_id
        if not endpoint.port:  # a Unix socket
            first_host = (
                endpoint.host.removesuffix(f".{self._index}") if self._index else endpoint.host
            )
            return Node(node_id, local_socket_of(first_host, worker), 0, self._rack)
        return Node(node_id, endpoint.host, endpoint.port + worker - self._index, self._rack)

    def leaders(self, topic: Topic) -> Sequence[Leader]:
        return [self._leader(topic, log) for log in topic.partitions]

    def leader(self, topic: Topic, partition: int) -> Leader:
        return self._leader(topic, topic.partitions[partition])

    def coordinator(self, topic: str, key: str) -> int:
        coordinators_topic = self._topics.get(topic)
        if coordinators_topic is None:
            return NO_LEADER
        partition = partition_for(key, len(coordinators_topic.partitions))
        return self._node_of(TopicPartition(topic, partition))

    def _leader(self, topic: Topic, log: LogState) -> Leader:
        if (epoch := log.leader_epoch) != UNKNOWN:  # it is open here
            return Leader(self._first_id + self._index, epoch)
        epoch = self._image.leader_epoch(topic.id, log.topic_partition.partition)
        return Leader(self._node_of(log.topic_partition), epoch)

    def _node_of(self, partition: TopicPartition) -> int:
        return self._first_id + worker_of(partition, self._count)


class RecentlyDepartedNodes:
    """Nodes that have left the cluster less than `MAX_DEPARTED_MS` ago.

    Most are restarted and soon back. A client forgets a node that a Metadata response omits, and
    some versions of librdkafka do not connect to it again.
    """

    def __init__(self, now: Callable[[], Instant]) -> None:
        self._now = now
        self._previous: dict[int, NodeRegistered] = {}
        self._departed: dict[int, tuple[NodeRegistered, Instant]] = {}

    def update(self, nodes: Mapping[int, NodeRegistered]) -> None:
        """Compare with the nodes that are now in the cluster, by id."""
        now = self._now()
        departed = self._previous.keys() - nodes.keys()
        self._departed.update({node: (self._previous[node], now) for node in departed})
        self._departed = {
            node: (registration, departed_at)
            for node, (registration, departed_at) in self._departed.items()
            if node not in nodes and departed_at + MAX_DEPARTED_MS > now
        }
        self._previous = dict(nodes)

    def by_id(self) -> dict[int, NodeRegistered]:
        """The last registrations of these nodes."""
        now = self._now()
        return {
            node: registration
            for node, (registration, departed_at) in self._departed.items()
            if departed_at + MAX_DEPARTED_MS > now
        }


class ClusterNodes:
    """The nodes of a metadata log, and the leaders that it names.

    This node is always one of them, also while it has no session: a client that gets an empty list
    has no node to refresh its metadata from. If another process has taken its id, that one is the
    node.
    """

    def __init__(
        self,
        cluster: Cluster,
        topics: Topics,
        node_id: int,
        session: Callable[[], int],
        rack: str | None,
        former: RecentlyDepartedNodes,
    ) -> None:
        """`node_id`, `rack` and the last `session` are those of this node."""
        self._cluster = cluster
        self._topics = topics
        self._node_id = node_id
        self._session = session
        self._rack = rack
        self._former = former

    @property
    def ids(self) -> Collection[int]:
        return self._cluster.nodes.keys() | {self._node_id}

    def controller(self, endpoint: Endpoint) -> int:
        # Any node is one: the first that these clients can reach.
        nodes = sorted(self._cluster.nodes)
        return next(
            (node_id for node_id in nodes if self.node(node_id, endpoint) is not NO_NODE), NO_LEADER
        )

    def all(self, endpoint: Endpoint) -> Sequence[Node]:
        self._former.update(self._cluster.nodes)  # one may have left right now
        registered = self._former.by_id() | self._cluster.nodes
        nodes = (
            self._node_at(endpoint, node_id, registered.get(node_id))
            for node_id in sorted(registered.keys() | {self._node_id})
        )
        return [node for node in nodes if node is not NO_NODE]

    def node(self, node_id: int, endpoint: Endpoint) -> Node:
        return self._node_at(endpoint, node_id, self._cluster.nodes.get(node_id))

    def _node_at(self, endpoint: Endpoint, node_id: int, registered: NodeRegistered | None) -> Node:
        """The node with its address of the listener of `endpoint`, else NO_NODE."""
        is_own = node_id == self._node_id
        if registered is not None and not (is_own and registered.session <= self._session()):
            for listener, host, port in registered.endpoints:
                if listener == endpoint.listener:
                    return Node(node_id, host, port, registered.rack)
        return Node(node_id, endpoint.host, endpoint.port, self._rack) if is_own else NO_NODE

    def leaders(self, topic: Topic) -> Sequence[Leader]:
        return [self.leader(topic, partition) for partition in range(len(topic.partitions))]

    def leader(self, topic: Topic, partition: int) -> Leader:
        return self._cluster.leader(TopicIdPartition(topic.id, partition))

    def coordinator(self, topic: str, key: str) -> int:
        coordinators_topic = self._topics.get(topic)
        if coordinators_topic is None:
            return NO_LEADER
        partition = partition_for(key, len(coordinators_topic.partitions))
        return self._cluster.leader(TopicIdPartition(coordinators_topic.id, partition)).node
