"""A bench of a coordinator whose log is folded write by write."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any
from uuid import UUID

from history.group_logs import Commits, Logged, Row, Tables, apply, resumed
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
    """A bench that keeps its log as rows of `schema.RECORDS`, each write a batch."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.rows: list[Row] = []
        super().__init__(*args, **options)

    def _apply(self, result: Any) -> None:
        super()._apply(result)
        self._write(result.records)
        for commits in result.transactional:
            self._write([commits], commits)

    def end_transaction(self, producer_id: int = 1, *, commit: bool = True) -> None:
        super().end_transaction(producer_id, commit=commit)
        self._append([(_MARKER_KEY, _MARKER_VALUE)], producer_id, "commit" if commit else "abort")

    def _write(
        self, entries: Iterable[Entry], transaction: TransactionalOffsets | None = None
    ) -> None:
        producer_id = None if transaction is None else transaction.producer_id
        self._append([pair for entry in entries for pair in _encoded(entry)], producer_id)

    def _append(
        self,
        pairs: Iterable[tuple[bytes, bytes | None]],
        producer_id: int | None,
        control: str | None = None,
    ) -> None:
        start = len(self.rows)
        for key, value in pairs:
            self.rows.append(
                {
                    "key": key,
                    "value": value,
                    "partition": 0,
                    "offset": len(self.rows),
                    "timestamp": self.timestamp * 1_000,
                    "batchOffset": start,
                    "partitionLeaderEpoch": 0,
                    "producerId": producer_id,
                    "producerEpoch": None if producer_id is None else 0,
                    "transactional": producer_id is not None,
                    "control": control,
                }
            )


_MARKER_KEY, _MARKER_VALUE = bytes(4), bytes(6)


def _encoded(entry: Entry) -> Iterator[tuple[bytes, bytes | None]]:
    assert not isinstance(entry, TransactionMarker)
    commits = entry.commits if isinstance(entry, TransactionalOffsets) else entry
    rows = commits.rows() if isinstance(commits, OffsetCommits) else [commits]
    yield from map(records.encode, rows)


def logged(rows: Iterable[Row]) -> Iterator[Logged]:
    """The records as the fold of groups gets them: transactions are committed at once."""
    for row in rows:
        if row["control"] is None:
            at = LogPosition(
                row["offset"], row["timestamp"] // 1_000, batch_offset=row["batchOffset"]
            )
            yield Logged(row["key"], row["value"], at)


def compacted(rows: list[Row], end: int) -> list[Row]:
    """What the cleaner leaves of the log up to this offset, and the rest.

    Of each key the last record that counts; it does not come to open transactions.
    """
    open_: dict[int, list[int]] = defaultdict(list)
    aborted: set[int] = set()
    for row in rows:
        if row["control"] is not None:
            ended = open_.pop(row["producerId"], [])
            aborted.update(ended if row["control"] == "abort" else ())
        elif row["transactional"]:
            open_[row["producerId"]].append(row["offset"])
    end = min([end, *(offset for offsets in open_.values() for offset in offsets)])
    last = {
        row["key"]: row["offset"]
        for row in rows[:end]
        if row["control"] is None and row["offset"] not in aborted
    }
    kept = [
        row
        for row in rows[:end]
        if row["control"] is not None or last.get(row["key"]) == row["offset"]
    ]
    return kept + rows[end:]


def groups_of(open_rows: Mapping[str, list[Row]], topics: Mapping[Any, str]) -> dict[str, Any]:
    """The groups with records other than commits, as rows that have not ended tell."""
    names = {str(topic_id): name for topic_id, name in topics.items()}
    ends = {"generations": "ended_offset", "members": "to_offset", "assignments": "to_offset"}
    rows = {
        table: [row for row in open_rows[table] if row[end] is None] for table, end in ends.items()
    }
    # A consumer group has no record of its first epoch.
    groups: dict[str, Any] = defaultdict(
        lambda: {"generation": ("consumer", 1, "consumer", None), "members": {}, "owners": {}}
    )
    for row in rows["generations"]:
        fields = ("type", "generation", "protocol_type", "leader")
        groups[row["group"]]["generation"] = tuple(row[name] for name in fields)
    for row in rows["members"]:
        fields = ("client_id", "client_host", "instance_id", "rebalance_timeout_ms")
        identity = tuple(row[name] for name in fields)
        groups[row["group"]]["members"][row["member_id"]] = identity
    for row in rows["assignments"]:
        owner = row["member_id"], row["pending_from"] is not None
        topic = names.get(row["topic"], row["topic"])
        groups[row["group"]]["owners"][topic, row["partition"]] = owner
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
        self.names: dict[UUID, str] = {}
        """All topics that the bench has had."""
        self.fold, self.commits = _new()
        self._resumed, self._resumed_commits = _new()

    def read(self) -> Tables:
        """Fold what the log has more. Returns the rows so far."""
        for name in self._bench.topics.names():
            topic = self._bench.topics.by_name(name)
            assert topic is not None
            self.names[topic.id] = name
        for record in logged(self._bench.rows[self._next :]):
            apply(self.fold, self.commits, record)
            apply(self._resumed, self._resumed_commits, record)
            self._resumed = resumed(self._resumed, self._resumed_commits)
        self._next = len(self._bench.rows)
        assert self._resumed.dump() == self.fold.dump()
        assert self._resumed.rows == self.fold.rows
        assert self._resumed.open_rows() == self.fold.open_rows()
        assert self.fold.topic_names.items() <= self.names.items()
        return Tables.of(self.fold)


def _new() -> tuple[GroupFold, Commits]:
    commits = Commits()
    return GroupFold(log_partition=0, commits=commits), commits
