"""A group as JSON: what the HTTP port shows of it (`docs/operations.md` describes the fields).

Reads what the coordinator holds, on the loop thread, and changes nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from kohort.coordinator.classic import CONSUMER_PROTOCOL_TYPE, Group
from kohort.coordinator.consumer.group import ConsumerGroup, member_state
from kohort.coordinator.consumer_records import AssignedPartitions, Partitions
from kohort.coordinator.explanation import Explanation
from kohort.coordinator.fold import AnyGroup
from kohort.coordinator.journal import Rebalance
from kohort.coordinator.records import OffsetCommitValue
from kohort.protocol.framing import MalformedError
from kohort.protocol.subscription import decode_assignment
from kohort.server.cluster import FindLogOffsets, LogOffsets
from kohort.server.monitoring.group_lags import NO_LAG, LagOf, lag_in_records
from kohort.server.replicas import Topics
from kohort.types import Instant, TopicPartition
from kohort.util.time_slice import TimeSlices


def summary(group: AnyGroup) -> dict[str, Any]:
    """The first fields of every view of a group."""
    return {
        "group_id": group.id,
        "state": str(group.state),
        "protocol_type": group.protocol_type,
        "type": group.TYPE,
    }


def line(
    group: AnyGroup,
    log_offsets: Mapping[TopicPartition, LogOffsets],
    shows: Callable[[str], bool],
    lag_of: LagOf = lag_in_records,
) -> dict[str, Any]:
    """One line of the list of groups, with its lag in the topics that are shown."""
    lags = [
        lag_of(partition, value.offset, log_offsets[partition]).as_dict()
        for partition, value in group.offsets.items()
        if partition in log_offsets and shows(partition.topic)
    ]
    count = len(group.sessions if isinstance(group, Group) else group.members)
    return summary(group) | {"members": count} | _total(lags)


def _total(lags: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The lag of a group: records of all partitions, and the longest time of one."""
    records, longest = 0, None
    for lag in lags:
        records += lag["lag"] or 0
        if lag["lag_ms"] is not None and (longest is None or lag["lag_ms"] > longest):
            longest = lag["lag_ms"]
    return {"lag": records, "lag_ms": longest}


def summary_elsewhere(row: Any) -> dict[str, Any]:
    """The line of a group in another node's ListGroups response.

    That lacks members and lag, which are null.
    """
    return {
        "group_id": row.group_id,
        "state": row.group_state,
        "protocol_type": row.protocol_type,
        "type": row.group_type,
        "members": None,
        "lag": None,
        "lag_ms": None,
    }


async def details(
    group: AnyGroup,
    topics: Topics,
    journal: Sequence[Rebalance],
    find_log_offsets: FindLogOffsets,
    shows: Callable[[str], bool] = lambda _: True,
    lag_of: LagOf = lag_in_records,
) -> Callable[[], dict[str, Any]]:
    """All details of one group, as a function that computes for long and is called in a thread.

    Topics for whose names `shows` is false are left out.

    The group and its members are those of one moment. The offsets are read in slices.
    """
    shown = summary(group)
    members_of_group: Callable[[], list[dict[str, Any]]]
    if isinstance(group, Group):
        shown |= {
            "protocol": group.protocol or None,
            "generation": group.generation,
            "leader": group.leader or None,
        }
        members_of_group = partial(_assigned, group.protocol_type, members(group), shows)
    else:
        shown |= {
            "epoch": group.epoch,
            "assignment_epoch": group.target_epoch,
            "assignor": group.assignor,
        }
        members_of_group = partial(list, consumer_members(group, topics, shows))
    log_offsets = await find_log_offsets(tuple(group.offsets))
    slices, offsets = TimeSlices(), []
    for partition in tuple(group.offsets):
        value = group.offsets.get(partition)
        if value is not None and shows(partition.topic):  # None: it was deleted meanwhile
            offsets.append(offset(partition, value, log_offsets.get(partition), lag_of))
        await slices.give_way()
    return partial(_details, shown, members_of_group, offsets, journal)


def _details(
    shown: Mapping[str, Any],
    members: Callable[[], list[dict[str, Any]]],
    offsets: Sequence[dict[str, Any]],
    journal: Sequence[Rebalance],
) -> dict[str, Any]:
    return {
        **shown,
        "members": members(),
        "offsets": sorted(offsets, key=itemgetter("topic", "partition")),
        **_total(offsets),
        "journal": [rebalance(offset_row) for offset_row in journal],
    }


