"""Resets offsets as Kafka's tool does, but by a plan, with verification and undo.

    plan = await plan_reset(admin, ["orders"], ToTime(at_ms), topics={"orders": None})
    await execute(admin, plan)                   # commits, reads back, compares
    await execute(admin, plan.inverse(now_ms))   # restores the former commits

`execute` refuses a plan before any change: when a group has members, when the cluster is another
one, and when commits differ from the plan's. Only the last two can be forced.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias
from uuid import UUID

from kohort.client.admin import Admin, PartitionLag, partition_lags
from kohort.client.cluster import NO_EPOCH, Offset
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.resets.checks import (
    ActiveGroupError,
    require_empty,
    require_same_cluster,
    require_same_topics,
)
from kohort.client.resets.plan import Drift, OffsetChange, ResetPlan
from kohort.client.resets.specs import Specification, ToOffsets, ToTime, new_offset
from kohort.errors import ErrorCode, KafkaError, KohortError, fresh, unless_error
from kohort.types import GroupId, TopicPartition

Scope: TypeAlias = Mapping[str, Collection[int] | None]
"""Topic → its partitions, None for all of them."""


class DriftError(KohortError):
    """The groups' commits differ from those in the plan."""

    def __init__(self, drifts: Sequence[Drift]) -> None:
        super().__init__(
            f"{len(drifts)} of the plan's partitions have other commits than in the plan: "
            "nothing was changed; "
            "see them with `kohort groups diff`, or use --force"
        )
        self.drifts = tuple(drifts)


class NotCommittedError(KohortError):
    """The commits after the reset differ from the plan."""


# --- plan


async def plan_reset(
    admin: Admin,
    groups: Sequence[GroupId],
    specification: Specification,
    scope: Scope | None = None,
) -> ResetPlan:
    """Plan a reset of groups without members; nothing is changed.

    `scope` None: all partitions that a group has committed, or that `ToOffsets` names. Raises
    ActiveGroupError, NoCommitError, and KohortError for offsets that cannot be read, such as those
    of an unknown topic.
    """
    await require_empty(admin, groups)
    committed = await committed_by_all(admin, groups)
    in_scope = None if scope is None else await partitions_of(admin, scope)
    per_group = {
        group: _partitions(group, specification, in_scope, committed[group]) for group in groups
    }
    all_partitions = set().union(*per_group.values())
    ends = await admin.ends(all_partitions)
    if missing := sorted(all_partitions - ends.keys()):
        raise KohortError(
            f"no offsets of {', '.join(map(str, missing))}: unknown partition, or it has no leader"
        )
    offsets_by_time = await _offsets_for_time(admin, specification, all_partitions)
    changes = (
        _change(specification, group, partition_lag, offsets_by_time)
        for group in groups
        for partition_lag in partition_lags(committed[group], ends, per_group[group]).values()
    )
    return ResetPlan(
        specification=str(specification),
        cluster_id=(await admin.cluster.metadata(())).cluster_id,
        made_at_ms=now_ms(),
        changes=tuple(changes),
    )


def _change(
    specification: Specification,
    group: GroupId,
    lag: PartitionLag,
    offsets_by_time: Mapping[TopicPartition, int | None],
) -> OffsetChange:
    new, warning = new_offset(specification, group, lag, offsets_by_time.get(lag.partition))
    return OffsetChange(
        group=group, partition=lag.partition, old=lag.committed, new=new, warning=warning
    )


def _partitions(
    group: GroupId,
    specification: Specification,
    in_scope: Collection[TopicPartition] | None,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
) -> set[TopicPartition]:
    if isinstance(specification, ToOffsets):
        return {partition for owner, partition in specification.offsets if owner == group}
    return set(committed) if in_scope is None else set(in_scope)


async def _offsets_for_time(
    admin: Admin, specification: Specification, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int | None]:
    """The offset of each partition for the time; None if no record is as recent.

    Raises KafkaError.
    """
    if not isinstance(specification, ToTime):
        return {}
    responses = await admin.list_offsets(dict.fromkeys(partitions, specification.at_ms))
    for response in responses.values():
        if isinstance(response, KafkaError):
            raise fresh(response)
    return {
        partition: response.offset
        if isinstance(response, Offset) and response.offset >= 0
        else None
        for partition, response in responses.items()
    }


