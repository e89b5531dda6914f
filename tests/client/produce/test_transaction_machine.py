"""The states of a transactional producer: every way through them, and how errors are sorted."""

from itertools import product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kohort.client.errors import TransactionAbortedError
from kohort.client.produce.batch import NOBODY, ProducerId
from kohort.client.produce.transaction_machine import (
    VALID_PREVIOUS_STATES,
    State,
    TransactionMachine,
    Verdict,
    judge,
)
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.types import TopicPartition

TP = TopicPartition("orders", 0)
COORDINATOR_APIS = (
    "init_producer_id",
    "add_partitions_to_txn",
    "add_offsets_to_txn",
    "txn_offset_commit",
    "end_txn",
)

SORTED = {
    Verdict.LOOK_UP: (15, 16),
    Verdict.AGAIN: (3, 7, 14, 51, 100),
    Verdict.ABORT: (22, 25, 29, 30, 55, 59, 69, 82, 113, 120),
    Verdict.FENCED: (47, 90),
    Verdict.FATAL: (31, 35, 42, 48, 49, 50, 53, -1),
}


@pytest.mark.parametrize(
    ("api", "verdict", "code"),
    [
        (api, verdict, code)
        for api, (verdict, codes) in product(COORDINATOR_APIS, SORTED.items())
        for code in codes
        if not (api == "init_producer_id" and code in (31, 53))
    ],
)
def test_errors_of_coordinators_are_sorted_as_java_sorts_them(api, verdict, code) -> None:
    assert judge(api, ErrorCode(code)) is verdict


@pytest.mark.parametrize("code", [31, 53])
def test_a_refused_initialization_may_be_repeated(code) -> None:
    assert judge("init_producer_id", ErrorCode(code)) is Verdict.ABORT


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        *((Verdict.ABORT, code) for code in (10, 29, 45, 47, 48, 59, 87, 120)),
        *((Verdict.FATAL, code) for code in (31, 35, 49, 53, 90)),
    ],
)
def test_errors_of_batches_abort_unless_no_batch_can_succeed(verdict, code) -> None:
    assert judge("produce", ErrorCode(code)) is verdict


def test_an_abort_cannot_be_answered_by_an_abort() -> None:
    assert judge("end_txn", ErrorCode.transaction_abortable, aborting=True) is Verdict.FATAL


def test_the_first_protocol_adds_partitions_and_groups_by_request() -> None:
    machine = TransactionMachine()
    machine.initialize()
    machine.initialized(ProducerId(7, 0), adds_by_request=True)
    machine.begin()
    assert not machine.has(TP)
    assert not machine.has_group("g")
    assert not machine.needs_end
    machine.added([TP])
    machine.added_group("g")
    assert machine.has(TP)
    assert machine.has_group("g")
    assert machine.needs_end
    machine.commit()
    machine.ended(ProducerId(7, 0))
    machine.begin()
    assert not machine.has(TP)


def test_the_second_protocol_ends_what_was_sent() -> None:
    machine = TransactionMachine()
    machine.initialize()
    machine.initialized(ProducerId(7, 0), adds_by_request=False)
    machine.begin()
    assert machine.has(TP)
    assert not machine.needs_end
    machine.sending()
    assert machine.needs_end


class Lives(RuleBasedStateMachine):
    """No life of a producer leaves the table; what ended leaves nothing to the next transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = TransactionMachine()
        self.epoch = 0
        self.seen = [State.UNINITIALIZED]

    def is_in(self, *states: State) -> bool:
        return self.machine.state in states

    @precondition(lambda self: self.is_in(State.UNINITIALIZED, State.INITIALIZING))
    @rule()
    def initialize(self) -> None:
        self.machine.initialize()

    @precondition(lambda self: self.is_in(State.INITIALIZING))
    @rule()
    def refused(self) -> None:
        self.machine.not_initialized()

    @precondition(lambda self: self.is_in(State.INITIALIZING))
    @rule(adds_by_request=st.booleans())
    def initialized(self, adds_by_request: bool) -> None:
        self.machine.initialized(ProducerId(1, self.epoch), adds_by_request=adds_by_request)

    @precondition(lambda self: self.is_in(State.READY))
    @rule()
    def begin(self) -> None:
        self.machine.begin()
        assert not self.machine.needs_end
        assert not self.machine.needs_epoch

    @precondition(lambda self: self.is_in(State.IN_TRANSACTION))
    @rule()
    def send(self) -> None:
        self.machine.added([TP])
        self.machine.sending()

    @precondition(lambda self: not self.is_in(State.UNINITIALIZED, State.INITIALIZING))
    @rule(code=st.sampled_from([ErrorCode.message_too_large, ErrorCode.invalid_producer_epoch]))
    def failed(self, code: ErrorCode) -> None:
        first = self.machine.failure
        self.machine.abortable(KafkaError(code))
        assert first is None or self.machine.failure is first
        assert self.machine.needs_epoch or not self.machine.is_open

    @rule()
    def fenced(self) -> None:
        self.machine.fatal(KohortError("fenced"))

    @precondition(lambda self: self.is_in(State.IN_TRANSACTION, State.COMMITTING))
    @rule()
    def commit(self) -> None:
        self.machine.commit()
        assert self.machine.failure is None

    @precondition(
        lambda self: self.is_in(State.IN_TRANSACTION, State.ABORTABLE_ERROR, State.ABORTING)
    )
    @rule()
    def abort(self) -> None:
        self.machine.abort(TransactionAbortedError("by the test"))
        assert self.machine.failure is not None

    @precondition(lambda self: self.is_in(State.COMMITTING, State.ABORTING))
    @rule()
    def ended(self) -> None:
        self.epoch += 1
        self.machine.ended(ProducerId(1, self.epoch))
        assert self.machine.producer.epoch == self.epoch

    @invariant()
    def follows_the_table(self) -> None:
        state = self.machine.state
        assert state is self.seen[-1] or self.seen[-1] in VALID_PREVIOUS_STATES[state]
        self.seen.append(state)

    @invariant()
    def has_an_error_exactly_when_it_failed(self) -> None:
        failed = self.is_in(State.ABORTABLE_ERROR, State.ABORTING, State.FATAL_ERROR)
        assert (self.machine.failure is not None) == failed
        assert (self.machine.producer == NOBODY) <= (not self.machine.is_open)


TestLives = Lives.TestCase
TestLives.settings = settings(stateful_step_count=30)
