"""What logs in files do beyond the contract: they are there again."""

import os
import shutil
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.recovery import LastEnd
from kohort.log.stores import MAX_SLICES, MIN_SLICE_BYTES, FileSlice
from kohort.protocol import batches
from kohort.types import TopicPartition

from .conftest import (
    NOW,
    ORDERS,
    ORDERS_ID,
    batch,
    fill,
    from_producer,
    looked_up,
    records_of,
    values_of,
)

SMALL = LogConfig(segment_bytes=2_000, index_interval_bytes=200)

RECORDS = {".log", ".index", ".timeindex"}
"""Suffixes of the files of records and their indexes."""


@pytest.fixture
def reopen(data):
    """Closes the directory, if it is open, and opens it again."""
    opened = []

    def again(**options):
        while opened:
            opened.pop().close()
        opened.append(LocalDirectory(data, **options))
        return opened[-1]

    yield again
    while opened:
        opened.pop().close()


def files_of(data, suffix=""):
    return sorted(
        path.name for path in (data / str(ORDERS)).iterdir() if path.name.endswith(suffix)
    )


def test_only_the_user_of_the_server_can_read_records(reopen, data):
    directory = reopen()
    fill(directory.open(ORDERS, SMALL), 100)
    directory.close()
    private = [path for path in (data / str(ORDERS)).iterdir() if path.suffix in RECORDS]
    assert {path.suffix for path in private} == RECORDS
    assert {path.stat().st_mode & 0o077 for path in private} == {0}


class TestRestart:
    @pytest.mark.parametrize("config", [LogConfig(), SMALL])
    def test_restart_keeps_all_records(self, reopen, config):
        log = reopen().open(ORDERS, config)
        fill(log, 100)
        before, times = (
            records_of(log),
            [looked_up(log.offset_for_timestamp(NOW + at)) for at in (0, 50, 99)],
        )
        again = reopen().open(ORDERS, config)
        assert records_of(again) == before
        assert [looked_up(again.offset_for_timestamp(NOW + at)) for at in (0, 50, 99)] == times
        assert looked_up(again.max_timestamp()) == (99, NOW + 99)
        assert again.append(batch(b"more"), NOW).base_offset == 100

    async def test_restart_keeps_the_start_offset(self, reopen):
        log = reopen().open(ORDERS, SMALL)
        fill(log, 100)
        log.trim(33)
        log = reopen().open(ORDERS, SMALL)
        assert (log.start_offset, log.end_offset) == (33, 100)
        assert records_of(log)[0].offset == 33
        log.trim(100)
        await log.retain(NOW)
        log = reopen().open(ORDERS, SMALL)
        assert (log.start_offset, log.end_offset) == (100, 100)

    async def test_the_end_of_a_log_that_was_emptied(self, reopen, data):
        log = reopen().open(ORDERS, LogConfig(retention_ms=1_000, segment_bytes=2_000))
        fill(log, 50)
        await log.retain(NOW + 10_000)
        assert (log.start_offset, log.end_offset) == (50, 50)
        assert files_of(data, ".log") == ["00000000000000000050.log"]
        log = reopen().open(ORDERS, SMALL)
        assert (log.start_offset, log.end_offset) == (50, 50)
        assert log.append(batch(b"a"), NOW).base_offset == 50

    def test_restart_keeps_an_empty_log(self, reopen):
        reopen().open(ORDERS, SMALL)
        log = reopen().open(ORDERS, SMALL)
        assert (log.start_offset, log.end_offset) == (0, 0)

    def test_restart_keeps_producers(self, reopen):
        log = reopen().open(ORDERS, SMALL)
        for at in range(8):
            log.append(from_producer(3, 2, at), NOW)
        log = reopen().open(ORDERS, SMALL)
        assert [log.append(from_producer(3, 2, at), NOW).base_offset for at in range(3, 8)] == [
            3,
            4,
            5,
            6,
            7,
        ]
        with pytest.raises(KafkaError) as refused:
            log.append(from_producer(3, 2, 2), NOW)
        assert refused.value.code is ErrorCode.out_of_order_sequence_number
        assert log.append(from_producer(3, 2, 8), NOW).base_offset == 8

    @pytest.mark.parametrize("snapshot", ["missing", "broken", "of records that are lost"])
    def test_restart_reads_producers_without_their_snapshot(self, reopen, data, snapshot):
        log = reopen().open(ORDERS, SMALL)
        for at in range(30):
            log.append(from_producer(3, 2, at), NOW)
        log.close()
        path = data / "orders-0" / "producers"
        if snapshot == "missing":
            path.unlink()
        elif snapshot == "broken":
            path.write_bytes(path.read_bytes()[:-1] + b"\x00")
        else:
            last = max((data / "orders-0").glob("*.log"))
            os.truncate(last, last.stat().st_size - 1)
        log = reopen().open(ORDERS, SMALL)
        assert log.append(from_producer(3, 2, 27), NOW).duplicate
        assert (
            log.append(from_producer(3, 2, log.end_offset), NOW).base_offset == log.end_offset - 1
        )

    async def test_producers_whose_batches_are_deleted(self, reopen, data, tmp_path):
        log = reopen().open(ORDERS, LogConfig(retention_ms=1_000))
        for at in range(3):
            log.append(from_producer(3, 2, at), NOW)
        assert await log.retain(NOW + 2_000)
        crashed = shutil.copytree(data, tmp_path / "crashed")
        with closing(LocalDirectory(crashed)) as directory:
            log = directory.open(ORDERS, LogConfig())
            assert log.append(from_producer(3, 2, 2), NOW).duplicate
            assert log.append(from_producer(3, 2, 3), NOW).base_offset == 3


