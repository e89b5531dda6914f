"""Produce (0) v3-13: one batch for each partition, with a result for each.

v5 has the log's start offset, v7 allows zstd (KIP-110), v8 tells which records are refused
(KIP-467), v10 names a new leader (KIP-951), v13 has topic ids (KIP-516). Batches are format v2 in
all of them.

acks 1 and -1 are the same on one node: the response says that the batch is in the log, and as
durable as the server's policy asks. acks 0 has no response, so an error can only be reported by
closing the connection, as in Kafka.

*Steps.* `_handle` has them in their order. Most requests run to their end at once, without a task:

    fast path   `_from_bytes` appends the only batch of an undecoded request
    verify      the coordinator confirms the partitions of transactional batches
                (`transaction_verification`)
    append      every batch, in the order of the request (`append_batch`)
    durable     wait for the disk or the database
    respond     encode the response

Appending gives way to others every few milliseconds. A validation that takes long runs in the
thread for heavy work, one of all requests at a time.
"""

import asyncio
from collections.abc import Coroutine, Generator, Iterator
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kohort.errors import ErrorCode, KafkaError, fresh
from kohort.log.base import LogAppender
from kohort.protocol.batches import Buffer, Effort, HeavyBatchError
from kohort.protocol.releasing import release
from kohort.protocol.request_fast_path import read_single_batch
from kohort.server.cluster import NO_LEADERS, CurrentLeaders, current_leaders
from kohort.server.config import waits_for_disk
from kohort.server.handlers.append_batch import (
    Batch,
    ProduceContext,
    append_batch,
    find_topic,
    note_refused,
    validate_batch,
)
from kohort.server.handlers.chunked import CHUNK, Pieces
from kohort.server.handlers.transaction_verification import verify_transaction
from kohort.server.net import Exchange
from kohort.server.refused_batches import RETRIED_ERRORS, NumberedBatch, RefusedBatches
from kohort.server.responses import (
    CURRENT_LEADER_SINCE,
    PartitionProduceResponse,
    TopicProduceResponse,
    pack,
    parts,
)
from kohort.server.services import Services
from kohort.util.eager import start
from kohort.util.time_slice import TimeSlices, in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import ProduceRequest

NO_ACKS: Final = 0
VALID_ACKS: Final = (-1, NO_ACKS, 1)
MAX_FAST_PATH_BYTES: Final = 1024 * 1024
"""Larger requests are decoded without a copy of their records."""
_SEVERAL_PRODUCERS: Final = "The transactional batches are of several producers."

TopicResponses: TypeAlias = list[TopicProduceResponse]
ResponseSlots: TypeAlias = list[tuple[int, int, NumberedBatch | None]]
"""Positions of results in the response: index of the topic, of the result in it, and the batch."""


class _Appended(NamedTuple):
    """Batches of a request in one log, which must become durable."""

    failed_syncs: int
    """`LogAppender.failed_syncs` before the first batch."""
    slots: ResponseSlots


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
        checked = validate_batch(context, log, records)
    except (KafkaError, HeavyBatchError):
        return False
    if context.may_write(topic.name):  # called once: the audit log has each decision
        result = append_batch(context, key, topic, log, Batch(index, records), checked)
    else:
        result = PartitionProduceResponse(index, ErrorCode.topic_authorization_failed)
    services.throttling.produced(exchange)
    if acks == NO_ACKS:
        _end_without_response(exchange, [(key, [result])])
    else:
        _respond_at_once(services, exchange, [(key, [result])])
    return True


FAST_PATHS: Final = dict.fromkeys(range(9, 14), _from_bytes)


def handle(
    services: Services, exchange: Exchange, request: "ProduceRequest"
) -> Coroutine[Any, Any, None] | None:
    return start(_handle(services, exchange, request))


