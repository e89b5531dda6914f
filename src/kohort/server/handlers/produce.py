"""Produce (0) v3-13: one batch for each partition, with a result for each.

v5 has the log's start offset, v7 allows zstd (KIP-110), v8 tells which records are refused
(KIP-467), v10 names a new leader (KIP-951), v13 has topic ids (KIP-516). Batches are format v2 in
all of them.

acks 1 and -1 are the same on one node: the response says that the batch is in the log, and as
durable as the server's policy asks. acks 0 has no response, so an error can only be reported by
closing the connection, as in Kafka.

*Steps.* Most requests run to their end at once, without a task:

    fast path   `_from_bytes` appends the only batch of an undecoded request
    verify      `_handle_verified`: the coordinator confirms the partitions of transactional batches
    append      `_append_all`, a generator, appends every batch in the order of the request
    durable     `_respond_when_durable` waits for the disk or the database
    respond     `_respond` encodes the response

`_append_all` yields None to give way to others every few milliseconds. It yields a function where a
validation takes long; `_append_later` runs that in another thread, one of all requests at a time.

A transactional batch needs a transactional id. For the first of its transaction in a partition, the
transaction coordinator is asked whether the partition is in the transaction, so that no batch is
left without a marker (KIP-890). Since v12 the coordinator adds the partition; v11 knows
TRANSACTION_ABORTABLE.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from itertools import islice
from struct import Struct
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from kohort.errors import ErrorCode, KafkaError, fresh
from kohort.log.base import LogAppender
from kohort.log.producers import Verification
from kohort.protocol.batches import (
    Buffer,
    Effort,
    HeavyBatchError,
    InvalidRecordsError,
    PayloadError,
    validate,
)
from kohort.protocol.releasing import release
from kohort.protocol.request_fast_path import read_single_batch
from kohort.runtime.clock import Clock
from kohort.server.cluster import NO_LEADERS, CurrentLeaders, current_leaders
from kohort.server.config import waits_for_disk
from kohort.server.handlers import without_fenced
from kohort.server.handlers.chunked import CHUNK, Pieces
from kohort.server.metadata import MAX_NAME_LENGTH
from kohort.server.net import Exchange
from kohort.server.refused_batches import RETRIED_ERRORS, NumberedBatch, RefusedBatches
from kohort.server.replicas import Topic
from kohort.server.responses import (
    CURRENT_LEADER_SINCE,
    TOPIC_IDS_SINCE,
    PartitionProduceResponse,
    TopicProduceResponse,
    pack,
    parts,
)
from kohort.server.services import Services
from kohort.server.topics import Topics
from kohort.transactions.requests import TransactionalProducer
from kohort.transactions.transitions import BUMPS_EPOCH
from kohort.util.time_slice import SLICE_S, in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import PartitionProduceData, ProduceRequest, TopicProduceData

ZSTD_SINCE = 7
NO_ACKS = 0
VALID_ACKS = (-1, NO_ACKS, 1)
_BATCH_AT_FAULT = (ErrorCode.corrupt_message, ErrorCode.message_too_large)
_LENGTH, _LENGTH_AT, _AFTER_LENGTH = Struct(">i"), 8, 12
_MAGIC_AT, _ATTRIBUTES_AT, _TRANSACTIONAL = 16, 22, 0x10
_PRODUCER: Final = Struct(">qhi")
"""Producer id, epoch and base sequence in the header of a batch."""
_PRODUCER_AT: Final = 43
TRANSACTION_ABORTABLE_SINCE: Final = 11
TRANSACTION_V2_SINCE: Final = 12
MAX_FAST_PATH_BYTES: Final = 1024 * 1024
"""Larger requests are decoded without a copy of their records."""
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
_UNVERIFIED: Final = MappingProxyType(
    {
        ErrorCode.invalid_txn_state: "The partition is not in the transaction.",
        ErrorCode.not_enough_replicas: "It is not known yet whether it is in the transaction.",
    }
)
"""Messages of the errors that stand for others: Kafka has none with the rest."""
_SEVERAL_PRODUCERS: Final = "The transactional batches are of several producers."

TopicResponses: TypeAlias = list[TopicProduceResponse]
ResponseSlots: TypeAlias = list[tuple[int, int, NumberedBatch | None]]
"""Positions of results in the response: index of the topic, of the result in it, and the batch."""


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
    verified: Mapping[LogAppender, Verification | ErrorCode] = MappingProxyType({})
    """Guards or errors of transactional batches that begin a transaction in their log."""
    refused: ErrorCode = ErrorCode.none
    """An error of all partitions."""


Appended: TypeAlias = tuple[TopicResponses, dict[LogAppender, ResponseSlots]]
"""The response, and the logs whose batches must become durable, with their slots in it."""
Validation: TypeAlias = Callable[[], Buffer]
Work: TypeAlias = Generator[Validation | None, Buffer | KafkaError | None, Appended]
"""The work on a request. It yields None to give way, or a validation that takes long, whose result
it then gets: the valid batch or an error.
"""


@dataclass(slots=True)
class Batch:
    """The batch of a request for one partition."""

    index: int
    records: bytes


def _from_bytes(services: Services, exchange: Exchange, frame: bytes, body_at: int) -> bool:
    """Append the only batch of a request, as most have. `handle` gets batches that are refused."""
    if len(frame) > MAX_FAST_PATH_BYTES:
        return False
    single_batch = read_single_batch(frame, body_at, exchange.version)
    if single_batch is None:
        return False
    acks, key, index, records = single_batch
    topics = services.topics
    topic = topics.get(key) if isinstance(key, str) else topics.by_id(key)
    if topic is None or not 0 <= index < len(topic.partitions) or acks not in VALID_ACKS:
        return False
    if waits_for_disk(services.config):
        return False  # the response has to wait
    context = _context(services, exchange)
    log = topic.partitions[index]
    try:
        checked = _validate(context, log, records)
    except (KafkaError, HeavyBatchError):
        return False
    if context.may_write(topic.name):  # called once: the audit log has each decision
        result = _append(context, key, topic, log, Batch(index, records), checked)
    else:
        result = PartitionProduceResponse(index, ErrorCode.topic_authorization_failed)
    _finish(services, exchange, acks, [(key, [result])], {})
    return True


FAST_PATHS: Final = dict.fromkeys(range(9, 14), _from_bytes)


def handle(
    services: Services, exchange: Exchange, request: "ProduceRequest"
) -> Coroutine[Any, Any, None] | None:
    transactional_id = request.transactional_id
    context = _context(services, exchange, transactional=transactional_id is not None)
    if transactional_id is not None:
        if not services.access(exchange).transactional_id(transactional_id):
            refused = ErrorCode.transactional_id_authorization_failed
            return _handle(services, exchange, request, context._replace(refused=refused))
        return _handle_in_transaction(services, exchange, request, context)
    return _handle(services, exchange, request, context)


def _context(
    services: Services, exchange: Exchange, *, transactional: bool = False
) -> ProduceContext:
    return ProduceContext(
        services.topics,
        services.access(exchange).topic,
        exchange.version,
        transactional,
        services.clock,
        Effort(services.config["produce.inflated.max.bytes"], quick=True),
        services.refused_batches,
    )


def _handle(
    services: Services, exchange: Exchange, request: "ProduceRequest", context: ProduceContext
) -> Coroutine[Any, Any, None] | None:
    work = _append_all(context, request, waits=waits_for_disk(services.config))
    try:
        due = next(work)
    except StopIteration as done:
        return _finish(services, exchange, request.acks, *done.value)
    return _append_later(services, exchange, request, context.effort, work, due)


def _handle_in_transaction(
    services: Services, exchange: Exchange, request: "ProduceRequest", context: ProduceContext
) -> Coroutine[Any, Any, None] | None:
    steps = _begin_verification(context, request)
    try:
        for _ in range(CHUNK):
            next(steps)
    except StopIteration as end:
        if not end.value.guards and len(end.value.producers) <= 1:
            return _handle(services, exchange, request, context)
        return _handle_verified(services, exchange, request, context, end.value)
    return _handle_large(services, exchange, request, context, steps)


async def _handle_large(
    services: Services,
    exchange: Exchange,
    request: "ProduceRequest",
    context: ProduceContext,
    steps: "Verifying",
) -> None:
    await _handle_verified(services, exchange, request, context, await in_slices(steps))


class Unverified(NamedTuple):
    """The transactional batches of a request that may begin a transaction in their logs."""

    producers: set[tuple[int, int]]
    """Id and epoch of every transactional batch."""
    guards: dict[LogAppender, Verification]


Verifying: TypeAlias = Generator[None, None, Unverified]


def _begin_verification(context: ProduceContext, request: "ProduceRequest") -> Verifying:
    """The guards of logs without an open transaction of the batch's producer."""
    unverified = Unverified(set(), {})
    for topic_data in request.topic_data:
        _, topic, _ = _find(context, topic_data)
        for data in topic_data.partition_data:
            yield
            if topic is None or topic.internal or not 0 <= data.index < len(topic.partitions):
                continue
            if data.records is None or not _is_transactional(data.records):
                continue
            if not _is_one_batch(data.records):
                continue  # it is refused when it is read, and adds nothing to the transaction
            producer_id, epoch, sequence = _PRODUCER.unpack_from(data.records, _PRODUCER_AT)
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


