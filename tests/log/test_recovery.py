"""What is left of a log after its process, or its machine, went away in the middle of something."""

import asyncio
import os
import shutil
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.log import files as log_files
from kohort.log import recovery
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.memory import MemoryBacking
from kohort.log.partition import PartitionLog
from kohort.log.recovery import LastEnd
from kohort.log.segment import Segment
from kohort.log.stores import OpenFiles
from kohort.protocol.batches import Codec

from .conftest import NOW, ORDERS, batch, fill, looked_up, records_of, values_of

SMALL = LogConfig(segment_bytes=2_000, index_interval_bytes=200)
NAME = "orders-0"


def write(data, config=SMALL, count=60, **options):
    """A log whose indexes are written, with the checkpoint of a process that was killed.

    Returns its records.
    """
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, config)
    fill(log, count, **options)
    found = records_of(log)
    checkpoint = data / NAME / "checkpoint"
    saved = checkpoint.read_bytes() if checkpoint.exists() else None
    directory.close()
    checkpoint.unlink() if saved is None else checkpoint.write_bytes(saved)
    return found


def opened(path, last_end, config=SMALL):
    """The log in the directory `path`, as the server would find it."""
    segments, checkpoint = recovery.load(
        str(path),
        OpenFiles(),
        config.index_interval_bytes,
        recovery.RecoveryContext(last_end=last_end),
    )
    return PartitionLog(ORDERS, config, MemoryBacking(), segments, checkpoint)


def logs_of(path):
    return sorted(path.glob("*.log"))


@pytest.mark.parametrize("last_end", [LastEnd.KILLED, LastEnd.CRASHED])
def test_segments_of_a_killed_process_count_as_unsynced(data, last_end):
    write(data)
    log = opened(data / NAME, last_end)
    assert str(logs_of(data / NAME)[-1]) in log.unsynced()
    assert opened(data / NAME, LastEnd.CLEAN).unsynced() == []


