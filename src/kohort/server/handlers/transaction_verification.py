"""Asks the transaction coordinator whether partitions of a Produce are in the transaction.

It is asked for the first batch of a transaction in a partition, so that no batch is left without a
marker (KIP-890). Since v12 the coordinator adds the partition; v11 knows TRANSACTION_ABORTABLE.
"""

import contextlib
from collections.abc import Generator, Mapping
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kohort.errors import ErrorCode, KafkaError
from kohort.log.base import LogAppender
from kohort.log.producer_states import VerificationStateEntry
from kohort.protocol.batches import Buffer
from kohort.server.handlers import without_fenced
from kohort.server.handlers.append_batch import (
    PRODUCER,
    PRODUCER_AT,
    ProduceContext,
    find_topic,
    is_transactional,
)
from kohort.server.services import Services
from kohort.transactions.requests import TransactionalProducer
from kohort.transactions.transitions import BUMPS_EPOCH
from kohort.util.eager import in_task
from kohort.util.time_slice import in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import ProduceRequest

TRANSACTION_ABORTABLE_SINCE: Final = 11
TRANSACTION_V2_SINCE: Final = 12
_LENGTH, _LENGTH_AT, _AFTER_LENGTH = Struct(">i"), 8, 12
_RETRY_INTERVAL_S: Final = 0.02
_MAX_RETRIES: Final = 5
"""While the producer's last transaction ends: `add.partitions.to.txn.retry.backoff.max.ms` is 100.

Sooner if its markers are written: Kafka always waits the 20 ms.
"""
_RETRIABLE_COORDINATOR_ERRORS: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)


async def verify_transaction(
    services: Services, context: ProduceContext, request: "ProduceRequest", transactional_id: str
) -> ProduceContext:
    """The context with what the coordinator says of the batches that begin a transaction."""
    unverified = await in_slices(_begin_verification(context, request))
    if len(unverified.producers) > 1:
        return context._replace(refused=ErrorCode.invalid_producer_id_mapping)
    if not unverified.guards:
        return context
    await in_task()  # the coordinator may be that of another node
    (producer_id_and_epoch,) = unverified.producers
    producer = TransactionalProducer(transactional_id, *producer_id_and_epoch)
    verified = await _verified(services, context.version, producer, unverified.guards)
    for _ in range(_MAX_RETRIES):
        if ErrorCode.concurrent_transactions in verified.values():
            await services.verifier.markers_written(transactional_id, _RETRY_INTERVAL_S)
        elif not any(map(_has_ended, verified.values())):
            break
        # Markers of the last transaction end the guards from before them.
        renewed = await in_slices(_begin_verification(context, request))
        verified = await _verified(services, context.version, producer, renewed.guards)
    return context._replace(verified=verified)


class _Unverified(NamedTuple):
    """The transactional batches of a request that may begin a transaction in their logs."""

    producers: set[tuple[int, int]]
    """Id and epoch of every transactional batch."""
    guards: dict[LogAppender, VerificationStateEntry]


def _begin_verification(
    context: ProduceContext, request: "ProduceRequest"
) -> Generator[None, None, _Unverified]:
    """The guards of logs without an open transaction of the batch's producer."""
    unverified = _Unverified(set(), {})
    for topic_data in request.topic_data:
        _, topic, _ = find_topic(context, topic_data)
        for data in topic_data.partition_data:
            yield
            if topic is None or topic.internal or not 0 <= data.index < len(topic.partitions):
                continue
            if data.records is None or not is_transactional(data.records):
                continue
            if not _is_one_batch(data.records):
                continue  # it is refused when it is read, and adds nothing to the transaction
            producer_id, epoch, sequence = PRODUCER.unpack_from(data.records, PRODUCER_AT)
            unverified.producers.add((producer_id, epoch))
            log = topic.partitions[data.index]
            # A log that is not served says so when the batch is appended.
            with contextlib.suppress(KafkaError, OSError):
                if log not in unverified.guards and (
                    log.ongoing_transaction(producer_id, epoch) is None
                ):
                    unverified.guards[log] = log.begin_verification(
                        producer_id,
                        epoch,
                        sequence,
                        context.clock.timestamp(),
                        tv2=context.version >= TRANSACTION_V2_SINCE,
                    )
    return unverified


def _is_one_batch(records: Buffer) -> bool:
    (length,) = _LENGTH.unpack_from(records, _LENGTH_AT)
    return len(records) - _AFTER_LENGTH == int(length)


def _has_ended(verified: VerificationStateEntry | ErrorCode) -> bool:
    return isinstance(verified, VerificationStateEntry) and verified.has_ended


async def _verified(
    services: Services,
    version: int,
    producer: TransactionalProducer,
    guards: Mapping[LogAppender, VerificationStateEntry],
) -> Mapping[LogAppender, VerificationStateEntry | ErrorCode]:
    """The guard of each log whose partition is in the transaction, or the error of its batch."""
    indexes: dict[str, set[int]] = {}
    for log in guards:
        topic, index = log.topic_partition
        indexes.setdefault(topic, set()).add(index)
    partitions = {topic: frozenset(partitions) for topic, partitions in indexes.items()}
    missing: Mapping[str, frozenset[int]] = {}
    if version >= TRANSACTION_V2_SINCE:
        error = await services.verifier.add_partitions(producer, partitions, BUMPS_EPOCH)
    else:
        error, missing = await services.verifier.verify_partitions(producer, partitions)
        if error is ErrorCode.concurrent_transactions:
            error = ErrorCode.not_enough_replicas  # older clients retry after this one
    if error:
        error = (
            ErrorCode.not_enough_replicas
            if error in _RETRIABLE_COORDINATOR_ERRORS
            else without_fenced(error)
        )
        return dict.fromkeys(guards, error)
    knows_abortable = version >= TRANSACTION_ABORTABLE_SINCE
    absent = ErrorCode.transaction_abortable if knows_abortable else ErrorCode.invalid_txn_state
    return {
        log: absent if index in missing.get(topic, ()) else guard
        for log, guard in guards.items()
        for topic, index in (log.topic_partition,)
    }