class TestFiles:
    def test_files_have_kafkas_names(self, reopen, data):
        log = reopen().open(ORDERS, SMALL)
        fill(log, 20)
        bases = [segment.base_offset for segment in log.segments]
        assert files_of(data, ".log") == [f"{base:020}.log" for base in bases]
        assert f"{0:020}.index" in files_of(data)
        assert f"{0:020}.timeindex" in files_of(data)

    def test_a_segment_file_is_nothing_but_batches(self, reopen, data):
        log = reopen().open(ORDERS, SMALL)
        fill(log, 20)
        content = b"".join(
            (data / "orders-0" / name).read_bytes() for name in files_of(data, ".log")
        )
        assert [header.base_offset for _, header in batches.iterate(content)] == list(range(20))

    def test_the_index_is_as_kafka_writes_it(self, reopen, data):
        log = reopen().open(ORDERS, LogConfig(index_interval_bytes=200))
        fill(log, 100)
        log.close()
        content = (data / "orders-0" / f"{0:020}.index").read_bytes()
        entries = [
            (content[at : at + 4], content[at + 4 : at + 8]) for at in range(0, len(content), 8)
        ]
        stored = (data / "orders-0" / f"{0:020}.log").read_bytes()
        assert len(entries) > 20
        for offset, position in entries:
            header = batches.read_header(stored, int.from_bytes(position))
            assert header.last_offset == int.from_bytes(offset)

    def test_no_more_descriptors_than_allowed(self, reopen):
        directory = reopen(max_open_files=8)
        logs = [directory.open(TopicPartition("many", at), SMALL) for at in range(30)]
        before = len(os.listdir("/proc/self/fd"))
        for number in range(40):
            for log in logs:
                log.append(batch(b"%d" % number), NOW)
        threads_that_sync = 4
        assert len(os.listdir("/proc/self/fd")) <= before + 8 + threads_that_sync
        assert all(values_of(log) == [b"%d" % number for number in range(40)] for log in logs)

    def test_many_logs_open_fast_and_small(self, reopen, data):
        import tracemalloc

        directory = reopen()
        directory.open(TopicPartition("first", 0), SMALL)  # with what all share
        tracemalloc.start()
        logs = [directory.open(TopicPartition("t", at), SMALL) for at in range(50)]
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        paths = 5 * len(str(data))  # of each log and its files, below a longer one with xdist
        assert used / len(logs) - paths < 1_930

    def test_names_lists_every_log(self, reopen, data):
        directory = reopen()
        for topic in ("a", "a-1", "b.c_d", "-"):
            directory.open(TopicPartition(topic, 3), SMALL)
        (data / "lost+found").mkdir()
        (data / "file-7").touch()
        names = list(reopen().names())
        assert names == sorted(TopicPartition(topic, 3) for topic in ("a", "a-1", "b.c_d", "-"))

    @pytest.mark.parametrize("topic", ["../x", "a/b", "a\0b"])
    def test_a_name_that_leads_elsewhere(self, reopen, topic):
        with pytest.raises(ValueError, match="name of a directory"):
            reopen().open(TopicPartition(topic, 0), SMALL)

    def test_removal_of_a_log_leaves_no_file(self, reopen, data):
        directory = reopen()
        directory.directories.make({ORDERS: ORDERS_ID})
        fill(directory.open(ORDERS, SMALL), 50)
        directory.remove(ORDERS, ORDERS_ID)
        assert list(directory.names()) == []
        directory.close()
        assert [path.name for path in data.iterdir() if path.is_dir()] == []

    def test_a_removal_that_was_interrupted_is_completed(self, reopen, data):
        reopen().directories.make({ORDERS: ORDERS_ID})
        fill(reopen().open(ORDERS, SMALL), 50)
        reopen().close()
        os.rename(data / "orders-0", data / "~removed-1-0")
        directory = reopen()
        assert list(directory.names()) == []
        directory.close()
        assert not (data / "~removed-1-0").exists()

    def test_a_log_that_was_never_opened_is_removed_too(self, reopen, data):
        reopen().directories.make({ORDERS: ORDERS_ID})
        reopen().remove(ORDERS, ORDERS_ID)
        assert not (data / "orders-0").exists()


