"""Leader epochs of logs in files: they are those of the batches, whatever happens to the file."""

import asyncio
import os
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kohort.errors import KafkaError
from kohort.log import gap_repair, repair
from kohort.log.base import LogConfig
from kohort.log.leader_epoch_checkpoint import NAME, decode
from kohort.log.leader_epochs import LeaderEpochs
from kohort.log.local import LocalDirectory
from kohort.protocol import batches

from .conftest import DAY, NOW, ORDERS, batch, fill, values_of
from .refusing_disk import Disk

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, retention_ms=DAY)


def epochs_in(log):
    """The epoch of each batch that can be read."""
    found, offset = [], log.start_offset
    while offset < log.end_offset:
        content = log.read(offset, 1 << 20)
        found += [header.partition_leader_epoch for _, header in batches.iterate(content)]
        offset = log.next_offset_after(offset, len(content))
    return found


@pytest.fixture
def led(data):
    """A log that was led in the epochs 0, 2 and 5, closed; its directory."""
    for epoch in (0, 2, 5):
        with closing(LocalDirectory(data)) as directory:
            fill(directory.open(ORDERS, SMALL, leader_epoch=epoch), 10)
    return data / str(ORDERS)


ENTRIES = ((0, 0), (2, 10), (5, 20))


def test_a_log_has_the_epochs_in_which_it_was_led(data, led):
    assert decode((led / NAME).read_bytes()) == ENTRIES
    with closing(LocalDirectory(data)) as directory:
        log = directory.open(ORDERS, SMALL, leader_epoch=5)
        assert (log.leader_epoch, log.leader_epochs.entries(0)) == (5, ENTRIES)
        assert epochs_in(log) == [0] * 10 + [2] * 10 + [5] * 10
        assert log.leader_epochs.end_of(2, 0, 30) == (2, 20)


def test_a_log_that_had_one_leader_has_no_file(data):
    with closing(LocalDirectory(data)) as directory:
        log = directory.open(ORDERS, SMALL)
        fill(log, 10)
        log.trim(3)
        assert log.leader_epoch == 0
    assert not (data / str(ORDERS) / NAME).exists()


def test_an_epoch_never_goes_backwards(data, led):
    with closing(LocalDirectory(data)) as directory:
        log = directory.open(ORDERS, SMALL, leader_epoch=3)
        assert (log.leader_epoch, log.leader_epochs.entries(0)) == (5, ENTRIES)


def test_an_epoch_without_batches_is_kept(data, led):
    for _ in range(2):
        with closing(LocalDirectory(data)) as directory:
            log = directory.open(ORDERS, SMALL, leader_epoch=7)
            assert log.leader_epochs.entries(0) == (*ENTRIES, (7, 30))
    assert decode((led / NAME).read_bytes()) == (*ENTRIES, (7, 30))


async def test_deleted_records_take_their_epochs_with_them(data, led):
    with closing(LocalDirectory(data)) as directory:
        log = directory.open(ORDERS, SMALL)
        log.trim(12)
        assert decode((led / NAME).read_bytes()) == ((2, 12), (5, 20))
        assert await log.retain(NOW + 2 * DAY)
        assert decode((led / NAME).read_bytes()) == ((5, 30),)


@pytest.mark.parametrize("content", [None, b"", b"0\n1\n0 0\n", b"0\n2\n0 0\n2 10\n", b"broken\n"])
@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_a_file_that_is_lost_is_written_again(data, led, durability, content):
    (led / NAME).unlink()
    if content is not None:
        (led / NAME).write_bytes(content)
    with closing(LocalDirectory(data, durability=durability)) as directory:
        log = directory.open(ORDERS, SMALL, leader_epoch=5)
        assert log.leader_epochs.entries(0) == ENTRIES
        assert len(values_of(log)) == 30
    assert decode((led / NAME).read_bytes()) == ENTRIES


def test_an_unfinished_leader_epoch_file_is_removed(data, led):
    (led / (NAME + ".new")).write_bytes(b"0\n1\n")
    with closing(LocalDirectory(data)) as directory:
        assert directory.open(ORDERS, SMALL).leader_epoch == 5
    assert not (led / (NAME + ".new")).exists()


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_a_disk_that_refuses_it_loses_nothing(data, led, durability, monkeypatch):
    """Each operation of opening in a new epoch, of an append and of closing fails once."""
    refused = 0
    while True:
        refused += 1
        disk = Disk(monkeypatch)
        try:
            with closing(LocalDirectory(data, durability=durability)) as directory:
                disk.count, disk.refused = 0, (refused,)
                log = directory.open(ORDERS, SMALL, leader_epoch=5 + refused)
                count = log.end_offset
                log.append(batch(b"one more"), NOW)
                log.trim(refused)
        except (KafkaError, OSError):
            pass
        monkeypatch.undo()
        with closing(LocalDirectory(data)) as directory:
            log = directory.open(ORDERS, SMALL, leader_epoch=5 + refused)
            assert log.end_offset >= max(count, 30)
            assert log.leader_epoch == 5 + refused
            found = epochs_in(log)
            assert found == sorted(found)
            assert log.leader_epochs.at(log.start_offset) == found[0]
        if disk.count < refused:
            return