class TestTornTail:
    @pytest.mark.parametrize("last_end", [LastEnd.KILLED, LastEnd.CRASHED])
    @pytest.mark.parametrize("config", [LogConfig(), LogConfig(index_interval_bytes=200)])
    def test_last_batch_cut_at_every_byte(self, data, last_end, config):
        before = write(data, config, count=12, size=20)
        path = data / NAME
        (stored,) = logs_of(path)
        whole = stored.read_bytes()
        size = len(whole) // 12
        for end in range(len(whole) - 2 * size, len(whole) + 1):
            copy = data.parent / "copy"
            shutil.copytree(path, copy)
            os.truncate(copy / stored.name, end)
            log = opened(copy, last_end, config)
            assert records_of(log) == before[: end // size]
            assert log.end_offset == end // size
            assert os.stat(copy / stored.name).st_size == end // size * size
            assert log.append(batch(b"next"), NOW).base_offset == end // size
            assert values_of(log)[-1] == b"next"
            log.end(0)
            shutil.rmtree(copy)

    @pytest.mark.parametrize("last_end", [LastEnd.KILLED, LastEnd.CRASHED])
    @pytest.mark.parametrize(
        "tail", [b"\x00" * 500, b"\xff" * 500, b"noise", bytes(16) + b"\x02" + bytes(60)]
    )
    def test_other_bytes_behind_the_last_batch_are_cut_off(self, data, last_end, tail):
        before = write(data)
        last = logs_of(data / NAME)[-1]
        last.write_bytes(last.read_bytes() + tail)
        log = opened(data / NAME, last_end)
        assert records_of(log) == before
        assert log.size == sum(path.stat().st_size for path in logs_of(data / NAME))

    @pytest.mark.parametrize("last_end", [LastEnd.KILLED, LastEnd.CRASHED])
    def test_a_batch_whose_bytes_changed(self, data, last_end):
        before = write(data, LogConfig(), count=10)
        (stored,) = logs_of(data / NAME)
        content = bytearray(stored.read_bytes())
        content[-5] ^= 1
        stored.write_bytes(content)
        log = opened(data / NAME, last_end)
        assert records_of(log) == before[:-1]

    def test_the_batch_that_the_index_names_last(self, data):
        config = LogConfig(index_interval_bytes=0)
        before = write(data, config, count=40)
        (stored,) = logs_of(data / NAME)
        content = bytearray(stored.read_bytes())
        size = len(content) // 40
        content[39 * size + 70] ^= 1
        stored.write_bytes(content)
        log = opened(data / NAME, LastEnd.KILLED, config)
        assert records_of(log) == before[:39]
        log.append(batch(b"next"), NOW)
        assert [record.offset for record in records_of(log, 30)] == list(range(30, 40))

    def test_a_batch_from_before_behind_the_last_one(self, data):
        before = write(data, LogConfig(), count=10)
        (stored,) = logs_of(data / NAME)
        content = stored.read_bytes()
        stored.write_bytes(content + content[: len(content) // 10])
        assert records_of(opened(data / NAME, LastEnd.KILLED)) == before

    def test_recovery_of_an_empty_segment_file(self, data):
        before = write(data)
        (data / NAME / f"{60:020}.log").touch()
        log = opened(data / NAME, LastEnd.KILLED)
        assert records_of(log) == before
        assert log.append(batch(b"next"), NOW).base_offset == 60


class TestTheMachineWentDown:
    def test_a_hole_in_an_older_segment_ends_the_log(self, data):
        before = write(data)
        paths = logs_of(data / NAME)
        assert len(paths) > 4
        broken = paths[2]
        content = bytearray(broken.read_bytes())
        content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
        broken.write_bytes(content)
        (data / NAME / "checkpoint").unlink(missing_ok=True)
        log = opened(data / NAME, LastEnd.CRASHED)
        left = records_of(log)
        assert left == before[: len(left)]
        assert int(paths[2].stem) < len(left) < int(paths[3].stem)
        assert logs_of(data / NAME) == paths[:3]
        assert log.append(batch(b"next"), NOW).base_offset == len(left)
        assert looked_up(log.offset_for_timestamp(NOW + 5)) == (5, NOW + 5)

    def test_crash_recovery_skips_synced_segments(self, data, monkeypatch):
        write(data)
        directory = LocalDirectory(data)
        log = directory.open(ORDERS, SMALL)
        fill(log, 60, first=60)
        directory._executor.shutdown()  # what was sealed is on the disk now
        log.close()
        checked = []
        recover = Segment.recover
        monkeypatch.setattr(
            Segment,
            "recover",
            lambda self, **how: checked.append(self.base_offset) or recover(self, **how),
        )
        recovered = opened(data / NAME, LastEnd.CRASHED)
        assert recovered.end_offset == 120
        assert len(checked) < len(recovered.segments) / 2
        directory._lock.release()

    def test_the_checkpoint_of_a_compacted_log_is_lost(self, data):
        config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=2_000)
        directory = LocalDirectory(data)
        log = directory.open(ORDERS, config)
        for at in range(120):
            log.append(batch(b"%d" % at * 10, key=b"k%d" % (at % 7)), NOW)
        asyncio.run(log.compact(NOW))
        before = records_of(log)
        assert before[0].offset > 0, "there are gaps"
        directory.close()
        (data / NAME / "checkpoint").write_bytes(b"")
        (data / ".clean-shutdown").unlink()
        (data / ".lock").write_text("1\nan earlier boot\n")
        directory = LocalDirectory(data)
        directory.recover([(ORDERS, config, 0)])
        assert records_of(directory.open(ORDERS, config)) == before
        directory.close()

    def test_a_log_whose_records_are_all_lost_keeps_its_start_offset(self, data):
        directory = LocalDirectory(data)
        log = directory.open(ORDERS, SMALL)
        fill(log, 60)
        log.trim(50)
        directory.close()
        (data / NAME / "checkpoint").write_text("start_offset 50\n")
        for path in logs_of(data / NAME):
            os.truncate(path, 10)
        log = opened(data / NAME, LastEnd.CRASHED)
        assert (log.start_offset, log.end_offset) == (50, 50)
        assert log.append(batch(b"next"), NOW).base_offset == 50


class TestIndex:
    def check(self, data, before, config=SMALL):
        log = opened(data / NAME, LastEnd.KILLED, config)
        assert records_of(log) == before
        for offset in range(0, 60, 7):
            assert records_of(log, offset) == before[offset:]
        assert [looked_up(log.offset_for_timestamp(NOW + at)) for at in range(60)] == [
            (at, NOW + at) for at in range(60)
        ]
        assert looked_up(log.max_timestamp()) == (59, NOW + 59)
        log.end(0)

    @pytest.mark.parametrize("config", [SMALL, LogConfig(index_interval_bytes=200)])
    @pytest.mark.parametrize("suffix", [".index", ".timeindex"])
    def test_missing_index_is_rebuilt(self, data, suffix, config):
        before = write(data, config)
        for path in (data / NAME).glob("*" + suffix):
            path.unlink()
        self.check(data, before, config)

    @pytest.mark.parametrize("config", [SMALL, LogConfig(index_interval_bytes=200)])
    @pytest.mark.parametrize(
        "content", [b"", b"\xff" * 24, b"\x00" * 23, b"\x00" * 48, bytes(range(240))]
    )
    def test_wrong_index_is_rebuilt(self, data, content, config):
        before = write(data, config)
        for path in (data / NAME).glob("*.index"):
            path.write_bytes(content)
        self.check(data, before, config)

    @pytest.mark.parametrize("config", [SMALL, LogConfig(index_interval_bytes=200)])
    def test_index_wrong_in_the_middle_is_rebuilt(self, data, config):
        before = write(data, config)
        for path in (data / NAME).glob("*.index"):
            content = bytearray(path.read_bytes())
            for at in range(0, len(content) - 8, 8):
                content[at + 7] ^= 3
            path.write_bytes(content)
        self.check(data, before, config)
        log = opened(data / NAME, LastEnd.KILLED, config)
        for limit in range(100, 2_000, 50):
            read = bytes(log.read(0, limit))
            assert (
                read
                == bytes(opened(data / NAME, LastEnd.KILLED, config).read(0, 10**6))[: len(read)]
            )

    def test_index_beyond_the_batches_is_rebuilt(self, data):
        config = LogConfig(index_interval_bytes=200)
        before = write(data, config)
        (stored,) = logs_of(data / NAME)
        os.truncate(stored, stored.stat().st_size // 3)
        log = opened(data / NAME, LastEnd.KILLED, config)
        left = records_of(log)
        assert left == before[: len(left)]
        assert len(left) == 20 or len(left) == 19
        fill(log, 60 - len(left), first=len(left))
        assert [record.offset for record in records_of(log, 15)] == list(range(15, 60))


class TestInterruptedCompaction:
    """The files as they are when the process dies between two steps of the swap."""

    @pytest.fixture
    def steps(self, data, monkeypatch):
        """Copies of the directory before every rename and unlink of a compaction."""
        config = LogConfig(
            cleanup_policy=frozenset({"compact"}), segment_bytes=1_000, index_interval_bytes=200
        )
        directory = LocalDirectory(data)
        log = directory.open(ORDERS, config)
        for at in range(120):
            log.append(batch(b"%d" % at * 10, key=b"k%d" % (at % 7), codec=Codec(at % 5)), NOW)
        copies = []

        def copying(call):
            def copied(*arguments):
                copies.append(data.parent / f"copy{len(copies)}")
                shutil.copytree(data / NAME, copies[-1])
                return call(*arguments)

            return copied

        submitted = []
        monkeypatch.setattr(
            directory._executor,
            "submit",
            lambda call, *arguments: submitted.append((call, arguments)),
        )
        with monkeypatch.context() as patch:
            patch.setattr(log_files.os, "rename", copying(os.rename))
            asyncio.run(log.compact(NOW))
        latest = {record.key: (record.offset, record.value) for record in records_of(log)}
        for call, arguments in submitted:
            call(*arguments)
        monkeypatch.undo()
        directory.close()
        return config, copies, latest

    def test_every_interruption_of_compaction_leaves_the_same_log(self, steps):
        config, copies, latest = steps
        assert len(copies) > 10
        for copy in copies:
            log = opened(copy, LastEnd.KILLED, config)
            assert {
                record.key: (record.offset, record.value) for record in records_of(log)
            } == latest
            assert log.end_offset == 120
            assert not [
                path for path in copy.iterdir() if path.suffix in (".cleaned", ".swap", ".deleted")
            ]
            assert log.append(batch(b"next"), NOW).base_offset == 120
            log.end(0)


class TestOpeningIsRepeatable:
    @settings(max_examples=examples(20))
    @given(st.lists(st.integers(1, 3_000), max_size=30), st.integers(0, 400))
    def test_any_log_cut_anywhere_opens_the_same_again(self, tmp_path_factory, sizes, cut):
        data = tmp_path_factory.mktemp("data")
        config = LogConfig(segment_bytes=4_000, index_interval_bytes=100)
        directory = LocalDirectory(data)
        log = directory.open(ORDERS, config)
        for size in sizes:
            log.append(batch(bytes(size)), NOW)
        before = records_of(log)
        directory.close()
        (data / NAME / "checkpoint").unlink(missing_ok=True)
        if paths := logs_of(data / NAME):
            os.truncate(paths[-1], max(paths[-1].stat().st_size - cut, 0))
        for _ in range(2):
            log = opened(data / NAME, LastEnd.KILLED, config)
            left = records_of(log)
            assert left == before[: len(left)]
            assert len(left) >= len(sizes) - 1 - cut // 60
            log.end(0)


class TestTheRecoveryPointWaits:
    """What lies before it is not looked at after a crash: all of it has to be on the disk."""

    @pytest.fixture
    def synced(self, monkeypatch):
        """Paths that were synced; `refused` are not."""
        found = Synced()
        monkeypatch.setattr(log_files, "sync_all", found)
        return found

    def test_the_recovery_point_waits_for_a_segment_whose_sync_failed(
        self, data, synced, monkeypatch
    ):
        written = []
        monkeypatch.setattr(log_files, "rewrite", written.append)
        directory = LocalDirectory(data)
        log = directory.open(ORDERS, SMALL)
        synced.fails = 1
        fill(log, 15)
        synced.await_calls(1)
        while not log.recovery_point:
            time.sleep(0.01)
        assert written == [log.segments[0].log.path], "a second sync alone would say nothing"
        assert not directory.problems.texts(1)
        assert directory.problems.failed_syncs == 1
        directory.close()

    def test_the_recovery_point_waits_for_segments_of_a_killed_process(
        self, data, synced, monkeypatch
    ):
        killed = LocalDirectory(data)
        with monkeypatch.context() as patch:
            # it did not come to that
            patch.setattr(log_files.FileBacking, "sealed", lambda *_: None)
            log = killed.open(ORDERS, SMALL)
            fill(log, 200)
        left = [segment.log.path for segment in log.segments[:-1]]
        killed._lock.release()
        directory = LocalDirectory(data)
        log = directory.open(ORDERS, SMALL)
        fill(log, 100)
        synced.await_calls(len(left) + 1)
        assert log.recovery_point > 0
        assert set(left) <= set(synced.paths)
        directory.close()


class Synced:
    """Stands in for `sync_all`."""

    def __init__(self):
        self.paths = []
        self.calls = self.fails = 0

    def __call__(self, paths):
        self.calls += 1
        if self.fails:
            self.fails -= 1
            raise OSError(5, "Input/output error")
        self.paths += paths

    def await_calls(self, count):
        deadline = time.monotonic() + 10
        while self.calls < count and time.monotonic() < deadline:
            time.sleep(0.01)
        assert self.calls >= count
