"""A generation: the time in which this member has certain partitions, as a scope that tasks live
in.

    async for generation in group:
        async with generation:
            for partition in generation.assignment:
                generation.start(work, partition)

Leaving the `async with` waits until the generation has ended and its tasks with it. It ends in one
of three ways (`generation.end`, `await generation.ending()`):

- *revoked*: the group rebalances. `records` yields nothing more, what is in flight may finish and
commit; what has
  not returned within the drain timeout is cancelled.
- *lost*: others may own the partitions already. Tasks are cancelled at once, commits are refused
here. - *closed*: this member leaves, drained as if revoked; or something failed, and everything is
cancelled at once.

A task that is started with a partition is bound to it. Under cooperative rebalancing a partition
that stays is not interrupted: its tasks run on into the next generation, where starting the same
function with the same arguments starts nothing. The generation that such a task was given always
speaks of the present one: its `id` moves on, and it ends when the partition is taken away. So the
loop above is right for eager and for cooperative members.

An exception in a task, or in the body, ends the generation: the other tasks are cancelled, and it
leaves `async with`, of tasks as an ExceptionGroup (like asyncio.TaskGroup). The member stays in the
group for its session until the next generation is asked for, or the group is left.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from kohort.client.fetch import Batch, Fetcher
from kohort.client.group.owned_partition import Ending, OwnedPartition, Work
from kohort.client.membership import End, Grant
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.types import TopicPartition


class Workplace(Protocol):
    """What generations need of their group."""

    name: str
    fetcher: Fetcher

    def stream(self, owned: OwnedPartition) -> AsyncIterator[Batch]:
        """The partition's batches until it ends."""
        ...

    async def commit(
        self, offsets: Mapping[OwnedPartition, OffsetAndMetadata], *, wait: bool | None
    ) -> None: ...

    def abort(self, cause: str) -> None:
        """End the generation: cancel everything, and stay out of the group until the next one is
        asked for.
        """
        ...

    def take_errors(self) -> list[BaseException]:
        """What tasks raised since it was asked last."""
        ...

    def task_failed(self, error: BaseException) -> None: ...


class Generation(ABC):
    """What this member has of the group at a time: as the application is handed it, whose `async
    with` is the scope (`GenerationScope`), or as a task sees it that is bound to a partition
    (`BoundGeneration`).
    """

    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace

    @property
    @abstractmethod
    def _grant(self) -> Grant: ...

    @property
    @abstractmethod
    def _ending(self) -> Ending: ...

    @abstractmethod
    def _owned(self, partition: TopicPartition) -> OwnedPartition:
        """Raises GenerationEndedError if it is not in the assignment, or is so no longer."""

    # --- what it is ---

    @property
    def id(self) -> int:
        """Kafka's generation id."""
        return self._grant.generation

    @property
    def member_id(self) -> str:
        return self._grant.member_id

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        return self._grant.assignment

    @property
    def added(self) -> tuple[TopicPartition, ...]:
        """What the generation before did not have: all of it, under eager rebalancing."""
        return self._grant.added

    @property
    def kept(self) -> tuple[TopicPartition, ...]:
        """What the generation before had too, without interruption (cooperative)."""
        return self._grant.kept

    @property
    def revoked(self) -> tuple[TopicPartition, ...]:
        """What the generation before had, and this one has not (cooperative)."""
        return self._grant.revoked

    @property
    def protocol(self) -> str:
        """Name of the assignor that the group chose."""
        return self._grant.protocol

    @property
    def is_leader(self) -> bool:
        """Whether this member made the assignment."""
        return self._grant.is_leader

    @property
    def end(self) -> End | None:
        """How it ended, or ends: None while it goes on. In a bound task: of its partition."""
        return self._ending.end

    async def ending(self) -> End:
        """Wait until it ends. Work that takes long looks at this, or is cancelled when the drain
        timeout is over.
        """
        await self._ending.began.wait()
        assert self._ending.end is not None
        return self._ending.end

    def committed(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        """What was committed when this member got the partition; None: nothing."""
        return self._owned(partition).committed

    def start_offset(self, partition: TopicPartition) -> int:
        """Where `records` begins: what was committed, else where `start_offset` of the
        configuration says.
        """
        start = self._owned(partition).start
        assert start is not None
        return start

    # --- work ---

    @abstractmethod
    def start(self, work: Work, *args: object) -> None:
        """Run `work(generation, *args)` as a task of this generation.

        If the first of `args` is a partition, the task is bound to it: it ends with the partition,
        and a kept partition's task runs on instead of being started again. In a generation that has
        ended nothing is started. Raises KohortError outside `async with`.
        """

    def records(self, partition: TopicPartition) -> AsyncIterator[Batch]:
        """The partition's batches from its start offset on, until it is revoked, lost or closed.

        The fetcher reads ahead, but no further than its bounds: who is slow is not flooded. Errors
        that concern the partition are raised here.
        """
        return self._workplace.stream(self._owned(partition))

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], *, wait: bool | None = None
    ) -> None:
        """Commit, for each partition, the offset of the next record that is wanted:
        `batch.next_offset`.

        Back when the coordinator has them, unless `commit_interval_ms` is set: then at once, and
        they are sent with the next interval, or when the partition is revoked; `wait` says
        otherwise. Raises GenerationEndedError when a partition is not this member's any more,
        `CommitError` with the errors by partition.
        """
        named = {owned: owned.offset(given) for owned, given in self._held(offsets)}
        await self._workplace.commit(named, wait=wait)

    def position(self, partition: TopicPartition) -> int | None:
        """Offset of the next record that `records` yields; None until it is known."""
        self._owned(partition)
        return self._workplace.fetcher.position(partition)

    def lag(self, partition: TopicPartition) -> int | None:
        """How many records behind the high watermark that is; None before the first answer."""
        self._owned(partition)
        return self._workplace.fetcher.lag(partition)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at `offset`: the next batch begins there."""
        self._owned(partition)
        self._workplace.fetcher.seek(partition, offset)

    def pause(self, *partitions: TopicPartition) -> None:
        """Fetch nothing of these until `resume`; the member keeps them."""
        for each in partitions:
            self._owned(each)
            self._workplace.fetcher.pause(each)

    def resume(self, *partitions: TopicPartition) -> None:
        for each in partitions:
            self._owned(each)
            self._workplace.fetcher.resume(each)

    def _held(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> list[tuple[OwnedPartition, int | OffsetAndMetadata]]:
        return [(self._owned(each), given) for each, given in offsets.items()]
