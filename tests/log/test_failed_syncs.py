"""Linux reports an error of the disk to one fsync only; the next one succeeds without the data."""

import asyncio
import contextlib
import errno
import os
import random
import shutil
import threading

import pytest

from effort import seeds
from gate import SlowCall
from kohort.errors import KafkaError
from kohort.log import durability
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.offline_log import OfflineLog
from waiting import until

from .conftest import NOW, ORDERS, batch, fill, records_of
from .power_loss import VolatileDisk

SMALL = LogConfig(segment_bytes=1_000)


class Errors:
    """fsync of each of these files fails once."""

    def __init__(self, monkeypatch):
        self.files = set()
        self._really = os.fsync
        monkeypatch.setattr(os, "fsync", self._fsync)
        monkeypatch.setattr(durability, "RETRY_BACKOFF_S", 0.01)

    def _fsync(self, descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path in self.files:
            self.files.remove(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._really(descriptor)


@pytest.fixture
def errors(monkeypatch):
    return Errors(monkeypatch)


def segment(data, base_offset):
    return str(data / "orders-0" / f"{base_offset:020}.log")


async def test_a_failed_sync_of_a_full_segment_refuses_what_was_appended_to_it(data, errors):
    directory = LocalDirectory(data, durability="fsync")
    log = directory.open(ORDERS, SMALL)
    fill(log, 1)
    await log.durable()
    errors.files.add(segment(data, 0))
    fill(log, 20, first=1)
    assert len(log.segments) > 2
    with pytest.raises(OSError):
        await log.durable()
    assert log.end_offset == log.high_watermark == 1
    await until(lambda: not directory.problems)
    fill(log, 20, first=1)
    await log.durable()
    directory.close()


async def test_the_recovery_point_follows_the_syncs_of_a_log(data):
    directory = LocalDirectory(data, durability="fsync")
    log = directory.open(ORDERS, SMALL)
    fill(log, 20)
    assert log.recovery_point == 0
    await log.durable()
    assert log.recovery_point == log.segments[-1].base_offset > 0
    directory.close()


@pytest.fixture
def killed(data, tmp_path):
    """What a process leaves that was killed before it synced its 20 records."""
    directory = LocalDirectory(data, durability="fsync")  # and there is no event loop
    fill(directory.open(ORDERS, SMALL), 20)
    path = tmp_path / "killed"
    shutil.copytree(data, path)
    directory.close()
    return path


def unsynced(path, *, clean):
    """A disk with what was written below `path`; `clean`: an fsync of it has failed."""
    disk = VolatileDisk(path)
    for file in disk.found("orders-0").synced.values():
        file.writes, file.synced = [(0, file.synced)], b""
        file.clean = int(clean)
    return disk


def records_after_a_power_loss(disk, left, loss=0):
    disk.remains(len(disk.operations), loss, left)
    directory = LocalDirectory(left)
    records = records_of(directory.open(ORDERS, SMALL))
    directory.close()
    return records


async def test_records_whose_sync_fails_at_the_start_are_served_when_written_again(
    killed, errors, tmp_path
):
    errors.files.add(segment(killed, 0))
    disk = unsynced(killed, clean=False)
    with disk.recording():
        directory = LocalDirectory(killed, durability="fsync")
        assert isinstance(directory.open(ORDERS, SMALL), OfflineLog)
        await directory.reopen()
        assert len(records_of(directory.open(ORDERS, SMALL))) == 20
    assert len(records_after_a_power_loss(disk, tmp_path / "left")) == 20
    directory.close()


def test_records_whose_sync_failed_before_the_start_are_written_again(killed, tmp_path):
    (killed / ".lock").write_text("1\n")  # as after a failed sync
    disk = unsynced(killed, clean=True)
    with disk.recording():
        directory = LocalDirectory(killed, durability="fsync")
        assert len(records_of(directory.open(ORDERS, SMALL))) == 20
    assert len(records_after_a_power_loss(disk, tmp_path / "left")) == 20
    directory.close()


async def test_a_log_that_was_closed_while_the_disk_failed_survives_a_power_loss(
    data, errors, tmp_path
):
    disk = VolatileDisk(data)
    with disk.recording():
        directory = LocalDirectory(data, durability="fsync")
        log = directory.open(ORDERS, SMALL)
        fill(log, 4)
        await log.durable()
        errors.files.add(segment(data, 5))
        fill(log, 2, first=4)  # one of them fits into the first segment, whose sync succeeds
        with pytest.raises(OSError):
            await log.durable()
        with pytest.raises(OSError):
            directory.close()
        directory = LocalDirectory(data, durability="fsync")
        log = directory.open(ORDERS, SMALL)
        assert log.end_offset == 4
        fill(log, 1, size=700, first=4)  # begins a segment
        await log.durable()
    assert len(records_after_a_power_loss(disk, tmp_path / "left")) == 5
    directory.close()


async def test_a_log_that_ended_while_the_disk_failed_survives_a_power_loss(data, errors, tmp_path):
    disk = VolatileDisk(data)
    with disk.recording():
        directory = LocalDirectory(data, durability="fsync")
        log = directory.open(ORDERS, SMALL)
        fill(log, 4)
        await log.durable()
        directory.close()
        directory = LocalDirectory(data, durability="fsync")
        log = directory.open(ORDERS, SMALL)
        assert log.recovery_point == 4  # nothing of it has to be synced
        errors.files.add(segment(data, 5))
        fill(log, 2, first=4)
        with pytest.raises(OSError):
            await log.durable()
        log.fail("the test says so")
        await directory.reopen()
        log = directory.open(ORDERS, SMALL)
        fill(log, 1, size=700, first=4)
        await log.durable()
    assert len(records_after_a_power_loss(disk, tmp_path / "left")) == 5
    directory.close()


@pytest.mark.parametrize("loss", range(2))
async def test_deleted_records_do_not_come_back_after_a_power_loss(data, tmp_path, loss):
    disk = VolatileDisk(data)
    with disk.recording():
        directory = LocalDirectory(data, durability="fsync")
        log = directory.open(ORDERS, SMALL)
        fill(log, 4)
        await log.durable()
        log.trim(3)
        await log.durable()
    assert len(records_after_a_power_loss(disk, tmp_path / "left", loss)) == 1
    directory.close()


class FullDisk:
    """While `is_full`, the disk takes a part of an append; `cuts_fail`: which cannot be cut off."""

    def __init__(self, monkeypatch):
        self.is_full = self.cuts_fail = False
        self._write, self._cut = os.pwrite, os.ftruncate
        monkeypatch.setattr(os, "pwritev", self._pwritev)
        monkeypatch.setattr(os, "pwrite", self._pwrite)
        monkeypatch.setattr(os, "ftruncate", self._ftruncate)

    def _pwritev(self, descriptor, parts, position):
        data = b"".join(parts)
        return self._write(descriptor, data[:90] if self.is_full else data, position)

    def _pwrite(self, *arguments):
        return self._refuse() if self.is_full else self._write(*arguments)

    def _ftruncate(self, *arguments):
        return self._refuse() if self.is_full and self.cuts_fail else self._cut(*arguments)

    def _refuse(self):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def disk(monkeypatch):
    return FullDisk(monkeypatch)


async def fill_with_a_torn_append(log, disk):
    """Four records in a segment, of a fifth a part, and one in the next segment."""
    fill(log, 4)
    await log.durable()
    disk.is_full = True
    with pytest.raises(OSError):
        fill(log, 1, first=4)
    await log.durable()
    disk.is_full = False
    fill(log, 1, size=700, first=4)
    await log.durable()


async def test_a_torn_append_is_cut_off_before_the_next_segment_begins(data, disk):
    disk.cuts_fail = True
    directory = LocalDirectory(data, durability="fsync")
    await fill_with_a_torn_append(directory.open(ORDERS, SMALL), disk)
    directory.close()
    directory = LocalDirectory(data, durability="fsync")
    assert len(records_of(directory.open(ORDERS, SMALL))) == 5
    directory.close()


async def test_no_segment_begins_while_a_torn_append_cannot_be_cut_off(data, disk):
    directory = LocalDirectory(data, durability="fsync")
    log = directory.open(ORDERS, SMALL)
    fill(log, 4)
    disk.is_full = disk.cuts_fail = True
    for size in (100, 700):
        with pytest.raises(OSError):
            fill(log, 1, size=size)
    assert len(log.segments) == len(directory.problems) == 1
    disk.is_full = False
    fill(log, 1, size=700)
    assert (len(log.segments), len(directory.problems)) == (2, 0)
    directory.close()


@pytest.mark.parametrize("cuts_fail", [False, True])
async def test_no_power_loss_brings_back_a_torn_append(data, disk, tmp_path, cuts_fail):
    disk.cuts_fail = cuts_fail
    recorder = VolatileDisk(data)
    with recorder.recording():
        directory = LocalDirectory(data, durability="fsync")
        await fill_with_a_torn_append(directory.open(ORDERS, SMALL), disk)
    for loss in range(10):
        left = tmp_path / f"left-{loss}"
        assert len(records_after_a_power_loss(recorder, left, loss)) == 5
    directory.close()


async def append_and_leave_its_sync(log, monkeypatch):
    """As for a producer with acks=0; returns the gate at which the sync waits."""
    with monkeypatch.context() as patch:
        slow = SlowCall(patch, os, "fsync")
        fill(log, 1)
        await slow.reached()
    return slow


@pytest.fixture
def failing(data, errors):
    """A directory and its log, whose next sync fails."""
    directory = LocalDirectory(data, durability="fsync")
    log = directory.open(ORDERS, SMALL)
    errors.files.add(segment(data, 0))
    return directory, log


@pytest.mark.parametrize("delay_s", [0, 0.05])
async def test_a_close_during_a_sync_that_fails_is_not_clean(data, failing, monkeypatch, delay_s):
    directory, log = failing
    slow = await append_and_leave_its_sync(log, monkeypatch)
    threading.Timer(delay_s, slow.open).start()
    with pytest.raises(OSError):
        directory.close()
    assert not (data / ".clean-shutdown").exists()


def test_a_close_after_the_loop_ended_during_a_sync_that_fails_is_not_clean(
    data, failing, monkeypatch
):
    directory, log = failing
    slow = asyncio.run(append_and_leave_its_sync(log, monkeypatch))
    slow.open()
    with pytest.raises(OSError):
        directory.close()
    assert not (data / ".clean-shutdown").exists()


async def test_a_retired_log_whose_sync_fails_survives_a_power_loss_once_it_is_opened_again(
    data, errors, monkeypatch, tmp_path
):
    """As when the deletion of its topic is rolled back."""
    LocalDirectory(data).close()
    disk = VolatileDisk(data)
    with disk.recording():
        directory = LocalDirectory(data, durability="fsync")
        log = directory.open(ORDERS, SMALL)
        errors.files.add(segment(data, 0))
        slow = await append_and_leave_its_sync(log, monkeypatch)
        directory.retire(ORDERS)
        slow.open()
        await until(lambda: log.failed_syncs)
        log = directory.open(ORDERS, SMALL)
        assert log.high_watermark == 1
        fill(log, 1, first=1)
        await log.durable()
    assert len(records_after_a_power_loss(disk, tmp_path / "left")) == 2
    directory.close()


class Attack:
    """Producers of one log on a disk whose operations fail at random, a while at a time."""

    def __init__(self, path, monkeypatch, seed):
        self.chance = random.Random(seed)
        self.disk = VolatileDisk(path, before=self.before)
        self.likely = {}
        """How likely an operation of that name fails."""
        self.path = path
        self.values = 0
        monkeypatch.setattr(os, "fsync", lambda _: None)  # the disk is simulated
        self._write = os.pwritev
        monkeypatch.setattr(os, "pwritev", self.write)
        monkeypatch.setattr(durability, "RETRY_BACKOFF_S", 0.003)
        monkeypatch.setattr(durability, "MAX_RETRY_BACKOFF_S", 0.01)

    def before(self, operation):
        if self.chance.random() < self.likely.get(operation, 0):
            number = errno.ENOSPC if operation.startswith("pwrite") else errno.EIO
            raise OSError(number, os.strerror(number))

    def write(self, descriptor, parts, position):
        """A part of it, at times."""
        if self.chance.random() < self.likely.get("part", 0):
            whole = b"".join(parts)
            parts = [whole[: self.chance.randrange(1, len(whole))]]
        return self._write(descriptor, parts, position)

    async def run(self):
        """Append until enough was done, with kills in between; promises go to the disk."""
        with self.disk.recording():
            for _ in range(3):
                directory = LocalDirectory(self.path, durability="fsync")
                directory.open(ORDERS, SMALL)
                self.ends = asyncio.get_running_loop().time() + 0.4
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(3):
                        tasks.create_task(self.produce(directory))
                    tasks.create_task(self.maintain(directory))
                self.likely = {}
                with contextlib.suppress(OSError):
                    directory.close()

    @property
    def is_over(self):
        return asyncio.get_running_loop().time() >= self.ends

    async def produce(self, directory):
        while not self.is_over:
            with contextlib.suppress(OSError, KafkaError):
                log = directory.open(ORDERS, SMALL)
                failed_syncs = log.failed_syncs
                self.values += 1
                value = b"%d" % self.values
                placed = log.append(batch(value + bytes(self.chance.randrange(300))), NOW)
                if self.chance.random() < 0.2:  # others are appended to, and awaited first
                    await asyncio.sleep(self.chance.random() * 0.03)
                await log.durable()
                if log.failed_syncs == failed_syncs and placed.base_offset >= log.start_offset:
                    self.disk.mark((placed.base_offset, value))
                if self.chance.random() < 0.02:
                    await self.delete_records(log)
            await asyncio.sleep(self.chance.random() * 0.002)

    async def delete_records(self, log):
        """Delete half of them; a value of None says that a record may be gone, of "" that it is."""
        before = (log.start_offset + log.high_watermark) // 2
        deleted, failed_syncs = range(log.start_offset, before), log.failed_syncs
        for offset in deleted:
            self.disk.mark((offset, None))
        log.trim(before)
        await log.durable()
        if log.failed_syncs == failed_syncs:
            for offset in deleted:
                self.disk.mark((offset, b""))

    async def maintain(self, directory):
        """Change what fails, end the log at times, and reopen it."""
        while not self.is_over:
            self.likely = self.chance.choice(
                [
                    {},
                    {"fsync": 0.3},
                    {"fsync": 1.0},
                    {"pwritev": 0.5},
                    {"ftruncate": 0.7, "fsync": 0.3},
                    {"part": 0.5, "pwrite": 0.7, "ftruncate": 0.3},
                    {"replace": 0.5, "rename": 0.5, "write": 0.3, "fsync": 0.1},
                ]
            )
            await asyncio.sleep(self.chance.random() * 0.04)
            with contextlib.suppress(OSError, KafkaError):
                log = directory.open(ORDERS, SMALL)
                if self.chance.random() < 0.2 and not log.can_reopen:
                    log.fail("the test says so")
                await directory.reopen()


@pytest.mark.parametrize("seed", seeds(1))
async def test_no_power_loss_takes_a_record_that_was_acknowledged_among_failing_syncs(
    tmp_path, monkeypatch, seed
):
    attack = Attack(tmp_path / "data", monkeypatch, seed)
    await attack.run()
    operations = attack.disk.operations
    promises = sum(operation == "promise" for operation, *_ in operations)
    assert promises
    for count in attack.chance.sample(range(1, len(operations) + 1), 12):
        for loss in (0, attack.chance.randrange(2, 1_000)):
            left = tmp_path / f"left-{count}-{loss}"
            promised = attack.disk.remains(count, loss, left)
            ensure_kept(left, dict(promised))


def ensure_kept(path, promised):
    """Start after the power loss; each promised record is at its offset, and no deleted one."""
    if not (path / ".lock").exists():
        assert not promised
        return
    (path / ".lock").write_text("1\nanother-boot\n")
    (path / ".clean-shutdown").unlink(missing_ok=True)
    directory = LocalDirectory(path)
    log = directory.open(ORDERS, SMALL)
    assert not isinstance(log, OfflineLog), directory.problems.texts(9)
    found = {record.offset: record.value.rstrip(b"\0") for record in records_of(log)}
    wrong = {
        offset: value
        for offset, value in promised.items()
        if value is not None and found.get(offset, b"") != value
    }
    assert not wrong, (wrong, log, directory.problems.texts(9))
    directory.close()