async def partitions_of(admin: Admin, scope: Scope) -> set[TopicPartition]:
    """All partitions of a scope. Raises KohortError for an unknown topic or partition."""
    described = await admin.describe_topics(list(scope))
    partitions: set[TopicPartition] = set()
    for topic, indexes in scope.items():
        metadata = described.get(topic)
        if metadata is None or isinstance(metadata, KafkaError):
            raise fresh(metadata) if metadata else KohortError(f"no response about topic {topic}")
        existing = {partition.index for partition in metadata.partitions}
        if indexes is not None and (missing := sorted(set(indexes) - existing)):
            raise KohortError(
                f"topic {topic} has partitions 0 to {max(existing)}, not "
                f"{', '.join(map(str, missing))}"
            )
        partitions |= {
            TopicPartition(topic, index) for index in (existing if indexes is None else indexes)
        }
    return partitions


# --- execute


async def execute(admin: Admin, plan: ResetPlan, *, force: bool = False) -> None:
    """Execute a plan, one group after the other, and verify the commits.

    Raises ActiveGroupError, DriftError and KohortError before any change; but if a group gains
    members meanwhile, earlier groups are changed already. Raises NotCommittedError afterwards.
    """
    await check(admin, plan, force=force)
    for group in plan.groups:
        await _execute_group(admin, group, plan.of(group))


async def check(admin: Admin, plan: ResetPlan, *, force: bool = False) -> None:
    """Raise the errors with which `execute` would refuse the plan."""
    await require_empty(admin, plan.groups)
    if not force:
        await require_same_cluster(admin, plan)
    await require_same_topics(admin, plan)
    if not force and (drifts := plan.drift(await committed_by_all(admin, plan.groups))):
        raise DriftError(drifts)


async def _execute_group(admin: Admin, group: GroupId, changes: Sequence[OffsetChange]) -> None:
    to_commit = {change.partition: change.new for change in changes if change.new is not None}
    to_delete = [change.partition for change in changes if change.new is None]
    topic_ids = {
        change.partition: change.topic_id for change in changes if change.topic_id is not None
    }
    problems: dict[TopicPartition, KafkaError | None] = {}
    if to_commit:
        problems |= await _commit(admin, group, to_commit, topic_ids)
    if to_delete:
        problems |= await _delete(admin, group, to_delete)
    await _verify(admin, group, changes, problems)


async def _commit(
    admin: Admin,
    group: GroupId,
    commits: Mapping[TopicPartition, OffsetAndMetadata],
    topic_ids: Mapping[TopicPartition, UUID],
) -> dict[TopicPartition, KafkaError | None]:
    try:
        return await admin.commit(group, commits, topic_ids=topic_ids)
    except KafkaError as error:
        if error.code is not ErrorCode.unknown_member_id:
            raise
        raise ActiveGroupError(
            f"group {group} has got members meanwhile; stop them first, its offsets were not "
            "changed"
        ) from error


async def _delete(
    admin: Admin, group: GroupId, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    try:
        return await admin.delete_offsets(group, partitions)
    except KafkaError as error:
        if error.code is not ErrorCode.group_id_not_found:
            raise
        return {}  # without the group there are no commits


async def _verify(
    admin: Admin,
    group: GroupId,
    changes: Sequence[OffsetChange],
    problems: Mapping[TopicPartition, KafkaError | None],
) -> None:
    committed = (await committed_by_all(admin, [group]))[group]
    wrong = [
        f"{change.partition}: "
        f"{problems.get(change.partition) or f'is {_format(actual)}, not {_format(change.new)}'}"
        for change in changes
        if not _is_same(actual := committed.get(change.partition), change.new)
    ]
    if wrong:
        raise NotCommittedError(
            f"group {group}: {len(wrong)} of {len(changes)} partitions differ from "
            f"the plan: {'; '.join(wrong[:10])}"
        )


def _is_same(actual: OffsetAndMetadata | None, planned: OffsetAndMetadata | None) -> bool:
    """Whether the commit is as planned; brokers before Kafka 2.1 report no leader epoch."""
    if actual is None or planned is None:
        return actual is planned
    return actual in (planned, replace(planned, leader_epoch=NO_EPOCH))


def _format(commit: OffsetAndMetadata | None) -> str:
    if commit is None:
        return "none"
    if commit == OffsetAndMetadata(offset=commit.offset):
        return str(commit.offset)
    return f"{commit.offset} (leader epoch {commit.leader_epoch}, metadata {commit.metadata!r})"


async def committed_by_all(
    admin: Admin, groups: Collection[GroupId]
) -> dict[GroupId, dict[TopicPartition, OffsetAndMetadata]]:
    """All commits of these groups. Raises KohortError."""
    return {
        group: unless_error(offsets) for group, offsets in (await admin.committed(groups)).items()
    }


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
