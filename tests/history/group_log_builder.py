"""Logs of group records, written as the coordinator of Kafka writes them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from history.group_logs import Logged
from kohort.coordinator import records
from kohort.coordinator.consumer_records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataRecord,
    ConsumerGroupMetadataValue,
    CurrentMemberAssignmentRecord,
    CurrentMemberAssignmentValue,
    GroupKey,
    MemberKey,
    PartitionMetadataRecord,
    TargetAssignmentMemberRecord,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataRecord,
    TargetAssignmentMetadataValue,
)
from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from kohort.history.interface import LogPosition
from kohort.protocol.packing import pack_int16, pack_string
from kohort.protocol.subscription import (
    Assignment,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.types import TopicPartition

G = "g"
T = UUID(int=1)
SESSION_MS, POLL_MS = 10_000, 60_000
SUBSCRIPTION = encode_subscription(Subscription(topics=("t",)))
STABLE, UNREVOKED, UNRELEASED = 0, 1, 2


class Log:
    """Appends writes: each is a batch of its own, with one time."""

    def __init__(self) -> None:
        self.records: list[Logged] = []
        self.exact_since: int | None = 0

    def position(self, time: int) -> LogPosition:
        """Of the next write."""
        start = len(self.records)
        return LogPosition(start, time, batch_offset=start, exact_since=self.exact_since)

    def write(self, time: int, *rows: Any) -> None:
        """`rows`: records, or pairs of (key, value)."""
        first = self.position(time)
        for row in rows:
            key, value = row if isinstance(row[0], bytes) else records.encode(row)
            at = first._replace(offset=len(self.records))
            self.records.append(Logged(key, value, at))

    def commit(self, time: int, *partitions: int, group: str = G, offset: int = 1) -> None:
        value = OffsetCommitValue(offset, -1, "", time, topic_id=T)
        keys = [OffsetCommitKey(group, "t", partition) for partition in partitions]
        self.write(time, *(OffsetCommitRecord(key, value) for key in keys))

    def classic(
        self,
        time: int,
        generation: int,
        members: Mapping[str, Iterable[int]] | None = None,
        *,
        joined: int | None = None,
        **options: Any,
    ) -> None:
        """A generation; `joined`: the end of the join phase, by default the record's time."""
        self.write(
            time, classic(generation, members, joined=time if joined is None else joined, **options)
        )


def classic(
    generation: int,
    members: Mapping[str, Iterable[int]] | None = None,
    *,
    joined: int,
    group: str = G,
    instances: Mapping[str, str] | None = None,
    protocol_type: str = "consumer",
) -> GroupMetadataRecord:
    """`members`: partitions by member id; `instances`: instance id by member id."""
    rows = [
        classic_member(
            member_id,
            [TopicPartition("t", each) for each in partitions],
            instance_id=(instances or {}).get(member_id),
        )
        for member_id, partitions in (members or {}).items()
    ]
    kind = protocol_type if rows or generation else ""
    return classic_generation(generation, rows, joined=joined, group=group, protocol_type=kind)


def classic_generation(
    generation: int,
    members: Sequence[MemberMetadata],
    *,
    joined: int,
    group: str = G,
    protocol: str = "range",
    protocol_type: str = "consumer",
) -> GroupMetadataRecord:
    """A generation with these members, the leader first."""
    chosen, leader = (protocol, members[0].member_id) if members else (None, None)
    value = GroupMetadataValue(protocol_type, generation, chosen, leader, joined, tuple(members))
    return GroupMetadataRecord(GroupMetadataKey(group), value)


def classic_member(
    member_id: str,
    partitions: Sequence[TopicPartition],
    *,
    topics: Sequence[str] = ("t",),
    instance_id: str | None = None,
    client_id: str | None = None,
    host: str = "/host",
    poll_ms: int = POLL_MS,
    session_ms: int = SESSION_MS,
) -> MemberMetadata:
    """A member of a generation."""
    return MemberMetadata(
        *(member_id, instance_id, f"client-{member_id}" if client_id is None else client_id, host),
        *(poll_ms, session_ms),
        encode_subscription(Subscription(topics=tuple(topics))),
        encode_assignment(Assignment(partitions=tuple(partitions))),
    )


def classic_tombstone(group: str = G) -> GroupMetadataRecord:
    return GroupMetadataRecord(GroupMetadataKey(group), None)


# --- consumer groups; None: a tombstone


def epoch(number: int | None, group: str = G) -> ConsumerGroupMetadataRecord:
    value = None if number is None else ConsumerGroupMetadataValue(number, 7)
    return ConsumerGroupMetadataRecord(GroupKey(group), value)


def member(
    member_id: str,
    instance_id: str | None = None,
    *,
    is_classic: bool = False,
    assignor: str | None = None,
) -> ConsumerGroupMemberMetadataRecord:
    classic_member = ClassicMemberMetadata(SESSION_MS, (("range", SUBSCRIPTION),))
    value = ConsumerGroupMemberMetadataValue(
        instance_id,
        None,
        f"client-{member_id}",
        "/host",
        ("t",),
        "",
        POLL_MS,
        assignor,
        classic_member if is_classic else None,
    )
    return ConsumerGroupMemberMetadataRecord(MemberKey(G, member_id), value)


def target_epoch(number: int | None, at: int = 0, group: str = G) -> TargetAssignmentMetadataRecord:
    value = None if number is None else TargetAssignmentMetadataValue(number, at)
    return TargetAssignmentMetadataRecord(GroupKey(group), value)


def target(member_id: str, *partitions: int) -> TargetAssignmentMemberRecord:
    value = TargetAssignmentMemberValue({T: partitions} if partitions else {})
    return TargetAssignmentMemberRecord(MemberKey(G, member_id), value)


def current(
    member_id: str,
    number: int,
    partitions: Sequence[int] = (),
    pending: Sequence[int] = (),
    state: int = STABLE,
) -> CurrentMemberAssignmentRecord:
    assigned, revoking = (
        {T: dict.fromkeys(each, number)} if each else {} for each in (partitions, pending)
    )
    value = CurrentMemberAssignmentValue(number, number - 1, state, assigned, revoking)
    return CurrentMemberAssignmentRecord(MemberKey(G, member_id), value)


def removed(member_id: str, group: str = G) -> tuple[Any, ...]:
    """The tombstones of a member."""
    key = MemberKey(group, member_id)
    return (
        CurrentMemberAssignmentRecord(key, None),
        TargetAssignmentMemberRecord(key, None),
        ConsumerGroupMemberMetadataRecord(key, None),
    )


def ended() -> tuple[Any, ...]:
    """The tombstones of a consumer group without members."""
    return (target_epoch(None), PartitionMetadataRecord(GroupKey(G), None), epoch(None))


def key(type_: int, *names: str) -> bytes:
    """The key of a record of another type."""
    return pack_int16(type_) + b"".join(map(pack_string, names))
