"""OffsetCommit (8) v2-10: a group's progress. v0-1 were ZooKeeper's, and Kafka 4.0 dropped them.

v2-4 carry a retention time; v3 adds the throttle time, v6 the leader epoch (KIP-320), v7 static
members (KIP-345); v8 is flexible; v9 lets generations be member epochs (KIP-848); v10 names topics
by id (KIP-848).

Partitions that do not exist are answered here, and the coordinator is not asked if no other is
left.

A usual request of v8-10, without metadata and to partitions that all exist, is never decoded: it is
split into columns, one value for each partition, and stays in columns up to the log
(`_take_bytes`).
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kohort.coordinator.requests import Committer, OffsetColumns, OffsetCommit, OffsetToCommit
from kohort.coordinator.responses import OffsetCommitResponse
from kohort.errors import ErrorCode
from kohort.protocol import response_fast_path
from kohort.protocol.request_fast_path import (
    OFFSET_BYTES,
    Columns,
    read_heartbeat,
    read_offset_commit,
)
from kohort.server.handlers import milliseconds
from kohort.server.net import KEPT_BYTES, CommitAgain, Exchange
from kohort.server.responses import Refusals

if TYPE_CHECKING:
    from kohort.server.broker import Broker


def handle(broker: "Broker", exchange: Exchange, request: Any) -> None:
    """Refuse what does not exist, hand the rest to the group's shard."""
    version = exchange.version
    refusals = Refusals()
    offsets = _existing(broker, version, request, refusals)
    if not offsets:
        _answer(exchange, refusals, OffsetCommitResponse(()))
        return
    broker.groups.submit(
        OffsetCommit(
            request_id=exchange.later(_answer, refusals),
            version=version,
            group=request.group_id,
            generation=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            instance_id=request.group_instance_id if version >= 7 else None,
            offsets=offsets,
            retention_ms=milliseconds(request.retention_time) if version <= 4 else -1,
        )
    )


def _take_bytes(broker: "Broker", exchange: Exchange, data: bytes, at: int) -> bool:
    """`handle` from the bytes of a usual request; False, and nothing was done, if it is not usual."""
    by_id = exchange.version >= 10
    read = read_offset_commit(data, at, by_id=by_id)
    if read is None:
        return False
    who, topics, end = read
    committer = _committer(who)
    columns = _columns(broker, topics, by_id)
    if committer is None or columns is None:
        return False
    if len(topics) == 1 and end == len(data) <= KEPT_BYTES + OFFSET_BYTES * len(topics[0][1]):
        exchange.connection.expect_again(
            CommitAgain(broker, exchange, data, committer, topics[0], columns[0])
        )
    broker.groups.commit(
        partial(_answer_columns, exchange, topics), committer, exchange.version, columns
    )
    return True


TAKES_BYTES: Final = dict.fromkeys((8, 9, 10), _take_bytes)
"""By version: what the connection tries before it decodes the request."""


@lru_cache(maxsize=4_096)
def _committer(who: bytes) -> Committer | None:
    # A member names itself in the same way from one rebalance to the next.
    read = read_heartbeat(who, 0)
    return None if read is None else Committer(*read)


def _columns(
    broker: "Broker", topics: Sequence[Columns], by_id: bool
) -> list[OffsetColumns] | None:
    columns = []
    for key, partitions, positions in topics:
        topic = broker.topics.by_id(_uuid(key)) if by_id else broker.topics.get(str(key, "utf-8"))
        if topic is None or max(partitions) >= len(topic.partitions):
            return None
        columns.append((topic.name, topic.id.bytes, partitions, positions))
    return columns


@lru_cache(maxsize=1_024)
def _uuid(data: bytes) -> UUID:
    return UUID(bytes=data)


def _answer_columns(exchange: Exchange, topics: Sequence[Columns], error: ErrorCode) -> None:
    try:
        exchange.answer_packed(
            response_fast_path.offset_commit_columns(exchange.version, topics, error), (error,)
        )
    except Exception as failure:  # as in `Exchange.later`
        exchange.connection.failed(failure, exchange)


def _existing(
    broker: "Broker", version: int, request: Any, refusals: Refusals
) -> tuple[OffsetToCommit, ...]:
    offsets: list[OffsetToCommit] = []
    for asked in request.topics:
        topic_id: UUID | None = asked.topic_id if version >= 10 else None
        topic = (
            broker.topics.get(asked.name)
            if version < 10
            else topic_id and broker.topics.by_id(topic_id)
        )
        key = ("" if version >= 10 else asked.name, topic_id)
        if not topic:
            error = (
                ErrorCode.unknown_topic_id
                if version >= 10
                else ErrorCode.unknown_topic_or_partition
            )
            refusals.refuse(key, (each.partition_index for each in asked.partitions), error)
            continue
        count = len(topic.partitions)
        here = [each for each in asked.partitions if 0 <= each.partition_index < count]
        if len(here) < len(asked.partitions):
            missing = (
                p.partition_index for p in asked.partitions if not 0 <= p.partition_index < count
            )
            refusals.refuse(key, missing, ErrorCode.unknown_topic_or_partition)
        refusals.let_pass(key, len(here))
        # The id goes with every offset, so that one of a topic deleted since is never taken for its
        # namesake's.
        name, id_, has_epoch = topic.name, topic.id, version >= 6
        offsets += [
            OffsetToCommit(
                name,
                each.partition_index,
                each.committed_offset,
                each.committed_leader_epoch if has_epoch else -1,
                each.committed_metadata,
                id_,
            )
            for each in here
        ]
    return tuple(offsets)


def _answer(exchange: Exchange, refusals: Refusals, response: OffsetCommitResponse) -> None:
    topics = refusals.with_results(response.results)
    errors = {error for _, _, partitions in topics for _, error in partitions}
    exchange.answer_packed(response_fast_path.offset_commit(exchange.version, topics), errors)
