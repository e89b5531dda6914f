"""The rebalances of a consumer group, for the journal.

A rebalance begins with a bump of the group epoch, and includes the causes of all further bumps. It
ends when every member has reached the target, or when no member is left. Its join phase lasts until
the target is computed; the sync phase is the reconciliation of the members.
"""

from kohort.coordinator.consumer.change import MemberChange
from kohort.coordinator.consumer.group import (
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    OpenRebalance,
)
from kohort.coordinator.journal import Cause, Rebalance
from kohort.coordinator.rounds import MAX_CAUSES
from kohort.coordinator.step import Step


def note(group: ConsumerGroup, cause: Cause, step: Step) -> None:
    """Note a bump of the group epoch."""
    if group.rebalance is None:
        group.rebalance = OpenRebalance(step.timestamp)
    if len(group.rebalance.causes) < MAX_CAUSES:
        group.rebalance.causes.append(cause)
    else:
        group.rebalance.more_causes += 1


def note_target(group: ConsumerGroup, step: Step) -> None:
    """Note that the target was computed."""
    if group.rebalance is not None:
        group.rebalance.assigned = step.timestamp


def end_if_stable(
    change: MemberChange, member: ConsumerMember, epochs: tuple[int, int], step: Step
) -> None:
    """End the rebalance if all members are at the target, with this member's new assignment.

    `epochs`: group epoch and assignment epoch after this request.
    """
    group, (group_epoch, target_epoch) = change.group, epochs
    if group.rebalance is None or group_epoch != target_epoch:
        return
    previous = group.members.get(change.replaced or change.member_id)
    goal = MemberState.STABLE, target_epoch
    others = group.standings[goal] - (previous is not None and _standing(previous) == goal)
    if _standing(member) == goal and others == len(group.members) - (previous is not None):
        ids = dict.fromkeys((*group.members, member.member_id))
        if change.replaced is not None:
            del ids[change.replaced]
        end(group, target_epoch, "stable", tuple(ids), step)


def end(
    group: ConsumerGroup, epoch: int, outcome: str, members: tuple[str, ...], step: Step
) -> None:
    """Write the journal entry."""
    rebalance, group.rebalance = group.rebalance, None
    if rebalance is None:
        return
    step.journal_rebalance(
        Rebalance(
            group=group.id,
            type=group.TYPE,
            generation=epoch,
            causes=tuple(rebalance.causes),
            more_causes=rebalance.more_causes,
            outcome=outcome,
            started=rebalance.started,
            joined=rebalance.assigned,
            ended=step.timestamp,
            members=members,
        )
    )


def _standing(member: ConsumerMember) -> tuple[int, int]:
    return member.current.state, member.current.epoch
