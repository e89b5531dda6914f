"""Invariant: records of both internal topics are read, or raise the error of their reader.

    python fuzz/internal_records.py [inputs]

The first byte is the kind, the second the length of the key. A record of the group log that is read
can be replayed, written again, and read as the same. A batch is read as its records one by one.
"""

import _engine

with _engine.instrumented():
    from uuid import UUID

    from kohort.coordinator.config import GroupCoordinatorConfig
    from kohort.coordinator.records import (
        GroupMetadataKey,
        GroupMetadataRecord,
        GroupMetadataValue,
        MemberMetadata,
        OffsetCommitKey,
        OffsetCommitRecord,
        OffsetCommits,
        OffsetCommitValue,
        decode,
        encode,
    )
    from kohort.coordinator.shard import Shard
    from kohort.coordinator_common import CorruptRecordError
    from kohort.errors import KafkaError
    from kohort.protocol import records as record_format
    from kohort.runtime.commit_runs import read_batch
    from kohort.security.scram import ScramCredential, ScramMechanism
    from kohort.server.metadata import (
        ClusterIdRecord,
        ProducerIdsRecord,
        RemoveTopicRecord,
        TopicRecord,
        UndecodableError,
        UserScramCredentialRecord,
    )
    from kohort.server.metadata import codec as metadata_codec
    from kohort.types import Instant, Timestamp

ID = UUID(int=7)


def check(data: bytes) -> None:
    kind, size, rest = data[:1], data[1:2], data[2:]
    key, value = rest[: (size or b"\x00")[0]], rest[(size or b"\x00")[0] :] or None
    if kind < b"\x40":
        check_group_record(key, value)
    elif kind < b"\x80":
        check_metadata_record(key, value)
    else:
        check_batch(rest, (size or b"\x00")[0])


def check_group_record(key: bytes, value: bytes | None) -> None:
    try:
        record = decode(key, value)
    except CorruptRecordError:
        return
    if record is None:
        return
    shard = Shard(GroupCoordinatorConfig())
    shard.replay(record)
    shard.loaded(Instant(0), Timestamp(0))
    assert decode(*encode(record)) == record


def check_metadata_record(key: bytes, value: bytes | None) -> None:
    try:
        record = metadata_codec.decode(key, value)
    except UndecodableError:
        return
    assert metadata_codec.decode(*metadata_codec.encode(record)) == record


def check_batch(content: bytes, count: int) -> None:
    try:
        one_by_one = [
            decode(each.key or b"", each.value)
            for each in record_format.decode(content, 0, count, 0, 0)
        ]
    except (KafkaError, CorruptRecordError):
        one_by_one = None
    try:
        found = [
            row
            for record in read_batch(content, count)
            for row in (record.rows() if isinstance(record, OffsetCommits) else (record,))
        ]
    except (KafkaError, CorruptRecordError):
        found = None
    if one_by_one is not None and found is not None:
        assert found == [record for record in one_by_one if record is not None]
    assert one_by_one is not None or found is None


def seeds() -> list[bytes]:
    usual = OffsetCommitValue(5, 1, "", 9, topic_id=ID)
    member = MemberMetadata("m", "i", "c", "h", 1, 2, b"s", b"a")
    group = [
        encode(OffsetCommitRecord(OffsetCommitKey("g", "t", 1), value))
        for value in (usual, None, usual._replace(metadata="x"), OffsetCommitValue(1, 2, "m", 3, 4))
    ] + [
        encode(GroupMetadataRecord(GroupMetadataKey("g"), value))
        for value in (None, GroupMetadataValue("consumer", 1, "range", "m", 2, (member,)))
    ]
    topic = TopicRecord(id=ID, name="t", partitions=2, configs={"a": "b"})
    credential = ScramCredential(salt=b"s", stored_key=b"k", server_key=b"k", iterations=4_096)
    user = UserScramCredentialRecord("u", ScramMechanism.SHA_256, credential)
    metadata = [
        metadata_codec.encode(each)
        for each in (topic, RemoveTopicRecord(ID), ProducerIdsRecord(5), ClusterIdRecord("c"), user)
    ]
    commits = [
        encode(OffsetCommitRecord(OffsetCommitKey("g", "t", number), usual)) for number in range(4)
    ]
    batch = b"".join(record_format.encode_pair(*pair, at) for at, pair in enumerate(commits))
    return [
        *(b"\x00" + bytes([len(key)]) + key + (value or b"") for key, value in group),
        *(b"\x50" + bytes([len(key)]) + key + (value or b"") for key, value in metadata),
        b"\x90\x04" + batch,
    ]


if __name__ == "__main__":
    _engine.main(check, seeds())
