"""Copies of logs into other places."""

import asyncio
import os
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.errors import KafkaError, KohortError
from kohort.log import directory_format
from kohort.log.base import LogConfig
from kohort.log.copying import contents_of, copy_all, copy_log, differences
from kohort.log.file_copy import FileTarget
from kohort.log.local import LocalDirectory
from kohort.log.segment_recovery import unobserved
from kohort.protocol import batches
from kohort.storage.postgres.cluster.shared_storage import PostgresStorage
from kohort.storage.postgres.fence import Fence
from kohort.storage.postgres.logs.copy import PostgresTarget
from kohort.storage.postgres.logs.source import PostgresSource
from kohort.types import TopicPartition
from peers.postgres import make_tables
from storage.postgres.node_logs import NodeLogs

from .conftest import (
    DAY,
    NOW,
    ORDERS,
    ORDERS_ID,
    batch,
    fill,
    from_producer,
    looked_up,
    records_of,
)
from .test_transaction_histories import OPERATIONS, History

SMALL = LogConfig(segment_bytes=2_000, index_interval_bytes=200)
OTHER_ID = UUID(int=8)
COMPACTED = LogConfig(
    segment_bytes=2_000,
    index_interval_bytes=200,
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.0,
)


class FilePlace:
    """A data directory to copy into."""

    def __init__(self, path):
        self.path = path

    def target(self):
        return FileTarget(self.path)

    def opened(self):
        """The logs, as a server opens them."""
        return LocalDirectory(self.path)


class PostgresPlace:
    """A schema to copy into."""

    def __init__(self, url):
        self.url = url

    def target(self):
        return PostgresTarget(self.url)

    def opened(self):
        return NodeLogs(self.url)


@pytest.fixture(params=["files", "postgres"])
def place(request, tmp_path):
    """An empty place."""
    if request.param == "files":
        return FilePlace(tmp_path / "copy")
    return PostgresPlace(request.getfixturevalue("database"))


@pytest.fixture
def source(data):
    """A data directory with one log."""
    with closing(LocalDirectory(data)) as directory:
        directory.directories.make({ORDERS: ORDERS_ID})
        yield directory


def copied(source, place):
    """Copy everything; the copy, opened."""
    with closing(place.target()) as target:
        copy_all(source, target)
    return closing(place.opened())


def lookups(log):
    """What clients ask of a log beside its records."""
    offsets = [looked_up(log.offset_for_timestamp(NOW + at)) for at in range(0, 200, 7)]
    return offsets, looked_up(log.max_timestamp()), log.last_stable_offset, log.high_watermark


def committed(log):
    """What a reader of committed records gets at once, segment by segment."""
    found, offset = [], log.start_offset
    while True:
        data, aborted = log.read_committed(offset, 1)
        if not data:
            return found
        found.append((bytes(data), list(aborted)))
        offset = next(header for _, header in batches.iterate(data)).last_offset + 1


def begin(log, producer_id, sequence=0):
    """Append a batch of a transaction."""
    guard = log.begin_verification(producer_id, 0, sequence, NOW, tv2=False)
    log.append(
        from_producer(producer_id, 0, sequence, attributes=batches.TRANSACTIONAL),
        NOW,
        verified=guard,
    )


def end(log, producer_id, *, commit):
    log.append_marker(
        producer_id, 0, commit=commit, coordinator_epoch=3, transaction_version=1, timestamp=NOW
    )


def with_everything(log):
    """Fill a log with all that there is in logs."""
    fill(log, 60)
    for sequence in range(8):
        log.append(from_producer(1, 0, sequence), NOW)
    for producer_id in (2, 3, 4):
        begin(log, producer_id)
    fill(log, 30, first=60)
    end(log, 2, commit=True)
    end(log, 3, commit=False)
    fill(log, 30, first=90)
    log.trim(7)