async def _handle(services: Services, exchange: Exchange, request: "ProduceRequest") -> None:
    acks, transactional_id = request.acks, request.transactional_id
    context = _context(services, exchange, transactional=transactional_id is not None)
    try:
        if transactional_id is not None:
            if services.access(exchange).transactional_id(transactional_id):
                context = await verify_transaction(services, context, request, transactional_id)
            else:
                refused = ErrorCode.transactional_id_authorization_failed
                context = context._replace(refused=refused)
        responses, appended = await _append_all(services, context, request)
    finally:
        context.effort.abandoned = True
    del request  # the logs have its records
    services.throttling.produced(exchange)
    if acks == NO_ACKS:
        _end_without_response(exchange, responses)
        return
    await _wait_until_durable(services.refused_batches, responses, appended)
    if len(responses) > CHUNK or sum(len(results) for _, results in responses) > CHUNK:
        await _respond_in_thread(services, exchange, responses)
    else:
        _respond_at_once(services, exchange, responses)


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


async def _append_all(
    services: Services, context: ProduceContext, request: "ProduceRequest"
) -> tuple[TopicResponses, dict[LogAppender, _Appended]]:
    """Append every partition's batch, in the order of the request.

    Returns the response, and the logs whose batches must become durable, with their slots in it.
    """
    slices = TimeSlices()
    waits = waits_for_disk(services.config)
    responses: TopicResponses = []
    appended: dict[LogAppender, _Appended] = {}
    refused = context.refused
    if not refused and request.acks not in VALID_ACKS:
        refused = ErrorCode.invalid_required_acks
    for topic_data in request.topic_data:
        if not topic_data.partition_data:
            continue
        key, topic, error = find_topic(context, topic_data)
        if refused:
            topic, error = None, refused
        results: list[PartitionProduceResponse] = []
        responses.append((key, results))
        for data in topic_data.partition_data:
            if slices.is_over:
                await slices.give_way()
            if topic is None or not 0 <= data.index < len(topic.partitions):
                mixed = error is ErrorCode.invalid_producer_id_mapping
                message = _SEVERAL_PRODUCERS if mixed else None
                if error in RETRIED_ERRORS:
                    note_refused(context, key, data, error)
                results.append(PartitionProduceResponse(data.index, error, message=message))
                continue
            log = topic.partitions[data.index]
            try:
                result = append_batch(context, key, topic, log, data)
            except HeavyBatchError:
                checked = await _validate_in_thread(services, context, log, data.records or b"")
                result = append_batch(context, key, topic, log, data, checked)
                slices = TimeSlices()
            if waits and not result.error:
                batch = NumberedBatch.read(key, data.index, data.records)
                awaited = appended.setdefault(log, _Appended(log.failed_syncs, []))
                awaited.slots.append((len(responses) - 1, len(results), batch))
            results.append(result)
    return responses, appended


async def _validate_in_thread(
    services: Services, context: ProduceContext, log: LogAppender, records: bytes
) -> Buffer | KafkaError:
    """The valid batch, or its error, from a validation that takes long."""
    context.effort.quick = False
    try:
        return await services.heavy_work.run(partial(validate_batch, context, log, records))
    except KafkaError as error:
        return error.with_traceback(None)  # which refers to this frame
    finally:
        context.effort.quick = True


async def _wait_until_durable(
    refused: RefusedBatches, responses: TopicResponses, logs: dict[LogAppender, _Appended]
) -> None:
    """Wait until the logs are durable; batches of one that fails become refused ones."""
    following = iter(logs.items())
    while chunk := dict(islice(following, CHUNK)):
        outcomes = await asyncio.gather(*(log.durable() for log in chunk), return_exceptions=True)
        for (log, awaited), outcome in zip(chunk.items(), outcomes, strict=True):
            if outcome is None and log.failed_syncs != awaited.failed_syncs:
                outcome = OSError("what was written could not be made durable")
            if isinstance(outcome, OSError | KafkaError):
                await in_slices(_refuse(refused, responses, awaited.slots, outcome))
            elif outcome is not None:
                raise fresh(outcome)


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


def _respond_at_once(services: Services, exchange: Exchange, responses: TopicResponses) -> None:
    errors = _all_errors(responses)
    moved = _moved(services, exchange, errors, responses)
    exchange.respond_encoded(pack(exchange.version, responses, moved), errors)


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
