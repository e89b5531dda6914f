"""Checks commits and fetches of offsets of a consumer group.

The epoch in a request shows which assignment its member knew. With the current epoch it may commit
any partition. With an older epoch it may commit partitions that it has had since that epoch or
earlier, including those that it has yet to revoke (KIP-1251).

Source: validateOffsetCommit and validateOffsetFetch of Kafka's ConsumerGroup.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias
from uuid import UUID

from kohort.coordinator.consumer.group import ConsumerGroup, ConsumerMember
from kohort.errors import ErrorCode

MEMBER_EPOCH_SINCE: Final = 9
"""First version of OffsetCommit with a member epoch."""
TRANSACTIONAL_MEMBER_EPOCH_SINCE: Final = 6
"""First version of TxnOffsetCommit with a member epoch (KIP-1319)."""

NO_EPOCH: Final = -1
"""Generation or epoch of a producer without the group's metadata."""

_Partitions: TypeAlias = Iterable[tuple[UUID | None, Iterable[int]]]


def validate_commit(
    group: ConsumerGroup, member_id: str, epoch: int, version: int, partitions: _Partitions
) -> ErrorCode:
    """Check whether the member may commit. Returns the error of every partition, or none."""
    if epoch < 0 and not group.members:
        return ErrorCode.none
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.unknown_member_id
    if version < MEMBER_EPOCH_SINCE and member.metadata.classic is None:
        return ErrorCode.unsupported_version
    return _validate_epoch(member, epoch, partitions)


def validate_transactional_commit(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    epoch: int,
    version: int,
    partitions: _Partitions,
) -> ErrorCode:
    """Check whether the member may commit in a transaction. A request without member passes."""
    if epoch < 0 and not group.members:
        return ErrorCode.none
    if epoch == NO_EPOCH and not member_id and instance_id is None:
        return ErrorCode.none
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.unknown_member_id
    error = _validate_epoch(member, epoch, partitions)
    if error is ErrorCode.stale_member_epoch and version < TRANSACTIONAL_MEMBER_EPOCH_SINCE:
        return ErrorCode.illegal_generation
    return error


def validate_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Check whether the member may fetch offsets. A request without member and epoch passes."""
    if member_id is None:
        # As in Kafka, where the lookup of a member without an id fails.
        return ErrorCode.none if epoch < 0 else ErrorCode.unknown_server_error
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.unknown_member_id
    return ErrorCode.none if epoch == member.current.epoch else _stale(member)


def _validate_epoch(member: ConsumerMember, epoch: int, partitions: _Partitions) -> ErrorCode:
    if epoch == member.current.epoch:
        return ErrorCode.none
    if epoch > member.current.epoch or not all(
        topic_id is not None and _had(member, topic_id, partition, epoch)
        for topic_id, partition in partitions
    ):
        return _stale(member)
    return ErrorCode.none


def _had(member: ConsumerMember, topic_id: UUID, partitions: Iterable[int], epoch: int) -> bool:
    """Whether the member has had all of these partitions since that epoch or earlier."""
    assigned = member.current.assigned.get(topic_id, {})
    pending = member.current.pending_revocation.get(topic_id, {})
    never = epoch + 1
    return all(
        min(assigned.get(partition, never), pending.get(partition, never)) <= epoch
        for partition in partitions
    )


def _stale(member: ConsumerMember) -> ErrorCode:
    is_classic = member.metadata.classic is not None
    return ErrorCode.illegal_generation if is_classic else ErrorCode.stale_member_epoch