def test_a_copy_has_the_records_commits_and_lookups_of_its_source(source, place):
    log = source.open(ORDERS, SMALL)
    with_everything(log)
    with copied(source, place) as copy:
        assert list(differences(source, copy)) == []
        other = copy.open(ORDERS, SMALL)
        assert records_of(other) == records_of(log)
        assert committed(other) == committed(log)
        assert lookups(other) == lookups(log)
        assert other.start_offset == 7


def test_producers_and_transactions_go_on(source, place):
    log = source.open(ORDERS, SMALL)
    with_everything(log)
    end_offset = log.end_offset
    with copied(source, place) as copy:
        other = copy.open(ORDERS, SMALL)
        assert other.append(from_producer(1, 0, 7), NOW).duplicate
        with pytest.raises(KafkaError, match="expected 8"):
            other.append(from_producer(1, 0, 9), NOW)
        assert other.append(from_producer(1, 0, 8), NOW).base_offset == end_offset
        assert other.ongoing_transaction(4, 0) == log.ongoing_transaction(4, 0) is not None
        end(other, 4, commit=True)
        assert other.ongoing_transaction(4, 0) is None


def test_a_copy_of_a_compacted_log_has_its_records_and_checkpoint(source, place):
    log = source.open(ORDERS, COMPACTED)
    for number in range(100):
        log.append(batch(bytes(50), key=b"%d" % (number % 5)), NOW)
    assert asyncio.run(log.compact(NOW))
    with copied(source, place) as copy:
        assert list(differences(source, copy)) == []
        other = copy.open(ORDERS, COMPACTED)
        assert records_of(other) == records_of(log)
        assert other.checkpoint.cleaned == log.checkpoint.cleaned > 0


async def test_an_empty_log_keeps_its_offsets(source, place):
    config = LogConfig(retention_ms=1)
    log = source.open(ORDERS, config)
    fill(log, 10)
    assert await log.retain(NOW + DAY)
    with copied(source, place) as copy:
        other = copy.open(ORDERS, config)
        assert (other.start_offset, other.end_offset) == (10, 10)
        assert other.append(batch(b"a"), NOW).base_offset == 10


def test_segments_keep_their_times(source, place):
    log = source.open(ORDERS, SMALL)
    fill(log, 40)
    with copied(source, place) as copy:
        theirs = copy.open(ORDERS, SMALL).segments
        for mine, its in zip(log.segments[:-1], theirs, strict=False):
            assert (its.base_offset, its.end_offset) == (mine.base_offset, mine.end_offset)
            assert (its.max_timestamp, its.modified) == (mine.max_timestamp, mine.modified)


def test_the_cluster_stays_the_same(source, place):
    with copied(source, place) as copy:
        assert copy.directories.cluster_id == source.directories.cluster_id
        assert copy.directories.marks() == source.directories.marks()


class CopyEnds(Exception):  # noqa: N818
    """A copy ends."""


class Counted:
    """Counts the bytes that a copy writes, and interrupts it at a write."""

    def __init__(self, writes=None):
        self.left = writes
        self.size = self.there = 0

    def __call__(self, size):
        self.size += size
        if self.left is not None:
            self.left -= 1
            if not self.left:
                raise CopyEnds

    def already(self, size):
        self.there += size


def interrupt(source, place, writes):
    """Begin or go on with a copy that ends at one of its writes; what it has written."""
    counted = Counted(writes)
    with closing(place.target()) as target, pytest.raises(CopyEnds):
        copy_all(source, target, counted, counted.already)
    with pytest.raises(KohortError, match="was not completed"):
        place.opened()
    return counted


def go_on(source, place):
    """Complete a copy, and compare; what it has written."""
    counted = Counted()
    with closing(place.target()) as target:
        copy_all(source, target, counted, counted.already)
    with closing(place.opened()) as copy:
        assert list(differences(source, copy)) == []
    return counted


