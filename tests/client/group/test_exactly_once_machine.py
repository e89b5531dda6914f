"""Exactly-once programs whose requests are lost, refused and late, and whose tasks are cancelled.

The model of the brokers is `client/produce/coordinator_model.py`. Whatever happens, in both
protocols of transactions:

- the committed results are those of the records before the committed offset, once and in order;
- a transaction that is told to be committed is, and one that is told to be aborted never is;
- records of a transaction that may be committed are not read again;
- one of which INVALID_TXN_STATE has told that it is aborted is not told to be unknown;
- what is raised is an error that the docstrings name;
- a producer that nobody has fenced goes on, and its next transactions settle the last one.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from client.produce.coordinator_model import DOWN_S, RESULTS, TIMEOUT_MS, Brokers, Fault, Tried
from effort import examples
from kohort.client import (
    CommitUnknownError,
    GaveUpError,
    GenerationEndedError,
    GroupMetadata,
    ProducerFencedError,
    TopicPartition,
    TransactionAbortedError,
    TransactionOutcome,
)
from kohort.client.config import ProducerConfig
from kohort.client.group.commits import validate_commits
from kohort.client.group.exactly_once import ExactlyOnce
from kohort.client.group.owned_partition import OwnedPartition
from kohort.client.membership import End
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.produce.transaction import Transaction
from kohort.client.produce.transaction_machine import State
from kohort.client.produce.transactions import Transactions
from kohort.errors import KafkaError
from runtime.virtual_time import VirtualLoop

ORDERS = TopicPartition("orders", 0)
BLOCK_MS = 3_000
"""Less than `DOWN_S`."""
APIS = ("add_partitions_to_txn", "add_offsets_to_txn", "txn_offset_commit", "end_txn")
EXPECTED = (
    TransactionAbortedError,
    CommitUnknownError,
    ProducerFencedError,
    GaveUpError,
    GenerationEndedError,
    ZeroDivisionError,
)

every_fault = st.sampled_from(Fault)
unknown = st.sampled_from([Fault.GONE_AFTER, Fault.UNREACHABLE]).map(lambda f: [("end_txn", f)])
"""Faults after which a commit has an unknown outcome, be it executed or not."""
disturbed = (
    st.just([])
    | unknown
    | st.lists(st.tuples(st.sampled_from(("end_txn", *APIS)), every_fault), max_size=2)
)
settling = st.sampled_from([Fault.ABORTABLE, Fault.TIMED_OUT]) | every_fault
ways = st.sampled_from(("leaves", "leaves", "commits", "fails"))
delays = st.none() | st.integers(0, 14).map(lambda half: half * 0.0005 + 0.0002)
"""Seconds until a task is cancelled."""


class Member:
    """The generation of a member that has one partition, and reads batches of two records."""

    id = 1

    def __init__(self, offset: int) -> None:
        self.owned = OwnedPartition(ORDERS, self._failed, lambda: None)
        self.next = offset
        """Offset of the next record."""

    def _failed(self, error: BaseException) -> None:
        raise error

    def position(self, _partition: TopicPartition) -> int:
        return self.next

    def seek(self, _partition: TopicPartition, offset: int) -> None:
        self.next, self.owned.aborted = offset, None

    def take(self) -> Any:
        """The next batch."""
        first, self.next = self.next, self.next + 2
        return SimpleNamespace(topic_partition=ORDERS, first_offset=first, next_offset=first + 2)

    def to_commit(
        self, offsets: Mapping[TopicPartition, Any]
    ) -> tuple[GroupMetadata, dict[TopicPartition, OffsetAndMetadata]]:
        validate_commits(self.owned)
        group = GroupMetadata(group_id="g", generation_id=1, member_id="m")
        return group, {tp: self.owned.offset(each) for tp, each in offsets.items()}

    def topic_ids(self, _partitions: Any) -> Mapping[TopicPartition, UUID]:
        return {}


class Shop:
    """A producer that sends each batch at once."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        config = ProducerConfig(
            transactional_id="t",
            max_block_ms=BLOCK_MS,
            delivery_timeout_ms=BLOCK_MS,
            linger_ms=0,
            transaction_timeout_ms=TIMEOUT_MS,
        )
        cluster: Any = brokers
        self.transactions = Transactions(cluster, config, "t", "test", self._await_deliveries)

    async def _await_deliveries(self) -> None:
        """Nothing waits."""

    def transaction(self, *, wait: bool) -> Transaction:
        return Transaction(self.transactions, wait=wait)

    async def produce(self, results: list[int]) -> None:
        transactions, machine = self.transactions, self.transactions.machine
        transactions.validate_sends()
        if not machine.has(RESULTS):
            await transactions.admit([RESULTS])
            transactions.validate_sends()
        transactions.sending()
        try:
            await self._brokers.produce(machine.producer, results)
        except KafkaError as error:
            batch: Any = SimpleNamespace(attempts=1)
            transactions.given_up(batch, error)
            transactions.validate_sends()


class ExactlyOnceMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.run = self.runner.run
        self.blocks: list[tuple[Any, Tried]] = []
        """What a program is told the outcome by, and what the coordinator has decided."""

    @initialize(adds_by_request=st.booleans())
    def begin(self, adds_by_request: bool) -> None:
        self.brokers = Brokers(adds_by_request=adds_by_request)
        self.run(self.renew())

    async def renew(self) -> None:
        """Begin anew, as a program does that was fenced."""
        self.shop = Shop(self.brokers)
        await self.shop.transactions.initialize()
        self.brokers.is_fenced = False
        await self.assign()

    async def assign(self) -> None:
        """A member gets the partition, and reads it from the committed offset."""
        await asyncio.sleep(1)  # until the markers are written
        self.member = Member(self.brokers.committed)
        self.batches: list[Any] = []
        """Taken, and not in work yet."""
        self.aborted: list[Any] = []
        """Those of the last block, if it was aborted."""

    # --- blocks ---

    @precondition(lambda self: not self.batches)
    @rule(faults=disturbed, cancelled=delays, how=ways)
    def processes_next(self, faults: Any, cancelled: float | None, how: str) -> None:
        self.run(self.process([self.member.take()], faults, cancelled, how))

    @precondition(lambda self: self.aborted and not self.batches)
    @rule(faults=disturbed, cancelled=delays, how=ways)
    def retries_in_place(self, faults: Any, cancelled: float | None, how: str) -> None:
        """Without reading the batches again."""
        self.run(self.process(self.aborted, faults, cancelled, how))

    @precondition(lambda self: not self.batches)
    @rule(count=st.integers(2, 3))
    def takes_several(self, count: int) -> None:
        """As one who reads ahead."""
        self.batches = [self.member.take() for _ in range(count)]

    @precondition(lambda self: self.batches)
    @rule(faults=disturbed, cancelled=delays, how=ways, together=st.booleans())
    def processes_taken(
        self, faults: Any, cancelled: float | None, how: str, together: bool
    ) -> None:
        """One batch after the other, whatever became of those before, or all of them."""
        count = len(self.batches) if together else 1
        some, self.batches = self.batches[:count], self.batches[count:]
        self.run(self.process(some, faults, cancelled, how))

    async def process(
        self, batches: list[Any], faults: list[Any], cancelled: float | None, how: str
    ) -> None:
        generation: Any = self.member
        scope = ExactlyOnce(generation, self.shop, batches, {ORDERS: self.member.owned})

        async def block() -> None:
            async with scope as transaction:
                for each in batches:
                    await self.shop.produce(list(range(each.first_offset, each.next_offset)))
                if how == "commits":
                    with suppress(TimeoutError):
                        async with asyncio.timeout(cancelled):
                            await transaction.commit()
                if how == "fails":
                    raise ZeroDivisionError

        await self.attempt(block(), scope, faults, None if how == "commits" else cancelled)
        is_aborted = scope.outcome is TransactionOutcome.ABORTED and self.member is generation
        self.aborted = batches if is_aborted else []
        if self.member is generation and not is_aborted:  # its records are not read again
            assert self.member.next >= batches[-1].next_offset

    @precondition(lambda self: not self.batches)
    @rule(faults=disturbed, seconds=delays)
    def commits_offsets_itself(self, faults: Any, seconds: float | None) -> None:
        """With a time limit, which the program does not take for an error."""
        self.run(self.commit_offsets(faults, seconds))

    async def commit_offsets(self, faults: list[Any], seconds: float | None) -> None:
        first = self.member.next
        transaction = self.shop.transaction(wait=True)

        async def block() -> None:
            async with transaction:
                await self.shop.produce([first])
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await transaction.commit_offsets({ORDERS: first + 1}, self.member)

        await self.attempt(block(), transaction, faults, None)
        await self.settle()
        await self.assign()

    async def attempt(
        self, work: Any, scope: Any, faults: list[Any], cancelled: float | None
    ) -> None:
        """Run a block; a program that was fenced begins anew after it."""
        self.brokers.tried = Tried()
        self.blocks.append((scope, self.brokers.tried))
        self.brokers.faults.extend(faults)
        task = asyncio.ensure_future(work)
        if cancelled is not None:
            asyncio.get_running_loop().call_later(cancelled, task.cancel)
        await asyncio.wait([task])
        self.brokers.faults.clear()
        error = None if task.cancelled() else task.exception()
        if not (error is None or isinstance(error, EXPECTED) or "before that at" in str(error)):
            raise error
        if self.shop.transactions.machine.state is State.FATAL_ERROR:
            assert self.brokers.is_fenced, error
            await asyncio.sleep(DOWN_S)
            await self.renew()

    # --- what else happens ---

    @precondition(lambda self: not self.batches)
    @rule(how=ways, faults=disturbed)
    def loses_its_partition(self, how: str, faults: Any) -> None:
        """Another member has committed the batch; the group still accepts the former one."""
        self.run(self.lose(how, faults))

    async def lose(self, how: str, faults: list[Any]) -> None:
        await self.settle()
        await self.assign()
        batch = self.member.take()
        self.member.owned.ending.begin(End.LOST, "test")
        self.brokers.results += range(batch.first_offset, batch.next_offset)
        self.brokers.committed = batch.next_offset
        await self.process([batch], faults, None, how)
        await self.settle()
        await self.assign()

    @precondition(
        lambda self: self.blocks[-1:] and self.blocks[-1][0].outcome is TransactionOutcome.UNKNOWN
    )
    @rule(fault=settling, how=ways)
    def settles_an_unknown_commit(self, fault: Fault, how: str) -> None:
        """The next block of a program that has waited does, disturbed or not."""
        self.run(asyncio.sleep(DOWN_S))
        batches, self.batches = self.batches or [self.member.take()], []
        self.run(self.process(batches, [("end_txn", fault)], None, how))

    @rule()
    def all_settles(self) -> None:
        self.run(self.settle())
        self.run(asyncio.sleep(1))
        assert self.batches or self.member.next == self.brokers.committed

    async def settle(self) -> None:
        """The transactions of a producer that is not disturbed commit, from the second one on."""
        await asyncio.sleep(DOWN_S)
        for _ in range(2):
            transaction = self.shop.transaction(wait=True)
            await self.attempt(self.empty(transaction), transaction, [], None)
        assert transaction.outcome is TransactionOutcome.COMMITTED

    async def empty(self, transaction: Transaction) -> None:
        async with transaction:
            pass

    def teardown(self) -> None:
        self.runner.close()

    # --- what always holds ---

    @invariant()
    def results_count_once(self) -> None:
        assert self.brokers.results == list(range(self.brokers.committed))

    @invariant()
    def outcomes_are_true(self) -> None:
        for scope, tried in self.blocks:
            if scope.outcome is TransactionOutcome.ABORTED:
                assert True not in tried.ends
            elif scope.outcome is TransactionOutcome.COMMITTED:
                assert False not in tried.ends
            else:
                assert not tried.told_aborted


