"""ConsumerGroupHeartbeat (API 68): a member joins, stays alive, and moves to its target.

The effect of an accepted heartbeat is one atomic batch, in this order:

1. the member's record, if its fields have changed
2. tombstones of regular expressions without members
3. the group epoch, if subscriptions, the metadata of subscribed topics, or the assignor that most
   members name have changed
4. the target assignment, if it is older than the group epoch and the assignment interval has passed
5. the member's current assignment, if the reconciliation has changed it

Then its session restarts. A refused heartbeat changes nothing.

Source: consumerGroupHeartbeat of Kafka's GroupMetadataManager.
"""

from typing import Any, Final

from kohort.coordinator.config import GroupCoordinatorConfig
from kohort.coordinator.consumer import rebalancing, timers
from kohort.coordinator.consumer.change import MemberChange, subscribed_ids
from kohort.coordinator.consumer.group import (
    LEFT,
    LEFT_STATIC,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    partitions_of,
)
from kohort.coordinator.consumer.leaving import (
    bump_epoch,
    find_member,
    forget_regexes,
    leave,
    take_over,
)
from kohort.coordinator.consumer.reconciliation import Goal, reconcile
from kohort.coordinator.consumer.regular_expressions import maybe_resolve, validate_regex
from kohort.coordinator.consumer.subscribed_metadata import metadata_hash
from kohort.coordinator.consumer.target import update_target, validate_target
from kohort.coordinator.consumer_records import (
    AssignedPartitions,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    CurrentMemberAssignmentRecord,
    MemberKey,
    Partitions,
)
from kohort.coordinator.journal import Cause
from kohort.coordinator.records import too_long
from kohort.coordinator.requests import ConsumerGroupHeartbeat
from kohort.coordinator.responses import ConsumerGroupHeartbeatResponse
from kohort.coordinator.step import Step
from kohort.coordinator.topics import TopicsView
from kohort.errors import ErrorCode, KafkaError

MAX_TOPICS: Final = 10_000
"""Maximum names in a subscription; each bump of the group epoch looks all of them up."""
_KNOWN_STATES: Final = frozenset(MemberState)


def validate_heartbeat(request: ConsumerGroupHeartbeat, config: GroupCoordinatorConfig) -> None:
    """Check the request alone. Raises KafkaError INVALID_REQUEST or UNSUPPORTED_ASSIGNOR."""
    names = (request.group, request.member_id, request.instance_id, request.rack_id)
    for name, value in zip(("GroupId", "MemberId", "InstanceId", "RackId"), names, strict=True):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
        if value is not None and too_long(value):
            raise _invalid(f"{name} is too long.")
    _validate_size(request, config)
    if request.member_epoch == 0:
        _validate_first(request)
    elif request.member_epoch == LEFT_STATIC and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < LEFT_STATIC:
        raise _invalid("MemberEpoch is invalid.")
    if request.assignor is not None and request.assignor not in config.consumer_assignors:
        raise KafkaError(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {request.assignor} is not supported. "
            f"Supported assignors: {', '.join(config.consumer_assignors)}.",
        )


def _validate_size(request: ConsumerGroupHeartbeat, config: GroupCoordinatorConfig) -> None:
    """Refuse fields that exceed a record, or that would block the server."""
    if request.regex is not None and too_long(request.regex):
        raise KafkaError(ErrorCode.invalid_regular_expression, "SubscribedTopicRegex is too long.")
    if request.topics is None:
        return
    if len(request.topics) > MAX_TOPICS:
        raise _invalid(f"SubscribedTopicNames has more than {MAX_TOPICS} names.")
    if sum(map(len, request.topics)) > config.max_record_bytes:
        raise KafkaError(ErrorCode.unknown_server_error, "SubscribedTopicNames is too large.")


def _validate_first(request: ConsumerGroupHeartbeat) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.owned is None or request.owned:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.topics is None and request.regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)


def heartbeat(
    group: ConsumerGroup, request: ConsumerGroupHeartbeat, topics: TopicsView, step: Step
) -> None:
    """Decide a valid heartbeat. Raises KafkaError if the member or its epoch is refused."""
    if request.member_epoch in (LEFT, LEFT_STATIC):
        leave(group, request, topics, step)
        return
    validate_room(group, request.member_id, request.instance_id, step)
    change = _change(group, request, step)
    _validate_state(change.after, request)
    validate_regex(change)
    member = update_member(change, request.owned, topics, step)
    timers.end_classic_timers(group, member.member_id, step)
    step.reply(request.on_response, _response(change, member, request, step))


