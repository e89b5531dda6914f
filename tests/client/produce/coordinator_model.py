"""The brokers of an exactly-once program, without sockets: coordinators, and a topic of results.

The transaction coordinator is the server's own `Shard`. The group has one partition, and accepts
the offsets of whoever commits. Each request takes `LATENCY_S` there and back, and may be disturbed
by a `Fault`.
"""

import asyncio
from collections import deque
from datetime import timedelta
from enum import Enum
from types import SimpleNamespace
from typing import Any

from kohort.client import BrokerUnreachableError, TopicPartition
from kohort.client.backoff import Backoff
from kohort.errors import ErrorCode, KafkaError
from kohort.transactions.records import TransactionState
from transactions.bench import TransactionBench

LATENCY_S = 0.001
RESULTS = TopicPartition("totals", 0)
PARTITIONS = {"totals": frozenset({0})}
OFFSETS = {"__consumer_offsets": frozenset({0})}
NAME = "t"
MARKERS_S = 0.05
"""From the end of a transaction until its markers are written."""
DOWN_S = 6.0
TIMEOUT_MS = 60_000
"""`transaction_timeout_ms`."""


class Fault(Enum):
    """How a request is disturbed."""

    LOST_REQUEST = "lost request"
    LOST_RESPONSE = "lost response"
    UNREACHABLE = "lost, and all others for longer than the client waits"
    GONE_AFTER = "executed, and then as UNREACHABLE"
    TIMED_OUT = "lost; meanwhile the coordinator aborts the transaction, which is open for too long"
    TAKEN_OVER_BEFORE = "lost; meanwhile another producer takes the id over"
    TAKEN_OVER_AFTER = "executed; then another producer takes the id over"
    ABORTABLE = "TRANSACTION_ABORTABLE"
    AGAIN = "CONCURRENT_TRANSACTIONS"
    REBALANCED = "ILLEGAL_GENERATION, if it is a TxnOffsetCommit"


LOST = (Fault.LOST_REQUEST, Fault.UNREACHABLE, Fault.TIMED_OUT, Fault.TAKEN_OVER_BEFORE)
NO_RESPONSE = (*LOST, Fault.LOST_RESPONSE, Fault.GONE_AFTER, Fault.TAKEN_OVER_AFTER)
CODES = {
    Fault.ABORTABLE: ErrorCode.transaction_abortable,
    Fault.AGAIN: ErrorCode.concurrent_transactions,
    Fault.REBALANCED: ErrorCode.illegal_generation,
}


class Tried:
    """One transaction, as the coordinator has it."""

    def __init__(self) -> None:
        self.ends: list[bool] = []
        """Whether it was committed; empty while that is not decided."""
        self.told_aborted = False
        """Whether INVALID_TXN_STATE was the response to its commit."""


