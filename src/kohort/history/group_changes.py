"""Changes of a group that end something, and the rows of what they end.

The two kinds of writes (`classic_writes`, `modern_writes`) decide what has changed. Here the state
is changed accordingly, rows are appended, and commits get their owners.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from kohort.history import departures
from kohort.history.departures import departure, successors
from kohort.history.group_rows import (
    assignment_row,
    generation_row,
    member_row,
    not_ended,
    rebalance_row,
)
from kohort.history.group_state import AWAY, Generation, GroupState, Member, Ownership, Rebalance
from kohort.history.interface import CommitTimes, LogPosition, Owner
from kohort.types import TopicPartition


class NewOwner(NamedTuple):
    """A member that owns a partition after a write."""

    member_id: str
    generation: int
    is_pending: bool = False
    """Whether it has to revoke it."""


class GroupChanges:
    """Changes groups of one log partition."""

    def __init__(
        self, commits: CommitTimes, rows: dict[str, list[dict[str, Any]]], log_partition: int
    ) -> None:
        self._commits = commits
        self._rows = rows
        self._log_partition = log_partition

    # --- generations

    def begin_generation(
        self,
        state: GroupState,
        generation: Generation,
        at: LogPosition,
        *,
        ended_by: str,
        is_round: bool = False,
    ) -> None:
        """The next generation begins, by which the present one ended.

        `is_round`: as another round of the same rebalance, else as a new one.
        """
        if not is_round:
            self.end_rebalance(state, at)
        self.end_generation(state, at, ended_by)
        state.generation = generation
        if is_round and state.rebalance is not None:
            state.rebalance.rounds += 1
        else:
            state.partitions.begin()
            state.rebalance = Rebalance(
                generation.type,
                generation.generation,
                at.offset,
                at.timestamp,
                generation.is_complete,
            )

    def end_generation(self, state: GroupState, end: LogPosition, ended_by: str) -> None:
        if state.generation is not None:
            self._append("generations", generation_row(state, state.generation, end, ended_by))
            state.generation = None

    def end_rebalance(self, state: GroupState, end: LogPosition) -> None:
        rebalance = state.rebalance
        if rebalance is None:
            return
        self._append_rebalance(state, rebalance, end)
        state.rebalance = None

    def _append_rebalance(self, state: GroupState, rebalance: Rebalance, end: LogPosition) -> None:
        has_members = state.generation is not None and state.generation.members
        if not (has_members or rebalance.joined or rebalance.departures):
            return  # The group was created: nobody was a member before nor after.
        moved = state.partitions.moved()
        standstill_ms = self._standstill_ms(state, moved)
        self._append("rebalances", rebalance_row(state, rebalance, len(moved), standstill_ms, end))

    def _standstill_ms(self, state: GroupState, moved: Iterable[TopicPartition]) -> int | None:
        """The longest pause of commits of a partition that moved; None if none has two commits."""
        pauses = []
        for tp in moved:
            before = self._commits.last_before_assigned(state.group, tp)
            after = self._commits.first_since_assigned(state.group, tp)
            if before is not None and after is not None:
                usual = self._commits.usual_gap(state.group, tp) or 0
                pauses.append(max(int(after - before - usual), 0))
        return max(pauses, default=None)

    # --- members

    def replace_members(
        self,
        state: GroupState,
        joined: Iterable[Member],
        departed: Iterable[Member],
        at: LogPosition,
        *,
        removed_at: int,
        session_ms: int,
    ) -> None:
        """Add and remove members. `session_ms`: of members whose records do not have it."""
        joined, departed = list(joined), list(departed)
        heirs = successors(joined, departed)
        owned = self._owned_by(state, {member.member_id for member in departed})
        for member in departed:
            member_id = member.member_id
            if member_id in heirs:
                how = departures.REPLACED
            else:
                timeout = member.session_timeout_ms or session_ms
                how = departure(state, member, owned[member_id], removed_at, timeout, self._commits)
            self._append("members", member_row(state, member, at, how))
            state.members.pop(member_id, None)
            if state.rebalance is not None:
                state.rebalance.departures.append((member_id, how))
        predecessors = {new: old for old, new in heirs.items()}
        state.partitions.replace(heirs)
        for member in joined:
            state.members[member.member_id] = member
            member.replaces = predecessors.get(member.member_id)
            if state.rebalance is not None and member.replaces is None:
                state.rebalance.joined.append(member.member_id)

    def _owned_by(
        self, state: GroupState, member_ids: set[str]
    ) -> dict[str, dict[TopicPartition, Ownership]]:
        owned: dict[str, dict[TopicPartition, Ownership]] = {each: {} for each in member_ids}
        if member_ids:
            for tp, owner in state.partitions.owned.items():
                if owner.member_id in member_ids:
                    owned[owner.member_id][tp] = owner
        return owned

    # --- partitions

    def set_owners(
        self,
        state: GroupState,
        changes: Mapping[TopicPartition, NewOwner | None],
        at: LogPosition,
        former: Mapping[str, Member],
    ) -> None:
        """Partitions that have new owners; `former`: members that were removed in the write."""
        owned, before = state.partitions.owned, state.partitions.before
        named: NewOwner | None = None
        owner = _NOBODY
        for tp, new in changes.items():
            now = owned.get(tp)
            if new is not None and new is not named:  # Partitions of one owner are in a row.
                named, owner = new, _owner(state, new)
            if new is not None and now is not None and now.member_id == new.member_id:
                if new.generation not in (now.generation, AWAY):
                    self._commits.assign(state.group, tp, owner)
                _mark_pending(now, new, at)
                continue
            if now is not None:
                self._append("assignments", assignment_row(state, tp, now, at, former))
                del owned[tp]
            if tp not in before:
                before[tp] = "" if now is None else now.member_id
            if new is not None:
                got = Ownership(new.member_id, at.offset, at.timestamp, new.generation)
                _mark_pending(got, new, at)
                owned[tp] = got
                self._commits.assign(state.group, tp, owner)
            elif now is not None:
                self._commits.assign(state.group, tp, None)

    def rename_topic(self, state: GroupState, topic_id: str, name: str) -> None:
        """Partitions with the id of their topic get its name."""
        owned, before = state.partitions.owned, state.partitions.before
        for tp in [tp for tp in before if tp.topic == topic_id]:
            before[TopicPartition(name, tp.partition)] = before.pop(tp)
        for tp in [tp for tp in owned if tp.topic == topic_id]:
            owner, named = owned.pop(tp), TopicPartition(name, tp.partition)
            if (former := owned.get(named)) is not None:  # Of a former topic of this name.
                end = LogPosition(owner.offset, owner.time)
                self._append("assignments", assignment_row(state, named, former, end, {}))
            owned[named] = owner
            self._commits.assign(state.group, tp, None)
            new = NewOwner(owner.member_id, owner.generation)
            self._commits.assign(state.group, named, _owner(state, new))

    # --- the end

    def end_life(self, state: GroupState, end: LogPosition, ended_by: str) -> None:
        """End everything of a group."""
        self.end_rebalance(state, end)
        self.end_generation(state, end, ended_by)
        self.set_owners(state, dict.fromkeys(state.partitions.owned), end, state.members)
        for member in state.members.values():
            self._append("members", member_row(state, member, end, departures.GROUP_ENDED))
        state.members = {}

    def open_rows(self, state: GroupState, exact_since: int | None) -> None:
        """Append the rows of what has not ended."""
        end = not_ended(exact_since)
        if state.generation is not None:
            self._append("generations", generation_row(state, state.generation, end, "open"))
        if state.rebalance is not None:
            self._append_rebalance(state, state.rebalance, end)
        for member in state.members.values():
            self._append("members", member_row(state, member, end, None))
        for tp, owner in state.partitions.owned.items():
            self._append("assignments", assignment_row(state, tp, owner, end, {}))

    def _append(self, table: str, row: dict[str, Any]) -> None:
        row["log_partition"] = self._log_partition
        self._rows[table].append(row)


_NOBODY: Final = Owner("", "", "", -1)


def _owner(state: GroupState, new: NewOwner) -> Owner:
    member = state.members.get(new.member_id)
    client_id, client_host = (member.client_id, member.client_host) if member else ("", "")
    return Owner(new.member_id, client_id, client_host, new.generation)


def _mark_pending(owner: Ownership, new: NewOwner, at: LogPosition) -> None:
    if not new.is_pending:
        owner.pending_from = None
    elif owner.pending_from is None:
        owner.pending_from = at.timestamp