def validate_room(
    group: ConsumerGroup, member_id: str, instance_id: str | None, step: Step
) -> None:
    """Raises KafkaError GROUP_MAX_SIZE_REACHED if the group has no room for a new member.

    A static member that returns under another id takes the place that it had.
    """
    if member_id in group.members or instance_id in group.instances:
        return
    if len(group.members) >= step.config.consumer_max_size:
        raise KafkaError(
            ErrorCode.group_max_size_reached,
            f"The consumer group has reached its maximum capacity of "
            f"{step.config.consumer_max_size} members.",
        )


def update_member(
    change: MemberChange, owned: Partitions | None, topics: TopicsView, step: Step
) -> ConsumerMember:
    """Record the change of a member and its consequences. Returns the changed member.

    `owned` are the partitions that the member reports as owned, None if absent. Raises KafkaError
    UNKNOWN_SERVER_ERROR if no target could be computed.
    """
    group = change.group
    validate_target(group, step)
    if change.replaced is not None:
        timers.forget(group, change.replaced, step)
        group.assigning = None
    if change.after.metadata != change.before.metadata:
        key = MemberKey(group.id, change.member_id)
        step.record(ConsumerGroupMemberMetadataRecord(key, change.after.metadata))
    epoch = group_epoch(change, topics, step)
    maybe_resolve(change, topics, step)
    target_epoch, target = update_target(change, epoch, topics, step)
    member = reconcile_member(change, owned, target_epoch, target, topics)
    timers.restart_session(group, member, step)
    if member.current != change.before.current:
        key = MemberKey(group.id, member.member_id)
        step.record(CurrentMemberAssignmentRecord(key, member.current))
        timers.restart_revocation(group, member, step)
    rebalancing.end_if_stable(change, member, (epoch, target_epoch), step)
    return member


def not_found(request: ConsumerGroupHeartbeat, config: GroupCoordinatorConfig) -> KafkaError:
    """The error for a group that does not exist."""
    if config.consumer_rejoin_lost and request.member_epoch > 0:
        return KafkaError(
            ErrorCode.unknown_member_id,
            f"Consumer group {request.group} not found. The member has to join it again.",
        )
    kind = "Group" if request.member_epoch < 0 else "Consumer group"
    return KafkaError(ErrorCode.group_id_not_found, f"{kind} {request.group} not found.")


# --- the member ---


def _change(group: ConsumerGroup, request: ConsumerGroupHeartbeat, step: Step) -> MemberChange:
    """The change of the member by the request."""
    before, replaced = _find(group, request, step)
    after = before._replace(metadata=_updated(before.metadata, request))
    return MemberChange(
        group=group,
        before=before,
        after=after,
        replaced=replaced,
        may_describe=request.may_describe,
    )


def _find(
    group: ConsumerGroup, request: ConsumerGroupHeartbeat, step: Step
) -> tuple[ConsumerMember, str | None]:
    """The member, and the id of the static member that it replaces, if any."""
    if request.member_epoch:
        member = find_member(group, request.member_id, request.instance_id)
        _validate_epoch(member, request)
        return member, None
    owner = group.instances.get(request.instance_id) if request.instance_id is not None else None
    if owner is None:
        known_member = group.members.get(request.member_id)
        return ConsumerMember(request.member_id) if known_member is None else known_member, None
    static = group.members[owner]
    if not static.has_left and not static.is_classic:
        raise KafkaError(
            ErrorCode.unreleased_instance_id,
            f"Static member {request.member_id} with instance id {request.instance_id} cannot "
            f"join the group because the instance id is owned by {owner} member.",
        )
    replaced = None if owner == request.member_id else owner
    return take_over(group, static, request.member_id, step), replaced


def _validate_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeat) -> None:
    """Accept the current epoch, or the previous one of a member that missed a response."""
    epoch, current = request.member_epoch, member.current
    if epoch == current.epoch:
        return
    if (
        epoch == current.previous_epoch
        and epoch < current.epoch
        and request.owned is not None
        and _is_subset(request.owned, current.assigned)
    ):
        return
    greater = "greater" if epoch > current.epoch else "smaller"
    raise KafkaError(
        ErrorCode.fenced_member_epoch,
        f"The consumer group member has a {greater} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({current.epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def _validate_state(member: ConsumerMember, request: ConsumerGroupHeartbeat) -> None:
    """Accept a member in an unknown state (of a later version) only if it owns no partitions."""
    if member.current.state not in _KNOWN_STATES and (request.owned is None or request.owned):
        raise KafkaError(
            ErrorCode.fenced_member_epoch,
            "The consumer group member is in a unknown state. "
            "The member must abandon all its partitions and rejoin.",
        )


def _is_subset(owned: Partitions, assigned: AssignedPartitions) -> bool:
    return all(
        topic in assigned and assigned[topic].keys() >= set(partitions)
        for topic, partitions in owned.items()
    )


def _updated(
    metadata: ConsumerGroupMemberMetadataValue, request: ConsumerGroupHeartbeat
) -> ConsumerGroupMemberMetadataValue:
    """The metadata updated from the request; `metadata` itself if nothing changes."""
    updates: dict[str, Any] = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "client_id": request.client_id,
        "client_host": request.client_host,
        "topics": None if request.topics is None else tuple(sorted(set(request.topics))),
        "regex": request.regex,
        "assignor": request.assignor,
    }
    if request.rebalance_timeout_ms != -1:
        updates["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    changed = {
        name: value
        for name, value in updates.items()
        if value is not None and value != getattr(metadata, name)
    }
    if metadata.classic is not None:
        changed["classic"] = None
    return metadata._replace(**changed) if changed else metadata


