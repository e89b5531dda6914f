"""A log that cannot be read is opened again when it can; a damaged one stays refused."""

import errno
import os

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.log import recovery
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory

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
async def test_it_is_opened_when_it_can_be_read(data, unreadable, number):
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
