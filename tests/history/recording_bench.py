"""A bench of a coordinator whose log is folded write by write."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from history.group_logs import Commits, Logged, Tables, apply
from kohort.coordinator import records
from kohort.coordinator.classic import Group
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.records import (
    Entry,
    OffsetCommits,
    TransactionalOffsets,
    TransactionMarker,
)
from kohort.history.blobs import read_assignment
from kohort.history.group_fold import GroupFold
from kohort.history.interface import LogPosition
from kohort.history.layouts import ERRORS
from kohort.testing.bench import Bench


class RecordingBench(Bench):
    """A bench that keeps each write of its log, as a batch."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.logged: list[Logged] = []
        super().__init__(*args, **options)

    def _apply(self, result: Any) -> None:
        super()._apply(result)
        self.write(result.records)
        self.write(result.transactional)

    def write(self, entries: Iterable[Entry]) -> None:
        start = len(self.logged)
        for key, value in (pair for entry in entries for pair in _encoded(entry)):
            offset = len(self.logged)
            at = LogPosition(offset, self.timestamp, batch_offset=start)
            self.logged.append(Logged(key, value, at))


def _encoded(entry: Entry) -> Iterator[tuple[bytes, bytes | None]]:
    if isinstance(entry, TransactionMarker):
        return
    commits = entry.commits if isinstance(entry, TransactionalOffsets) else entry
    rows = commits.rows() if isinstance(commits, OffsetCommits) else [commits]
    yield from map(records.encode, rows)


def compacted(log: Iterable[Logged]) -> list[Logged]:
    """The last record of each key."""
    last = {record.key: record for record in log}
    return sorted(last.values(), key=lambda record: record.at.offset)


def groups_of(tables: Tables) -> dict[str, Any]:
    """The groups with records other than commits, as rows that have not ended tell."""
    ends = {"generations": "ended_offset", "members": "to_offset", "assignments": "to_offset"}
    rows = {
        table: [row for row in tables.open[table] if row[end] is None]
        for table, end in ends.items()
    }
    # A consumer group has no record of its first epoch.
    groups: dict[str, Any] = defaultdict(
        lambda: {"generation": ("consumer", 1, "consumer", None), "members": {}, "owners": {}}
    )
    for row in rows["generations"]:
        names = ("type", "generation", "protocol_type", "leader")
        groups[row["group"]]["generation"] = tuple(row[name] for name in names)
    for row in rows["members"]:
        names = ("client_id", "client_host", "instance_id", "rebalance_timeout_ms")
        identity = tuple(row[name] for name in names)
        groups[row["group"]]["members"][row["member_id"]] = identity
    for row in rows["assignments"]:
        owner = row["member_id"], row["pending_from"] is not None
        groups[row["group"]]["owners"][row["topic"], row["partition"]] = owner
    return groups


def groups_on(bench: Bench, topics: dict[Any, str]) -> dict[str, Any]:
    """The same of a coordinator, from what it has logged."""
    groups = bench.shard.groups.values()
    return {
        group.id: _consumer(group, topics) if isinstance(group, ConsumerGroup) else _classic(group)
        for group in groups
        if isinstance(group, ConsumerGroup) or group.logged is not None
    }


def _classic(group: Group) -> dict[str, Any]:
    assert group.logged is not None
    value = group.logged.value
    owners = {}
    for member in value.members if value.protocol_type == "consumer" else ():
        try:
            assignment = read_assignment(member.assignment)
        except ERRORS:
            continue
        for each in assignment["partitions"]:
            owners[each["topic"], each["partition"]] = member.member_id, False
    return {
        "generation": ("classic", value.generation, value.protocol_type, value.leader),
        "members": {
            member.member_id: (
                *(member.client_id, member.client_host, member.instance_id),
                member.rebalance_timeout_ms,
            )
            for member in value.members
        },
        "owners": owners,
    }


def _consumer(group: ConsumerGroup, topics: dict[Any, str]) -> dict[str, Any]:
    owners = {}
    for member in group.members.values():
        for is_pending, held in enumerate(
            (member.current.assigned, member.current.pending_revocation)
        ):
            for topic_id, partitions in held.items():
                for partition in partitions:
                    topic = topics.get(topic_id, str(topic_id))
                    owners[topic, partition] = member.member_id, bool(is_pending)
    return {
        "generation": ("consumer", group.epoch, "consumer", None),
        "members": {
            member.member_id: (
                *(member.metadata.client_id, member.metadata.client_host),
                *(member.metadata.instance_id, member.metadata.rebalance_timeout_ms),
            )
            for member in group.members.values()
        },
        "owners": owners,
    }


def rows_follow_one_another(tables: Tables) -> None:
    """Nothing ends before it begins, nor after the next of its kind begins."""
    by_key: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    ends = {
        "generations": ("log_offset", "ended_offset"),
        "members": ("from_offset", "to_offset"),
        "assignments": ("from_offset", "to_offset"),
    }
    keys = {
        "generations": ("group",),
        "members": ("group", "member_id"),
        "assignments": ("group", "topic", "partition"),
    }
    for table, (start, end) in ends.items():
        for row in (*getattr(tables, table), *tables.open[table]):
            key = table, *(row[name] for name in keys[table])
            until = 10**9 if row[end] is None else row[end]
            by_key[key].append((row[start], until))
    for key, spans in by_key.items():
        spans.sort()
        assert all(start <= end for start, end in spans), key
        assert all(end <= start for (_, end), (start, _) in pairwise(spans)), key


class HistoryOfBench:
    """Folds the log of a bench as it grows, at once and with a state that is dumped each time."""

    def __init__(self, bench: RecordingBench) -> None:
        self._bench = bench
        self._next = 0
        self.fold, self.commits = _new()
        self._resumed, self._resumed_commits = _new()
        self._resumed_rows: dict[str, list[Any]] = {name: [] for name in self.fold.rows}

    def read(self) -> Tables:
        """Fold what the log has more. Returns the rows so far."""
        for record in self._bench.logged[self._next :]:
            apply(self.fold, self.commits, record)
            apply(self._resumed, self._resumed_commits, record)
            state = self._resumed.dump()
            for name, rows in self._resumed.rows.items():
                self._resumed_rows[name] += rows
            self._resumed = GroupFold(log_partition=0, commits=self._resumed_commits)
            self._resumed.load(state)
        self._next = len(self._bench.logged)
        assert self._resumed.dump() == self.fold.dump()
        assert self._resumed_rows == self.fold.rows
        assert self._resumed.open_rows() == self.fold.open_rows()
        return Tables.of(self.fold)


def _new() -> tuple[GroupFold, Commits]:
    commits = Commits()
    return GroupFold(log_partition=0, commits=commits), commits
