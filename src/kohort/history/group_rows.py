"""The rows of groups, generations, rebalances, members and assignments.

Rows are dicts of column → value, as in `schema`. `end`: the record that ended it, or `not_ended`,
which makes null ends.
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
_NEVER: Final = -1
"""Offset and time of the end of what has not ended."""


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
    state: GroupState, generation: Generation, end: LogPosition, ended_by: str
) -> dict[str, Any]:
    return _key(state, generation) | {
        "state_time": timestamp(generation.state_time),
        "written": list(map(timestamp, generation.written)),
        "protocol_type": generation.protocol_type,
        "protocol": generation.protocol,
        "leader": generation.leader,
        "members": sorted(generation.members),
        "skipped": generation.skipped,
        "ended": timestamp(end.timestamp),
        "ended_offset": _offset(end),
        "ended_by": ended_by,
        "complete": _is_complete(generation, end),
    }


def rebalance_row(
    state: GroupState,
    rebalance: Rebalance,
    moved: int,
    standstill_ms: int | None,
    end: LogPosition,
) -> dict[str, Any]:
    """`moved`: number of partitions."""
    row = _key(state, rebalance) | {
        "rounds": rebalance.rounds,
        "sync_ms": rebalance.sync_ms,
        "converge_ms": _converge_ms(rebalance, end),
        "ended_offset": _offset(end),
        "complete": _is_complete(rebalance, end),
    }
    if not row["complete"]:
        return row
    row |= {column: [] for column in _DEPARTURES.values()}
    for member_id, how in sorted(rebalance.departures):
        row[_DEPARTURES[how]].append(member_id)
    row["joined"] = sorted(rebalance.joined)
    row["standstill_ms"] = standstill_ms
    if state.type in ("classic", "consumer"):
        row |= state.partitions.change_counts(moved)
    return row


def _converge_ms(rebalance: Rebalance, end: LogPosition) -> int | None:
    """Until all members have reached the epoch, or until the next one."""
    if rebalance.type == "classic":
        return None
    if rebalance.converged is not None:
        return rebalance.converged - rebalance.time
    return None if end.timestamp < 0 else end.timestamp - rebalance.time


def member_row(
    state: GroupState, member: Member, end: LogPosition, ended_by: str | None
) -> dict[str, Any]:
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
        "to": timestamp(end.timestamp),
        "to_offset": _offset(end),
        "ended_by": ended_by if end.is_exact else None,
        "replaces": member.replaces,
        "topics": sorted(set(state.topics_of(member))),
        "assignors": member.assignors,
        "complete": _is_complete(member, end),
    }


def assignment_row(
    state: GroupState,
    tp: TopicPartition,
    owner: Ownership,
    end: LogPosition,
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
        "to": timestamp(end.timestamp),
        "to_offset": _offset(end),
        "generation": owner.generation,
        "pending_from": timestamp(owner.pending_from),
    }


def not_ended(exact_since: int | None) -> LogPosition:
    """The end of what has not ended; `exact_since`: now."""
    return LogPosition(_NEVER, _NEVER, exact_since=exact_since)


def _offset(end: LogPosition) -> int | None:
    return None if end.offset == _NEVER else end.offset


def _is_complete(of: Generation | Rebalance | Member, end: LogPosition) -> bool:
    """Whether nothing is missing from its beginning to its end."""
    since = end.exact_since
    return of.is_complete and since is not None and of.offset >= since


def _key(state: GroupState, of: Generation | Rebalance) -> dict[str, Any]:
    return {
        "group": state.group,
        "life": state.life,
        "type": of.type,
        "generation": of.generation,
        "log_offset": of.offset,
        "time": timestamp(of.time),
    }
