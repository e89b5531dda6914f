"""Data directories of several workers: partitions lie where they belong, whatever happens."""

import os
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from kohort.errors import KohortError
from kohort.log import directory_format
from kohort.log.base import LogConfig
from kohort.log.local import LocalDirectory
from kohort.log.lock import boot_id
from kohort.log.recovery import LastEnd
from kohort.log.worker_directories import directories_of, directory_of, spread
from kohort.protocol.batches import pack
from kohort.types import Timestamp, TopicPartition

PARTITIONS = [TopicPartition("t", number) for number in range(7)]
METADATA = TopicPartition("__cluster_metadata", 0)


def place_of(workers: int) -> Callable[[TopicPartition], int]:
    return lambda partition: 0 if partition == METADATA else partition.partition % workers


def rearrange(path: Path, workers: int) -> None:
    spread(path, workers, place_of(workers))


def opened(path: Path, worker: int, workers: int) -> LocalDirectory:
    return LocalDirectory(directory_of(path, worker), workers=1 if worker else workers)


def fill(path: Path, workers: int) -> None:
    """A record in each partition, whose value is its name."""
    for worker in range(workers):
        logs = opened(path, worker, workers)
        mine = [each for each in [METADATA, *PARTITIONS] if place_of(workers)(each) == worker]
        logs.directories.make({each: UUID(int=1) for each in mine})
        for each in mine:
            logs.open(each, LogConfig()).append(pack([(b"", str(each).encode())], 1), Timestamp(1))
        logs.confirm_start()
        logs.close()


def check(path: Path, workers: int, last_end: LastEnd = LastEnd.CLEAN) -> None:
    """Each worker has what it should, with its record, and knows how it ended."""
    assert len(directories_of(path)) == workers
    found = []
    for worker in range(workers):
        logs = opened(path, worker, workers)
        for each in logs.names():
            assert place_of(workers)(each) == worker
            log = logs.open(each, LogConfig())
            assert str(each).encode() in bytes(log.read(0, 1_000))
            found.append(each)
        assert logs.last_end is last_end or not list(logs.names())
        logs.confirm_start()
        logs.close()
    assert sorted(found) == [METADATA, *PARTITIONS]


def test_partitions_follow_the_number_of_workers(tmp_path: Path) -> None:
    path = tmp_path / "d"
    rearrange(path, 3)
    fill(path, 3)
    for workers in (3, 2, 5, 1, 4, 1):
        rearrange(path, workers)
        check(path, workers)


def test_a_directory_of_one_worker_is_as_before(tmp_path: Path) -> None:
    path = tmp_path / "d"
    fill(path, 1)
    before = sorted(os.listdir(path)), (path / directory_format.FORMAT_FILE).read_bytes()
    rearrange(path, 3)
    assert b"version=2" in (path / directory_format.FORMAT_FILE).read_bytes()
    rearrange(path, 1)
    assert (sorted(os.listdir(path)), (path / directory_format.FORMAT_FILE).read_bytes()) == before


@pytest.mark.parametrize("fails_at", range(12))
def test_a_move_that_is_interrupted_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    path = tmp_path / "d"
    rearrange(path, 3)
    fill(path, 3)
    real, calls = os.rename, 0

    def rename(source: Path, target: Path) -> None:
        nonlocal calls
        calls += 1
        if calls > fails_at:
            raise OSError("the machine went down")
        real(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", rename)
        try:
            rearrange(path, 2)
        except OSError:
            for workers in (1, 2, 3):
                with pytest.raises(KohortError, match="moves them"):
                    LocalDirectory(path, workers=workers)
        else:
            check(path, 2)
    rearrange(path, 2)
    rearrange(path, 1)
    check(path, 1, LastEnd.CLEAN if fails_at > calls - 1 else LastEnd.KILLED)


@pytest.mark.parametrize("worker", range(3))
@pytest.mark.parametrize(("boot", "last_end"), [("", LastEnd.CRASHED), (boot_id(), LastEnd.KILLED)])
def test_one_unclean_worker_directory_makes_the_last_end_of_all_unclean(
    tmp_path: Path, worker: int, boot: str, last_end: LastEnd
) -> None:
    path = tmp_path / "d"
    rearrange(path, 3)
    fill(path, 3)
    directory = directory_of(path, worker)
    (directory / ".clean-shutdown").unlink()
    (directory / ".lock").write_text(f"1\n{boot}\n")
    rearrange(path, 2)
    check(path, 2, last_end)


def test_directories_set_aside_stay_when_workers_are_rearranged(tmp_path: Path) -> None:
    path = tmp_path / "d"
    rearrange(path, 2)
    fill(path, 2)
    logs = opened(path, 1, 2)
    name = logs.directories.set_aside(PARTITIONS[1])
    logs.close()
    rearrange(path, 1)
    assert (path / name).is_dir()


@pytest.mark.parametrize("worker", range(2))
def test_a_directory_in_use_is_refused(tmp_path: Path, worker: int) -> None:
    path = tmp_path / "d"
    rearrange(path, 2)
    logs = opened(path, worker, 2)
    for workers in (1, 2, 3):
        with pytest.raises(KohortError, match="in use by process"):
            rearrange(path, workers)
    logs.close()
    rearrange(path, 1)


def test_a_rearrangement_that_cannot_move_a_directory_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "d"
    fill(path, 1)
    (path / "foreign-1").mkdir()
    with pytest.raises(KohortError, match="foreign-1 has the name of a partition"):
        rearrange(path, 3)
    (path / "foreign-1").rmdir()
    check(path, 1)
    rearrange(path, 3)
    (path / "t-2").mkdir()
    (path / "t-2" / "partition.metadata").write_bytes(
        (path / "worker2" / "t-2" / "partition.metadata").read_bytes()
    )
    with pytest.raises(KohortError, match="there is one of that name"):
        rearrange(path, 1)


def test_a_lost_directory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "d"
    rearrange(path, 3)
    fill(path, 3)
    (path / "worker1").rename(tmp_path / "elsewhere")
    for workers in (1, 2, 3):
        with pytest.raises(KohortError, match="worker1 is missing"):
            rearrange(path, workers)


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(KohortError, match="not a data directory of Kohort"):
        rearrange(tmp_path, 2)
    assert os.listdir(tmp_path) == ["letter"]
