"""Batches of the group log are read commit by commit with the result of reading each record."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommits,
    OffsetCommitValue,
    decode,
    encode,
)
from kohort.coordinator_common import CorruptRecordError
from kohort.errors import KafkaError
from kohort.protocol import records as format_
from kohort.protocol.records import Record
from kohort.runtime.commit_runs import read_batch

TOPIC_ID = UUID(int=7)
USUAL = OffsetCommitValue(2**40, 3, "", 1_700_000_000_000, topic_id=TOPIC_ID)


def content_of(pairs, deltas=None, headers=(), timestamps=None):
    """The records of a batch; the deltas of a compacted one have gaps."""
    deltas = deltas or range(len(pairs))
    return b"".join(
        format_.encode(
            Record(key, value, headers, timestamps[at] if timestamps else 0), deltas[at], 0
        )
        for at, (key, value) in enumerate(pairs)
    )


def rows(found):
    return [
        row
        for record in found
        for row in (record.rows() if isinstance(record, OffsetCommits) else [record])
    ]


def commits(group, topic, count, value=USUAL):
    return [
        encode(OffsetCommitRecord(OffsetCommitKey(group, topic, partition), value))
        for partition in range(count)
    ]


def read(content, count):
    return list(read_batch(content, count))


def test_a_commit_of_many_partitions_is_one_value_for_each_size_of_records():
    pairs = commits("g", "t", 200)
    found = read(content_of(pairs), 200)
    # an offset delta above 63 takes a second byte
    assert [each[:3] for each in found] == [
        ("g", "t", tuple(range(64))),
        ("g", "t", tuple(range(64, 200))),
    ]
    assert [value for each in found for value in each.values] == [value for _, value in pairs]


def test_commits_of_groups_whose_names_have_one_length_are_cut_at_once():
    pairs = commits("a", "t", 3) + commits("b", "t", 3) + commits("b", "u", 1)
    found = read(content_of(pairs), 7)
    assert [each[:3] for each in found] == [
        ("a", "t", (0, 1, 2)),
        ("b", "t", (0, 1, 2)),
        ("b", "u", (0,)),
    ]


def test_a_compacted_batch_has_gaps():
    pairs = commits("g", "t", 50)
    found = read(content_of(pairs, deltas=range(0, 100, 2)), 50)
    assert sum(len(each.values) for each in found) == 50
    assert rows(found) == [decode(*pair) for pair in pairs]


ANY = st.one_of(
    st.builds(commits, st.sampled_from(["g", "h", "longer"]), st.just("t"), st.integers(1, 5)),
    st.builds(
        commits,
        st.just("g"),
        st.just("t"),
        st.integers(1, 3),
        st.sampled_from([
            None,
            USUAL._replace(topic_id=None),
            USUAL._replace(metadata="m"),
            # as long as a usual value
            USUAL._replace(metadata="x" * 17, topic_id=None),
            USUAL._replace(expire_timestamp=5, metadata="x" * 14),
        ]),
    ),
    st.just([encode(GroupMetadataRecord(GroupMetadataKey("g"), None))]),
    st.just([
        encode(
            GroupMetadataRecord(
                GroupMetadataKey("g"), GroupMetadataValue("consumer", 3, "range", None, 9, ())
            )
        )
    ]),
    st.just([(b"\x00\x0aother protocol", b"value")]),
    st.just([(b"\x00\x00\x00\x01g\x00\x01t\x00\x00\x00\x09", encode(
        OffsetCommitRecord(OffsetCommitKey("g", "t", 9), USUAL))[1])]),
)  # fmt: skip


@given(st.lists(ANY, max_size=8), st.data())
def test_every_batch_is_read_as_record_by_record(parts, data):
    pairs = [pair for part in parts for pair in part]
    steps = data.draw(
        st.lists(st.integers(1, 90), min_size=len(pairs), max_size=len(pairs)), "gaps"
    )
    deltas = [sum(steps[: at + 1]) for at in range(len(pairs))]
    timestamps = data.draw(
        st.lists(st.sampled_from([0, 0, 5, -1, 300]), min_size=len(pairs), max_size=len(pairs))
    )
    headers = data.draw(st.sampled_from([(), (), (("h", b"v"),)]))
    content = content_of(pairs, deltas, headers, timestamps)
    expected = [record for pair in pairs if (record := decode(*pair)) is not None]
    assert rows(read(content, len(pairs))) == expected


@given(st.data())
def test_damaged_batches_are_refused_or_read_as_record_by_record(data):
    pairs = commits("g", "t", 4)
    content = bytearray(content_of(pairs))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))

    def one_by_one():
        for each in format_.decode(bytes(content), 0, 4, 0, 0):
            if each.key is None:
                raise CorruptRecordError("no key")
            if (record := decode(each.key, each.value)) is not None:
                yield record

    try:
        expected = list(one_by_one())
    except (KafkaError, CorruptRecordError) as error:
        with pytest.raises(type(error)):
            rows(read(bytes(content), 4))
    else:
        assert rows(read(bytes(content), 4)) == expected


@pytest.mark.parametrize("count", [0, 3, 5])
def test_another_count_is_refused(count):
    with pytest.raises(KafkaError):
        read(content_of(commits("g", "t", 4)), count)


@pytest.mark.parametrize("missing", range(1, 8))
def test_a_batch_that_ends_before_its_last_record_does_is_refused(missing):
    with pytest.raises(KafkaError):
        read(content_of(commits("g", "t", 4))[:-missing], 4)
