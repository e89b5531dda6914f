"""The generations of one group, folded from its records in `__consumer_offsets`.

A classic group has one GroupMetadata record per synced generation, and one when it becomes empty or
a static member is replaced. A consumer group (KIP-848) has a record per group epoch; its members,
target assignment and member epochs are records of their own, before and after it. The log has
results but no causes: a removed member may have left, or its session may have expired. Rounds that
were never synced leave no record.

Compaction keeps the last record of each key. The first generation in the log is therefore often not
the group's first, and it is unknown which members joined in it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from kohort.coordinator.classic import CONSUMER_PROTOCOL_TYPE
from kohort.coordinator.consumer.group import LEFT_STATIC, ConsumerGroup, ConsumerGroupState
from kohort.coordinator.consumer_records import (
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMetadataRecord,
    ConsumerGroupRecord,
    CurrentMemberAssignmentRecord,
    TargetAssignmentMetadataRecord,
)
from kohort.coordinator.records import GroupMetadataRecord, GroupMetadataValue, MemberMetadata
from kohort.protocol.framing import MalformedError
from kohort.protocol.subscription import decode_assignment, subscribed_topics
from kohort.types import Timestamp, TopicPartition

_FIRST: Final = {"classic": 1, "consumer": 2}
"""Highest first generation or epoch of a group without earlier records."""


class GroupMember(NamedTuple):
    """The identity of a member in its records."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str


class Position(NamedTuple):
    """Position of a record in its log."""

    offset: int
    timestamp: Timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedGeneration:
    """A generation of a classic group, an epoch of a consumer group, or another change of one."""

    type: str
    """classic | consumer"""
    generation: int
    """The generation, or the group epoch."""
    outcome: str
    """stable | empty | created (without members) | replaced (a static member, by its next instance)
    | away (a static member, which may return) | changed (members, in one epoch) | deleted.

    Of consumer groups also: disturbed (by the next epoch), assigning, reconciling (not ended).
    Of the first record after a migration: upgraded (to a consumer group), downgraded.
    """
    offset: int
    """Offset of its first record, or of the record by which it was detected."""
    started: Timestamp | None = None
    """Time of the group epoch; not logged for classic groups."""
    joined: Timestamp | None = None
    """When the join phase ended; of a consumer group, when the target assignment was computed."""
    ended: Timestamp | None = None
    """None if it has not ended."""
    protocol: str | None = None
    """The assignor of a classic group."""
    leader: str | None = None
    members: tuple[GroupMember, ...] = ()
    is_first: bool = False
    """There is no earlier generation to compare with: `joining` has all members."""
    skipped: int = 0
    """Number of generations before it that were never synced."""
    joining: tuple[GroupMember, ...] = ()
    removed: tuple[GroupMember, ...] = ()
    replaced: tuple[GroupMember, ...] = ()
    """Static members with a new member id."""
    away: tuple[GroupMember, ...] = ()
    resubscribed: tuple[GroupMember, ...] = ()
    """Members that subscribe to other topics than before."""
    protocol_before: str | None = None
    topics_changed: bool = False
    """Consumer groups: the hash of the subscribed topics' metadata has changed."""
    gained: Mapping[GroupMember, tuple[TopicPartition, ...]] = field(default_factory=dict)
    """Newly assigned partitions by member; in a consumer group, of its target."""
    unowned: tuple[TopicPartition, ...] = ()
    """Partitions that lost their owner and have no new one."""


class _Members(NamedTuple):
    """The members of a group at one record."""

    members: Mapping[str, GroupMember]
    subscriptions: Mapping[str, object]
    """Subscription of each member, for comparison."""


_NOBODY: Final = _Members({}, {})
_Owned: TypeAlias = Mapping[str, frozenset[TopicPartition]]
"""Member id → its partitions."""


