"""A shard of transactional ids on a clock that the test moves; its log is a list of records."""

from itertools import count

from kohort.coordinator_common import Cancel
from kohort.runtime.timers import TimerHeap
from kohort.transactions.config import TransactionCoordinatorConfig
from kohort.transactions.records import TransactionState, decode, encode
from kohort.transactions.requests import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    ExpireTransactionalIds,
    InitProducerId,
    MarkersWritten,
    VerifyPartitions,
)
from kohort.transactions.shard import Shard
from kohort.transactions.transitions import VALID_PREVIOUS_STATES
from kohort.types import Instant, Timestamp

CONFIG = TransactionCoordinatorConfig()
ORDERS = {"orders": frozenset({0, 1})}


class TransactionBench:
    def __init__(self, config=CONFIG):
        self.config = config
        self.new_producer_id = count(1_000).__next__
        self.now = 5_000
        self.log = []
        self.unfinished = []
        """Markers that are not written."""
        self.timers = TimerHeap()
        self.shard = Shard(config, self.new_producer_id)

    @property
    def timestamp(self):
        return Timestamp(self.now + 1_000_000)

    def handle(self, event):
        result = self.shard.handle(event, Instant(self.now), self.timestamp)
        for record in result.records:
            before = self.shard.transactions.get(record.transactional_id)
            if before is not None and record.value is not None:
                assert before.state in VALID_PREVIOUS_STATES[record.value.state]
            self.shard.replay(record)
            self.log.append(record)
        self._take(result)
        return result

    def _take(self, result):
        for timer in result.timers:
            if isinstance(timer, Cancel):
                self.timers.cancel(timer.key)
            else:
                self.timers.set(timer.key, timer.deadline)
        self.unfinished += result.markers

    def ask(self, request):
        (reply,) = self.handle(request).replies
        assert reply.on_response == request.on_response
        return reply.response

    def advance(self, ms):
        self.now += ms
        for key in list(self.timers.due(Instant(self.now))):
            self.handle(key)

    def write_markers(self):
        markers, self.unfinished = self.unfinished, []
        for each in markers:
            self.handle(
                MarkersWritten(each.transactional_id, each.producer_id, each.producer_epoch)
            )
        return markers

    def restart(self, records=None):
        """Load another shard from the bytes of the log, or of these records."""
        self.shard = Shard(self.config, self.new_producer_id)
        for record in self.log if records is None else records:
            decoded = decode(*encode(record))
            assert decoded == record
            self.shard.replay(decoded)
        self.timers, self.unfinished = TimerHeap(), []
        loaded = tuple(self.shard.transactions.items())
        self._take(self.shard.resume(loaded, Instant(self.now), self.timestamp))

    # --- requests ---

    def init(self, name="t", producer=(-1, -1), timeout_ms=60_000):
        """(error, producer id, epoch)"""
        return self.ask(
            InitProducerId(
                on_response="init",
                transactional_id=name,
                timeout_ms=timeout_ms,
                producer_id=producer[0],
                producer_epoch=producer[1],
            )
        )

    def add(self, producer, partitions=ORDERS, name="t", client_version=0):
        request = AddPartitions(
            on_response="add",
            transactional_id=name,
            producer_id=producer[0],
            producer_epoch=producer[1],
            partitions=partitions,
            client_version=client_version,
        )
        return self.ask(request).error

    def verify(self, producer, partitions=ORDERS, name="t"):
        return self.ask(
            VerifyPartitions(
                on_response="verify",
                transactional_id=name,
                producer_id=producer[0],
                producer_epoch=producer[1],
                partitions=partitions,
            )
        )

    def end(self, producer, commit=True, name="t", v5=False):
        return self.ask(
            EndTransaction(
                on_response="end",
                transactional_id=name,
                producer_id=producer[0],
                producer_epoch=producer[1],
                commit=commit,
                bumps_epoch=v5,
            )
        )

    def describe(self, name="t"):
        return self.ask(DescribeTransaction(on_response="describe", transactional_id=name))

    def expire(self):
        return self.handle(ExpireTransactionalIds(tuple(self.shard.transactions))).records

    # --- states ---

    def metadata(self, name="t"):
        return self.shard.transactions[name]

    def producer(self, name="t"):
        """Current producer id and epoch."""
        metadata = self.metadata(name)
        return metadata.producer_id, metadata.producer_epoch

    def bring_to(self, state, name="t", v5=False):
        """Bring a new id into `state` as a producer does, which is returned."""
        _, *producer = self.init(name)
        if state is TransactionState.EMPTY:
            return tuple(producer)
        self.add(producer, name=name, client_version=2 if v5 else 0)
        if state is not TransactionState.ONGOING:
            committed = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
            self.end(producer, state in committed, name, v5=v5)
            if state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
                self.write_markers()
        assert self.metadata(name).state is state
        return tuple(producer)
