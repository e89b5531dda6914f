"""Logs of many small batches are loaded as if they were replayed record by record."""

from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.coordinator.consumer_records import (
    ConsumerGroupMetadataRecord,
    ConsumerGroupMetadataValue,
    GroupKey,
)
from kohort.coordinator.fold import Fold
from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommits,
    OffsetCommitValue,
    TransactionalOffsets,
    TransactionMarker,
    decode,
    encode,
    pack_offset,
)
from kohort.coordinator_common import CorruptRecordError
from kohort.errors import KafkaError
from kohort.protocol import records as format_
from kohort.protocol.batches import (
    CONTROL,
    TRANSACTIONAL,
    Codec,
    Record,
    build,
    control_batch,
    decode_records,
    iterate,
    read_marker,
)
from kohort.runtime import group_log, log_reading, transaction_log
from kohort.runtime.log_reading import batches_in, read_batches
from kohort.transactions import records as transactions
from kohort.transactions.config import TransactionCoordinatorConfig
from kohort.transactions.records import TransactionMetadata, TransactionRecord, TransactionState
from kohort.transactions.shard import Shard
from runtime.fake_log import FakeLog

NOW = 1_700_000_000_000
USUAL = OffsetCommitValue(7, 3, "", NOW, topic_id=UUID(int=7))


def commit(group="g", topic="t", partition=0, value=USUAL):
    return encode(OffsetCommitRecord(OffsetCommitKey(group, topic, partition), value))


def batch(*pairs, codec=Codec.NONE, attributes=0, producer_id=-1, headers=(), timestamps=(NOW,)):
    records = [
        Record(key, value, headers, timestamps[number % len(timestamps)])
        for number, (key, value) in enumerate(pairs)
    ]
    transactional = {"producer_id": producer_id, "producer_epoch": 0} if producer_id >= 0 else {}
    return build(records, codec=codec, attributes=attributes, **transactional)


def log_of(batches):
    log = FakeLog()
    for each in batches:
        log.append(each, NOW)
    return log


def loaded(log):
    fold = Fold()
    for part in group_log.read_records(read_batches(log)):
        for entry in part:
            fold.replay(entry)
    return fold


def pending(entry, header):
    if not isinstance(entry, OffsetCommitRecord) or entry.value is None:
        return entry
    (group, topic, partition), value = entry
    commits = OffsetCommits(group, topic, (partition,), (pack_offset(*value),))  # type: ignore[misc]
    return TransactionalOffsets(header.producer_id, header.producer_epoch, commits)


def replayed(log):
    """The log record by record, each decoded by itself."""
    fold = Fold()
    for data in log.batches:
        for position, header in iterate(data):
            if header.is_control:
                marker = read_marker(data, position)
                fold.replay(TransactionMarker(header.producer_id, marker.commit))
                continue
            for record in decode_records(data, position):
                entry = decode(record.key, record.value)
                if header.is_transactional:
                    entry = pending(entry, header)
                if entry is not None:
                    fold.replay(entry)
    return fold


