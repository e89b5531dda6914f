"""What a data directory says of its last end is changed only when it is true."""

import os
from contextlib import closing

import pytest

from kohort.errors import KohortError
from kohort.log import durability, lock
from kohort.log.base import LogConfig
from kohort.log.damage import OpeningStoppedError
from kohort.log.local import LocalDirectory
from kohort.log.recovery import LastEnd
from kohort.types import TopicPartition

from .conftest import ORDERS, fill

CLEAN = ".clean-shutdown"


@pytest.fixture
def crashed(data, monkeypatch):
    """A directory whose machine went down."""
    directory = LocalDirectory(data)
    fill(directory.open(ORDERS, LogConfig()), 5)
    directory.close()
    (data / CLEAN).unlink()
    monkeypatch.setattr(lock, "boot_id", lambda: "after the crash")
    return data


def test_a_new_directory_is_for_this_user_alone(tmp_path):
    """It has the credentials of users."""
    before = os.umask(0)
    try:
        LocalDirectory(tmp_path / "new").close()
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def kill(directory):
    directory._lock.release()


def test_killed_during_the_check_it_is_checked_again(crashed):
    directory = LocalDirectory(crashed)
    directory.open(ORDERS, LogConfig())
    kill(directory)
    directory = LocalDirectory(crashed)
    assert directory.last_end is LastEnd.CRASHED
    directory.open(ORDERS, LogConfig())
    directory.confirm_start()
    kill(directory)
    assert LocalDirectory(crashed).last_end is LastEnd.KILLED


@pytest.mark.parametrize("function", ["pwrite", "truncate", "fsync"])
@pytest.mark.parametrize("owner", ["1", "123456789"])
def test_killed_while_it_takes_the_directory_the_process_was_killed(
    data, monkeypatch, function, owner
):
    def kill_here(*_):
        raise OSError("killed")

    kill(LocalDirectory(data))
    _, boot, _ = (data / ".lock").read_text().split("\n")
    (data / ".lock").write_text(f"{owner}\n{boot}\n")
    with monkeypatch.context() as patch:
        patch.setattr(os, function, kill_here)
        with pytest.raises(OSError, match="killed"):
            LocalDirectory(data)
    with closing(LocalDirectory(data)) as directory:
        assert directory.last_end is LastEnd.KILLED


def test_a_start_that_is_refused_forgets_nothing(crashed):
    directory = LocalDirectory(crashed)
    directory.open(ORDERS, LogConfig())
    directory.close()  # the port was in use
    assert not (crashed / CLEAN).exists()
    again = LocalDirectory(crashed)
    assert again.last_end is LastEnd.CRASHED
    with pytest.raises(KohortError, match="in use"):
        LocalDirectory(crashed)
    again.open(ORDERS, LogConfig())
    again.confirm_start()
    again.close()
    assert LocalDirectory(crashed).last_end is LastEnd.CLEAN


def test_a_start_that_the_disk_fails_leaves_it_to_others(crashed, monkeypatch):
    def failing(_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(OSError, match="Input/output error") as failed:
            LocalDirectory(crashed)
    assert failed.value  # it refers to what was being made
    LocalDirectory(crashed).close()


def test_a_clean_end_stays_one_if_the_next_start_is_refused(data):
    directory = LocalDirectory(data)
    fill(directory.open(ORDERS, LogConfig()), 5)
    directory.close()
    LocalDirectory(data).close()
    directory = LocalDirectory(data)
    assert directory.last_end is LastEnd.CLEAN
    assert not (data / CLEAN).exists()
    kill(directory)
    assert LocalDirectory(data).last_end is LastEnd.KILLED


def test_a_check_that_is_stopped_is_made_again(crashed):
    directory = LocalDirectory(crashed)
    directory.stop_opening()
    with pytest.raises(OpeningStoppedError):
        directory.open(ORDERS, LogConfig())
    directory.close()
    assert LocalDirectory(crashed).last_end is LastEnd.CRASHED


@pytest.mark.parametrize("level", ["os", "fsync"])
def test_a_clean_end_syncs_only_what_was_written(data, monkeypatch, level):
    partitions = [TopicPartition("orders", number) for number in range(20)]
    directory = LocalDirectory(data, durability=level)
    logs = [directory.open(partition, LogConfig()) for partition in partitions]
    for log in logs[:10]:
        fill(log, 5)
    directory.confirm_start()
    directory.close()

    directory = LocalDirectory(data, durability=level)
    logs = [directory.open(partition, LogConfig()) for partition in partitions]
    fill(logs[0], 1)  # has a file
    for log in logs[10:15]:
        fill(log, 1)  # gets its first one
    directory.confirm_start()
    synced = []
    monkeypatch.setattr(durability, "sync_path", synced.append)
    directory.close()
    of_logs = {path for path in synced if "/orders-" in path}
    first, new = (f"{data}/orders-{number}" for number in (0, 10))
    file = f"{0:020}.log"
    assert of_logs >= {f"{first}/{file}", f"{new}/{file}", new}
    assert {path.removeprefix(f"{data}/").partition("/")[0] for path in of_logs} == {
        "orders-0", *(f"orders-{number}" for number in range(10, 15)),
    }  # fmt: skip
    assert synced.count(str(data)) == 1
