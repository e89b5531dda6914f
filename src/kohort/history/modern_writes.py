"""Epochs of consumer groups (KIP-848), and of share and streams groups, from their records.

| | record | |
|---|---|---|
| epoch | 3, 11, 17 | the group epoch: a rebalance begins |
| member | 5, 10, 19 | a member joins, or sends other fields; T: it is gone |
| target | 6, 12, 20 | epoch of the target assignment |
| current | 8, 14, 22 | epoch, state and partitions of a member |

A write has one epoch at most, and what changes its members comes before the epoch. A partition is
its owner's from the record that assigns it to the one in which it is neither assigned nor to be
revoked. Share groups have several owners per partition, and tasks of streams groups are no
partitions: they have no owners here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kohort.history.group_changes import GroupChanges, NewOwner
from kohort.history.group_records import GroupRecord
from kohort.history.group_state import (
    AWAY,
    Current,
    Generation,
    GroupState,
    IdPartition,
    Member,
    Ownership,
    skipped,
)
from kohort.history.interface import LogPosition
from kohort.history.topic_names import TopicNames
from kohort.types import TopicPartition

FIRST_EPOCH: Final = 2
"""Epoch of the first record of a group: the one before has none."""
_OWNING: Final = "consumer"
"""Type of groups whose partitions have one owner."""


class ModernWrite:
    """The records of one write."""

    def __init__(self, state: GroupState, protocol: str, names: TopicNames) -> None:
        """`protocol`: consumer | share | streams, by which an earlier type is converted."""
        self.protocol = protocol
        self._state = state
        self._names = names
        self._converts = state.type not in (None, protocol)
        state.type = protocol
        self._joined: dict[str, Member] = {}
        self._departed: dict[str, Member] = {}
        if self._converts:
            state.empty_since = None
            # Members that go on have a record each.
            self._departed = dict(state.members)
        self._held: dict[str, tuple[IdPartition, ...]] = {}
        """Partitions of each member that has another assignment, before the write."""
        self._epoch: tuple[int, LogPosition] | None = None

    def apply(self, record: GroupRecord, at: LogPosition) -> None:
        """Apply a record of the group's own type."""
        content = record.content or {}
        member_id = record.member_id
        match record.kind:
            case "epoch" if not record.is_tombstone:
                self._epoch = content["epoch"], at
            case "member" if member_id is not None:
                self._member(member_id, None if record.is_tombstone else content, at)
            case "current" if member_id is not None:
                self._current(member_id, None if record.is_tombstone else content, at)
            case "target" if member_id is None and not record.is_tombstone:
                self._target(content, at)
            case "other" if member_id is not None:
                self._regex(member_id, record.regex_topics)

    def _member(self, member_id: str, content: Mapping[str, Any] | None, at: LogPosition) -> None:
        state = self._state
        if content is None:
            self._joined.pop(member_id, None)
            if member_id in state.members:
                self._departed[member_id] = state.members[member_id]
            self._set_current(member_id, None)
            return
        self._departed.pop(member_id, None)
        _update(self._get_or_join(member_id, at), content)

    def _get_or_join(self, member_id: str, at: LogPosition) -> Member:
        member = self._state.members.get(member_id) or self._joined.get(member_id)
        if member is None:
            member = Member(member_id, at.offset, at.timestamp, at.is_exact)
            self._joined[member_id] = member
        return member

    def _current(self, member_id: str, content: Mapping[str, Any] | None, at: LogPosition) -> None:
        if content is None:
            self._set_current(member_id, None)
            return
        # After compaction, a member may follow its assignment.
        self._get_or_join(member_id, at).is_away = content["epoch"] == AWAY
        self._departed.pop(member_id, None)
        current = Current(
            content["epoch"],
            content["state"],
            _id_partitions(content["assigned"]),
            _id_partitions(content["pending"]),
        )
        self._set_current(member_id, current)

    def _set_current(self, member_id: str, current: Current | None) -> None:
        before = self._state.currents.get(member_id)
        self._held.setdefault(member_id, before.held if before is not None else ())
        self._state.set_current(member_id, current)

    def _target(self, content: Mapping[str, Any], at: LogPosition) -> None:
        state = self._state
        state.target_epoch = content["epoch"]
        time = content["target_time"]
        state.target_time = at.timestamp if time is None else time // 1_000

    def _regex(self, regex: str, topics: Sequence[str] | None) -> None:
        if topics is None:
            self._state.regexes.pop(regex, None)
        else:
            self._state.regexes[regex] = tuple(topics)

    # --- the end

    def end(self, at: LogPosition, changes: GroupChanges, session_ms: int) -> None:
        """Decide what the write means. `at`: its last record."""
        state = self._state
        if self._epoch is not None:
            epoch, at = self._epoch
            begun = self._generation(epoch, at)
            ended_by = "converted" if self._converts else "next" if begun.members else "empty"
            changes.begin_generation(state, begun, at, ended_by=ended_by)
        elif self._converts:
            changes.end_rebalance(state, at)
            changes.end_generation(state, at, "converted")
        elif state.generation is not None and (self._joined or self._departed):
            state.generation.members = self._members()
        former = dict(self._departed)
        changes.replace_members(
            state,
            self._joined.values(),
            former.values(),
            at,
            removed_at=at.timestamp,
            session_ms=session_ms,
        )
        for member_id in former:
            self._set_current(member_id, None)
        if state.type == _OWNING:
            changes.set_owners(state, self._owners(), at, former)
        state.has_gap = state.has_gap and self._epoch is None
        generation, rebalance = state.generation, state.rebalance
        if rebalance is not None and self._converts and self._names.are_missing(state.group):
            rebalance.is_complete = False  # The same partitions have other names.
        if generation is not None and state.target_epoch == generation.generation:
            generation.state_time = state.target_time
        if rebalance is not None and rebalance.converged is None and state.has_converged:
            rebalance.converged = at.timestamp

    def _members(self) -> list[str]:
        """The members after the write."""
        stay = [each for each in self._state.members if each not in self._departed]
        return [*stay, *self._joined]

    def _generation(self, epoch: int, at: LogPosition) -> Generation:
        state, members, before = self._state, self._members(), self._state.generation
        continues = self._converts and before is not None
        return Generation(
            state.type or "",
            epoch,
            at.offset,
            at.timestamp,
            at.is_exact and not state.has_gap,
            written=[at.timestamp],
            protocol_type=state.type,
            protocol=self._assignor(members),
            members=members,
            skipped=0 if continues else skipped(epoch, before, FIRST_EPOCH),
        )

    def _assignor(self, members: list[str]) -> str | None:
        """The assignor that most members name; None: none does, so it is the broker's first."""
        named: dict[str, int] = {}
        for member_id in members:
            member = self._joined.get(member_id) or self._state.members[member_id]
            if member.assignor is not None:
                named[member.assignor] = named.get(member.assignor, 0) + 1
        return max(named, key=named.__getitem__, default=None)

    def _owners(self) -> dict[TopicPartition, NewOwner | None]:
        """Partitions whose owner, epoch or state may have changed → owner."""
        state, owned = self._state, self._state.partitions.owned
        owners: dict[TopicPartition, NewOwner | None] = {}
        if self._converts:
            owners = dict.fromkeys(owned)
        for member_id, held in self._held.items():
            for tp in map(self._tp, held):
                now = owned.get(tp)
                if now is not None and now.member_id == member_id:
                    owners[tp] = None
        for member_id in self._held:
            current = state.currents.get(member_id)
            if current is None:
                continue
            owner = NewOwner(member_id, current.epoch)
            revoking = NewOwner(member_id, current.epoch, is_pending=True)
            for partitions, new in ((current.assigned, owner), (current.pending, revoking)):
                for each in partitions:
                    tp = self._tp(each)
                    if not self._is_of_former_topic(member_id, each, owned.get(tp)):
                        owners[tp] = new
        return owners

    def _is_of_former_topic(
        self, member_id: str, partition: IdPartition, now: Ownership | None
    ) -> bool:
        """Whether a partition that the member keeps has another owner, in a recreated topic."""
        keeps = partition in self._held[member_id] and not self._converts
        return keeps and now is not None and now.member_id != member_id

    def _tp(self, partition: IdPartition) -> TopicPartition:
        return self._names.topic_partition(self._state.group, partition)


def _id_partitions(rows: Sequence[Mapping[str, Any]] | None) -> tuple[IdPartition, ...]:
    return tuple((each["topic_id"], each["partition"]) for each in rows or ())


def _update(member: Member, content: Mapping[str, Any]) -> None:
    member.client_id, member.client_host = content["client_id"], content["client_host"]
    member.instance_id, member.rack = content["instance_id"], content["rack"]
    member.topics = tuple(content["topics"] or ())
    member.regex, member.assignor = content["regex"], content["assignor"]
    member.rebalance_timeout_ms = content["rebalance_timeout_ms"]
    member.session_timeout_ms = content["session_timeout_ms"]
    member.protocols = tuple(each["name"] for each in content["protocols"] or ())