class TestACopyThatWasInterrupted:
    @pytest.fixture
    def logs(self, source):
        """Three logs of some segments."""
        partitions = [TopicPartition("payments", number) for number in range(3)]
        source.directories.remove(ORDERS, ORDERS_ID)
        source.directories.make(dict.fromkeys(partitions, ORDERS_ID))
        logs = [source.open(partition, SMALL) for partition in partitions]
        for log in logs:
            with_everything(log)
        return logs

    def test_interrupted_copy_goes_on(self, source, place, logs):
        """Wherever it was interrupted: a log that was copied whole is not copied again."""
        segments = [len(log.segments) for log in logs]
        for there, writes in ((0, 1), (0, segments[0] + 2), (1, segments[1] + 2)):
            counted = interrupt(source, place, writes)
            assert counted.there == sum(log.size for log in logs[:there])
        last = go_on(source, place)
        assert (last.there, last.size) == (logs[0].size + logs[1].size, logs[2].size)

    def test_copy_interrupted_at_its_end_copies_nothing_again(self, source, place, logs):
        with closing(place.target()) as target:
            target.complete = interrupted
            with pytest.raises(CopyEnds):
                copy_all(source, target)
        assert go_on(source, place).size == 0

    @pytest.mark.parametrize("change", ["append", "trim", "delete", "recreate"])
    def test_interrupted_copy_never_mixes_with_later_changes(self, source, place, logs, change):
        interrupt(source, place, len(logs[0].segments) + 1)
        partition = logs[0].topic_partition
        if change == "append":
            fill(logs[0], 1)
        elif change == "trim":
            logs[0].trim(9)
        else:
            source.remove(partition, ORDERS_ID)
        if change == "recreate":
            source.directories.make({partition: OTHER_ID})
        assert go_on(source, place).there == 0

    def test_copy_of_another_cluster_is_not_touched(self, source, place, logs, tmp_path):
        interrupt(source, place, len(logs[0].segments) + 1)
        with (
            closing(LocalDirectory(tmp_path / "other")) as other,
            closing(place.target()) as target,
            pytest.raises(KohortError, match=r"another cluster.*(rm -r|drop schema)"),
        ):
            copy_all(other, target)
        assert go_on(source, place).there == logs[0].size

    def test_a_resumed_copy_removes_logs_that_the_source_does_not_have(self, source, place):
        log = source.open(ORDERS, SMALL)
        fill(log, 20)
        with closing(place.target()) as target:
            target.begin(source.directories.cluster_id)
            for name in ("other", "another"):
                copy_log(log, target.add_log(TopicPartition(name, 0), ORDERS_ID), 1_000, unobserved)
        go_on(source, place)


def interrupted(_):
    raise CopyEnds


def test_a_place_that_has_data_is_refused(source, place):
    with closing(place.opened()) as other:
        other.directories.make({ORDERS: ORDERS_ID})
        other.open(ORDERS, LogConfig())
    with pytest.raises(KohortError, match=r"has data|have data"):
        place.target()
    place.opened().close()


def test_a_place_that_is_in_use_is_refused(place):
    with closing(place.target()):
        with pytest.raises(KohortError, match=r"in use|uses the tables"):
            place.target()
        with pytest.raises(KohortError):
            place.opened()


def test_damage_is_not_copied(source, data, place):
    fill(source.open(ORDERS, SMALL), 40)
    source.close()
    path = data / str(ORDERS) / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.write_bytes(content)
    with (
        closing(LocalDirectory(data)) as damaged,
        closing(place.target()) as target,
        pytest.raises(KafkaError, match="is damaged at byte"),
    ):
        copy_all(damaged, target)
    with pytest.raises(KohortError, match="was not completed"):
        place.opened()


