"""Logs of groups as Kafka writes them, by what members do; folded into the history of a group.

Times are seconds since START.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from history.group_log_builder import (
    classic_generation,
    classic_member,
    epoch,
    removed,
    target_epoch,
)
from history.offset_logs import batch_of
from kohort.coordinator import records
from kohort.coordinator.consumer_records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    CurrentMemberAssignmentRecord,
    CurrentMemberAssignmentValue,
    MemberKey,
    TargetAssignmentMemberRecord,
    TargetAssignmentMemberValue,
)
from kohort.coordinator.records import OffsetCommitKey, OffsetCommitRecord, OffsetCommitValue
from kohort.findings.finding import Finding
from kohort.findings.search import find
from kohort.findings.thresholds import Thresholds
from kohort.history.fold import fold
from kohort.history.group_fold import GroupOptions
from kohort.history.lag import lag_table
from kohort.history.schema import COMMITTED, LAG, SAMPLES, TABLES
from kohort.history.state import State
from kohort.protocol.subscription import Subscription, encode_subscription
from kohort.types import TopicPartition

START = datetime(2026, 1, 31, 6, tzinfo=UTC)
LOG_PARTITION = 3
GROUP = "billing"
LISTED = ("generations", "rebalances", "members", "assignments")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def topic_id(topic: str, generation: int = 0) -> UUID:
    return UUID(int=sum(topic.encode()) + 10_000 * (generation + 1))


@dataclass(kw_only=True)
class Client:
    """A process that is a member."""

    member_id: str
    client_id: str
    host: str = "/10.0.0.1"
    instance_id: str | None = None
    session_s: float = 45
    poll_s: float = 300
    topics: tuple[str, ...] = ("orders",)
    assignor: str | None = None
    protocols: tuple[str, ...] = ()
    """Of a classic member of a consumer group."""


@dataclass
class GroupLog:
    """The log of one group. `now`: the time of the next write."""

    topics: dict[str, int] = field(default_factory=lambda: {"orders": 6})
    """Topic → number of its partitions."""
    protocol: str = "range"
    is_consumer: bool = False
    """Whether it is a group of KIP-848."""
    group: str = GROUP
    log_partition: int = LOG_PARTITION
    now: float = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    members: dict[str, Client] = field(default_factory=dict)
    owners: dict[TopicPartition, str] = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    ids: dict[str, UUID] = field(default_factory=dict)
    generation: int = 0
    joins: int = 0

    # --- the log

    def write(
        self, *batch: Any, time: float | None = None, producer_id: int | None = None,
        control: str | None = None,
    ) -> None:  # fmt: skip
        first = len(self.rows)
        for record in batch:
            key, value = record if isinstance(record[0], bytes) else records.encode(record)
            self.rows.append({
                "key": key, "value": value, "partition": self.log_partition,
                "offset": len(self.rows),
                "timestamp": at(self.now if time is None else time), "batchOffset": first,
                "partitionLeaderEpoch": 0, "producerId": producer_id,
                "producerEpoch": None if producer_id is None else 0,
                "transactional": producer_id is not None, "control": control,
            })  # fmt: skip

    def marker(self, producer_id: int, kind: str = "commit") -> None:
        """The end of a transaction."""
        self.write((b"\0\0\0\1", bytes(6)), producer_id=producer_id, control=kind)

    def commit(
        self, offsets: Mapping[Any, int], *, time: float | None = None,
        producer_id: int | None = None,
    ) -> None:  # fmt: skip
        """`offsets`: of partitions of "orders" by number, or of TopicPartitions."""
        when = self.now if time is None else time
        batch = []
        for key, offset in offsets.items():
            tp = key if isinstance(key, TopicPartition) else TopicPartition("orders", key)
            self.offsets[tp] = offset
            id_ = self.ids.setdefault(tp.topic, topic_id(tp.topic))
            value = OffsetCommitValue(offset, -1, "", _ms(when), topic_id=id_)
            batch.append(OffsetCommitRecord(OffsetCommitKey(self.group, *tp), value))
        self.write(*batch, time=time, producer_id=producer_id)

    # --- members

    def client(self, name: str, **fields: Any) -> Client:
        """A client with a new member id."""
        self.joins += 1
        fields = {"client_id": name, "topics": tuple(self.topics), **fields}
        return Client(member_id=f"{name}-{self.joins:04}", **fields)

    def join(self, *clients: Client | str, **fields: Any) -> list[Client]:
        """Clients join at once."""
        joining = [
            self.client(each, **fields) if isinstance(each, str) else each for each in clients
        ]
        for each in joining:
            self.members[each.member_id] = each
        self.rebalance()
        return joining

    def leave(self, *clients: Client) -> None:
        for each in clients:
            del self.members[each.member_id]
        self.rebalance(departed=clients)

    def restart(self, client: Client, *, away: float = 20, **fields: Any) -> Client:
        """A client leaves, and joins with a new member id."""
        self.leave(client)
        self.now += away
        fields = {"host": client.host, "client_id": client.client_id, **fields}
        (again,) = self.join(self.client(client.member_id.rpartition("-")[0], **fields))
        return again

    def replace(self, client: Client, **fields: Any) -> Client:
        """A static member joins again before its session ends: the generation stays."""
        self.joins += 1
        again = replace(client, member_id=f"{client.member_id[:-5]}-{self.joins:04}", **fields)
        self.members = {
            again.member_id if id_ == client.member_id else id_:
                again if id_ == client.member_id else each
            for id_, each in self.members.items()
        }  # fmt: skip
        self.owners = {
            tp: again.member_id if owner == client.member_id else owner
            for tp, owner in self.owners.items()
        }
        self._write_classic()
        return again

    def rebalance(
        self, owners: Mapping[TopicPartition, str] | None = None, *,
        skipped: int = 0, departed: Iterable[Client] = (),
    ) -> None:  # fmt: skip
        """The next generation, by default with contiguous partitions for each member."""
        self.generation += 1 + skipped
        self.owners = dict(self.assigned() if owners is None else owners)
        if self.is_consumer:
            self._write_consumer(departed)
        else:
            self._write_classic()

    def assigned(self) -> dict[TopicPartition, str]:
        owners = {}
        for topic, count in self.topics.items():
            names = sorted(id_ for id_, each in self.members.items() if topic in each.topics)
            for number in range(count if names else 0):
                owners[TopicPartition(topic, number)] = names[number * len(names) // count]
        return owners

    def owned(self, member_id: str) -> list[TopicPartition]:
        return sorted(tp for tp, owner in self.owners.items() if owner == member_id)

    def _write_classic(self) -> None:
        members = [
            classic_member(
                each.member_id, self.owned(each.member_id), topics=each.topics,
                instance_id=each.instance_id, client_id=each.client_id, host=each.host,
                poll_ms=int(each.poll_s * 1000), session_ms=int(each.session_s * 1000),
            )
            for each in self.members.values()
        ]  # fmt: skip
        self.write(classic_generation(
            self.generation, members, joined=_ms(self.now), group=self.group, protocol=self.protocol
        ))  # fmt: skip

    def _write_consumer(self, departed: Iterable[Client]) -> None:
        batch = [record for each in departed for record in removed(each.member_id, self.group)]
        batch += [
            ConsumerGroupMemberMetadataRecord(
                MemberKey(self.group, each.member_id), self._consumer_member(each)
            )
            for each in self.members.values()
        ]
        number = self.generation
        batch.append(epoch(number, self.group))
        for member_id in self.members:
            batch.append(TargetAssignmentMemberRecord(
                MemberKey(self.group, member_id),
                TargetAssignmentMemberValue(self._by_id(member_id)),
            ))  # fmt: skip
        batch.append(target_epoch(number, _ms(self.now), self.group))
        self.write(*batch)
        for member_id in self.members:
            held = {
                id_: dict.fromkeys(numbers, number)
                for id_, numbers in self._by_id(member_id).items()
            }
            value = CurrentMemberAssignmentValue(number, number - 1, 0, held, {})
            self.write(CurrentMemberAssignmentRecord(MemberKey(self.group, member_id), value))

    def _consumer_member(self, each: Client) -> ConsumerGroupMemberMetadataValue:
        subscription = encode_subscription(Subscription(topics=each.topics))
        classic = ClassicMemberMetadata(
            int(each.session_s * 1000), tuple((name, subscription) for name in each.protocols)
        )
        return ConsumerGroupMemberMetadataValue(
            each.instance_id, None, each.client_id, each.host, each.topics, "",
            int(each.poll_s * 1000), each.assignor, classic if each.protocols else None,
        )  # fmt: skip

    def _by_id(self, member_id: str) -> dict[UUID, tuple[int, ...]]:
        found: dict[UUID, tuple[int, ...]] = {}
        for topic, number in self.owned(member_id):
            id_ = self.ids.setdefault(topic, topic_id(topic))
            found[id_] = (*found.get(id_, ()), number)
        return found

    # --- work

    def work(
        self, seconds: float, *, every: float = 10, rate: float = 5,
        idle: Iterable[str] = (), rates: Mapping[TopicPartition, float] | None = None,
        without: Iterable[TopicPartition] = (),
    ) -> None:  # fmt: skip
        """Each member but the `idle` ones commits its partitions, `rate` records a second on.

        `rates`: those of some partitions. Partitions in `without` are not committed.
        """
        end = self.now + seconds
        turn = 0
        while self.now + every <= end:
            self.now += every
            turn += 1
            for place, member_id in enumerate(self.members):
                if member_id in set(idle):
                    continue
                offsets = {
                    tp: self.offsets.get(tp, 0) + max(int((rates or {}).get(tp, rate) * every), 0)
                    for tp in self.owned(member_id)
                    if tp not in set(without)
                }
                if offsets:  # Not all members commit at the same moment.
                    self.commit(offsets, time=self.now + 0.01 * place + 0.003 * (turn % 7))
        self.now = end

    # --- the history

    def history(
        self, *, until: float | None = None, options: GroupOptions | None = None,
        lag: pa.Table | None = None, samples: pa.Table | None = None, missing: range = range(0),
    ) -> "History":  # fmt: skip
        """`missing`: offsets of records that compaction removed."""
        state = State.new(self.log_partition, options)
        kept = [row for row in self.rows if row["offset"] not in missing]
        closed, state = fold(state, batch_of(kept))
        open_rows = state.open_rows()
        tables = {
            name: pa.Table.from_batches(
                [rows for rows in (closed.get(name), open_rows[name]) if rows is not None],
                TABLES[name],
            )
            for name in TABLES
        }
        end = at(self.now if until is None else until)
        return History(self.group, state, tables, end, lag, samples)


def _ms(seconds: float) -> int:
    return round(at(seconds).timestamp() * 1000)


class History:
    """What `history_files.group_history.GroupHistory` has."""

    def __init__(
        self, group: str, state: State, tables: Mapping[str, pa.Table], end: datetime,
        lag: pa.Table | None, samples: pa.Table | None,
    ) -> None:  # fmt: skip
        self.group = group
        self.log_partitions = (state.log_partition,)
        self.since = None
        self.end = end
        self.generations = _listed(tables, "generations", "log_offset")
        self.rebalances = _listed(tables, "rebalances", "log_offset")
        self.members = _listed(tables, "members", "from_offset")
        self.assignments = _listed(tables, "assignments", "from_offset")
        commits = tables["commits"]
        self.commits = commits.filter(pc.is_valid(commits["in_force"])).sort_by(
            [("in_force", "ascending"), ("log_offset", "ascending")]
        )
        self.open_commits = commits.filter(pc.equal(commits["txn"], "open"))
        self.earlier = COMMITTED.empty_table()
        self.minutes = tables["minutes"].sort_by("minute")
        self.lag = LAG.empty_table() if lag is None else lag
        self.samples = SAMPLES.empty_table() if samples is None else samples
        self.coverage = state.coverage_row().to_pylist()
        self.options = state.options


def _listed(tables: Mapping[str, pa.Table], table: str, begins: str) -> list[dict[str, Any]]:
    return sorted(tables[table].to_pylist(), key=lambda row: row[begins])


Ends: TypeAlias = Callable[[TopicPartition, float], tuple[int, int]]
"""Start and end offset of a partition at a time."""


def sampled(log: GroupLog, ends: Ends, *, since: float, step: float = 30) -> pa.Table:
    """Samples of all partitions up to now."""
    rows = []
    time = since
    while time <= log.now:
        for topic, count in log.topics.items():
            for number in range(count):
                start, end = ends(TopicPartition(topic, number), time)
                rows.append({
                    "topic": topic, "partition": number, "time": at(time), "start": start,
                    "end": end, "topic_id": str(topic_id(topic)), "method": "sampled",
                })  # fmt: skip
        time += step
    return pa.Table.from_pylist(rows, SAMPLES)


def with_lag(
    log: GroupLog, ends: Ends, *, since: float = 0, step: float = 30
) -> dict[str, pa.Table]:
    """Options of `findings` for a history with samples."""
    samples = sampled(log, ends, since=since, step=step)
    return {"samples": samples, "lag": lag_table(log.history().commits, samples)}


def findings(log: GroupLog, thresholds: Thresholds | None = None, **options: Any) -> list[Finding]:
    history = log.history(**options)
    return find(history, thresholds or Thresholds(), history.end)


def found(log: GroupLog, id_: str, **options: Any) -> list[Finding]:
    """The findings of one rule."""
    return [each for each in findings(log, **options) if each.id == id_]


def ids(some: Iterable[Finding]) -> set[str]:
    return {each.id for each in some}
