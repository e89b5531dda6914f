"""Classic members of a consumer group: their JoinGroup, SyncGroup and Heartbeat (APIs 11, 14, 12).

They move to the target assignment as members of the consumer protocol do. The member epoch is their
generation. Their requests are never parked:

- JoinGroup is their full heartbeat, with subscription and owned partitions. The generation in the
  response is the member's epoch. An eager member owns no partitions when it joins.
- SyncGroup returns the member's assignment; the assignments of a leader are ignored.
- Heartbeat gets REBALANCE_IN_PROGRESS when the next JoinGroup would change something.

`group.consumer.migration.policy=disabled` refuses their JoinGroup, as Kafka does since 4.3.1.

Source: classicGroup…ToConsumerGroup of Kafka's GroupMetadataManager.
"""

from kohort.coordinator.classic import CONSUMER_PROTOCOL_TYPE
from kohort.coordinator.config import MigrationPolicy
from kohort.coordinator.consumer import timers
from kohort.coordinator.consumer.change import MemberChange
from kohort.coordinator.consumer.classic_assignments import encoded_assignment, partitions_by_id
from kohort.coordinator.consumer.downgrade import can_be_replaced, convert
from kohort.coordinator.consumer.group import (
    NEW_MEMBER,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    partitions_of,
)
from kohort.coordinator.consumer.heartbeat import (
    group_epoch,
    reconcile_member,
    update_member,
    validate_room,
)
from kohort.coordinator.consumer.leaving import find_member, take_over
from kohort.coordinator.consumer_records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from kohort.coordinator.join import MEMBER_ID_REQUIRED_SINCE
from kohort.coordinator.journal import Cause
from kohort.coordinator.rebalance import rebalance
from kohort.coordinator.requests import Heartbeat, JoinGroup, SyncGroup
from kohort.coordinator.responses import HeartbeatResponse, JoinGroupResponse, SyncGroupResponse
from kohort.coordinator.step import Step
from kohort.coordinator.sync import PROTOCOL_REQUIRED_SINCE
from kohort.coordinator.topics import TopicsView
from kohort.errors import ErrorCode, KafkaError
from kohort.protocol.framing import MalformedError
from kohort.protocol.subscription import Subscription, decode_subscription
from kohort.types import Instant


def join_group(group: ConsumerGroup, request: JoinGroup, topics: TopicsView, step: Step) -> None:
    """Decide one JoinGroup in a consumer group that has members. Raises KafkaError."""
    if step.config.consumer_migration_policy is MigrationPolicy.DISABLED:
        raise KafkaError(
            ErrorCode.inconsistent_group_protocol,
            f"Cannot join the consumer group {group.id} with the classic protocol because the "
            "group migration is disabled.",
        )
    member_id = request.member_id or request.fresh_id
    validate_room(group, member_id, request.instance_id, step)
    if not group.supports_protocols(request.protocol_type, [name for name, _ in request.protocols]):
        raise KafkaError(ErrorCode.inconsistent_group_protocol, "no protocol that all support")
    is_new = not request.member_id
    if is_new and request.instance_id is None and request.version >= MEMBER_ID_REQUIRED_SINCE:
        step.reply(
            request.on_response,
            JoinGroupResponse(error=ErrorCode.member_id_required, member_id=member_id),
        )
        return
    static = _static_member(group, request)
    subscription = _subscription(request)
    if static is not None and can_be_replaced(group, static, step.config):
        _replace_last(group, request, static, subscription, topics, step)
        return
    if static is None or static.member_id == member_id:
        before, replaced = group.members.get(member_id, ConsumerMember(member_id)), None
    else:
        before, replaced = take_over(group, static, member_id, step), static.member_id
    after = before._replace(metadata=_updated(before.metadata, request, subscription))
    change = MemberChange(
        group=group,
        before=before,
        after=after,
        replaced=replaced,
        may_describe=request.may_describe,
    )
    owned = partitions_by_id(subscription.owned, topics)
    member = update_member(change, owned, topics, step)
    timers.await_sync(group, member, step)
    step.reply(request.on_response, _joined(member.current.epoch, member_id, request))


def sync_group(group: ConsumerGroup, request: SyncGroup, topics: TopicsView, step: Step) -> None:
    """Decide one SyncGroup. Raises KafkaError."""
    named = request.protocol_type is not None and request.protocol_name is not None
    if request.version >= PROTOCOL_REQUIRED_SINCE and not named:
        raise KafkaError(ErrorCode.inconsistent_group_protocol, "no protocol type or name")
    member, classic = _classic_member(group, request.member_id, request.instance_id)
    _validate_generation(member, request.generation)
    name, metadata = classic.first
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (
        None,
        name,
    ):
        raise KafkaError(ErrorCode.inconsistent_group_protocol, "not the protocol of the member")
    if (
        group.target_epoch > member.current.epoch
        and member.current.state != MemberState.UNREVOKED_PARTITIONS
    ):
        timers.await_join(group, member, step)
        error = SyncGroupResponse(error=ErrorCode.rebalance_in_progress)
        step.reply(request.on_response, error)
        return
    timers.end_sync(group, member.member_id, step)
    timers.restart_session(group, member, step)
    step.reply(
        request.on_response,
        SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=encoded_assignment(partitions_of(member.current.assigned), metadata, topics),
        ),
    )