def test_differences_name_the_cluster_and_each_log_that_differs(source, place):
    log = source.open(ORDERS, SMALL)
    fill(log, 20)
    with copied(source, place) as copy:
        fill(log, 1)
        payments = TopicPartition("payments", 0)
        source.directories.make({payments: ORDERS_ID})
        copy.directories.make({TopicPartition("refunds", 0): ORDERS_ID})
        copy.directories.settle("another")
        assert [line.partition(" ")[0] for line in differences(source, copy)] == [
            "the", "orders-0", "payments-0", "refunds-0",
        ]  # fmt: skip


def test_a_segment_becomes_several_where_it_is_too_large(source, tmp_path):
    log = source.open(ORDERS, LogConfig(index_interval_bytes=200))
    with_everything(log)
    place = FilePlace(tmp_path / "copy")
    with closing(place.target()) as target:
        target.largest_segment = 1_000
        copy_all(source, target)
    with closing(place.opened()) as copy:
        assert list(differences(source, copy)) == []
        other = copy.open(ORDERS, SMALL)
        assert committed(other) == committed(log)
        assert lookups(other) == lookups(log)
        assert all(0 < segment.size <= 1_000 for segment in other.segments)


def test_version_0_1_is_told_apart(source, tmp_path):
    with (
        closing(FileTarget(tmp_path / "copy")) as target,
        unsettled(source),
        pytest.raises(KohortError, match="start a server"),
    ):
        copy_all(source, target)


@contextmanager
def unsettled(directory):
    cluster_id, directory.directories.cluster_id = directory.directories.cluster_id, None
    yield
    directory.directories.cluster_id = cluster_id


def test_a_full_disk_leaves_a_copy_that_is_not_served(source, tmp_path, monkeypatch):
    fill(source.open(ORDERS, SMALL), 100)

    def full(*_):
        raise OSError(28, "No space left on device")

    with closing(FileTarget(tmp_path / "copy")) as target, monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        with pytest.raises(OSError, match="No space left"):
            copy_all(source, target)
    with pytest.raises(KohortError, match="was not completed"):
        LocalDirectory(tmp_path / "copy")


def test_no_other_version_takes_an_unfinished_copy():
    assert directory_format.decode_format(directory_format.unfinished_copy("id")) is None


class TestLeaderEpochs:
    """Of logs that several nodes have served."""

    @pytest.fixture
    def tables(self, database):
        with closing(NodeLogs(database)) as directory:
            directory.directories.make({ORDERS: ORDERS_ID})
            log = directory.open(ORDERS, SMALL)
            for log.leader_epoch in (0, 3, 5):
                fill(log, 20)
            directory.directories.settle("of-nodes")
        with closing(PostgresSource(database)) as directory:
            yield directory

    def test_copy_keeps_leader_epochs(self, tables, postgres, tmp_path):
        files, back = FilePlace(tmp_path / "copy"), PostgresPlace(postgres.new_schema())
        with copied(tables, files) as copy:
            assert list(differences(tables, copy)) == []
            with copied(copy, back):
                pass
        for place in (files, back):
            with closing(place.opened()) as again:
                self.ensure_as_before(again)

    def ensure_as_before(self, directory):
        """The log is led on in the last epoch of its former leaders, which had no batch."""
        log = directory.open(ORDERS, SMALL, leader_epoch=7)
        epochs = log.leader_epochs
        assert (log.leader_epoch, epochs.entries(0)) == (7, ((0, 0), (3, 20), (5, 40), (7, 60)))
        assert batches.read_header(log.read(59, 1)).partition_leader_epoch == 5

    def test_copy_drops_leader_epochs_of_deleted_records(self, tables, tmp_path):
        log = tables.open(ORDERS, SMALL)
        log.trim(30)
        with copied(tables, FilePlace(tmp_path / "copy")) as copy:
            log = copy.open(ORDERS, SMALL)
            assert log.leader_epochs.entries(0) == ((3, 30), (5, 40))


