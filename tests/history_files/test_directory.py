"""The directory of a history: what it refuses, what is merged and removed, and what readers see."""

import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pyarrow.fs
import pytest

from history_files.builds import HOUR_MS, NOW, NOW_MS, Builder, log, rows, tables
from history_files.faults import Quick
from kohort.errors import ConfigError, KohortError
from kohort.history.schema import COMMITS
from kohort.history_files.building import divided, planned, steps
from kohort.history_files.directory import HistoryDirectory, opened_for_writing
from kohort.history_files.file_system import LocalFiles, LockedError, ObjectFiles, open_files
from kohort.history_files.folding import LogRange
from kohort.history_files.merging import DAY_MS, merge, remove_older
from kohort.history_files.moments import parse_moment
from kohort.history_files.snapshot import Snapshot, StoredState
from kohort.history_files.table_files import TableFiles

LOG = log(partitions=2, records=20)


@pytest.fixture
def files(tmp_path):
    return LocalFiles(tmp_path / "out", Quick())


@pytest.fixture
def built(files):
    Builder(LOG, files).build()
    return files


def named(files, table):
    return [file for file in HistoryDirectory(files).snapshot().files if file.table == table]


class TestRefusals:
    def test_a_directory_with_other_files_is_refused(self, tmp_path):
        (tmp_path / "notes.txt").write_text("mine")
        with (
            pytest.raises(ConfigError, match=r"files of something else \(notes.txt\)"),
            opened_for_writing(LocalFiles(tmp_path), NOW_MS),
        ):
            pass
        assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]

    def test_a_missing_or_other_directory_cannot_be_read(self, tmp_path):
        with pytest.raises(ConfigError, match="it is empty"):
            HistoryDirectory(LocalFiles(tmp_path / "nowhere"))
        (tmp_path / "x").touch()
        with pytest.raises(ConfigError, match=r"it has no _history\.json"):
            HistoryDirectory(LocalFiles(tmp_path))

    def test_a_directory_of_another_version_is_refused(self, built, tmp_path):
        (tmp_path / "out" / "_history.json").write_text('{"format": 7}')
        with pytest.raises(ConfigError, match="another version of Kohort"):
            HistoryDirectory(built)

    def test_a_snapshot_of_another_version_is_refused(self, built, tmp_path):
        newest = max((tmp_path / "out" / "_batches").iterdir())
        newest.write_bytes(newest.read_bytes().replace(b'"version": 3', b'"version": 9'))
        with pytest.raises(KohortError, match="format 9"):
            HistoryDirectory(built).snapshot()

    def test_a_second_build_of_another_process_is_refused(self, built, tmp_path):
        second = (
            "from kohort.history_files.directory import opened_for_writing\n"
            "from kohort.history_files.file_system import open_files\n"
            f"with opened_for_writing(open_files({str(tmp_path / 'out')!r}), 0): pass\n"
        )
        with opened_for_writing(built, NOW_MS):
            done = subprocess.run([sys.executable, "-c", second], capture_output=True, text=True)
            assert "LockedError" in done.stderr
            assert "another build writes into it" in done.stderr
        assert subprocess.run([sys.executable, "-c", second]).returncode == 0

    def test_two_builds_of_one_process_are_refused(self, built):
        with (
            opened_for_writing(built, NOW_MS),
            pytest.raises(LockedError),
            opened_for_writing(built, NOW_MS),
        ):
            pass

    def test_a_log_that_ends_before_its_history_is_refused(self):
        snapshot = Snapshot(log_partitions={3: StoredState(50, None)})
        with pytest.raises(KohortError, match="log partition 3 ends at offset 20"):
            planned(snapshot, {}, {3: 20})


