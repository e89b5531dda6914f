"""What OffsetCommit and TxnOffsetCommit have in common: their partitions, and their responses."""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from kohort.coordinator.offsets import LEAST_RECORD_BYTES
from kohort.coordinator.requests import OffsetToCommit
from kohort.coordinator.responses import OffsetCommitResponse
from kohort.errors import ErrorCode
from kohort.server.authorization import Access
from kohort.server.responses import PartitionResponses
from kohort.server.services import Services
from kohort.server.topics import Topic
from kohort.types import TopicPartition

if TYPE_CHECKING:
    from kohort.protocol.requests import (
        OffsetCommitRequest,
        OffsetCommitRequestTopic,
        TxnOffsetCommitRequest,
        TxnOffsetCommitRequestTopic,
    )

Existing: TypeAlias = Generator[None, None, tuple[OffsetToCommit, ...]]
"""Returns the offsets of partitions that exist, after a step for each of them."""

AT_ONCE: Final = 2_000
"""Partitions of a decoded request that are looked at in one turn."""


def existing(
    services: Services,
    access: Access,
    request: "OffsetCommitRequest | TxnOffsetCommitRequest",
    responses: PartitionResponses,
    *,
    by_id: bool,
    has_epoch: bool,
) -> Existing:
    """Find the partitions of a request; `responses` receives the errors of all others.

    `access` is that of the client. `by_id`: the request names topics by id. `has_epoch`: it has
    leader epochs.
    """
    offsets: list[OffsetToCommit] = []
    for asked in request.topics:
        yield
        topic_id = _topic_id(asked) if by_id else None
        key = ("" if by_id else asked.name, topic_id)
        topic = _find(services, asked, by_id)
        error = _refusal(access, asked, topic, by_id)
        if error or topic is None:
            responses.add_errors(key, (each.partition_index for each in asked.partitions), error)
            continue
        # The id goes with every offset, so that one of a topic deleted since is never taken for its
        # namesake's.
        name, id_ = topic.name, topic.id
        count, before, missing = len(topic.partitions), len(offsets), []
        for each in asked.partitions:
            yield
            if not 0 <= each.partition_index < count:
                missing.append(each.partition_index)
                continue
            offsets.append(
                OffsetToCommit(
                    name,
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch if has_epoch else -1,
                    each.committed_metadata,
                    id_,
                )
            )
        if missing:
            responses.add_errors(key, missing, ErrorCode.unknown_topic_or_partition)
        responses.expect(key, len(offsets) - before)
    return tuple(offsets)


def _find(
    services: Services, asked: "OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic", by_id: bool
) -> Topic | None:
    if not by_id:
        return services.topics.get(asked.name)
    topic_id = _topic_id(asked)
    return services.topics.by_id(topic_id) if topic_id else None


def _topic_id(asked: "OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic") -> UUID | None:
    topic_id: UUID | None = getattr(asked, "topic_id", None)
    return topic_id


def _refusal(
    access: Access,
    asked: "OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic",
    topic: Topic | None,
    by_id: bool,
) -> ErrorCode:
    """Why nothing can be committed for a topic: it is not the client's, or there is none.

    A name that the client may not use is refused whether it exists or not.
    """
    name: str | None = topic.name if topic is not None else None if by_id else asked.name
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
) -> Existing:
    """Have `responses` say that nothing can be committed, after a step for each topic."""
    for asked in request.topics:
        key = ("", _topic_id(asked)) if by_id else (asked.name, None)
        responses.add_errors(key, (each.partition_index for each in asked.partitions), error)
        yield
    return ()


def loggable(services: Services, offsets: Sequence[OffsetToCommit]) -> tuple[OffsetToCommit, ...]:
    """As many of the offsets as the log could hold, and one more if it could not hold all.

    More than that is refused as a whole, with one error for all partitions.
    """
    return tuple(offsets[: services.config["message.max.bytes"] // LEAST_RECORD_BYTES + 1])


def with_the_rest(
    response: OffsetCommitResponse, offsets: Sequence[OffsetToCommit]
) -> OffsetCommitResponse:
    """The response to `loggable` offsets as one to all of them."""
    results = list(response.results)
    for each in offsets[len(results) :]:
        results.append((TopicPartition(each.topic, each.partition), results[0][1]))
    return OffsetCommitResponse(tuple(results))
