"""Handle on the generation for a task that is bound to one partition.

It always stands for the generation that has the partition now, and ends when the partition is
revoked or lost. Under cooperative rebalancing that is longer than one generation.
"""

from collections.abc import Mapping

from kohort.client.group.generation import BoundWork, Generation, GenerationServices
from kohort.client.group.owned_partition import Ending, OwnedPartition
from kohort.client.membership import Grant
from kohort.client.record import K, V
from kohort.types import TopicPartition


class BoundGeneration(Generation[K, V]):
    """The generation as a task with a partition sees it; one is created per task."""

    def __init__(
        self,
        services: GenerationServices,
        owned: OwnedPartition,
        read_in: Mapping[TopicPartition, Generation] | None = None,
    ) -> None:
        """`read_in`: the generations in which other partitions were read, if not in this one."""
        super().__init__(services)
        self._bound = owned
        self._read_in = {} if read_in is None else read_in

    def with_others(self, read_in: Mapping[TopicPartition, Generation]) -> "BoundGeneration[K, V]":
        """This handle, which commits other partitions through their own handles.

        Each handle refuses offsets that were read before its partition was lost.
        """
        return BoundGeneration(self._services, self._bound, read_in)

    @property
    def _present(self) -> Generation[K, V]:
        present = self._bound.generation
        assert isinstance(present, Generation)
        return present

    @property
    def _grant(self) -> Grant:
        return self._present._grant

    @property
    def _ending(self) -> Ending:
        return self._bound.ending

    def _start(
        self, work: BoundWork, name: str, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> None:
        self._present._start(work, name, args, kwargs)

    def _owned(self, partition: TopicPartition) -> OwnedPartition:
        if partition == self._bound.partition:
            return self._bound
        return self._read_in.get(partition, self._present)._owned(partition)
