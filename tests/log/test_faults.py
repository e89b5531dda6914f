"""A storage that fails: the log is as it was before, and says so."""

import asyncio
import contextlib
import errno
import os
import shutil
import threading
from uuid import UUID

import pytest

from gate import Gate, SlowCall
from kohort.errors import ErrorCode, KafkaError
from kohort.log import durability, files, stores
from kohort.log.base import LogConfig
from kohort.log.compaction import Compaction
from kohort.log.local import LocalDirectory
from kohort.log.recovery import LastEnd
from waiting import until

from .conftest import DAY, NOW, ORDERS, ORDERS_ID, batch, fill, from_producer, records_of, values_of

SMALL = LogConfig(segment_bytes=2_000, index_interval_bytes=200)

COMPACTED = LogConfig(
    segment_bytes=600, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0
)


@pytest.fixture
def directory(data):
    made = LocalDirectory(data)
    yield made
    made.close()


@pytest.fixture
def log(directory):
    return directory.open(ORDERS, SMALL)


class Disk:
    """Stands in for `os` in the storage: writes go through until the disk is full or broken."""

    def __init__(self, monkeypatch, module=stores):
        self.room = None
        self.error = errno.ENOSPC
        self.cannot_cut = False
        self.shortest = None
        monkeypatch.setattr(module, "os", self)

    def __getattr__(self, name):
        return getattr(os, name)

    def _allowed(self, size):
        if self.room is None:
            return size if self.shortest is None else min(size, self.shortest)
        if not self.room:
            raise OSError(self.error, os.strerror(self.error))
        allowed = min(size, self.room)
        self.room -= allowed
        return allowed

    def pwritev(self, fd, parts, position):
        data = b"".join(parts)
        return os.pwrite(fd, data[: self._allowed(len(data))], position)

    def pwrite(self, fd, data, position):
        return os.pwrite(fd, data[: self._allowed(len(data))], position)

    def ftruncate(self, fd, size):
        if self.cannot_cut:
            raise OSError(errno.EIO, "cannot cut")
        os.ftruncate(fd, size)


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


def size_on_disk(data):
    return sum(path.stat().st_size for path in (data / "orders-0").glob("*.log"))


class TestWriting:
    def test_a_short_write_is_completed(self, log, disk):
        disk.shortest = 7
        fill(log, 30)
        assert [record.offset for record in records_of(log)] == list(range(30))

    @pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
    @pytest.mark.parametrize("room", [0, 1, 16, 60, 61, 100])
    def test_a_write_that_fails_leaves_no_trace(self, log, disk, data, room, error):
        fill(log, 5)
        before, size = records_of(log), size_on_disk(data)
        disk.room, disk.error = room, error
        seen = []
        stop = log.on_append(lambda: seen.append(True))
        with pytest.raises(OSError) as failed:
            log.append(batch(b"lost" * 20), NOW)
        stop()
        assert failed.value.errno == error
        assert (records_of(log), log.end_offset, size_on_disk(data)) == (before, 5, size)
        assert not seen
        disk.room = None
        assert log.append(batch(b"kept"), NOW).base_offset == 5
        assert values_of(log, 5) == [b"kept"]

    @pytest.mark.parametrize("room", [3, 100])
    def test_torn_append_is_cut_off_later_if_not_at_once(self, log, disk, data, room):
        fill(log, 5)
        size = size_on_disk(data)
        disk.room, disk.cannot_cut = room, True
        for _ in range(2):
            with pytest.raises(OSError):
                log.append(batch(b"lost" * 20), NOW)
        disk.room = None
        with pytest.raises(OSError):
            log.append(batch(b"x"), NOW)
        disk.cannot_cut = False
        log.append(batch(b"x"), NOW)
        assert size_on_disk(data) == size + len(batch(b"x"))
        assert log.end_offset == 6

    def test_the_log_tells_so_until_as_much_is_written(self, log, directory, disk):
        disk.room = 200
        with pytest.raises(OSError):
            log.append(batch(bytes(500)), NOW)
        (told,) = directory.problems.texts(9)
        assert "orders-0: the disk refused an append (No space left" in told
        disk.room = 200
        log.append(batch(b"small"), NOW)
        assert directory.problems.texts(9) == [told]
        disk.room = None
        log.append(batch(bytes(500)), NOW)
        assert not directory.problems

    async def test_a_full_disk_is_a_problem_until_it_has_room_for_the_batch(
        self, log, directory, disk
    ):
        disk.room = 200
        with pytest.raises(OSError):
            log.append(batch(bytes(500)), NOW)
        disk.room = 200
        await directory.reopen()
        assert directory.problems
        disk.room = None
        await directory.reopen()
        assert not directory.problems

    def test_a_failed_batch_of_a_producer_can_be_sent_again(self, log, disk):
        log.append(from_producer(1, 0, 0), NOW)
        disk.room = 10
        with pytest.raises(OSError):
            log.append(from_producer(1, 0, 1), NOW)
        disk.room = None
        assert not log.append(from_producer(1, 0, 1), NOW).duplicate

    def test_failed_append_at_the_start_of_a_segment(self, log, disk):
        fill(log, 2, size=800)
        disk.room = 0
        for _ in range(3):
            with pytest.raises(OSError):
                log.append(batch(bytes(800)), NOW)
        disk.room = None
        fill(log, 10, first=2, size=800)
        assert [record.offset for record in records_of(log)] == list(range(12))
        assert [segment.base_offset for segment in log.segments] == sorted(
            {s.base_offset for s in log.segments}
        )

    def test_an_index_that_cannot_be_written_is_written_later(self, log, monkeypatch):
        log.configure(LogConfig(index_interval_bytes=0))
        written = stores.FileStore.append

        def failing(self, parts):
            if not self.path.endswith(".log"):
                raise OSError(errno.ENOSPC, "no space")
            written(self, parts)

        monkeypatch.setattr(stores.FileStore, "append", failing)
        fill(log, 100)
        monkeypatch.undo()
        assert [record.offset for record in records_of(log, 50)] == list(range(50, 100))


