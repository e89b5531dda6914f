"""The transactions of one producer, from InitProducerId to EndTxn.

The rules are in `TransactionMachine`, the requests in `TransactionRequests`, the outcome in
`TransactionProgress`. One request is in flight at a time, and repeated for `max_block_ms`. A call
that is cancelled, or whose time is over, leaves a request without a known outcome. InitProducerId
and EndTxn may be repeated; after others the transaction is aborted.

The coordinator recognizes a repeated EndTxn: by the state of the transaction, which no later one
has changed, and by the epoch before the last bump (KIP-890). So a commit whose outcome is unknown
is repeated before the next transaction begins.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from kohort.client.cluster import Cluster
from kohort.client.config import ProducerConfig
from kohort.client.errors import (
    CommitUnknownError,
    GaveUpError,
    TransactionAbortedError,
    UnsupportedVersionError,
)
from kohort.client.group_metadata import OffsetOwner, Offsets
from kohort.client.metrics import DurationCounter, TransactionMetrics
from kohort.client.produce.batch import NOBODY, ProduceBatch, ProducerId
from kohort.client.produce.fencing import late
from kohort.client.produce.request import VERSIONS
from kohort.client.produce.transaction_machine import State, TransactionMachine, Verdict, judge
from kohort.client.produce.transaction_progress import TransactionProgress
from kohort.client.produce.transaction_requests import TransactionRequests
from kohort.client.transaction_outcome import OnOutcome, TransactionOutcome
from kohort.errors import ErrorCode, KafkaError, KohortError, fresh
from kohort.types import TopicPartition

log: Final = logging.getLogger("kohort.client.transactions")


class Transactions:
    """The transactions of one producer; a `ProducerIdentity`.

    `await_deliveries` waits until no batch is queued or in flight. It sends queued batches, unless
    the transaction failed.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        transactional_id: str,
        purpose: str,
        await_deliveries: Callable[[], Awaitable[None]],
    ) -> None:
        self.transactional_id = transactional_id
        self.machine = TransactionMachine()
        self.turn = asyncio.Lock()
        """Held by the `Transaction` that is open."""
        self.on_close: Callable[[], Awaitable[None]] | None = None
        """Aborts the transaction that is open; None without one."""
        self._progress = TransactionProgress()
        self._requests = TransactionRequests(
            cluster, config, transactional_id, purpose, self.machine, self._progress
        )
        self._timeout_ms = config.transaction_timeout_ms
        self._await_deliveries = await_deliveries
        self._lock = asyncio.Lock()
        self._resolving = asyncio.Lock()
        self._initializations = DurationCounter()
        self._offset_commits = DurationCounter()
        self._commits = DurationCounter()
        self._aborts = DurationCounter()

    def __repr__(self) -> str:
        return f"<Transactions of {self.transactional_id!r} {self.machine.state.value}>"

    def metrics(self) -> TransactionMetrics:
        """Counters since the start, and the state of this moment."""
        return TransactionMetrics(
            transactional_id=self.transactional_id,
            state=self.machine.state.value,
            initializations=self._initializations.snapshot(),
            offset_commits=self._offset_commits.snapshot(),
            commits=self._commits.snapshot(),
            aborts=self._aborts.snapshot(),
        )

    # For the sender

    @property
    def versions(self) -> tuple[int, int]:
        least, most = VERSIONS
        return (least, most - 1) if self.machine.adds_by_request else (most, most)

    @property
    def current(self) -> ProducerId | None:
        return self.machine.producer

    @property
    def failure(self) -> KohortError | None:
        error = self.machine.failure
        if error is None or self.machine.state is State.FATAL_ERROR:
            return error
        return error if isinstance(error, TransactionAbortedError) else self._aborted(error)

    async def acquire(self) -> None:
        """No-op: the id exists before the first transaction."""

    def may_send(self, tp: TopicPartition) -> bool:
        return self.machine.has(tp)

    def sending(self) -> None:
        self.machine.sending()

    def renew(self, producer_id: ProducerId, code: ErrorCode) -> bool:  # noqa: ARG002
        """No batch of a transaction may change its epoch: the transaction is aborted."""
        return False

    def given_up(self, batch: ProduceBatch, error: Exception) -> None:
        """A batch failed, and with it the transaction."""
        if batch.attempts:
            self.machine.needs_epoch = True
        if not isinstance(error, KohortError):
            self.machine.fatal(KohortError(f"the producer failed: {error!r}"))
        elif _ends_the_producer(error):
            self.machine.fatal(error)
        else:
            self.machine.abortable(error)

    async def admit(self, partitions: Iterable[TopicPartition]) -> None:
        """Add the partitions to the transaction. Raises KohortError."""
        async with self._lock:
            if self.machine.is_open and self.machine.failure is None:
                await self._requests.add_partitions(sorted(partitions))

    # For the producer

    async def initialize(self) -> None:
        """Get id and epoch, which fences older producers and aborts their transaction.

        No-op if that is done. Raises ProducerFencedError, KafkaError, GaveUpError.
        """
        async with self._lock:
            self._raise_if_fatal()
            if self.machine.state not in (State.UNINITIALIZED, State.INITIALIZING):
                return
            began = self._now()
            self.machine.initialize()
            producer, adds_by_request = await self._requests.init_producer_id(NOBODY)
            self.machine.initialized(producer, adds_by_request=adds_by_request)
            self._initializations.observe(self._now() - began)
            log.debug("%s: producer id %d, epoch %d", self.transactional_id, *producer)

    async def begin(self, on_outcome: OnOutcome) -> None:
        """Begin a transaction; an end that was not completed is repeated before.

        Raises as `initialize`, `abort`, and `resolve_unknown_commit`; the last raises the error of
        the last transaction.
        """
        try:
            await self.resolve_unknown_commit(lambda: self._progress.is_unknown)
        except TransactionAbortedError as error:
            raise TransactionAbortedError(
                f"the transaction has not begun, as the one before it was aborted: {error}"
            ) from error
        if self.machine.state is State.COMMITTING:
            await self._end(commit=True)  # it lacks the next epoch
        if self.machine.state is State.ABORTING:
            await self.abort()
        await self.initialize()
        self.machine.begin()
        self._progress.begin(on_outcome)
        log.debug("%s: beginning a transaction", self.transactional_id)

    def validate_sends(self) -> None:
        """Raises KohortError if no record may be sent now."""
        if self.machine.state is State.IN_TRANSACTION:
            return
        self._raise_if_fatal()
        if (failure := self.failure) is not None:
            raise fresh(failure)
        raise KohortError(
            f"this producer has the transactional_id {self.transactional_id!r}, and sends only in "
            "a transaction that is not ending: async with producer.transaction()"
        )

    async def commit_offsets(self, offsets: Offsets, owner: OffsetOwner) -> None:
        """Commit the offsets with the transaction.

        Raises TransactionAbortedError if it has to be aborted, GenerationEndedError, ValueError,
        TypeError.
        """
        if not isinstance(owner, OffsetOwner):
            raise TypeError(
                f"owner: a Generation, Consumer or GroupMetadata expected, not {owner!r}"
            )
        self.validate_sends()
        began = self._now()
        async with self._lock:
            group, to_commit = owner.to_commit(offsets)
            topic_ids = dict(owner.topic_ids(to_commit))
            try:
                if not self.machine.has_group(group.group_id):
                    await self._requests.add_group(group.group_id)
                await self._requests.commit_offsets(group, to_commit, topic_ids)
                # The coordinator accepts a member that lost the partitions meanwhile and has them
                # again. Others may have processed the records since then: the owner refuses.
                owner.to_commit(offsets)
            except KohortError as error:
                self.machine.abortable(error)
                self._raise_if_fatal()
                raise self._aborted(error) from error
            except BaseException:
                self.machine.abortable(
                    TransactionAbortedError(
                        f"the transaction of {self.transactional_id!r} is aborted, nothing of it "
                        "counts: commit_offsets was cancelled, and whether the coordinator has the "
                        "offsets is not known"
                    )
                )
                raise
        self._offset_commits.observe(self._now() - began)
        log.debug(
            "%s: adding %d offsets of group %s",
            self.transactional_id,
            len(to_commit),
            group.group_id,
        )

    async def deliver(self) -> None:
        """Send waiting records until the outcome of each is known. No record may follow."""
        if self.machine.state is not State.COMMITTING:
            await self._await_deliveries()
            if self.machine.state is State.IN_TRANSACTION:
                self.machine.commit()

    async def commit(self) -> None:
        """Commit, or abort if a record or offset failed.

        Raises TransactionAbortedError after an abort, CommitUnknownError, ProducerFencedError.
        """
        began = self._now()
        if self.machine.state is State.COMMITTING:
            await self._request_commit()
        if not self._progress.is_committed:
            self._raise_if_fatal()
            if (failure := self.failure) is None:
                raise TransactionAbortedError("the producer was closed, which aborted it")
            try:
                await self.abort()
            except GaveUpError as error:  # the next transaction repeats it
                log.warning("%s: abort failed: %s", self.transactional_id, error)
                failure.add_note(f"The transaction could not be aborted: {error}")
            raise fresh(failure)
        self._commits.observe(self._now() - began)
        log.debug("%s: committed", self.transactional_id)

    async def _request_commit(self) -> None:
        self._progress.end(TransactionOutcome.UNKNOWN)
        try:
            await self._end(commit=True)
        except GaveUpError as error:
            if self._progress.is_committed:
                log.warning("%s: committed, but %s", self.transactional_id, error)
                return
            unknown = CommitUnknownError(
                f"{error}. Whether the transaction is committed is not known: call "
                "transaction.commit() again, begin the next transaction, which settles it, or end "
                "the producer and read the positions again"
            )
            log.warning("%s: %s", self.transactional_id, unknown)
            raise fresh(unknown) from error

    async def resolve_unknown_commit(self, is_unknown: Callable[[], bool]) -> None:
        """Repeat the commit of the last transaction, if its outcome is not known.

        Raises as `commit`.
        """
        async with self._resolving:
            if not is_unknown():
                return
            try:
                await self.commit()
            finally:
                if not is_unknown():
                    log.warning(
                        "%s: outcome of the last commit: %s",
                        self.transactional_id,
                        self._progress.final_outcome.value,
                    )

    async def abort(self) -> None:
        """Drop waiting records, and abort.

        Raises ProducerFencedError, KafkaError, and GaveUpError: then it may be repeated.
        """
        began = self._now()
        if self.machine.state is State.COMMITTING:
            raise KohortError("whether it is committed is not known: only commit may be repeated")
        self._progress.end(self._progress.final_outcome)  # also if the request fails
        self._raise_if_fatal()
        self.machine.abort(TransactionAbortedError("the transaction is aborted"))
        await self._await_deliveries()
        self._raise_if_fatal()
        await self._end(commit=False)
        self._raise_if_fatal()
        self._progress.end(TransactionOutcome.ABORTED)
        self._aborts.observe(self._now() - began)
        log.debug("%s: aborted", self.transactional_id)

    async def _end(self, *, commit: bool) -> None:
        async with self._lock:
            machine = self.machine
            if machine.needs_end:
                try:
                    await self._requests.end(commit=commit)
                except GaveUpError:
                    raise
                except KohortError:
                    if commit:
                        self._progress.end(self._progress.final_outcome)
                    return  # the state has the reason
            if commit:
                self._progress.end(TransactionOutcome.COMMITTED)
            producer = machine.producer
            if machine.needs_epoch and machine.adds_by_request:
                try:
                    producer, adds_by_request = await self._requests.init_producer_id(producer)
                except GaveUpError:
                    raise
                except KohortError as error:
                    machine.fatal(error)
                    return
                machine.adds_by_request = adds_by_request
            machine.ended(producer)

    def _aborted(self, error: KohortError) -> TransactionAbortedError:
        aborted = TransactionAbortedError(
            f"the transaction of {self.transactional_id!r} is aborted, nothing of it counts: "
            f"{error}{late(self._progress.age_s, self._timeout_ms)}"
        )
        aborted.__cause__ = error
        return aborted

    def _raise_if_fatal(self) -> None:
        if self.machine.state is State.FATAL_ERROR and self.machine.error is not None:
            raise fresh(self.machine.error)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _ends_the_producer(error: KohortError) -> bool:
    """Whether no batch can succeed any more after this one failed."""
    if isinstance(error, KafkaError):
        return judge("produce", error.code) is not Verdict.ABORT
    return isinstance(error, UnsupportedVersionError)
