"""The transactions of one producer: requests to coordinators, and what their errors mean.

The rules are in `TransactionMachine`. One request to a coordinator is in flight at a time. Requests
are repeated for `max_block_ms`. A call that is cancelled, or whose time is over, leaves a request
without a known outcome. InitProducerId and EndTxn may be repeated; after others the transaction is
aborted.

The outcome of a transaction is unknown from the first EndTxn that commits until the coordinator
acknowledges or refuses it. The coordinator recognizes a repeated EndTxn: by the state of the
transaction, which no later one has changed, and by the epoch before the last bump (KIP-890). So the
commit is repeated before the next transaction begins.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

from kohort.client.backoff import retrying
from kohort.client.cluster import GROUP, TRANSACTION, Cluster, TopicMetadata, request_topics
from kohort.client.config import ProducerConfig
from kohort.client.errors import (
    CommitUnknownError,
    GaveUpError,
    TopicRecreatedError,
    TransactionAbortedError,
    UnsupportedVersionError,
    is_retriable,
)
from kohort.client.group_metadata import GroupMetadata, OffsetOwner, Offsets
from kohort.client.metrics import DurationCounter, TransactionMetrics
from kohort.client.net import Connection
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.produce.batch import NOBODY, ProduceBatch, ProducerId
from kohort.client.produce.fencing import fenced, late
from kohort.client.produce.request import VERSIONS
from kohort.client.produce.transaction_machine import State, TransactionMachine, Verdict, judge
from kohort.client.transaction_outcome import OnOutcome, TransactionOutcome
from kohort.errors import ErrorCode, KafkaError, KohortError, fresh
from kohort.types import TopicPartition

T = TypeVar("T")

log: Final = logging.getLogger("kohort.client.transactions")

_FEATURE: Final = "transaction.version"
_ADDED_BY_PRODUCE: Final = 2
"""Level of the feature from which the first batch adds its partition (KIP-890)."""
_BUMPS_SINCE: Final = 3
"""Version of InitProducerId that gives a producer its next epoch (KIP-360)."""
_FIRST_PAUSE_MS: Final = 20
"""A coordinator that still writes markers is done soon; Java's ADD_PARTITIONS_RETRY_BACKOFF_MS."""


