"""State of nodes and leaders: the fold of their records."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from kohort.cluster.records import (
    NO_LEADER,
    Leader,
    LeaderChanged,
    NodeFenced,
    NodeRecord,
    NodeRegistered,
    ReassignmentPlanned,
)
from kohort.types import TopicIdPartition


class TopicKind(Enum):
    """What a topic stores. The partitions of each kind are balanced separately."""

    RECORDS = "records"
    GROUPS = "groups"
    TRANSACTIONS = "transactions"


class TopicSize(NamedTuple):
    """Kind and number of partitions of a topic: input to the choice of leaders."""

    kind: TopicKind
    partitions: int


class Cluster:
    """Nodes, leaders and planned moves; `replay` is the only writer."""

    def __init__(self) -> None:
        self.nodes: dict[int, NodeRegistered] = {}
        """Registered nodes that are not fenced, by id."""
        self.leaders: dict[TopicIdPartition, Leader] = {}
        """Leaders of partitions that ever had one; the epoch stays when the leader is gone.

        Those of a deleted topic stay until a record removes them.
        """
        self.moves: dict[TopicIdPartition, int] = {}
        """Next leader of each partition with a planned move."""
        self.ready: set[TopicIdPartition] = set()
        """Partitions with a planned move that the next leader has read."""

    def replay(self, record: NodeRecord) -> None:
        match record:
            case NodeRegistered():
                self.nodes[record.id] = record
            case NodeFenced():
                self.nodes.pop(record.id, None)
            case LeaderChanged(partition=partition, leader=leader):
                self._plan(ReassignmentPlanned(partition, None))
                if leader == Leader():
                    self.leaders.pop(partition, None)
                else:
                    self.leaders[partition] = leader
            case ReassignmentPlanned():
                self._plan(record)

    def _plan(self, record: ReassignmentPlanned) -> None:
        partition, to, is_ready = record.partition, record.to, record.is_ready
        if to is None:
            self.moves.pop(partition, None)
        else:
            self.moves[partition] = to
        if to is not None and is_ready:
            self.ready.add(partition)
        else:
            self.ready.discard(partition)

    def planned(self, partition: TopicIdPartition) -> ReassignmentPlanned:
        """The planned move of a partition, as a record."""
        return ReassignmentPlanned(partition, self.moves.get(partition), partition in self.ready)

    def inverse(self, record: NodeRecord) -> tuple[NodeRecord, ...]:
        """The records that undo `record`, which is about to be replayed."""
        match record:
            case NodeRegistered(id=node) | NodeFenced(id=node):
                return (self.nodes.get(node, NodeFenced(node)),)
            case LeaderChanged(partition=partition):
                led = LeaderChanged(partition, self.leaders.get(partition, Leader()))
                return (led, self.planned(partition))
            case ReassignmentPlanned(partition=partition):
                return (self.planned(partition),)

    def leader(self, partition: TopicIdPartition) -> Leader:
        """The leader of a partition; its node is `NO_LEADER` if it has none, or that is fenced."""
        leader = self.leaders.get(partition)
        if leader is None:
            return Leader()
        return leader if leader.node in self.nodes else Leader(NO_LEADER, leader.epoch)

    def led_by(self, node: int) -> Iterator[TopicIdPartition]:
        """The partitions that a node leads."""
        return (partition for partition, leader in self.leaders.items() if leader.node == node)

    @property
    def controller_id(self) -> int:
        """The node that clients see as the controller: the lowest one; -1 if there is none."""
        return min(self.nodes, default=NO_LEADER)


def partitions_of(topics: Mapping[UUID, TopicSize]) -> Iterator[TopicIdPartition]:
    """The partitions of all topics."""
    for topic_id, (_, partitions) in topics.items():
        for partition in range(partitions):
            yield TopicIdPartition(topic_id, partition)
