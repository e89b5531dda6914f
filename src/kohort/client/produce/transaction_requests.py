"""The requests of a transactional producer to coordinators, and the effects of their errors.

Each is repeated until the coordinator accepts it, the time is over (GaveUpError), or an error
changes the state of the transaction (`judge`). The caller sends one at a time.
"""

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from kohort.client.backoff import retrying
from kohort.client.cluster import (
    GROUP,
    NO_ID,
    TRANSACTION,
    Cluster,
    TopicMetadata,
    request_topics,
)
from kohort.client.config import ProducerConfig
from kohort.client.errors import GaveUpError, TopicRecreatedError, is_retriable
from kohort.client.group_metadata import GroupMetadata
from kohort.client.net import Connection
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.offset_messages import error_codes, names_by_id, topics_to_commit
from kohort.client.produce.batch import NOBODY, ProducerId
from kohort.client.produce.fencing import fenced
from kohort.client.produce.transaction_machine import State, TransactionMachine, Verdict, judge
from kohort.client.produce.transaction_progress import TransactionProgress
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.types import TopicPartition

T = TypeVar("T")

log: Final = logging.getLogger("kohort.client.transactions")

_FEATURE: Final = "transaction.version"
_ADDED_BY_PRODUCE: Final = 2
"""Level of the feature from which the first batch adds its partition (KIP-890)."""
_BUMPS_SINCE: Final = 3
"""Version of InitProducerId that gives a producer its next epoch (KIP-360)."""
_TXN_OFFSET_COMMIT_BY_ID: Final = 6
"""Version of TxnOffsetCommit with topic ids in place of names (KIP-1319)."""
_FIRST_RETRY_BACKOFF_MS: Final = 20
"""A coordinator that still writes markers is done soon; Java's ADD_PARTITIONS_RETRY_BACKOFF_MS."""
_BEFORE_MARKERS: Final = frozenset(
    {ErrorCode.producer_fenced, ErrorCode.invalid_producer_id_mapping}
)
"""An abort may get these while markers of the transaction before are written: see `_is_current`."""


