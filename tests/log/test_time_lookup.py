"""Lookups by time find every record, whatever a kill has left of the time index."""

import os
import random
import shutil

import pytest

from kohort.errors import ErrorCode
from kohort.log import lock, stores
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.recovery import LastEnd

from .conftest import NOW, ORDERS, batch, looked_up, records_of
from .test_recovery import NAME, opened

CONFIG = LogConfig(segment_bytes=6_000, index_interval_bytes=150)
"""Some 40 rows a segment: the last ones are in memory only."""


def missing(path):
    path.unlink()


def empty(path):
    os.truncate(path, 0)


def without_the_last_row(path):
    os.truncate(path, max(path.stat().st_size - 12, 0))


def without_the_last_rows(path):
    os.truncate(path, path.stat().st_size // 12 // 2 * 12)


def torn(path):
    os.truncate(path, max(path.stat().st_size - 5, 0))


def zeros(path):
    path.write_bytes(bytes(path.stat().st_size))


def zeros_at_the_end(path):
    content = path.read_bytes()
    half = len(content) // 24 * 12
    path.write_bytes(content[:half] + bytes(len(content) - half))


def noise(path):
    path.write_bytes(random.Random(1).randbytes(path.stat().st_size // 12 * 12))


def rows_in_reverse(path):
    content = path.read_bytes()
    rows = [content[at : at + 12] for at in range(0, len(content), 12)]
    path.write_bytes(b"".join(reversed(rows)))


def one_row_too_early(path):
    """The second row names the offset of the last one: records before it would be missed."""
    content = path.read_bytes()
    if len(content) >= 36:
        path.write_bytes(content[:20] + content[-4:] + content[24:])


def as_it_is(path):
    pass


RISING = [NOW + 10 * at for at in range(150)]
MIXED = random.Random(7).sample(RISING, len(RISING))
WITH_A_PEAK = [NOW + 100_000 if at == 30 else NOW + at for at in range(150)]


@pytest.mark.parametrize("timestamps", [RISING, MIXED, WITH_A_PEAK], ids=["up", "mixed", "peak"])
@pytest.mark.parametrize("last_end", [LastEnd.KILLED, LastEnd.CRASHED])
@pytest.mark.parametrize(
    "harm",
    [
        as_it_is, missing, empty, without_the_last_row, without_the_last_rows, torn, zeros,
        zeros_at_the_end, noise, rows_in_reverse, one_row_too_early,
    ],
)  # fmt: skip
@pytest.mark.parametrize("suffixes", [(".timeindex",), (".index", ".timeindex")])
def test_after_a_kill(data, timestamps, last_end, harm, suffixes):
    directory = LocalDirectory(data)
    log = directory.open(ORDERS, CONFIG)
    for at, timestamp in enumerate(timestamps):
        log.append(batch(b"%04d" % at * 5, timestamp=timestamp), NOW)
    written = records_of(log)
    killed = data.parent / "killed"
    shutil.copytree(data / NAME, killed)  # as a kill leaves it: rows in memory are lost
    assert len(log.segments) > 2
    directory.close()
    for path in sorted(killed.iterdir()):
        if path.suffix in suffixes:
            harm(path)
    log = opened(killed, last_end, CONFIG)
    for timestamp in [*sorted(timestamps)[::7], min(timestamps) - 1, max(timestamps)]:
        first = next(each for each in written if each.timestamp >= timestamp)
        assert looked_up(log.offset_for_timestamp(timestamp)) == (first.offset, first.timestamp)
    assert looked_up(log.offset_for_timestamp(max(timestamps) + 1)) is None
    latest = max(written, key=lambda each: (each.timestamp, -each.offset))
    assert looked_up(log.max_timestamp()) == (latest.offset, latest.timestamp)
    assert records_of(log) == written
    log.end(ErrorCode.not_leader_or_follower)


class TestRowsThatAPowerLossTook:
    """They are looked for only where the machine may have gone down since they were written."""

    @pytest.fixture
    def read(self, monkeypatch):
        """The number of bytes of each read of a segment."""
        sizes = []
        really = stores.FileStore.read

        def read(store, position, count):
            found = really(store, position, count)
            if store.path.endswith(".log"):
                sizes.append(len(found))
            return found

        monkeypatch.setattr(stores.FileStore, "read", read)
        return sizes

    @pytest.fixture
    def closed(self, data):
        directory = LocalDirectory(data)
        log = directory.open(ORDERS, LogConfig(index_interval_bytes=150))
        for timestamp in (NOW, NOW + 100_000, *(NOW + at for at in range(2_000))):
            log.append(batch(bytes(50), timestamp=timestamp), NOW)
        directory.confirm_start()
        directory.close()
        return data

    def size(self, data):
        return (data / NAME / f"{0:020}.log").stat().st_size

    def test_lost_time_index_rows_are_not_searched_after_a_clean_end(self, closed, read):
        directory = LocalDirectory(closed)
        log = directory.open(ORDERS, LogConfig(index_interval_bytes=150))
        assert sum(read) < self.size(closed) / 4
        assert looked_up(log.max_timestamp()) == (1, NOW + 100_000)
        directory.close()

    def test_lost_time_index_rows_after_a_restart_of_the_machine(self, closed, read, monkeypatch):
        monkeypatch.setattr(lock, "boot_id", lambda: "later")
        times = closed / NAME / f"{0:020}.timeindex"
        os.truncate(times, 12)  # the first row: the later one is lost
        for looks, is_confirmed in ((True, False), (True, True), (False, True)):
            del read[:]
            directory = LocalDirectory(closed)
            log = directory.open(ORDERS, LogConfig(index_interval_bytes=150))
            assert (sum(read) > self.size(closed)) == looks
            assert looked_up(log.max_timestamp()) == (1, NOW + 100_000)
            if is_confirmed:
                directory.confirm_start()
            directory.close()
