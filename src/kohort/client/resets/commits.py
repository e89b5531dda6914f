"""Plans of given commits: those of a group at an earlier time, or of another cluster.

A commit is set with its leader epoch and metadata, and one that shall not be there is deleted. An
offset outside the log becomes its nearest end, with a warning and without the leader epoch.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, TypeAlias
from uuid import UUID

from kohort.client.admin import Admin
from kohort.client.cluster import NO_EPOCH, NO_ID
from kohort.client.offset_and_metadata import OffsetAndMetadata
from kohort.client.resets.checks import require_empty
from kohort.client.resets.operations import committed_by_all, now_ms
from kohort.client.resets.plan import OffsetChange, ResetPlan
from kohort.errors import ErrorCode, KafkaError, KohortError, fresh
from kohort.types import GroupId, TopicPartition

Commits: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata | None]
"""Partition → the commit that shall be there; None: none."""
Ends: TypeAlias = Mapping[TopicPartition, tuple[int, int]]
"""Partition → log start and end offset."""
_NO_IDS: Final[Mapping[str, UUID]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TopicIds:
    """The topics of a cluster, by name."""

    ids: Mapping[str, UUID | None]
    """None: the broker does not report ids."""
    missing: Collection[str] = field(default_factory=tuple)
    """Topics that do not exist."""

    def recreated(self, expected: Mapping[str, UUID]) -> list[str]:
        """The topics that exist with another id than the expected one."""
        return sorted(
            topic
            for topic, topic_id in expected.items()
            if self.ids.get(topic) is not None and self.ids[topic] != topic_id
        )


async def topic_ids(admin: Admin, topics: Collection[str]) -> TopicIds:
    """The ids of these topics. Raises KohortError, but not for topics that do not exist."""
    described = await admin.describe_topics(sorted(topics)) if topics else {}
    ids: dict[str, UUID | None] = {}
    missing: list[str] = []
    for name, topic in described.items():
        if not isinstance(topic, KafkaError):
            ids[name] = None if topic.id == NO_ID else topic.id
        elif topic.code is ErrorCode.unknown_topic_or_partition:
            missing.append(name)
        else:
            raise fresh(topic)
    return TopicIds(ids, sorted(missing))


async def plan_commits(
    admin: Admin,
    commits: Mapping[GroupId, Commits],
    *,
    specification: str,
    ids: Mapping[str, UUID] = _NO_IDS,
) -> ResetPlan:
    """Plan to set these commits of groups without members; nothing is changed.

    `ids`: of topics that shall not be recreated before the plan is executed. Raises
    ActiveGroupError, and KohortError for partitions that do not exist or have no leader.
    """
    groups = list(commits)
    await require_empty(admin, groups)
    current = await committed_by_all(admin, groups)
    to_set = {
        tp for of_group in commits.values() for tp, commit in of_group.items() if commit is not None
    }
    ends = await admin.ends(to_set)
    if missing := sorted(to_set - ends.keys()):
        names = ", ".join(map(str, missing[:10]))
        raise KohortError(f"no offsets of {names}: unknown partition, or it has no leader")
    return ResetPlan(
        specification=specification,
        cluster_id=(await admin.cluster.metadata(())).cluster_id,
        made_at_ms=now_ms(),
        changes=tuple(
            change
            for group in groups
            for change in changes_to(group, commits[group], current[group], ends, ids)
        ),
    )


def changes_to(
    group: GroupId,
    commits: Commits,
    current: Mapping[TopicPartition, OffsetAndMetadata],
    ends: Ends,
    ids: Mapping[str, UUID] = _NO_IDS,
) -> list[OffsetChange]:
    """The change of each partition; none where there is no commit and shall be none."""
    changes = []
    for tp, commit in sorted(commits.items()):
        old = current.get(tp)
        new, warning = (None, "") if commit is None else _within(commit, *ends[tp])
        if old is not None or new is not None:
            changes.append(
                OffsetChange(
                    group=group,
                    partition=tp,
                    old=old,
                    new=new,
                    warning=warning,
                    topic_id=ids.get(tp.topic),
                )
            )
    return changes


def _within(commit: OffsetAndMetadata, start: int, end: int) -> tuple[OffsetAndMetadata, str]:
    """The commit within the log, and a warning if that is another offset."""
    if start <= commit.offset <= end:
        return commit, ""
    offset = start if commit.offset < start else end
    where = "before the log's start" if commit.offset < start else "beyond the log's end"
    warning = f"offset {commit.offset} is {where}; set to {offset}"
    return replace(commit, offset=offset, leader_epoch=NO_EPOCH), warning