# --- the group ---


def group_epoch(change: MemberChange, topics: TopicsView, step: Step) -> int:
    """The group epoch, bumped if subscriptions, topics' metadata or the assignor have changed.

    A new regular expression bumps it only once it is resolved, although the hash changes before.
    """
    group = change.group
    topics_changed = _topics_changed(group, topics)
    bumps = change.names_changed or _assignor_changed(change, step)
    if change.regex_changed:
        old, new = change.before.metadata.regex, change.after.metadata.regex
        if old and not change.regex_subscribers(old):
            forget_regexes(group, (old,), step)
        bumps = bumps or not new or new in group.regexes
    if not (bumps or topics_changed or change.regex_changed):
        return group.epoch
    is_unchanged = change.keeps_topics and not topics_changed
    hash_ = group.current_hash(topics.version) if is_unchanged else None
    if hash_ is None:
        hash_ = metadata_hash(change.subscribed_topics(), topics)
    if not bumps:
        group.unrecorded_hash = hash_
        if not topics_changed or hash_ == group.metadata_hash:
            return group.epoch
    return bump_epoch(group, hash_, _cause(change, bumps=bumps), topics, step)


def _assignor_changed(change: MemberChange, step: Step) -> bool:
    """Whether the change selects another assignor for the group.

    The group has the assignor that most members name; if there is none, or a tie, the first of
    `group.consumer.assignors`. In Kafka 4.4, each heartbeat bumps the epoch during a tie.
    """
    if change.before.metadata.assignor == change.after.metadata.assignor:
        return False
    default = step.config.consumer_assignors[0]
    return (change.group.assignor or default) != (change.assignor or default)


def _topics_changed(group: ConsumerGroup, topics: TopicsView) -> bool:
    """Whether the subscribed topics have changed since the last check."""
    if group.checked_version == topics.version:
        return False
    group.checked_version = topics.version
    return metadata_hash(group.subscribed_topics(), topics) != group.current_hash(topics.version)


def _cause(change: MemberChange, *, bumps: bool) -> Cause:
    """The cause of a bump of the group epoch, for the journal."""
    if not bumps:
        return Cause("topics changed", "")
    is_new = not change.before.current.epoch and change.replaced is None
    subscribes = change.names_changed or change.regex_changed
    cause = "joined" if is_new else "subscription changed" if subscribes else "assignor changed"
    return Cause(cause, change.member_id, change.after.metadata.client_id)


def reconcile_member(
    change: MemberChange,
    owned: Partitions | None,
    target_epoch: int,
    target: Partitions,
    topics: TopicsView,
) -> ConsumerMember:
    """The changed member with its next assignment towards this target."""
    current = change.after.current
    changed = change.names_changed or change.regex_changed
    if not changed and current.state == MemberState.STABLE and current.epoch == target_epoch:
        return change.after
    subscribed = subscribed_ids(change.group, change.after.metadata, topics)
    goal = Goal(
        epoch=target_epoch,
        target={topic: numbers for topic, numbers in target.items() if topic in subscribed},
        is_subscribed=subscribed.__contains__,
        subscription_changed=changed,
        owned=owned,
        is_free=change.is_free,
    )
    return change.after._replace(current=reconcile(current, goal))


def _response(
    change: MemberChange, member: ConsumerMember, request: ConsumerGroupHeartbeat, step: Step
) -> ConsumerGroupHeartbeatResponse:
    session = change.group.sessions[member.member_id]
    tells = (
        not request.member_epoch
        or _is_full(request)
        or member.current.assigned != change.before.current.assigned
        or not session.is_told
    )
    session.is_told = True
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.current.epoch,
        heartbeat_interval_ms=step.config.consumer_group(change.group.id).heartbeat_interval_ms,
        assignment=partitions_of(member.current.assigned) if tells else None,
    )


def _is_full(request: ConsumerGroupHeartbeat) -> bool:
    """Whether the request has all fields, as after a lost response."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.topics is not None or request.regex is not None)
        and request.owned is not None
    )
