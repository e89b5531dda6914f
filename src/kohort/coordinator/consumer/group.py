"""One consumer group: its logged part and its fold, its soft part, and the state of the group.

Only `ConsumerGroup.replay` writes the logged part. The state is derived, in this order:

| state | when |
|---|---|
| Empty | there are no members |
| Assigning | the target assignment is older than the group epoch |
| Reconciling | a member is not STABLE at the assignment epoch |
| Stable | else |

Source: Kafka's ConsumerGroup, ModernGroup and ConsumerGroupMember.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, ClassVar, Final, NamedTuple
from uuid import UUID

from kohort.assignors.server import MemberTable
from kohort.coordinator.committed import CommittedOffsets
from kohort.coordinator.consumer.subscriptions import Subscriptions, subtract
from kohort.coordinator.consumer_records import (
    AssignedPartitions,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataRecord,
    ConsumerGroupRecord,
    CurrentMemberAssignmentRecord,
    CurrentMemberAssignmentValue,
    PartitionMetadataRecord,
    Partitions,
    RegularExpressionRecord,
    RegularExpressionValue,
    TargetAssignmentMemberRecord,
    TargetAssignmentMetadataRecord,
)
from kohort.coordinator.jobs import ComputeTarget
from kohort.coordinator.journal import Cause
from kohort.types import Instant, MemberId, Timestamp

FIRST_EPOCH: Final = 1
"""Epoch of a group and of its target assignment before they have a record."""
LEFT: Final = -1
"""Epoch in the heartbeat of a member that leaves."""
LEFT_STATIC: Final = -2
"""Epoch of a static member that left and will return."""


class ConsumerGroupState(StrEnum):
    """A group's state, by Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class MemberState(IntEnum):
    """A member's state, by the code in its record."""

    STABLE = 0
    """It has all partitions of its target at its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It must revoke partitions before its epoch advances."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not revoked yet."""


NEW_MEMBER: Final = CurrentMemberAssignmentValue(0, 0, MemberState.STABLE, {}, {})
"""The assignment of a member without a record."""


class ConsumerMember(NamedTuple):
    """One member, from its records."""

    member_id: str
    metadata: ConsumerGroupMemberMetadataValue = ConsumerGroupMemberMetadataValue()
    current: CurrentMemberAssignmentValue = NEW_MEMBER

    @property
    def has_left(self) -> bool:
        """Whether it is a static member that left and will return."""
        return self.current.epoch == LEFT_STATIC

    @property
    def is_classic(self) -> bool:
        """Whether it uses the classic protocol."""
        return self.metadata.classic is not None


@dataclass(slots=True)
class ConsumerSession:
    """The soft state of one member: its timers."""

    deadline: Instant
    """Time at which the session expires unless a heartbeat moves it."""
    timer: Instant | None = None
    """Time at which the timer of the session fires; it may be earlier than the deadline."""
    revoking_at: int | None = None
    """Member epoch for which the revocation timer is set, None if it is not set."""
    has_to_join: bool = False
    """Whether the join timer of the classic member is set."""
    has_to_sync: bool = False
    """Whether the sync timer of the classic member is set."""
    is_told: bool = True
    """False after loading until a heartbeat, whose response includes the assignment."""


@dataclass(slots=True)
class OpenRebalance:
    """A rebalance that has not ended: soft state of its group."""

    started: Timestamp
    causes: list[Cause] = field(default_factory=list)
    more_causes: int = 0
    assigned: Timestamp | None = None
    """Time when the target was last computed."""


