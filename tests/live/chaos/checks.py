"""What must hold after a chaos run, as functions of the ledger and of what the logs hold.

Each returns sentences, one for each violation.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias
from uuid import UUID

from kohort.coordinator.consumer_records import (
    AssignedPartitions,
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMetadataRecord,
    CurrentMemberAssignmentRecord,
    CurrentMemberAssignmentValue,
)
from kohort.coordinator.records import (
    GroupMetadataRecord,
    GroupMetadataValue,
    OffsetCommitRecord,
    Row,
    decode,
)
from kohort.protocol.subscription import decode_assignment
from live.chaos.ledger import Ledger, Owned, Partition, is_late

Content: TypeAlias = Sequence[tuple[int, bytes | None, bytes | None]]
"""(offset, key, value) of all records of a partition."""
SHOWN = 3
"""Most violations of one kind that are listed for one partition."""


def check_records(
    ledger: Ledger,
    topic: str,
    idempotent: bool,
    contents: Mapping[int, Content],
    *,
    leaders_stay: bool = True,
) -> list[str]:
    """Every acknowledged record is there, in order, and once if the producer is idempotent.

    Unless `leaders_stay`, only an idempotent producer keeps the order: the next leader may get a
    batch before the former one has responded to an earlier batch.
    """
    found: list[str] = []
    for number, content in contents.items():
        partition = (topic, number)
        values = [int(value) for _, _, value in content if value is not None]
        by_offset = {offset: value for offset, _, value in content}
        told = [each for each in ledger.acknowledged[topic] if each.partition == partition]
        if lost := sorted({each.value for each in told} - set(values)):
            found.append(f"{partition}: lost {len(lost)} acknowledged records: {lost[:SHOWN]}")
        wrong = [
            f"{partition}: {each.value} was acknowledged at {each.offset}, where is "
            f"{by_offset.get(each.offset)!r}"
            for each in told
            if each.offset >= 0 and by_offset.get(each.offset) != b"%d" % each.value
        ]
        found += wrong[:SHOWN]
        first = list(dict.fromkeys(values))
        if first != sorted(first) and (idempotent or leaders_stay):
            found.append(f"{partition}: the records are not in order")
        if idempotent and len(first) != len(values):
            doubled = {value for value, times in Counter(values).items() if times > 1}
            places = [
                (value, offset) for offset, value in by_offset.items() if int(value) in doubled
            ]
            found.append(
                f"{partition}: {len(values) - len(first)} records are there twice, as (value, "
                f"offset): {sorted(places)[: 2 * SHOWN]}"
            )
        read = {at: value for (of, at), value in ledger.read.items() if of == partition}
        changed = [at for at, value in read.items() if by_offset.get(at) != value]
        if changed:
            found.append(f"{partition}: {len(changed)} records that were read are gone: "
                         f"{changed[:SHOWN]}")  # fmt: skip
    return found


@dataclass
class GroupHistory:
    """One group of any protocol, record by record: its epoch, and what its members own.

    A generation of a classic group counts as an epoch.
    """

    group: str
    names: Mapping[UUID, str]
    epoch: int = 0
    members: set[str] = field(default_factory=set)
    """Of the consumer group."""
    owned: dict[str, frozenset[Partition]] = field(default_factory=dict)
    """By member: what it has, and what it has yet to give up."""
    removed: dict[str, frozenset[Partition]] = field(default_factory=dict)
    """What members owned whose records are removed, until the next record of another kind."""
    epochs: dict[str, int] = field(default_factory=dict)
    """By member."""
    shares: dict[str, set[frozenset[Partition]]] = field(default_factory=lambda: defaultdict(set))
    """By member: every assignment that it had."""
    has_been_consumer: bool = False
    found: list[str] = field(default_factory=list)

    def add(self, record: Row) -> None:
        match record:
            case ConsumerGroupMemberMetadataRecord(key, value):
                (self.members.discard if value is None else self.members.add)(key.member_id)
            case CurrentMemberAssignmentRecord(key, None):
                self.removed[key.member_id] = self.owned.pop(key.member_id, frozenset())
                self.epochs.pop(key.member_id, None)
            case CurrentMemberAssignmentRecord(key, value):
                self.has_been_consumer = True
                self._add_current(key.member_id, value)
            case ConsumerGroupMetadataRecord(_, value) if value is not None:
                self._add_epoch(value.epoch)
            case GroupMetadataRecord(_, value) if value is not None:
                self._add_generation(value)
            case ConsumerGroupMetadataRecord() | GroupMetadataRecord():
                self.members.clear()
                if not self.owned and not self.removed:
                    self.epoch = 0  # a group without members begins anew with the other protocol

    def _add_current(self, member: str, value: CurrentMemberAssignmentValue) -> None:
        self.removed.clear()
        # A member that has left a classic group is in its log until the next generation.
        self.owned = {each: owned for each, owned in self.owned.items() if each in self.members}
        assigned = self._partitions(value.assigned)
        self.shares[member].add(assigned)
        self.owned[member] = assigned | self._partitions(value.pending_revocation)
        self._compare_owners(f"member epoch {value.epoch}")
        if value.epoch < self.epochs.get(member, 0):
            self.found.append(
                f"{self.group}: {member} went back from epoch {self.epochs[member]} to "
                f"{value.epoch}"
            )
        self.epochs[member] = value.epoch

    def _add_epoch(self, epoch: int) -> None:
        self.removed.clear()
        if epoch < self.epoch:
            self.found.append(f"{self.group}: the epoch went back from {self.epoch} to {epoch}")
        self.epoch = epoch

    def _add_generation(self, value: GroupMetadataValue) -> None:
        before = dict(self.removed)
        self._add_epoch(value.generation)
        self.owned = {
            member.member_id: frozenset(
                (tp.topic, tp.partition) for tp in decode_assignment(member.assignment).partitions
            )
            if member.assignment
            else frozenset()
            for member in value.members
        }
        for member, partitions in self.owned.items():
            self.shares[member].add(partitions)
            for other, former in before.items():
                if other != member and other in self.owned and partitions & former:
                    self.found.append(
                        f"{self.group} generation {value.generation}: {member} got "
                        f"{sorted(partitions & former)[:SHOWN]} that {other} still had"
                    )
        self._compare_owners(f"generation {value.generation}")

    def _compare_owners(self, at: str) -> None:
        counted = Counter(each for owned in self.owned.values() for each in owned)
        if twice := sorted(each for each, owners in counted.items() if owners > 1):
            self.found.append(f"{self.group} {at}: two owners in the log: {twice[:SHOWN]}")

    def _partitions(self, assigned: AssignedPartitions) -> frozenset[Partition]:
        return frozenset(
            (self.names.get(topic, str(topic)), number)
            for topic, numbers in assigned.items()
            for number in numbers
        )


@dataclass
class GroupLog:
    """What `__consumer_offsets` holds, in the order of the log."""

    commits: dict[tuple[str, Partition], list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )
    marks: dict[tuple[str, Partition], list[tuple[str, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """The metadata of each of these commits, and the time in ms when it was taken."""
    owners: dict[tuple[str, int], list[dict[str, frozenset[Partition]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By group and generation: each record's members with their assignments."""
    histories: dict[str, GroupHistory] = field(default_factory=dict)

    @classmethod
    def of(
        cls, contents: Mapping[int, Content], names: Mapping[UUID, str] | None = None
    ) -> "GroupLog":
        """`names`: of topics, by their ids."""
        log = cls()
        for content in contents.values():
            for _, key, value in content:
                record = decode(key or b"", value)
                if record is not None:
                    group = record.key.group
                    history = log.histories.setdefault(group, GroupHistory(group, names or {}))
                    history.add(record)
                match record:
                    case OffsetCommitRecord((group, topic, number), committed) if committed:
                        key = group, (topic, number)
                        log.commits[key].append(committed.offset)
                        log.marks[key].append((committed.metadata, committed.commit_timestamp))
                    case GroupMetadataRecord(group_key, metadata) if metadata:
                        log.owners[group_key.group, metadata.generation].append(
                            {
                                member.member_id: frozenset(
                                    (tp.topic, tp.partition)
                                    for tp in decode_assignment(member.assignment).partitions
                                )
                                for member in metadata.members
                                if member.assignment
                            }
                        )
        return log


