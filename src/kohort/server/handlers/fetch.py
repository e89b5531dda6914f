"""Fetch (1) v4-18: records from many partitions, waiting for some if there are none yet.

v5 has the log's start offset, v7 has sessions (KIP-227), v9 checks leader epochs (KIP-320), v11
could name a nearer replica, v12 is flexible and says which epoch was fetched last (KIP-595), v13
has topic ids (KIP-516), v15 says who asks in a tagged field (KIP-903), v16 names a new leader
(KIP-951), v17 and v18 are for replicas.

The response is sent at once if it has `min_bytes` of records or any error, if there is nothing to
wait for, or else when appends have made up for what was missing or the time is up. The logs call
the fetches that wait: nothing polls.

Batches are sent whole, where Kafka cuts the last one at the limit and the client drops the piece.
Readers of committed records get those up to the last stable offset, with the aborted transactions
among them, and wait for that offset to move.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.server.cluster import MOVED, NO_LEADERS, CurrentLeaders, current_leaders
from kohort.server.fetch import (
    CURRENT_LEADER_SINCE,
    FINAL_EPOCH,
    MAX_PARTITIONS_OF_SESSION,
    NO_SESSION,
    READ_COMMITTED,
    TOPIC_IDS_SINCE,
    FetchContext,
    FetchLimits,
    FetchPartitionData,
    PartitionKey,
    PartitionRequest,
    ReadResult,
    TopicKey,
    joined,
    pack,
    pack_error,
    read_all,
)
from kohort.server.handlers import fetch_metadata
from kohort.server.net import Exchange
from kohort.server.services import Services
from kohort.util.time_slice import TimeSlices

if TYPE_CHECKING:
    from kohort.protocol.requests import FetchRequest

MAX_PER_TURN: Final = 1_000
"""Partitions that are read in one turn."""
UNWATCHED_INTERVAL_S: Final = 0.5
SLICE: Final = 200
"""Partitions that are read between two checks of the time."""


def handle(
    services: Services, exchange: Exchange, request: "FetchRequest"
) -> Coroutine[Any, Any, None] | None:
    if exchange.peer.is_node:
        return fetch_metadata.handle(services, exchange, request)
    if _is_large(request):
        return _handle_large(services, exchange, request)
    by_id = exchange.version >= TOPIC_IDS_SINCE
    requested, forgotten = _requested(request, by_id), _forgotten(request, by_id)
    context = _begin(services, exchange, request, requested, forgotten)
    if context is None:
        return None
    if len(context.due) > MAX_PER_TURN:
        return _respond_to_large(services, exchange, request, context)
    limits = _limits(services, exchange, request)
    reading = _read(services, context, limits)
    if _is_enough(reading, limits, context):
        _respond(services, exchange, context, reading.size)
        return None
    context.record(())  # not kept meanwhile
    return _respond_later(services, exchange, request, context)


def _is_large(request: "FetchRequest") -> bool:
    forgotten = getattr(request, "forgotten_topics_data", ())
    return (
        len(request.topics) + len(forgotten) > MAX_PER_TURN
        or sum(len(topic.partitions) for topic in (*request.topics, *forgotten)) > MAX_PER_TURN
    )


async def _handle_large(services: Services, exchange: Exchange, request: "FetchRequest") -> None:
    by_id = exchange.version >= TOPIC_IDS_SINCE
    requested = await _distinct(_requested(request, by_id))
    forgotten = [*dict.fromkeys(_forgotten(request, by_id))]
    distinct = len(requested) + len(forgotten)
    context = _begin(services, exchange, request, requested, forgotten, distinct)
    if context is not None:
        await _respond_to_large(services, exchange, request, context)


async def _distinct(requests: Iterable[PartitionRequest]) -> list[PartitionRequest]:
    """Each partition once, as it is named last."""
    slices, following = TimeSlices(), iter(requests)
    distinct: dict[PartitionKey, PartitionRequest] = {}
    while chunk := list(islice(following, MAX_PER_TURN)):
        distinct.update({(request.topic, request.partition): request for request in chunk})
        await slices.give_way()
    return list(distinct.values())


def _begin(
    services: Services,
    exchange: Exchange,
    request: "FetchRequest",
    requested: Iterable[PartitionRequest],
    forgotten: Iterable[PartitionKey],
    distinct: int = 0,
) -> FetchContext | None:
    """Begin the request; None if its session is invalid, which was the response."""
    try:
        return services.fetch_sessions.begin(
            getattr(request, "session_id", NO_SESSION),
            getattr(request, "session_epoch", FINAL_EPOCH),
            requested,
            forgotten,
            by_id=exchange.version >= TOPIC_IDS_SINCE,
            now=services.clock.now(),
            distinct=distinct,
            acls=services.controller.image.acls.version,
        )
    except KafkaError as error:
        exchange.respond_encoded(pack_error(exchange.version, error.code), (error.code,))
        return None


def _requested(request: "FetchRequest", by_id: bool) -> Iterator[PartitionRequest]:
    for topic in request.topics:
        key: TopicKey = topic.topic_id if by_id else topic.topic
        for partition in topic.partitions:
            yield PartitionRequest(
                key,
                partition.partition,
                partition.fetch_offset,
                partition.partition_max_bytes,
                getattr(partition, "current_leader_epoch", -1),
                getattr(partition, "last_fetched_epoch", -1),
            )


def _forgotten(request: "FetchRequest", by_id: bool) -> Iterator[PartitionKey]:
    for topic in getattr(request, "forgotten_topics_data", ()):
        for partition in topic.partitions:
            yield (topic.topic_id if by_id else topic.topic), partition


def _limits(services: Services, exchange: Exchange, request: "FetchRequest") -> FetchLimits:
    replica = request.replica_state if hasattr(request, "replica_state") else request
    max_bytes = min(request.max_bytes, services.config["fetch.max.bytes"])
    for limit in (exchange.largest_response, services.throttling.fetch_limit(exchange)):
        if limit is not None:
            max_bytes = min(max_bytes, int(limit))
    return FetchLimits(
        max_bytes=max_bytes,
        min_bytes=request.min_bytes,
        max_wait_s=request.max_wait.total_seconds(),
        from_replica=replica.replica_id >= 0,
        committed=request.isolation_level == READ_COMMITTED,
        may_read=services.access(exchange).topic if services.has_authorizer else None,
    )


def _read(services: Services, context: FetchContext, limits: FetchLimits) -> ReadResult:
    """Read the partitions that are due, in one pass."""
    reading = read_all(services.topics, context.due, limits)
    context.record(reading.partitions)
    return reading


def _is_enough(reading: ReadResult, limits: FetchLimits, context: FetchContext) -> bool:
    if reading.failed or limits.max_wait_s <= 0 or reading.size >= limits.min_bytes:
        return True
    if not (reading.waitable or context.any_caught_up):
        return True
    # Waiting does not help against records that a limit kept back.
    return reading.size > 0 and any(partition.has_more for partition in reading.partitions)


def _respond(services: Services, exchange: Exchange, context: FetchContext, size: int) -> None:
    """Respond with what was read, `size` bytes of records."""
    if not services.throttling.admits_fetch(exchange, size):
        _respond_without_partitions(exchange, context)
        return
    session_id, partitions = context.finish()
    errors = {partition.error for partition in partitions}
    moved = _moved(services, exchange, errors, partitions)
    body = pack(exchange.version, partitions, session_id=session_id, moved=moved)
    exchange.respond_encoded(body, errors)


def _moved(
    services: Services,
    exchange: Exchange,
    errors: AbstractSet[ErrorCode],
    partitions: Iterable[FetchPartitionData],
) -> CurrentLeaders:
    """The leaders that the response names; `errors` are those of its partitions."""
    if MOVED.isdisjoint(errors) or exchange.version < CURRENT_LEADER_SINCE:
        return NO_LEADERS
    keys = (
        (data.request.topic, data.request.partition) for data in partitions if data.error in MOVED
    )
    return current_leaders(services.nodes, services.topics, exchange.peer.endpoint, keys)


def _respond_without_partitions(exchange: Exchange, context: FetchContext) -> None:
    """Respond to a throttled client: its next request reads the same partitions."""
    exchange.respond_encoded(pack(exchange.version, (), session_id=context.session_id))


async def _respond_to_large(
    services: Services, exchange: Exchange, request: "FetchRequest", context: FetchContext
) -> None:
    """Read very many partitions in slices, in passes until it is enough or the time is up.

    Each slice is watched before others have their turn, so no append is missed: if one came during
    a pass, another pass follows at once. So many partitions that no session takes them are not
    watched, but read again after `UNWATCHED_INTERVAL_S`.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.max_wait.total_seconds()
    try:
        while True:
            await asyncio.sleep(0)
            limits, changes = _limits(services, exchange, request), context.changes
            due = context.due
            watched = len(due) <= MAX_PARTITIONS_OF_SESSION
            reading = await _read_in_slices(services, context, limits, due, watched=watched)
            await asyncio.sleep(0)
            if _is_enough(reading, limits, context) or loop.time() >= deadline:
                context.record(reading.partitions)
                if services.throttling.admits_fetch(exchange, reading.size):
                    await _respond_in_thread(services, exchange, context)
                else:
                    _respond_without_partitions(exchange, context)
                return
            missing = limits.min_bytes - reading.size
            del reading
            if not watched:
                await asyncio.sleep(min(UNWATCHED_INTERVAL_S, deadline - loop.time()))
            elif context.changes == changes:
                await context.wait_for_bytes(missing, deadline)
    finally:
        context.close()