@pytest.mark.parametrize("adds_by_request", [True, False])
@pytest.mark.parametrize("fault", [Fault.GONE_AFTER, Fault.UNREACHABLE])
@pytest.mark.parametrize("retry", ["processes_next", "retries_in_place"])
def test_aborted_batches_whose_retry_is_unknown_are_not_read_again_before_it_is_settled(
    retry: str, fault: Fault, adds_by_request: bool
) -> None:
    machine = ExactlyOnceMachine()
    machine.begin(adds_by_request=adds_by_request)
    machine.processes_next([], None, "fails")
    getattr(machine, retry)([("end_txn", fault)], None, "leaves")
    assert machine.blocks[-1][0].outcome is TransactionOutcome.UNKNOWN
    assert machine.member.next == 2
    machine.processes_next([], None, "leaves")  # cannot begin
    assert machine.blocks[-1][0].outcome is TransactionOutcome.ABORTED
    assert machine.member.next == 2
    machine.processes_next([], None, "leaves")
    machine.all_settles()
    machine.results_count_once()
    assert machine.brokers.committed == 4
    machine.teardown()


@pytest.mark.parametrize("adds_by_request", [True, False])
def test_a_commit_that_is_refused_when_it_is_settled_aborts_the_next_transaction_too(
    adds_by_request: bool,
) -> None:
    machine = ExactlyOnceMachine()
    machine.begin(adds_by_request=adds_by_request)
    machine.processes_next([("end_txn", Fault.UNREACHABLE)], None, "leaves")
    assert machine.blocks[-1][0].outcome is TransactionOutcome.UNKNOWN
    machine.settles_an_unknown_commit(Fault.ABORTABLE, "leaves")
    assert {scope.outcome for scope, _ in machine.blocks} == {TransactionOutcome.ABORTED}
    assert machine.member.next == 0
    machine.all_settles()
    machine.teardown()


TestExactlyOnceMachine = ExactlyOnceMachine.TestCase
TestExactlyOnceMachine.settings = settings(
    max_examples=examples(120), stateful_step_count=25, suppress_health_check=list(HealthCheck)
)
