"""Lag of all groups from the files of a history, read by parts of the log partitions."""

from datetime import timedelta

import pyarrow as pa
import pytest

from history_files.builds import Builder, add_ends, log, rows
from history_files.fake_fold import State
from history_files.faults import Quick
from kohort.history.lag import lag_table
from kohort.history.schema import COMMITS, LAG
from kohort.history_files import all_lags
from kohort.history_files.all_lags import lags_of_part
from kohort.history_files.directory import HistoryDirectory
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.samples import read_samples


def built(directory):
    """Commits of four topics in two log partitions, and samples of three of the topics."""
    files = LocalFiles(directory, Quick())
    Builder(log(2, 40, timedelta(seconds=10)), files).build()
    add_ends(files)
    return files


@pytest.fixture
def files(tmp_path):
    return built(tmp_path / "out")


def lags(files, log_partitions):
    snapshot = HistoryDirectory(files).snapshot()
    batches = list(lags_of_part(files, snapshot, log_partitions))
    return pa.Table.from_batches(batches, LAG).to_pylist()


def expected(files, number, *more):
    commits = [row for row in rows(files, "commits") if row["log_partition"] == number]
    table = pa.Table.from_pylist([*commits, *more], COMMITS)
    return lag_table(table, read_samples(HistoryDirectory(files))).to_pylist()


@pytest.mark.parametrize("at_once", [1, 1_000])
def test_lags_of_a_log_partition_are_those_of_its_commits(files, monkeypatch, at_once):
    monkeypatch.setattr(all_lags, "SAMPLES_AT_ONCE", at_once)
    assert len(expected(files, 0)) == 9
    for number in range(2):
        assert sorted(lags(files, [number]), key=repr) == sorted(expected(files, number), key=repr)


def test_a_tombstone_in_a_state_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(State, "open_commits", 1)
    files = built(tmp_path / "out")
    tombstone = {
        "log_partition": 0, "log_offset": 40, "in_force": 40, "group": "g", "topic": "topic-0",
        "partition": 0, "kind": "tombstone", "certainty": "exact",
        "in_force_time": rows(files, "commits")[-1]["time"],
    }  # fmt: skip
    waiting = pa.RecordBatch.from_pylist([tombstone], schema=COMMITS)
    monkeypatch.setattr(State, "open_rows", lambda _: {"commits": waiting})
    found = lags(files, [0])
    assert found == expected(files, 0, tombstone)
    assert "no commit" in {row["case"] for row in found}


def test_without_samples_there_is_no_lag(tmp_path):
    files = LocalFiles(tmp_path / "out", Quick())
    Builder(log(1, 8), files).build()
    assert lags(files, [0]) == []
