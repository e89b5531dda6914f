"""OffsetCommit (8) v2-10: offsets that a group has processed.

v0-1 wrote to ZooKeeper, and Kafka 4.0 dropped them.

v2-4 carry a retention time; v3 adds the throttle time, v6 the leader epoch (KIP-320), v7 static
members (KIP-345); v8 is flexible; v9 lets generations be member epochs (KIP-848); v10 names topics
by id (KIP-848).

The handler itself sets the error of partitions that do not exist. The coordinator is not asked if
no other partition is left.

A request takes the first of four paths that it fits:

1. `RepeatedCommit`: the connection's last request again, with other offsets. The connection itself
   compares the bytes.
2. `_commit_columns`: v8-10, without metadata, to partitions that exist. Not decoded: it is split
   into columns, one value for each partition, and stays in columns up to the log.
3. `handle`: any other. Decoded; requests of more than `FAST_PATH_BYTES` in another thread.
4. `_commit_in_slices`, from `handle`: one with more than `PARTITIONS_PER_TURN` partitions.

The group's shard makes the same decision for all of them: 1 and 2 get there by `Groups.committing`
and `Groups.commit`, 3 and 4 by `Groups.submit`.
"""

from collections.abc import Callable, Coroutine, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kohort.coordinator.requests import Committer, OffsetColumns, OffsetCommit, OffsetToCommit
from kohort.coordinator.responses import OffsetCommitResponse
from kohort.errors import ErrorCode
from kohort.protocol import response_fast_path
from kohort.protocol.request_fast_path import Columns, read_member, read_offset_commit
from kohort.server.handlers import milliseconds
from kohort.server.handlers.chunked import submit_and_wait
from kohort.server.handlers.commits import (
    PARTITIONS_PER_TURN,
    KnownPartitions,
    drop_oversized,
    drop_unknown_partitions,
    merge_errors,
    refuse_all,
)
from kohort.server.handlers.repeated_commit import RepeatedCommit, is_repeatable
from kohort.server.net import Exchange
from kohort.server.responses import PartitionResponses
from kohort.server.services import Services
from kohort.util.time_slice import in_slices

if TYPE_CHECKING:
    from kohort.protocol.requests import OffsetCommitRequest

FAST_PATH_BYTES: Final = 512 * 1024
"""Larger requests are decoded in the thread for heavy work."""


def handle(
    services: Services, exchange: Exchange, request: "OffsetCommitRequest"
) -> Coroutine[Any, Any, None] | None:
    """Refuse partitions that do not exist, and hand the rest to the group's shard."""
    responses = PartitionResponses()
    version = exchange.version
    access, by_id = services.access(exchange), version >= 10
    if access.group(request.group_id):
        has_epoch = version >= 6
        steps = drop_unknown_partitions(
            services, access, request, responses, by_id=by_id, has_epoch=has_epoch
        )
    else:
        error = ErrorCode.group_authorization_failed
        steps = refuse_all(request, responses, by_id=by_id, error=error)
    try:
        for _ in range(PARTITIONS_PER_TURN):
            next(steps)
    except StopIteration as end:
        offsets: tuple[OffsetToCommit, ...] = end.value
        if offsets:
            respond = exchange.callback(_respond, responses)
            services.groups.submit(_commit(version, request, offsets, respond))
        else:
            _respond(exchange, responses, OffsetCommitResponse(()))
        return None
    return _commit_in_slices(services, exchange, request, responses, steps)


async def _commit_in_slices(
    services: Services,
    exchange: Exchange,
    request: "OffsetCommitRequest",
    responses: PartitionResponses,
    steps: KnownPartitions,
) -> None:
    offsets = await in_slices(steps)
    response = OffsetCommitResponse(())
    if offsets:
        batch = drop_oversized(services, offsets)
        new_request = partial(_commit, exchange.version, request, batch)
        response = await submit_and_wait(services, new_request)
    encode = partial(_encoded_large, exchange.version, responses, response, offsets)
    exchange.respond_encoded(*await services.heavy_work.run(encode))


