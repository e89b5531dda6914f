"""Requests to a shard, independent of wire versions.

Handlers build them from the wire's requests. A request carries `version` if its response depends on
it. `on_response` receives the response: a `Result` has both in a `Reply`, at once or later.

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
"""Whether the client may describe the topic of that name; None where it may describe all.

Its regular expressions match no others.
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
    """v0 has none: its session timeout stands in."""
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
    """TopicPartitions: what the member owns."""
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
"""Offsets to commit to one topic, none with metadata.

The tuple has the topic, the 16 bytes of its id, partitions, and for each of them an int64 offset
and an int32 leader epoch, as they are in the bytes of a request.
"""


class Committer(NamedTuple):
    """Member, generation and instance that an OffsetCommit names."""

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
    """Of a consumer group, a member epoch. -1 before v3, as for a producer that does not know the
    group's metadata.
    """
    member_id: str
    instance_id: str | None
    offsets: tuple[OffsetToCommit, ...]
    """Offsets of existing partitions only; the API layer refuses others."""
    verified: object = None
    """For the log: the guard of the transaction that was verified for this commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetch:
    on_response: OnResponse
    group: str
    partitions: tuple[TopicPartition, ...] | None
    """None: all that the group committed."""
    require_stable: bool = False
    """Partitions with a pending offset get UNSTABLE_OFFSET_COMMIT (KIP-447)."""
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    """Current ids of the topics.

    Offsets committed for a topic with another id are left out (KIP-848).
    """
    member_id: str | None = None
    member_epoch: int = -1
    """Of a member of a consumer group, if it names itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroup:
    on_response: OnResponse
    version: int
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroups:
    on_response: OnResponse
    states: tuple[str, ...] = ()
    """Kafka's state names, any case; empty: all."""
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
    """Goes on with the deletion of a group that had very many offsets, until none is left."""

    on_response: OnResponse
    """Id of the `DeleteGroup`, which gets its response at the end."""
    group: str
    offsets: CommittedOffsets
    """Those without a tombstone so far. The group that they belonged to is gone."""


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
"""Offsets that one event deletes: some milliseconds of deciding and appending."""


@dataclass(frozen=True, slots=True)
class ConnectionClosed:
    """Event: a connection closed.

    Its parked requests still count. Its pending ids no longer hold up rounds.
    """

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """Topics are gone, and so are the offsets committed for them.

    One event deletes at most `TOMBSTONE_CHUNK` offsets: it is repeated until none is left.
    """

    topics: frozenset[str]
    groups: tuple[str, ...] | None = None
    """The groups to look into, None for all."""


@dataclass(frozen=True, slots=True)
class ExpireOffsets:
    """The periodic check of offset and group expiry (KIP-211) is due."""

    groups: tuple[str, ...] | None = None
    """The groups to check, None for all; ids of groups that are gone are ignored."""


@dataclass(frozen=True, slots=True)
class ExpireSomeOffsets:
    """The check for expiry of some offsets of a group that has very many."""

    group: str
    partitions: tuple[TopicPartition, ...]
