"""The checks of a chaos run, on ledgers and logs written by hand."""

from uuid import UUID

import pytest

from kohort.coordinator.consumer_records import (
    ConsumerGroupMemberMetadataRecord,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataRecord,
    ConsumerGroupMetadataValue,
    CurrentMemberAssignmentRecord,
    CurrentMemberAssignmentValue,
    GroupKey,
    MemberKey,
)
from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
    encode,
)
from kohort.protocol.subscription import Assignment, encode_assignment
from kohort.types import TopicPartition
from live.chaos.checks import GroupLog, check_commits, check_owners, check_records
from live.chaos.ledger import Ledger, commit_mark

T0 = ("t", 0)


def log_of(*values):
    return {0: [(offset, None, b"%d" % value) for offset, value in enumerate(values)]}


def acknowledged(*pairs):
    ledger = Ledger()
    for offset, value in pairs:
        ledger.record_acknowledged("p", T0, offset, value)
    return ledger


@pytest.mark.parametrize(
    ("told", "values", "idempotent", "sentence"),
    [
        ([(0, 0), (1, 2)], (0, 2), True, None),
        ([(0, 0), (1, 2)], (0, 2, 4), True, None),
        ([(0, 0), (-1, 2)], (0, 2), True, None),
        ([(0, 0), (3, 2)], (0, 2, 0, 2), False, None),
        ([(0, 0), (1, 2)], (0, 2, 0, 2), True, "twice"),
        ([(0, 0), (1, 2)], (0,), True, "lost 1 acknowledged records: [2]"),
        ([(0, 0), (1, 2)], (0, 4, 2), False, "not in order"),
        ([(0, 0), (0, 2)], (0, 2), True, "was acknowledged at 0, where is b'0'"),
    ],
)
def test_lost_and_repeated_records_are_found(told, values, idempotent, sentence):
    found = check_records(acknowledged(*told), "t", idempotent, log_of(*values))
    assert any(sentence in each for each in found) if sentence else not found


@pytest.mark.parametrize("idempotent", [True, False])
def test_leaders_that_change_keep_the_order_of_idempotent_producers(idempotent):
    found = check_records(
        acknowledged((0, 0), (1, 2)), "t", idempotent, log_of(0, 4, 2), leaders_stay=False
    )
    assert any("not in order" in each for each in found) == idempotent


def test_records_that_were_read_stay():
    ledger = Ledger()
    ledger.record_read("c", T0, 1, b"2")
    assert not check_records(ledger, "t", True, log_of(0, 2))
    assert "1 records that were read are gone" in check_records(ledger, "t", True, log_of(0))[0]
    ledger.record_read("d", T0, 1, b"4")
    assert "read b'4'" in ledger.violations[0]


def commits_of(*offsets):
    rows = [
        OffsetCommitRecord(OffsetCommitKey("g", *T0), OffsetCommitValue(offset, -1, "", 1))
        for offset in offsets
    ]
    return GroupLog.of({0: [(at, *encode(row)) for at, row in enumerate(rows)]})


@pytest.mark.parametrize(
    ("told", "logged", "sentence"),
    [
        ([1, 3], (1, 2, 3), None),
        ([3, 3], (3, 3), None),
        ([1, 3], (1, 2), "not in the log: [3]"),
        ([3, 3], (3,), "not in the log: [3]"),
        ([3, 1], (1, 3), "of c are not in their order"),
        ([1], (3, 1), "went back from 3 ("),
    ],
)
def test_lost_commits_are_found(told, logged, sentence):
    ledger = Ledger()
    for offset in told:
        ledger.record_committed("c", "g", T0, offset)
    found = check_commits(ledger, commits_of(*logged))
    assert any(sentence in each for each in found) if sentence else not found
    assert ledger.highest["g", T0][0] == max(told)


def test_commits_of_two_clients_are_told_in_any_order():
    ledger = Ledger()
    for client, offset in [("b", 3), ("a", 1), ("b", 4)]:
        ledger.record_committed(client, "g", T0, offset)
    assert not check_commits(ledger, commits_of(1, 3, 4))
    assert "not in the log: [1]" in check_commits(ledger, commits_of(3, 4))[0]
    ledger.record_committed("a", "g", T0, 3)
    assert "not in the log: [3]" in check_commits(ledger, commits_of(1, 3, 4))[0]


def test_a_commit_that_was_sent_before_goes_back_late():
    ledger = Ledger()
    late = commit_mark("a")
    ledger.record_committed("b", "g", T0, 3)
    known = ledger.highest["g", T0]
    ledger.check_committed(("g", T0), known, 1, late)
    assert ledger.highest["g", T0][0] == 1
    assert not ledger.violations
    log = GroupLog(commits={("g", T0): [3, 1]}, marks={("g", T0): [("", known[1]), (late, 0)]})
    assert not check_commits(Ledger(), log)