def heartbeat(group: ConsumerGroup, request: Heartbeat, step: Step) -> None:
    """Decide one Heartbeat; a member that must rejoin has its rebalance timeout to do so."""
    member_id = request.member_id
    error = _keep_alive(group, request.generation, member_id, request.instance_id, step.now)
    if error is ErrorCode.rebalance_in_progress:
        timers.await_join(group, group.members[member_id], step)
    step.reply(request.on_response, HeartbeatResponse(error))


def keep_alive_known(
    group: ConsumerGroup, generation: int, member_id: str, instance_id: str | None, now: Instant
) -> ErrorCode | None:
    """The error of a Heartbeat response, None if `heartbeat` must set a timer."""
    error = _keep_alive(group, generation, member_id, instance_id, now)
    if error is ErrorCode.rebalance_in_progress and not group.sessions[member_id].has_to_join:
        return None
    return error


def _keep_alive(
    group: ConsumerGroup, generation: int, member_id: str, instance_id: str | None, now: Instant
) -> ErrorCode:
    """The error of a Heartbeat response; moves the deadline of a member of this generation."""
    try:
        member, classic = _classic_member(group, member_id, instance_id)
        _validate_generation(member, generation)
    except KafkaError as error:
        return error.code
    group.sessions[member_id].deadline = Instant(now + classic.session_timeout_ms)
    return ErrorCode.rebalance_in_progress if _has_to_join(group, member) else ErrorCode.none


def _has_to_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    state = member.current.state
    return (
        member.current.epoch < group.target_epoch
        or state == MemberState.UNREVOKED_PARTITIONS
        or (state == MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
    )


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    """The classic member. Raises KafkaError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    member = find_member(group, member_id, instance_id)
    if member.metadata.classic is None:
        raise KafkaError(
            ErrorCode.unknown_member_id,
            f"Member {member_id} does not use the classic protocol.",
        )
    return member, member.metadata.classic


def _validate_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.current.epoch:
        raise KafkaError(
            ErrorCode.illegal_generation,
            f"Generation {generation} of member {member.member_id} is not {member.current.epoch}.",
        )


def _static_member(group: ConsumerGroup, request: JoinGroup) -> ConsumerMember | None:
    """The member with this instance id; a member without an id may replace it.

    Raises KafkaError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    if request.instance_id is None:
        return None
    if request.member_id:
        return find_member(group, request.member_id, request.instance_id)
    owner = group.instances.get(request.instance_id)
    return None if owner is None else group.members[owner]


def _subscription(request: JoinGroup) -> Subscription:
    """The subscription of the preferred protocol.

    Raises KafkaError INCONSISTENT_GROUP_PROTOCOL if it is malformed.
    """
    try:
        return decode_subscription(request.protocols[0][1])
    except MalformedError as error:
        raise KafkaError(
            ErrorCode.inconsistent_group_protocol, f"malformed subscription: {error}"
        ) from error


def _updated(
    metadata: ConsumerGroupMemberMetadataValue, request: JoinGroup, subscription: Subscription
) -> ConsumerGroupMemberMetadataValue:
    """The metadata updated from the request; fields that it lacks are unchanged."""
    timeout = request.rebalance_timeout_ms
    return metadata._replace(
        instance_id=metadata.instance_id if request.instance_id is None else request.instance_id,
        rack_id=subscription.rack or metadata.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        regex="",
        rebalance_timeout_ms=metadata.rebalance_timeout_ms if timeout == -1 else timeout,
        classic=ClassicMemberMetadata(request.session_timeout_ms, request.protocols),
    )


def _joined(epoch: int, member_id: str, request: JoinGroup) -> JoinGroupResponse:
    return JoinGroupResponse(
        generation=epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0][0],
        member_id=member_id,
    )


def _replace_last(
    group: ConsumerGroup,
    request: JoinGroup,
    static: ConsumerMember,
    subscription: Subscription,
    topics: TopicsView,
    step: Step,
) -> None:
    """A classic member replaces the last member of the consumer protocol: downgrade the group.

    In a rebalance the response has generation 0, as in Kafka: the member's SyncGroup is refused,
    and it rejoins. Unlike in Kafka, a reconciling group is always rebalanced, because the member
    would otherwise get partitions that others still own.
    """
    member_id = request.member_id or request.fresh_id
    current = static.current
    if static.member_id != member_id:
        current = current._replace(epoch=NEW_MEMBER.epoch, previous_epoch=NEW_MEMBER.epoch)
    before = ConsumerMember(member_id, static.metadata, current)
    after = before._replace(metadata=_updated(before.metadata, request, subscription))
    change = MemberChange(group=group, before=before, after=after, replaced=static.member_id)
    others = [member for member in group.members.values() if member is not static]
    target = group.targets.get(static.member_id, {})
    owned = partitions_by_id(subscription.owned, topics)
    reconciled = reconcile_member(change, owned, group.target_epoch, target, topics)
    # A separate step, whose records are dropped: they would not survive the downgrade.
    epoch = group_epoch(change, topics, Step(step.config, step.now, step.timestamp))
    settled = all(
        member.current.state == MemberState.STABLE and member.current.epoch == epoch
        for member in (*others, reconciled)
    )
    member = reconciled if settled else after
    classic = convert(group, (*others, member), topics, step)
    generation = member.current.epoch
    if not settled:
        rebalance(classic, [Cause("downgraded", member_id, request.client_id)], step)
    step.reply(request.on_response, _joined(generation, member_id, request))
