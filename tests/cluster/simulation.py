"""A cluster whose nodes tick late, twice or not at all, on clocks that drift apart.

The storage is what PostgreSQL is to nodes: a log that takes a batch only at its end, and a row for
each node with its session and lease, which refuses appends of older sessions. All else that nodes
know is old: their copy of the log, what they have seen of others, decisions they are about to
append.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from kohort.cluster import (
    REBALANCE_DELAY_MS,
    Cluster,
    Leader,
    LeaderChanged,
    Liveness,
    NodeFenced,
    NodeRecord,
    NodeRegistered,
    Observed,
    ReassignmentPlanned,
    TopicKind,
    TopicSize,
    decide,
    situation,
)
from kohort.types import Timestamp, TopicIdPartition

LEASE_MS = 3_000
TICK_MS = 500
SETTLING_MS = REBALANCE_DELAY_MS + 60_000


def decided(
    cluster: Cluster, topics: Mapping[UUID, TopicSize], observed: Observed
) -> tuple[NodeRecord, ...]:
    """What `decide` returns at the end of its steps."""
    steps = decide(cluster, topics, situation(cluster, observed, REBALANCE_DELAY_MS))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            records: tuple[NodeRecord, ...] = end.value
            return records


@dataclass
class Row:
    """What the storage has of a node."""

    session: int = 0
    lease_until: float = 0.0
    owner: "Process | None" = None
    """The process whose session it is, or was."""
    locked_by: "set[Process]" = field(default_factory=set)

    @property
    def holds_lock(self) -> bool:
        return bool(self.locked_by)

    def is_free_for(self, process: "Process", now: float) -> bool:
        """Whether no other process that is alive has the id of the node."""
        return self.lease_until <= now or not self.locked_by - {process}


@dataclass
class Batch:
    author: int
    records: Sequence[NodeRecord]


@dataclass
class Storage:
    """Everything that all nodes share."""

    now: float = 1_000_000.0
    rows: dict[int, Row] = field(default_factory=dict)
    log: list[Batch] = field(default_factory=list)
    cluster: Cluster = field(default_factory=Cluster)
    """The fold of the whole log, which no node knows."""
    served: Counter[int] = field(default_factory=Counter)

    def append(self, author: int, session: int, end: int, records: Sequence[NodeRecord]) -> bool:
        """Append a batch of a node that has read as far as `end`; fence whom it fences."""
        if end != len(self.log) or self.rows[author].session != session:
            return False
        fenced = {each.id for each in records if isinstance(each, NodeFenced)}
        for node in fenced - {author}:
            row, registered = self.rows[node], self.cluster.nodes.get(node)
            if registered is not None and row.session == registered.session:
                row.session += 1
                row.lease_until = 0.0
        for record in records:
            if isinstance(record, LeaderChanged):
                former = self.cluster.leaders.get(record.partition, Leader())
                assert record.leader.epoch == former.epoch + 1
                handed_over = former.node == author or former.node not in self.cluster.nodes
                assert handed_over or former.node in fenced, f"taken from {former}: {record}"
            self.cluster.replay(record)
        self.log.append(Batch(author, records))
        return True


@dataclass(eq=False)
class Process:
    """One process of a node: crash and start again make another one.

    One that is frozen may be replaced, and goes on beside its successor.
    """

    id: int
    storage: Storage
    rate: float
    """Speed of its clock; 1: that of the storage."""
    topics: dict[UUID, TopicSize]
    session: int = 0
    end: int = 0
    cluster: Cluster = field(default_factory=Cluster)
    lease_until: float = 0.0
    """By its own clock."""
    frozen_until: float = 0.0
    has_crashed: bool = False
    has_renewed_late: bool = False
    """Whether its lease was over for a while: a node that saw it so may yet fence this one."""
    late: tuple[int, Sequence[NodeRecord]] | None = None
    """A decision that is still on its way."""

    @property
    def now(self) -> float:
        return self.storage.now * self.rate

    def start(self) -> None:
        if self.claim():
            self.read_on()
            self.register()

    def claim(self) -> bool:
        """Begin a session, unless another process that is alive has the id."""
        row = self.storage.rows.setdefault(self.id, Row())
        row.locked_by.discard(self)
        if not row.is_free_for(self, self.storage.now):
            return False
        former = row.owner
        is_alive = row.lease_until > self.storage.now and not (former and former.has_crashed)
        assert former in (None, self) or not is_alive, f"{self.id} is taken from {former}"
        row.session += 1
        row.owner, self.session = self, row.session
        row.locked_by.add(self)
        self.renew()
        self.has_renewed_late = False
        return True

    def register(self) -> None:
        record = NodeRegistered(self.id, self.session, (), Timestamp(int(self.storage.now)))
        self.append([record])

    def renew(self) -> None:
        sent = self.now
        row = self.storage.rows[self.id]
        if row.session == self.session:
            self.has_renewed_late |= row.lease_until <= self.storage.now
            row.lease_until = self.storage.now + LEASE_MS
            self.lease_until = sent + LEASE_MS * (1 - 0.01)  # clocks differ by less than that

    @property
    def leads(self) -> bool:
        """Whether it may serve what its copy of the log says it leads."""
        mine = self.cluster.nodes.get(self.id)
        return mine is not None and mine.session == self.session and self.now < self.lease_until

    def read_on(self, batches: int | None = None) -> None:
        end = len(self.storage.log) if batches is None else self.end + batches
        for batch in self.storage.log[self.end : end]:
            for record in batch.records:
                self.cluster.replay(record)
        self.end = min(end, len(self.storage.log))

    def append(self, records: Sequence[NodeRecord], end: int | None = None) -> None:
        known = self.end if end is None else end
        if records and self.storage.append(self.id, self.session, known, records):
            self.read_on()

    def tick(self, random: Random) -> None:
        if random.random() < 0.9:
            self.renew()
        self.read_on(random.choice((None, None, 0, 1)))
        if self.id not in self.cluster.nodes or not self.leads:
            self.rejoin()
            return
        if self.late is not None and random.random() < 0.5:
            end, records = self.late
            self.append(records, end)
            if random.random() < 0.7:  # else it comes once more
                self.late = None
        records = decided(self.cluster, self.topics, self.observed(random))
        if random.random() < 0.1:
            self.late = (self.end, records)
        else:
            self.append(records)
        self.say_ready(random)
        self.hand_over(random)

    def rejoin(self) -> None:
        """Come back after a fence: it notices that its session is over."""
        row = self.storage.rows[self.id]
        if row.session != self.session:
            self.claim()
        self.read_on()
        if self.now < self.lease_until:
            self.register()

    def observed(self, random: Random) -> Observed:
        nodes = {
            id: Liveness(row.session, Timestamp(int(row.lease_until)), row.holds_lock)
            for id, row in self.storage.rows.items()
        }
        return Observed(Timestamp(int(self.storage.now)), nodes, trusts_locks=random.random() < 0.9)

    def say_ready(self, random: Random) -> None:
        """Say that this node has read what it is to lead, late, more than once, or never."""
        for partition, to in sorted(self.cluster.moves.items()):
            if to == self.id and random.random() < 0.3:
                self.append([ReassignmentPlanned(partition, to, is_ready=True)])

    def hand_over(self, random: Random) -> None:
        for partition, to in sorted(self.cluster.moves.items()):
            leader = self.cluster.leader(partition)
            in_time = partition in self.cluster.ready or random.random() < 0.05
            if leader.node == self.id and in_time and random.random() < 0.5:
                self.append([LeaderChanged(partition, Leader(to, leader.epoch + 1))])

    def serve(self, partition: TopicIdPartition) -> None:
        """Append to a partition, as far as the storage lets it."""
        if self.leads and self.cluster.leader(partition).node == self.id:
            row = self.storage.rows[self.id]
            leader = self.storage.cluster.leader(partition)
            if row.session == self.session:
                assert leader.node == self.id, f"{self.id} appends to what {leader} leads"
                self.storage.served[self.id] += 1
            elif self in row.locked_by and not self.has_renewed_late:
                # Its lease was over by the storage's clock when it was fenced, so by its own too.
                raise AssertionError(f"{self.id} serves what {leader} leads")


class ClusterSimulation:
    """Nodes that fail in every way there is, and what must hold meanwhile."""

    def __init__(self, seed: int, storage: Storage | None = None, nodes: int = 4) -> None:
        self.random = Random(seed)
        self.storage = Storage() if storage is None else storage
        self.topics = {
            UUID(int=1): TopicSize(TopicKind.GROUPS, 6),
            UUID(int=2): TopicSize(TopicKind.TRANSACTIONS, 5),
            UUID(int=3): TopicSize(TopicKind.RECORDS, 3),
        }
        self.processes: list[Process | None] = [None] * nodes
        self.replaced: list[Process] = []
        """Processes that were frozen while others took their ids."""
        self.taken_back = 0
        """How often one of them got its id again, after the end of its successor."""

    def partitions(self) -> list[TopicIdPartition]:
        return [
            TopicIdPartition(topic_id, partition)
            for topic_id, (_, partitions) in self.topics.items()
            for partition in range(partitions)
        ]

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def step(self) -> None:
        """Let some time pass, and one thing happen."""
        random = self.random
        self.storage.now += random.expovariate(1 / 50)
        id = random.randrange(len(self.processes))
        process = self.processes[id]
        match random.random():
            case x if x < 0.004:
                self.crash(id)
            case x if x < 0.008 and process is not None:
                process.frozen_until = self.storage.now + random.expovariate(1 / 4_000)
            case x if x < 0.01:
                self.drain(process)
            case x if x < 0.011:
                self.change_topics()
            case x if x < 0.05 and process is not None and process.frozen_until > self.storage.now:
                self.start(id)
            case x if x < 0.1 and self.replaced:
                self.tick_replaced(random.choice(self.replaced))
            case x if x < 0.5:
                self.tick(id)
            case _ if process is not None and process.frozen_until <= self.storage.now:
                process.serve(random.choice(self.partitions()))

    def tick(self, id: int) -> None:
        process = self.processes[id]
        if process is None:
            self.start(id)
        elif process.frozen_until <= self.storage.now:
            process.tick(self.random)

    def start(self, id: int) -> None:
        process = Process(id, self.storage, self.random.uniform(0.997, 1.003), self.topics)
        process.start()
        if process.session:
            self.replace(process)

    def replace(self, process: Process) -> None:
        """Go on with this process, which has got its id."""
        former, self.processes[process.id] = self.processes[process.id], process
        if former is not None:
            self.replaced.append(former)

    def tick_replaced(self, process: Process) -> None:
        if process.frozen_until <= self.storage.now:
            process.serve(self.random.choice(self.partitions()))
            process.tick(self.random)
            if self.storage.rows[process.id].owner is process:
                self.taken_back += 1
                self.replaced.remove(process)
                self.replace(process)

    def crash(self, id: int) -> None:
        process, self.processes[id] = self.processes[id], None
        if process is not None:
            process.has_crashed = True
            if self.random.random() < 0.8:  # else the lease has to end
                self.storage.rows[id].locked_by.discard(process)

    def drain(self, process: Process | None) -> None:
        known = process and process.cluster.nodes.get(process.id)
        if process and known and known.session == process.session and process.leads:
            record = NodeRegistered(
                *(known.id, known.session, (), known.registered_at),
                is_draining=not known.is_draining,
            )
            process.append([record])

    def change_topics(self) -> None:
        topic_id = UUID(int=3)
        spread = self.topics[topic_id]
        self.topics[topic_id] = spread._replace(partitions=spread.partitions + 1)

    def settle(self) -> None:
        """Let all nodes tick in time, until nothing should be left to do."""
        until = self.storage.now + SETTLING_MS
        for process in self.processes:
            if process is not None:
                process.frozen_until = 0.0
        while self.storage.now < until:
            self.storage.now += TICK_MS / len(self.processes)
            self.tick(int(self.storage.now / TICK_MS * len(self.processes)) % len(self.processes))

    def check_settled(self) -> None:
        """Every partition has a leader that is there, evenly by kind and by topic."""
        cluster = self.storage.cluster
        assert len(cluster.nodes) == len(self.processes)
        targets = {n.id for n in cluster.nodes.values() if not n.is_draining} or set(cluster.nodes)
        leaders = {partition: cluster.leader(partition).node for partition in self.partitions()}
        assert set(leaders.values()) <= targets, leaders
        assert not cluster.moves
        for kind in TopicKind:
            counts = Counter(dict.fromkeys(targets, 0))
            counts.update(
                node
                for partition, node in leaders.items()
                if self.topics[partition.topic_id].kind is kind
            )
            assert max(counts.values()) - min(counts.values()) <= 1, (kind, counts)
