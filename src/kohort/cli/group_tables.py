"""Tables of groups with the columns of kafka-consumer-groups, and the same for JSON."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from kohort.cli.output import Table
from kohort.client.admin import GroupDescription, MemberDescription, PartitionLag
from kohort.lag import Method, TimeLag
from kohort.types import TopicPartition


def offsets_table(
    groups: Sequence[tuple[GroupDescription, Mapping[TopicPartition, PartitionLag]]],
    verbose: bool,
    *,
    in_time: bool = True,
) -> Table:
    """A row per partition that is committed or assigned.

    The columns of kafka-consumer-groups come first, as scripts count them. `in_time`: with the lag
    in seconds.
    """
    columns = [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    ]
    if verbose:
        columns.insert(3, "LEADER-EPOCH")
    if in_time:
        columns.append("LAG-SECONDS")
    if verbose and in_time:
        columns += ["METHOD", "CONFIDENCE-SECONDS"]
    if verbose:
        columns += ["LOST", "CASE"]  # the case last: it may be two words
    rows = [
        _offset_row(group, partition_lag, _owner(group, partition), verbose, in_time)
        for group, partition_lags in groups
        for partition, partition_lag in partition_lags.items()
    ]
    return Table(columns, rows)


def _offset_row(
    group: GroupDescription,
    partition_lag: PartitionLag,
    owner: MemberDescription | None,
    verbose: bool,
    in_time: bool,
) -> Sequence[object]:
    fields = partition_lag.as_dict()
    epoch = (fields["leader_epoch"],) if verbose else ()
    owner_cells = (
        (None, None, None)
        if owner is None
        else (owner.member_id, owner.client_host, owner.client_id)
    )
    return (
        group.group,
        partition_lag.partition.topic,
        partition_lag.partition.partition,
        *epoch,
        fields["committed_offset"],
        partition_lag.end,
        partition_lag.lag,
        *owner_cells,
        *((seconds(partition_lag.time.lag_ms),) if in_time else ()),
        *(_measurement(partition_lag.time) if verbose and in_time else ()),
        *((partition_lag.lost, partition_lag.case) if verbose else ()),
    )


def _measurement(time: TimeLag) -> tuple[object, object]:
    method = None if time.method is Method.NONE else time.method
    return method, seconds(time.confidence_ms)


def seconds(milliseconds: int | None) -> float | None:
    """Seconds to the tenth."""
    return None if milliseconds is None else round(milliseconds / 1000, 1)


def _owner(group: GroupDescription, partition: TopicPartition) -> MemberDescription | None:
    return next(
        (member for member in group.members if partition in (member.assignment or ())), None
    )


def members_table(groups: Sequence[GroupDescription], verbose: bool) -> Table:
    """A row per member; with instance ids and regular expressions if members have any."""
    members = [member for group in groups for member in group.members]
    static = any(member.instance_id is not None for member in members)
    matching = verbose and any(member.topic_regex is not None for member in members)
    columns = [
        "GROUP",
        "CONSUMER-ID",
        *(["GROUP-INSTANCE-ID"] if static else []),
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
    ]
    if verbose:
        columns += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
    if matching:
        columns.append("SUBSCRIBED-TOPIC-REGEX")
    rows = [
        _member_row(group, member, static, verbose) + ((member.topic_regex,) if matching else ())
        for group in groups
        for member in group.members
    ]
    return Table(columns, rows)


def _member_row(
    group: GroupDescription, member: MemberDescription, static: bool, verbose: bool
) -> tuple[object, ...]:
    count = None if member.assignment is None else len(member.assignment)
    partitions = (
        (
            member.epoch,
            partition_list(member.assignment),
            group.assignment_epoch,
            partition_list(member.target),
        )
        if verbose
        else ()
    )
    instance = (member.instance_id,) if static else ()
    return (
        group.group,
        member.member_id,
        *instance,
        member.client_host,
        member.client_id,
        count,
        *partitions,
    )


def partition_list(partitions: Sequence[TopicPartition] | None) -> str | None:
    """As in Kafka: `orders:0,1,2;payments:0`."""
    if not partitions:
        return None
    topics = groupby(sorted(partitions), attrgetter("topic"))
    return ";".join(
        f"{topic}:{','.join(str(tp.partition) for tp in together)}" for topic, together in topics
    )


def state_table(groups: Sequence[GroupDescription], verbose: bool) -> Table:
    columns = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    if verbose:
        columns[4:4] = ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
    rows = [
        (
            group.group,
            f"{group.coordinator_address} ({group.coordinator})",
            group.assignor,
            group.state,
            *((group.epoch, group.assignment_epoch) if verbose else ()),
            len(group.members),
        )
        for group in groups
    ]
    return Table(columns, rows)


def as_json(
    description: GroupDescription, partition_lags: Mapping[TopicPartition, PartitionLag] | None
) -> dict[str, Any]:
    """The group in full; offsets and lag only where they were requested."""
    entry: dict[str, Any] = {
        "group": description.group,
        "state": description.state,
        "type": description.type,
        "protocol_type": description.protocol_type,
        "assignor": description.assignor or None,
        "coordinator": {
            "node_id": description.coordinator,
            "address": description.coordinator_address,
        },
        "group_epoch": description.epoch,
        "assignment_epoch": description.assignment_epoch,
        "members": [_member_json(member) for member in description.members],
    }
    if partition_lags is not None:
        owners = {
            tp: member.member_id for member in description.members for tp in member.assignment or ()
        }
        entry["offsets"] = [
            partition_lag.as_dict() | {"member_id": owners.get(tp)}
            for tp, partition_lag in partition_lags.items()
        ]
        entry["lag"] = sum(partition_lag.lag or 0 for partition_lag in partition_lags.values())
        entry["lag_ms"] = max(
            (lag.time.lag_ms for lag in partition_lags.values() if lag.time.lag_ms is not None),
            default=None,
        )
        entry["lost"] = sum(partition_lag.lost for partition_lag in partition_lags.values())
    return entry


def _member_json(member: MemberDescription) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack": member.rack,
        "epoch": member.epoch,
        "topics": None if member.topics is None else list(member.topics),
        "topic_regex": member.topic_regex,
        "assignment": partitions_as_json(member.assignment),
        "target_assignment": partitions_as_json(member.target),
    }


def partitions_as_json(partitions: Sequence[TopicPartition] | None) -> list[dict[str, Any]] | None:
    if partitions is None:
        return None
    topics = groupby(sorted(partitions), attrgetter("topic"))
    return [
        {"topic": topic, "partitions": [tp.partition for tp in together]}
        for topic, together in topics
    ]