class ConsumerGroup:
    """One consumer group of the shard."""

    TYPE: ClassVar = "consumer"
    protocol_type: ClassVar = "consumer"

    __slots__ = (
        "assigning", "assignors", "checked_version", "classic_members", "classic_protocols",
        "epoch", "failed_at", "has_partition_metadata", "id", "instances", "is_resolving",
        "members", "metadata_hash", "offsets", "owners", "rebalance", "regex_members", "regexes",
        "sessions", "standings", "subscriptions", "table", "target_epoch", "target_error",
        "target_timestamp", "targets", "unrecorded_hash",
    )  # fmt: skip

    def __init__(self, group_id: str, offsets: CommittedOffsets | None = None) -> None:
        self.id = group_id
        self.offsets = CommittedOffsets() if offsets is None else offsets
        # Logged
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.has_partition_metadata = False
        """Whether there is a record of type 4, written by Kafka before 4.1."""
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp = 0
        self.targets: dict[str, Partitions] = {}
        self.members: dict[str, ConsumerMember] = {}
        self.regexes: dict[str, RegularExpressionValue] = {}
        """The resolved regular expressions."""
        # Derived from the log
        self.instances: dict[str, str] = {}
        """Instance id → member id of the static members."""
        self.owners: dict[UUID, dict[int, str]] = {}
        """Topic id → partition → the member that owns it, or has yet to revoke it."""
        self.subscriptions = Subscriptions()
        self.regex_members: Counter[str] = Counter()
        """Regular expression → number of members."""
        self.assignors: Counter[str] = Counter()
        self.classic_members = 0
        """Number of members that use the classic protocol."""
        self.classic_protocols: Counter[str] = Counter()
        """Protocol name → number of classic members that offer it."""
        self.standings: Counter[tuple[int, int]] = Counter()
        """(state, epoch) → number of members."""
        self.table = MemberTable()
        # Soft
        self.sessions: dict[str, ConsumerSession] = {}
        self.checked_version: int | None = None
        """Version of the topics at the last computation of the metadata hash."""
        self.unrecorded_hash: int | None = None
        """Hash of the subscribed topics, if their set has changed since the last epoch."""
        self.rebalance: OpenRebalance | None = None
        """The open rebalance, for the journal."""
        self.assigning: ComputeTarget | None = None
        """The background computation of its target, or None."""
        self.failed_at: Instant | None = None
        """Time when the computation of its target failed, until a request got that error."""
        self.target_error: str | None = None
        """The last error of the computation, until it succeeds."""
        self.is_resolving = False
        """Whether its regular expressions are being resolved."""

    def __repr__(self) -> str:
        return (
            f"<ConsumerGroup {self.id} {self.state} epoch={self.epoch} "
            f"assignment epoch={self.target_epoch} members={len(self.members)} "
            f"offsets={len(self.offsets)}>"
        )

    # --- derived ---

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if self.standings[MemberState.STABLE, self.target_epoch] != len(self.members):
            return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    def current_hash(self, topics_version: int) -> int | None:
        """The hash of the subscribed topics, None if it must be computed for this version."""
        if self.checked_version != topics_version:
            return None
        return self.metadata_hash if self.unrecorded_hash is None else self.unrecorded_hash

    @property
    def assignor(self) -> str | None:
        """The assignor that most members name; None if there is none, or a tie."""
        return most_named(self.assignors)

    def supports_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether all classic members offer one of these protocols."""
        return protocol_type == self.protocol_type and any(
            self.classic_protocols[name] == self.classic_members for name in names
        )

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether other members still own partitions of the member's target."""
        assigned = member.current.assigned
        return any(
            partition not in assigned.get(topic_id, ()) and self.owner(topic_id, partition)
            for topic_id, partitions in self.targets.get(member.member_id, {}).items()
            for partition in partitions
        )

    def owner(self, topic_id: UUID, partition: int) -> str | None:
        """The member that owns the partition, or has yet to revoke it."""
        owned = self.owners.get(topic_id)
        return None if owned is None else owned.get(partition)

    def subscribed_topics(self) -> Set[str]:
        """Topics to which members subscribe, by name or by a resolved regular expression.

        The set may change with the group.
        """
        names, resolved = self.subscriptions.names, self.regexes.values()
        return set(names).union(*(value.topics for value in resolved)) if resolved else names

    def logged_state(self) -> tuple[Any, ...]:
        """All state from the log, except offsets."""
        return (
            (self.epoch, self.metadata_hash, self.has_partition_metadata),
            (self.target_epoch, self.target_timestamp, dict(self.targets)),
            dict(self.members),
            dict(self.regexes),
        )

    # --- the fold ---

    def replay(self, record: ConsumerGroupRecord) -> None:
        """Apply one record of this group; the tombstone of type 3 is the shard's."""
        _REPLAY[type(record)](self, record)

    def _replay_group(self, record: ConsumerGroupMetadataRecord) -> None:
        if record.value is not None:
            self.epoch, self.metadata_hash = record.value

    def _replay_partition_metadata(self, record: PartitionMetadataRecord) -> None:
        self.has_partition_metadata = record.value is not None

    def _replay_member(self, record: ConsumerGroupMemberMetadataRecord) -> None:
        member_id, metadata = record.key.member_id, record.value
        member = self.members.get(member_id)
        if member is not None:
            self._withdraw(member_id, member.metadata)
        if metadata is not None:
            self._store(member or ConsumerMember(member_id), metadata)
        elif member is not None:
            self._stand(member.current, -1)
            self._disown(member_id, member.current)
            del self.members[member_id]
            self.table.remove(MemberId(member_id))

    def _store(self, member: ConsumerMember, metadata: ConsumerGroupMemberMetadataValue) -> None:
        if member.member_id not in self.members:
            self._stand(member.current, 1)
        metadata = metadata._replace(topics=self.subscriptions.add(metadata.topics))
        self.members[member.member_id] = member._replace(metadata=metadata)
        self.table.put(MemberId(member.member_id))
        if metadata.regex:
            self.regex_members[metadata.regex] += 1
        if metadata.assignor is not None:
            self.assignors[metadata.assignor] += 1
        if metadata.instance_id is not None:
            self.instances[metadata.instance_id] = member.member_id
        if metadata.classic is not None:
            self.classic_members += 1
            self.classic_protocols.update(metadata.classic.names)

    def _withdraw(self, member_id: str, metadata: ConsumerGroupMemberMetadataValue) -> None:
        self.subscriptions.remove(metadata.topics)
        if metadata.regex:
            subtract(self.regex_members, (metadata.regex,))
        if metadata.assignor is not None:
            subtract(self.assignors, (metadata.assignor,))
        if metadata.classic is not None:
            self.classic_members -= 1
            subtract(self.classic_protocols, metadata.classic.names)
        instance_id = metadata.instance_id
        if instance_id is not None and self.instances.get(instance_id) == member_id:
            del self.instances[instance_id]

    def _replay_target_metadata(self, record: TargetAssignmentMetadataRecord) -> None:
        if record.value is not None:
            self.target_epoch, self.target_timestamp = record.value

    def _replay_target(self, record: TargetAssignmentMemberRecord) -> None:
        if record.value is None:
            self.targets.pop(record.key.member_id, None)
        else:
            self.targets[record.key.member_id] = record.value.partitions

    def _replay_current(self, record: CurrentMemberAssignmentRecord) -> None:
        member_id = record.key.member_id
        member = self.members.get(member_id)
        if member is None:
            if record.value is None:
                return
            # A compacted log may have a member's subscription after its assignment.
            self._store(ConsumerMember(member_id), ConsumerGroupMemberMetadataValue())
            member = self.members[member_id]
        current = record.value or NEW_MEMBER
        self._stand(member.current, -1)
        self._disown(member_id, member.current)
        self._stand(current, 1)
        self._own(member_id, current)
        self.members[member_id] = member._replace(current=current)
        self.table.put(MemberId(member_id))

    def _replay_regex(self, record: RegularExpressionRecord) -> None:
        if record.value is None:
            self.regexes.pop(record.key.regex, None)
        else:
            self.regexes[record.key.regex] = record.value

    def _stand(self, current: CurrentMemberAssignmentValue, change: int) -> None:
        standing = current.state, current.epoch
        self.standings[standing] += change
        if not self.standings[standing]:
            del self.standings[standing]

    def _own(self, member_id: str, current: CurrentMemberAssignmentValue) -> None:
        for topic_id, partitions in _held(current):
            self.owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member_id))

    def _disown(self, member_id: str, current: CurrentMemberAssignmentValue) -> None:
        for topic_id, partitions in _held(current):
            owned = self.owners.get(topic_id, {})
            for partition in partitions:
                if owned.get(partition) == member_id:
                    del owned[partition]
            if not owned:
                self.owners.pop(topic_id, None)


