"""The generation as a task sees it that is bound to a partition: always the one that has the
partition now, and ending when the partition is taken away. Under cooperative rebalancing that is
longer than one generation.
"""

from kohort.client.group.generation import Generation, Workplace
from kohort.client.group.owned_partition import Ending, OwnedPartition, Work
from kohort.client.membership import Grant
from kohort.types import TopicPartition


class BoundGeneration(Generation):
    """Made for each task that is started with a partition."""

    def __init__(self, workplace: Workplace, owned: OwnedPartition) -> None:
        super().__init__(workplace)
        self._bound = owned

    @property
    def _present(self) -> Generation:
        present = self._bound.generation
        assert isinstance(present, Generation)
        return present

    @property
    def _grant(self) -> Grant:
        return self._present._grant

    @property
    def _ending(self) -> Ending:
        return self._bound.ending

    def start(self, work: Work, *args: object) -> None:
        self._present.start(work, *args)

    def _owned(self, partition: TopicPartition) -> OwnedPartition:
        if partition == self._bound.partition:
            return self._bound
        return self._present._owned(partition)
