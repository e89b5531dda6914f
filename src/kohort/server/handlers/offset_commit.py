"""OffsetCommit (8) v2-10: a group's progress. v0-1 were ZooKeeper's, and Kafka 4.0 dropped them.

v2-4 carry a retention time; v3 adds the throttle time, v6 the leader epoch (KIP-320), v7 static members
(KIP-345); v8 is flexible; v9 lets generations be member epochs (KIP-848); v10 names topics by id (KIP-848).

Partitions that do not exist are answered here, and the coordinator is not asked if no other is left.
"""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from kohort.coordinator.requests import OffsetCommit, OffsetToCommit
from kohort.coordinator.responses import OffsetCommitResponse
from kohort.errors import ErrorCode
from kohort.protocol import packed
from kohort.server.exchange import Exchange
from kohort.server.handlers import milliseconds
from kohort.server.refusals import Refusals

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


def _existing(broker: "Broker", version: int, request: Any, refusals: Refusals) -> tuple[OffsetToCommit, ...]:
    offsets: list[OffsetToCommit] = []
    for asked in request.topics:
        topic_id: UUID | None = asked.topic_id if version >= 10 else None
        topic = broker.topics.get(asked.name) if version < 10 else topic_id and broker.topics.by_id(topic_id)
        key = ("" if version >= 10 else asked.name, topic_id)
        if not topic:
            error = ErrorCode.unknown_topic_id if version >= 10 else ErrorCode.unknown_topic_or_partition
            refusals.refuse(key, (each.partition_index for each in asked.partitions), error)
            continue
        count = len(topic.partitions)
        here = [each for each in asked.partitions if 0 <= each.partition_index < count]
        if len(here) < len(asked.partitions):
            missing = (p.partition_index for p in asked.partitions if not 0 <= p.partition_index < count)
            refusals.refuse(key, missing, ErrorCode.unknown_topic_or_partition)
        refusals.let_pass(key, len(here))
        # The id goes with every offset, so that one of a topic deleted since is never taken for its namesake's.
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
    exchange.answer_packed(packed.offset_commit(exchange.version, topics), errors)