values = st.builds(
    lambda offset, form: form._replace(offset=offset),
    st.integers(0, 2**40),
    st.sampled_from([
        USUAL, USUAL, USUAL,
        USUAL._replace(topic_id=None),
        USUAL._replace(metadata="m"),
        # as long as a usual value
        USUAL._replace(metadata="x" * 17, topic_id=None),
        USUAL._replace(topic_id=None, expire_timestamp=NOW + 5),
    ]),
)  # fmt: skip
groups = st.sampled_from(["g", "h", "a-longer-name" * 12])
commits = st.builds(
    commit, groups, st.sampled_from(["t", "u"]), st.sampled_from([0, 1, 300]), values
)
tombstones = st.builds(commit, groups, st.just("t"), st.sampled_from([0, 1]), st.none())
group_records = st.builds(
    lambda group, value: encode(GroupMetadataRecord(GroupMetadataKey(group), value)),
    groups,
    st.sampled_from([None, GroupMetadataValue("consumer", 3, "range", None, 9, ())]),
)
consumer_records = st.builds(
    lambda group, value: encode(ConsumerGroupMetadataRecord(GroupKey(group), value)),
    groups,
    st.sampled_from([None, ConsumerGroupMetadataValue(4)]),
)
other_types = st.just((b"\x00\x0aother protocol", b"value"))
pairs = st.one_of(
    commits, commits, commits, tombstones, group_records, consumer_records, other_types
)
plain = st.builds(
    lambda some, codec, headers, timestamps: batch(
        *some, codec=codec, headers=headers, timestamps=timestamps
    ),
    st.lists(pairs, min_size=1, max_size=12),
    st.sampled_from([Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP]),
    st.sampled_from([(), (), (), (("h", b"v"),)]),
    st.sampled_from([(NOW,), (NOW,), (NOW, NOW + 70)]),
)
one_commit = st.builds(batch, commits)
transactional = st.builds(
    lambda some, producer: batch(*some, attributes=TRANSACTIONAL, producer_id=producer),
    st.lists(st.one_of(commits, commits, tombstones), min_size=1, max_size=9),
    st.integers(0, 1),
)
markers = st.builds(
    lambda producer, committed: control_batch(
        producer, 0, commit=committed, coordinator_epoch=0, timestamp=NOW
    ),
    st.integers(0, 1),
    st.booleans(),
)
logs = st.lists(st.one_of(one_commit, one_commit, plain, transactional, markers), max_size=30)


@settings(max_examples=examples(200))
@given(logs)
@example([batch(commit()), batch(commit(value=None)), batch(commit())])
@example([
    batch(commit(), attributes=TRANSACTIONAL, producer_id=0),
    batch(commit(value=USUAL._replace(offset=9))),
    control_batch(0, 0, commit=True, coordinator_epoch=0, timestamp=NOW),
    batch(commit(partition=1)),
])  # fmt: skip
def test_a_log_is_loaded_as_record_by_record(batches):
    log = log_of(batches)
    fast, slow = loaded(log), replayed(log)
    assert fast.logged_state() == slow.logged_state()
    assert list(fast.groups) == list(slow.groups)


def test_only_the_last_of_the_commits_of_one_offset_is_read():
    log = log_of(batch(commit(value=USUAL._replace(offset=number))) for number in range(500))
    ((found,),) = group_log.read_records([batches_in(b"".join(log.batches))])
    assert [row.value.offset for row in found.rows()] == [499]


@pytest.mark.parametrize("of_transactions", [False, True])
def test_the_key_of_a_record_that_came_before_is_not_read_again(monkeypatch, of_transactions):
    read, read_pairs = [], log_reading.read_pairs

    def counted(*arguments):
        read.append(arguments)
        return read_pairs(*arguments)

    monkeypatch.setattr(log_reading, "read_pairs", counted)
    states = TransactionState.ONGOING, TransactionState.PREPARE_COMMIT
    log = log_of(
        batch(transaction(name, state, number) if of_transactions else commit(name))
        for number in range(100)
        for name in ("a", "b", "a-longer-name")
        for state in states
    )
    if of_transactions:
        transactions_in(log, fast=True)
    else:
        loaded(log)
    assert len(read) == (6 if of_transactions else 3)


def test_commits_of_many_groups_are_read_in_their_order():
    some = [("g", 0), ("g", 1), ("h", 0), ("g", 2), ("h", 0), ("g", 0)]
    log = log_of(batch(commit(group, partition=partition)) for group, partition in some)
    (found,) = group_log.read_records([batches_in(b"".join(log.batches))])
    assert [(each.group, *each.partitions) for each in found] == [
        ("g", 0, 1),
        ("h", 0),
        ("g", 2),
    ]


@pytest.mark.parametrize("between", [commit(value=None), commit("other", value=None)])
def test_a_commit_before_a_tombstone_is_not_one_behind_it(between):
    log = log_of([batch(commit()), batch(between), batch(commit())])
    (found,) = group_log.read_records([batches_in(b"".join(log.batches))])
    assert [type(each) for each in found] == [OffsetCommits, OffsetCommitRecord, OffsetCommits]


def test_a_key_that_is_no_committed_offsets_is_refused():
    log = log_of([batch((b"\x00\x01\x00\x09g", pack_offset(*USUAL)))])
    with pytest.raises(CorruptRecordError):
        loaded(log)


