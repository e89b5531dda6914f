"""Requests ListGroups, DescribeGroups, ConsumerGroupDescribe, DeleteGroups and LeaveGroup.

Every broker lists the groups that it coordinates, so all brokers get the request. A broker without
a response is named in the result, and the list fails only if no broker responds. Groups of the
consumer protocol (KIP-848) have their own API, used for groups that DescribeGroups does not have.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from kohort.client.admin.broker_requests import from_all_brokers
from kohort.client.admin.coordinator_requests import Coordinator, refusal, send_to_coordinators
from kohort.client.admin.values import (
    CLASSIC,
    CONSUMER,
    GroupDescription,
    GroupListing,
    Listing,
    MemberDescription,
)
from kohort.client.cluster import Cluster
from kohort.client.net import format_address
from kohort.errors import ErrorCode, KafkaError, KohortError, unless_error
from kohort.protocol.framing import MalformedError
from kohort.protocol.subscription import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
)
from kohort.types import GroupId, InstanceId, MemberId, TopicPartition

CONSUMER_TYPE = "Consumer"


# --- list


async def list_groups(
    cluster: Cluster, states: Collection[str], types: Collection[str], *, timeout_ms: int
) -> Listing:
    """The groups in these states and of these types, in any letter case; all if none are given.

    Raises KohortError if no broker responds.
    """
    listings, failures = await from_all_brokers(
        cluster, lambda node: _listed(cluster, node, states, types, timeout_ms)
    )
    groups = {group.group: group for group in listings}
    return Listing(groups=tuple(groups[name] for name in sorted(groups)), failures=failures)


async def _listed(
    cluster: Cluster, node: int, states: Collection[str], types: Collection[str], timeout_ms: int
) -> list[GroupListing] | KohortError:
    try:
        connection = await cluster.connection(node)
        response = await connection.send(
            "list_groups",
            states_filter=tuple(states),
            types_filter=tuple(types),
            timeout_ms=timeout_ms,
        )
        if error := refusal(response.error_code):
            return error
    except KohortError as error:
        return error.with_traceback(None)
    listings = (_listing(group, node) for group in response.groups)
    # Brokers that cannot filter send all groups.
    return [
        listing
        for listing in listings
        if _matches(listing.state, states) and _matches(listing.type, types)
    ]


def _matches(value: str, accepted: Collection[str]) -> bool:
    return not accepted or value.lower() in {candidate.lower() for candidate in accepted}


def _listing(group: Any, node: int) -> GroupListing:
    return GroupListing(
        group=GroupId(group.group_id),
        protocol_type=group.protocol_type,
        state=getattr(group, "group_state", ""),
        type=(getattr(group, "group_type", "") or CLASSIC).capitalize(),
        coordinator=node,
    )


# --- describe


async def describe_groups(
    cluster: Cluster, groups: Iterable[GroupId], *, timeout_ms: int
) -> dict[GroupId, GroupDescription | KohortError]:
    """Each group, or the error of its description; a group that does not exist is `Dead`."""
    described = await send_to_coordinators(cluster, groups, _describe, timeout_ms=timeout_ms)
    missing = [
        group
        for group, description in described.items()
        if isinstance(description, GroupDescription) and not description.exists
    ]
    consumer_groups = await send_to_coordinators(
        cluster, missing, _describe_consumer_groups, timeout_ms=timeout_ms
    )
    return described | {
        group: description
        for group, description in consumer_groups.items()
        if description is not None
    }


async def _describe(
    coordinator: Coordinator, groups: list[GroupId]
) -> dict[GroupId, GroupDescription | KohortError]:
    response = await coordinator.connection.send("describe_groups", groups=groups)
    return {group.group_id: _description(group, coordinator) for group in response.groups}


def _description(group: Any, coordinator: Coordinator) -> GroupDescription | KafkaError:
    if group.error_code not in (ErrorCode.none, ErrorCode.group_id_not_found):
        return KafkaError(group.error_code, getattr(group, "error_message", None) or "")
    return GroupDescription(
        group=group.group_id,
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        members=tuple(_member(member, group.protocol_type) for member in group.members),
        coordinator=coordinator.node_id,
        coordinator_address=format_address(coordinator.connection.address),
    )


def _member(member: Any, protocol_type: str) -> MemberDescription:
    readable = protocol_type == CONSUMER
    assignment = _assignment(member.member_assignment) if readable else None
    subscription = _subscription(member.member_metadata) if readable else None
    return MemberDescription(
        member_id=MemberId(member.member_id),
        instance_id=_instance(getattr(member, "group_instance_id", None)),
        client_id=member.client_id,
        client_host=member.client_host,
        assignment=None if assignment is None else assignment.partitions,
        topics=None if subscription is None else subscription.topics,
        owned=() if subscription is None else subscription.owned,
        rack=None if subscription is None else subscription.rack,
    )


def _instance(instance_id: str | None) -> InstanceId | None:
    return None if instance_id is None else InstanceId(instance_id)


def _assignment(data: bytes) -> Assignment | None:
    """The assignment: empty if there are no bytes, None if they cannot be read."""
    if not data:
        return Assignment(partitions=())
    try:
        return decode_assignment(data)
    except MalformedError:
        return None


def _subscription(data: bytes) -> Subscription | None:
    try:
        return decode_subscription(data) if data else None
    except MalformedError:
        return None


# --- describe groups of the consumer protocol


async def _describe_consumer_groups(
    coordinator: Coordinator, groups: list[GroupId]
) -> dict[GroupId, GroupDescription | KohortError | None]:
    """Describe groups of the consumer protocol; None for a group of another protocol."""
    if coordinator.connection.version("consumer_group_describe") is None:
        return dict.fromkeys(groups, None)
    response = await coordinator.connection.send("consumer_group_describe", group_ids=groups)
    return {
        group.group_id: _consumer_group_description(group, coordinator) for group in response.groups
    }


def _consumer_group_description(
    group: Any, coordinator: Coordinator
) -> GroupDescription | KafkaError | None:
    if group.error_code is ErrorCode.group_id_not_found:
        return None
    if group.error_code is not ErrorCode.none:
        return KafkaError(group.error_code, group.error_message or "")
    return GroupDescription(
        group=group.group_id,
        state=group.group_state,
        protocol_type=CONSUMER,
        assignor=group.assignor_name,
        members=tuple(map(_consumer_group_member, group.members)),
        coordinator=coordinator.node_id,
        coordinator_address=format_address(coordinator.connection.address),
        type=CONSUMER_TYPE,
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
    )


def _consumer_group_member(member: Any) -> MemberDescription:
    return MemberDescription(
        member_id=MemberId(member.member_id),
        instance_id=_instance(member.instance_id),
        client_id=member.client_id,
        client_host=member.client_host,
        assignment=_named_partitions(member.assignment.topic_partitions),
        topics=tuple(member.subscribed_topic_names),
        topic_regex=member.subscribed_topic_regex or None,
        rack=member.rack_id,
        epoch=member.member_epoch,
        target=_named_partitions(member.target_assignment.topic_partitions),
    )


def _named_partitions(topics: Sequence[Any]) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, index) for topic in topics for index in topic.partitions
    )


# --- delete


async def delete_groups(
    cluster: Cluster, groups: Iterable[GroupId], *, timeout_ms: int
) -> dict[GroupId, KohortError | None]:
    """Delete groups: None if deleted, else NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND or another error."""
    return await send_to_coordinators(
        cluster, groups, _delete, timeout_ms=timeout_ms, remedy="describe the group"
    )


async def _delete(
    coordinator: Coordinator, groups: list[GroupId]
) -> dict[GroupId, KohortError | None]:
    response = await coordinator.connection.send("delete_groups", groups_names=groups)
    return {
        result.group_id: refusal(result.error_code, getattr(result, "error_message", None))
        for result in response.results
    }


async def remove_members(
    cluster: Cluster,
    group: GroupId,
    members: Iterable[MemberId],
    instances: Iterable[InstanceId],
    reason: str,
    *,
    timeout_ms: int,
) -> dict[str, KafkaError | None]:
    """Remove members by their ids, and static ones by their instance ids (KIP-345).

    Returns the error of each member, None if it is removed. Raises KohortError for an error of the
    group.
    """
    leaving = [
        {"member_id": member_id, "group_instance_id": None, "reason": reason}
        for member_id in members
    ]
    leaving += [
        {"member_id": "", "group_instance_id": instance_id, "reason": reason}
        for instance_id in instances
    ]

    async def send(
        coordinator: Coordinator, _: list[GroupId]
    ) -> dict[GroupId, dict[str, KafkaError | None] | KohortError]:
        response = await coordinator.connection.send(
            "leave_group", min_version=3, group_id=group, members=leaving
        )
        if (error := refusal(response.error_code)) is not None:
            return {group: error}
        errors = {
            member.group_instance_id or member.member_id: refusal(member.error_code)
            for member in response.members
        }
        return {group: errors}

    outcomes = await send_to_coordinators(
        cluster, [group], send, timeout_ms=timeout_ms, remedy="describe the group"
    )
    return unless_error(outcomes[group])
