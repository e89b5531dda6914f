"""Requests to a shard, independent of wire versions.

Handlers build them from the wire's requests. A request has `version` if its response depends on it.
`on_response` receives the response: a `Result` returns both in a `Reply`, immediately or later.

Requests are immutable by convention. The frequent ones are not frozen, because a frozen dataclass
takes up to four times as long to create.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kohort.coordinator.committed import CommittedOffsets
from kohort.coordinator.consumer_records import Partitions
from kohort.types import ConnectionId, OnResponse, TopicPartition

MayDescribe: TypeAlias = Callable[[str], bool]
"""Whether the client may describe the topic of that name; None if it may describe all topics.

Its regular expressions match only topics that it may describe.
"""


@dataclass(slots=True, kw_only=True)
class JoinGroup:
    on_response: OnResponse
    version: int
    group: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """v0 has no such field: the session timeout is used."""
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata) in the member's order of preference."""
    reason: str | None
    fresh_id: str
    """A new UUID for a member without an id, else ""."""
    connection: ConnectionId = None
    may_describe: MayDescribe | None = None


@dataclass(slots=True, kw_only=True)
class SyncGroup:
    on_response: OnResponse
    version: int
    group: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]
    """(member id, assignment), from the leader."""


@dataclass(slots=True, kw_only=True)
class Heartbeat:
    on_response: OnResponse
    group: str
    generation: int
    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    member_id: str
    instance_id: str | None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    on_response: OnResponse
    version: int
    group: str
    members: tuple[LeavingMember, ...]


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeat:
    """A heartbeat of the consumer protocol (KIP-848); None and -1 leave a field as it was."""

    on_response: OnResponse
    group: str
    member_id: str
    member_epoch: int
    """0 to join, -1 to leave, -2 for a static member that leaves and will return."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    """TopicPartitions: the partitions that the member owns."""
    client_id: str = ""
    client_host: str = ""
    may_describe: MayDescribe | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConsumerGroup:
    on_response: OnResponse
    group: str


class OffsetToCommit(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""
    topic_id: UUID | None = None


OffsetColumns: TypeAlias = tuple[str, bytes, Sequence[int], Sequence[bytes]]
"""Offsets to commit for one topic, without metadata.

The tuple has the topic, the 16 bytes of its id, the partitions, and for each partition the int64
offset and the int32 leader epoch as encoded in a request.
"""


class Committer(NamedTuple):
    """Member id, generation and instance id of an OffsetCommit."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None


@dataclass(slots=True, kw_only=True)
class OffsetCommit:
    on_response: OnResponse
    version: int
    group: str
    generation: int
    member_id: str
    instance_id: str | None
    offsets: tuple[OffsetToCommit, ...]
    """Offsets of existing partitions only; the API layer refuses others."""
    retention_ms: int = -1
    """v2-4; -1: the broker's own retention."""


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommit:
    on_response: OnResponse
    version: int
    group: str
    producer_id: int
    producer_epoch: int
    generation: int
    """The member epoch in a consumer group. -1 before v3, and for a producer without the group's
    metadata.
    """
    member_id: str
    instance_id: str | None
    offsets: tuple[OffsetToCommit, ...]
    """Offsets of existing partitions only; the API layer refuses others."""
    verified: object = None
    """For the log: the guard of the verified transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetch:
    on_response: OnResponse
    group: str
    partitions: tuple[TopicPartition, ...] | None
    """None for all committed offsets of the group."""
    require_stable: bool = False
    """Partitions with a pending offset get UNSTABLE_OFFSET_COMMIT (KIP-447)."""
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    """Current ids of the topics.

    Offsets that were committed for a topic with another id are left out (KIP-848).
    """
    member_id: str | None = None
    member_epoch: int = -1
    """Epoch of the member of a consumer group, if the request names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroup:
    on_response: OnResponse
    version: int
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroups:
    on_response: OnResponse
    states: tuple[str, ...] = ()
    """Kafka's state names in any case; empty for all states."""
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    on_response: OnResponse
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDelete:
    on_response: OnResponse
    group: str
    partitions: tuple[TopicPartition, ...]
    """Existing partitions only; the API layer refuses others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardOffsets:
    """Event: continue the deletion of a group with very many offsets."""

    on_response: OnResponse
    """`on_response` of the `DeleteGroup`, which gets its response at the end."""
    group: str
    offsets: CommittedOffsets
    """Offsets of the deleted group that have no tombstone yet."""


Request: TypeAlias = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | TxnOffsetCommit
    | OffsetFetch
    | DescribeGroup
    | ListGroups
    | DeleteGroup
    | OffsetDelete
    | ConsumerGroupHeartbeat
    | DescribeConsumerGroup
)


TOMBSTONE_CHUNK: Final = 1_000
"""Maximum number of offsets that one event deletes, in some milliseconds."""


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """Event: a connection closed.

    Its parked requests stay valid. Rounds no longer wait for its pending ids.
    """

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """Event: topics were deleted; their committed offsets are deleted too.

    One event deletes at most `TOMBSTONE_CHUNK` offsets, and is repeated until none is left.
    """

    topics: frozenset[str]
    groups: tuple[str, ...] | None = None
    """The groups to search, None for all."""


@dataclass(frozen=True, slots=True)
class ExpireOffsets:
    """Event: the periodic check for expired offsets and groups (KIP-211) is due."""

    groups: tuple[str, ...] | None = None
    """The groups to check, None for all; ids of deleted groups are ignored."""


@dataclass(frozen=True, slots=True)
class ExpireSomeOffsets:
    """Event: check some offsets of a large group for expiry."""

    group: str
    partitions: tuple[TopicPartition, ...]