# --- the records of a small batch ---


fields = st.one_of(st.none(), st.binary(max_size=8), st.just(b"x" * 100), st.just(b"x" * 9_000))


@given(
    st.lists(st.tuples(fields, fields, st.sampled_from([0, 0, 5, -1, 300])), max_size=4),
    st.sampled_from([(), (), (("h", b"v"),)]),
    st.data(),
)
def test_pairs_are_those_of_all_records_or_none(some, headers, data):
    content = b"".join(
        format_.encode(Record(key, value, headers, timestamp), number, 0)
        for number, (key, value, timestamp) in enumerate(some)
    )
    behind = data.draw(st.sampled_from([b"", b"\x00", content]))
    damaged = bytearray(content + behind)
    if content and data.draw(st.booleans(), "damaged"):
        damaged[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    found = format_.read_pairs(bytes(damaged), 0, len(content), len(some))
    if found is not None:
        expected = format_.decode(bytes(damaged[: len(content)]), 0, len(some), 0, 0)
        assert found == [(each.key, each.value) for each in expected]


def test_pairs_of_ordinary_records_are_read():
    some = [(b"key", b"value"), (b"k" * 200, None), (b"", b"v" * 5_000)]
    content = b"".join(format_.encode_pair(*pair, number) for number, pair in enumerate(some))
    assert format_.read_pairs(b"_" + content + b"_", 1, 1 + len(content), 3) == some


# --- transactions ---


def transaction(name, state, producer_id=1):
    partitions = {} if state is TransactionState.EMPTY else {"t": frozenset({0, producer_id})}
    value = TransactionMetadata(producer_id, 0, 60_000, state, partitions, NOW, NOW)
    return transactions.encode(TransactionRecord(name, value))


transaction_pairs = st.one_of(
    st.builds(
        transaction,
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from(TransactionState),
        st.integers(0, 5),
    ),
    st.sampled_from(["a", "b"]).map(
        lambda name: transactions.encode(TransactionRecord(name, None))
    ),
    st.just((b"\x00\x09other", b"value")),
)


def transactions_in(log, *, fast):
    shard = Shard(TransactionCoordinatorConfig(), lambda: 0)
    if fast:
        found = [each for part in transaction_log.read_records(read_batches(log)) for each in part]
    else:
        found = [
            transactions.decode(record.key, record.value)  # type: ignore[misc]
            for data in log.batches
            for position, header in iterate(data)
            if not header.is_control
            for record in decode_records(data, position)
        ]
    for record in found:
        if record is not None:
            shard.replay(record)
    return shard


@settings(max_examples=examples(100))
@given(
    st.lists(
        st.builds(
            lambda some, codec: batch(*some, codec=codec),
            st.lists(transaction_pairs, min_size=1, max_size=10),
            st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP]),
        ),
        max_size=20,
    )
)
def test_transactions_are_loaded_as_record_by_record(batches):
    log = log_of([*batches, batch((b"\0\0\0\2", b"\0\0"), attributes=CONTROL)])
    fast, slow = transactions_in(log, fast=True), transactions_in(log, fast=False)
    assert (fast.transactions, fast.open) == (slow.transactions, slow.open)


def test_only_the_last_record_of_a_transactional_id_is_read():
    log = log_of(
        batch(transaction(name, TransactionState.ONGOING, number))
        for number in range(100)
        for name in ("a", "b")
    )
    (found,) = transaction_log.read_records([batches_in(b"".join(log.batches))])
    assert [(each.transactional_id, each.value.producer_id) for each in found] == [
        ("a", 99),
        ("b", 99),
    ]


def test_a_transactional_id_that_is_damaged_is_refused():
    log = log_of([batch((b"\x00\x00\x00\x01a", b"\x00\x01"))])
    with pytest.raises(transactions.CorruptRecordError):
        transactions_in(log, fast=True)


def test_a_batch_with_fewer_records_than_it_says_is_refused():
    data = bytearray(batch(commit()))
    data[60] = 2
    with pytest.raises(KafkaError):
        loaded(log_of([data]))
