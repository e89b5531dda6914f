"""Fetch (1) v4-18: records from many partitions, waiting for some if there are none yet.

v5 tells the log's start offset, v7 has sessions (KIP-227), v9 checks leader epochs (KIP-320), v11
could name a nearer replica, v12 is flexible and says which epoch was fetched last (KIP-595), v13
has topic ids (KIP-516), v15 says who asks in a tagged field (KIP-903), v16 names a new leader
(KIP-951), v17 and v18 are for replicas.

The response is sent at once if it has `min_bytes` of records or any error, if there is nothing to
wait for, or else when appends have made up for what was missing or the time is up. Whoever waits is
called by the log: nothing polls.

Batches are given whole, where Kafka cuts the last one at the limit and the client throws the piece
away. Readers of committed records get those up to the last stable offset, with the aborted
transactions among them, and wait for that offset to move.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ErrorCode, KafkaError
from kohort.server.current_leaders import MOVED, NO_LEADERS, CurrentLeaders, current_leaders
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

MANY: Final = 1_000
"""Partitions that are read in one turn."""
UNWATCHED_S: Final = 0.5
AT_ONCE: Final = 200
"""Partitions that are read between two looks at the time."""


def handle(
    services: Services, exchange: Exchange, request: "FetchRequest"
) -> Coroutine[Any, Any, None] | None:
    if exchange.peer.is_node:
        return fetch_metadata.handle(services, exchange, request)
    if _names_many(request):
        return _handle_large(services, exchange, request)
    by_id = exchange.version >= TOPIC_IDS_SINCE
    wanted, forgotten = _wanted(request, by_id), _forgotten(request, by_id)
    context = _begin(services, exchange, request, wanted, forgotten)
    if context is None:
        return None
    if len(context.due) > MANY:
        return _respond_to_large(services, exchange, request, context)
    limits = _limits(services, exchange, request)
    reading = _read(services, context, limits)
    if _is_enough(reading, limits, context):
        _respond(services, exchange, context, reading.size)
        return None
    context.took(())  # not kept meanwhile
    return _respond_later(services, exchange, request, context)


def _names_many(request: "FetchRequest") -> bool:
    forgotten = getattr(request, "forgotten_topics_data", ())
    return (
        len(request.topics) + len(forgotten) > MANY
        or sum(len(topic.partitions) for topic in (*request.topics, *forgotten)) > MANY
    )


async def _handle_large(services: Services, exchange: Exchange, request: "FetchRequest") -> None:
    by_id = exchange.version >= TOPIC_IDS_SINCE
    wanted = await _distinct(_wanted(request, by_id))
    forgotten = [*dict.fromkeys(_forgotten(request, by_id))]
    many = len(wanted) + len(forgotten)
    context = _begin(services, exchange, request, wanted, forgotten, many)
    if context is not None:
        await _respond_to_large(services, exchange, request, context)


async def _distinct(wanted: Iterable[PartitionRequest]) -> list[PartitionRequest]:
    """Each partition once, as it is named last."""
    slices, following = TimeSlices(), iter(wanted)
    distinct: dict[PartitionKey, PartitionRequest] = {}
    while some := list(islice(following, MANY)):
        distinct.update({(each.topic, each.partition): each for each in some})
        await slices.give_way()
    return list(distinct.values())


def _begin(
    services: Services,
    exchange: Exchange,
    request: "FetchRequest",
    wanted: Iterable[PartitionRequest],
    forgotten: Iterable[PartitionKey],
    many: int = 0,
) -> FetchContext | None:
    """None if the session is at fault: the response is sent."""
    try:
        return services.fetch_sessions.begin(
            getattr(request, "session_id", NO_SESSION),
            getattr(request, "session_epoch", FINAL_EPOCH),
            wanted,
            forgotten,
            by_id=exchange.version >= TOPIC_IDS_SINCE,
            now=services.clock.now(),
            many=many,
            acls=services.topics.acls.version,
        )
    except KafkaError as error:
        exchange.respond_encoded(pack_error(exchange.version, error.code), (error.code,))
        return None


def _wanted(request: "FetchRequest", by_id: bool) -> Iterator[PartitionRequest]:
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


def _respond(services: Services, exchange: Exchange, context: FetchContext, size: int) -> None:
    """Respond with what was read, `size` bytes of records."""
    if not services.throttling.admits_fetch(exchange, size):
        _respond_without_partitions(exchange, context)
        return
    session_id, partitions = context.finish()
    errors = {each.error for each in partitions}
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
        (each.request.topic, each.request.partition) for each in partitions if each.error in MOVED
    )
    return current_leaders(services.nodes, services.topics, exchange.peer.endpoint, keys)


def _respond_without_partitions(exchange: Exchange, context: FetchContext) -> None:
    """Respond to a client that has to wait: its next request reads the same again."""
    exchange.respond_encoded(pack(exchange.version, (), session_id=context.session_id))


async def _respond_to_large(
    services: Services, exchange: Exchange, request: "FetchRequest", context: FetchContext
) -> None:
    """Read very many partitions in slices, again and again until it is enough or the time is up.

    Each slice is watched before others have their turn, so no append is missed: if one came during
    a pass, another pass follows at once. So many partitions that no session takes them are not
    watched, but read again after `UNWATCHED_S`.
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
                context.took(reading.partitions)
                if services.throttling.admits_fetch(exchange, reading.size):
                    await _respond_in_thread(services, exchange, context)
                else:
                    _respond_without_partitions(exchange, context)
                return
            missing = limits.min_bytes - reading.size
            del reading
            if not watched:
                await asyncio.sleep(min(UNWATCHED_S, deadline - loop.time()))
            elif context.changes == changes:
                await context.more(missing, deadline)
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
    """One pass over what is due."""
    slices = TimeSlices()
    partitions: list[FetchPartitionData] = []
    size, failed, waitable = 0, False, False
    for start in range(0, len(due), AT_ONCE):
        await slices.give_way()
        reading = read_all(services.topics, due[start : start + AT_ONCE], limits, size)
        if watched:
            context.took(reading.partitions)
            context.watch()
        partitions += reading.partitions
        size += reading.size
        failed, waitable = failed or reading.failed, waitable or reading.waitable
    return ReadResult(partitions, size, failed, waitable)


async def _respond_in_thread(services: Services, exchange: Exchange, context: FetchContext) -> None:
    session_id, partitions = context.finish(settle=False)
    errors = {each.error for each in partitions}
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
            await context.more(missing, deadline)
    finally:
        context.close()
