"""A log that cannot be read is opened again when it can; a damaged one stays refused."""

import asyncio
import contextlib
import errno
import os
import shutil
import threading
import time

import pytest

from gate import Gate, SlowCall
from kohort.errors import ErrorCode, KafkaError
from kohort.log import durability, local, recovery
from kohort.log import files as log_files
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.recovery import LastEnd
from kohort.log.segment import Segment
from kohort.protocol.batches import Record, build, read_header
from waiting import until

from .conftest import NOW, ORDERS, ORDERS_ID, batch, fill, looked_up, records_of, values_of
from .test_damage import flip

COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=1_000)


@pytest.fixture
def unreadable(data, monkeypatch):
    """Makes the files of `orders-0` unreadable; what it returns makes them readable again."""
    directory = LocalDirectory(data)
    directory.directories.make({ORDERS: ORDERS_ID})
    fill(directory.open(ORDERS, LogConfig()), 5)
    directory.close()
    failing = []
    really = recovery.load

    def load(path, *arguments, **options):
        if failing:
            raise OSError(failing[0], os.strerror(failing[0]), path)
        return really(path, *arguments, **options)

    monkeypatch.setattr(recovery, "load", load)
    return failing


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.EACCES])
async def test_an_unreadable_log_is_reopened_once_it_can_be_read(data, unreadable, number):
    unreadable.append(number)
    directory = LocalDirectory(data)
    refused = directory.open(ORDERS, LogConfig())
    told = []
    directory.on_reopened.append(told.append)
    await directory.reopen()
    assert directory.open(ORDERS, LogConfig()) is refused
    assert not told
    assert len(directory.problems) == 1
    with pytest.raises(KafkaError) as caught:
        refused.read(0, 100)
    assert caught.value.code is ErrorCode.kafka_storage_error
    unreadable.clear()
    await directory.reopen()
    (log,) = told
    assert log is directory.open(ORDERS, LogConfig())
    assert len(records_of(log)) == 5
    assert log.append(batch(b"more"), NOW).base_offset == 5
    assert not directory.problems
    await directory.reopen()
    assert len(told) == 1
    directory.close()


async def test_damage_stays_refused(data, unreadable):
    unreadable.append(errno.EIO)
    directory = LocalDirectory(data)
    directory.open(ORDERS, LogConfig())
    unreadable.clear()
    flip(data / "orders-0" / f"{0:020}.log", 100)
    await directory.reopen()
    log = directory.open(ORDERS, LogConfig())
    for _ in range(2):
        with pytest.raises(KafkaError, match="is damaged at byte 0"):
            log.read(0, 100)
        await directory.reopen()
        assert directory.open(ORDERS, LogConfig()) is log
    directory.close()


async def test_a_topic_that_is_deleted_meanwhile(data, unreadable):
    unreadable.append(errno.EIO)
    directory = LocalDirectory(data)
    directory.open(ORDERS, LogConfig())
    directory.remove(ORDERS, ORDERS_ID)
    unreadable.clear()
    await directory.reopen()
    assert not directory.problems
    assert not (data / "orders-0").exists()
    directory.close()


async def test_a_log_that_a_failed_compaction_has_ended(data, rename_fails):
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, COMPACT)
    fill(log, 50)
    before = values_of(log)
    with rename_fails(after=3), pytest.raises(OSError):
        await log.compact(NOW)
    (told,) = directory.problems.texts(9)
    assert "a compaction could not be completed (broken)" in told
    await directory.reopen()
    again = directory.open(ORDERS, COMPACT)
    assert values_of(again)[-1] == before[-1]
    assert again.end_offset == 50
    assert not directory.problems
    directory.close()


@pytest.mark.parametrize("segment_bytes", [1 << 30, 2_500_000], ids=["active", "sealed"])
async def test_a_log_whose_index_a_read_finds_wrong(data, segment_bytes, monkeypatch):
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=500)
    directory = LocalDirectory(data)
    fill(directory.open(ORDERS, config), 2_800, size=1_000)
    directory.close()
    index = data / "orders-0" / f"{0:020}.index"
    rows = bytearray(index.read_bytes())
    for at in range(8, len(rows) - 8, 8):
        rows[at + 7] ^= 1
    index.write_bytes(rows)
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, config)
    noted = []
    note = Segment.note

    def noting(*arguments):
        noted.append(threading.get_ident())
        note(*arguments)

    monkeypatch.setattr(Segment, "note", noting)
    with pytest.raises(KafkaError, match="is wrong; it is rebuilt") as caught:
        log.read(1_000, 100)
    assert caught.value.code is ErrorCode.kafka_storage_error
    assert "is wrong" in directory.problems.texts(9)[0]
    await directory.reopen()
    assert noted.count(threading.get_ident()) < 10, "the index was rebuilt on the event loop"
    assert len(noted) > 2_000
    log = directory.open(ORDERS, config)
    assert [record.offset for record in records_of(log, 1_000)] == list(range(1_000, 2_800))
    assert not directory.problems
    directory.close()


