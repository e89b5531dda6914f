"""One transaction as a scope: `async with producer.transaction() as transaction`."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final, Self

from kohort.client.concurrency import to_its_end
from kohort.client.errors import ProducerFencedError, TransactionAbortedError
from kohort.client.group_metadata import OffsetOwner, Offsets
from kohort.client.produce.batch import ProducerId
from kohort.client.produce.transaction_machine import State
from kohort.client.produce.transactions import Transactions
from kohort.client.transaction_outcome import OnOutcome, TransactionOutcome
from kohort.errors import KohortError, fresh

log: Final = logging.getLogger("kohort.client.transactions")


class Transaction:
    """A transaction: the records that are sent while its scope is open, and committed offsets.

    Leaving the scope commits. An exception or a cancellation inside it aborts, and is raised on.
    """

    def __init__(self, transactions: Transactions, *, wait: bool) -> None:
        """`wait`: until the transaction that is open has ended; else that is an error."""
        self._transactions = transactions
        self._wait = wait
        self._is_open = False
        self._producer_closed = False
        self._outcome: TransactionOutcome | None = None
        self._offsets: tuple[Offsets, OffsetOwner] | None = None
        self._on_outcome: OnOutcome | None = None
        self._ending = asyncio.Lock()
        """Held by the task that commits or aborts: several may share a transaction."""

    def __repr__(self) -> str:
        return f"<Transaction {'open' if self._is_open else 'not open'} {self._transactions!r}>"

    @property
    def outcome(self) -> TransactionOutcome | None:
        """The outcome; None before the end, and UNKNOWN while the commit is in flight.

        It is right at any time, also after a cancellation or a time limit around the scope. A
        transaction that could not begin, for example in time, is ABORTED. COMMITTED and ABORTED are
        final. UNKNOWN changes when the coordinator returns the outcome: to `commit`, which may be
        called again, or to the producer's next transaction.
        """
        return self._outcome

    def commits_with(self, offsets: Offsets, owner: OffsetOwner, on_outcome: OnOutcome) -> None:
        """Add these offsets to the commit, also to that of the scope; before it begins.

        `on_outcome` is called whenever `outcome` changes.
        """
        self._offsets, self._on_outcome = (offsets, owner), on_outcome

    @property
    def producer(self) -> ProducerId:
        """Id and epoch: of this transaction while it is open, then of the producer's next one."""
        return self._transactions.machine.producer

    async def __aenter__(self) -> Self:
        """Begin, after the commit of the transaction before is settled.

        Raises KohortError if another one is open, ProducerFencedError, KafkaError
        (TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_TRANSACTION_TIMEOUT), GaveUpError. Of the
        transaction before, if its outcome was unknown: CommitUnknownError while it is, and
        TransactionAbortedError.
        """
        try:
            await self._begin()
        except BaseException:
            if not self._is_open:
                self._set_outcome(TransactionOutcome.ABORTED)
            raise
        self._outcome, self._is_open = None, True
        self._transactions.on_close = self._close
        return self

    async def _begin(self) -> None:
        turn = self._transactions.turn
        if turn.locked() and not self._wait:
            raise KohortError(
                "another transaction of this producer is open, and it has one at a time: leave "
                "that scope before, or use another producer with its own transactional_id"
            )
        await turn.acquire()
        try:
            await self._transactions.begin(self._set_outcome)
        except BaseException:
            turn.release()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        cancelled: asyncio.CancelledError | None = None
        try:
            await self._wait_for_others()
        except asyncio.CancelledError as came:
            cancelled = came.with_traceback(None)  # which refers to this frame
        async with self._ending:
            await self._leave(error or cancelled)
        if cancelled is not None:
            raise fresh(cancelled)

    async def _leave(self, error: BaseException | None) -> None:
        if self._producer_closed and error is None:
            raise TransactionAbortedError(
                "the producer was closed inside the transaction, which aborted it"
            )
        if not self._is_open:
            return
        if error is not None:
            await self._abort_for(error)
            return
        try:
            await self._commit()
        except BaseException as failed:
            if self._is_open:  # EndTxn was not sent yet
                await self._abort_for(failed)
            raise

    async def _wait_for_others(self) -> None:
        """Wait until no other task commits or aborts; a cancellation is raised after that."""
        while self._ending.locked():
            await self._to_its_end(self._others())

    async def _others(self) -> None:
        async with self._ending:
            pass

    async def commit_offsets(self, offsets: Offsets, owner: OffsetOwner) -> None:
        """Commit the offsets of the next records to read with the transaction, or not at all.

        `owner` is the `Generation` that has the partitions: its member and generation fence members
        that have lost them. With a `Consumer`, a topic that was recreated since it was read aborts.
        `GroupMetadata` names a group without that. Raises GenerationEndedError,
        TransactionAbortedError, ProducerFencedError, ValueError for invalid offsets, TypeError.
        """
        self._validate_open()
        await self._transactions.commit_offsets(offsets, owner)

    async def commit(self) -> None:
        """Commit now; the scope then only has to be left.

        A cancellation is raised at once while records are being delivered: the transaction is still
        open, and its scope aborts if the cancellation leaves it. Later it is raised when the
        outcome of the commit is known. Raises TransactionAbortedError if a record or offset failed:
        then the transaction has no effect. Raises CommitUnknownError if the coordinator does not
        return the outcome within `max_block_ms`: then it may be called again, also outside of the
        scope. Raises ProducerFencedError.
        """
        async with self._ending:
            if self._outcome is TransactionOutcome.UNKNOWN:
                await self._resolve_unknown_commit()
            else:
                self._validate_open()
                await self._commit()

    async def _commit(self) -> None:
        if self._offsets is not None:
            await self._transactions.commit_offsets(*self._offsets)
        await self._transactions.deliver()
        try:
            await self._to_its_end(self._transactions.commit())
        finally:
            self._end()

    async def _resolve_unknown_commit(self) -> None:
        """Repeat the commit, unless the next transaction does."""
        await self._to_its_end(
            self._transactions.resolve_unknown_commit(
                lambda: self._outcome is TransactionOutcome.UNKNOWN
            )
        )
        if self._outcome is not TransactionOutcome.COMMITTED:
            raise TransactionAbortedError("the transaction was aborted, nothing of it counts")

    async def abort(self) -> None:
        """Abort now; the scope then only has to be left.

        Raises ProducerFencedError, and GaveUpError: then it may be called again.
        """
        async with self._ending:
            if self._outcome is TransactionOutcome.UNKNOWN:
                raise KohortError("whether it is committed is not known: only commit may follow")
            self._validate_open()
            try:
                await self._to_its_end(self._transactions.abort())
            finally:
                if not self._transactions.machine.is_open:
                    self._end()

    def _validate_open(self) -> None:
        if not self._is_open:
            raise KohortError(
                "the transaction is not open: it has not begun, was committed or aborted, or the "
                "producer was closed, which aborts"
            )

    async def _abort_for(self, error: BaseException) -> None:
        """Abort because of `error`, which the caller raises.

        Raises ProducerFencedError instead of a TransactionAbortedError that comes from it.
        """
        try:
            await self._to_its_end(self._transactions.abort())
        except KohortError as failed:
            if isinstance(failed, ProducerFencedError) and isinstance(
                error, TransactionAbortedError
            ):
                # The reason: the error of a refused batch does not have it.
                raise fresh(failed) from error
            # The coordinator aborts it after its timeout.
            log.warning("%s: abort failed: %s", self._transactions.transactional_id, failed)
            error.add_note(f"The transaction could not be aborted: {failed}")
        finally:
            self._end()

    async def _close(self) -> None:
        """The producer is closed."""
        self._producer_closed = True
        if self._transactions.machine.state is State.COMMITTING:  # its outcome is not known
            self._end()
            return
        try:
            await self._transactions.abort()
        finally:
            self._end()

    def _set_outcome(self, outcome: TransactionOutcome) -> None:
        self._outcome = outcome
        if self._on_outcome is not None:
            self._on_outcome(outcome)

    def _end(self) -> None:
        if not self._is_open:  # the producer was closed meanwhile
            return
        self._is_open = False
        self._transactions.on_close = None
        self._transactions.turn.release()

    async def _to_its_end(self, work: Coroutine[Any, Any, None]) -> None:
        await to_its_end(asyncio.create_task(work))