class TestServersOfADatabase:
    async def test_a_node_does_not_start_while_its_logs_are_copied(self, database):
        make_tables(database)
        storage = PostgresStorage(database, Fence(1), ORDERS)
        with (
            closing(await asyncio.to_thread(PostgresSource, database)),
            pytest.raises(KohortError, match="when it has ended"),
        ):
            await storage.claim()
        await storage.close()

    async def test_a_node_of_a_cluster_does_not_start_meanwhile(self, database):
        storage = PostgresStorage(database, Fence(1), ORDERS)
        with (
            closing(await asyncio.to_thread(PostgresTarget, database)),
            pytest.raises(KohortError, match="was not completed"),
        ):
            await storage.claim()
        await storage.close()

    @pytest.mark.parametrize("end", [PostgresSource, PostgresTarget])
    async def test_the_tables_of_a_node_that_runs_are_not_copied(self, database, end):
        storage = PostgresStorage(database, Fence(1), ORDERS)
        await storage.claim()
        with pytest.raises(KohortError, match="stop it first"):
            await asyncio.to_thread(end, database)
        await storage.close()

    async def test_a_server_that_lost_its_connections_writes_nothing_any_more(
        self, database, postgres
    ):
        directory = NodeLogs(database)
        directory.directories.make({ORDERS: ORDERS_ID})
        log = directory.open(ORDERS, SMALL)
        postgres.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
            "where application_name like 'kohort node%'"
        )
        source = await asyncio.to_thread(PostgresSource, database)
        log.append(batch(b"late"), NOW)
        with pytest.raises(KohortError):
            await log.durable()
        await asyncio.to_thread(source.close)
        await asyncio.to_thread(directory.close)

    def test_a_schema_without_tables_is_no_source(self, database):
        with pytest.raises(KohortError, match="no tables"):
            PostgresSource(database)
        PostgresTarget(database).close()


COPIES = st.sampled_from(["files", "small files", "postgres"])


class CopiedHistory(History):
    """A history whose log is copied every now and then, and goes on in the copy."""

    def __init__(self, path, config, new_schema):
        super().__init__(path, config)
        self.new_schema = new_schema
        self.directory.directories.mark({ORDERS: ORDERS_ID})

    def copy(self, how):
        place, largest = self.next_directory(), 1_000 if how == "small files" else 1 << 30
        before = contents_of(self.log)
        if how == "postgres":
            between = PostgresPlace(self.new_schema())
            with closing(between.target()) as target:
                copy_all(self.directory, target)
            with closing(PostgresSource(between.url)) as tables:
                assert list(differences(self.directory, tables)) == []
                self.copy_from(tables, place, largest)
        else:
            self.copy_from(self.directory, place, largest)
        self.directory.close()
        self.reopen()
        assert contents_of(self.log) == before

    def next_directory(self):
        self.runs += 1
        return FilePlace(self.path / str(self.runs))

    @staticmethod
    def copy_from(directory, place, largest):
        with closing(place.target()) as target:
            target.largest_segment = largest
            copy_all(directory, target)


@settings(max_examples=examples(20), deadline=None)
@given(
    st.lists(st.one_of(OPERATIONS, st.tuples(st.just("copy"), COPIES)), max_size=60),
    st.sampled_from([400, 1_000, 1 << 20]),
    st.booleans(),
)
def test_histories_go_on_in_a_copy(postgres, operations, segment_bytes, is_compacted):
    with TemporaryDirectory() as path:
        config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=200,
            retention_ms=-1,
            cleanup_policy=frozenset({"compact"} if is_compacted else ()),
            min_cleanable_dirty_ratio=0.0,
        )
        history = CopiedHistory(Path(path), config, postgres.new_schema)
        for operation in (*operations, ("copy", "postgres")):
            history.run(*operation)
            assert history.log.last_stable_offset == history.model.stable
        found = history.read(1 << 20)
        assert found == history.read(1)
        if not is_compacted:
            assert found == history.model.readable()
        history.directory.close()