@pytest.mark.parametrize("left", [0, 3, 8, 60])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("segment_bytes", [1 << 30, 20_000], ids=["active", "sealed"])
async def test_an_index_that_is_truncated_while_the_log_is_open(data, suffix, segment_bytes, left):
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=200)
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, config)
    fill(log, 300)
    for index in (data / "orders-0").glob(f"*{suffix}"):
        os.truncate(index, min(left, index.stat().st_size))
    for count in (300, 400):
        for offset in [*range(5, count, 41)][::-1]:
            assert read_header(log.read(offset, 1)).base_offset == offset
            assert offset in looked_up(log.offset_for_timestamp(NOW + offset))
        fill(log, 100, first=count)
    directory.close()
    directory = LocalDirectory(data)
    assert len(records_of(directory.open(ORDERS, config))) == 500
    directory.close()


async def test_a_large_index_that_is_truncated_while_the_log_is_open(data):
    config = LogConfig(index_interval_bytes=500)
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, config)
    fill(log, 2_800, size=1_000)
    os.truncate(data / "orders-0" / f"{0:020}.index", 100)
    with pytest.raises(KafkaError, match="is wrong; it is rebuilt"):
        log.read(1_000, 100)
    await directory.reopen()
    log = directory.open(ORDERS, config)
    assert [each.offset for each in records_of(log, 1_000)] == list(range(1_000, 2_800))
    assert not directory.problems
    directory.close()


async def test_a_lost_snapshot_of_producers(data, unreadable, monkeypatch):
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, LogConfig())
    for sequence in range(30):
        value = [Record(None, bytes(100_000))]
        sent = build(value, producer_id=1, producer_epoch=0, base_sequence=sequence)
        log.append(sent, NOW)
    directory.close()
    snapshot = data / "orders-0" / "producers"
    snapshot.unlink()
    unreadable.append(errno.EIO)
    directory = LocalDirectory(data)
    directory.open(ORDERS, LogConfig())
    unreadable.clear()
    await directory.reopen()
    assert snapshot.exists()
    assert directory.open(ORDERS, LogConfig()).append(sent, NOW).duplicate
    directory.close()


class SlowSync(Gate):
    """The next sync of a segment waits, and then fails if there is an `error`; later ones are not
    delayed.
    """

    def __init__(self, monkeypatch):
        super().__init__()
        self.error = None
        self.rewritten = []
        self._really, self._rewrite = durability.sync_path, durability.rewrite
        monkeypatch.setattr(durability, "sync_path", self._sync)
        monkeypatch.setattr(local, "rewrite", self._rewrite_and_note)

    def _sync(self, path):
        if path.endswith(".log") and not self.is_reached:
            self.wait()
            if self.error is not None:
                raise self.error
        self._really(path)

    def _rewrite_and_note(self, path):
        self._rewrite(path)
        self.rewritten.append(path)

    def end_soon(self):
        asyncio.get_running_loop().call_later(0.2, self.open)


@pytest.fixture
async def slow_sync(monkeypatch):
    return SlowSync(monkeypatch)


async def test_a_sync_under_way_stores_no_older_checkpoint(data, slow_sync):
    """Records that were deleted would come back."""
    directory = LocalDirectory(data, durability="fsync")
    log = directory.open(ORDERS, LogConfig())
    fill(log, 9)
    log.trim(3)
    waiting = asyncio.ensure_future(log.durable())
    await slow_sync.reached()
    log.fail("an index cannot be written")
    slow_sync.end_soon()
    await directory.reopen()
    log = directory.open(ORDERS, LogConfig())
    log.trim(6)
    await log.durable()
    await waiting
    killed = data.with_name("killed")
    shutil.copytree(data, killed)
    again = LocalDirectory(killed)
    assert again.open(ORDERS, LogConfig()).start_offset == 6
    again.close()
    directory.close()


@pytest.mark.parametrize("policy", ["fsync", "os"])
async def test_records_whose_sync_fails_are_written_again(data, slow_sync, policy):
    """Linux reports a failed sync once: a later one says nothing of what is on the disk."""
    config = LogConfig(segment_bytes=1_000)
    directory = LocalDirectory(data, durability=policy)
    log = directory.open(ORDERS, config)
    fill(log, 9)  # of which "os" syncs full segments alone
    await slow_sync.reached()
    slow_sync.error = OSError(errno.EIO, "broken")
    log.fail("an index cannot be written")
    slow_sync.end_soon()
    await directory.reopen()
    assert str(data / "orders-0" / f"{0:020}.log") in slow_sync.rewritten
    assert not directory.problems
    assert len(records_of(directory.open(ORDERS, config))) == 9
    with contextlib.suppress(OSError):
        directory.close()
    again = LocalDirectory(data)
    again.open(ORDERS, config)
    assert again.last_end is LastEnd.CRASHED
    again.close()