class Transactions:
    """The transactions of one producer; a `ProducerIdentity`.

    `settle` waits until no batch waits or is in flight; it sends those that wait, unless the
    transaction failed.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        transactional_id: str,
        purpose: str,
        settle: Callable[[], Awaitable[None]],
    ) -> None:
        self.transactional_id = transactional_id
        self.machine = TransactionMachine()
        self.turn = asyncio.Lock()
        """Held by the `Transaction` that is open."""
        self.on_close: Callable[[], Awaitable[None]] | None = None
        """Aborts the transaction that is open; None without one."""
        self._outcome: TransactionOutcome | None = None
        """Of the present transaction, or of the last one."""
        self._on_outcome: OnOutcome | None = None
        self._unanswered_commits = 0
        """EndTxn requests of that transaction's commit that may have been executed."""
        self._cluster = cluster
        self._config = config
        self._purpose = purpose
        self._settle = settle
        self._lock = asyncio.Lock()
        self._settling = asyncio.Lock()
        self._began_at = 0.0
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
        """Nothing is to be done: an id is there before the first transaction."""

    def may_send(self, tp: TopicPartition) -> bool:
        return self.machine.has(tp)

    def sending(self) -> None:
        self.machine.sending()

    def renew(self, of: ProducerId, code: ErrorCode) -> bool:  # noqa: ARG002
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
        wanted = sorted(partitions)
        topics: defaultdict[str, list[int]] = defaultdict(list)
        for tp in wanted:
            topics[tp.topic].append(tp.partition)

        async def add(connection: Connection) -> None:
            response = await connection.send(
                "add_partitions_to_txn",
                max_version=3,
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.machine.producer.id,
                v3_and_below_producer_epoch=self.machine.producer.epoch,
                v3_and_below_topics=[
                    {"name": name, "partitions": indexes} for name, indexes in topics.items()
                ],
            )
            _raise_worst(
                {
                    TopicPartition(topic.name, each.partition_index): each.partition_error_code
                    for topic in response.results_by_topic_v3_and_below
                    for each in topic.results_by_partition
                }
            )

        async with self._lock:
            if not self.machine.is_open or self.machine.failure is not None:
                return
            await self._coordinate(
                "add_partitions_to_txn", add, timeout_ms=self._config.delivery_timeout_ms
            )
            self.machine.added(wanted)

    # For the producer

    async def initialize(self) -> None:
        """Get id and epoch, which fences older producers and aborts their transaction.

        Does nothing if that is done. Raises ProducerFencedError, KafkaError, GaveUpError.
        """
        async with self._lock:
            self._raise_if_fatal()
            if self.machine.state not in (State.UNINITIALIZED, State.INITIALIZING):
                return
            began = self._now()
            self.machine.initialize()
            connection, producer = await self._ask_producer_id(NOBODY)
            self.machine.initialized(producer, adds_by_request=_adds_by_request(connection))
            self._initializations.observe(self._now() - began)
            log.debug("%s: producer id %d, epoch %d", self.transactional_id, *producer)

    async def begin(self, on_outcome: OnOutcome) -> None:
        """Begin a transaction; an end that was not completed is repeated before.

        Raises as `initialize`, `abort`, and `settle`: then the error is of the last transaction.
        """
        try:
            await self.settle(lambda: self._outcome is TransactionOutcome.UNKNOWN)
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
        self._outcome, self._on_outcome, self._unanswered_commits = None, on_outcome, 0
        self._began_at = self._now()
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
        """Have the offsets committed with the transaction.

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
            group, wanted = owner.to_commit(offsets)
            topic_ids = dict(owner.topic_ids(wanted))
            try:
                if not self.machine.has_group(group.group_id):
                    await self._add_group(group.group_id)
                await self._send_offsets(group, wanted, topic_ids)
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
            "%s: adding %d offsets of group %s", self.transactional_id, len(wanted), group.group_id
        )

    async def deliver(self) -> None:
        """Send what waits, until the outcome of every record is known. No record may follow."""
        if self.machine.state is not State.COMMITTING:
            await self._settle()
            if self.machine.state is State.IN_TRANSACTION:
                self.machine.commit()

    async def commit(self) -> None:
        """Commit what was delivered; abort if anything failed.

        Raises TransactionAbortedError after an abort, CommitUnknownError, ProducerFencedError.
        """
        began = self._now()
        if self.machine.state is State.COMMITTING:
            await self._request_commit()
        if self._outcome is not TransactionOutcome.COMMITTED:
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
        self._tell(TransactionOutcome.UNKNOWN)
        try:
            await self._end(commit=True)
        except GaveUpError as error:
            if self._outcome is TransactionOutcome.COMMITTED:
                log.warning("%s: committed, but %s", self.transactional_id, error)
                return
            unknown = CommitUnknownError(
                f"{error}. Whether the transaction is committed is not known: call "
                "transaction.commit() again, begin the next transaction, which settles it, or end "
                "the producer and read the positions again"
            )
            log.warning("%s: %s", self.transactional_id, unknown)
            raise fresh(unknown) from error

    async def settle(self, is_unknown: Callable[[], bool]) -> None:
        """Repeat the commit of the last transaction, if its outcome is not known.

        Raises as `commit`.
        """
        async with self._settling:
            if not is_unknown():
                return
            try:
                await self.commit()
            finally:
                if not is_unknown():
                    log.warning(
                        "%s: outcome of the last commit: %s",
                        self.transactional_id,
                        self._fate().value,
                    )

    async def abort(self) -> None:
        """Drop what waits, and abort.

        Raises ProducerFencedError, KafkaError, and GaveUpError: then it may be repeated.
        """
        began = self._now()
        if self.machine.state is State.COMMITTING:
            raise KohortError("whether it is committed is not known: only commit may be repeated")
        self._tell(self._fate())  # whatever becomes of the request
        self._raise_if_fatal()
        self.machine.abort(TransactionAbortedError("the transaction is aborted"))
        await self._settle()
        self._raise_if_fatal()
        await self._end(commit=False)
        self._raise_if_fatal()
        self._tell(TransactionOutcome.ABORTED)
        self._aborts.observe(self._now() - began)
        log.debug("%s: aborted", self.transactional_id)

    # Requests

    async def _end(self, *, commit: bool) -> None:
        async with self._lock:
            machine = self.machine
            if machine.needs_end:
                try:
                    await self._send_end(commit=commit)
                except GaveUpError:
                    raise
                except KohortError:
                    if commit:
                        self._tell(self._fate())
                    return  # the state says why
            if commit:
                self._tell(TransactionOutcome.COMMITTED)
            producer = machine.producer
            if machine.needs_epoch and machine.adds_by_request:
                try:
                    connection, producer = await self._ask_producer_id(producer)
                except GaveUpError:
                    raise
                except KohortError as error:
                    machine.fatal(error)
                    return
                machine.adds_by_request = _adds_by_request(connection)
            machine.ended(producer)

    async def _send_end(self, *, commit: bool) -> None:
        """EndTxn. Afterwards the machine says if the next transaction needs another epoch."""
        machine = self.machine

        async def end(connection: Connection) -> None:
            self._unanswered_commits += commit
            response = await connection.send(
                "end_txn",
                min_version=0 if machine.adds_by_request else 5,
                max_version=4 if machine.adds_by_request else 5,
                transactional_id=self.transactional_id,
                producer_id=machine.producer.id,
                producer_epoch=machine.producer.epoch,
                committed=commit,
            )
            code = response.error_code
            if commit:
                self._count_refused_commit(code)
            elif code is ErrorCode.producer_fenced and await self._is_known():
                code = ErrorCode.concurrent_transactions
            _raise_for(code, "end_txn")
            if not machine.adds_by_request:
                producer = ProducerId(response.producer_id, response.producer_epoch)
                machine.end_acknowledged(producer)
                return
            machine.end_acknowledged(machine.producer)
            if not _adds_by_request(connection):
                machine.needs_epoch = True  # the change of the protocol

        await self._coordinate("end_txn", end, aborting=not commit)

    def _count_refused_commit(self, code: ErrorCode) -> None:
        if code is ErrorCode.invalid_txn_state:  # aborted: also if others were executed before
            self._unanswered_commits = 0
        elif not code.retriable and code is not ErrorCode.unknown_server_error:
            self._unanswered_commits -= 1

    async def _ask_producer_id(self, known: ProducerId) -> tuple[Connection, ProducerId]:
        async def ask(connection: Connection) -> tuple[Connection, ProducerId]:
            response = await connection.send(
                "init_producer_id",
                min_version=0 if known == NOBODY else _BUMPS_SINCE,
                max_version=5,
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self._config.transaction_timeout_ms,
                producer_id=known.id,
                producer_epoch=known.epoch,
            )
            _raise_for(response.error_code, "init_producer_id")
            return connection, ProducerId(response.producer_id, response.producer_epoch)

        return await self._coordinate("init_producer_id", ask)

    async def _add_group(self, group_id: str) -> None:
        async def add(connection: Connection) -> None:
            response = await connection.send(
                "add_offsets_to_txn",
                max_version=4,
                transactional_id=self.transactional_id,
                producer_id=self.machine.producer.id,
                producer_epoch=self.machine.producer.epoch,
                group_id=group_id,
            )
            _raise_for(response.error_code, "add_offsets_to_txn")

        await self._coordinate("add_offsets_to_txn", add)
        self.machine.added_group(group_id)

    async def _send_offsets(
        self,
        group: GroupMetadata,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        topic_ids: Mapping[TopicPartition, UUID],
    ) -> None:
        """Raises TopicRecreatedError, KafkaError, ProducerFencedError, GaveUpError.

        TxnOffsetCommit names topics. Its coordinator is asked for their ids after it: if they are
        those of the topics that were read, a later deletion removes the offsets.
        """
        topics: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for tp, each in offsets.items():
            topics[tp.topic].append(
                {
                    "partition_index": tp.partition,
                    "committed_offset": each.offset,
                    "committed_leader_epoch": each.leader_epoch,
                    "committed_metadata": each.metadata,
                }
            )

        async def send(connection: Connection) -> Mapping[str, TopicMetadata]:
            self.machine.sending()
            response = await connection.send(
                "txn_offset_commit",
                min_version=3 if self.machine.adds_by_request else 5,
                max_version=4 if self.machine.adds_by_request else 5,
                transactional_id=self.transactional_id,
                group_id=group.group_id,
                producer_id=self.machine.producer.id,
                producer_epoch=self.machine.producer.epoch,
                generation_id=group.generation_id,
                member_id=group.member_id,
                group_instance_id=group.instance_id,
                topics=[{"name": name, "partitions": parts} for name, parts in topics.items()],
            )
            _raise_worst(
                {
                    TopicPartition(topic.name, each.partition_index): each.error_code
                    for topic in response.topics
                    for each in topic.partitions
                }
            )
            known = tuple({tp.topic for tp in topic_ids})
            return await request_topics(connection, known) if known else {}

        now = await self._coordinate("txn_offset_commit", send, key=group.group_id, key_type=GROUP)
        for tp in offsets:
            if tp.topic in now and now[tp.topic].is_another(topic_ids.get(tp)):
                raise TopicRecreatedError(tp)

    async def _coordinate(
        self,
        api: str,
        send: Callable[[Connection], Awaitable[T]],
        *,
        key: str | None = None,
        key_type: int = TRANSACTION,
        timeout_ms: int | None = None,
        aborting: bool = False,
    ) -> T:
        """Send a request to a coordinator until it succeeds; returns what `send` does.

        Changes the state as the error demands. Raises KafkaError and ProducerFencedError after
        that, GaveUpError.
        """
        key = self.transactional_id if key is None else key

        async def attempt() -> T:
            try:
                node_id = await self._cluster.coordinator_node(key, key_type)
                return await send(await self._cluster.connection(node_id, self._purpose))
            except KohortError as error:
                looks_up = isinstance(error, KafkaError) and (
                    judge(api, error.code, aborting=aborting) is Verdict.LOOK_UP
                )
                if looks_up or not isinstance(error, KafkaError):
                    self._cluster.coordinator_moved(key, key_type)
                raise

        def passes(error: BaseException) -> bool:
            if isinstance(error, KafkaError):
                verdict = judge(api, error.code, aborting=aborting)
                return verdict in (Verdict.AGAIN, Verdict.LOOK_UP)
            return is_retriable(error)

        try:
            return await retrying(
                attempt,
                what=f"{api} of transactional id {self.transactional_id!r}",
                timeout_ms=self._config.max_block_ms if timeout_ms is None else timeout_ms,
                backoff=self._cluster.backoff(
                    min(_FIRST_PAUSE_MS, self._cluster.config.retry_backoff_ms)
                ),
                retriable=passes,
                advice="check that the brokers are up and that __transaction_state has leaders",
            )
        except GaveUpError:
            raise
        except KafkaError as error:
            raise await self._refused(api, error, aborting=aborting) from error
        except KohortError as error:
            self.machine.fatal(error)
            raise

    async def _refused(self, api: str, error: KafkaError, *, aborting: bool) -> KohortError:
        """Change the state by the error; returns the error to raise."""
        verdict = judge(api, error.code, aborting=aborting)
        log.debug("%s: %s: %s: %s", self.transactional_id, api, error, verdict.value)
        if verdict is Verdict.ABORT:
            if self.machine.state is State.INITIALIZING:
                self.machine.not_initialized()
            else:
                self.machine.abortable(error)
            return error
        told: KohortError = error
        # A commit after the coordinator's abort is INVALID_TXN_STATE.
        if verdict is Verdict.FENCED or error.code is ErrorCode.invalid_txn_state:
            told = fenced(
                self.transactional_id,
                error,
                await self._describe(),
                producer=self.machine.producer,
                open_s=self._now() - self._began_at if self.machine.is_open else None,
                timeout_ms=self._config.transaction_timeout_ms,
                outcome=self._fate(),
            )
        self.machine.fatal(told)
        return told

    async def _is_known(self) -> bool:
        """Whether nobody has fenced this producer: the coordinator has its id and epoch.

        EndTxn v5 gives the next epoch before all markers are written. Until then Apache Kafka 4.3
        refuses an abort in that epoch by PRODUCER_FENCED, where it refuses all other requests by
        CONCURRENT_TRANSACTIONS. The markers may be written by the time of the description.
        Raises KohortError, which is retriable.
        """
        try:
            found = await self._ask_description()
        except KohortError as error:
            if is_retriable(error):
                raise
            return False
        return ProducerId(found.producer_id, found.producer_epoch) == self.machine.producer

    async def _describe(self) -> Any:
        """The coordinator's description of the transactional id; None if it cannot be had."""
        try:
            return await self._ask_description()
        except KohortError:
            return None

    async def _ask_description(self) -> Any:
        """The same. Raises KohortError."""
        node_id = await self._cluster.coordinator_node(self.transactional_id, TRANSACTION)
        connection = await self._cluster.connection(node_id, self._purpose)
        response = await connection.send(
            "describe_transactions", transactional_ids=[self.transactional_id]
        )
        found = response.transaction_states[0]
        _raise_for(found.error_code, "describe_transactions")
        return found

    def _fate(self) -> TransactionOutcome:
        """The outcome of the transaction if nothing more is sent for it."""
        if self._outcome is TransactionOutcome.COMMITTED:
            return self._outcome
        is_unknown = self._unanswered_commits > 0
        return TransactionOutcome.UNKNOWN if is_unknown else TransactionOutcome.ABORTED

    def _tell(self, outcome: TransactionOutcome) -> None:
        if outcome is self._outcome:
            return
        self._outcome = outcome
        if self._on_outcome is not None:
            self._on_outcome(outcome)

    def _aborted(self, error: KohortError) -> TransactionAbortedError:
        told = TransactionAbortedError(
            f"the transaction of {self.transactional_id!r} is aborted, nothing of it counts: "
            f"{error}{late(self._now() - self._began_at, self._config.transaction_timeout_ms)}"
        )
        told.__cause__ = error
        return told

    def _raise_if_fatal(self) -> None:
        if self.machine.state is State.FATAL_ERROR and self.machine.error is not None:
            raise fresh(self.machine.error)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _adds_by_request(connection: Connection) -> bool:
    return connection.feature(_FEATURE) < _ADDED_BY_PRODUCE


def _ends_the_producer(error: KohortError) -> bool:
    """Whether no batch can succeed any more after this one failed."""
    if isinstance(error, KafkaError):
        return judge("produce", error.code) is not Verdict.ABORT
    return isinstance(error, UnsupportedVersionError)


def _raise_for(code: ErrorCode, what: str) -> None:
    if code is not ErrorCode.none:
        raise KafkaError(code, what)


def _raise_worst(codes: Mapping[TopicPartition, ErrorCode]) -> None:
    """Raise the first error; those that the others caused (OPERATION_NOT_ATTEMPTED) come last."""
    failed = {tp: code for tp, code in codes.items() if code is not ErrorCode.none}
    for tp, code in sorted(
        failed.items(), key=lambda each: (each[1] is ErrorCode.operation_not_attempted, each[0])
    ):
        raise KafkaError(code, str(tp))
