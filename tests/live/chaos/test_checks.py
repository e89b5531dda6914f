"""The checks of a chaos run, on ledgers and logs written by hand."""

import pytest

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
from live.chaos.ledger import Ledger

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
def test_records(told, values, idempotent, sentence):
    found = check_records(acknowledged(*told), "t", idempotent, log_of(*values))
    assert any(sentence in each for each in found) if sentence else not found


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
        ([3, 1], (1, 3), "not in the log"),
        ([1], (3, 1), "went back from 3 to 1"),
    ],
)
def test_commits(told, logged, sentence):
    ledger = Ledger()
    for offset in told:
        ledger.record_committed("c", "g", T0, offset)
    found = check_commits(ledger, commits_of(*logged))
    assert any(sentence in each for each in found) if sentence else not found
    assert ledger.highest_commits() == {("g", T0): max(told)}


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


def test_owners_by_what_members_were_told():
    log = owners_of(generation(1, a=[0], b=[1]))
    ledger = Ledger()
    ledger.record_owned("g", 1, "a", [T0])
    ledger.record_owned("g", None, "b", [("t", 1)])
    assert not check_owners(ledger, log)
    ledger.record_owned("g", 1, "b", [T0])
    assert "owned by a and b" in check_owners(ledger, log)[0]
    assert "never assigned" in check_owners(ledger, log)[1]