class TransactionRequests:
    """Requests for one transactional id, in the state of its `machine`."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        transactional_id: str,
        purpose: str,
        machine: TransactionMachine,
        progress: TransactionProgress,
    ) -> None:
        """`purpose` names the connections."""
        self._cluster = cluster
        self._config = config
        self._transactional_id = transactional_id
        self._purpose = purpose
        self._machine = machine
        self._progress = progress

    async def init_producer_id(self, producer_id: ProducerId) -> tuple[ProducerId, bool]:
        """InitProducerId: (a producer id, or its next epoch; the machine's `adds_by_request`)."""

        async def ask(connection: Connection) -> tuple[ProducerId, bool]:
            response = await connection.send(
                "init_producer_id",
                min_version=0 if producer_id == NOBODY else _BUMPS_SINCE,
                max_version=5,
                transactional_id=self._transactional_id,
                transaction_timeout_ms=self._config.transaction_timeout_ms,
                producer_id=producer_id.id,
                producer_epoch=producer_id.epoch,
            )
            _raise_for(response.error_code, "init_producer_id")
            producer = ProducerId(response.producer_id, response.producer_epoch)
            return producer, _adds_by_request(connection)

        return await self._coordinate("init_producer_id", ask)

    async def add_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """AddPartitionsToTxn, for at most `delivery_timeout_ms`."""
        topics: defaultdict[str, list[int]] = defaultdict(list)
        for tp in partitions:
            topics[tp.topic].append(tp.partition)

        async def add(connection: Connection) -> None:
            response = await connection.send(
                "add_partitions_to_txn",
                max_version=3,
                v3_and_below_transactional_id=self._transactional_id,
                v3_and_below_producer_id=self._machine.producer.id,
                v3_and_below_producer_epoch=self._machine.producer.epoch,
                v3_and_below_topics=[
                    {"name": name, "partitions": indexes} for name, indexes in topics.items()
                ],
            )
            _raise_worst(
                {
                    TopicPartition(topic.name, result.partition_index): result.partition_error_code
                    for topic in response.results_by_topic_v3_and_below
                    for result in topic.results_by_partition
                }
            )

        await self._coordinate(
            "add_partitions_to_txn", add, timeout_ms=self._config.delivery_timeout_ms
        )
        self._machine.added(partitions)

    async def add_group(self, group_id: str) -> None:
        """AddOffsetsToTxn."""

        async def add(connection: Connection) -> None:
            response = await connection.send(
                "add_offsets_to_txn",
                max_version=4,
                transactional_id=self._transactional_id,
                producer_id=self._machine.producer.id,
                producer_epoch=self._machine.producer.epoch,
                group_id=group_id,
            )
            _raise_for(response.error_code, "add_offsets_to_txn")

        await self._coordinate("add_offsets_to_txn", add)
        self._machine.added_group(group_id)

    async def commit_offsets(
        self,
        group: GroupMetadata,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        topic_ids: Mapping[TopicPartition, UUID],
    ) -> None:
        """TxnOffsetCommit. Raises TopicRecreatedError, and as `_coordinate`.

        Since v6 the request has the ids of the topics that were read (KIP-1319), so the coordinator
        refuses offsets of a recreated topic. It has topic names in older versions, or if an id is
        unknown. Then the ids are requested after the commit: if they are the ids of the topics that
        were read, a later deletion removes the offsets.
        """
        names = names_by_id(offsets, topic_ids)
        has_ids = all(topic_ids.get(tp, NO_ID) != NO_ID for tp in offsets)
        max_version = _TXN_OFFSET_COMMIT_BY_ID if has_ids else _TXN_OFFSET_COMMIT_BY_ID - 1
        read = tuple(dict.fromkeys(names.values()))

        async def send(connection: Connection) -> Mapping[str, TopicMetadata]:
            self._machine.sending()
            response = await connection.send(
                "txn_offset_commit",
                min_version=3 if self._machine.adds_by_request else 5,
                max_version=4 if self._machine.adds_by_request else max_version,
                transactional_id=self._transactional_id,
                group_id=group.group_id,
                producer_id=self._machine.producer.id,
                producer_epoch=self._machine.producer.epoch,
                generation_id=group.generation_id,
                generation_id_or_member_epoch=group.generation_id,
                member_id=group.member_id,
                group_instance_id=group.instance_id,
                topics=topics_to_commit(offsets, topic_ids),
            )
            codes = error_codes(response.topics, names)
            if ErrorCode.unknown_topic_id in codes.values():
                current = await request_topics(connection, read)
                if _recreated(topic_ids, current) is None:
                    _raise_worst(codes)
                return current
            _raise_worst(codes)
            is_by_name = any(hasattr(topic, "name") for topic in response.topics)
            return await request_topics(connection, read) if read and is_by_name else {}

        current = await self._coordinate(
            "txn_offset_commit", send, key=group.group_id, key_type=GROUP
        )
        if (tp := _recreated(topic_ids, current)) is not None:
            raise TopicRecreatedError(tp)

    async def end(self, *, commit: bool) -> None:
        """EndTxn. Afterwards the machine says if the next transaction needs another epoch."""
        machine = self._machine

        async def send(connection: Connection) -> None:
            if commit:
                self._progress.commit_sent()
            response = await connection.send(
                "end_txn",
                min_version=0 if machine.adds_by_request else 5,
                max_version=4 if machine.adds_by_request else 5,
                transactional_id=self._transactional_id,
                producer_id=machine.producer.id,
                producer_epoch=machine.producer.epoch,
                committed=commit,
            )
            code = response.error_code
            if commit:
                self._progress.commit_responded(code)
            elif code in _BEFORE_MARKERS and await self._is_current():
                code = ErrorCode.concurrent_transactions
            _raise_for(code, "end_txn")
            if not machine.adds_by_request:
                producer = ProducerId(response.producer_id, response.producer_epoch)
                machine.end_acknowledged(producer)
                return
            machine.end_acknowledged(machine.producer)
            if not _adds_by_request(connection):
                machine.needs_epoch = True  # the change of the protocol

        await self._coordinate("end_txn", send, aborting=not commit)

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
        key = self._transactional_id if key is None else key

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

        def may_retry(error: BaseException) -> bool:
            if isinstance(error, KafkaError):
                verdict = judge(api, error.code, aborting=aborting)
                return verdict in (Verdict.AGAIN, Verdict.LOOK_UP)
            return is_retriable(error)

        try:
            return await retrying(
                attempt,
                operation=f"{api} of transactional id {self._transactional_id!r}",
                timeout_ms=self._config.max_block_ms if timeout_ms is None else timeout_ms,
                backoff=self._cluster.backoff(
                    min(_FIRST_RETRY_BACKOFF_MS, self._cluster.config.retry_backoff_ms)
                ),
                retriable=may_retry,
                advice="check that the brokers are up and that __transaction_state has leaders",
            )
        except GaveUpError:
            raise
        except KafkaError as error:
            raise await self._refused(api, error, aborting=aborting) from error
        except KohortError as error:
            self._machine.fatal(error)
            raise

    async def _refused(self, api: str, error: KafkaError, *, aborting: bool) -> KohortError:
        """Change the state by the error; returns the error to raise."""
        verdict = judge(api, error.code, aborting=aborting)
        log.debug("%s: %s: %s: %s", self._transactional_id, api, error, verdict.value)
        if verdict is Verdict.ABORT:
            if self._machine.state is State.INITIALIZING:
                self._machine.not_initialized()
            else:
                self._machine.abortable(error)
            return error
        fatal: KohortError = error
        # A commit after the coordinator's abort is INVALID_TXN_STATE.
        if verdict is Verdict.FENCED or error.code is ErrorCode.invalid_txn_state:
            fatal = fenced(
                self._transactional_id,
                error,
                await self._describe(),
                producer=self._machine.producer,
                open_s=self._progress.age_s if self._machine.is_open else None,
                timeout_ms=self._config.transaction_timeout_ms,
                outcome=self._progress.final_outcome,
            )
        self._machine.fatal(fatal)
        return fatal

    async def _is_current(self) -> bool:
        """Whether this producer is not fenced: the coordinator has its id and epoch.

        EndTxn v5 gives the next epoch before all markers are written. Until then Apache Kafka 4.3
        refuses an abort in that epoch by PRODUCER_FENCED, where it refuses all other requests by
        CONCURRENT_TRANSACTIONS. The markers may be written by the time of the description.
        After the last epoch EndTxn v5 gives the next producer id. Until all markers are written,
        the coordinator has the former one at the epoch after the last, and refuses an abort by
        INVALID_PRODUCER_ID_MAPPING. Raises KohortError, which is retriable.
        """
        try:
            description = await self._ask_description()
        except KohortError as error:
            if is_retriable(error):
                raise
            return False
        former = self._machine.ended_producer
        current = ProducerId(description.producer_id, description.producer_epoch)
        return current in (self._machine.producer, ProducerId(former.id, former.epoch + 1))

    async def _describe(self) -> Any:
        """The coordinator's description of the transactional id; None if it cannot be had."""
        try:
            return await self._ask_description()
        except KohortError:
            return None

    async def _ask_description(self) -> Any:
        """The coordinator's description of the transactional id. Raises KohortError."""
        node_id = await self._cluster.coordinator_node(self._transactional_id, TRANSACTION)
        connection = await self._cluster.connection(node_id, self._purpose)
        response = await connection.send(
            "describe_transactions", transactional_ids=[self._transactional_id]
        )
        description = response.transaction_states[0]
        _raise_for(description.error_code, "describe_transactions")
        return description


def _recreated(
    topic_ids: Mapping[TopicPartition, UUID], current: Mapping[str, TopicMetadata]
) -> TopicPartition | None:
    """The first partition whose topic has another id in `current` than in `topic_ids`, or None."""
    for tp, topic_id in topic_ids.items():
        if tp.topic in current and current[tp.topic].is_another(topic_id):
            return tp
    return None


def _adds_by_request(connection: Connection) -> bool:
    return connection.feature(_FEATURE) < _ADDED_BY_PRODUCE


def _raise_for(code: ErrorCode, subject: str) -> None:
    if code is not ErrorCode.none:
        raise KafkaError(code, subject)


def _raise_worst(codes: Mapping[TopicPartition, ErrorCode]) -> None:
    """Raise the first error; OPERATION_NOT_ATTEMPTED only if there is no other."""
    failed = {tp: code for tp, code in codes.items() if code is not ErrorCode.none}
    for tp, code in sorted(
        failed.items(), key=lambda item: (item[1] is ErrorCode.operation_not_attempted, item[0])
    ):
        raise KafkaError(code, str(tp))