_REPLAY: Final[Mapping[type, Callable[[ConsumerGroup, Any], None]]] = {
    ConsumerGroupMetadataRecord: ConsumerGroup._replay_group,
    PartitionMetadataRecord: ConsumerGroup._replay_partition_metadata,
    ConsumerGroupMemberMetadataRecord: ConsumerGroup._replay_member,
    TargetAssignmentMetadataRecord: ConsumerGroup._replay_target_metadata,
    TargetAssignmentMemberRecord: ConsumerGroup._replay_target,
    CurrentMemberAssignmentRecord: ConsumerGroup._replay_current,
    RegularExpressionRecord: ConsumerGroup._replay_regex,
}


def _held(current: CurrentMemberAssignmentValue) -> Iterator[tuple[UUID, Mapping[int, int]]]:
    """The assigned partitions, then those that the member has yet to revoke."""
    yield from current.assigned.items()
    yield from current.pending_revocation.items()


def most_named(assignors: "Counter[str]") -> str | None:
    """The assignor with the highest count; None if there is none, or a tie."""
    most = [assignor_count for assignor_count in assignors.most_common(2) if assignor_count[1] > 0]
    if not most or (len(most) == 2 and most[0][1] == most[1][1]):
        return None
    return most[0][0]


def member_state(current: CurrentMemberAssignmentValue) -> str:
    """Kafka's name of a member's state."""
    is_known = current.state in MemberState._value2member_map_
    return MemberState(current.state).name if is_known else "UNKNOWN"


def partitions_of(assigned: AssignedPartitions) -> dict[UUID, tuple[int, ...]]:
    """The same without epochs."""
    return {topic_id: tuple(epochs) for topic_id, epochs in assigned.items()}