class TestOtherFiles:
    def test_a_short_write_of_a_checkpoint_is_completed(self, data, monkeypatch):
        directory = LocalDirectory(data)
        log = directory.open(ORDERS, SMALL)
        fill(log, 30)
        written = os.write
        monkeypatch.setattr(os, "write", lambda fd, content: written(fd, content[:7]))
        log.trim(10)
        directory.close()
        monkeypatch.undo()
        again = LocalDirectory(data)
        assert again.open(ORDERS, SMALL).start_offset == 10
        again.close()

    def test_a_trim_that_cannot_be_stored_did_not_happen(self, log, monkeypatch):
        fill(log, 30)

        def failing(*_):
            raise OSError(errno.ENOSPC, "no space")

        monkeypatch.setattr(os, "replace", failing)
        with pytest.raises(OSError):
            log.trim(10)
        assert log.start_offset == 0
        monkeypatch.undo()
        log.trim(10)
        assert log.start_offset == 10

    async def test_a_compaction_that_fails_changes_nothing(self, directory, disk):
        log = directory.open(
            ORDERS, LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=1_000)
        )
        fill(log, 50)
        before = records_of(log)
        disk.room = 30
        with pytest.raises(OSError):
            await log.compact(NOW)
        disk.room = None
        assert records_of(log) == before
        assert await log.compact(NOW)

    async def test_a_swap_that_fails_closes_the_log_until_it_is_opened_again(
        self, data, rename_fails
    ):
        directory = LocalDirectory(data)
        config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=1_000)
        log = directory.open(ORDERS, config)
        fill(log, 50)
        last = records_of(log)[-1]
        with rename_fails(after=3), pytest.raises(OSError):
            await log.compact(NOW)
        with pytest.raises(KafkaError) as refused:
            log.read(0, 100)
        assert refused.value.code is ErrorCode.kafka_storage_error
        directory.close()
        again = LocalDirectory(data)
        assert records_of(again.open(ORDERS, config)) == [last] or values_of(
            again.open(ORDERS, config)
        )
        again.close()


async def append_durably(log, content):
    log.append(content, NOW)
    await log.durable()


async def test_a_compacted_segment_with_a_wrong_index_is_read(directory, data):
    log = directory.open(ORDERS, COMPACTED)
    for at in range(10):
        log.append(batch(bytes(100), key=b"%d" % at), NOW)
    assert await log.compact(NOW)
    index = data / "orders-0" / f"{0:020}.timeindex"
    index.write_bytes(bytes(index.stat().st_size))
    assert [record.offset for record in records_of(log)] == [*range(10)]


