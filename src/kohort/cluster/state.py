"""The fold of the records of nodes and leaders."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from kohort.cluster.records import (
    NO_LEADER,
    ClusterRecord,
    Leader,
    MovePlanned,
    NodeFenced,
    NodeRegistered,
    PartitionLed,
    Place,
)


class Purpose(Enum):
    """What a topic is for; the partitions of each are spread evenly by themselves."""

    RECORDS = "records"
    GROUPS = "groups"
    TRANSACTIONS = "transactions"


class Spread(NamedTuple):
    """What is to be known of a topic whose partitions are spread over the nodes."""

    purpose: Purpose
    partitions: int


class Cluster:
    """Nodes, leaders and planned moves; `replay` is the only writer."""

    def __init__(self) -> None:
        self.nodes: dict[int, NodeRegistered] = {}
        """Those that are not fenced."""
        self.leaders: dict[Place, Leader] = {}
        """Of places that had one at some time; the epoch stays when the leader is gone.

        Those of a deleted topic stay until records say that they are gone.
        """
        self.moves: dict[Place, int] = {}
        """The node that is to lead a place next."""
        self.ready: set[Place] = set()
        """The places among them that their next leader has read."""

    def replay(self, record: ClusterRecord) -> None:
        match record:
            case NodeRegistered():
                self.nodes[record.id] = record
            case NodeFenced():
                self.nodes.pop(record.id, None)
            case PartitionLed(place=place, leader=leader):
                self._plan(MovePlanned(place, None))
                if leader == Leader():
                    self.leaders.pop(place, None)
                else:
                    self.leaders[place] = leader
            case MovePlanned():
                self._plan(record)

    def _plan(self, record: MovePlanned) -> None:
        place, to, is_ready = record.place, record.to, record.is_ready
        if to is None:
            self.moves.pop(place, None)
        else:
            self.moves[place] = to
        if to is not None and is_ready:
            self.ready.add(place)
        else:
            self.ready.discard(place)

    def planned(self, place: Place) -> MovePlanned:
        """What is planned for a partition, as a record."""
        return MovePlanned(place, self.moves.get(place), place in self.ready)

    def inverse(self, record: ClusterRecord) -> tuple[ClusterRecord, ...]:
        """The records that undo `record`, which is about to be replayed."""
        match record:
            case NodeRegistered(id=node) | NodeFenced(id=node):
                return (self.nodes.get(node, NodeFenced(node)),)
            case PartitionLed(place=place):
                led = PartitionLed(place, self.leaders.get(place, Leader()))
                return (led, self.planned(place))
            case MovePlanned(place=place):
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


def places(topics: Mapping[UUID, Spread]) -> Iterator[Place]:
    """The partitions of all topics."""
    for topic_id, (_, partitions) in topics.items():
        for partition in range(partitions):
            yield Place(topic_id, partition)
