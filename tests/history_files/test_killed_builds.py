"""A build that is killed at any file operation, and a new one: the tables of one build."""

import sys

import pytest

from history_files import fake_fold
from history_files.builds import HOUR_MS, NOW_MS, Builder, log, rows, tables
from history_files.conftest import MODULES
from history_files.faults import Dying, FullDisk, KilledError, PowerLoss, Quick
from kohort.errors import ConfigError
from kohort.history_files.directory import HistoryDirectory
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.snapshot import Snapshot

LOG = log(partitions=2, records=14)


@pytest.fixture(scope="module")
def one_build(tmp_path_factory):
    """The tables of a build that nothing disturbs, and its number of operations."""
    with pytest.MonkeyPatch.context() as patch:
        for name in MODULES:
            patch.setitem(sys.modules, name, fake_fold)
        system = Dying()
        files = LocalFiles(tmp_path_factory.mktemp("one") / "out", system)
        Builder(LOG, files).build()
        operations = system.count
        return tables(files), operations


def paths(directory):
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def assert_like_one_build(directory, expected):
    """Continue by a new build; there is nothing that no snapshot names."""
    files = LocalFiles(directory, Quick())
    Builder(LOG, files).build()
    assert tables(files) == expected
    named = HistoryDirectory(files).snapshot().paths()
    others = paths(directory) - named
    assert {path for path in others if not path.startswith("_")} == set()
    assert not [path for path in others if path.endswith(".tmp")]


def visible(directory):
    """What readers see of each log partition: all records up to some offset, once."""
    files = LocalFiles(directory)
    try:
        snapshot = HistoryDirectory(files).snapshot()
    except ConfigError:
        return  # killed before it was marked
    by_partition = {number: [] for number in snapshot.log_partitions}
    for row in rows(files, "commits"):
        by_partition[row["log_partition"]].append(row["log_offset"])
    ends = {number: list(range(end)) for number, end in snapshot.ends().items()}
    assert by_partition == ends


@pytest.mark.parametrize("halfway", [False, True])
def test_a_build_killed_at_any_operation_is_continued_by_the_next(tmp_path, one_build, halfway):
    expected, operations = one_build
    assert operations > 150
    for at in range(operations):
        directory = tmp_path / str(at)
        with pytest.raises(KilledError):
            Builder(LOG, LocalFiles(directory, Dying(at, halfway))).build()
        visible(directory)
        assert_like_one_build(directory, expected)


def test_a_full_disk_at_any_write_leaves_a_history_that_the_next_build_continues(
    tmp_path, one_build
):
    expected, _ = one_build
    disk = FullDisk(sys.maxsize)
    Builder(LOG, LocalFiles(tmp_path / "one", disk)).build()
    assert disk.count > 40
    for at in range(disk.count):
        directory = tmp_path / str(at)
        with pytest.raises(OSError, match="No space left"):
            Builder(LOG, LocalFiles(directory, FullDisk(at))).build()
        visible(directory)
        assert_like_one_build(directory, expected)


def test_files_and_their_names_are_durable_before_a_snapshot_names_them(tmp_path):
    system = PowerLoss()
    directory = tmp_path / "out"
    Builder(LOG, LocalFiles(directory, system), step=2).build(keep_ms=4 * HOUR_MS)
    assert len(system.published) > 3
    for path, durable in system.published:
        snapshot = Snapshot.from_json(path.read_bytes(), path.name)
        needed = {directory / named for named in snapshot.paths()}
        assert needed <= durable
        assert path in system.names_synced


def test_removing_old_rows_is_repeated_after_a_kill(tmp_path):
    def build(name, system=None):
        files = LocalFiles(tmp_path / name, system or Quick())
        Builder(LOG, files, step=2).build(NOW_MS, keep_ms=4 * HOUR_MS)
        return files

    system = Dying()
    build("one", system)
    operations = system.count
    expected = tables(LocalFiles(tmp_path / "one"))
    assert [row["log_offset"] for row in expected[0]] == [*range(6, 14)] * 2
    assert {row["topic"] for row in expected[0]} == {f"topic-{number}" for number in range(4)}
    for at in range(operations * 3 // 4, operations):
        with pytest.raises(KilledError):
            build(str(at), Dying(at))
        assert tables(build(str(at))) == expected
