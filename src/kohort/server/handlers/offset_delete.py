"""OffsetDelete (47) v0: delete committed offsets of unsubscribed topics (KIP-496).

The handler itself sets the error of partitions that do not exist. The coordinator is asked all the
same, because an error of the whole group goes before them.
"""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kohort.coordinator.requests import OffsetDelete
from kohort.coordinator.responses import NONE, OffsetDeleteResponse
from kohort.errors import ErrorCode
from kohort.protocol.messages import response as new_response
from kohort.protocol.packing import pack_array, pack_int16, pack_int32, pack_string
from kohort.server.authorization import Access
from kohort.server.handlers.chunked import submit_and_wait
from kohort.server.net import Exchange
from kohort.server.responses import PartitionResponses
from kohort.server.services import Services
from kohort.types import TopicPartition
from kohort.util.time_slice import TimeSlices

if TYPE_CHECKING:
    from kohort.protocol.requests import OffsetDeleteRequest, OffsetDeleteRequestTopic

PARTITIONS_PER_TURN: Final = 1_000
"""Partitions that one turn of the loop deals with."""
_PARTITION: Final = Struct(">ih").pack
_PARTITION_BYTES: Final = 6


def handle(
    services: Services, exchange: Exchange, request: "OffsetDeleteRequest"
) -> Coroutine[Any, Any, None] | None:
    """Refuse partitions that do not exist, and hand the rest to the group's shard."""
    access = services.access(exchange)
    if not access.group(request.group_id):
        refused = OffsetDeleteResponse(error=ErrorCode.group_authorization_failed)
        _respond(exchange, PartitionResponses(), refused)
        return None
    if sum(len(topic.partitions) for topic in request.topics) > PARTITIONS_PER_TURN:
        return _delete_many(services, exchange, request)
    responses = PartitionResponses()
    partitions = _existing(services, access, request, responses)
    respond = exchange.callback(_respond, responses)
    services.groups.submit(_request(request.group_id, partitions, respond))
    return None


async def _delete_many(
    services: Services, exchange: Exchange, request: "OffsetDeleteRequest"
) -> None:
    """Delete offsets of very many partitions, some in each turn, with a packed response."""
    slices, access = TimeSlices(), services.access(exchange)
    existing: list[TopicPartition] = []
    counts: list[tuple[str, int]] = []
    missing: dict[str, bytearray] = {}
    errors: set[int] = set()
    for topic in request.topics:
        former_count = len(existing)
        for start in range(0, len(topic.partitions), PARTITIONS_PER_TURN):
            errors |= _split_existing(services, access, topic, start, existing, missing)
            await slices.give_way()
        if len(existing) > former_count:
            counts.append((topic.name, len(existing) - former_count))
    packed = bytearray()
    for start in range(0, max(len(existing), 1), PARTITIONS_PER_TURN):
        batch = existing[start : start + PARTITIONS_PER_TURN]
        response = await submit_and_wait(services, partial(_request, request.group_id, batch))
        if response.error is not NONE:
            _respond(exchange, PartitionResponses(), response)
            return
        for partition, error in response.results:
            packed += _PARTITION(partition.partition, error)
            errors.add(error)
        await slices.give_way()
    topics = _entries(counts, packed, missing)
    pieces = [pack_int16(NONE) + pack_int32(0) + pack_array(len(topics))]
    for name, partitions in topics:
        pieces.append(pack_string(name) + pack_array(len(partitions) // _PARTITION_BYTES))
        pieces.append(bytes(partitions))
    exchange.respond_encoded(pieces, errors)


def _split_existing(
    services: Services,
    access: Access,
    topic: "OffsetDeleteRequestTopic",
    start: int,
    existing: list[TopicPartition],
    missing: dict[str, bytearray],
) -> set[int]:
    """Add partitions to `existing` or, with their error, to `missing`; the errors."""
    count, error = _partitions_of(services, access, topic.name)
    errors: set[int] = set()
    for partition in topic.partitions[start : start + PARTITIONS_PER_TURN]:
        if 0 <= partition.partition_index < count:
            existing.append(TopicPartition(topic.name, partition.partition_index))
        else:
            refused = _PARTITION(partition.partition_index, error)
            missing.setdefault(topic.name, bytearray()).extend(refused)
            errors.add(error)
    return errors


def _partitions_of(services: Services, access: Access, name: str) -> tuple[int, ErrorCode]:
    """The number of partitions that the client may use, and the error of all others."""
    if not access.topic(name):
        return 0, ErrorCode.topic_authorization_failed
    topic = services.topics.get(name)
    count = 0 if topic is None else len(topic.partitions)
    return count, ErrorCode.unknown_topic_or_partition


def _request(
    group: str, partitions: Sequence[TopicPartition], respond: Callable[[Any], None]
) -> OffsetDelete:
    return OffsetDelete(on_response=respond, group=group, partitions=tuple(partitions))


def _entries(
    counts: Sequence[tuple[str, int]], packed: bytearray, missing: dict[str, bytearray]
) -> Sequence[tuple[str, bytearray]]:
    """The packed partitions of each topic, in the order of `PartitionResponses.merged_with`."""
    start = 0
    expected: list[tuple[str, bytearray]] = []
    for name, count in counts:
        end = start + count * _PARTITION_BYTES
        expected.append((name, packed[start:end]))
        start = end
    if not missing:
        return expected
    for name, partitions in expected:
        missing.setdefault(name, bytearray()).extend(partitions)
    return list(missing.items())


def _existing(
    services: Services,
    access: Access,
    request: "OffsetDeleteRequest",
    responses: PartitionResponses,
) -> tuple[TopicPartition, ...]:
    existing: list[TopicPartition] = []
    for topic in request.topics:
        count, error = _partitions_of(services, access, topic.name)
        indexes = [partition.partition_index for partition in topic.partitions]
        existing_indexes = [index for index in indexes if 0 <= index < count]
        if not count or len(existing_indexes) < len(indexes):
            missing = (index for index in indexes if not 0 <= index < count)
            responses.add_errors((topic.name, None), missing, error)
        responses.expect((topic.name, None), len(existing_indexes))
        existing += [TopicPartition(topic.name, index) for index in existing_indexes]
    return tuple(existing)


def _respond(
    exchange: Exchange, responses: PartitionResponses, response: OffsetDeleteResponse
) -> None:
    topics = []
    if response.error is NONE:
        topics = [
            {
                "name": name,
                "partitions": [{"partition_index": p, "error_code": e} for p, e in partitions],
            }
            for name, _, partitions in responses.merged_with(response.results)
        ]
    entity = new_response(
        exchange.api_key, exchange.version, error_code=response.error, topics=topics
    )
    exchange.respond(entity)