class TestPlans:
    def test_ranges_begin_where_the_history_ends(self):
        snapshot = Snapshot(log_partitions={0: StoredState(50, "s"), 1: StoredState(9, "t")})
        assert planned(snapshot, {2: 5}, {0: 60, 1: 9, 2: 8}) == [
            LogRange(0, 50, 60, "s"),
            LogRange(2, 5, 8, None, log_start=5),
        ]

    def test_batches_share_their_records_by_the_size_of_ranges(self):
        ranges = [LogRange(0, 100, 200, None), LogRange(1, 0, 10, None)]
        assert steps(ranges, 55) == [{0: 150, 1: 5}, {0: 200, 1: 10}]
        assert steps(ranges) == [{0: 200, 1: 10}]
        assert steps([]) == []

    def test_tasks_are_of_like_size(self):
        sizes = [1_000_000, 700_000, 300_000, 10, 10]
        ranges = [LogRange(number, 0, size, None) for number, size in enumerate(sizes)]
        parts = divided(ranges, 2)
        assert [[part.log_partition for part in task] for task in parts] == [[0, 3], [1, 2, 4]]
        assert len(divided(ranges, 9)) == 5
        assert divided([], 2) == []


class TestMaintenance:
    def test_files_of_a_day_that_is_over_become_one(self, files):
        Builder(log(2, 60, timedelta(minutes=1)), files, step=3).build(NOW_MS)
        today = named(files, "commits")
        assert 1 < len(today) < 20, "sixteen of about the same size become one"
        before = rows(files, "commits")
        with opened_for_writing(files, NOW_MS + DAY_MS) as history:
            merge(history, NOW_MS + DAY_MS)
        (file,) = named(files, "commits")
        assert (file.first_ms, file.last_ms) == (NOW_MS - HOUR_MS, NOW_MS - 60_000)
        assert rows(files, "commits") == before
        assert len(before) == 120

    def test_replaced_files_stay_for_readers_that_planned_before(self, files, tmp_path):
        Builder(LOG, files, step=4).build(NOW_MS)
        before = {file.path for file in HistoryDirectory(files).snapshot().files}
        with opened_for_writing(files, NOW_MS + DAY_MS) as history:
            merge(history, NOW_MS + DAY_MS)
            assert all((tmp_path / "out" / path).exists() for path in before)
            history.replace(history.current, (), NOW_MS + DAY_MS + 2 * HOUR_MS)
        newest = HistoryDirectory(files).snapshot()
        assert newest.retired == ()
        remaining = {path for path in before if (tmp_path / "out" / path).exists()}
        assert remaining == before & newest.paths()
        assert len(remaining) < len(before)

    def test_a_kept_history_has_the_last_commit_of_each_partition(self, files):
        Builder(LOG, files, step=2).build(NOW_MS)
        deleted = [*LOG[0][:3], {**LOG[0][3], "value": None}, *LOG[0][4:7]]
        other = LocalFiles(files._root.parent / "deleted", Quick())
        Builder({0: deleted}, other, step=2).build(NOW_MS)
        for at in (files, other):
            with opened_for_writing(at, NOW_MS) as history:
                remove_older(history, NOW_MS - 3 * HOUR_MS, NOW_MS)
                assert history.current.removed_until_ms == NOW_MS - 3 * HOUR_MS
        committed = [(row["log_partition"], row["log_offset"]) for row in rows(files, "commits")]
        assert committed == [(number, offset) for number in (0, 1) for offset in range(12, 20)]
        assert [row["log_offset"] for row in rows(other, "commits")] == [4, 5, 6], "no tombstone"
        assert [row["ended_offset"] for row in rows(files, "generations")] == [19, 19]

    def test_a_tombstone_stays_with_the_commit_that_it_ended(self, files):
        """The clock stepped back: the commit's file has a newer row, the tombstone's has not."""
        hours = [(b"a", b"v", 10), (b"b", b"v", 0), (b"a", None, 9), (b"c", b"v", 9)]
        stepped = [
            {"key": key, "value": value, "partition": 0, "offset": offset,
             "timestamp": NOW - timedelta(hours=ago)}
            for offset, (key, value, ago) in enumerate(hours)
        ]  # fmt: skip
        Builder({0: stepped}, files, step=2).build(NOW_MS)
        with opened_for_writing(files, NOW_MS) as history:
            remove_older(history, NOW_MS - 3 * HOUR_MS, NOW_MS)
        assert [row["log_offset"] for row in rows(files, "commits")] == [0, 1, 2, 3]
        assert [file.carried for file in named(files, "commits")] == [True, False]

    def test_a_transaction_is_as_old_as_its_marker(self, files):
        files.make_directory("commits")
        tables = TableFiles(files, "t", "attempt")
        row = {"time": NOW - timedelta(hours=5), "in_force_time": NOW}
        tables.write("commits", pa.RecordBatch.from_pylist([row], COMMITS))
        (file,) = tables.close()
        assert (file.first_ms, file.last_ms) == (NOW_MS - 5 * HOUR_MS, NOW_MS)

    def test_a_second_removal_replaces_the_carried_commits(self, files):
        Builder(LOG, files, step=2).build(NOW_MS)
        with opened_for_writing(files, NOW_MS) as history:
            for hours in (15, 8, 8, 3):
                remove_older(history, NOW_MS - hours * HOUR_MS, NOW_MS)
        assert len([file for file in named(files, "commits") if file.carried]) == 1
        offsets = [row["log_offset"] for row in rows(files, "commits")]
        assert offsets == [*range(12, 20)] * 2