async def _handle_verified(
    services: Services,
    exchange: Exchange,
    request: "ProduceRequest",
    context: ProduceContext,
    unverified: Unverified,
) -> None:
    """Append the batches whose partitions the transaction coordinator confirms."""
    if len(unverified.producers) > 1:
        context = context._replace(refused=ErrorCode.invalid_producer_id_mapping)
    elif unverified.guards and (transactional_id := request.transactional_id) is not None:
        (producer,) = unverified.producers
        verify = partial(
            _verified,
            services,
            context.version,
            TransactionalProducer(transactional_id, *producer),
        )
        verified = await verify(unverified.guards)
        for _ in range(_MAX_RETRIES):
            if ErrorCode.concurrent_transactions in verified.values():
                await services.verifier.markers_written(transactional_id, _RETRY_INTERVAL_S)
            elif not any(map(_has_ended, verified.values())):
                break
            # Markers of the last transaction end the guards from before them.
            renewed = await in_slices(_begin_verification(context, request))
            verified = await verify(renewed.guards)
        context = context._replace(verified=verified)
    later = _handle(services, exchange, request, context)
    if later is not None:
        await later


def _has_ended(verified: Verification | ErrorCode) -> bool:
    return isinstance(verified, Verification) and verified.has_ended


async def _verified(
    services: Services,
    version: int,
    producer: TransactionalProducer,
    guards: Mapping[LogAppender, Verification],
) -> Mapping[LogAppender, Verification | ErrorCode]:
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


