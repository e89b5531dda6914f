"""A log that cannot be read is opened again when it can; a damaged one stays refused."""

import errno
import os
import threading

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.log import recovery
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.segment import Segment
from kohort.protocol.batches import Record, build

from .conftest import NOW, ORDERS, ORDERS_ID, batch, fill, records_of, values_of
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
