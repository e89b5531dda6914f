"""Groups that an embedded Kafka loads from segment files of Apache Kafka and Kohort."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from history.recorded import LOGS, NAMES
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.fold import Fold
from kohort.coordinator.records import (
    Entry,
    OffsetCommitRecord,
    OffsetCommits,
    TransactionalOffsets,
    TransactionMarker,
    decode,
    pack_offset,
)
from kohort.errors import KohortError
from kohort.protocol.batches import decode_records, iterate, read_marker
from kohort.testing import EmbeddedKafka
from testing.embedded.wire_member import WireMember, make_stable


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of Kohort with three groups."""
    path = tmp_path_factory.mktemp("data")
    with EmbeddedKafka(directory=path) as kafka:
        kafka.topic("orders", partitions=4)
        kafka.group("classic").start(members=2, generation=7, committed={("orders", 3): 42})
        kafka.group("consumer").start(
            type="consumer", members=2, generation=9, topics=["orders"], reconciling=True
        )
        kafka.group("empty").commit({("orders", 0): 1})
        kafka.group("empty").commit({("orders", 0): 2})
        kafka.open_transaction("t", {}, offsets={("orders", 0): 3}, group="empty")
    return path


@pytest.fixture
def empty() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka({"offsets.topic.num.partitions": 3}) as kafka:
        yield kafka


def test_groups_of_a_data_directory_are_loaded_as_they_were(
    stored: Path, empty: EmbeddedKafka, tmp_path: Path
) -> None:
    loaded = empty.load(stored)
    assert set(loaded.groups) == {"classic", "consumer", "empty"}
    assert (loaded.topics, loaded.left_out, loaded.open_transactions) == (("orders",), 0, 1)
    shutil.copytree(stored, tmp_path / "copy")
    with EmbeddedKafka(directory=tmp_path / "copy") as original:
        for name in loaded.groups:
            here, there = empty.group(name).read(), original.group(name).read()
            assert here.committed == there.committed
            assert (here.state, here.generation) == (there.state, there.generation)
            assert here.members == there.members


def test_members_of_loaded_groups_expire(stored: Path, empty: EmbeddedKafka) -> None:
    empty.load(stored)
    empty.advance(60)
    assert empty.group("classic").wait(state="Empty").generation == 8
    assert empty.group("consumer").wait(members=0).members == ()


def entries(data: bytes) -> Iterator[Entry]:
    """The entries of a segment, one by one."""
    for position, header in iterate(data):
        if header.is_control:
            marker = read_marker(data, position)
            if marker is not None:
                yield TransactionMarker(header.producer_id, marker.commit)
            continue
        for record in decode_records(data, position):
            row = decode(record.key or b"", record.value)
            if isinstance(row, OffsetCommitRecord) and row.value and header.is_transactional:
                value = pack_offset(*row.value)
                commits = OffsetCommits(
                    row.key.group, row.key.topic, (row.key.partition,), (value,)
                )
                yield TransactionalOffsets(header.producer_id, header.producer_epoch, commits)
            elif row is not None:
                yield row


def folded(directory: Path) -> Fold:
    """The groups of a log, as the coordinator replays it."""
    fold = Fold()
    for segment in sorted(directory.glob("__consumer_offsets-*/*.log")):
        for entry in entries(segment.read_bytes()):
            fold.replay(entry)
    return fold


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("log", ["whole", "compacted"])
def test_logs_of_apache_kafka_have_the_groups_of_their_fold(
    name: str, log: str, empty: EmbeddedKafka, tmp_path: Path
) -> None:
    shutil.unpack_archive(LOGS / f"{name}.tar.xz", tmp_path, filter="data")
    loaded = empty.load(tmp_path / log)
    expected = folded(tmp_path / log)
    logged = {
        name for name, (group, offsets, _) in expected.logged_state().items() if group or offsets
    }
    assert set(loaded.groups) == logged
    for group_id in logged:
        group, state = expected.groups[group_id], empty.group(group_id).read()
        assert {member.member_id for member in state.members} == (
            set(group.members)
            if isinstance(group, ConsumerGroup)
            else set(group.logged.members if group.logged else ())
        )
        known = {partition: value.offset for partition, value in group.offsets.items()}
        assert known == state.committed


@pytest.mark.parametrize("name", NAMES)
def test_a_compacted_log_of_apache_kafka_has_the_same_groups(name: str, tmp_path: Path) -> None:
    shutil.unpack_archive(LOGS / f"{name}.tar.xz", tmp_path, filter="data")
    found = []
    for log in ("whole", "compacted"):
        with EmbeddedKafka() as kafka:
            loaded = kafka.load(tmp_path / log)
            states = [kafka.group(group).read() for group in sorted(loaded.groups)]
            found.append(
                [
                    (state.group, state.type, state.generation, state.members, state.committed)
                    for state in states
                ]
            )
    assert found[0] == found[1]


def test_one_partition_is_loaded_alone(stored: Path, empty: EmbeddedKafka) -> None:
    directories = sorted(stored.glob("__consumer_offsets-*"))
    loaded = [group for each in directories for group in empty.load(each).groups if _has(each)]
    assert sorted(loaded) == ["classic", "consumer", "empty"]


def _has(directory: Path) -> bool:
    return any(each.stat().st_size for each in directory.glob("*.log"))


def test_a_directory_without_groups_is_refused(tmp_path: Path, empty: EmbeddedKafka) -> None:
    with pytest.raises(KohortError, match="has no groups: pass a data directory"):
        empty.load(tmp_path)
    with pytest.raises(KohortError, match="has no groups"):
        empty.load(tmp_path / "absent")


def test_a_damaged_segment_is_named(stored: Path, tmp_path: Path, empty: EmbeddedKafka) -> None:
    shutil.copytree(stored, tmp_path / "copy")
    (segment, *_) = (
        each
        for each in (tmp_path / "copy").glob("__consumer_offsets-*/*.log")
        if each.stat().st_size
    )
    content = bytearray(segment.read_bytes())
    content[70] ^= 1
    segment.write_bytes(content)
    with pytest.raises(KohortError, match=f"{segment.parent.name} is damaged: the checksum"):
        empty.load(tmp_path / "copy")
    assert empty.group("empty").state == "Dead"


def test_groups_that_exist_are_not_loaded(stored: Path, empty: EmbeddedKafka) -> None:
    empty.load(stored)
    with pytest.raises(KohortError, match="groups that exist cannot be loaded"):
        empty.load(stored)


def test_a_real_client_joins_a_loaded_group(stored: Path, empty: EmbeddedKafka) -> None:
    empty.load(stored)
    member = WireMember(empty.bootstrap, group="empty")
    make_stable(member)
    assert empty.group("empty").committed == {("orders", 0): 2}
    member.close()
