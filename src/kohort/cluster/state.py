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
    Place,
    ReassignmentPlanned,
)


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
        self.leaders: dict[Place, Leader] = {}
        """Leaders of partitions that ever had one; the epoch stays when the leader is gone.

        Those of a deleted topic stay until a record removes them.
        """
        self.moves: dict[Place, int] = {}
        """Next leader of each partition with a planned move."""
        self.ready: set[Place] = set()
        """Partitions with a planned move that the next leader has read."""

    def replay(self, record: NodeRecord) -> None:
        match record:
            case NodeRegistered():
                self.nodes[record.id] = record
            case NodeFenced():
                self.nodes.pop(record.id, None)
            case LeaderChanged(place=place, leader=leader):
                self._plan(ReassignmentPlanned(place, None))
                if leader == Leader():
                    self.leaders.pop(place, None)
                else:
                    self.leaders[place] = leader
            case ReassignmentPlanned():
                self._plan(record)

    def _plan(self, record: ReassignmentPlanned) -> None:
        place, to, is_ready = record.place, record.to, record.is_ready
        if to is None:
            self.moves.pop(place, None)
        else:
            self.moves[place] = to
        if to is not None and is_ready:
            self.ready.add(place)
        else:
            self.ready.discard(place)

    def planned(self, place: Place) -> ReassignmentPlanned:
        """The planned move of a partition, as a record."""
        return ReassignmentPlanned(place, self.moves.get(place), place in self.ready)

    def inverse(self, record: NodeRecord) -> tuple[NodeRecord, ...]:
        """The records that undo `record`, which is about to be replayed."""
        match record:
            case NodeRegistered(id=node) | NodeFenced(id=node):
                return (self.nodes.get(node, NodeFenced(node)),)
            case LeaderChanged(place=place):
                led = LeaderChanged(place, self.leaders.get(place, Leader()))
                return (led, self.planned(place))
            case ReassignmentPlanned(place=place):
                return (self.planned(place),)

    def leader(self, place: Place) -> Leader:
        """The leader of a partition; its node is `NO_LEADER` if it has none, or that is fenced."""
        leader = self.leaders.get(place)
        if leader is None:
            return Leader()
        return leader if leader.node in self.nodes else Leader(NO_LEADER, leader.epoch)

    def led_by(self, node: int) -> Iterator[Place]:
        """The partitions that a node leads."""
        return (place for place, leader in self.leaders.items() if leader.node == node)

    @property
    def controller_id(self) -> int:
        """The node that clients see as the controller: the lowest one; -1 if there is none."""
        return min(self.nodes, default=NO_LEADER)


def places(topics: Mapping[UUID, TopicSize]) -> Iterator[Place]:
    """The partitions of all topics."""
    for topic_id, (_, partitions) in topics.items():
        for partition in range(partitions):
            yield Place(topic_id, partition)
