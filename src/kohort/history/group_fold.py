"""The fold of the group records of one log partition: who was a member, and who owned what, when.

    fold = GroupFold(log_partition=7, commits=commit_times)
    fold.apply(key, value, position)     # each record that is not a committed offset
    fold.end_write()                     # before each run of records that are

A coordinator appends all records of one decision in one batch, with one time: a *write*. Only
between writes is the replayed state one that the group had. So what a write means is decided at its
end: at the first record of another group, of another batch or of another time, or at `end_write`.
"""

import json
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from kohort.history.group_records import GroupRecord, decode_group_record, timestamp
from kohort.history.interface import CommitTimes, LogPosition

_TABLES: Final = ("groups", "generations", "rebalances", "members", "assignments")


class GroupFold:
    """Folds group records, in the order of the log."""

    def __init__(
        self,
        *,
        log_partition: int,
        commits: CommitTimes,
        retention_ms: int = 7 * 24 * 3_600_000,
        consumer_session_timeout_ms: int = 45_000,
        consumer_heartbeat_interval_ms: int = 5_000,
        keep_raw: bool = False,
    ) -> None:
        """`retention_ms`: the broker's offsets.retention; `consumer_…`: the session timeout and
        heartbeat interval of groups other than classic ones, which no record has.
        `keep_raw`: the rows of `groups` have the raw bytes also of records that were decoded.
        """
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _TABLES}
        self.topic_names: dict[UUID, str] = {}
        """Names of topic ids; change it by `name_topic`."""
        self._log_partition = log_partition
        self._keep_raw = keep_raw
        self._commits = commits
        self._retention_ms = retention_ms
        self._consumer_session_ms = consumer_session_timeout_ms - consumer_heartbeat_interval_ms
        self._members: dict[str, dict[str, Any]] = {}
        self._empty_since: dict[str, int] = {}
        self._lives: dict[str, int] = {}

    # --- the log

    def apply(self, key: bytes | None, value: bytes | None, position: LogPosition) -> None:
        """Fold a record that is neither a committed offset nor a control record. Never raises."""
        record = decode_group_record(key or b"", value)
        life = (
            None if record.group is None else self._lives.setdefault(record.group, position.offset)
        )
        self._append(record, key, value, position, life)

    def marker(self, control: str, position: LogPosition) -> None:
        """A control record: "commit", "abort" or "other"."""
        self.end_write()
        row = self._position_row(position)
        row |= {"type": "marker", "other": {"kind": control, "json": None}}
        self.rows["groups"].append(row)

    def end_write(self) -> None:
        """The next record is a committed offset: it is not part of a write of group records."""

    def name_topic(self, topic_id: UUID, name: str) -> None:
        """The name of a topic, learned from a commit or from the cluster.

        Partitions that are owned now are from now on known by the name.
        """
        self.topic_names[topic_id] = name

    # --- groups now; only between writes, so after `end_write`

    def life(self, group: str) -> int | None:
        """Log offset of the first record of this life; None: it has no record but commits."""
        return self._lives.get(group)

    def live_members(self, group: str) -> bool:
        """Whether the group has members."""
        return bool(self._members.get(group))

    def subscribes(self, group: str, topic: str) -> bool:
        """Whether a member is subscribed to the topic."""
        return any(topic in member for member in self._members.get(group, {}).values())

    def empty_since(self, group: str) -> int | None:
        """`state_time` (ms) of a classic group without members: its offsets expire by that."""
        return self._empty_since.get(group)

    # --- state

    def open_rows(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of what has not ended, by table."""
        return {}

    def dump(self) -> bytes:
        """The state, without `rows`, which must have been taken."""
        names = {str(topic_id): name for topic_id, name in self.topic_names.items()}
        return json.dumps({"lives": self._lives, "topic_names": names}).encode()

    def load(self, data: bytes) -> None:
        """Continue from a dumped state."""
        state: Mapping[str, Any] = json.loads(data)
        self._lives = dict(state["lives"])
        self.topic_names = {UUID(key): name for key, name in state["topic_names"].items()}

    # --- rows of groups

    def _append(
        self,
        record: GroupRecord,
        key: bytes | None,
        value: bytes | None,
        position: LogPosition,
        life: int | None,
    ) -> None:
        row = self._position_row(position)
        row["type"] = record.kind
        row["version"] = record.version
        row["group"] = record.group
        row["life"] = life
        row["error"] = record.error
        row[record.kind] = record.content
        if record.keeps_raw or self._keep_raw:
            row["raw_key"], row["raw_value"] = key, value
        self.rows["groups"].append(row)

    def _position_row(self, position: LogPosition) -> dict[str, Any]:
        return {
            "log_partition": self._log_partition,
            "log_offset": position.offset,
            "time": timestamp(position.timestamp),
            "log_leader_epoch": position.leader_epoch,
            "batch_offset": position.batch_offset,
            "producer_id": position.producer_id,
            "producer_epoch": position.producer_epoch,
            "in_force": position.offset,
        }
