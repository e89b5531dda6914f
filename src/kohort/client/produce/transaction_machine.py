"""The states of a transactional producer, by Java's names (Kafka's TransactionManager).

    Uninitialized → Initializing → Ready → InTransaction → Committing | Aborting → Ready
    Initializing, InTransaction, Committing → AbortableError → Aborting
    any → FatalError, for good

Pure: `Transactions` sends the requests.

Two protocols exist. In the first (`transaction.version` 0 and 1) each partition is added by a
request before its first batch, and sequences continue across transactions. In the second (KIP-890)
the first batch adds its partition, and each end of a transaction gives the producer a new epoch.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final

from kohort.client.produce.batch import NOBODY, ProducerId
from kohort.errors import ErrorCode, KohortError
from kohort.types import TopicPartition


class State(Enum):
    """The state of a transactional producer."""

    UNINITIALIZED = "Uninitialized"
    INITIALIZING = "Initializing"
    READY = "Ready"
    IN_TRANSACTION = "InTransaction"
    COMMITTING = "CommittingTransaction"
    ABORTING = "AbortingTransaction"
    ABORTABLE_ERROR = "AbortableError"
    FATAL_ERROR = "FatalError"


VALID_PREVIOUS_STATES: Final = {
    State.UNINITIALIZED: frozenset({State.INITIALIZING}),
    State.INITIALIZING: frozenset({State.UNINITIALIZED, State.INITIALIZING}),
    State.READY: frozenset({State.INITIALIZING, State.COMMITTING, State.ABORTING}),
    State.IN_TRANSACTION: frozenset({State.READY}),
    State.COMMITTING: frozenset({State.IN_TRANSACTION, State.COMMITTING}),
    State.ABORTING: frozenset({State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.ABORTING}),
    State.ABORTABLE_ERROR: frozenset(
        {State.IN_TRANSACTION, State.COMMITTING, State.ABORTABLE_ERROR}
    ),
    State.FATAL_ERROR: frozenset(State),
}
"""The states from which each state is entered. A repeated call enters its state again."""


class Verdict(Enum):
    """Effect of an error code on the transaction."""

    AGAIN = "send the request again"
    LOOK_UP = "look the coordinator up, and send the request again"
    ABORT = "the transaction has to be aborted"
    FENCED = "another producer has taken over the transactional id"
    FATAL = "the producer cannot go on"


_LOOK_UP: Final = frozenset({ErrorCode.coordinator_not_available, ErrorCode.not_coordinator})
_FENCED: Final = frozenset({ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch})
_UNAUTHORIZED: Final = frozenset(
    {
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
    }
)
_ABORT: Final = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.operation_not_attempted,
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.group_id_not_found,
        ErrorCode.stale_member_epoch,
        ErrorCode.fenced_instance_id,
        ErrorCode.unknown_producer_id,
        ErrorCode.transaction_abortable,
    }
)
_FATAL_OF_PRODUCE: Final = _UNAUTHORIZED | {
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_id_mapping,
    ErrorCode.unsupported_version,
}


def judge(api: str, code: ErrorCode, *, aborting: bool = False) -> Verdict:
    """The effect of an error code of an API, as in Java's producer.

    `aborting`: the request is EndTxn with an abort, after which another abort makes no sense.
    """
    if api == "produce":  # of a batch that is given up: `DeliveryResults` retries
        return Verdict.FATAL if code in _FATAL_OF_PRODUCE else Verdict.ABORT
    if code in _LOOK_UP:
        return Verdict.LOOK_UP
    if code in _FENCED:
        return Verdict.FENCED
    if code.retriable:
        return Verdict.AGAIN
    may_abort = code in _ABORT or (api == "init_producer_id" and code in _UNAUTHORIZED)
    return Verdict.ABORT if may_abort and not aborting else Verdict.FATAL


class TransactionMachine:
    """The state of one transactional producer and of its open transaction."""

    def __init__(self) -> None:
        self.state = State.UNINITIALIZED
        self.producer = NOBODY
        self.ended_producer = NOBODY
        """The id and epoch before the last ones."""
        self.error: KohortError | None = None
        """Why the transaction has to be aborted, or the producer has failed."""
        self.adds_by_request = True
        """Whether partitions and groups are added by requests: the first protocol."""
        self.needs_epoch = False
        """Whether sequences are lost: a new epoch is due before the next transaction."""
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._has_sent = False

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and has not ended."""
        return self.state in _OPEN

    @property
    def failure(self) -> KohortError | None:
        """Why no batch may be sent; None if it may."""
        return self.error if self.state in _FAILED else None

    @property
    def needs_end(self) -> bool:
        """Whether the coordinator may have the transaction, so that it has to be ended."""
        return self._has_sent or bool(self._partitions) or bool(self._groups)

    def initialize(self) -> None:
        """InitProducerId is to be sent."""
        self._enter(State.INITIALIZING)

    def not_initialized(self) -> None:
        """The coordinator refused; another attempt may be made."""
        self._enter(State.UNINITIALIZED)

    def initialized(self, producer: ProducerId, *, adds_by_request: bool) -> None:
        """The coordinator gave id and epoch."""
        self._enter(State.READY)
        self.producer, self.adds_by_request = producer, adds_by_request

    def begin(self) -> None:
        """A transaction begins; the coordinator hears of it with the first partition."""
        self._enter(State.IN_TRANSACTION)

    def has(self, tp: TopicPartition) -> bool:
        """Whether batches of the partition may be sent."""
        return not self.adds_by_request or tp in self._partitions

    def has_group(self, group_id: str) -> bool:
        """Whether offsets of the group may be sent."""
        return not self.adds_by_request or group_id in self._groups

    def added(self, partitions: Iterable[TopicPartition]) -> None:
        """AddPartitionsToTxn succeeded, or may have."""
        self._partitions.update(partitions)

    def added_group(self, group_id: str) -> None:
        """AddOffsetsToTxn succeeded, or may have."""
        self._groups.add(group_id)

    def sending(self) -> None:
        """A batch or offsets are sent: in the second protocol they begin the transaction."""
        self._has_sent = True

    def abortable(self, error: KohortError) -> None:
        """The transaction has to be aborted; the first error counts."""
        if self.state in (State.IN_TRANSACTION, State.COMMITTING):
            self._enter(State.ABORTABLE_ERROR)
            self.error = error
        self.needs_epoch = self.needs_epoch or self.is_open

    def fatal(self, error: KohortError) -> None:
        """The producer cannot go on; the first error counts."""
        if self.state is not State.FATAL_ERROR:
            self._enter(State.FATAL_ERROR)
            self.error = error

    def commit(self) -> None:
        """All batches are delivered, and EndTxn is to be sent."""
        self._enter(State.COMMITTING)

    def abort(self, reason: KohortError) -> None:
        """No batch may be sent any more; EndTxn is to be sent when none is in flight."""
        self._enter(State.ABORTING)
        self.error = self.error or reason

    def end_acknowledged(self, producer: ProducerId) -> None:
        """EndTxn succeeded, and is not sent again; `producer` is the id from now on."""
        if producer != self.producer:
            self.ended_producer = self.producer
        self.producer = producer
        self._has_sent = False
        self._partitions.clear()
        self._groups.clear()

    def ended(self, producer: ProducerId) -> None:
        """The transaction has ended; `producer` is the id for the next one."""
        self._enter(State.READY)
        self.end_acknowledged(producer)
        self.error = None
        self.needs_epoch = False

    def _enter(self, state: State) -> None:
        if self.state not in VALID_PREVIOUS_STATES[state]:
            raise AssertionError(f"from {self.state.value} to {state.value}")
        self.state = state


_OPEN: Final = frozenset(
    {State.IN_TRANSACTION, State.COMMITTING, State.ABORTING, State.ABORTABLE_ERROR}
)
_FAILED: Final = frozenset({State.ABORTING, State.ABORTABLE_ERROR, State.FATAL_ERROR})
