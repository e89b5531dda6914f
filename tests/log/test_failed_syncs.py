"""Linux reports an error of the disk to one fsync only; the next one succeeds without the data."""

import errno
import os
import shutil

import pytest

from kohort.log import durability
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.offline_log import OfflineLog
from waiting import until

from .conftest import ORDERS, fill, records_of
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


def first_segment(data):
    return str(data / "orders-0" / f"{0:020}.log")


async def test_a_failed_sync_of_a_full_segment_refuses_what_was_appended_to_it(data, errors):
    directory = LocalDirectory(data, durability="fsync")
    log = directory.open(ORDERS, SMALL)
    fill(log, 1)
    await log.durable()
    errors.files.add(first_segment(data))
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


def records_after_a_power_loss(disk, left):
    disk.remains(len(disk.operations), 0, left)
    directory = LocalDirectory(left)
    records = records_of(directory.open(ORDERS, SMALL))
    directory.close()
    return records


async def test_records_whose_sync_fails_at_the_start_are_served_when_written_again(
    killed, errors, tmp_path
):
    errors.files.add(first_segment(killed))
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