class Brokers:
    """The cluster and its only connection, as `TransactionRequests` uses them."""

    def __init__(self, *, adds_by_request: bool) -> None:
        self.adds_by_request = adds_by_request
        self.bench = TransactionBench()
        self.faults: deque[tuple[str, Fault]] = deque()
        """The API whose next request is disturbed, and how."""
        self.results: list[int] = []
        """Committed ones."""
        self.committed = 0
        """The group's offset."""
        self.tried = Tried()
        """The transaction that the producer tries last."""
        self.is_fenced = False
        """Whether the producer has lost the id, to another one or by the transaction's timeout."""
        self.config = SimpleNamespace(retry_backoff_ms=100)
        self._open: list[int] = []
        """Results of the open transaction."""
        self._open_offset: int | None = None
        self._owner = self.tried
        """The transaction that they are of."""
        self._noted: Any = None
        self._down_until = 0.0

    # --- the cluster ---

    async def coordinator_node(self, _key: str, _key_type: int) -> int:
        return 0

    def coordinator_moved(self, *_: Any) -> None:
        """It is always this one."""

    async def connection(self, _node_id: int, _purpose: str) -> "Brokers":
        return self

    def backoff(self, initial_ms: float) -> Backoff:
        return Backoff(initial_ms, 1_000, lambda low, _high: low)

    def feature(self, _name: str) -> int:
        return 0 if self.adds_by_request else 2

    async def send(self, api: str, **fields: Any) -> Any:
        fault = self.next_fault(api, fields)
        await asyncio.sleep(LATENCY_S)
        now = asyncio.get_running_loop().time()
        is_down = now < self._down_until
        if fault in (Fault.UNREACHABLE, Fault.GONE_AFTER):
            self._down_until = now + DOWN_S
        if is_down or fault in LOST:
            response = None
        elif fault in CODES:
            response = _response(CODES[fault])
        else:
            response = getattr(self, api)(**fields)
        if fault is Fault.TIMED_OUT:
            self.bench.advance(TIMEOUT_MS)
            self.note_end(by_others=True)
        if fault in (Fault.TAKEN_OVER_BEFORE, Fault.TAKEN_OVER_AFTER):
            self.take_over()
        if response is None or fault in NO_RESPONSE:
            raise BrokerUnreachableError("the broker is dead")
        await asyncio.sleep(LATENCY_S)
        if api == "end_txn" and response.error_code is ErrorCode.invalid_txn_state:
            self.tried.told_aborted = True
        return response

    def next_fault(self, api: str, fields: Any) -> Fault | None:
        """The one that is due for this request, if it can happen to it."""
        if not self.faults or self.faults[0][0] != api:
            return None
        _, fault = self.faults.popleft()
        known = self.bench.shard.transactions.get(NAME)
        is_open = known is not None and known.state is TransactionState.ONGOING
        if fault is Fault.ABORTABLE and not (is_open and fields.get("committed", True)):
            return None
        if fault is Fault.REBALANCED and api != "txn_offset_commit":
            return None
        return fault

    # --- what requests do ---

    def add_partitions_to_txn(self, **fields: Any) -> Any:
        producer = fields["v3_and_below_producer_id"], fields["v3_and_below_producer_epoch"]
        return _response(self.add(producer, PARTITIONS))

    def add_offsets_to_txn(self, *, producer_id: int, producer_epoch: int, **_: Any) -> Any:
        return _response(self.add((producer_id, producer_epoch), OFFSETS))

    def add(self, producer: tuple[int, int], partitions: Any) -> ErrorCode:
        version = 0 if self.adds_by_request else 2
        error: ErrorCode = self.bench.add(producer, partitions, NAME, client_version=version)
        if not error:
            self._owner = self.tried
        return error

    async def produce(self, producer: tuple[int, int], results: list[int]) -> None:
        """A batch. Raises KafkaError."""
        await asyncio.sleep(LATENCY_S)
        again = ErrorCode.concurrent_transactions
        while (error := self.join(producer, PARTITIONS)) is again:  # noqa: ASYNC110
            await asyncio.sleep(MARKERS_S)
        if error:
            raise KafkaError(error)
        self._open += results

    def txn_offset_commit(
        self, *, producer_id: int, producer_epoch: int, topics: Any, **_: Any
    ) -> Any:
        error = self.join((producer_id, producer_epoch), OFFSETS)
        if not error:
            self._open_offset = topics[0]["partitions"][0]["committed_offset"]
        return _response(error)

    def join(self, producer: tuple[int, int], partitions: Any) -> ErrorCode:
        """Whether the transaction has these partitions, which the second protocol adds."""
        if self.adds_by_request:
            verified = self.bench.verify(producer, partitions, NAME)
            error = ErrorCode.invalid_txn_state if verified.missing else verified.error
        else:
            error = self.add(producer, partitions)
        is_fenced = error is ErrorCode.producer_fenced
        return ErrorCode.invalid_producer_epoch if is_fenced else error

    def end_txn(self, *, producer_id: int, producer_epoch: int, committed: bool, **_: Any) -> Any:
        producer = producer_id, producer_epoch
        response = self.bench.end(producer, committed, NAME, v5=not self.adds_by_request)
        self.note_end()
        return _response(*response)

    def init_producer_id(self, *, producer_id: int, producer_epoch: int, **_: Any) -> Any:
        response = self.bench.init(NAME, (producer_id, producer_epoch))
        self.note_end()
        return _response(*response)

    def describe_transactions(self, **_: Any) -> Any:
        known = self.bench.metadata(NAME)
        state = SimpleNamespace(
            error_code=ErrorCode.none,
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
            transaction_timeout=timedelta(milliseconds=known.timeout_ms),
            transaction_state=known.state.name,
        )
        return SimpleNamespace(transaction_states=[state])

    # --- ends ---

    def take_over(self) -> None:
        """Another producer initializes the transactional id."""
        while self.bench.init(NAME)[0]:
            self.note_end()
            self.write_markers()
        self.is_fenced = True

    def note_end(self, *, by_others: bool = False) -> None:
        """The markers of a transaction that ends are written soon."""
        for markers in self.bench.unfinished:
            if markers is not self._noted:
                self._noted = markers
                if markers.partitions:  # the abort of one that nothing was added to has none
                    self._owner.ends.append(markers.commit)
                self.is_fenced = self.is_fenced or by_others
                asyncio.get_running_loop().call_later(MARKERS_S, self.write_markers)

    def write_markers(self) -> None:
        for markers in self.bench.write_markers():
            if markers.commit:
                self.results += self._open
                self.committed = self._open_offset or self.committed
            self._open, self._open_offset = [], None


def _response(code: ErrorCode, producer_id: int = -1, producer_epoch: int = -1) -> Any:
    partition = SimpleNamespace(partition_index=0, error_code=code, partition_error_code=code)
    topic = SimpleNamespace(name="t", partitions=[partition], results_by_partition=[partition])
    return SimpleNamespace(
        error_code=code,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topics=[topic],
        results_by_topic_v3_and_below=[topic],
    )
