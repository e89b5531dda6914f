"""Parts that OffsetCommit and TxnOffsetCommit share: their partitions and responses."""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from kohort.coordinator.offsets import MIN_RECORD_BYTES
from kohort.coordinator.requests import OffsetToCommit
from kohort.coordinator.responses import OffsetCommitResponse
from kohort.errors import ErrorCode
from kohort.server.authorization import Access
from kohort.server.replicas import Topic
from kohort.server.responses import PartitionResponses
from kohort.server.services import Services
from kohort.types import TopicPartition

if TYPE_CHECKING:
    from kohort.protocol.requests import (
        OffsetCommitRequest,
        OffsetCommitRequestTopic,
        TxnOffsetCommitRequest,
        TxnOffsetCommitRequestTopic,
    )

KnownPartitions: TypeAlias = Generator[None, None, tuple[OffsetToCommit, ...]]
"""Yields after each partition; returns the offsets of the partitions that exist."""

PARTITIONS_PER_TURN: Final = 2_000
"""Partitions of a decoded request that are handled in one turn."""


def drop_unknown_partitions(
    services: Services,
    access: Access,
    request: "OffsetCommitRequest | TxnOffsetCommitRequest",
    responses: PartitionResponses,
    *,
    by_id: bool,
    has_epoch: bool,
) -> KnownPartitions:
    """Find the partitions of a request; `responses` gets the errors of unknown ones.

    `access` is that of the client. `by_id`: the request names topics by id. `has_epoch`: it has
    leader epochs.
    """
    offsets: list[OffsetToCommit] = []
    for requested in request.topics:
        yield
        topic_id = _topic_id(requested) if by_id else None
        key = ("" if by_id else requested.name, topic_id)
        topic = _find(services, requested, by_id)
        error = _refusal(access, requested, topic, by_id)
        if error or topic is None:
            responses.add_errors(
                key, (partition.partition_index for partition in requested.partitions), error
            )
            continue
        # The id goes with every offset, so that one of a topic deleted since is never taken for its
        # namesake's.
        name, id_ = topic.name, topic.id
        count, former_count, missing = len(topic.partitions), len(offsets), []
        for partition in requested.partitions:
            yield
            if not 0 <= partition.partition_index < count:
                missing.append(partition.partition_index)
                continue
            offsets.append(
                OffsetToCommit(
                    name,
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch if has_epoch else -1,
                    partition.committed_metadata,
                    id_,
                )
            )
        if missing:
            responses.add_errors(key, missing, ErrorCode.unknown_topic_or_partition)
        responses.expect(key, len(offsets) - former_count)
    return tuple(offsets)


def _find(
    services: Services,
    requested: "OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic",
    by_id: bool,
) -> Topic | None:
    if not by_id:
        return services.topics.get(requested.name)
    topic_id = _topic_id(requested)
    return services.topics.by_id(topic_id) if topic_id else None


def _topic_id(requested: "OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic") -> UUID | None:
    topic_id: UUID | None = getattr(requested, "topic_id", None)
    return topic_id


def _refusal(
    access: Access,
    requested: "OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic",
    topic: Topic | None,
    by_id: bool,
) -> ErrorCode:
    """Return the error of a topic that is unknown, or that the client may not use.

    A name that the client may not use is refused whether it exists or not.
    """
    name: str | None = topic.name if topic is not None else None if by_id else requested.name
    if name is not None and not access.topic(name):
        return ErrorCode.topic_authorization_failed
    if topic is not None:
        return ErrorCode.none
    return ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition


def refuse_all(
    request: "OffsetCommitRequest | TxnOffsetCommitRequest",
    responses: PartitionResponses,
    *,
    by_id: bool,
    error: ErrorCode,
) -> KnownPartitions:
    """Respond `error` for all partitions; yields after each topic."""
    for requested in request.topics:
        key = ("", _topic_id(requested)) if by_id else (requested.name, None)
        responses.add_errors(
            key, (partition.partition_index for partition in requested.partitions), error
        )
        yield
    return ()


def drop_oversized(
    services: Services, offsets: Sequence[OffsetToCommit]
) -> tuple[OffsetToCommit, ...]:
    """Keep as many offsets as the log can hold, and one more if it cannot hold all.

    The coordinator refuses that many as a whole, with one error for all partitions.
    """
    return tuple(offsets[: services.config["message.max.bytes"] // MIN_RECORD_BYTES + 1])


def merge_errors(
    response: OffsetCommitResponse, offsets: Sequence[OffsetToCommit]
) -> OffsetCommitResponse:
    """Extend the response to the offsets of `drop_oversized` to all `offsets`."""
    results = list(response.results)
    for offset in offsets[len(results) :]:
        results.append((TopicPartition(offset.topic, offset.partition), results[0][1]))
    return OffsetCommitResponse(tuple(results))
