"""The rows of groups, generations, rebalances, members and assignments.

Rows are dicts of column → value, as in `schema`. A row of something that has not ended has null
ends.
"""

from collections.abc import Mapping
from typing import Any, Final

from kohort.history import departures
from kohort.history.group_records import GroupRecord, timestamp
from kohort.history.group_state import Generation, GroupState, Member, Ownership, Rebalance
from kohort.history.interface import LogPosition
from kohort.types import TopicPartition

_DEPARTURES: Final = {
    departures.LEFT: "left",
    departures.VANISHED: "vanished",
    departures.OUT_OF_POLL_LOOP: "out_of_poll_loop",
    departures.REPLACED: "replaced",
    departures.UNKNOWN: "unknown",
}
"""How a member ended → column of rebalances."""


def record_row(record: GroupRecord, at: LogPosition, life: int | None) -> dict[str, Any]:
    """The row of `groups` of a record, without its bytes."""
    return {
        "log_offset": at.offset,
        "time": timestamp(at.timestamp),
        "log_leader_epoch": at.leader_epoch,
        "batch_offset": at.batch_offset,
        "producer_id": at.producer_id,
        "producer_epoch": at.producer_epoch,
        "in_force": at.offset,
        "type": record.kind,
        "version": record.version,
        "group": record.group,
        "life": life,
        "error": record.error,
        record.kind: record.content,
    }


def generation_row(
    state: GroupState, generation: Generation, end: LogPosition | None, ended_by: str
) -> dict[str, Any]:
    return _key(state, generation) | {
        "state_time": timestamp(generation.state_time),
        "written": list(map(timestamp, generation.written)),
        "protocol_type": generation.protocol_type,
        "protocol": generation.protocol,
        "leader": generation.leader,
        "members": sorted(generation.members),
        "skipped": generation.skipped,
        "ended": None if end is None else timestamp(end.timestamp),
        "ended_offset": None if end is None else end.offset,
        "ended_by": ended_by,
        "complete": generation.is_complete,
    }


def rebalance_row(
    state: GroupState,
    rebalance: Rebalance,
    moved: int,
    standstill_ms: int | None,
    end: LogPosition | None,
) -> dict[str, Any]:
    """`moved`: number of partitions."""
    row = _key(state, rebalance) | {
        "rounds": rebalance.rounds,
        "sync_ms": rebalance.sync_ms,
        "converge_ms": _converge_ms(rebalance, end),
        "ended_offset": None if end is None else end.offset,
        "complete": rebalance.is_complete,
    }
    if not rebalance.is_complete:
        return row
    row |= {column: [] for column in _DEPARTURES.values()}
    for member_id, how in sorted(rebalance.departures):
        row[_DEPARTURES[how]].append(member_id)
    row["joined"] = sorted(rebalance.joined)
    row["standstill_ms"] = standstill_ms
    if state.type in ("classic", "consumer"):
        row |= state.partitions.change_counts(moved)
    return row


def _converge_ms(rebalance: Rebalance, end: LogPosition | None) -> int | None:
    """Until all members have reached the epoch, or until the next one."""
    if rebalance.type == "classic":
        return None
    if rebalance.converged is not None:
        return rebalance.converged - rebalance.time
    return None if end is None or end.timestamp < 0 else end.timestamp - rebalance.time


def member_row(
    state: GroupState, member: Member, end: LogPosition | None, ended_by: str | None
) -> dict[str, Any]:
    is_complete = member.is_complete and (end is None or end.is_complete)
    return {
        "group": state.group,
        "life": state.life,
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "instance_id": member.instance_id,
        "rack": member.rack,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "from": timestamp(member.time),
        "from_offset": member.offset,
        "to": None if end is None else timestamp(end.timestamp),
        "to_offset": None if end is None else end.offset,
        "ended_by": ended_by if end is None or end.is_complete else None,
        "replaces": member.replaces,
        "complete": is_complete,
    }


def assignment_row(
    state: GroupState,
    tp: TopicPartition,
    owner: Ownership,
    end: LogPosition | None,
    former: Mapping[str, Member],
) -> dict[str, Any]:
    """`former`: members that were just removed."""
    member = state.members.get(owner.member_id) or former.get(owner.member_id)
    return {
        "group": state.group,
        "life": state.life,
        "topic": tp.topic,
        "partition": tp.partition,
        "from": timestamp(owner.time),
        "from_offset": owner.offset,
        "member_id": owner.member_id,
        "client_id": None if member is None else member.client_id,
        "client_host": None if member is None else member.client_host,
        "to": None if end is None else timestamp(end.timestamp),
        "to_offset": None if end is None else end.offset,
        "generation": owner.generation,
        "pending_from": None if owner.pending_from is None else timestamp(owner.pending_from),
    }


def _key(state: GroupState, of: Generation | Rebalance) -> dict[str, Any]:
    return {
        "group": state.group,
        "life": state.life,
        "type": of.type,
        "generation": of.generation,
        "log_offset": of.offset,
        "time": timestamp(of.time),
    }
