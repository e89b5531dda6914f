"""Number of partitions per node, and the best next move for balance."""

from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kohort.cluster.state import TopicKind, TopicSize
from kohort.types import TopicIdPartition


class Load:
    """Leaderships per node: by topic, by kind, in total."""

    def __init__(self, targets: Sequence[int], topics: Mapping[UUID, TopicSize]) -> None:
        """`targets`: nodes that may get partitions, at least one."""
        self._targets = targets
        self._topics = topics
        self._leader: dict[TopicIdPartition, int] = {}
        self._partitions: dict[int, dict[UUID, set[TopicIdPartition]]] = {}
        """By node and topic."""
        self._of_kind: dict[TopicKind, Counter[int]] = {kind: Counter() for kind in TopicKind}
        self._of_node: Counter[int] = Counter()

    def add(self, partition: TopicIdPartition, node: int) -> None:
        """Add a partition that this node leads."""
        self._leader[partition] = node
        self._partitions.setdefault(node, {}).setdefault(partition.topic_id, set()).add(partition)
        self._of_kind[self._kind(partition.topic_id)][node] += 1
        self._of_node[node] += 1

    def assign(self, partition: TopicIdPartition) -> int:
        """Give a new partition to the node with the fewest; returns the node."""
        node = self._next(partition.topic_id)
        self.add(partition, node)
        return node

    def move(self, partition: TopicIdPartition, to: int) -> None:
        """Move a partition to another node."""
        node = self._leader[partition]
        self._partitions[node][partition.topic_id].remove(partition)
        self._of_kind[self._kind(partition.topic_id)][node] -= 1
        self._of_node[node] -= 1
        self.add(partition, to)

    def reassign(self, partition: TopicIdPartition) -> int:
        """Move a partition to the node with the fewest; returns the node."""
        node = self._next(partition.topic_id)
        self.move(partition, node)
        return node

    def of(self, nodes: Collection[int]) -> list[TopicIdPartition]:
        """Partitions that these nodes lead, sorted."""
        return sorted(partition for partition, node in self._leader.items() if node in nodes)

    def best_move(
        self, fixed: Collection[TopicIdPartition]
    ) -> Generator[None, None, tuple[TopicIdPartition, int] | None]:
        """The move that improves the balance most; None if none does. `fixed` do not move.

        Each move reduces the sum of squared counts by kind, or keeps it and reduces that by topic.
        So a sequence of moves ends.
        """
        moves = []
        for kind in TopicKind:
            candidate = yield from self._best_of(kind, fixed)
            if candidate is not None:
                moves.append(candidate)
        if not moves:
            return None
        best = max(moves, key=lambda move: move.gain)
        return best.partition, best.to

    def _best_of(
        self, kind: TopicKind, fixed: Collection[TopicIdPartition]
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
            for topic_id, partitions in self._partitions[node].items():
                yield
                if self._kind(topic_id) is not kind:
                    continue
                to = self._emptiest(topic_id, emptiest)
                gains = (gain, len(partitions) - self._count(to, topic_id) - 1)
                if gains > (best.gain if best else (0, 0)) and (
                    movable := partitions.difference(fixed)
                ):
                    best = _Move(gains, min(movable), to)
        return best

    def _next(self, topic_id: UUID) -> int:
        """Node for the next partition of a topic."""
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
        return len(self._partitions.get(node, {}).get(topic_id, ()))

    def _kind(self, topic_id: UUID) -> TopicKind:
        return self._topics[topic_id].kind


class _Move(NamedTuple):
    gain: tuple[int, int]
    """Improvement of the balance by kind, then by topic."""
    partition: TopicIdPartition
    to: int
