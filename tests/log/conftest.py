"""Logs to test with, and batches to put into them."""

import errno
import os
from contextlib import contextmanager
from uuid import UUID

import pytest

from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.memory import MemoryDirectory
from kohort.protocol import batches
from kohort.protocol.batches import Record
from kohort.types import Timestamp, TopicPartition
from storage.postgres.node_logs import NodeLogs

NOW = Timestamp(1_700_000_000_000)
ORDERS = TopicPartition("orders", 0)
ORDERS_ID = UUID(int=7)
"""The id of the topic that the log of the fixtures belongs to."""
DAY = 86_400_000


def batch(*values, key=b"k", timestamp=NOW, **options):
    """A batch of one record for each value."""
    return batches.build([Record(key, value, (), timestamp) for value in values], **options)


def from_producer(producer_id, epoch, sequence, count=1, timestamp=NOW, **options):
    """A batch of an idempotent producer."""
    values = [b"%d" % at for at in range(count)]
    return batch(
        *values,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        timestamp=timestamp,
        **options,
    )


def records_of(log, offset=None):
    """Every record from `offset` on, read as a consumer reads."""
    offset = log.start_offset if offset is None else offset
    found = []
    while offset < log.end_offset:
        data = bytes(log.read(offset, 1 << 20))
        for position, header in batches.iterate(data):
            assert batches.crc_is_right(memoryview(data)[position:], header)
            found += [
                record
                for record in batches.decode_records(data, position)
                if record.offset >= offset
            ]
            end = header.last_offset + 1
        assert end > offset
        offset = end
    return found


def looked_up(steps):
    """The result of a lookup, whose steps are all run at once."""
    try:
        work = next(steps)
        while True:
            work = steps.send(None if work is None else work())
    except StopIteration as end:
        return end.value


def values_of(log, offset=None):
    return [record.value for record in records_of(log, offset)]


def fill(log, count, size=100, first=0, timestamp=NOW, step=1):
    """Append `count` batches of one record each, of rising timestamps."""
    for at in range(first, first + count):
        log.append(batch(b"%08d" % at + bytes(size), timestamp=timestamp + step * at), NOW)


@pytest.fixture
def data(tmp_path):
    """A data directory."""
    return tmp_path / "data"


@pytest.fixture(params=["memory", "local", "local-fsync", "postgres"])
def directory(request, data):
    if request.param == "memory":
        made = MemoryDirectory()
    elif request.param == "postgres":
        made = NodeLogs(request.getfixturevalue("database"))
    else:
        made = LocalDirectory(data, durability="os" if request.param == "local" else "fsync")
    made.directories.make({ORDERS: ORDERS_ID})
    yield made
    made.close()


@pytest.fixture
def log(directory):
    return directory.open(ORDERS, LogConfig())


@pytest.fixture
def open_log(directory):
    """Opens the log with some configs."""
    return lambda **configs: directory.open(ORDERS, LogConfig(**configs))


@pytest.fixture
def rename_fails(monkeypatch):
    """Lets one rename fail: `with rename_fails(after=3)` the fourth one."""
    rename = os.rename

    @contextmanager
    def failing(*, after):
        calls = []

        def fail_once(*paths):
            calls.append(paths)
            if len(calls) == after + 1:
                raise OSError(errno.EIO, "broken")
            rename(*paths)

        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", fail_once)
            yield

    return failing
