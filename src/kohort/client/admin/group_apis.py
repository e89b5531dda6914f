"""Requests ListGroups, DescribeGroups, ConsumerGroupDescribe, DeleteGroups and LeaveGroup.

Every broker lists the groups that it coordinates, so all brokers are asked. A broker without a
response is reported by name, and fails the list only if no broker responds. Groups of the consumer
protocol (KIP-848) have an API of their own, used for groups that DescribeGroups does not know.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Any

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
from kohort.client.net import named
from kohort.errors import ErrorCode, KafkaError, KohortError, fresh, unless_error
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
    brokers = sorted((await cluster.metadata(())).brokers)
    said = await asyncio.gather(
        *(_listed(cluster, node, states, types, timeout_ms) for node in brokers)
    )
    failures = {
        node: each
        for node, each in zip(brokers, said, strict=True)
        if isinstance(each, KohortError)
    }
    if failures and len(failures) == len(brokers):
        raise fresh(next(iter(failures.values())))
    groups = {
        group.group: group for each in said if not isinstance(each, KohortError) for group in each
    }
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
    listings = (_listing(each, node) for each in response.groups)
    # Brokers that cannot filter send everything.
    return [
        each for each in listings if _is_one_of(each.state, states) and _is_one_of(each.type, types)
    ]


def _is_one_of(value: str, wanted: Collection[str]) -> bool:
    return not wanted or value.lower() in {each.lower() for each in wanted}


def _listing(of: Any, node: int) -> GroupListing:
    return GroupListing(
        group=GroupId(of.group_id),
        protocol_type=of.protocol_type,
        state=getattr(of, "group_state", ""),
        type=(getattr(of, "group_type", "") or CLASSIC).capitalize(),
        coordinator=node,
    )


# --- describe


async def describe_groups(
    cluster: Cluster, groups: Iterable[GroupId], *, timeout_ms: int
) -> dict[GroupId, GroupDescription | KohortError]:
    """Each group, or why it cannot be described; a group that does not exist is `Dead`."""
    described = await send_to_coordinators(cluster, groups, _describe, timeout_ms=timeout_ms)
    unknown = [
        group
        for group, each in described.items()
        if isinstance(each, GroupDescription) and not each.exists
    ]
    of_new_protocol = await send_to_coordinators(
        cluster, unknown, _describe_new_protocol, timeout_ms=timeout_ms
    )
    return described | {group: each for group, each in of_new_protocol.items() if each is not None}


async def _describe(
    coordinator: Coordinator, groups: list[GroupId]
) -> dict[GroupId, GroupDescription | KohortError]:
    response = await coordinator.connection.send("describe_groups", groups=groups)
    return {each.group_id: _description(each, coordinator) for each in response.groups}


def _description(of: Any, coordinator: Coordinator) -> GroupDescription | KafkaError:
    if of.error_code not in (ErrorCode.none, ErrorCode.group_id_not_found):
        return KafkaError(of.error_code, getattr(of, "error_message", None) or "")
    return GroupDescription(
        group=of.group_id,
        state=of.group_state,
        protocol_type=of.protocol_type,
        assignor=of.protocol_data,
        members=tuple(_member(each, of.protocol_type) for each in of.members),
        coordinator=coordinator.node_id,
        coordinator_address=named(coordinator.connection.address),
    )


def _member(of: Any, protocol_type: str) -> MemberDescription:
    readable = protocol_type == CONSUMER
    assignment = _assignment(of.member_assignment) if readable else None
    subscription = _subscription(of.member_metadata) if readable else None
    return MemberDescription(
        member_id=MemberId(of.member_id),
        instance_id=_instance(getattr(of, "group_instance_id", None)),
        client_id=of.client_id,
        client_host=of.client_host,
        assignment=None if assignment is None else assignment.partitions,
        topics=None if subscription is None else subscription.topics,
        owned=() if subscription is None else subscription.owned,
        rack=None if subscription is None else subscription.rack,
    )


def _instance(of: str | None) -> InstanceId | None:
    return None if of is None else InstanceId(of)


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


# --- describe, of the new consumer protocol


async def _describe_new_protocol(
    coordinator: Coordinator, groups: list[GroupId]
) -> dict[GroupId, GroupDescription | KohortError | None]:
    """Describe groups of the consumer protocol; None for a group of another protocol."""
    if coordinator.connection.version("consumer_group_describe") is None:
        return dict.fromkeys(groups, None)
    response = await coordinator.connection.send("consumer_group_describe", group_ids=groups)
    return {each.group_id: _new_description(each, coordinator) for each in response.groups}


def _new_description(of: Any, coordinator: Coordinator) -> GroupDescription | KafkaError | None:
    if of.error_code is ErrorCode.group_id_not_found:
        return None
    if of.error_code is not ErrorCode.none:
        return KafkaError(of.error_code, of.error_message or "")
    return GroupDescription(
        group=of.group_id,
        state=of.group_state,
        protocol_type=CONSUMER,
        assignor=of.assignor_name,
        members=tuple(map(_new_member, of.members)),
        coordinator=coordinator.node_id,
        coordinator_address=named(coordinator.connection.address),
        type=CONSUMER_TYPE,
        epoch=of.group_epoch,
        assignment_epoch=of.assignment_epoch,
    )


def _new_member(of: Any) -> MemberDescription:
    return MemberDescription(
        member_id=MemberId(of.member_id),
        instance_id=_instance(of.instance_id),
        client_id=of.client_id,
        client_host=of.client_host,
        assignment=_named_partitions(of.assignment.topic_partitions),
        topics=tuple(of.subscribed_topic_names),
        topic_regex=of.subscribed_topic_regex or None,
        rack=of.rack_id,
        epoch=of.member_epoch,
        target=_named_partitions(of.target_assignment.topic_partitions),
    )


def _named_partitions(of: Sequence[Any]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic_name, index) for each in of for index in each.partitions)


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
    return {each.group_id: refusal(each.error_code) for each in response.results}


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

    The error of each, None if it is removed. Raises KohortError when the group is refused.
    """
    leaving = [{"member_id": each, "group_instance_id": None, "reason": reason} for each in members]
    leaving += [
        {"member_id": "", "group_instance_id": each, "reason": reason} for each in instances
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
            each.group_instance_id or each.member_id: refusal(each.error_code)
            for each in response.members
        }
        return {group: errors}

    found = await send_to_coordinators(
        cluster, [group], send, timeout_ms=timeout_ms, remedy="describe the group"
    )
    return unless_error(found[group])
