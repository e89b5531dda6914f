"""How a member ended, inferred from the time between its last commit and its removal.

The log says that a member is gone, not why. The first that fits:

| | |
|---|---|
| its instance is present under another member id | replaced |
| the gap reaches the rebalance timeout, which is longer than the session | out of the poll loop |
| the gap reaches the session timeout | vanished |
| the gap is shorter | left |
| it has not committed, or the coordinator may have been down | unknown |

A coordinator that was down restarts all sessions, so that members that left meanwhile seem to
vanish. Then the whole log partition is silent between the last commit and the removal, for longer
than the timeout, a usual gap between commits and a heartbeat interval take.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kohort.history.group_state import GroupState, Member, Ownership
from kohort.history.interface import CommitTimes
from kohort.types import TopicPartition

REPLACED: Final = "replaced"
OUT_OF_POLL_LOOP: Final = "out of the poll loop"
VANISHED: Final = "vanished"
LEFT: Final = "left"
UNKNOWN: Final = "unknown"
GROUP_ENDED: Final = "group ended"


def departure(
    state: GroupState,
    member: Member,
    owned: Mapping[TopicPartition, Ownership],
    removed_at: int,
    session_ms: int,
    commits: CommitTimes,
) -> str:
    """How a member ended that was not replaced. `owned`: its partitions; times in ms."""
    if member.is_away:
        return LEFT  # A static member that said so, and did not return.
    last, usual_gap = _last_commit(state.group, owned, commits)
    if last is None:
        return UNKNOWN
    gap = removed_at - last
    if gap < session_ms:
        return LEFT
    timeout_ms = member.rebalance_timeout_ms
    is_late = timeout_ms is not None and gap >= timeout_ms > session_ms
    limit_ms = timeout_ms if timeout_ms is not None and is_late else session_ms
    longest_ms = limit_ms + session_ms // 3 + usual_gap
    if gap > longest_ms and commits.was_silent(last, removed_at):
        return UNKNOWN
    return OUT_OF_POLL_LOOP if is_late else VANISHED


def _last_commit(
    group: str, owned: Mapping[TopicPartition, Ownership], commits: CommitTimes
) -> tuple[int | None, float]:
    """Time of the member's last commit, and the usual gap between its commits in ms."""
    last, usual_gap = None, 0.0
    for tp, owner in owned.items():
        time = commits.last_commit(group, tp)
        if time is not None and time >= owner.time and (last is None or time > last):
            last, usual_gap = time, commits.usual_gap(group, tp) or 0.0
    return last, usual_gap


def successors(joining: Iterable[Member], leaving: Iterable[Member]) -> dict[str, str]:
    """Member id of a static member → member id under which its instance has joined."""
    former = {
        member.instance_id: member.member_id for member in leaving if member.instance_id is not None
    }
    return {
        former[member.instance_id]: member.member_id
        for member in joining
        if member.instance_id in former
    }
