"""How many partitions each node leads, and which move would even that out."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from kohort.cluster.records import Place
from kohort.cluster.state import Purpose, Spread


class Load:
    """The partitions that have a leader: of each topic, of each purpose, in all."""

    def __init__(self, targets: Sequence[int], topics: Mapping[UUID, Spread]) -> None:
        """`targets`: the nodes that may get partitions, at least one."""
        self._targets = targets
        self._topics = topics
        self._leader: dict[Place, int] = {}
        self._places: dict[tuple[int, UUID], set[Place]] = {}
        """By node and topic."""
        self._of_purpose: Counter[tuple[int, Purpose]] = Counter()
        self._of_node: Counter[int] = Counter()

    def add(self, place: Place, node: int) -> None:
        """A node leads the partition."""
        self._leader[place] = node
        self._places.setdefault((node, place.topic_id), set()).add(place)
        self._of_purpose[node, self._purpose(place.topic_id)] += 1
        self._of_node[node] += 1

    def assign(self, place: Place) -> int:
        """Have the node with the fewest lead the partition; returns the node."""
        node = self._emptiest(place.topic_id)
        self.add(place, node)
        return node

    def move(self, place: Place, to: int) -> None:
        """Have another node lead the partition."""
        node = self._leader[place]
        self._places[node, place.topic_id].remove(place)
        self._of_purpose[node, self._purpose(place.topic_id)] -= 1
        self._of_node[node] -= 1
        self.add(place, to)

    def reassign(self, place: Place) -> int:
        """Have the node with the fewest lead a partition that has a leader; returns the node."""
        node = self._emptiest(place.topic_id)
        self.move(place, node)
        return node

    def of(self, nodes: Collection[int]) -> list[Place]:
        """The partitions that these nodes lead, in order."""
        return sorted(place for place, node in self._leader.items() if node in nodes)

    def best_move(self, fixed: Collection[Place]) -> tuple[Place, int] | None:
        """The move that evens out most; None if none does. The partitions `fixed` stay.

        Each move makes the sum of squares of the numbers by purpose less, or leaves it and makes
        that of the numbers by topic less. So moves end.
        """
        best, best_gain = None, (0, 0)
        for (node, topic_id), all_there in sorted(self._places.items()):
            to = self._emptiest(topic_id)
            gain = self._gain(topic_id, node, to)
            if gain > best_gain and (movable := all_there.difference(fixed)):
                best, best_gain = (min(movable), to), gain
        return best

    def _gain(self, topic_id: UUID, node: int, to: int) -> tuple[int, int]:
        """What a move evens out: of the topic's purpose, then of the topic.

        0: the two nodes would only change places.
        """
        purpose = self._purpose(topic_id)
        return (
            self._of_purpose[node, purpose] - self._of_purpose[to, purpose] - 1,
            self._count(node, topic_id) - self._count(to, topic_id) - 1,
        )

    def _emptiest(self, topic_id: UUID) -> int:
        purpose = self._purpose(topic_id)
        return min(
            self._targets,
            key=lambda node: (
                self._of_purpose[node, purpose],
                self._count(node, topic_id),
                self._of_node[node],
                node,
            ),
        )

    def _count(self, node: int, topic_id: UUID) -> int:
        return len(self._places.get((node, topic_id), ()))

    def _purpose(self, topic_id: UUID) -> Purpose:
        return self._topics[topic_id].purpose
