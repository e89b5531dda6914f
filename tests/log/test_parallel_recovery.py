"""Many logs are recovered at once after a crash of the machine, and lines tell how far it is."""

import logging
import os
import threading

import pytest

from kohort.errors import ErrorCode, KafkaError
from kohort.log import lock
from kohort.log.backing import Checkpoint
from kohort.log.base import LogConfig
from kohort.log.damage import OpeningStoppedError
from kohort.log.local import LocalDirectory
from kohort.log.parallel_recovery import recover_all
from kohort.log.segment_recovery import RecoverableSegment
from kohort.log.stores import MAX_SLICES, MIN_SLICE_BYTES, FileSlice
from kohort.types import TopicPartition

from .conftest import NOW, batch, fill, records_of, values_of

LOGS = [TopicPartition("orders", number) for number in range(6)]
SMALL = LogConfig(segment_bytes=2_000, index_interval_bytes=200)
NOTHING = ([], Checkpoint())


def test_as_many_logs_as_there_are_threads_are_loaded_at_once(tmp_path):
    together = threading.Barrier(2, timeout=10)

    def load(_topic_partition, _progress):
        together.wait()
        return NOTHING

    found = recover_all(dict.fromkeys(LOGS, str(tmp_path)), load, 2)
    assert found == dict.fromkeys(LOGS, NOTHING)


def test_lines_tell_how_far_it_is(crashed, caplog):
    size = sum(path.stat().st_size for path in crashed.glob("orders-0/*.log"))
    told = threading.Event()

    class Listening(logging.Handler):
        def emit(self, record):
            if "0 of 1 logs, 2 of" in record.getMessage():
                told.set()

    def load(_topic_partition, progress):
        progress(2_000_000)
        assert told.wait(10)
        return NOTHING

    listening = Listening()
    logging.getLogger("kohort.log").addHandler(listening)
    try:
        with caplog.at_level("INFO", "kohort.log"):
            recover_all({LOGS[0]: str(crashed / "orders-0")}, load, 1, line_every_s=0.01)
    finally:
        logging.getLogger("kohort.log").removeHandler(listening)
    first, *_, last = caplog.messages
    assert first.startswith(f"recovering 1 logs with {size // 1_000_000} MB")
    assert last.startswith("recovered 1 logs")


@pytest.fixture
def config():
    return SMALL


@pytest.fixture
def crashed(data, monkeypatch, config):
    """A directory of six logs whose machine went down."""
    directory = LocalDirectory(data)
    for partition in LOGS:
        fill(directory.open(partition, config), 60)
    directory.close()
    for checkpoint in data.glob("*/checkpoint"):  # of a clean end
        checkpoint.unlink()
    (data / ".clean-shutdown").unlink()
    monkeypatch.setattr(lock, "boot_id", lambda: "after the crash")
    return data


def test_a_recovered_log_is_opened_without_another_check(crashed, monkeypatch):
    torn = max((crashed / "orders-1").glob("*.log"))
    os.truncate(torn, torn.stat().st_size - 1)
    directory = LocalDirectory(crashed)
    directory.recover((partition, SMALL, 0) for partition in LOGS)
    monkeypatch.delattr(RecoverableSegment, "recover")
    for each in LOGS:
        log = directory.open(each, SMALL)
        count = 59 if each == LOGS[1] else 60
        assert [record.offset for record in records_of(log)] == list(range(count))
        log.append(batch(b"next"), NOW)
        assert values_of(log)[-1] == b"next"
        assert log.unsynced()
    directory.confirm_start()
    directory.close()
    assert (crashed / ".clean-shutdown").exists()


def test_a_damaged_log_is_refused_and_the_others_are_served(crashed):
    first = min((crashed / "orders-2").glob("*.log"))
    (crashed / "orders-2" / "checkpoint").write_text("recovery_point 60\n")
    os.truncate(first, first.stat().st_size // 2)
    directory = LocalDirectory(crashed)
    directory.recover((partition, SMALL, 0) for partition in LOGS)
    for each in LOGS:
        log = directory.open(each, SMALL)
        if each == LOGS[2]:
            with pytest.raises(KafkaError) as refused:
                log.read(0, 100)
            assert refused.value.code is ErrorCode.kafka_storage_error
            assert str(first) in refused.value.message
        else:
            assert len(records_of(log)) == 60
    directory.close()


def test_recovery_ends_when_the_server_is_stopped(crashed):
    directory = LocalDirectory(crashed)

    def logs():
        for partition in LOGS:
            yield partition, SMALL, 0
        directory.stop_opening()

    with pytest.raises(OpeningStoppedError):
        directory.recover(logs())
    directory.close()
    assert "after the crash" not in (crashed / ".lock").read_text()


@pytest.mark.parametrize("config", [LogConfig(index_interval_bytes=200)])
def test_files_that_are_open_stay_bounded(crashed, config):
    directory = LocalDirectory(crashed, max_open_files=4)
    directory.recover((partition, config, 0) for partition in LOGS)
    for each in LOGS:
        records_of(directory.open(each, config))
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    targets = [os.readlink(link) for link in links if os.path.lexists(link)]
    assert 0 < sum(f"{crashed}/orders" in target for target in targets) <= 4
    directory.close()


def test_records_that_are_not_read_keep_few_files_open(data, monkeypatch):
    config = LogConfig()
    directory = LocalDirectory(data)
    for each in LOGS[:2]:
        directory.open(each, config).append(batch(bytes(MIN_SLICE_BYTES)), NOW)
    directory.close()
    (data / ".clean-shutdown").unlink()
    monkeypatch.setattr(lock, "boot_id", lambda: "after the crash")
    directory = LocalDirectory(data)
    directory.recover((partition, config, 0) for partition in LOGS[:2])
    logs = [directory.open(partition, config) for partition in LOGS[:2]]
    fetched = [log.fetch(0, 2 * MIN_SLICE_BYTES) for log in logs for _ in range(MAX_SLICES)]
    assert sum(isinstance(each, FileSlice) for each in fetched) == MAX_SLICES
    directory.close()


def test_after_another_end_nothing_is_checked_beforehand(data, caplog):
    directory = LocalDirectory(data)
    fill(directory.open(LOGS[0], SMALL), 60)
    directory.close()
    directory = LocalDirectory(data)
    with caplog.at_level("INFO", "kohort.log"):
        directory.recover((partition, SMALL, 0) for partition in LOGS)
    assert not caplog.messages
    directory.close()
