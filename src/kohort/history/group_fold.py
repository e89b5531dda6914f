"""The fold of the group records of one log partition: who was a member, and who owned what, when.

    fold = GroupFold(log_partition=7, commits=commit_times)
    fold.apply(key, value, position)     # each record of data that is not a committed offset
    fold.end_write()                     # before each run of records that are

A coordinator appends all records of one decision in one batch, with one time: a *write*. Only
between writes is the replayed state one that the group had. So what a write means is decided at its
end: at the first record of another group, of another batch or of another time, or at `end_write`.

A group begins a *life* with its first record, and ends it with the tombstone of the group, unless
the write goes on with another type that takes over its members. A generation that is smaller than
the one before it begins a new life too: the tombstone was compacted.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from kohort.history.classic_writes import write_classic
from kohort.history.group_changes import GroupChanges
from kohort.history.group_records import GroupRecord, decode_group_record
from kohort.history.group_rows import record_row
from kohort.history.group_state import GroupState
from kohort.history.group_writes import GENERATIONS, Write, Written
from kohort.history.interface import CommitTimes, LogPosition, Owner
from kohort.history.modern_writes import ModernWrite
from kohort.history.topic_names import TopicNames
from kohort.types import TopicPartition

_GROUPS: Final = "groups"
_TABLES: Final = (_GROUPS, "generations", "rebalances", "members", "assignments")
_NO_TIME: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """What no record has."""

    retention_ms: int = 7 * 24 * 3_600_000
    """Of offsets: offsets.retention.minutes of the broker."""
    consumer_session_timeout_ms: int = 45_000
    """Of members that are not classic."""
    consumer_heartbeat_interval_ms: int = 5_000
    keep_raw: bool = False
    """Whether rows have the raw bytes of all records, not only of those with an error."""

    @property
    def consumer_session_ms(self) -> int:
        """Shortest time from a member's last commit to its removal, if its session expires.

        Its session is restarted by heartbeats, not by commits.
        """
        return self.consumer_session_timeout_ms - self.consumer_heartbeat_interval_ms


class GroupFold:
    """Folds group records, in the order of the log."""

    def __init__(
        self, *, log_partition: int, commits: CommitTimes, options: GroupOptions | None = None
    ) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _TABLES}
        """Rows by table. The caller takes them, and clears the lists."""
        self._log_partition = log_partition
        self._options = options or GroupOptions()
        self._commits = commits
        self._changes = GroupChanges(commits, self.rows, log_partition)
        self._names = TopicNames({})
        self._groups: dict[str, GroupState] = {}
        self._write: Write | None = None

    # --- the log

    def apply(self, key: bytes | None, value: bytes | None, position: LogPosition) -> GroupRecord:
        """Replay a record of data that is no commit. Never raises for what the bytes are.

        Returns the decoded record.
        """
        record = decode_group_record(key or b"", value)
        write = self._write
        if write is not None and not write.goes_on_with(record, position):
            self.end_write()
        group, life = record.group, None
        if group is not None:
            life = self._life_of(group, record, position)
            self._extend(group, Written(record, position, life, key or b"", value))
        row = record_row(record, position, life)
        row["log_partition"] = self._log_partition
        if record.keeps_raw or self._options.keep_raw:
            row["raw_key"], row["raw_value"] = key, value
        self.rows[_GROUPS].append(row)
        return record

    def end_write(self) -> None:
        """The next record is a commit or a marker: it is not part of a write of group records."""
        write, self._write = self._write, None
        if write is not None:
            self._replay(write)

    def name_topic(self, topic_id: UUID, name: str) -> None:
        """A record, or the cluster, names a topic: its owned partitions get this name."""
        for group in self._names.learn(topic_id, name):
            if group in self._groups:
                self._changes.rename_topic(self._groups[group], str(topic_id), name)

    def name_topics(self, cluster: Mapping[str, str]) -> None:
        """`cluster`: topic id → name, for topics that no record has named so far."""
        self._names.cluster = cluster
        for topic_id in self._names.unnamed():
            if (name := cluster.get(topic_id)) is not None:
                self.name_topic(UUID(topic_id), name)

    def awaits_name(self, topic_id: UUID) -> bool:
        """Whether a group has partitions under the topic's id."""
        return self._names.is_awaited(topic_id)

    # --- groups now; only between writes, so after `end_write`

    @property
    def topic_names(self) -> Mapping[UUID, str]:
        return self._names.by_id

    def life(self, group: str) -> int | None:
        """Log offset of the first record of this life; None: it has no record but commits."""
        state = self._groups.get(group)
        return None if state is None else state.life

    def has_members(self, group: str) -> bool:
        """Whether the group has members."""
        state = self._groups.get(group)
        return state is not None and bool(state.members)

    def most_members(self) -> int:
        """The number of members of the group that has most."""
        return max((len(state.members) for state in self._groups.values()), default=0)

    def subscribes(self, group: str, topic: str) -> bool:
        """Whether a member is subscribed to the topic."""
        state = self._groups.get(group)
        return state is not None and state.subscribes(topic)

    def empty_since(self, group: str) -> int | None:
        """`state_time` (ms) of a classic group without members: its offsets expire by that."""
        state = self._groups.get(group)
        return None if state is None else state.empty_since

    # --- state

    def open_rows(self, exact_since: int | None = 0) -> dict[str, list[dict[str, Any]]]:
        """The rows of what has not ended, by table; `exact_since`: as in `LogPosition`, now.

        As if the last write had ended, so also those of what it has ended.
        """
        fold = self if self._write is None else self._after_write()
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _TABLES}
        if fold is not self:
            rows |= fold.rows
        changes = GroupChanges(self._commits, rows, self._log_partition)
        for state in fold._groups.values():
            changes.open_rows(state, exact_since)
        return rows

    def _after_write(self) -> "GroupFold":
        fold = GroupFold(
            log_partition=self._log_partition,
            commits=_Unchanged(self._commits),
            options=self._options,
        )
        fold._groups, fold._write = dict(self._groups), self._write
        fold._names = TopicNames(self._names.by_id)
        fold._names.cluster = self._names.cluster
        assert self._write is not None
        state = self._groups.get(self._write.group)
        if state is not None:
            copied = GroupState.load(json.loads(json.dumps(state.dump())))
            fold._groups[state.group] = copied
        fold.end_write()
        return fold

    def dump(self) -> bytes:
        """The state, without `rows`, which must have been taken."""
        write = () if self._write is None else self._write.records
        return json.dumps({
            "topic_names": {str(topic_id): name for topic_id, name in self.topic_names.items()},
            "groups": [state.dump() for state in self._groups.values()],
            "write": [
                [_text(each.key), _text(each.value), each.at, each.life] for each in write
            ],
        }).encode()  # fmt: skip

    def load(self, data: bytes) -> None:
        """Continue from a dumped state."""
        dumped: Mapping[str, Any] = json.loads(data)
        states = map(GroupState.load, dumped["groups"])
        self._groups = {state.group: state for state in states}
        names = {UUID(topic_id): name for topic_id, name in dumped["topic_names"].items()}
        self._names = TopicNames(names, self._groups.values())
        self._write = None
        for key_text, value_text, at, life in dumped["write"]:
            key, value = b64decode(key_text), None if value_text is None else b64decode(value_text)
            record = decode_group_record(key, value)
            self._extend(record.group or "", Written(record, LogPosition(*at), life, key, value))

    # --- writes

    def _extend(self, group: str, written: Written) -> None:
        """Append a record to the present write, or begin one with it."""
        if self._write is None:
            self._write = Write(group, written.life)
        state = self._groups.get(group)
        self._write.append(written, None if state is None else state.type)

    def _life_of(self, group: str, record: GroupRecord, at: LogPosition) -> int:
        """The life to which a record of the present write belongs."""
        state, write = self._groups.get(group), self._write
        if write is not None:
            life = write.life
        elif state is not None:
            life = state.life
        else:
            first = self._commits.first_commit(group)
            life = at.offset if first is None else first
        if not record.is_decoded or record.is_tombstone or state is None:
            return life
        if write is not None and write.ended is not None:
            goes_on = write.ended != record.protocol and bool(state.members)
            return life if goes_on else at.offset
        if life == state.life and _is_smaller(record, state):
            return at.offset
        return life

    def _replay(self, write: Write) -> None:
        state = self._groups.get(write.group)
        modern: ModernWrite | None = None
        ended: LogPosition | None = None
        may_lack_records = state is None and write.follows_data_loss
        for record, at, life in write.replayed(is_exact=not may_lack_records):
            if not record.is_decoded:
                if state is not None and record.protocol is not None:
                    state.has_gap = True
                continue
            if record.is_tombstone:
                if state is None or state.type != record.protocol:
                    continue
                if record.kind in GENERATIONS:
                    ended = at
                    continue
            elif state is None or life != state.life:
                if state is not None:
                    compacted = at._replace(timestamp=_NO_TIME, exact_since=None)
                    self._end_life(state, ended or compacted, record)
                state = self._groups[write.group] = GroupState(write.group, life)
                modern = ended = None
            for topic_id, name in record.topics:
                self.name_topic(UUID(topic_id), name)
            if record.kind == "classic":
                modern = ended = None
                self._write_classic(state, record, at)
            else:
                if modern is None or modern.protocol != record.protocol:
                    modern = ModernWrite(state, record.protocol or "", self._names)
                if not record.is_tombstone:
                    ended = None
                modern.apply(record, at)
        if state is not None and ended is not None:
            self._end_life(state, ended, None)
        elif modern is not None:
            session_ms = self._options.consumer_session_ms
            modern.end(at, self._changes, session_ms)

    def _write_classic(self, state: GroupState, record: GroupRecord, at: LogPosition) -> None:
        assert record.content is not None
        session_ms = self._options.consumer_session_ms
        is_downgrade = state.type not in (None, record.protocol)
        write_classic(state, record.content, at, self._changes, session_ms)
        if is_downgrade and state.rebalance and self._names.are_missing(state.group):
            state.rebalance.is_complete = False  # The same partitions have other names.

    def _end_life(self, state: GroupState, at: LogPosition, next_: GroupRecord | None) -> None:
        """End a life; `next_`: the record that begins the next one in the same write."""
        is_converted = next_ is not None and next_.protocol != state.type
        ended_by = "converted" if is_converted else self._cause(state, at)
        self._changes.end_life(state, at, ended_by)
        del self._groups[state.group]

    def _cause(self, state: GroupState, at: LogPosition) -> str:
        expired = self._commits.offsets_expired(state.group, at.batch)
        if expired is None:
            since = state.empty_since
            expired = since is not None and at.timestamp - since >= self._options.retention_ms
        return "expired" if expired else "deleted"


class _Unchanged:
    """Times of commits, without new owners."""

    def __init__(self, commits: CommitTimes) -> None:
        self._commits = commits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._commits, name)

    def assign(self, group: str, tp: TopicPartition, owner: Owner | None) -> None:
        pass


def _is_smaller(record: GroupRecord, state: GroupState) -> bool:
    """Whether the record has a generation before the present one."""
    if state.generation is None or state.type != record.protocol or record.content is None:
        return False
    number: int | None = None
    if record.kind == "classic":
        number = record.content["generation"]
    elif record.kind == "epoch":
        number = record.content["epoch"]
    return number is not None and number < state.generation.generation


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()
