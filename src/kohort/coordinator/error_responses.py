"""Error responses to requests whose shard does not serve.

One function covers every case: the shard is loading (COORDINATOR_LOAD_IN_PROGRESS), its log failed
(COORDINATOR_NOT_AVAILABLE), or it is being closed (NOT_COORDINATOR).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from kohort.coordinator.requests import (
    ConsumerGroupHeartbeat,
    DeleteGroup,
    DescribeConsumerGroup,
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Request,
    SyncGroup,
    TxnOffsetCommit,
)
from kohort.coordinator.responses import (
    ConsumerGroupHeartbeatResponse,
    DeleteGroupResponse,
    DescribeConsumerGroupResponse,
    DescribeGroupResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    ListGroupsResponse,
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
    Response,
    SyncGroupResponse,
)
from kohort.errors import ErrorCode
from kohort.types import TopicPartition


def refuse(request: Request, error: ErrorCode) -> Response:
    """The response with `error`, in the shape that this kind of request has."""
    return _REFUSALS[type(request)](request, error)


def refuse_while_loading(request: Request) -> Response:
    """The response with COORDINATOR_LOAD_IN_PROGRESS, but no error for a heartbeat, as in Kafka.

    No session runs while a shard is loading.
    """
    if isinstance(request, Heartbeat):
        return HeartbeatResponse()
    return refuse(request, ErrorCode.coordinator_load_in_progress)


def _refuse_commit(
    request: OffsetCommit | TxnOffsetCommit, error: ErrorCode
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        tuple((TopicPartition(o.topic, o.partition), error) for o in request.offsets)
    )


def _refuse_fetch(_: OffsetFetch, error: ErrorCode) -> OffsetFetchResponse:
    # Consumers treat COORDINATOR_NOT_AVAILABLE as fatal here. As in Kafka they get NOT_COORDINATOR.
    unavailable = error is ErrorCode.coordinator_not_available
    return OffsetFetchResponse(error=ErrorCode.not_coordinator if unavailable else error)


_REFUSALS: Final[Mapping[type, Callable[[Any, ErrorCode], Response]]] = {
    JoinGroup: lambda request, error: JoinGroupResponse(error=error, member_id=request.member_id),
    SyncGroup: lambda _, error: SyncGroupResponse(error=error),
    Heartbeat: lambda _, error: HeartbeatResponse(error),
    LeaveGroup: lambda _, error: LeaveGroupResponse(error=error),
    OffsetCommit: _refuse_commit,
    TxnOffsetCommit: _refuse_commit,
    OffsetFetch: _refuse_fetch,
    DescribeGroup: lambda request, error: DescribeGroupResponse(error=error, group=request.group),
    ListGroups: lambda _, error: ListGroupsResponse(error=error),
    DeleteGroup: lambda _, error: DeleteGroupResponse(error),
    OffsetDelete: lambda _, error: OffsetDeleteResponse(error=error),
    ConsumerGroupHeartbeat: lambda _, error: ConsumerGroupHeartbeatResponse(error=error),
    DescribeConsumerGroup: lambda request, error: DescribeConsumerGroupResponse(
        error=error, group=request.group
    ),
}