def _encoded_large(
    version: int,
    responses: PartitionResponses,
    response: OffsetCommitResponse,
    offsets: Sequence[OffsetToCommit],
) -> tuple[bytes, set[int]]:
    return _encoded(version, responses, merge_errors(response, offsets))


def _commit(
    version: int,
    request: "OffsetCommitRequest",
    offsets: tuple[OffsetToCommit, ...],
    respond: Callable[[OffsetCommitResponse], None],
) -> OffsetCommit:
    return OffsetCommit(
        on_response=respond,
        version=version,
        group=request.group_id,
        generation=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        instance_id=request.group_instance_id if version >= 7 else None,
        offsets=offsets,
        retention_ms=milliseconds(request.retention_time) if version <= 4 else -1,
    )


def _commit_columns(services: Services, exchange: Exchange, frame: bytes, body_at: int) -> bool:
    """Handle a usual request; False, and nothing was done, for any other."""
    if len(frame) > FAST_PATH_BYTES:
        return False
    by_id = exchange.version >= 10
    read = read_offset_commit(frame, body_at, by_id=by_id)
    if read is None:
        return False
    member, topics, end = read
    committer = _committer(member)
    columns = _columns(services, topics, by_id)
    if committer is None or columns is None:
        return False
    if services.has_authorizer and not _is_allowed(services, exchange, committer, columns):
        return False
    if is_repeatable(frame, topics, end):
        exchange.cache_request(
            RepeatedCommit(services, exchange, frame, committer, topics[0], columns[0])
        )
    respond = exchange.callback(_respond_columns, topics)
    services.groups.commit(respond, committer, exchange.version, columns)
    return True


FAST_PATHS: Final = dict.fromkeys((8, 9, 10), _commit_columns)


def _is_allowed(
    services: Services, exchange: Exchange, committer: Committer, columns: Sequence[OffsetColumns]
) -> bool:
    access = services.access(exchange)
    return access.group(committer.group) and all(access.topic(name) for name, *_ in columns)


_CACHED_BYTES: Final = 512
"""Longer fields are legal and rare: they must not fill a cache that counts entries."""


def _committer(member: bytes) -> Committer | None:
    # A member sends the same fields from one rebalance to the next.
    return _cached_committer(member) if len(member) <= _CACHED_BYTES else _read_committer(member)


def _read_committer(member: bytes) -> Committer | None:
    read = read_member(member, 0)
    return None if read is None else Committer(*read)


_cached_committer = lru_cache(maxsize=4_096)(_read_committer)


def _columns(
    services: Services, topics: Sequence[Columns], by_id: bool
) -> list[OffsetColumns] | None:
    columns = []
    for key, partitions, positions in topics:
        topic = (
            services.topics.by_id(_uuid(key)) if by_id else services.topics.get(str(key, "utf-8"))
        )
        if topic is None or max(partitions) >= len(topic.partitions):
            return None
        columns.append((topic.name, topic.id.bytes, partitions, positions))
    return columns


@lru_cache(maxsize=1_024)
def _uuid(data: bytes) -> UUID:
    return UUID(bytes=data)


def _respond_columns(exchange: Exchange, topics: Sequence[Columns], error: ErrorCode) -> None:
    body = response_fast_path.offset_commit_columns(exchange.version, topics, error)
    exchange.respond_encoded(body, (error,))


def _respond(
    exchange: Exchange, responses: PartitionResponses, response: OffsetCommitResponse
) -> None:
    exchange.respond_encoded(*_encoded(exchange.version, responses, response))


def _encoded(
    version: int, responses: PartitionResponses, response: OffsetCommitResponse
) -> tuple[bytes, set[int]]:
    topics = responses.merged_with(response.results)
    errors: set[int] = {error for _, _, partitions in topics for _, error in partitions}
    return response_fast_path.offset_commit(version, topics), errors