def with_epoch(log, epoch):
    """Change the leader epoch, which lies outside the CRC, of the second batch of a segment."""
    segment = max(log.glob("*.log"))
    content = bytearray(segment.read_bytes())
    second = batches.read_header(content).size + 12
    content[second : second + 4] = epoch.to_bytes(4, signed=True)
    segment.write_bytes(content)


@pytest.mark.parametrize("epoch", [-1, 6, 1 << 16])
def test_an_epoch_that_never_was_is_damage(data, led, epoch):
    with_epoch(led, epoch)
    with closing(LocalDirectory(data)) as directory, pytest.raises(KafkaError, match="damaged"):
        directory.open(ORDERS, SMALL, leader_epoch=5).ensure_open()


@pytest.mark.parametrize("epoch", [-1, 0, 4, 6])
def test_repair_finds_an_epoch_that_is_out_of_order(led, epoch):
    assert repair.examine(str(led)) is None
    with_epoch(led, epoch)
    assert repair.examine(str(led)) is not None


def test_a_hole_has_the_epoch_of_what_was_there(data, led):
    segment = led / f"{12:020}.log"
    content = bytearray(segment.read_bytes())
    content[70] ^= 1
    segment.write_bytes(content)
    found = gap_repair.find(str(led))
    assert [(hole.offset, hole.leader_epoch) for hole in found] == [(12, 2)]
    gap_repair.fill(found)
    assert repair.examine(str(led)) is None
    with closing(LocalDirectory(data)) as directory:
        log = directory.open(ORDERS, SMALL, leader_epoch=5)
        assert epochs_in(log) == [0] * 10 + [2] * 10 + [5] * 10


OPERATIONS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 6)),
    st.tuples(st.just("restart"), st.integers(0, 2)),
    st.tuples(st.just("trim"), st.floats(0, 1)),
    st.tuples(st.just("retain"), st.none()),
    st.tuples(st.just("take file"), st.none()),
    st.tuples(st.just("put back file"), st.integers(0, 5)),
    st.tuples(st.just("cut"), st.integers(1, 300)),
)


class LedLog:
    """A log in files, and what its leaders have appended."""

    def __init__(self, path):
        self.path = Path(path)
        self.file = self.path / str(ORDERS) / NAME
        self.epoch = 0
        self.appended = []
        """Epoch and offset of each record."""
        self.old_files = []
        self.open()

    def open(self):
        self.directory = LocalDirectory(self.path)
        self.log = self.directory.open(ORDERS, SMALL, leader_epoch=self.epoch)
        if self.epoch:
            self.old_files.append(self.file.read_bytes())

    def run(self, operation, value):
        if operation == "append":
            for _ in range(value):
                self.appended.append((self.epoch, self.log.end_offset))
                self.log.append(batch(bytes(30)), NOW)
        elif operation == "trim":
            start, end = self.log.start_offset, self.log.end_offset
            self.log.trim(start + round(value * (end - start)))
        elif operation == "retain":
            asyncio.run(self.log.retain(NOW))
        else:
            self.directory.close()
            self.away(operation, value)
            self.open()

    def away(self, operation, value):
        """What happens while no server runs."""
        if operation == "restart":
            self.epoch += value
        elif operation == "take file":
            self.file.unlink(missing_ok=True)
        elif operation == "put back file" and self.old_files:
            self.file.write_bytes(self.old_files[value % len(self.old_files)])
        elif operation == "cut":
            self.cut(value)

    def cut(self, count):
        """The end of the log is lost, and what says how long it was."""
        self.old_files.clear()
        (self.file.parent / "checkpoint").unlink(missing_ok=True)
        segment = max(self.file.parent.glob("*.log"), default=None)
        if segment is not None:
            os.truncate(segment, max(segment.stat().st_size - count, 0))

    def check(self):
        log = self.log
        self.appended = [each for each in self.appended if each[1] < log.end_offset]
        epochs = LeaderEpochs(self.epoch, log.end_offset, self.appended)
        if log.end_offset > log.start_offset:
            assert log.leader_epochs.at(log.start_offset) == epochs.at(log.start_offset)
        for epoch in range(-1, self.epoch + 2):
            args = epoch, log.start_offset, log.end_offset
            assert log.leader_epochs.end_of(*args) == epochs.end_of(*args)
        if self.epoch:
            assert decode(self.file.read_bytes()) == epochs.entries(log.start_offset)
        else:
            assert not self.file.exists()


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(OPERATIONS, max_size=20))
def test_the_file_is_the_fold_over_the_batches(operations):
    with TemporaryDirectory() as path:
        led = LedLog(path)
        for operation in operations:
            led.run(*operation)
            led.check()
        led.directory.close()
