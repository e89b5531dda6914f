"""One transaction for the processing of batches of a generation: sent records and offsets.

The coordinator of the group fences a member that has lost its partitions. It also refuses a member
whose generation is about to be replaced, between the join and the sync of a cooperative rebalance.
Both abort the transaction. The batches are then read again: here if the member keeps the partition,
else by its next owner.

The position follows the outcome: after the batches if they are committed, and before them if not,
also if the transaction did not begin. While the outcome is unknown, the position is after them,
even if an earlier transaction of the batches was aborted, or a later one does not begin. The
producer's next transaction first resolves the outcome.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Any, Final, Generic, Protocol, TypeVar

from kohort.client.errors import (
    NotAssignedError,
    TopicRecreatedError,
    TransactionAbortedError,
)
from kohort.client.fetch import Batch
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.group_errors import NOT_CURRENT_MEMBER, GenerationEndedError
from kohort.client.group_metadata import OffsetOwner, Offsets
from kohort.client.transaction_outcome import OnOutcome, TransactionOutcome
from kohort.errors import KafkaError, KohortError
from kohort.types import TopicPartition

log: Final = logging.getLogger("kohort.client.group")

_RETRY_INTERVAL_S: Final = 0.1
"""Before the batches are read again; a rebalance takes longer."""


class Commits(Protocol):
    """A transaction of a producer, as a group sees it."""

    @property
    def outcome(self) -> TransactionOutcome | None: ...

    def commits_with(self, offsets: Offsets, owner: OffsetOwner, on_outcome: OnOutcome) -> None: ...

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...


T_co = TypeVar("T_co", bound=Commits, covariant=True)
T = TypeVar("T", bound=Commits)


class TransactionalProducer(Protocol[T_co]):
    """A `Producer` with a transactional id. A group writes nothing itself."""

    def transaction(self, *, wait: bool) -> T_co: ...


class Owner(OffsetOwner, Protocol):
    """The generation as this module sees it."""

    @property
    def id(self) -> int: ...

    def position(self, partition: TopicPartition) -> int | None: ...

    def seek(self, partition: TopicPartition, offset: int) -> None: ...


class ExactlyOnce(AbstractAsyncContextManager[T], Generic[T]):
    """The scope of `Generation.exactly_once`; entering it returns the transaction."""

    def __init__(
        self,
        generation: Owner,
        producer: TransactionalProducer[T],
        batches: Sequence[Batch[Any, Any]],
        owned: Mapping[TopicPartition, OwnedPartition],
    ) -> None:
        """`owned` has the partitions of the batches."""
        self.transaction = producer.transaction(wait=True)
        self._generation = generation
        self._first = {batch.topic_partition: batch.first_offset for batch in reversed(batches)}
        self._following = {batch.topic_partition: batch.next_offset for batch in batches}
        self._cancellations = 0
        self._owned = owned
        self.transaction.commits_with(self._following, generation, self._move)

    @property
    def outcome(self) -> TransactionOutcome | None:
        """`outcome` of the transaction."""
        return self.transaction.outcome

    async def __aenter__(self) -> T:
        self._cancellations = _cancellations()
        await self.transaction.__aenter__()
        try:
            self._validate_order()
        except KohortError as error:
            await self.transaction.__aexit__(type(error), error, error.__traceback__)
            raise
        return self.transaction

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        try:
            await self.transaction.__aexit__(kind, error, traceback)
        except TransactionAbortedError as aborted:
            if not _has_moved_on(aborted):
                raise
            await self._read_again(aborted)
            return True
        if isinstance(error, TransactionAbortedError) and _has_moved_on(error):
            await self._read_again(error)
            return True
        return False

    async def _read_again(self, error: TransactionAbortedError) -> None:
        log.debug("generation %d: %s; reading its batches again", self._generation.id, error)
        if _cancellations() > self._cancellations:
            raise asyncio.CancelledError  # it came while the transaction was ended
        if any(owned.ending.end is None for owned in self._owned.values()):
            await asyncio.sleep(_RETRY_INTERVAL_S)

    def _validate_order(self) -> None:
        """Raises KohortError if a batch follows one that was aborted and is to be read again."""
        for tp, owned in self._owned.items():
            if owned.aborted is not None and owned.aborted < self._first[tp]:
                raise KohortError(
                    f"{tp}: the batch at offset {self._first[tp]} would be committed before that at"
                    f" {owned.aborted}, whose transaction was aborted: take the batches that"
                    " `records` yields, in their order"
                )

    def _move(self, outcome: TransactionOutcome) -> None:
        for tp, owned in self._owned.items():
            if not owned.ending.commits:
                continue  # its next owner begins at the committed offset
            with suppress(GenerationEndedError, NotAssignedError):
                if outcome is TransactionOutcome.ABORTED:
                    self._move_back(tp, owned)
                else:  # also UNKNOWN: records that may be committed are not read again
                    self._move_forward(tp, owned)

    def _move_back(self, tp: TopicPartition, owned: OwnedPartition) -> None:
        first = self._first[tp] if owned.aborted is None else min(self._first[tp], owned.aborted)
        self._generation.seek(tp, first)
        owned.aborted = first

    def _move_forward(self, tp: TopicPartition, owned: OwnedPartition) -> None:
        following = self._following[tp]
        if owned.aborted is None or owned.aborted >= following:
            return
        owned.aborted = None
        position = self._generation.position(tp)
        if position is not None and position < following:
            self._generation.seek(tp, following)


def _has_moved_on(error: TransactionAbortedError) -> bool:
    """Whether only the generation, or the topic, is another one now."""
    cause = error.__cause__
    if isinstance(cause, TopicRecreatedError):
        return True
    return isinstance(cause, KafkaError) and cause.code in NOT_CURRENT_MEMBER


def _cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
