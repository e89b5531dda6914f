"""A generation: the time in which this member owns certain partitions, as a scope for tasks.

    async for generation in group:
        async with generation:
            for partition in generation.assignment:
                generation.start(work, partition)

Leaving the `async with` waits until the generation and its tasks have ended. There are three ways
to end (`generation.end`, `await generation.ending()`):

- *revoked*: the group rebalances. `records` yields nothing more; work in flight may finish and
  commit. Tasks that have not returned within the drain timeout are cancelled.
- *lost*: others may own the partitions already. Tasks are cancelled at once, and commits are
  refused.
- *closed*: this member leaves, and drains as if revoked; or it failed, and all tasks are cancelled
  at once.

A task that is started with a partition is bound to it. Under cooperative rebalancing a partition
that stays is not interrupted. Its tasks run on into the next generation, where starting the
partition's task again (or one of the same name) starts nothing. The generation that such a task
received always represents the current one: its `id` changes, and it ends when the partition is
revoked or lost. So the loop above is right for eager and for cooperative members.

An exception in a task, or in the body, ends the generation: the other tasks are cancelled, and the
exception leaves `async with` (of tasks as an ExceptionGroup, like asyncio.TaskGroup). The member
stays in the group for its session until the next generation is requested, or the group is left.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeAlias, TypeVarTuple, overload
from uuid import UUID

from kohort.client.config import GroupConfig
from kohort.client.fetch import Batch, Fetcher
from kohort.client.group.commits import validate_commits
from kohort.client.group.exactly_once import ExactlyOnce, T, TransactionalProducer
from kohort.client.group.owned_partition import Ending, OwnedPartition
from kohort.client.group_metadata import GroupMetadata
from kohort.client.membership import End, Grant
from kohort.client.offset_and_metadata import OffsetAndMetadata, validate_offsets
from kohort.client.record import K, V
from kohort.types import TopicPartition

Args = TypeVarTuple("Args")
P = ParamSpec("P")
"""Types of a task's arguments after the generation."""
BoundWork: TypeAlias = Callable[
    Concatenate["Generation[Any, Any]", ...], Coroutine[Any, Any, object]
]
"""Work of a generation: its arguments follow the generation."""


class GenerationServices(Protocol):
    """The group as its generations see it."""

    name: str
    config: GroupConfig
    fetcher: Fetcher

    @property
    def member_epoch(self) -> int | None:
        """The present epoch in the consumer protocol; None: commits carry the generation's id."""
        ...

    @property
    def topic_ids(self) -> Mapping[str, UUID]:
        """The ids of the topics at the time of the assignment; without topics that have none."""
        ...

    def stream(
        self, owned: OwnedPartition, max_wait_ms: float | None
    ) -> AsyncIterator[Batch | None]:
        """The partition's batches until it ends."""
        ...

    async def commit(
        self, offsets: Mapping[OwnedPartition, OffsetAndMetadata], *, wait: bool | None
    ) -> None: ...

    def abort(self, cause: str) -> None:
        """End the generation: cancel all tasks, and stay out until the next one is requested."""
        ...

    def take_errors(self) -> list[BaseException]:
        """Errors that tasks raised since the last call."""
        ...

    def task_failed(self, error: BaseException) -> None: ...

    def task_returned(self) -> None:
        """A task returned, or the body was left: report partitions without a task."""
        ...


