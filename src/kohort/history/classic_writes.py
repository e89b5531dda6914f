"""Generations of classic groups, from their records.

A record is written when the group is created (generation 0, without members), when the leader has
synced a generation, when the last member is gone, and when a static member is replaced (with the
same generation). Its `state_time` is the end of the join phase, its own time the end of the sync.

A member that has to revoke partitions before others get them (the cooperative protocol) joins again
at once. That generation is another *round* of the same rebalance: it has the same members, and
assigns partitions that the round before took from their owners without giving them to anybody.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kohort.history.group_changes import GroupChanges, NewOwner
from kohort.history.group_state import Generation, GroupState, Member, skipped
from kohort.history.interface import LogPosition
from kohort.types import TopicPartition

TYPE: Final = "classic"
FIRST_GENERATION: Final = 1


def write_classic(
    state: GroupState,
    content: Mapping[str, Any],
    at: LogPosition,
    changes: GroupChanges,
    session_ms: int,
) -> None:
    """Apply the record of a generation.

    `content`: as in `schema.GROUPS`. `session_ms`: of members that were not classic so far.
    """
    converted = state.type not in (None, TYPE)
    if converted:
        state.end_epochs()
    generation, before = content["generation"], state.generation
    state_time = None if content["state_time"] is None else content["state_time"] // 1_000
    sent = {member["member_id"]: member for member in content["members"]}
    owners = _owners(content["members"], generation)
    state.type = TYPE
    is_same = before is not None and not converted and before.generation == generation
    if before is not None and is_same:
        before.written.append(at.timestamp)
        before.members = list(sent)
        before.leader, before.protocol = content["leader"], content["protocol"]
    else:
        begun = _generation(state, content, state_time, at)
        may_be_round = not converted and _may_be_round(state, begun, at)
        is_round = may_be_round and _gives_what_was_taken(state, owners)
        begins_unknown = may_be_round and not (state.rebalance and state.rebalance.is_complete)
        ended_by = "converted" if converted else "next" if sent else "empty"
        changes.begin_generation(state, begun, at, ended_by=ended_by, is_round=is_round)
        assert state.rebalance is not None
        if begins_unknown:
            state.rebalance.is_complete = False
        if sent and not converted and state_time is not None:
            synced = max(at.timestamp - state_time, 0)
            state.rebalance.sync_ms = (state.rebalance.sync_ms or 0) + synced
    former = {id_: member for id_, member in state.members.items() if id_ not in sent}
    for id_, member in state.members.items():
        if id_ in sent:
            _update(member, sent[id_])
    joined = [
        _update(_new(id_, at), each) for id_, each in sent.items() if id_ not in state.members
    ]
    changes.replace_members(
        state,
        joined,
        former.values(),
        at,
        removed_at=at.timestamp if is_same or state_time is None else state_time,
        session_ms=session_ms,
    )
    released: dict[TopicPartition, NewOwner | None] = {
        tp: None for tp in state.partitions.owned if tp not in owners
    }
    changes.set_owners(state, {**released, **owners}, at, former)
    state.has_gap = False
    state.empty_since = None if sent else state_time


def _generation(
    state: GroupState, content: Mapping[str, Any], state_time: int | None, at: LogPosition
) -> Generation:
    generation = content["generation"]
    return Generation(
        TYPE,
        generation,
        at.offset,
        at.timestamp,
        at.is_exact and not state.has_gap,
        state_time=state_time,
        written=[at.timestamp],
        protocol_type=content["protocol_type"],
        protocol=content["protocol"],
        leader=content["leader"],
        members=[member["member_id"] for member in content["members"]],
        skipped=skipped(generation, state.generation, FIRST_GENERATION),
    )


def _may_be_round(state: GroupState, begun: Generation, at: LogPosition) -> bool:
    """Whether a generation follows the one before as another round does."""
    before = state.generation
    if before is None or state.rebalance is None or not begun.members:
        return False
    if begun.generation != before.generation + 1 or set(begun.members) != set(before.members):
        return False
    joined_at = at.timestamp if begun.state_time is None else begun.state_time
    # Members hear of the next round by a heartbeat, of which a session has at least three.
    longest_ms = max(state.members[id_].session_timeout_ms or 0 for id_ in begun.members)
    return joined_at - before.written[-1] <= longest_ms


def _gives_what_was_taken(state: GroupState, owners: Mapping[TopicPartition, NewOwner]) -> bool:
    """Whether a partition has an owner again that it lost in the open rebalance."""
    partitions = state.partitions
    return any(
        owner and tp not in partitions.owned and tp in owners
        for tp, owner in partitions.before.items()
    )


def _owners(
    members: Sequence[Mapping[str, Any]], generation: int
) -> dict[TopicPartition, NewOwner]:
    owners = {}
    for member in members:
        if member["assignment"] is not None:
            owner = NewOwner(member["member_id"], generation)
            for each in member["assignment"]["partitions"]:
                owners[TopicPartition(each["topic"], each["partition"])] = owner
    return owners


def _new(member_id: str, at: LogPosition) -> Member:
    return Member(member_id, at.offset, at.timestamp, at.is_exact)


def _update(member: Member, sent: Mapping[str, Any]) -> Member:
    subscription = sent["subscription"] or {}
    member.client_id, member.client_host = sent["client_id"], sent["client_host"]
    member.instance_id = sent["instance_id"]
    member.rack = subscription.get("rack")
    member.rebalance_timeout_ms = sent["rebalance_timeout_ms"]
    member.session_timeout_ms = sent["session_timeout_ms"]
    member.topics = tuple(subscription.get("topics") or ())
    return member
