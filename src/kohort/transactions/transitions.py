"""The transitions of a transactional id: its metadata before and after, and outcomes of EndTxn.

Every function returns the value of the transition's record. Only the last record is kept; the
producer id of the one before it is `previous_producer_id`.

A producer has epochs up to `LAST_EPOCH`. The end of a transaction at that epoch is logged with
epoch 32767, and the next producer id takes over when it is complete, with epoch 0.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from kohort.errors import ErrorCode
from kohort.transactions.records import (
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Partitions,
    TransactionMetadata,
    TransactionState,
)
from kohort.types import Timestamp

LAST_EPOCH: Final = 2**15 - 2
"""The last epoch of a producer; one more is reserved for the markers of its last transaction."""
BUMPS_EPOCH: Final = 2
"""Transaction version with which every end bumps the epoch (KIP-890)."""

_EMPTY = TransactionState.EMPTY
_ONGOING = TransactionState.ONGOING
_PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
_PREPARE_ABORT = TransactionState.PREPARE_ABORT
_COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
_COMPLETE_ABORT = TransactionState.COMPLETE_ABORT

ENDING: Final = frozenset({_PREPARE_COMMIT, _PREPARE_ABORT})
"""Markers are being written."""
IDLE: Final = frozenset({_EMPTY, _COMPLETE_COMMIT, _COMPLETE_ABORT})
"""No transaction is open or ends."""

VALID_PREVIOUS_STATES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    _EMPTY: IDLE,
    _ONGOING: IDLE | {_ONGOING},
    _PREPARE_COMMIT: frozenset({_ONGOING}),
    _PREPARE_ABORT: IDLE | {_ONGOING},
    _COMPLETE_COMMIT: frozenset({_PREPARE_COMMIT}),
    _COMPLETE_ABORT: frozenset({_PREPARE_ABORT}),
}


class _Outcome(Enum):
    END = "the transaction ends"
    ENDED = "it has ended that way: the response is repeated"


END: Final = _Outcome.END
ENDED: Final = _Outcome.ENDED
Outcome: TypeAlias = ErrorCode | Literal[_Outcome.END, _Outcome.ENDED]
_Row: TypeAlias = tuple[Outcome, Outcome]
"""(commit, abort)."""

_INVALID = ErrorCode.invalid_txn_state
_FENCED = ErrorCode.producer_fenced
_WAIT = ErrorCode.concurrent_transactions

_END_V0: Final[Mapping[TransactionState, _Row]] = {
    _EMPTY: (_INVALID, _INVALID),
    _ONGOING: (END, END),
    _PREPARE_COMMIT: (_WAIT, _INVALID),
    _PREPARE_ABORT: (_INVALID, _WAIT),
    _COMPLETE_COMMIT: (ENDED, _INVALID),
    _COMPLETE_ABORT: (_INVALID, ENDED),
}
"""EndTxn before v5, by the current epoch."""
_END_V5: Final[Mapping[TransactionState, _Row]] = {
    _EMPTY: (_INVALID, END),
    _ONGOING: (END, END),
    # The producer does not have the bumped epoch of these states.
    _PREPARE_COMMIT: (_FENCED, _FENCED),
    _PREPARE_ABORT: (_FENCED, _FENCED),
    _COMPLETE_COMMIT: (_INVALID, END),
    _COMPLETE_ABORT: (_INVALID, END),
}
"""EndTxn v5 by the current epoch."""
_RETRIED_END_V5: Final[Mapping[TransactionState, _Row]] = {
    _EMPTY: (_FENCED, _FENCED),
    _ONGOING: (_FENCED, _FENCED),
    _PREPARE_COMMIT: (_WAIT, _INVALID),
    _PREPARE_ABORT: (_INVALID, _WAIT),
    _COMPLETE_COMMIT: (ENDED, _INVALID),
    _COMPLETE_ABORT: (_INVALID, ENDED),
}
"""EndTxn v5 by the epoch before the last bump."""


def end_outcome(
    state: TransactionState, *, commit: bool, bumps_epoch: bool, is_retry: bool
) -> Outcome:
    """The outcome of EndTxn in `state`; `is_retry`: it has the epoch before the last bump."""
    table = _RETRIED_END_V5 if is_retry else _END_V5 if bumps_epoch else _END_V0
    return table[state][0 if commit else 1]


def new_id(producer_id: int, timeout_ms: int, timestamp: Timestamp) -> TransactionMetadata:
    """A new transactional id."""
    return TransactionMetadata(
        producer_id, 0, timeout_ms, _EMPTY, {}, timestamp, NO_TIMESTAMP, producer_id
    )


def initialized(
    transaction: TransactionMetadata, epoch: int, timeout_ms: int, timestamp: Timestamp
) -> TransactionMetadata:
    """After InitProducerId, which gives the producer `epoch`."""
    return _to(
        transaction,
        _EMPTY,
        timestamp,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        partitions={},
        start=NO_TIMESTAMP,
    )


def rotated(
    transaction: TransactionMetadata, producer_id: int, timeout_ms: int, timestamp: Timestamp
) -> TransactionMetadata:
    """After InitProducerId of a producer whose epochs are exhausted."""
    return initialized(transaction, 0, timeout_ms, timestamp)._replace(producer_id=producer_id)


def with_partitions(
    transaction: TransactionMetadata, added: Partitions, client_version: int, timestamp: Timestamp
) -> TransactionMetadata:
    """With more partitions; the first ones begin the transaction."""
    partitions = dict(transaction.partitions)
    for topic, numbers in added.items():
        partitions[topic] = partitions.get(topic, frozenset()) | numbers
    return _to(
        transaction,
        _ONGOING,
        timestamp,
        partitions=partitions,
        start=transaction.start if transaction.state is _ONGOING else timestamp,
        client_version=client_version,
    )


def ended(
    transaction: TransactionMetadata, commit: bool, timestamp: Timestamp
) -> TransactionMetadata:
    """At the start of the end: markers have the epoch of the transaction."""
    return _to(
        transaction, _PREPARE_COMMIT if commit else _PREPARE_ABORT, timestamp, client_version=0
    )


def ended_at_next_epoch(
    transaction: TransactionMetadata, commit: bool, next_id: int | None, timestamp: Timestamp
) -> TransactionMetadata:
    """At the start of the end: markers have the next epoch.

    `next_id` is the next producer id, if the epoch is `LAST_EPOCH`.
    """
    return _to(
        transaction,
        _PREPARE_COMMIT if commit else _PREPARE_ABORT,
        timestamp,
        producer_epoch=transaction.producer_epoch + 1,
        next_producer_id=NO_PRODUCER_ID if next_id is None else next_id,
        # A transaction without partitions begins now.
        start=transaction.start if transaction.state is _ONGOING else timestamp,
        client_version=BUMPS_EPOCH,
    )


def completed(transaction: TransactionMetadata, timestamp: Timestamp) -> TransactionMetadata:
    """After the last marker."""
    producer_id, epoch = after_end(transaction)
    return _to(
        transaction,
        _COMPLETE_COMMIT if transaction.state is _PREPARE_COMMIT else _COMPLETE_ABORT,
        timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions={},
    )


def after_end(ending: TransactionMetadata) -> tuple[int, int]:
    """Producer id and epoch after the pending end."""
    if ending.next_producer_id != NO_PRODUCER_ID:
        return ending.next_producer_id, 0
    return ending.producer_id, ending.producer_epoch


def missing(transaction: TransactionMetadata, partitions: Partitions) -> Partitions:
    """The partitions that are not in the transaction."""
    return {
        topic: lacking
        for topic, numbers in partitions.items()
        if (lacking := numbers - transaction.partitions.get(topic, frozenset()))
    }


def size_at_most(transactional_id: str, metadata: TransactionMetadata) -> int:
    """Upper bound of the size in bytes of the batch of its record."""
    topics = sum(
        len(topic) + 4 * len(numbers) + 12 for topic, numbers in metadata.partitions.items()
    )
    return 4 * len(transactional_id) + topics + 256


def _to(
    transaction: TransactionMetadata, state: TransactionState, timestamp: Timestamp, **changes: Any
) -> TransactionMetadata:
    assert transaction.state in VALID_PREVIOUS_STATES[state]
    return transaction._replace(
        state=state, last_update=timestamp, previous_producer_id=transaction.producer_id, **changes
    )