class TestObjectStores:
    def test_the_tables_in_an_object_store_are_the_same(self, built, tmp_path):
        (tmp_path / "bucket").mkdir()
        system = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
        objects = ObjectFiles(system, "bucket", "s3://bucket")
        Builder(LOG, objects).build()
        assert tables(objects) == tables(built)
        assert HistoryDirectory(objects).snapshot().ends() == {0: 20, 1: 20}

    def test_young_files_without_a_snapshot_stay(self, tmp_path):
        objects = ObjectFiles(pyarrow.fs.LocalFileSystem(), str(tmp_path), "s3://bucket")
        Builder(LOG, objects).build()
        stray = tmp_path / "commits" / "of-another-build.parquet"
        stray.touch()
        now_ms = int(stray.stat().st_mtime * 1000)
        with opened_for_writing(objects, now_ms):
            assert stray.exists()
        with opened_for_writing(objects, now_ms + 2 * DAY_MS):
            assert not stray.exists()

    @pytest.mark.parametrize("location", ["nonsense://x/y", "s3:/"])
    def test_an_unknown_scheme_is_refused(self, location):
        with pytest.raises(ConfigError, match=location):
            open_files(location)

    def test_local_locations_are_paths(self, tmp_path):
        for location in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}"):
            assert open_files(location).location == str(tmp_path)


def test_a_reader_whose_snapshot_was_removed_takes_the_next(built, tmp_path, monkeypatch):
    read = built.read
    newest = HistoryDirectory(built).snapshot()

    def gone_once(path):
        if path.endswith(f"{newest.id:012}.json"):
            with opened_for_writing(LocalFiles(tmp_path / "out"), NOW_MS) as history:
                history.replace(replace(history.current, cluster="next"), (), NOW_MS)
            (tmp_path / "out" / path).unlink(missing_ok=True)
        return read(path)

    directory = HistoryDirectory(built)
    monkeypatch.setattr(built, "read", gone_once)
    assert directory.snapshot().cluster == "next"


def test_times_of_rows_are_those_of_the_log(built):
    assert rows(built, "commits")[0]["time"] == NOW - timedelta(hours=20)


def test_a_build_whose_directory_was_removed_writes_nothing_into_the_next_one(tmp_path):
    out, log_of_two = tmp_path / "out", log(partitions=1)
    with opened_for_writing(LocalFiles(out), NOW_MS) as history:
        shutil.rmtree(out)
        Builder(log_of_two, LocalFiles(out)).build()
        before = sorted(path.name for path in out.rglob("*"))
        with pytest.raises(KohortError, match="was removed while this build wrote into it"):
            history.replace(history.current, [], NOW_MS)
    assert sorted(path.name for path in out.rglob("*")) == before


@pytest.mark.parametrize("time", ["9999-12-31T23:59-01:00", "0001-01-01T00:00+01:00"])
def test_a_time_that_utc_does_not_have_is_refused(time):
    with pytest.raises(ConfigError, match="is not in the years 1 to 9999 in UTC"):
        parse_moment(time)


@pytest.mark.parametrize("time", ["9999-12-31T23:59Z", "0001-01-01T00:00Z"])
def test_the_first_and_the_last_time_are_times(time):
    assert parse_moment(time).isoformat().startswith(time[:-1])
