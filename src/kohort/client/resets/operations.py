"""Resets offsets as Kafka's tool does, but by a plan, with verification and undo.

    plan = await plan_reset(admin, ["orders"], ToTime(at_ms), topics={"orders": None})
    await execute(admin, plan)                   # commits, reads back, compares
    await execute(admin, plan.inverse(now_ms))   # restores the commits of before

`execute` refuses before it changes anything: when a group has members, when the cluster is another
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
    """A group has members, and only they may change its offsets; the text names them."""


class DriftError(KohortError):
    """The groups' commits differ from those in the plan."""

    def __init__(self, drifts: Sequence[Drift]) -> None:
        super().__init__(
            f"{len(drifts)} of the plan's partitions no longer stand where they did: "
            "nothing was changed; "
            "look at them with `kohort groups diff`, or insist with --force"
        )
        self.drifts = tuple(drifts)


class NotCommittedError(KohortError):
    """After the reset the commits are not those of the plan."""


# --- plan


async def plan_reset(
    admin: Admin, groups: Sequence[GroupId], wanted: Specification, scope: Scope | None = None
) -> ResetPlan:
    """Plan a reset of groups without members; nothing is changed.

    `scope` None: all partitions that a group has committed, or that `ToOffsets` names. Raises
    ActiveGroupError, NoCommitError, and KohortError for what cannot be read, such as an unknown
    topic.
    """
    await require_empty(admin, groups)
    committed = await committed_by_all(admin, groups)
    in_scope = None if scope is None else await partitions_of(admin, scope)
    per_group = {group: _partitions(group, wanted, in_scope, committed[group]) for group in groups}
    every = set().union(*per_group.values())
    ends = await admin.ends(every)
    if missing := sorted(every - ends.keys()):
        raise KohortError(
            f"no offsets of {', '.join(map(str, missing))}: unknown partition, or it has no leader"
        )
    found = await _offsets_for_time(admin, wanted, every)
    changes = (
        _change(wanted, group, partition_lag, found)
        for group in groups
        for partition_lag in partition_lags(committed[group], ends, per_group[group]).values()
    )
    return ResetPlan(
        specification=str(wanted),
        cluster_id=(await admin.cluster.metadata(())).cluster_id,
        made_at_ms=now_ms(),
        changes=tuple(changes),
    )


def _change(
    wanted: Specification,
    group: GroupId,
    at: PartitionLag,
    found: Mapping[TopicPartition, int | None],
) -> OffsetChange:
    new, warning = new_offset(wanted, group, at, found.get(at.partition))
    return OffsetChange(
        group=group, partition=at.partition, old=at.committed, new=new, warning=warning
    )


def _partitions(
    group: GroupId,
    wanted: Specification,
    in_scope: Collection[TopicPartition] | None,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
) -> set[TopicPartition]:
    if isinstance(wanted, ToOffsets):
        return {partition for of, partition in wanted.offsets if of == group}
    return set(committed) if in_scope is None else set(in_scope)


async def _offsets_for_time(
    admin: Admin, wanted: Specification, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int | None]:
    """The offset for the time of each partition; None if no record is as recent.

    Raises KafkaError.
    """
    if not isinstance(wanted, ToTime):
        return {}
    responses = await admin.list_offsets(dict.fromkeys(partitions, wanted.at_ms))
    for response in responses.values():
        if isinstance(response, KafkaError):
            raise fresh(response)
    return {
        each: response.offset if isinstance(response, Offset) and response.offset >= 0 else None
        for each, response in responses.items()
    }


async def partitions_of(admin: Admin, scope: Scope) -> set[TopicPartition]:
    """All partitions of a scope. Raises KohortError for an unknown topic or partition."""
    described = await admin.describe_topics(list(scope))
    found: set[TopicPartition] = set()
    for topic, wanted in scope.items():
        metadata = described.get(topic)
        if metadata is None or isinstance(metadata, KafkaError):
            raise fresh(metadata) if metadata else KohortError(f"no response about topic {topic}")
        there = {each.index for each in metadata.partitions}
        if wanted is not None and (unknown := sorted(set(wanted) - there)):
            raise KohortError(
                f"topic {topic} has partitions 0 to {max(there)}, not "
                f"{', '.join(map(str, unknown))}"
            )
        found |= {TopicPartition(topic, index) for index in (there if wanted is None else wanted)}
    return found


# --- execute


async def execute(admin: Admin, plan: ResetPlan, *, force: bool = False) -> None:
    """Carry out a plan, one group after the other, and verify the commits.

    Raises ActiveGroupError, DriftError and KohortError before anything is changed; only a group
    that gains members meanwhile is found after changes to earlier groups. Raises NotCommittedError
    after.
    """
    await check(admin, plan, force=force)
    for group in plan.groups:
        await _execute_one(admin, group, plan.of(group))


async def check(admin: Admin, plan: ResetPlan, *, force: bool = False) -> None:
    """Raise the errors with which `execute` would refuse the plan."""
    await require_empty(admin, plan.groups)
    if not force:
        await require_same_cluster(admin, plan)
        if drifts := plan.drift(await committed_by_all(admin, plan.groups)):
            raise DriftError(drifts)


async def require_same_cluster(admin: Admin, plan: ResetPlan) -> None:
    """Raises KohortError when the plan was made on another cluster."""
    here = (await admin.cluster.metadata(())).cluster_id
    if plan.cluster_id is not None and here is not None and plan.cluster_id != here:
        raise KohortError(
            f"the plan was made on cluster {plan.cluster_id}, this is {here}: check "
            "--bootstrap, or insist with --force"
        )


async def _execute_one(admin: Admin, group: GroupId, changes: Sequence[OffsetChange]) -> None:
    to_commit = {each.partition: each.new for each in changes if each.new is not None}
    to_delete = [each.partition for each in changes if each.new is None]
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
        f"{each.partition}: "
        f"{problems.get(each.partition) or f'is {_told(found)}, not {_told(each.new)}'}"
        for each in changes
        if _told(found := committed.get(each.partition)) != _told(each.new)
    ]
    if wrong:
        raise NotCommittedError(
            f"group {group}: {len(wrong)} of {len(changes)} partitions are not as "
            f"wanted: {'; '.join(wrong[:10])}"
        )


def _told(of: OffsetAndMetadata | None) -> str:
    return "none" if of is None else str(of.offset)


async def require_empty(admin: Admin, groups: Sequence[GroupId]) -> None:
    """Raises ActiveGroupError for groups with members, KohortError if that cannot be found out."""
    active = []
    for group, response in (await admin.describe_groups(groups)).items():
        described = unless_error(response)
        if described.state not in WITHOUT_MEMBERS:
            active.append(_active(group, described))
    if active:
        raise ActiveGroupError("; ".join(active))


def _active(group: GroupId, described: GroupDescription) -> str:
    return (
        f"group {group} is {described.state} with {members_told(described)}; stop them "
        "first, nothing was changed"
    )


def members_told(described: GroupDescription) -> str:
    """Number and names of the members, the first few by name."""
    names = [member.name for member in described.members]
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"{len(names)} member{'' if len(names) == 1 else 's'}: {shown or 'joining now'}"


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
