"""What refuses a plan: members, another cluster, topics that were recreated."""

from collections.abc import Sequence

from kohort.client.admin import WITHOUT_MEMBERS, Admin, GroupDescription
from kohort.client.resets.plan import ResetPlan
from kohort.errors import KafkaError, KohortError, unless_error
from kohort.types import GroupId


class ActiveGroupError(KohortError):
    """A group has members, and only they may change its offsets; the message names them."""


class RecreatedTopicError(KohortError):
    """Topics of the plan were deleted and created again: its offsets are not theirs."""


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


async def require_same_cluster(admin: Admin, plan: ResetPlan) -> None:
    """Raises KohortError if the plan was made on another cluster."""
    cluster_id = (await admin.cluster.metadata(())).cluster_id
    if plan.cluster_id is not None and cluster_id is not None and plan.cluster_id != cluster_id:
        raise KohortError(
            f"the plan was made on cluster {plan.cluster_id}, this is {cluster_id}: check "
            "--bootstrap, or use --force"
        )


async def require_same_topics(admin: Admin, plan: ResetPlan) -> None:
    """Raises RecreatedTopicError if topics have other ids than in the plan."""
    ids = {
        change.partition.topic: change.topic_id
        for change in plan.changes
        if change.topic_id is not None and change.new is not None
    }
    described = await admin.describe_topics(sorted(ids)) if ids else {}
    recreated = [
        name
        for name, topic in described.items()
        if not isinstance(topic, KafkaError) and topic.is_another(ids[name])
    ]
    if recreated:
        raise RecreatedTopicError(
            f"{', '.join(sorted(recreated))}: recreated since the plan was made, and its offsets "
            "are those of the former topic; nothing was changed, make another plan"
        )