def test_a_commit_goes_back_that_was_sent_after():
    ledger = Ledger()
    ledger.record_committed("b", "g", T0, 3)
    offset, told_ms = ledger.highest["g", T0]
    known = offset, told_ms - 1
    ledger.check_committed(("g", T0), known, 1, mark := commit_mark("a"))
    assert len(ledger.violations) == 1
    log = GroupLog(commits={("g", T0): [3, 1]}, marks={("g", T0): [("", known[1]), (mark, 0)]})
    assert len(check_commits(Ledger(), log)) == 1


def generation(number, **owned):
    members = tuple(
        MemberMetadata(
            name, None, "c", "h", 1, 1, b"",
            encode_assignment(
                Assignment(partitions=tuple(TopicPartition("t", each) for each in partitions))
            ),
        )
        for name, partitions in owned.items()
    )  # fmt: skip
    value = GroupMetadataValue("consumer", number, "range", "a", 1, members)
    return encode(GroupMetadataRecord(GroupMetadataKey("g"), value))


def owners_of(*generations):
    return GroupLog.of({0: [(at, *each) for at, each in enumerate(generations)]})


def test_owners_in_the_log():
    assert not check_owners(Ledger(), owners_of(generation(1, a=[0], b=[1])))
    assert "two owners" in check_owners(Ledger(), owners_of(generation(1, a=[0], b=[0])))[0]
    twice = owners_of(generation(1, a=[0], b=[1]), generation(1, a=[1, 0]))
    assert "two assignments" in check_owners(Ledger(), twice)[0]


TOPIC = UUID(int=1)


def current(member, epoch, *assigned, pending=()):
    value = CurrentMemberAssignmentValue(
        epoch,
        epoch,
        0,
        {TOPIC: dict.fromkeys(assigned, epoch)},
        {TOPIC: dict.fromkeys(pending, epoch)},
    )
    return encode(CurrentMemberAssignmentRecord(MemberKey("g", member), value))


def removed(member):
    return encode(CurrentMemberAssignmentRecord(MemberKey("g", member), None))


def group_epoch(epoch):
    value = None if epoch is None else ConsumerGroupMetadataValue(epoch)
    return encode(ConsumerGroupMetadataRecord(GroupKey("g"), value))


MEMBERS = [
    encode(
        ConsumerGroupMemberMetadataRecord(MemberKey("g", each), ConsumerGroupMemberMetadataValue())
    )
    for each in ("a", "b")
]
UPGRADE = [encode(GroupMetadataRecord(GroupMetadataKey("g"), None)), *MEMBERS]
DOWNGRADE = (current("a", 2, 0), current("b", 2, 1), removed("a"), removed("b"), group_epoch(None))


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        ([current("a", 2, 0), current("b", 2, 1)], None),
        ([current("a", 2, 0, 1), current("a", 3, 0, pending=[1]), current("b", 3)], None),
        ([current("a", 2, 0, pending=[1]), current("b", 3, 1)], "two owners in the log"),
        ([current("a", 2, 0), removed("a"), current("b", 3, 0)], None),
        ([group_epoch(3), group_epoch(2)], "went back from 3 to 2"),
        ([current("a", 3), current("a", 2)], "went back from epoch 3 to 2"),
        ([generation(4, a=[0]), *UPGRADE, group_epoch(3)], "went back from 4 to 3"),
        ([generation(4), *UPGRADE, group_epoch(2)], None),
        ([generation(4, a=[0]), *UPGRADE, current("b", 4, 0)], "two owners in the log"),
        ([generation(4, c=[0]), *UPGRADE, current("b", 4, 0)], None),
        ([*DOWNGRADE, generation(3, a=[0], b=[1])], None),
        ([*DOWNGRADE, generation(3, a=[0, 1])], None),
        ([*DOWNGRADE, generation(3, a=[0, 1], b=[])], "that b still had"),
        ([group_epoch(4), *DOWNGRADE, generation(3, a=[0], b=[1])], "went back from 4 to 3"),
    ],
)
def test_owners_in_a_group_of_both_protocols(records, sentence):
    rows = [*MEMBERS, *records]
    log = GroupLog.of({0: [(at, *each) for at, each in enumerate(rows)]}, {TOPIC: "t"})
    found = check_owners(Ledger(), log)
    assert any(sentence in each for each in found) if sentence else not found


def test_a_member_of_the_consumer_protocol_has_a_part_of_its_assignment_first():
    log = GroupLog.of({0: [(0, *current("a", 2, 0, 1))]}, {TOPIC: "t"})
    ledger = Ledger()
    ledger.record_owned("g", None, "a", [T0])
    assert not check_owners(ledger, log)
    ledger.record_owned("g", None, "a", [("t", 2)])
    assert "never assigned" in check_owners(ledger, log)[0]


def test_owners_by_what_members_were_told():
    log = owners_of(generation(1, a=[0], b=[1]))
    ledger = Ledger()
    ledger.record_owned("g", 1, "a", [T0])
    ledger.record_owned("g", None, "b", [("t", 1)])
    assert not check_owners(ledger, log)
    ledger.record_owned("g", 1, "b", [T0])
    assert "owned by a and b" in check_owners(ledger, log)[0]
    assert "never assigned" in check_owners(ledger, log)[1]
