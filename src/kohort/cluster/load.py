"""How many partitions each node leads, and which move would even that out."""

from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kohort.cluster.records import Place
from kohort.cluster.state import TopicKind, TopicSize


class Load:
    """The partitions that have a leader: of each topic, of each kind, in all."""

    def __init__(self, targets: Sequence[int], topics: Mapping[UUID, TopicSize]) -> None:
        """`targets`: the nodes that may get partitions, at least one."""
        self._targets = targets
        self._topics = topics
        self._leader: dict[Place, int] = {}
        self._places: dict[int, dict[UUID, set[Place]]] = {}
        """By node and topic."""
        self._of_kind: dict[TopicKind, Counter[int]] = {each: Counter() for each in TopicKind}
        self._of_node: Counter[int] = Counter()

    def add(self, place: Place, node: int) -> None:
        """A node leads the partition."""
        self._leader[place] = node
        self._places.setdefault(node, {}).setdefault(place.topic_id, set()).add(place)
        self._of_kind[self._kind(place.topic_id)][node] += 1
        self._of_node[node] += 1

    def assign(self, place: Place) -> int:
        """Have the node with the fewest lead the partition; returns the node."""
        node = self._next(place.topic_id)
        self.add(place, node)
        return node

    def move(self, place: Place, to: int) -> None:
        """Have another node lead the partition."""
        node = self._leader[place]
        self._places[node][place.topic_id].remove(place)
        self._of_kind[self._kind(place.topic_id)][node] -= 1
        self._of_node[node] -= 1
        self.add(place, to)

    def reassign(self, place: Place) -> int:
        """Have the node with the fewest lead a partition that has a leader; returns the node."""
        node = self._next(place.topic_id)
        self.move(place, node)
        return node

    def of(self, nodes: Collection[int]) -> list[Place]:
        """The partitions that these nodes lead, in order."""
        return sorted(place for place, node in self._leader.items() if node in nodes)

    def best_move(
        self, fixed: Collection[Place]
    ) -> Generator[None, None, tuple[Place, int] | None]:
        """A move that evens out; None if none does. The partitions `fixed` stay.

        Each move makes the sum of squares of the numbers by kind less, or leaves it and makes
        that of the numbers by topic less. So moves end.
        """
        moves = []
        for kind in TopicKind:
            found = yield from self._best_of(kind, fixed)
            if found is not None:
                moves.append(found)
        if not moves:
            return None
        best = max(moves, key=lambda move: move.gain)
        return best.place, best.to

    def _best_of(
        self, kind: TopicKind, fixed: Collection[Place]
    ) -> Generator[None, None, "_Move | None"]:
        """The best move away from the node with the most partitions of a kind.

        If it is even, the best of all moves that leave it so.
        """
        counts = self._of_kind[kind]
        emptiest = self._with_fewest(kind)
        least = counts[emptiest[0]]
        best: _Move | None = None
        for node in sorted(counts, key=lambda node: (-counts[node], node)):
            gain = counts[node] - least - 1  # 0: the two nodes would only change places
            if gain < 0 or (best is not None and best.gain[0] > 0):
                break
            for topic_id, there in self._places[node].items():
                yield
                if self._kind(topic_id) is not kind:
                    continue
                to = self._emptiest(topic_id, emptiest)
                gains = (gain, len(there) - self._count(to, topic_id) - 1)
                if gains > (best.gain if best else (0, 0)) and (movable := there.difference(fixed)):
                    best = _Move(gains, min(movable), to)
        return best

    def _next(self, topic_id: UUID) -> int:
        """The node that is to get the next partition of a topic."""
        return self._emptiest(topic_id, self._with_fewest(self._kind(topic_id)))

    def _with_fewest(self, kind: TopicKind) -> Sequence[int]:
        counts = self._of_kind[kind]
        least = min(counts[node] for node in self._targets)
        return [node for node in self._targets if counts[node] == least]

    def _emptiest(self, topic_id: UUID, nodes: Sequence[int]) -> int:
        """The node with the fewest partitions of a topic, and then in all."""
        if len(nodes) == 1:
            return nodes[0]
        return min(nodes, key=lambda node: (self._count(node, topic_id), self._of_node[node], node))

    def _count(self, node: int, topic_id: UUID) -> int:
        return len(self._places.get(node, {}).get(topic_id, ()))

    def _kind(self, topic_id: UUID) -> TopicKind:
        return self._topics[topic_id].kind


class _Move(NamedTuple):
    gain: tuple[int, int]
    """What it evens out: of the partition's kind, then of its topic."""
    place: Place
    to: int
