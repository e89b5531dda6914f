"""Group logs with transactions: one that Kafka wrote says here what it said in Kafka."""

import pytest

from kohort.coordinator.records import TransactionalOffsets, TransactionMarker
from kohort.protocol.batches import (
    CONTROL,
    TRANSACTIONAL,
    Record,
    build,
    control_batch,
    iterate,
)
from kohort.runtime.group_log import read_records
from kohort.runtime.log_reading import read_batches
from kohort.testing.bench import Bench
from runtime.fake_log import FakeLog
from runtime.kafka_group_log import LISTED, SAID, SAID_STABLE, group_log

NOW = 1_700_000_000_000


def entries(log):
    return [entry for part in read_records(read_batches(log)) for entry in part]


@pytest.fixture
def loaded():
    log, data = FakeLog(), group_log()
    for position, header in iterate(data):
        log.append(data[position : position + header.size], 0)
    return Bench(log=entries(log))


@pytest.mark.parametrize(("said", "stable"), [(SAID, False), (SAID_STABLE, True)])
def test_offset_fetch_says_what_kafka_said(loaded, said, stable):
    partitions = [("orders", number) for number in range(4)]
    for group, expected in said.items():
        offsets = loaded.fetch(group, *partitions, require_stable=stable).response.offsets
        assert [each.error.name if each.error else each.offset for each in offsets] == expected


def test_the_groups_are_those_that_kafka_listed(loaded):
    assert sorted(each.group for each in loaded.list_groups().response.groups) == LISTED


# --- batch by batch ---


def log_of(*batches):
    log = FakeLog()
    for batch in batches:
        log.append(batch, NOW)
    return log


def encoded(*records, producer_id=4, attributes=TRANSACTIONAL):
    pairs = [Record(key, value, timestamp=NOW) for key, value in records]
    return build(pairs, producer_id=producer_id, producer_epoch=3, attributes=attributes)


KEY = b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00"
VALUE = b"\x00\x03" + (5).to_bytes(8, "big") + b"\xff\xff\xff\xff\x00\x01m" + NOW.to_bytes(8, "big")
GROUP = b"\x00\x02\x00\x01g"
EMPTY = b"\x00\x03\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff" + NOW.to_bytes(8, "big") + bytes(4)


def test_a_transactional_batch_has_the_producer_of_its_offsets():
    (found,) = entries(log_of(encoded((KEY, VALUE))))
    assert isinstance(found, TransactionalOffsets)
    assert found[:2] == (4, 3)
    (row,) = found.commits.rows()
    assert row.key == ("g", "t", 0)
    assert row.value[:4] == (5, -1, "m", NOW)


def test_groups_and_tombstones_do_not_wait_for_the_transaction():
    found = entries(log_of(encoded((GROUP, EMPTY), (KEY, None))))
    assert [type(each).__name__ for each in found] == ["GroupMetadataRecord", "OffsetCommitRecord"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_an_entry(commit):
    written = control_batch(9, 4, commit=commit, coordinator_epoch=0, timestamp=NOW)
    assert entries(log_of(written)) == [TransactionMarker(9, commit)]


def test_other_control_batches_are_passed_over():
    assert entries(log_of(encoded((b"\0\0\0\2", b"\0\0"), attributes=CONTROL))) == []


def test_a_marker_that_decides_on_many_offsets_ends_a_part():
    many = [(KEY[:-4] + number.to_bytes(4, "big"), VALUE) for number in range(800)]
    end = control_batch(4, 3, commit=True, coordinator_epoch=0, timestamp=NOW)
    log = log_of(encoded(*many), end, encoded((KEY, VALUE)))
    assert [len(part) for part in read_records(read_batches(log))] == [801, 1]