class TestLock:
    def test_a_second_server_is_refused_and_told_why(self, reopen, data):
        reopen()
        with pytest.raises(KohortError) as refused:
            LocalDirectory(data)
        assert str(data) in str(refused.value)
        assert str(os.getpid()) in str(refused.value)

    def test_directory_of_another_process_is_refused(self, reopen, data):
        reopen()
        program = f"from kohort.log.local import LocalDirectory; LocalDirectory({str(data)!r})"
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False
        )
        assert f"in use by process {os.getpid()}" in done.stderr

    def test_close_releases_the_lock(self, reopen):
        reopen()
        reopen()

    def test_lock_tells_how_the_last_process_ended(self, reopen, data):
        assert reopen().last_end is LastEnd.CRASHED, "a directory that nobody had: nothing is known"
        directory = reopen()
        assert directory.last_end is LastEnd.CLEAN
        (data / ".clean-shutdown").touch()
        directory.close()
        (data / ".clean-shutdown").unlink()
        assert LocalDirectory(data).last_end is LastEnd.KILLED


class TestRecordsInTheirFile:
    """What a client fetches is not read as long as nobody looks at it."""

    @pytest.fixture
    def log(self, reopen):
        log = reopen(max_open_files=3).open(ORDERS, LogConfig(segment_bytes=4 * MIN_SLICE_BYTES))
        for _ in range(8):
            log.append(batch(bytes(MIN_SLICE_BYTES - 200)), NOW)
        return log

    def test_many_bytes_are_those_that_are_read(self, log):
        large = log.fetch(0, 2 * MIN_SLICE_BYTES)
        assert isinstance(large, FileSlice)
        assert large.read(0, len(large)) == log.read(0, 2 * MIN_SLICE_BYTES)
        assert large.read(61, 100) == log.read(0, 2 * MIN_SLICE_BYTES)[61:161]
        assert isinstance(log.fetch(0, 0), bytes)
        assert log.fetch(8, 1 << 20) == b""

    async def test_file_slices_outlive_their_segment(self, log, data):
        large, expected = log.fetch(0, 1 << 20), log.read(0, 1 << 20)
        log.trim(8)
        assert await log.retain(NOW) > 0
        assert log.start_offset == 8
        assert large.read(0, len(large)) == expected
        log.close()
        assert large.read(0, len(large)) == expected

    def test_file_slices_keep_few_files_open(self, log):
        before = len(os.listdir("/dev/fd"))
        slices = [log.fetch(offset, 2 * MIN_SLICE_BYTES) for offset in (0, 4) * MAX_SLICES]
        assert len(os.listdir("/dev/fd")) <= before + 2
        assert sum(isinstance(each, FileSlice) for each in slices) == MAX_SLICES
        assert len(slices[-1]) == len(slices[1])
        slices.clear()
        assert isinstance(log.fetch(0, 2 * MIN_SLICE_BYTES), FileSlice)

    def test_a_file_that_was_cut_is_an_error(self, log, data):
        large = log.fetch(0, 1 << 20)
        os.truncate(data / str(ORDERS) / f"{0:020}.log", 10)
        sender, _ = socket.socketpair()
        for lost in (lambda: large.read(10, 5), lambda: large.send(10, sender.fileno())):
            with pytest.raises(OSError, match="shorter"):
                lost()
        sender.close()
