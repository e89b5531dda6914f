"""Appends the batches of a Produce request: one for each partition, with a result for each.

A batch is refused before it is read (an internal topic, no transactional id), by its validation, by
the guard of its transaction, or by the log. Each has its error code, and the fields of the response
that Kafka sends with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from kohort.errors import ErrorCode, KafkaError, fresh
from kohort.log.base import LogAppender
from kohort.log.producer_states import VerificationStateEntry
from kohort.protocol.batches import Buffer, Effort, InvalidRecordsError, PayloadError, validate
from kohort.runtime.clock import Clock
from kohort.server.metadata import MAX_NAME_LENGTH
from kohort.server.refused_batches import RETRIED_ERRORS, NumberedBatch, RefusedBatches
from kohort.server.replicas import Topic, Topics
from kohort.server.responses import TOPIC_IDS_SINCE, PartitionProduceResponse

if TYPE_CHECKING:
    from kohort.protocol.requests import PartitionProduceData, TopicProduceData

ZSTD_SINCE: Final = 7
PRODUCER: Final = Struct(">qhi")
"""Producer id, epoch and base sequence in the header of a batch."""
PRODUCER_AT: Final = 43
_MAGIC_AT, _ATTRIBUTES_AT, _TRANSACTIONAL = 16, 22, 0x10
_BATCH_AT_FAULT: Final = (ErrorCode.corrupt_message, ErrorCode.message_too_large)
_UNVERIFIED: Final = MappingProxyType(
    {
        ErrorCode.invalid_txn_state: "The partition is not in the transaction.",
        ErrorCode.not_enough_replicas: "It is not known yet whether it is in the transaction.",
    }
)
"""Messages of the errors that stand for others: Kafka has none with the rest."""


class ProduceContext(NamedTuple):
    """Values that all partitions of a request share."""

    topics: Topics
    may_write: Callable[[str], bool]
    """Whether the client may write to the topic of that name."""
    version: int
    transactional: bool
    """Whether there is a transactional id."""
    clock: Clock
    effort: Effort
    refused_batches: RefusedBatches
    verified: Mapping[LogAppender, VerificationStateEntry | ErrorCode] = MappingProxyType({})
    """Guards or errors of transactional batches that begin a transaction in their log."""
    refused: ErrorCode = ErrorCode.none
    """An error of all partitions."""


@dataclass(slots=True)
class Batch:
    """The batch of a request for one partition."""

    index: int
    records: bytes


def find_topic(
    context: ProduceContext, topic_data: "TopicProduceData"
) -> tuple[str | UUID | None, Topic | None, ErrorCode]:
    """Find the topic: (its name or id in the response, the topic, the error of no partition)."""
    if context.version < TOPIC_IDS_SINCE:
        name: str = topic_data.name
        if not context.may_write(name):
            return name, None, ErrorCode.topic_authorization_failed
        return name, context.topics.get(name), ErrorCode.unknown_topic_or_partition
    topic = None if topic_data.topic_id is None else context.topics.by_id(topic_data.topic_id)
    if topic is not None and not context.may_write(topic.name):
        return topic_data.topic_id, None, ErrorCode.topic_authorization_failed
    unknown = ErrorCode.unknown_topic_id if topic is None else ErrorCode.unknown_topic_or_partition
    return topic_data.topic_id, topic, unknown


def validate_batch(context: ProduceContext, log: LogAppender, records: bytes) -> Buffer:
    return validate(
        records,
        log.config.rules,
        context.clock.timestamp(),
        zstd=context.version >= ZSTD_SINCE,
        effort=context.effort,
    )


def append_batch(
    context: ProduceContext,
    key: str | UUID | None,
    topic: Topic,
    log: LogAppender,
    data: "PartitionProduceData | Batch",
    checked: Buffer | KafkaError | None = None,
) -> PartitionProduceResponse:
    """Append one batch; `checked` is the result of its validation, None if that is still to do.

    `key` is the topic as in the request. Raises HeavyBatchError if the validation takes long.
    """
    batch = NumberedBatch.read(key, data.index, data.records) if context.refused_batches else None
    awaited = None if batch is None else context.refused_batches.before(batch)
    result = _append_to_log(context, topic, log, data, checked, awaited)
    if batch is not None and awaited is not None:
        error = context.refused_batches.error_of(batch, result.error)
        return result._replace(error=error)
    if result.error in RETRIED_ERRORS:
        note_refused(context, key, data, result.error)
    return result


def note_refused(
    context: ProduceContext,
    key: str | UUID | None,
    data: "PartitionProduceData | Batch",
    error: ErrorCode,
) -> None:
    """Note that the batch was refused with an error after which its producer retries it."""
    if isinstance(key, str) and len(key) > MAX_NAME_LENGTH:
        return  # no topic will have that name: it would only take memory
    batch = NumberedBatch.read(key, data.index, data.records)
    if batch is not None:
        context.refused_batches.add(batch, error)


def _append_to_log(
    context: ProduceContext,
    topic: Topic,
    log: LogAppender,
    data: "PartitionProduceData | Batch",
    checked: Buffer | KafkaError | None,
    awaited: int | None,
) -> PartitionProduceResponse:
    index = data.index
    try:
        records = _validate_request(context, topic, data.records)
        guard = _guard(context, log, records)
    except KafkaError as error:
        return PartitionProduceResponse(index, error.code, message=_UNVERIFIED.get(error.code))
    try:
        if isinstance(checked, KafkaError):
            raise fresh(checked)
        batch = validate_batch(context, log, records) if checked is None else checked
        placed = log.append(batch, context.clock.timestamp(), verified=guard, awaited=awaited)
    except InvalidRecordsError as error:
        return PartitionProduceResponse(
            index,
            error.code,
            log_start_offset=log.start_offset,
            record_errors=error.record_errors,
            message=error.message,
        )
    except PayloadError as error:
        corrupt = error.code is ErrorCode.corrupt_message
        return PartitionProduceResponse(
            index, error.code, message=error.message if corrupt else None
        )
    except KafkaError as error:
        # As in Kafka there is no message, and the log's start offset unless the batch is at fault.
        start = -1 if error.code in _BATCH_AT_FAULT else log.start_offset
        return PartitionProduceResponse(index, error.code, log_start_offset=start)
    except OSError as error:
        return PartitionProduceResponse(
            index, ErrorCode.kafka_storage_error, message=error.strerror
        )
    return PartitionProduceResponse(
        index, ErrorCode.none, placed.base_offset, placed.append_time, log.start_offset
    )


def _guard(
    context: ProduceContext, log: LogAppender, records: bytes
) -> VerificationStateEntry | None:
    """The guard of a transactional batch, None if it needs none. Raises KafkaError."""
    verified = context.verified.get(log) if is_transactional(records) else None
    if isinstance(verified, ErrorCode):
        raise KafkaError(verified)
    return verified


def _validate_request(context: ProduceContext, topic: Topic, records: bytes | None) -> bytes:
    """The batch, unless it is refused without being read. Raises KafkaError."""
    if topic.internal:
        raise KafkaError(
            ErrorCode.invalid_topic_exception, (f"{topic.name} is not for clients to write.")
        )
    if records is None:  # Kafka never responds to this one
        raise KafkaError(ErrorCode.invalid_record, "There are no records.")
    if not context.transactional and is_transactional(records):
        raise KafkaError(ErrorCode.transactional_id_authorization_failed)
    return records


def is_transactional(records: Buffer) -> bool:
    return (
        len(records) >= PRODUCER_AT + PRODUCER.size
        and records[_MAGIC_AT] == 2
        and bool(records[_ATTRIBUTES_AT] & _TRANSACTIONAL)
    )
