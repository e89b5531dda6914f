"""What must hold after a chaos run, as functions of the ledger and of what the logs hold.

Each returns sentences, one for each violation.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from kohort.coordinator.records import GroupMetadataRecord, OffsetCommitRecord, decode
from kohort.protocol.subscription import decode_assignment
from live.chaos.ledger import Ledger, Partition

Content: TypeAlias = Sequence[tuple[int, bytes | None, bytes | None]]
"""(offset, key, value) of all records of a partition."""
SHOWN = 3
"""Most violations of one kind that are listed for one partition."""


def check_records(
    ledger: Ledger, topic: str, idempotent: bool, contents: Mapping[int, Content]
) -> list[str]:
    """Every acknowledged record is there, in order, and once if the producer is idempotent."""
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
        if first != sorted(first):
            found.append(f"{partition}: the records are not in order")
        if idempotent and len(first) != len(values):
            found.append(f"{partition}: {len(values) - len(first)} records are there twice")
        read = {at: value for (of, at), value in ledger.read.items() if of == partition}
        changed = [at for at, value in read.items() if by_offset.get(at) != value]
        if changed:
            found.append(f"{partition}: {len(changed)} records that were read are gone: "
                         f"{changed[:SHOWN]}")  # fmt: skip
    return found


@dataclass
class GroupLog:
    """What `__consumer_offsets` holds, in the order of the log."""

    commits: dict[tuple[str, Partition], list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )
    owners: dict[tuple[str, int], list[dict[str, frozenset[Partition]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """By group and generation: each record's members with their assignments."""

    @classmethod
    def of(cls, contents: Mapping[int, Content]) -> "GroupLog":
        log = cls()
        for content in contents.values():
            for _, key, value in content:
                match decode(key or b"", value):
                    case OffsetCommitRecord((group, topic, number), committed) if committed:
                        log.commits[group, (topic, number)].append(committed.offset)
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
    """Every acknowledged commit is in the log, in order, and none goes back."""
    found = []
    for key, told in ledger.committed.items():
        logged = log.commits.get(key, [])
        if not _is_subsequence(told, logged):
            missing = sorted(set(told) - set(logged))
            found.append(f"{key}: acknowledged commits are not in the log: {missing[-SHOWN:]}")
    for key, logged in log.commits.items():
        back = [(one, two) for one, two in pairwise(logged) if two < one]
        found += [f"{key}: the commit went back from {one} to {two}" for one, two in back[:SHOWN]]
    return found


def _is_subsequence(told: Sequence[int], logged: Sequence[int]) -> bool:
    remaining = iter(logged)
    return all(offset in remaining for offset in told)


def check_owners(ledger: Ledger, log: GroupLog) -> list[str]:
    """No partition has two owners in a generation, in the log and by what members were told."""
    found = list(_told_twice(ledger))
    assigned = defaultdict(set)
    for (group, generation), records in log.owners.items():
        for members in records:
            for member, partitions in members.items():
                assigned[group, member].add(partitions)
            counted = [partition for owned in members.values() for partition in owned]
            if len(counted) != len(set(counted)):
                found.append(f"{group} generation {generation}: two owners in the log")
        if len({_shares(members) for members in records if members}) > 1:
            found.append(f"{group} generation {generation}: two assignments in the log")
    return found + [
        f"{each.group}: {each.member_id} owned what the log never assigned to it"
        for each in ledger.owned
        if each.partitions and each.partitions not in assigned[each.group, each.member_id]
    ]


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
