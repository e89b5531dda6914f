"""Fetch (1) v4-18: records from many partitions, waiting for some if there are none yet.

v5 tells the log's start offset, v7 has sessions (KIP-227), v9 checks leader epochs (KIP-320), v11
could name a nearer replica, v12 is flexible and says which epoch was fetched last (KIP-595), v13
has topic ids (KIP-516), v15 says who asks in a tagged field (KIP-903), v16 could name a new leader
(KIP-951), v17 and v18 are for replicas.

The response is sent at once if it has `min_bytes` of records or any error, if there is nothing to
wait for, or else when appends have made up for what was missing or the time is up. Whoever waits is
called by the log: nothing polls.

Batches are given whole, where Kafka cuts the last one at the limit and the client throws the piece
away. Without transactions both isolation levels see the same.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

from kohort.errors import KafkaError
from kohort.server.fetch import (
    FINAL_EPOCH,
    FIRST_WITH_IDS,
    NO_SESSION,
    FetchContext,
    FetchLimits,
    PartitionKey,
    PartitionRequest,
    ReadResult,
    TopicKey,
    pack,
    pack_error,
    read_all,
)
from kohort.server.net import Exchange
from kohort.server.services import Services


def handle(
    services: Services, exchange: Exchange, request: Any
) -> Coroutine[Any, Any, None] | None:
    try:
        context = _begin(services, exchange.version, request)
    except KafkaError as error:
        exchange.respond_encoded(pack_error(exchange.version, error.code), (error.code,))
        return None
    limits = _limits(services, exchange, request)
    reading = _read(services, context, limits)
    if _is_enough(reading, limits, context):
        _respond(exchange, request, context)
        return None
    context.took(())  # not kept meanwhile
    return _respond_later(services, exchange, request, context)


def _begin(services: Services, version: int, request: Any) -> FetchContext:
    by_id = version >= FIRST_WITH_IDS
    return services.fetch_sessions.begin(
        getattr(request, "session_id", NO_SESSION),
        getattr(request, "session_epoch", FINAL_EPOCH),
        _wanted(request, by_id),
        _forgotten(request, by_id),
        by_id=by_id,
        now=services.clock.now(),
    )


def _wanted(request: Any, by_id: bool) -> Iterator[PartitionRequest]:
    for topic in request.topics:
        key: TopicKey = topic.topic_id if by_id else topic.topic
        for each in topic.partitions:
            yield PartitionRequest(
                key,
                each.partition,
                each.fetch_offset,
                each.partition_max_bytes,
                getattr(each, "current_leader_epoch", -1),
                getattr(each, "last_fetched_epoch", -1),
            )


def _forgotten(request: Any, by_id: bool) -> Iterator[PartitionKey]:
    for topic in getattr(request, "forgotten_topics_data", ()):
        for partition in topic.partitions:
            yield (topic.topic_id if by_id else topic.topic), partition


def _limits(services: Services, exchange: Exchange, request: Any) -> FetchLimits:
    replica = request.replica_state if hasattr(request, "replica_state") else request
    max_bytes = min(request.max_bytes, services.config["fetch.max.bytes"])
    unread = exchange.largest_response
    return FetchLimits(
        max_bytes=max_bytes if unread is None else min(max_bytes, unread),
        min_bytes=request.min_bytes,
        max_wait_s=request.max_wait.total_seconds(),
        from_replica=replica.replica_id >= 0,
    )


def _read(services: Services, context: FetchContext, limits: FetchLimits) -> ReadResult:
    """One pass over what is due."""
    reading = read_all(services.topics, context.due, limits)
    context.took(reading.partitions)
    return reading


def _is_enough(reading: ReadResult, limits: FetchLimits, context: FetchContext) -> bool:
    if reading.failed or limits.max_wait_s <= 0 or reading.size >= limits.min_bytes:
        return True
    if not (reading.waitable or context.any_settled):
        return True
    # What is held back by a limit will not come by waiting.
    return reading.size > 0 and any(each.has_more for each in reading.partitions)


def _respond(exchange: Exchange, request: Any, context: FetchContext) -> None:
    session_id, partitions = context.finish()
    isolation_level = request.isolation_level
    body = pack(
        exchange.version, partitions, session_id=session_id, isolation_level=isolation_level
    )
    exchange.respond_encoded(body, {each.error for each in partitions})


async def _respond_later(
    services: Services, exchange: Exchange, request: Any, context: FetchContext
) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.max_wait.total_seconds()
    try:
        while True:
            # Read again before the first wait too: others had their turn since the first pass.
            limits = _limits(services, exchange, request)
            reading = _read(services, context, limits)
            if _is_enough(reading, limits, context) or loop.time() >= deadline:
                _respond(exchange, request, context)
                return
            missing = limits.min_bytes - reading.size
            del reading  # records take no memory while they wait for more: they are read again
            await context.more(missing, deadline)
    finally:
        context.close()
