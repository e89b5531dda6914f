"""The membership's requests and responses as kio's messages, in the highest common version.

JoinGroup v0-9, SyncGroup v0-5, Heartbeat v0-4, LeaveGroup v0-5, ConsumerGroupHeartbeat v0-1. Fields
that a version lacks are dropped. A static member requires JoinGroup v5 (KIP-345), and a pattern
ConsumerGroupHeartbeat v1: below them both would silently be ignored.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from kohort.client.cluster import Cluster
from kohort.client.config import GroupConfig
from kohort.client.membership import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    CoordinatorResponse,
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroup,
    PlainResponse,
    Request,
    SyncGroup,
    SyncGroupResponse,
)
from kohort.client.net import Connection
from kohort.client.offset_messages import MAX_VERSION_BY_NAME
from kohort.errors import ErrorCode, KohortError
from kohort.protocol.subscription import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.types import TopicIdPartition

PROTOCOL_TYPE: Final = "consumer"
STATIC_MEMBERS_SINCE: Final = 5
"""Version of JoinGroup."""
PATTERNS_SINCE: Final = 1
"""Version of ConsumerGroupHeartbeat."""
SEVERAL_LEAVE_SINCE: Final = 3
"""Version of LeaveGroup.

Each version is given its own fields only: kio would load other versions' schemas to find a field.
"""

_OF_MEMBERS: Final = (
    *("join_group", "sync_group", "heartbeat", "metadata", "offset_fetch", "list_offsets"),
    *("offset_for_leader_epoch", "fetch", "offset_commit", "leave_group"),
)
"""The requests of a member."""

PURPOSES: Final[Mapping[type[Any], str]] = {
    JoinGroup: "join",
    SyncGroup: "join",
    Heartbeat: "heartbeat",
    LeaveGroup: "heartbeat",
    ConsumerGroupHeartbeat: "heartbeat",
}
"""Connection to the coordinator that a request uses.