async def test_a_failed_sync_of_a_full_segment_is_no_problem_once_it_was_repeated(
    data, monkeypatch
):
    """Also if no sync of appended records fails, whose repetition would end the problem."""

    def refuse(path):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    config = LogConfig(segment_bytes=1_000)
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, config)
    monkeypatch.setattr(log_files, "_sync_file", refuse)
    fill(log, 9)
    await until(lambda: directory.problems)
    async with asyncio.timeout(60):
        while directory.problems:
            await directory.retain(NOW)
    directory.close()


async def test_a_failed_sync_is_reported_before_the_log_is_opened_again(
    data, slow_sync, monkeypatch
):
    """Nothing would end a problem that is reported later."""
    config, loop_thread = LogConfig(segment_bytes=1_000), threading.get_ident()
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, config)
    really, reports = directory.problems.begin, []

    def begin(topic_partition, problem):
        if threading.get_ident() != loop_thread:
            time.sleep(0.2)
            reports.append(problem)
        really(topic_partition, problem)

    monkeypatch.setattr(directory.problems, "begin", begin)
    fill(log, 9)
    await slow_sync.reached()
    slow_sync.error = OSError(errno.EIO, "broken")
    log.fail("an index cannot be written")
    slow_sync.end_soon()
    await directory.reopen()
    directory._executor.shutdown()
    assert reports
    assert not directory.problems
    with contextlib.suppress(OSError, RuntimeError):
        directory.close()


async def is_opened_before(directory, slow):
    """Whether a failed log is opened again before a slow call of it ends; returns after both."""
    reopening = asyncio.ensure_future(directory.reopen())
    done, _ = await asyncio.wait([reopening], timeout=0.3)
    slow.open()
    await reopening
    return bool(done)


async def test_a_deletion_under_way_takes_no_segments_of_the_opened_log(data, monkeypatch):
    """They are its segments if the new start offset could not be stored."""
    config = LogConfig(segment_bytes=1_000, retention_ms=-1, retention_bytes=1_500)
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, config)
    fill(log, 40)
    slow = SlowCall(monkeypatch, log_files._DiscardedSegments, "delete")
    with monkeypatch.context() as patch:
        patch.setattr(log_files, "store_checkpoint", refuse_room)
        retaining = asyncio.ensure_future(log.retain(NOW))
        await slow.reached()
    log.fail("an index cannot be written")
    assert not await is_opened_before(directory, slow)
    await retaining
    again = directory.open(ORDERS, config)
    assert again.start_offset > 0
    assert [record.offset for record in records_of(again)] == list(range(again.start_offset, 40))
    directory.close()


async def test_a_compaction_under_way_drops_no_segments_of_the_opened_log(data, monkeypatch):
    """The start of the log would complete its swap, while it is dropped."""
    directory = LocalDirectory(data, durability="fsync")
    log = directory.open(ORDERS, COMPACT)
    fill(log, 50)
    await log.durable()
    before = values_of(log)
    slow = SlowCall(monkeypatch, log_files, "sync_all")
    compacting = asyncio.ensure_future(log.compact(NOW))
    await slow.reached()
    assert list((data / "orders-0").glob("*.swap"))
    log.fail("an index cannot be written")
    assert not await is_opened_before(directory, slow)
    await compacting
    again = directory.open(ORDERS, COMPACT)
    assert values_of(again) == before
    directory.close()


async def test_a_write_under_way_rewrites_no_end_of_the_opened_log(data, monkeypatch):
    """What is repeated after a failed sync may be older than what is appended by then."""
    monkeypatch.setattr(durability, "RETRY_BACKOFF_S", 0.001)
    directory = LocalDirectory(data, durability="fsync")
    log = directory.open(ORDERS, LogConfig())
    fill(log, 5)
    await log.durable()
    slow = SlowCall(monkeypatch, log_files, "rewrite_end")
    with monkeypatch.context() as patch:
        patch.setattr(durability, "sync_path", refuse_room)
        log.append(batch(b"refused"), NOW)
        with pytest.raises(OSError):
            await log.durable()
    await slow.reached()
    log.fail("an index cannot be written")
    assert not await is_opened_before(directory, slow)
    assert len(records_of(directory.open(ORDERS, LogConfig()))) == 5
    with contextlib.suppress(OSError):
        directory.close()


def refuse_room(*_arguments, **_options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
