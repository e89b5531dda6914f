"""ConsumerGroupDescribe (69) v0-1: state and members of consumer groups (KIP-848).

v1 adds the type of each member: of the consumer or of the classic protocol.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kohort.coordinator.requests import DescribeConsumerGroup
from kohort.coordinator.responses import (
    NONE,
    DescribeConsumerGroupResponse,
    DescribedConsumerMember,
)
from kohort.errors import ErrorCode
from kohort.server.authorization import GROUP
from kohort.server.handlers.chunked import (
    collect_in_chunks,
    respond_large,
    split_in_chunks,
    submit_chunked,
)
from kohort.server.net import Exchange
from kohort.server.responses import OPERATIONS_NOT_REQUESTED
from kohort.server.services import Services
from kohort.util.time_slice import TimeSlices

if TYPE_CHECKING:
    from kohort.protocol.requests import ConsumerGroupDescribeRequest

_BATCH_SIZE: Final = 100
"""Groups whose shards are asked before the first of them has responded."""
MAX_REPEATED_SIZE: Final = 10_000
"""Members in a response up to which a group that is named again is described again."""
HIDDEN_TOPICS: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)
CLASSIC: Final = 0
CONSUMER: Final = 1


async def handle(
    services: Services, exchange: Exchange, request: "ConsumerGroupDescribeRequest"
) -> None:
    """Ask the shard of every group, and respond once all of them have.

    Groups with an empty id come first, as in Kafka. In a large response, a group that is named
    again gets INVALID_REQUEST, as in DescribeGroups.
    """
    wants_operations = request.include_authorized_operations
    if not services.serves_consumer_groups:
        refusals = (_refused(group, ErrorCode.unsupported_version) for group in request.group_ids)
        rows = [_row(refusal, OPERATIONS_NOT_REQUESTED) for refusal in refusals]
        await respond_large(services, exchange, {"groups": rows}, len(rows))
        return
    access = services.access(exchange)
    allowed, denied = await split_in_chunks(request.group_ids, access.group)
    error = ErrorCode.group_authorization_failed
    rows = await collect_in_chunks(
        denied, lambda group: _row(_refused(group, error), OPERATIONS_NOT_REQUESTED)
    )
    elements, members = len(rows), 0
    seen: set[str] = set()
    slices, following = TimeSlices(), iter(sorted(allowed, key=bool))
    while batch := tuple(islice(following, _BATCH_SIZE)):
        repeated = seen.intersection(batch) if members > MAX_REPEATED_SIZE else ()
        new = [group for group in batch if group not in repeated]
        responses = iter(
            await submit_chunked(services, (partial(_request, group) for group in new))
        )
        for group in batch:
            described = (
                _refused(group, ErrorCode.invalid_request) if group in repeated else next(responses)
            )
            if services.has_authorizer and not all(map(access.topic, _topic_names(described))):
                described = _refused(group, ErrorCode.topic_authorization_failed, HIDDEN_TOPICS)
            operations = (
                access.operations(GROUP, group) if wants_operations else OPERATIONS_NOT_REQUESTED
            )
            members += len(described.members)
            elements += 1 + sum(_size(member) for member in described.members)
            rows.append(_row(described, operations))
        seen.update(batch)
        await slices.give_way()
    await respond_large(services, exchange, {"groups": rows}, elements)


def _request(group: str, respond: Callable[[Any], None]) -> DescribeConsumerGroup:
    return DescribeConsumerGroup(on_response=respond, group=group)


def _refused(
    group: str, error: ErrorCode, message: str | None = None
) -> DescribeConsumerGroupResponse:
    return DescribeConsumerGroupResponse(error=error, group=group, error_message=message)


def _topic_names(response: DescribeConsumerGroupResponse) -> Iterable[str]:
    """The topics that the description of a group names."""
    named = {
        topic_id: None
        for member in response.members
        for topic_id in (*member.assignment, *member.target)
    }
    subscribed = dict.fromkeys(
        topic for member in response.members for topic in member.metadata.topics
    )
    return (
        *subscribed,
        *(response.topics[topic_id] for topic_id in named if topic_id in response.topics),
    )


def _size(member: DescribedConsumerMember) -> int:
    return 1 + len(member.metadata.topics) + len(member.assignment) + len(member.target)


def _row(response: DescribeConsumerGroupResponse, operations: int) -> dict[str, Any]:
    return {
        "error_code": response.error,
        "error_message": response.error_message,
        "group_id": response.group,
        "group_state": response.state,
        "group_epoch": response.epoch,
        "assignment_epoch": response.target_epoch,
        "assignor_name": response.assignor,
        "members": (_member(member, response.topics) for member in response.members),
        "authorized_operations": operations if response.error is NONE else OPERATIONS_NOT_REQUESTED,
    }


def _member(member: DescribedConsumerMember, topics: Mapping[UUID, str]) -> dict[str, Any]:
    metadata = member.metadata
    return {
        "member_id": member.member_id,
        "instance_id": metadata.instance_id,
        "rack_id": metadata.rack_id,
        "member_epoch": member.epoch,
        "client_id": metadata.client_id,
        "client_host": metadata.client_host,
        "subscribed_topic_names": metadata.topics,
        "subscribed_topic_regex": metadata.regex,
        "assignment": {"topic_partitions": _topics(member.assignment, topics)},
        "target_assignment": {"topic_partitions": _topics(member.target, topics)},
        "member_type": CONSUMER if metadata.classic is None else CLASSIC,
    }


def _topics(
    partitions: Mapping[UUID, Collection[int]], names: Mapping[UUID, str]
) -> Iterable[dict[str, Any]]:
    """The partitions with the names of their topics, without topics that are gone."""
    return (
        {"topic_id": topic_id, "topic_name": names[topic_id], "partitions": tuple(numbers)}
        for topic_id, numbers in partitions.items()
        if topic_id in names
    )