A broker handles one request of a connection at a time, and a join may be parked for minutes.
"""


async def coordinator(cluster: Cluster, group_id: str, purpose: str) -> Connection:
    """The connection to the coordinator for that purpose, in one attempt; the caller retries.

    Raises KohortError, retriable or not. The next call then looks the coordinator up again.
    """
    try:
        return await cluster.connection(await cluster.coordinator_node(group_id), purpose)
    except KohortError:
        cluster.coordinator_moved(group_id)
        raise


async def ask(
    connection: Connection, config: GroupConfig, request: Request, timeout_ms: int
) -> CoordinatorResponse:
    """Send the request, and wait for the response. Raises KohortError."""
    match request:
        case JoinGroup():
            return await _join(request, connection, config, timeout_ms)
        case SyncGroup():
            return await _sync(request, connection, config, timeout_ms)
        case Heartbeat():
            return await _heartbeat(request, connection, config, timeout_ms)
        case LeaveGroup():
            return await _leave(request, connection, config, timeout_ms)
        case ConsumerGroupHeartbeat():
            return await _consumer_heartbeat(request, connection, config, timeout_ms)


async def _preload(connection: Connection) -> None:
    """Import the modules of a generation early: while this member joins, the others wait."""
    await connection.preload(*_OF_MEMBERS)
    await connection.preload("offset_fetch", "offset_commit", max_version=MAX_VERSION_BY_NAME)
    decode_subscription(encode_subscription(Subscription(topics=())))
    decode_assignment(encode_assignment(Assignment(partitions=())))


async def _join(
    request: JoinGroup, connection: Connection, config: GroupConfig, timeout_ms: int
) -> CoordinatorResponse:
    if not request.member_id:
        await _preload(connection)
    response = await connection.send(
        "join_group",
        timeout_ms=timeout_ms,
        min_version=STATIC_MEMBERS_SINCE if config.is_static else 0,
        group_id=config.group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.rebalance_timeout_ms,
        member_id=request.member_id,
        group_instance_id=config.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[{"name": name, "metadata": metadata} for name, metadata in request.protocols],
        reason=request.reason,
    )
    return JoinGroupResponse(
        error=response.error_code,
        generation=response.generation_id,
        protocol=response.protocol_name or "",
        leader=response.leader,
        skip_assignment=getattr(response, "skip_assignment", False),
        member_id=response.member_id,
        members=tuple(
            JoinGroupResponseMember(
                member_id=member.member_id,
                instance_id=getattr(member, "group_instance_id", None),
                metadata=member.metadata,
            )
            for member in response.members
        ),
    )


async def _sync(
    request: SyncGroup, connection: Connection, config: GroupConfig, timeout_ms: int
) -> CoordinatorResponse:
    response = await connection.send(
        "sync_group",
        timeout_ms=timeout_ms,
        group_id=config.group_id,
        generation_id=request.generation,
        member_id=request.member_id,
        group_instance_id=config.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=request.protocol,
        assignments=[
            {"member_id": member, "assignment": blob} for member, blob in request.assignments
        ],
    )
    return SyncGroupResponse(error=response.error_code, assignment=response.assignment)


async def _heartbeat(
    request: Heartbeat, connection: Connection, config: GroupConfig, timeout_ms: int
) -> CoordinatorResponse:
    response = await connection.send(
        "heartbeat",
        timeout_ms=timeout_ms,
        group_id=config.group_id,
        generation_id=request.generation,
        member_id=request.member_id,
        group_instance_id=config.instance_id,
    )
    return PlainResponse(error=response.error_code)


async def _leave(
    request: LeaveGroup, connection: Connection, config: GroupConfig, timeout_ms: int
) -> CoordinatorResponse:
    member = {
        "member_id": request.member_id,
        "group_instance_id": config.instance_id,
        "reason": request.reason,
    }
    several = (connection.version("leave_group") or 0) >= SEVERAL_LEAVE_SINCE
    leaving: Mapping[str, Any] = (
        {"members": [member]} if several else {"member_id": request.member_id}
    )
    response = await connection.send(
        "leave_group", timeout_ms=timeout_ms, group_id=config.group_id, **leaving
    )
    error = response.error_code
    if error is ErrorCode.none:
        error = next(
            (member_response.error_code for member_response in getattr(response, "members", ())),
            error,
        )
    return PlainResponse(error=error)


async def _consumer_heartbeat(
    request: ConsumerGroupHeartbeat, connection: Connection, config: GroupConfig, timeout_ms: int
) -> CoordinatorResponse:
    # Version 0 lacks the field.
    pattern: Mapping[str, Any] = (
        {} if config.pattern is None else {"subscribed_topic_regex": request.pattern}
    )
    response = await connection.send(
        "consumer_group_heartbeat",
        timeout_ms=timeout_ms,
        min_version=0 if config.pattern is None else PATTERNS_SINCE,
        group_id=config.group_id,
        member_id=request.member_id,
        member_epoch=request.epoch,
        instance_id=config.instance_id,
        rack_id=request.rack,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topic_names=request.topics,
        server_assignor=request.assignor,
        topic_partitions=None if request.owned is None else _by_topic_id(request.owned),
        **pattern,
    )
    assignment = response.assignment
    return ConsumerGroupHeartbeatResponse(
        error=response.error_code,
        message=response.error_message or "",
        epoch=response.member_epoch,
        interval_ms=round(response.heartbeat_interval.total_seconds() * 1_000),
        assignment=None if assignment is None else _partitions(assignment.topic_partitions),
    )


def _by_topic_id(owned: Iterable[TopicIdPartition]) -> list[dict[str, Any]]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(owned):
        topics.setdefault(topic_id, []).append(partition)
    return [
        {"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()
    ]


def _partitions(topics: Iterable[Any]) -> frozenset[TopicIdPartition]:
    return frozenset(
        TopicIdPartition(topic.topic_id, partition)
        for topic in topics
        for partition in topic.partitions
    )