async def _read_in_slices(
    services: Services,
    context: FetchContext,
    limits: FetchLimits,
    due: Sequence[PartitionRequest],
    *,
    watched: bool,
) -> ReadResult:
    """Read the partitions that are due, in one pass."""
    slices = TimeSlices()
    partitions: list[FetchPartitionData] = []
    size, failed, waitable = 0, False, False
    for start in range(0, len(due), SLICE):
        await slices.give_way()
        reading = read_all(services.topics, due[start : start + SLICE], limits, size)
        if watched:
            context.record(reading.partitions)
            context.watch()
        partitions += reading.partitions
        size += reading.size
        failed, waitable = failed or reading.failed, waitable or reading.waitable
    return ReadResult(partitions, size, failed, waitable)


async def _respond_in_thread(services: Services, exchange: Exchange, context: FetchContext) -> None:
    session_id, partitions = context.finish(mark_caught_up=False)
    errors = {partition.error for partition in partitions}
    moved = _moved(services, exchange, errors, partitions)
    encode = partial(pack, exchange.version, partitions, session_id=session_id, moved=moved)
    body = await services.heavy_work.run(lambda: joined(encode()))
    exchange.respond_encoded(body, errors)


async def _respond_later(
    services: Services, exchange: Exchange, request: "FetchRequest", context: FetchContext
) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.max_wait.total_seconds()
    try:
        while True:
            # Read again before the first wait too: others had their turn since the first pass.
            limits = _limits(services, exchange, request)
            reading = _read(services, context, limits)
            if _is_enough(reading, limits, context) or loop.time() >= deadline:
                _respond(services, exchange, context, reading.size)
                return
            missing = limits.min_bytes - reading.size
            del reading  # records take no memory while they wait for more: they are read again
            await context.wait_for_bytes(missing, deadline)
    finally:
        context.close()