class Generation(ABC, Generic[K, V]):
    """A generation: its scope (`GenerationScope`), or a task's handle on it (`BoundGeneration`)."""

    def __init__(self, services: GenerationServices) -> None:
        self._services = services

    @property
    @abstractmethod
    def _grant(self) -> Grant: ...

    @property
    @abstractmethod
    def _ending(self) -> Ending: ...

    @abstractmethod
    def _owned(self, partition: TopicPartition) -> OwnedPartition:
        """The owned partition.

        Raises GenerationEndedError if it is not in the assignment any more.
        """

    # --- properties ---

    @property
    def id(self) -> int:
        """Kafka's generation id; in the consumer protocol the member epoch at which it began."""
        return self._grant.generation

    @property
    def member_id(self) -> str:
        return self._grant.member_id

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        return self._grant.assignment

    @property
    def added(self) -> tuple[TopicPartition, ...]:
        """Partitions that the generation before did not have; under eager rebalancing all."""
        return self._grant.added

    @property
    def kept(self) -> tuple[TopicPartition, ...]:
        """Partitions that run on from the generation before without interruption (cooperative)."""
        return self._grant.kept

    @property
    def revoked(self) -> tuple[TopicPartition, ...]:
        """Partitions of the generation before that this one lacks (cooperative)."""
        return self._grant.revoked

    @property
    def protocol(self) -> str:
        """Name of the assignor that the group chose; in the consumer protocol `remote_assignor`."""
        return self._grant.protocol

    @property
    def is_leader(self) -> bool:
        """Whether this member computed the assignment."""
        return self._grant.is_leader

    @property
    def end(self) -> End | None:
        """How the generation ends, in a bound task the partition; None before that."""
        return self._ending.end

    async def ending(self) -> End:
        """Wait until the generation ends.

        Long work watches this, or is cancelled when the drain timeout is over.
        """
        await self._ending.began.wait()
        assert self._ending.end is not None
        return self._ending.end

    def committed(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        """Committed offset when this member got the partition; None without a commit."""
        return self._owned(partition).committed

    def start_offset(self, partition: TopicPartition) -> int:
        """Start offset of `records`: the committed one, else by `start_offset`."""
        start = self._owned(partition).start
        assert start is not None
        return start

    # --- work ---

    @overload
    def start(self, work: BoundWork, *args: object, name: str, **kwargs: object) -> None: ...

    @overload
    def start(
        self,
        work: Callable[Concatenate["Generation[K, V]", P], Coroutine[Any, Any, object]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None: ...

    def start(self, work: Any, *args: Any, name: Any = "", **kwargs: Any) -> None:
        """Run `work(generation, *args, **kwargs)` as a task of this generation.

        If the first of `args` is a partition, the task is bound to it: it ends with the partition,
        and a kept partition's task runs on instead of being started again, whatever its function
        and arguments. A partition has one task of each `name`. A generation that has ended starts
        nothing. Raises KohortError outside `async with`, and for a second task of that name.
        """
        self._start(work, name, args, kwargs)

    @abstractmethod
    def _start(
        self, work: BoundWork, name: str, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> None: ...

    @overload
    def records(self, partition: TopicPartition) -> AsyncIterator[Batch[K, V]]: ...

    @overload
    def records(
        self, partition: TopicPartition, *, max_wait_ms: float
    ) -> AsyncIterator[Batch[K, V] | None]: ...

    def records(
        self, partition: TopicPartition, *, max_wait_ms: float | None = None
    ) -> AsyncIterator[Any]:
        """The partition's batches from its start offset, until it is revoked, lost or closed.

        With `max_wait_ms` it yields None whenever no batch arrived within that time, so that the
        caller can flush what it has collected. A wait that is cancelled, as by
        `asyncio.wait_for`, loses nothing: the next `anext` of this or another iterator continues.

        The fetcher reads ahead within its limits, so a slow consumer is not flooded. Errors of the
        partition are raised here, KohortError if another task reads the partition, and ValueError
        for a negative `max_wait_ms`.
        """
        return self._services.stream(self._owned(partition), max_wait_ms)

    async def commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], *, wait: bool | None = None
    ) -> None:
        """Commit the offset of the next record to process, `batch.next_offset`, of each partition.

        Returns when the coordinator has the offsets. With `commit_interval_ms` it returns at once,
        and they are sent with the next interval or on revocation; `wait` overrides this. Raises
        GenerationEndedError when a partition is no longer this member's, `CommitError` with the
        errors by partition, and ValueError for invalid offsets before anything is sent.
        """
        named = {owned: owned.offset(offset) for owned, offset in self._held(offsets)}
        await self._services.commit(named, wait=wait)

    def exactly_once(
        self, producer: TransactionalProducer[T], *batches: Batch[K, V]
    ) -> ExactlyOnce[T]:
        """A transaction for the records sent while the batches are processed, with their offsets.

        Waits for the end of the producer's open transaction. Leaving the scope, or
        `transaction.commit()` inside it, commits the records that were sent inside and the offsets
        of the batches, or neither: after an exception, a cancellation, and when the partitions are
        lost. If only the generation has changed, leaving it raises nothing.

        `outcome` of the scope, or of its transaction, has the result. `records` yields batches
        again that were not committed. To skip them, commit their offsets, or `seek`. Raises as
        `Transaction` does, and KohortError for a batch that follows one that is to be yielded
        again.
        """
        owned = {tp: self._owned(tp) for tp in (batch.topic_partition for batch in batches)}
        return ExactlyOnce(self, producer, batches, owned)

    def to_commit(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> tuple[GroupMetadata, dict[TopicPartition, OffsetAndMetadata]]:
        """For `Transaction.commit_offsets`: this member as of now, and the offsets to send.

        Raises GenerationEndedError when a partition is no longer this member's, ValueError for
        invalid offsets.
        """
        pairs = self._held(offsets)
        for owned, _ in pairs:
            validate_commits(owned)
        epoch = self._services.member_epoch
        group = GroupMetadata(
            group_id=self._services.config.group_id,
            generation_id=self.id if epoch is None else epoch,
            member_id=self.member_id,
            instance_id=self._services.config.instance_id,
        )
        return group, {owned.partition: owned.offset(offset) for owned, offset in pairs}

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, UUID]:
        """For `Transaction.commit_offsets`: the ids of the topics that this member reads."""
        topic_ids = self._services.topic_ids
        return {tp: topic_ids[tp.topic] for tp in partitions if tp.topic in topic_ids}

    def position(self, partition: TopicPartition) -> int | None:
        """Offset of the next record that `records` yields; None until it is known."""
        owned, position = self._owned(partition), self._services.fetcher.position(partition)
        return None if position is None else position - owned.undelivered

    def lag(self, partition: TopicPartition) -> int | None:
        """Offsets from `position` to the high watermark; None before the first response."""
        owned, lag = self._owned(partition), self._services.fetcher.lag(partition)
        return None if lag is None else lag + owned.undelivered

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at `offset`, EARLIEST or LATEST: the next batch begins there.

        Raises GenerationEndedError, also if the member lost the partition and got it back: others
        may have processed the records that this generation read. Raises ValueError.
        """
        owned = self._owned(partition)
        validate_commits(owned)
        self._services.fetcher.seek(partition, offset)
        owned.sought += 1
        owned.aborted = None

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop fetching these partitions until `resume`; the member keeps them."""
        for partition in partitions:
            self._owned(partition)
            self._services.fetcher.pause(partition)

    def resume(self, *partitions: TopicPartition) -> None:
        """Fetch these partitions again."""
        for partition in partitions:
            self._owned(partition)
            self._services.fetcher.resume(partition)

    def _held(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> list[tuple[OwnedPartition, int | OffsetAndMetadata]]:
        validate_offsets(offsets)
        return [(self._owned(partition), offset) for partition, offset in offsets.items()]