async def _append_later(
    services: Services,
    exchange: Exchange,
    request: "ProduceRequest",
    effort: Effort,
    work: Work,
    due: Validation | None,
) -> None:
    """Do the rest of the work in slices, and long validations in another thread."""
    try:
        while True:
            outcome: Buffer | KafkaError | None = None
            if due is None:
                await asyncio.sleep(0)
            else:
                try:
                    outcome = await services.heavy_work.run(due)
                except KafkaError as error:
                    outcome = error.with_traceback(None)  # which refers to this frame
            due = work.send(outcome)
    except StopIteration as done:
        later = _finish(services, exchange, request.acks, *done.value)
    finally:
        effort.abandoned = True
    if later is not None:
        await later


def _finish(
    services: Services,
    exchange: Exchange,
    acks: int,
    responses: TopicResponses,
    logs: dict[LogAppender, ResponseSlots],
) -> Coroutine[Any, Any, None] | None:
    services.throttling.produced(exchange)
    if acks == NO_ACKS:
        _end_without_response(exchange, responses)
    elif logs:
        return _respond_when_durable(services, exchange, responses, logs)
    else:
        return _respond(services, exchange, responses)
    return None


def _respond(
    services: Services, exchange: Exchange, responses: TopicResponses
) -> Coroutine[Any, Any, None] | None:
    if len(responses) > CHUNK or sum(len(results) for _, results in responses) > CHUNK:
        return _respond_in_thread(services, exchange, responses)
    errors = _all_errors(responses)
    moved = _moved(services, exchange, errors, responses)
    exchange.respond_encoded(pack(exchange.version, responses, moved), errors)
    return None


def _all_errors(responses: TopicResponses) -> set[ErrorCode]:
    return {result.error for _, results in responses for result in results}


def _moved(
    services: Services, exchange: Exchange, errors: AbstractSet[ErrorCode], topics: TopicResponses
) -> CurrentLeaders:
    """The leaders that the response names; `errors` are those of its partitions."""
    if ErrorCode.not_leader_or_follower not in errors or exchange.version < CURRENT_LEADER_SINCE:
        return NO_LEADERS
    keys = (
        (topic, result.partition)
        for topic, results in topics
        for result in results
        if result.error is ErrorCode.not_leader_or_follower
    )
    return current_leaders(services.nodes, services.topics, exchange.peer.endpoint, keys)


async def _respond_in_thread(
    services: Services, exchange: Exchange, responses: TopicResponses
) -> None:
    errors = await services.heavy_work.run(partial(_all_errors, responses))
    moved = _moved(services, exchange, errors, responses)
    encode = partial(_encoded, exchange.version, responses, moved)
    exchange.respond_encoded(await services.heavy_work.run(encode), errors)


def _encoded(version: int, responses: TopicResponses, moved: CurrentLeaders) -> list[bytes]:
    """The body of a large response, which is emptied."""
    pieces = Pieces(*parts(version, responses, moved))
    release(responses)
    return list(pieces)