def check_commits(ledger: Ledger, log: GroupLog) -> list[str]:
    """Every acknowledged commit is in the log, in order, and none goes back but late ones.

    The order in which a client was told counts, but not that of several: what one of them says may
    be heard later than what the next owner says.
    """
    found = []
    for key, clients in ledger.committed.items():
        logged = log.commits.get(key, [])
        told = Counter(offset for each in clients.values() for offset in each)
        if missing := sorted(told - Counter(logged)):
            found.append(f"{key}: acknowledged commits are not in the log: {missing[-SHOWN:]}")
        found += [
            f"{key}: the acknowledged commits of {client} are not in their order in the log"
            for client, offsets in clients.items()
            if not missing and not _is_subsequence(offsets, logged)
        ]
    for key, logged in log.commits.items():
        marked = zip(logged, log.marks[key], strict=True)
        back = [
            f"{key}: the commit went back from {one} ({mark}, taken at {at}) to {two} ({later})"
            for (one, (mark, at)), (two, (later, _)) in pairwise(marked)
            if two < one and not is_late(later, at)
        ]
        found += back[:SHOWN]
    return found


def _is_subsequence(told: Sequence[int], logged: Sequence[int]) -> bool:
    remaining = iter(logged)
    return all(offset in remaining for offset in told)


def check_owners(ledger: Ledger, log: GroupLog) -> list[str]:
    """No partition has two owners in a generation, in the log and by what members were told."""
    found = list(_told_twice(ledger))
    for history in log.histories.values():
        found += history.found
    for (group, generation), records in log.owners.items():
        # A generation of a group that was a consumer group can come again: without members the
        # group begins anew.
        if (
            not log.histories[group].has_been_consumer
            and len({_shares(members) for members in records if members}) > 1
        ):
            found.append(f"{group} generation {generation}: two assignments in the log")
    return found + [
        f"{each.group}: {each.member_id} owned what the log never assigned to it"
        for each in ledger.owned
        if each.partitions and not _was_assigned(each, log.histories.get(each.group))
    ]


def _was_assigned(owned: Owned, history: GroupHistory | None) -> bool:
    """In the consumer protocol a member has a part of its assignment first."""
    shares = set() if history is None else history.shares[owned.member_id]
    if history is None or not history.has_been_consumer:
        return owned.partitions in shares
    return any(owned.partitions <= each for each in shares)


def _shares(members: Mapping[str, frozenset[Partition]]) -> frozenset[frozenset[Partition]]:
    return frozenset(members.values())


def _told_twice(ledger: Ledger) -> Iterator[str]:
    owners: dict[tuple[str, int, Partition], str] = {}
    for each in ledger.owned:
        if each.generation is not None:
            for partition in each.partitions:
                key = (each.group, each.generation, partition)
                owner = owners.setdefault(key, each.member_id)
                if owner != each.member_id:
                    yield (
                        f"{each.group} generation {each.generation}: {partition} is owned by "
                        f"{owner} and {each.member_id}"
                    )