class TestSyncing:
    """Durability "fsync"."""

    @pytest.fixture
    def syncs(self, monkeypatch):
        """The paths that were synced; put an error into `failing` to have it raised."""

        class Syncs(list):
            failing = None

        done = Syncs()
        really = durability.sync_path

        def sync(path):
            if done.failing is not None:
                raise done.failing
            really(path)
            done.append(path)

        monkeypatch.setattr(durability, "sync_path", sync)
        return done

    @pytest.fixture
    def log(self, data, syncs):
        directory = LocalDirectory(data, durability="fsync")
        yield directory.open(ORDERS, SMALL)
        try:
            directory.close()
        except OSError:
            pass

    @pytest.fixture
    def broken_later(self, monkeypatch):
        """Within it no sync of a segment ends before the event is set, and then each fails."""
        really = durability.sync_path

        @contextlib.contextmanager
        def broken_later():
            breaks = threading.Event()

            def sync(path):
                if path.endswith(".log"):
                    breaks.wait(60)
                    raise OSError(errno.EIO, "broken")
                really(path)

            with monkeypatch.context() as patch:
                patch.setattr(durability, "sync_path", sync)
                yield breaks

        return broken_later

    async def test_one_sync_serves_all_waiting_appends(self, log, syncs):
        waiting = []
        for at in range(50):
            log.append(batch(b"%d" % at), NOW)
            waiting.append(asyncio.ensure_future(log.durable()))
        await asyncio.gather(*waiting)
        files = [path for path in syncs if path.endswith(".log")]
        # those that were sealed: by themselves too, in a thread that may not be done yet
        ahead = len(log.segments) - 1
        assert len(log.segments) <= len(files) <= len(log.segments) + ahead
        assert any(path.endswith("orders-0") for path in syncs), (
            "the name of a new file is part of it"
        )

    async def test_append_during_a_sync_waits_for_the_next_one(self, log, monkeypatch):
        gate, rounds = Gate(), []

        def sync(path):
            rounds.append(path)
            gate.wait()

        with monkeypatch.context() as patch:
            patch.setattr(durability, "sync_path", sync)
            log.append(batch(b"a"), NOW)
            first = asyncio.ensure_future(log.durable())
            await gate.reached()
            log.append(batch(b"b"), NOW)
            later = [asyncio.ensure_future(log.durable()) for _ in range(3)]
            await asyncio.sleep(0.01)
            assert not first.done()
            gate.open()
            await asyncio.gather(first, *later)
        assert len([path for path in rounds if path.endswith(".log")]) == 2

    async def test_a_log_without_new_records_is_not_synced_again(self, log, syncs):
        log.append(batch(b"a"), NOW)
        await log.durable()
        count = len(syncs)
        await log.durable()
        assert len(syncs) == count

    async def test_records_of_a_failed_sync_are_taken_back(self, log, syncs, data):
        log.append(from_producer(7, 0, 0), NOW)
        await log.durable()
        fill(log, 40)  # over several segments
        log.append(from_producer(7, 0, 1), NOW)
        assert log.high_watermark == 1, "readers see what is durable"
        assert bytes(log.read(0, 1 << 20, durable=True)) == bytes(log.read(0, 1))
        assert log.read(1, 1 << 20, durable=True) == b""
        syncs.failing = OSError(errno.EIO, "broken")
        waiting = [asyncio.ensure_future(log.durable()) for _ in range(3)]
        for result in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(result, OSError)
        assert (log.end_offset, log.high_watermark) == (1, 1)
        assert [record.offset for record in records_of(log)] == [0]
        with pytest.raises(OSError):
            log.append(batch(b"c"), NOW)
        with pytest.raises(OSError):
            await log.durable()

    async def test_segments_that_are_not_durable_stay(self, log):
        log.append(batch(b"a"), NOW)
        await log.durable()
        fill(log, 40)  # over several segments
        assert await log.retain(NOW + 30 * DAY) == 0
        assert log.start_offset <= log.high_watermark
        await log.durable()
        assert await log.retain(NOW + 30 * DAY) > 1
        assert log.start_offset == log.high_watermark == 41

    async def test_the_log_continues_once_the_disk_syncs_again(
        self, data, syncs, monkeypatch, caplog
    ):
        monkeypatch.setattr(durability, "RETRY_BACKOFF_S", 0.01)
        directory = LocalDirectory(data, durability="fsync")
        log = directory.open(ORDERS, SMALL)
        log.append(from_producer(7, 0, 0), NOW)
        await log.durable()
        syncs.failing = OSError(errno.EIO, "broken")
        for _ in range(2):  # two of everything: the second is refused at once
            with pytest.raises(OSError):
                await append_durably(log, from_producer(7, 0, 1))
        await until(lambda: directory.problems.failed_syncs > 1)
        assert len(directory.problems.texts(9)) == 1
        syncs.failing = None
        await until(lambda: not directory.problems)
        told = [record.levelname for record in caplog.records if "rejects writes" in record.message]
        assert told == ["ERROR", "WARNING"], "one line when it began, one when it ended"
        placed = log.append(from_producer(7, 0, 1), NOW)
        await log.durable()
        assert (placed.base_offset, placed.duplicate, log.high_watermark) == (1, False, 2)
        directory.close()
        again = LocalDirectory(data)
        assert [record.offset for record in records_of(again.open(ORDERS, SMALL))] == [0, 1]
        again.close()

    async def test_records_not_yet_taken_back_are_not_served(self, log, syncs, monkeypatch):
        monkeypatch.setattr(durability, "RETRY_BACKOFF_S", 0.01)
        log.append(batch(b"a"), NOW)
        await log.durable()
        log.append(batch(b"b"), NOW)
        syncs.failing = OSError(errno.EIO, "broken")
        with monkeypatch.context() as patch:
            disk = Disk(patch)
            disk.cannot_cut = True
            with pytest.raises(OSError):
                await log.durable()
            assert log.high_watermark == 1
            assert log.read(1, 1_000, durable=True) == b""
        syncs.failing = None
        await until(lambda: log.end_offset == 1)
        assert values_of(log) == [b"a"]

    async def test_a_removed_log_whose_checkpoint_waits_for_a_sync_is_no_problem(self, data, syncs):
        directory = LocalDirectory(data, durability="fsync")
        directory.directories.make({ORDERS: ORDERS_ID})
        log = directory.open(ORDERS, SMALL)
        await append_durably(log, batch(b"a"))
        log.append(batch(b"b"), NOW)
        log.trim(1)
        directory.remove(ORDERS, ORDERS_ID)
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()}, timeout=60)
        assert not directory.problems
        assert not directory.problems.failed_syncs
        directory.close()

    async def test_a_sync_of_a_removed_log_that_fails_is_not_retried(self, data, syncs):
        directory = LocalDirectory(data, durability="fsync")
        directory.directories.make({ORDERS: ORDERS_ID})
        log = directory.open(ORDERS, SMALL)
        await append_durably(log, batch(b"a"))
        log.append(batch(b"b"), NOW)
        syncs.failing = OSError(errno.EIO, "broken")
        waiting = asyncio.ensure_future(log.durable())
        await asyncio.sleep(0)
        log.end(ErrorCode.unknown_topic_or_partition)
        with pytest.raises(OSError):
            await waiting
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not directory.problems
        syncs.failing = None
        directory.close()

    async def test_a_removed_log_leaves_the_checkpoint_of_its_successor_alone(
        self, data, monkeypatch
    ):
        directory = LocalDirectory(data, durability="fsync")
        directory.directories.make({ORDERS: ORDERS_ID})
        log = directory.open(ORDERS, SMALL)
        await append_durably(log, batch(b"a", b"b", b"c"))
        with monkeypatch.context() as patch:
            slow = SlowCall(patch, durability, "sync_path")
            log.append(batch(b"d"), NOW)
            log.trim(3)
            waiting = asyncio.ensure_future(log.durable())
            await slow.reached()
        directory.remove(ORDERS, ORDERS_ID)
        directory.directories.make({ORDERS: UUID(int=8)})
        await append_durably(directory.open(ORDERS, SMALL), batch(b"new"))
        slow.open()
        await asyncio.wait([waiting])
        data_after_kill = data.with_name("killed")
        shutil.copytree(data, data_after_kill)
        again = LocalDirectory(data_after_kill)
        assert values_of(again.open(ORDERS, SMALL)) == [b"new"]
        again.close()
        directory.close()

    async def test_an_append_to_a_log_that_failed_is_not_acknowledged(self, log):
        log.append(batch(b"a"), NOW)
        log.fail("an index cannot be written")
        with pytest.raises(KafkaError) as refused:
            await log.durable()
        assert refused.value.code is ErrorCode.kafka_storage_error

    async def test_records_appended_after_one_are_not_lost_to_a_compaction(
        self, data, broken_later, monkeypatch
    ):
        """The last of the segments that it reads is appended to again."""
        monkeypatch.setattr(durability, "RETRY_BACKOFF_S", 0.01)
        directory = LocalDirectory(data, durability="fsync")
        log = directory.open(ORDERS, COMPACTED)
        while len(log.segments) < 3:
            await append_durably(log, batch(bytes(100)))
        gate, run = Gate(), Compaction.run

        def run_slowly(*arguments):
            pieces = run(*arguments)
            gate.wait()
            return pieces

        monkeypatch.setattr(Compaction, "run", run_slowly)
        with broken_later() as breaks:
            log.append(batch(bytes(500)), NOW)  # which begins a segment
            compacting = asyncio.ensure_future(log.compact(NOW))
            await gate.reached()
            breaks.set()
            with pytest.raises(OSError):
                await log.durable()
        await until(lambda: not directory.problems)
        for at in range(6):
            await append_durably(log, batch(bytes(100), key=b"%d" % at))
        gate.open()
        await compacting
        await append_durably(log, batch(b"last", key=b"last"))
        kept = [bytes(100)] * 6 + [b"last"]
        assert values_of(log)[-7:] == kept
        directory.close()
        again = LocalDirectory(data)
        assert values_of(again.open(ORDERS, COMPACTED))[-7:] == kept
        again.close()

    async def test_records_appended_after_one_survive_a_kill_during_a_compaction(
        self, data, broken_later, monkeypatch
    ):
        """The compacted segment is there already, for the one that is appended to again."""
        monkeypatch.setattr(durability, "RETRY_BACKOFF_S", 0.01)
        directory = LocalDirectory(data, durability="fsync")
        log = directory.open(ORDERS, COMPACTED)
        while len(log.segments) < 3:
            await append_durably(log, batch(bytes(100)))
        gate, sync_all = Gate(), files.sync_all

        def sync_slowly(paths):
            if paths == (str(data / "orders-0"),):
                gate.wait()
            sync_all(paths)

        with broken_later() as breaks:
            log.append(batch(bytes(500)), NOW)  # which begins a segment
            with monkeypatch.context() as patch:
                patch.setattr(files, "sync_all", sync_slowly)
                compacting = asyncio.ensure_future(log.compact(NOW))
                await gate.reached()
            breaks.set()
            with pytest.raises(OSError):
                await log.durable()
        await until(lambda: not directory.problems)
        await append_durably(log, batch(b"last", key=b"last"))
        shutil.copytree(data, killed := data.with_name("killed"))
        gate.open()
        await compacting
        directory.close()
        again = LocalDirectory(killed)
        assert values_of(again.open(ORDERS, COMPACTED))[-1] == b"last"
        again.close()

    async def test_no_durable_record_is_compacted_away_by_one_that_is_not(self, data, broken_later):
        directory = LocalDirectory(data, durability="fsync")
        log = directory.open(ORDERS, COMPACTED)
        await append_durably(log, batch(b"durable"))
        with broken_later() as breaks:
            while len(log.segments) < 3:
                log.append(batch(bytes(100)), NOW)
            await log.compact(NOW)
            breaks.set()
            with pytest.raises(OSError):
                await log.durable()
        assert values_of(log) == [b"durable"]
        with pytest.raises(OSError):
            directory.close()

    async def test_the_start_after_a_failed_sync_checks_all_records(self, data, syncs):
        directory = LocalDirectory(data, durability="fsync")
        log = directory.open(ORDERS, SMALL)
        log.append(batch(b"a"), NOW)
        syncs.failing = OSError(errno.EIO, "broken")
        with pytest.raises(OSError):
            await log.durable()
        syncs.failing = None
        with pytest.raises(OSError):
            directory.close()
        again = LocalDirectory(data)
        assert again.last_end is LastEnd.CRASHED
        assert values_of(again.open(ORDERS, SMALL)) == []
        again.close()

    def test_closing_brings_everything_to_the_disk(self, data, syncs):
        directory = LocalDirectory(data)
        fill(directory.open(ORDERS, LogConfig()), 3)
        assert not [path for path in syncs if path.endswith(".log")]
        directory.close()
        assert [path for path in syncs if path.endswith(".log")]

    def test_closing_reports_a_disk_that_refuses(self, data, syncs):
        directory = LocalDirectory(data)
        fill(directory.open(ORDERS, LogConfig()), 3)
        syncs.failing = OSError(errno.EIO, "broken")
        with pytest.raises(OSError):
            directory.close()
        syncs.failing = None
        again = LocalDirectory(data)
        assert again.last_end is LastEnd.CRASHED
        again.close()