class GroupHistory:
    """Folds the records of one group, in the order of the log."""

    def __init__(self, group: str, topic_names: Mapping[UUID, str]) -> None:
        """`topic_names`: names of the topic ids in the records of consumer groups."""
        self._group = group
        self._topic_names = topic_names
        self._position = Position(-1, Timestamp(-1))
        self._members = _NOBODY
        """Members of the latest generation."""
        self._owned: _Owned = {}
        self._classic: GroupMetadataValue | None = None
        self._consumer: ConsumerGroup | None = None
        self._is_known = False
        """Whether there was an earlier generation or deletion."""
        self._open: LoggedGeneration | None = None
        """The epoch that not all members have reached yet."""
        self._hash: int | None = None
        self._has_news = False
        """Whether members have records without a later epoch."""
        self._ended: LoggedGeneration | None = None
        """A deletion, until the write ends without a record of the other group type."""

    def replay(
        self, record: GroupMetadataRecord | ConsumerGroupRecord, position: Position
    ) -> Iterator[LoggedGeneration]:
        """Replay a record. Yields the generations that it ends."""
        if position.timestamp != self._position.timestamp:
            yield from self._end_write()
        self._position = position
        if isinstance(record, GroupMetadataRecord):
            yield from self._replay_classic(record.value)
        else:
            yield from self._replay_consumer(record)

    def close(self) -> Iterator[LoggedGeneration]:
        """Yield the generations that have not ended at the end of the log."""
        yield from self._end_write()
        if self._open is not None and self._consumer is not None:
            yield self._closed(self._consumer.state.lower(), ended=None)

    # --- the end of a group

    def _end_write(self) -> Iterator[LoggedGeneration]:
        """Yield the changes of a complete write: a deletion, and changes without an epoch.

        Only between writes is the replayed state one that the group had.
        """
        if self._ended is not None:
            yield self._ended
            self._ended = None
        group = self._consumer
        if group is None:
            return
        if self._has_news and self._is_known:
            self._has_news = False
            generation = self._of_epoch("changed")
            is_replacement = generation.replaced and not (generation.joining or generation.removed)
            outcome = "replaced" if is_replacement else "changed"
            yield replace(generation, outcome=outcome, started=None)
        if self._open is not None and group.state is ConsumerGroupState.STABLE:
            yield self._closed("stable", self._position.timestamp)

    def _end(self, type_: str, generation: int) -> None:
        self._ended = LoggedGeneration(
            type=type_,
            generation=generation,
            outcome="deleted",
            offset=self._position.offset,
            ended=self._position.timestamp,
            removed=tuple(self._members.members.values()),
        )
        self._members, self._owned = _NOBODY, {}
        self._classic = self._consumer = self._open = self._hash = None
        self._is_known, self._has_news = True, False

    def _migrated(self, to: str) -> bool:
        """Whether the current write has ended the group as one of the other type."""
        if self._ended is None or self._ended.type == to:
            return False
        members = {member.member_id: member for member in self._ended.removed}
        self._members, self._ended = _Members(members, {}), None
        return True

    # --- classic

    def _replay_classic(self, value: GroupMetadataValue | None) -> Iterator[LoggedGeneration]:
        before = self._classic
        if value is None:
            if before is not None:
                self._end("classic", before.generation)
            return
        downgraded = self._migrated("classic")
        self._consumer = self._open = None
        if before is not None and value.generation < before.generation:
            # The record of its deletion was compacted.
            self._members, self._owned, self._is_known, before = _NOBODY, {}, False, None
        generation = self._compared(_members_of(value), _owned_in(value))
        is_new = before is None or value.generation != before.generation
        if downgraded:
            outcome = "downgraded"
        elif value.members:
            outcome = "stable" if is_new or not generation.replaced else "replaced"
        else:
            outcome = "empty" if value.generation or before else "created"
        joined = value.current_state_timestamp
        yield replace(
            generation,
            type="classic",
            generation=value.generation,
            outcome=outcome,
            joined=Timestamp(joined) if outcome == "stable" and is_new and joined >= 0 else None,
            ended=self._position.timestamp,
            protocol=value.protocol,
            protocol_before=None if before is None else before.protocol,
            leader=value.leader,
            is_first=not self._is_known and value.generation > _FIRST["classic"],
            skipped=max(value.generation - before.generation - 1, 0) if before else 0,
        )
        self._classic, self._is_known = value, True

    # --- consumer (KIP-848)

    def _replay_consumer(self, record: ConsumerGroupRecord) -> Iterator[LoggedGeneration]:
        is_epoch = isinstance(record, ConsumerGroupMetadataRecord)
        group = self._consumer
        if is_epoch and record.value is None:
            if group is not None:
                self._end("consumer", group.epoch)
            return
        if group is None:
            if record.value is None:
                return
            group = self._consumer = ConsumerGroup(self._group)
            self._classic = None
        if isinstance(record, ConsumerGroupMetadataRecord):
            if self._open is not None:
                yield self._closed("disturbed", self._position.timestamp)
            group.replay(record)
            yield from self._begin(group)
            return
        group.replay(record)
        if isinstance(record, ConsumerGroupMemberMetadataRecord):
            self._has_news = True
        elif isinstance(record, CurrentMemberAssignmentRecord):
            yield from self._away(record)
        elif isinstance(record, TargetAssignmentMetadataRecord) and self._open is not None:
            self._open = replace(self._open, joined=self._position.timestamp)

    def _begin(self, group: ConsumerGroup) -> Iterator[LoggedGeneration]:
        """Begin an epoch, whose members were replayed before it."""
        generation = self._of_epoch("upgraded" if self._migrated("consumer") else "")
        changed = self._hash not in (None, group.metadata_hash)
        self._open = replace(
            generation,
            is_first=not self._is_known and group.epoch > _FIRST["consumer"],
            topics_changed=changed,
        )
        self._is_known, self._has_news, self._hash = True, False, group.metadata_hash
        if group.is_empty:
            yield self._closed("empty", self._position.timestamp)

    def _away(self, record: CurrentMemberAssignmentRecord) -> Iterator[LoggedGeneration]:
        member = self._members.members.get(record.key.member_id)
        if record.value is None or record.value.epoch != LEFT_STATIC or member is None:
            return
        assert self._consumer is not None
        yield LoggedGeneration(
            type="consumer",
            generation=self._consumer.epoch,
            outcome="away",
            offset=self._position.offset,
            ended=self._position.timestamp,
            members=tuple(self._members.members.values()),
            away=(member,),
        )

    def _of_epoch(self, outcome: str) -> LoggedGeneration:
        """Compare the members of the epoch with the previous ones, without their assignment."""
        group = self._consumer
        assert group is not None
        members = {
            member.member_id: GroupMember(
                member.member_id,
                member.metadata.instance_id,
                member.metadata.client_id,
                member.metadata.client_host,
            )
            for member in group.members.values()
        }
        subscriptions = {
            member.member_id: (member.metadata.topics, member.metadata.regex)
            for member in group.members.values()
        }
        generation = self._compared(_Members(members, subscriptions), None)
        return replace(
            generation,
            type="consumer",
            generation=group.epoch,
            outcome=outcome,
            started=self._position.timestamp,
            ended=self._position.timestamp,
        )

    def _closed(self, outcome: str, ended: Timestamp | None) -> LoggedGeneration:
        """The open epoch with this outcome, and the changes of its target assignment."""
        generation, group = self._open, self._consumer
        assert generation is not None
        assert group is not None
        self._open = None
        owned = {
            member_id: frozenset(
                TopicPartition(self._topic_names.get(topic_id, str(topic_id)), partition)
                for topic_id, partitions in target.items()
                for partition in partitions
            )
            for member_id, target in group.targets.items()
        }
        gained, unowned = _moves(self._owned, owned, self._members.members, {})
        self._owned = owned
        return replace(
            generation,
            outcome=generation.outcome or outcome,
            ended=ended,
            gained=gained,
            # At the next epoch, the targets of removed members are already deleted.
            unowned=unowned if group.members and outcome != "disturbed" else (),
        )

    # --- both

    def _compared(self, now: _Members, owned: _Owned | None) -> LoggedGeneration:
        """The differences from the latest generation, which this one replaces."""
        before, self._members = self._members, now
        joining = {id_: now.members[id_] for id_ in now.members.keys() - before.members.keys()}
        removed = {id_: before.members[id_] for id_ in before.members.keys() - now.members.keys()}
        predecessors = _predecessors(joining, removed)
        resubscribed = [
            member
            for id_, member in now.members.items()
            if now.subscriptions.get(id_)
            != before.subscriptions.get(predecessors.get(id_, id_), now.subscriptions.get(id_))
        ]
        gained: Mapping[GroupMember, tuple[TopicPartition, ...]] = {}
        unowned: tuple[TopicPartition, ...] = ()
        if owned is not None:
            gained, unowned = _moves(self._owned, owned, now.members, predecessors)
            self._owned = owned
        else:
            self._owned = {
                new: self._owned.get(predecessors.get(new, new), frozenset()) for new in now.members
            } | {id_: self._owned.get(id_, frozenset()) for id_ in removed}
        replaced_ids = set(predecessors.values())
        return LoggedGeneration(
            type="",
            generation=-1,
            outcome="",
            offset=self._position.offset,
            members=tuple(now.members.values()),
            joining=tuple(member for id_, member in joining.items() if id_ not in predecessors),
            removed=tuple(member for id_, member in removed.items() if id_ not in replaced_ids),
            replaced=tuple(joining[id_] for id_ in predecessors),
            resubscribed=tuple(resubscribed),
            gained=gained,
            unowned=unowned if now.members else (),
        )