def _append_all(context: ProduceContext, request: "ProduceRequest", *, waits: bool) -> Work:
    """Append every partition's batch, in the order of the request.

    `waits`: whether what was appended has to become durable.
    """
    begun = perf_counter()
    responses: TopicResponses = []
    appended: dict[LogAppender, ResponseSlots] = {}
    are_acks_valid = request.acks in VALID_ACKS
    for topic_data in request.topic_data:
        if not topic_data.partition_data:
            continue
        key, topic, error = _find(context, topic_data)
        if not are_acks_valid or context.refused:
            topic, error = None, context.refused or ErrorCode.invalid_required_acks
        results: list[PartitionProduceResponse] = []
        responses.append((key, results))
        for data in topic_data.partition_data:
            if perf_counter() - begun > SLICE_S:
                yield None
                begun = perf_counter()
            if topic is None or not 0 <= data.index < len(topic.partitions):
                mixed = error is ErrorCode.invalid_producer_id_mapping
                message = _SEVERAL_PRODUCERS if mixed else None
                if error in RETRIED_ERRORS:
                    _note_refused(context, key, data, error)
                results.append(PartitionProduceResponse(data.index, error, message=message))
                continue
            log = topic.partitions[data.index]
            try:
                result = _append(context, key, topic, log, data)
            except HeavyBatchError:
                context.effort.quick = False
                checked = yield partial(_validate, context, log, data.records or b"")
                context.effort.quick = True
                result = _append(context, key, topic, log, data, checked)
                begun = perf_counter()
            if waits and not result.error:
                batch = NumberedBatch.read(key, data.index, data.records)
                appended.setdefault(log, []).append((len(responses) - 1, len(results), batch))
            results.append(result)
    return responses, appended


def _find(
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


def _validate(context: ProduceContext, log: LogAppender, records: bytes) -> Buffer:
    return validate(
        records,
        log.config.rules,
        context.clock.timestamp(),
        zstd=context.version >= ZSTD_SINCE,
        effort=context.effort,
    )


def _append(
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
        _note_refused(context, key, data, result.error)
    return result


def _note_refused(
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
        batch = _validate(context, log, records) if checked is None else checked
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


def _guard(context: ProduceContext, log: LogAppender, records: bytes) -> Verification | None:
    """The guard of a transactional batch, None if it needs none. Raises KafkaError."""
    verified = context.verified.get(log) if _is_transactional(records) else None
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
    if not context.transactional and _is_transactional(records):
        raise KafkaError(ErrorCode.transactional_id_authorization_failed)
    return records


def _is_transactional(records: Buffer) -> bool:
    return (
        len(records) >= _PRODUCER_AT + _PRODUCER.size
        and records[_MAGIC_AT] == 2
        and bool(records[_ATTRIBUTES_AT] & _TRANSACTIONAL)
    )


def _is_one_batch(records: Buffer) -> bool:
    (length,) = _LENGTH.unpack_from(records, _LENGTH_AT)
    return len(records) - _AFTER_LENGTH == int(length)


def _end_without_response(exchange: Exchange, responses: TopicResponses) -> None:
    failed = next(_errors(responses), None)
    if failed is None:
        exchange.end_without_response()
    else:
        exchange.close_with_reason(f"Produce with acks=0 failed: {failed}")


def _errors(responses: TopicResponses) -> Iterator[str]:
    for topic, partitions in responses:
        for result in partitions:
            if result.error:
                yield f"{topic}-{result.partition} {result.error.name.upper()}"


async def _respond_when_durable(
    services: Services,
    exchange: Exchange,
    responses: TopicResponses,
    logs: dict[LogAppender, ResponseSlots],
) -> None:
    following = iter(logs.items())
    while chunk := dict(islice(following, CHUNK)):
        outcomes = await asyncio.gather(*(log.durable() for log in chunk), return_exceptions=True)
        for slots, outcome in zip(chunk.values(), outcomes, strict=True):
            if isinstance(outcome, OSError | KafkaError):
                await in_slices(_refuse(services.refused_batches, responses, slots, outcome))
            elif outcome is not None:
                raise fresh(outcome)
    later = _respond(services, exchange, responses)
    if later is not None:
        await later


def _refuse(
    refused: RefusedBatches,
    responses: TopicResponses,
    slots: ResponseSlots,
    failure: OSError | KafkaError,
) -> Generator[None, None, None]:
    code = failure.code if isinstance(failure, KafkaError) else ErrorCode.kafka_storage_error
    for topic_index, index, batch in slots:
        yield
        if batch is not None and code in RETRIED_ERRORS:
            refused.add(batch, code)
        results = responses[topic_index][1]
        partition = results[index].partition
        results[index] = PartitionProduceResponse(partition, code, message=str(failure))
