"""Resets offsets as Kafka's tool does, but by a plan, with verification and undo.

    plan = await plan_reset(admin, ["orders"], ToTime(at_ms), topics={"orders": None})
    await execute(admin, plan)                   # commits, reads back, compares
    await execute(admin, plan.inverse(now_ms))   # restores the former commits

`execute` refuses a plan before any change: when a group has members, when the cluster is another
one, and when commits differ from the plan's. Only the last two can be forced.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from kohort.client.admin import (
    WITHOUT_MEMBERS,
    Admin,
    GroupDescription,
    PartitionLag,
    partition_lags,
)
from kohort.client.cluster import Offset
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.resets.plan import Drift, OffsetChange, ResetPlan
from kohort.client.resets.specs import Specification, ToOffsets, ToTime, new_offset
from kohort.errors import KafkaError, KohortError, fresh, unless_error
from kohort.types import GroupId, TopicPartition

Scope: TypeAlias = Mapping[str, Collection[int] | None]
"""Topic → its partitions, None for all of them."""


class ActiveGroupError(KohortError):
    """A group has members, and only they may change its offsets; the message names them."""


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
        if drifts := plan.drift(await committed_by_all(admin, plan.groups)):
            raise DriftError(drifts)


async def require_same_cluster(admin: Admin, plan: ResetPlan) -> None:
    """Raises KohortError if the plan was made on another cluster."""
    cluster_id = (await admin.cluster.metadata(())).cluster_id
    if plan.cluster_id is not None and cluster_id is not None and plan.cluster_id != cluster_id:
        raise KohortError(
            f"the plan was made on cluster {plan.cluster_id}, this is {cluster_id}: check "
            "--bootstrap, or use --force"
        )


async def _execute_group(admin: Admin, group: GroupId, changes: Sequence[OffsetChange]) -> None:
    to_commit = {change.partition: change.new for change in changes if change.new is not None}
    to_delete = [change.partition for change in changes if change.new is None]
    problems: dict[TopicPartition, KafkaError | None] = {}
    if to_commit:
        problems |= await admin.commit(group, to_commit)
    if to_delete:
        problems |= await admin.delete_offsets(group, to_delete)
    await _verify(admin, group, changes, problems)


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
        if _format(actual := committed.get(change.partition)) != _format(change.new)
    ]
    if wrong:
        raise NotCommittedError(
            f"group {group}: {len(wrong)} of {len(changes)} partitions differ from "
            f"the plan: {'; '.join(wrong[:10])}"
        )


def _format(offset: OffsetAndMetadata | None) -> str:
    return "none" if offset is None else str(offset.offset)


async def require_empty(admin: Admin, groups: Sequence[GroupId]) -> None:
    """Raises ActiveGroupError for groups with members, KohortError if a group cannot be
    described."""
    active = []
    for group, response in (await admin.describe_groups(groups)).items():
        described = unless_error(response)
        if described.state not in WITHOUT_MEMBERS:
            active.append(_active(group, described))
    if active:
        raise ActiveGroupError("; ".join(active))


def _active(group: GroupId, described: GroupDescription) -> str:
    return (
        f"group {group} is {described.state} with {describe_members(described)}; stop them "
        "first, nothing was changed"
    )


def describe_members(described: GroupDescription) -> str:
    """The number of members, and the names of the first few."""
    names = [member.name for member in described.members]
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"{len(names)} member{'' if len(names) == 1 else 's'}: {listed or 'joining now'}"


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
