"""One partition of `__transaction_state`: a fold over its log, like a shard of the groups.

    result = shard.handle(event, now, timestamp)    # decides; changes nothing that is logged
    for record in result.records:                   # the only writer of logged state
        shard.replay(record)

Each decision makes at most one record. The records of one event are appended before its replies are
sent and its markers written; if that fails, the runtime drops the shard and loads a new one.

A transactional id moves through these states (`transitions.VALID_PREVIOUS_STATES`):

    Empty → Ongoing → PrepareCommit | PrepareAbort → CompleteCommit | CompleteAbort → Ongoing → …

The version of a request determines the transaction version. With version 2 (KIP-890) every end
bumps the producer epoch. The coordinator itself aborts a transaction, at the next epoch, when it
times out or when another producer initializes the id.

Kafka returns CONCURRENT_TRANSACTIONS to requests while a record of the same id is being appended.
Kohort replays a decision at once, so that the next decision uses its result.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from kohort.coordinator_common import Cancel, Timer
from kohort.errors import ErrorCode, KafkaError
from kohort.transactions import transitions
from kohort.transactions.config import TransactionCoordinatorConfig
from kohort.transactions.records import TransactionMetadata, TransactionRecord, TransactionState
from kohort.transactions.requests import (
    NO_EPOCH,
    AddPartitions,
    AddPartitionsResponse,
    DescribeTransaction,
    DescribeTransactionResponse,
    EndTransaction,
    ExpireTransactionalIds,
    InitProducerId,
    MarkersWritten,
    ProducerResponse,
    Request,
    Response,
    VerifyPartitions,
    VerifyPartitionsResponse,
    refuse,
)
from kohort.transactions.result import Markers, Result, TransactionTimesOut
from kohort.types import Instant, Reply, Timestamp

NEVER_MS: Final = 2**31 - 1
"""A transaction with this timeout is never aborted by the coordinator."""
_RETRY_MS: Final = 1_000
"""Delay before a timeout is retried for which no new producer id was available."""

Event: TypeAlias = Request | TransactionTimesOut | MarkersWritten | ExpireTransactionalIds


class Shard:
    """The transactional ids of one partition of `__transaction_state`."""

    def __init__(
        self, config: TransactionCoordinatorConfig, new_producer_id: Callable[[], int]
    ) -> None:
        """`new_producer_id` returns a fresh producer id, or raises KafkaError."""
        self.config = config
        self._new_producer_id = new_producer_id
        self.transactions: dict[str, TransactionMetadata] = {}
        """The last record of each id: all logged state."""
        self.open = 0
        """Number of open transactions."""
        self._last_epochs: dict[str, int] = {}
        """The epoch before the last bump, not logged: InitProducerId with it is a retry, which gets
        the current epoch.
        """

    def __repr__(self) -> str:
        return f"<transactions.Shard ids={len(self.transactions)}>"

    # --- deciding ---

    def handle(self, event: Event, now: Instant, timestamp: Timestamp) -> Result:
        """Decide on an event.

        The caller replays the records at once, and appends them before any other effect of the
        result.
        """
        try:
            return _HANDLERS[type(event)](self, event, now, timestamp)
        except KafkaError as error:
            if isinstance(event, TransactionTimesOut):
                return Result(timers=(Timer(event, Instant(now + _RETRY_MS)),))
            assert not isinstance(event, MarkersWritten | ExpireTransactionalIds)
            return _reply(event, refuse(event, error.code))

    def resume(
        self,
        loaded: Iterable[tuple[str, TransactionMetadata]],
        now: Instant,
        timestamp: Timestamp,
    ) -> Result:
        """Resume the transactions that were in progress when the log was loaded.

        The markers of ending transactions are written again; open transactions time out, counted
        from their start. `loaded` has the ids at that time. Removed ids are ignored, and so are
        transactions that have ended since: markers that are written twice could end the next
        transaction.
        """
        timers: list[Timer[TransactionTimesOut]] = []
        markers: list[Markers] = []
        for transactional_id, before in loaded:
            metadata = self.transactions.get(transactional_id)
            if metadata is not None:
                timers += _timer(transactional_id, metadata, now, timestamp)
            if metadata is before:
                markers += _markers(transactional_id, before)
        return Result(timers=tuple(timers), markers=tuple(markers))

    def is_ending(self, markers: Markers) -> bool:
        """Whether the last record of the id is the start of this end."""
        transaction = self.transactions.get(markers.transactional_id)
        return transaction is not None and markers in _markers(
            markers.transactional_id, transaction
        )

    # --- the fold ---

    def replay(self, record: TransactionRecord) -> None:
        """Apply one logged record."""
        before = self.transactions.get(record.transactional_id)
        self.open += _is_open(record.value) - _is_open(before)
        if record.value is None:
            self.transactions.pop(record.transactional_id, None)
            self._last_epochs.pop(record.transactional_id, None)
        else:
            self.transactions[record.transactional_id] = record.value

    # --- one function per event ---

    def _init_producer_id(
        self, request: InitProducerId, _now: Instant, timestamp: Timestamp
    ) -> Result:
        if not 0 < request.timeout_ms <= self.config.max_timeout_ms:
            raise KafkaError(ErrorCode.invalid_transaction_timeout)
        transaction = self.transactions.get(request.transactional_id)
        if transaction is None:
            producer_id = self._new_producer_id()
            new = transitions.new_id(producer_id, request.timeout_ms, timestamp)
            return self._initialized(request, new, NO_EPOCH)
        _validate_ended(transaction)
        _validate_producer(request, transaction)
        if transaction.state is TransactionState.ONGOING:
            return self._fence(request, transaction, timestamp)
        epoch, current = request.producer_epoch, transaction.producer_epoch
        last = self._last_epochs.get(request.transactional_id, NO_EPOCH)
        if epoch not in (NO_EPOCH, current, last):
            raise KafkaError(ErrorCode.producer_fenced)
        if epoch not in (NO_EPOCH, current):  # the response to its last request was lost
            new = transitions.initialized(transaction, current, request.timeout_ms, timestamp)
            return self._initialized(request, new, last)
        if current >= transitions.LAST_EPOCH:
            producer_id = self._new_producer_id()
            new = transitions.rotated(transaction, producer_id, request.timeout_ms, timestamp)
        else:
            new = transitions.initialized(transaction, current + 1, request.timeout_ms, timestamp)
        return self._initialized(request, new, epoch)

    def _initialized(
        self, request: InitProducerId, new: TransactionMetadata, last_epoch: int
    ) -> Result:
        self._last_epochs[request.transactional_id] = last_epoch
        response = ProducerResponse(ErrorCode.none, new.producer_id, new.producer_epoch)
        return _reply(request, response, TransactionRecord(request.transactional_id, new))

    def _fence(
        self, request: InitProducerId, transaction: TransactionMetadata, timestamp: Timestamp
    ) -> Result:
        """Abort the open transaction; the producer retries until the abort is complete.

        Kafka also aborts it for a producer with an old epoch, which it then refuses.
        """
        if request.producer_epoch not in (NO_EPOCH, transaction.producer_epoch):
            raise KafkaError(ErrorCode.producer_fenced)
        new = self._ended_at_next_epoch(request.transactional_id, transaction, False, timestamp)
        refused = ProducerResponse(ErrorCode.concurrent_transactions)
        return _end(request.transactional_id, new, Reply(request.on_response, refused))

    def _add_partitions(self, request: AddPartitions, now: Instant, timestamp: Timestamp) -> Result:
        _validate_ended(self.transactions.get(request.transactional_id))
        transaction = self._of_producer(request)
        is_open = transaction.state is TransactionState.ONGOING
        if is_open and not transitions.missing(transaction, request.partitions):
            return _reply(request, AddPartitionsResponse())
        new = transitions.with_partitions(
            transaction, request.partitions, request.client_version, timestamp
        )
        if transitions.size_at_most(request.transactional_id, new) > self.config.max_record_bytes:
            raise KafkaError(ErrorCode.unknown_server_error)
        added = _reply(
            request, AddPartitionsResponse(), TransactionRecord(request.transactional_id, new)
        )
        if is_open:
            return added
        return added._replace(timers=tuple(_timer(request.transactional_id, new, now, timestamp)))

    def _verify_partitions(
        self, request: VerifyPartitions, _now: Instant, _timestamp: Timestamp
    ) -> Result:
        transaction = self._of_producer(request)
        missing = transitions.missing(transaction, request.partitions)
        return _reply(request, VerifyPartitionsResponse(missing=missing))

    def _of_producer(self, request: AddPartitions | VerifyPartitions) -> TransactionMetadata:
        """The id, for a request of its current producer while none is ending. Raises KafkaError."""
        if not request.transactional_id:
            raise KafkaError(ErrorCode.invalid_request)
        transaction = self.transactions.get(request.transactional_id)
        if transaction is None or transaction.producer_id != request.producer_id:
            raise KafkaError(ErrorCode.invalid_producer_id_mapping)
        if transaction.producer_epoch != request.producer_epoch:
            raise KafkaError(ErrorCode.producer_fenced)
        _validate_ended(transaction)
        return transaction

    def _end_transaction(
        self, request: EndTransaction, _now: Instant, timestamp: Timestamp
    ) -> Result:
        transaction = self.transactions.get(request.transactional_id)
        is_retry = (
            request.bumps_epoch
            and transaction is not None
            and _is_retried_end(request, transaction)
        )
        if transaction is None or (transaction.producer_id != request.producer_id and not is_retry):
            raise KafkaError(ErrorCode.invalid_producer_id_mapping)
        if transaction.producer_epoch != request.producer_epoch and not is_retry:
            raise KafkaError(ErrorCode.producer_fenced)
        outcome = transitions.end_outcome(
            transaction.state,
            commit=request.commit,
            bumps_epoch=request.bumps_epoch,
            is_retry=is_retry,
        )
        if outcome is transitions.ENDED:
            return _reply(
                request,
                ProducerResponse(
                    ErrorCode.none, transaction.producer_id, transaction.producer_epoch
                ),
            )
        if isinstance(outcome, ErrorCode):
            raise KafkaError(outcome)
        new = (
            self._ended_at_next_epoch(
                request.transactional_id, transaction, request.commit, timestamp
            )
            if request.bumps_epoch
            else transitions.ended(transaction, request.commit, timestamp)
        )
        response = ProducerResponse(ErrorCode.none, *transitions.after_end(new))
        return _end(request.transactional_id, new, Reply(request.on_response, response))

    def _times_out(self, event: TransactionTimesOut, _now: Instant, timestamp: Timestamp) -> Result:
        transaction = self.transactions.get(event.transactional_id)
        if transaction is None or transaction.state is not TransactionState.ONGOING:
            return Result()
        new = self._ended_at_next_epoch(event.transactional_id, transaction, False, timestamp)
        return _end(event.transactional_id, new)

    def _ended_at_next_epoch(
        self,
        transactional_id: str,
        transaction: TransactionMetadata,
        commit: bool,
        timestamp: Timestamp,
    ) -> TransactionMetadata:
        exhausted = transaction.producer_epoch >= transitions.LAST_EPOCH
        next_id = self._new_producer_id() if exhausted else None
        self._last_epochs[transactional_id] = transaction.producer_epoch
        return transitions.ended_at_next_epoch(transaction, commit, next_id, timestamp)

    def _markers_written(
        self, event: MarkersWritten, _now: Instant, timestamp: Timestamp
    ) -> Result:
        transaction = self.transactions.get(event.transactional_id)
        if (
            transaction is None
            or transaction.state not in transitions.ENDING
            or (transaction.producer_id, transaction.producer_epoch)
            != (event.producer_id, event.producer_epoch)
        ):
            return Result()
        new = transitions.completed(transaction, timestamp)
        return Result((TransactionRecord(event.transactional_id, new),))

    def _expire(self, event: ExpireTransactionalIds, _now: Instant, timestamp: Timestamp) -> Result:
        before = timestamp - self.config.id_expiration_ms
        expired = (
            transactional_id
            for transactional_id in event.transactional_ids
            if (transaction := self.transactions.get(transactional_id)) is not None
            and transaction.state in transitions.IDLE
            and transaction.last_update <= before
        )
        return Result(
            tuple(TransactionRecord(transactional_id, None) for transactional_id in expired)
        )

    def _describe(
        self, request: DescribeTransaction, _now: Instant, _timestamp: Timestamp
    ) -> Result:
        transaction = self.transactions.get(request.transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.transactional_id_not_found)
        return _reply(request, DescribeTransactionResponse(metadata=transaction))


def _reply(request: Request, response: Response, *records: TransactionRecord) -> Result:
    return Result(records, (Reply(request.on_response, response),))


def _is_open(metadata: TransactionMetadata | None) -> bool:
    return metadata is not None and metadata.state is TransactionState.ONGOING


def _validate_ended(transaction: TransactionMetadata | None) -> None:
    """Raises KafkaError CONCURRENT_TRANSACTIONS while markers are being written.

    As in Kafka, InitProducerId and AddPartitionsToTxn check this before the producer, which may
    already have the next id from EndTxn v5.
    """
    if transaction is not None and transaction.state in transitions.ENDING:
        raise KafkaError(ErrorCode.concurrent_transactions)


def _validate_producer(request: InitProducerId, transaction: TransactionMetadata) -> None:
    """Raises KafkaError PRODUCER_FENCED if a producer id is given that is not the current one.

    The previous id is accepted if its epochs are exhausted: the response may have been lost.
    """
    is_current = (
        request.producer_epoch == NO_EPOCH or request.producer_id == transaction.producer_id
    )
    was_exhausted = (
        request.producer_id == transaction.previous_producer_id
        and request.producer_epoch >= transitions.LAST_EPOCH
    )
    if not (is_current or was_exhausted):
        raise KafkaError(ErrorCode.producer_fenced)


def _is_retried_end(request: EndTransaction, transaction: TransactionMetadata) -> bool:
    """Whether the request has the id and epoch of before the last bump."""
    if request.producer_id == transaction.producer_id:
        return request.producer_epoch == transaction.producer_epoch - 1
    return (
        request.producer_id == transaction.previous_producer_id
        and request.producer_epoch == transitions.LAST_EPOCH
        and transaction.producer_epoch == 0
    )


def _end(transactional_id: str, new: TransactionMetadata, *replies: Reply[Response]) -> Result:
    return Result(
        records=(TransactionRecord(transactional_id, new),),
        replies=replies,
        timers=(Cancel(TransactionTimesOut(transactional_id)),),
        markers=tuple(_markers(transactional_id, new)),
    )


def _timer(
    transactional_id: str, metadata: TransactionMetadata, now: Instant, timestamp: Timestamp
) -> Iterator[Timer[TransactionTimesOut]]:
    timeout_ms = metadata.timeout_ms
    if metadata.state is TransactionState.ONGOING and timeout_ms != NEVER_MS:
        # The clock may have been set back since the transaction began.
        left_ms = min(metadata.start + timeout_ms - timestamp, timeout_ms)
        yield Timer(TransactionTimesOut(transactional_id), Instant(now + left_ms))


def _markers(transactional_id: str, metadata: TransactionMetadata) -> Iterator[Markers]:
    if metadata.state in transitions.ENDING:
        yield Markers(
            transactional_id,
            metadata.producer_id,
            metadata.producer_epoch,
            metadata.state is TransactionState.PREPARE_COMMIT,
            metadata.client_version,
            metadata.partitions,
        )


_HANDLERS: Final[Mapping[type, Callable[[Shard, Any, Instant, Timestamp], Result]]] = {
    InitProducerId: Shard._init_producer_id,
    AddPartitions: Shard._add_partitions,
    VerifyPartitions: Shard._verify_partitions,
    EndTransaction: Shard._end_transaction,
    DescribeTransaction: Shard._describe,
    TransactionTimesOut: Shard._times_out,
    MarkersWritten: Shard._markers_written,
    ExpireTransactionalIds: Shard._expire,
}