def _assigned(
    protocol_type: str,
    members: Sequence[tuple[dict[str, Any], bytes]],
    shows: Callable[[str], bool],
) -> list[dict[str, Any]]:
    return [
        member | {"assignment": assignment(protocol_type, data, shows)} for member, data in members
    ]


def members(group: Group) -> list[tuple[dict[str, Any], bytes]]:
    """The members with the bytes that the last synced generation assigned to them."""
    logged = {} if group.logged is None else group.logged.members
    return [
        (
            {
                "member_id": session.member_id,
                "instance_id": session.instance_id,
                "client_id": session.client_id,
                "client_host": session.client_host,
            },
            logged[member_id].assignment if member_id in logged else b"",
        )
        for member_id, session in group.sessions.items()
    ]


def consumer_members(
    group: ConsumerGroup, topics: Topics, shows: Callable[[str], bool]
) -> list[dict[str, Any]]:
    """The members of a consumer group with their current and their target assignments."""
    return [
        {
            "member_id": member.member_id,
            "instance_id": member.metadata.instance_id,
            "client_id": member.metadata.client_id,
            "client_host": member.metadata.client_host,
            "topics": list(filter(shows, member.metadata.topics)),
            "topic_regex": member.metadata.regex or None,
            "epoch": member.current.epoch,
            "state": member_state(member.current),
            "assignment": _named(member.current.assigned, topics, shows),
            "to_revoke": _named(member.current.pending_revocation, topics, shows),
            "target": _named(group.targets.get(member.member_id, {}), topics, shows),
        }
        for member in group.members.values()
    ]


def _named(
    partitions: AssignedPartitions | Partitions, topics: Topics, shows: Callable[[str], bool]
) -> list[dict[str, Any]]:
    """Partitions by the name of their topic, without those of deleted topics."""
    by_topic = {topics.by_id(topic_id): numbers for topic_id, numbers in partitions.items()}
    return sorted(
        (
            {"topic": topic.name, "partitions": sorted(numbers)}
            for topic, numbers in by_topic.items()
            if topic is not None and shows(topic.name)
        ),
        key=itemgetter("topic"),
    )


def assignment(
    protocol_type: str, data: bytes, shows: Callable[[str], bool]
) -> list[dict[str, Any]] | None:
    """Assigned partitions by topic; None if the bytes are not those of a consumer."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    if not data:
        return []
    try:
        assigned = decode_assignment(data).partitions
    except MalformedError:
        return None
    return _by_topic(partition for partition in assigned if shows(partition[0]))


def _by_topic(assigned: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(assigned):
        by_topic.setdefault(topic, []).append(partition)
    return [{"topic": topic, "partitions": partitions} for topic, partitions in by_topic.items()]


def offset(
    partition: TopicPartition,
    value: OffsetCommitValue,
    log: LogOffsets | None,
    lag_of: LagOf = lag_in_records,
) -> dict[str, Any]:
    """One committed offset with its lag behind the end; nulls if the partition is gone."""
    start, end = (None, None) if log is None else log
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "committed_offset": value.offset,
        "leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
        "start_offset": start,
        "end_offset": end,
        **(NO_LAG if log is None else lag_of(partition, value.offset, log).as_dict()),
    }


def rebalance(entry: Rebalance) -> dict[str, Any]:
    """One entry of the journal."""
    return {
        "type": entry.type,
        "generation": entry.generation,
        "causes": [
            {
                "what": cause.what,
                "member_id": cause.member_id,
                "client_id": cause.client_id,
                "reason": cause.reason,
            }
            for cause in entry.causes
        ],
        "more_causes": entry.more_causes,
        "outcome": entry.outcome,
        "started": entry.started,
        "joined": entry.joined,
        "ended": entry.ended,
        "join_ms": entry.join_ms,
        "sync_ms": entry.sync_ms,
        "members": list(entry.members),
        "awaited": list(entry.awaited),
    }


def explained(group_id: str, explanation: Explanation, ahead: int) -> dict[str, Any]:
    """Why a group is not stable. `ahead`: ms that timestamps are ahead of the monotonic clock."""
    return {
        "group_id": group_id,
        "state": explanation.state,
        "why": explanation.why,
        "awaited": [
            {
                "member_id": awaited.member_id,
                "client_id": awaited.client_id,
                "what": awaited.what,
                "until": _timestamp(awaited.until, ahead),
            }
            for awaited in explanation.awaited
        ],
        "until": _timestamp(explanation.until, ahead),
    }


def _timestamp(at: Instant | None, ahead: int) -> int | None:
    return None if at is None else at + ahead