def _predecessors(
    joining: Mapping[str, GroupMember], removed: Mapping[str, GroupMember]
) -> dict[str, str]:
    """Member id of a static member → previous member id of its instance."""
    former = {
        member.instance_id: id_ for id_, member in removed.items() if member.instance_id is not None
    }
    return {
        id_: former[member.instance_id]
        for id_, member in joining.items()
        if member.instance_id in former
    }


def _moves(
    before: _Owned,
    now: _Owned,
    members: Mapping[str, GroupMember],
    predecessors: Mapping[str, str],
) -> tuple[dict[GroupMember, tuple[TopicPartition, ...]], tuple[TopicPartition, ...]]:
    """Newly assigned partitions by member, and partitions without an owner."""
    nothing: frozenset[TopicPartition] = frozenset()
    gained = {}
    for id_, has in now.items():
        new = has - before.get(predecessors.get(id_, id_), nothing)
        if new and id_ in members:
            gained[members[id_]] = tuple(sorted(new))
    lost = nothing.union(*before.values()) - nothing.union(*now.values())
    return gained, tuple(sorted(lost))


def _members_of(value: GroupMetadataValue) -> _Members:
    members = {
        member.member_id: GroupMember(
            member.member_id, member.instance_id, member.client_id, member.client_host
        )
        for member in value.members
    }
    if value.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return _Members(members, {})
    topics = {member.member_id: subscribed_topics(member.subscription) for member in value.members}
    return _Members(members, topics)


def _owned_in(value: GroupMetadataValue) -> _Owned | None:
    """The assignment of a classic group; None if it has another protocol type, or is malformed."""
    if value.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None if value.members else {}
    try:
        return {member.member_id: _assigned(member) for member in value.members}
    except MalformedError:
        return None


def _assigned(member: MemberMetadata) -> frozenset[TopicPartition]:
    if not member.assignment:
        return frozenset()
    return frozenset(decode_assignment(member.assignment).partitions)
