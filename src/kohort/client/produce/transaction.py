"""One transaction as a scope: `async with producer.transaction() as transaction`."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final, Self

from kohort.client.cancellation import to_its_end
from kohort.client.errors import (
    CommitUnknownError,
    ProducerFencedError,
    TransactionAbortedError,
)
from kohort.client.group_metadata import OffsetOwner, Offsets
from kohort.client.produce.transaction_machine import State
from kohort.client.produce.transactions import Transactions
from kohort.errors import KohortError

log: Final = logging.getLogger("kohort.client.transactions")


class Transaction:
    """A transaction: the records that are sent while its scope is open, and committed offsets.

    Leaving the scope commits. An exception or a cancellation inside it aborts, and goes on.
    """

    def __init__(self, transactions: Transactions, *, wait: bool) -> None:
        """`wait`: until the transaction that is open has ended; else that is an error."""
        self._transactions = transactions
        self._wait = wait
        self._is_open = False
        self._producer_closed = False
        self._ending = asyncio.Lock()
        """Held by the task that commits or aborts: several may share a transaction."""

    def __repr__(self) -> str:
        return f"<Transaction {'open' if self._is_open else 'not open'} {self._transactions!r}>"

    async def __aenter__(self) -> Self:
        """Begin.

        Raises KohortError if another one is open, ProducerFencedError, KafkaError
        (TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_TRANSACTION_TIMEOUT), GaveUpError.
        """
        turn = self._transactions.turn
        if turn.locked() and not self._wait:
            raise KohortError(
                "another transaction of this producer is open, and it has one at a time: leave "
                "that scope before, or use another producer with its own transactional_id"
            )
        await turn.acquire()
        try:
            await self._transactions.begin()
        except BaseException:
            turn.release()
            raise
        self._is_open = True
        self._transactions.on_close = self._close
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, *_: object
    ) -> None:
        async with self._ending:
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
            except asyncio.CancelledError as cancelled:
                if self._is_open:  # records were not delivered yet
                    await self._abort_for(cancelled)
                raise

    async def commit_offsets(self, offsets: Offsets, owner: OffsetOwner) -> None:
        """Commit the offsets of the next records to read with the transaction, or not at all.

        `owner` is the `Generation` that has the partitions: its member and generation fence those
        who have lost them. `GroupMetadata` names a group without that. Raises GenerationEndedError,
        TransactionAbortedError, ProducerFencedError, ValueError for what is no offset, TypeError.
        """
        self._validate_open()
        await self._transactions.commit_offsets(offsets, owner)

    async def commit(self) -> None:
        """Commit now; the scope then only has to be left.

        A cancellation aborts while records are being delivered, and is raised after the commit when
        they are. Raises TransactionAbortedError if a record or offset failed: then nothing of the
        transaction counts. After CommitUnknownError it may be called again, also outside of the
        scope. Raises ProducerFencedError.
        """
        async with self._ending:
            self._validate_open()
            await self._commit()

    async def _commit(self) -> None:
        await self._transactions.deliver()
        try:
            await self._to_its_end(self._transactions.commit())
        except CommitUnknownError:
            raise
        except BaseException:
            self._end()
            raise
        self._end()

    async def abort(self) -> None:
        """Abort now; the scope then only has to be left.

        Raises ProducerFencedError, and GaveUpError: then it may be called again.
        """
        async with self._ending:
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
        """Abort because of `error`, which goes on.

        Raises ProducerFencedError instead of a TransactionAbortedError that comes from it.
        """
        if isinstance(error, CommitUnknownError):
            return  # only a commit may follow
        try:
            await self._to_its_end(self._transactions.abort())
        except KohortError as failed:
            if isinstance(failed, ProducerFencedError) and isinstance(
                error, TransactionAbortedError
            ):
                raise failed from error  # the reason, which a refused batch does not tell
            # The coordinator aborts it after its timeout.
            log.warning("%s: the abort failed: %s", self._transactions.transactional_id, failed)
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

    def _end(self) -> None:
        if not self._is_open:  # the producer was closed meanwhile
            return
        self._is_open = False
        self._transactions.on_close = None
        self._transactions.turn.release()

    async def _to_its_end(self, work: Coroutine[Any, Any, None]) -> None:
        await to_its_end(asyncio.create_task(work))
