"""Responses of a shard, independent of wire versions; handlers encode the requested version.

Responses are immutable by convention, for speed, as `requests` are.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from kohort.coordinator.consumer_records import ConsumerGroupMemberMetadataValue, Partitions
from kohort.errors import ErrorCode
from kohort.types import TopicPartition

NONE = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """One member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(slots=True, kw_only=True)
class JoinGroupResponse:
    error: ErrorCode = NONE
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    """None on error; encoded as null since v7, as "" before."""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[JoinedMember, ...] = ()


@dataclass(slots=True, kw_only=True)
class SyncGroupResponse:
    error: ErrorCode = NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class HeartbeatResponse:
    error: ErrorCode = NONE


@dataclass(frozen=True, slots=True)
class LeftMember:
    member_id: str
    instance_id: str | None
    error: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResponse:
    error: ErrorCode = NONE
    members: tuple[LeftMember, ...] = ()
    """One per member of the request, in that order. In v0-2 the only member's error is top-level.
    """


@dataclass(slots=True)
class OffsetCommitResponse:
    results: tuple[tuple[TopicPartition, ErrorCode], ...]
    """One per offset of the request, in that order."""


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    """A committed offset; -1 if there is none."""

    topic: str
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    error: ErrorCode = NONE
    offsets: Iterable[FetchedOffset] = ()
    """A tuple; if very many, an iterable that unpacks them lazily."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupResponse:
    error: ErrorCode = NONE
    error_message: str | None = None
    group: str
    state: str = ""
    """Kafka's name: Empty, PreparingRebalance, CompletingRebalance, Stable, Dead."""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group: str
    protocol_type: str
    state: str
    type: str = "classic"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse:
    error: ErrorCode = NONE
    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteGroupResponse:
    error: ErrorCode = NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponse:
    error: ErrorCode = NONE
    results: tuple[tuple[TopicPartition, ErrorCode], ...] = field(default=())


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponse:
    error: ErrorCode = NONE
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None
    """None: unchanged since an earlier response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerMember:
    member_id: str
    epoch: int
    metadata: ConsumerGroupMemberMetadataValue
    assignment: Mapping[UUID, Collection[int]]
    """Topic id → partitions that it owns, including those that it has yet to revoke."""
    target: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConsumerGroupResponse:
    error: ErrorCode = NONE
    error_message: str | None = None
    group: str
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    topics: Mapping[UUID, str] = field(default_factory=dict)
    """Topic id → name, of the members' existing topics."""
    members: tuple[DescribedConsumerMember, ...] = ()


Response: TypeAlias = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | OffsetCommitResponse
    | OffsetFetchResponse
    | DescribeGroupResponse
    | ListGroupsResponse
    | DeleteGroupResponse
    | OffsetDeleteResponse
    | ConsumerGroupHeartbeatResponse
    | DescribeConsumerGroupResponse
)
