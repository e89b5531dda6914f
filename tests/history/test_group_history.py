"""Groups that are read from a history one after the other: their rows are those of the fold."""

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from history.built import build
from history.committed_offsets import in_force
from history.folded import ends_of, folded, whole
from history.group_log_builder import Log
from history.offset_logs import batch_of
from history.recorded import load
from kohort.errors import ConfigError
from kohort.history.lag import lag_table
from kohort.history.sample_rows import Ends, sampled_rows
from kohort.history.schema import COMMITS, COMMITTED, LAG
from kohort.history_files import group_history
from kohort.history_files.building import add_batch, planned
from kohort.history_files.directory import HistoryDirectory, opened_for_writing
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.folding import fold_ranges
from kohort.history_files.group_history import GroupHistories, group_histories
from kohort.history_files.merging import remove_older
from kohort.history_files.moments import CUTS
from kohort.history_files.samples import add_samples, read_samples
from kohort.types import TopicPartition

NAME = "classic"
LISTED = ("generations", "rebalances", "members", "assignments")


@pytest.fixture(scope="module")
def recording():
    return load(NAME)


@pytest.fixture(scope="module")
def directory(recording, tmp_path_factory):
    out = tmp_path_factory.mktemp("history") / "out"
    build(recording, out)
    return HistoryDirectory(LocalFiles(out))


@pytest.fixture(scope="module")
def middle(recording):
    """A moment of which the recorder kept what the broker said, and the ends of the log then."""
    snapshot = recording.snapshots[len(recording.snapshots) // 2]
    return datetime.fromtimestamp(snapshot["at"] / 1000, UTC), ends_of(snapshot)


def texts(rows):
    """Rows in any order; UTC is that of Python or of PyArrow."""
    return sorted(json.dumps(row, default=str) for row in rows)


def rows_of(tables, table, group):
    return texts(row for row in tables.tables[table] if row["group"] == group)


def ids(histories):
    return [history.group for history in histories]


def all_ids(tables):
    return {row["group"] for row in (*tables.commits, *tables.generations)}


def test_rows_are_those_of_the_fold(directory):
    found = list(group_histories(directory))
    assert sorted(ids(found)) == sorted(all_ids(whole(NAME)))
    for history in found:
        assert history.is_complete
        assert len(history.log_partitions) == 1
        for table in LISTED:
            rows = getattr(history, table)
            assert texts(rows) == rows_of(whole(NAME), table, history.group)
            offsets = [row[CUTS[table].begins] for row in rows]
            assert offsets == sorted(offsets)
        assert texts(history.minutes.to_pylist()) == rows_of(whole(NAME), "minutes", history.group)
        assert history.lag.schema == LAG
        assert history.earlier.schema == COMMITTED


def test_lag_is_that_of_the_samples_of_a_period(recording, middle, tmp_path):
    build(recording, tmp_path / "out")
    files = LocalFiles(tmp_path / "out")
    at, _ = middle
    ms = int(at.timestamp() * 1000)
    commits = pa.Table.from_pylist(whole(NAME).commits, COMMITS)
    tps = {TopicPartition(row["topic"], row["partition"]) for row in whole(NAME).commits}
    with opened_for_writing(files, ms) as opened:
        for seconds in (-30, 0, 30):
            rows = sampled_rows(ms + seconds * 1000, {tp: Ends(0, 10_000) for tp in tps}, {})
            add_samples(opened, [rows], ms)
    directory = HistoryDirectory(files)
    columns = ["group", "topic", "partition", "time", "committed", "lag", "lag_ms", "lost", "case"]
    every = lag_table(commits, read_samples(directory)).select(columns).to_pylist()
    assert every
    for since in (None, at):
        for history in group_histories(directory, since=since):
            expected = [
                row
                for row in every
                if row["group"] == history.group and (since is None or row["time"] >= since)
            ]
            assert history.lag.select(columns).to_pylist() == expected
            committed = {
                *history.commits["topic"].to_pylist(),
                *history.earlier["topic"].to_pylist(),
            }
            assert set(history.samples["topic"].to_pylist()) == committed


def test_groups_are_in_order_within_their_log_partition(directory):
    found = [(history.log_partitions, history.group) for history in group_histories(directory)]
    assert found == sorted(found)


def test_commits_are_those_in_force_in_their_order(directory):
    for history in group_histories(directory):
        expected = [
            (row["in_force"], row["log_offset"])
            for row in whole(NAME).commits
            if row["group"] == history.group and row["in_force"] is not None
        ]
        found = zip(
            history.commits["in_force"].to_pylist(),
            history.commits["log_offset"].to_pylist(),
            strict=True,
        )
        assert list(found) == sorted(expected)


def test_commits_have_the_columns_that_were_asked_for(directory):
    history = next(group_histories(directory, commit_columns=["member_id"]))
    assert {"member_id", "in_force", "committed", "previous"} <= set(history.commits.column_names)
    assert "metadata" not in history.commits.column_names


def test_parts_of_a_log_partition_have_the_same_rows_as_the_whole(directory, monkeypatch):
    expected = [(each.group, each.members, each.commits) for each in group_histories(directory)]
    monkeypatch.setattr(group_history, "PART_ROWS", 1)
    found = [(each.group, each.members, each.commits) for each in group_histories(directory)]
    assert found == expected


def test_the_period_of_a_group_with_too_many_commits_begins_later(directory, monkeypatch):
    monkeypatch.setattr(group_history, "PART_ROWS", 1)
    histories = GroupHistories(directory, most_commits=5)
    parts = histories.parts()
    counts = {each.group: each.commits.num_rows for each in group_histories(directory)}
    assert {name for part in parts if part.begins_later for name in part.groups} == {
        group for group, count in counts.items() if count > 5
    }
    for part in parts:
        (history,) = histories.read(part)
        (expected,) = group_histories(directory, part.groups, part.begins_later)
        assert history == expected
        if part.begins_later:
            # Those of one batch have the same time.
            times = history.commits["in_force_time"].to_pylist()
            assert len(times) - times.count(part.begins_later) < 5 <= len(times)
            assert history.since == part.begins_later


def test_only_named_groups_are_read(directory):
    groups = ids(group_histories(directory))
    assert ids(group_histories(directory, groups[1:3])) == groups[1:3]
    assert ids(group_histories(directory, ["no such group"])) == []
    assert ids(group_histories(directory, [])) == []


def test_at_a_time_rows_are_those_of_the_log_up_to_there(directory, recording, middle):
    moment, ends = middle
    then = folded(recording, "whole", ends)
    found = list(group_histories(directory, until=moment))
    assert sorted(ids(found)) == sorted(all_ids(then))
    columns = ("member_id", "from_offset", "to_offset", "ended_by")
    for history in found:
        assert history.end == moment
        expected = [
            [row[name] for name in columns] for row in then.members if row["group"] == history.group
        ]
        rows = [[row[name] for name in columns] for row in history.members]
        assert texts(rows) == texts(expected)


def test_commits_in_force_before_the_period_are_known(directory, recording, middle):
    moment, ends = middle
    then = folded(recording, "whole", ends)
    expected = {
        key: row["committed"]
        for number, end in ends.items()
        for key, row in in_force(
            (row for row in then.commits if row["log_partition"] == number), end
        ).items()
    }
    for until in (None, moment + timedelta(seconds=20)):
        found = {}
        for history in group_histories(directory, since=moment, until=until):
            for row in history.earlier.to_pylist():
                found[row["group"], row["topic"], row["partition"]] = row["committed"]
        assert found == expected


def test_rows_that_ended_before_the_period_are_left_out(directory, middle):
    moment, _ = middle
    for history in group_histories(directory, since=moment):
        for row in history.members:
            assert row["to"] is None or row["to"] >= moment
        assert all(row["time"] >= moment for row in history.rebalances)
        assert all(time >= moment for time in history.commits["in_force_time"].to_pylist())


def test_a_compacted_log_is_incomplete_before_its_complete_part(recording, tmp_path):
    build(recording, tmp_path / "out", "compacted")
    directory = HistoryDirectory(LocalFiles(tmp_path / "out"))
    coverage = {
        each["log_partition"]: each
        for history in group_histories(directory)
        for each in history.coverage
    }
    assert any(each["gaps"] for each in coverage.values())
    for history in group_histories(directory):
        assert history.is_complete == (not history.coverage[0]["gaps"])
    end = max(each["last_time"] for each in coverage.values())
    for history in group_histories(directory, since=end + timedelta(hours=1)):
        (row,) = history.coverage
        assert history.is_complete == (row["complete_from"] is not None or not row["gaps"])


def test_rows_that_keep_removed_leave_the_period_incomplete(recording, tmp_path):
    build(recording, tmp_path / "out")
    files = LocalFiles(tmp_path / "out")
    end = next(group_histories(HistoryDirectory(files))).end
    end_ms = int(end.timestamp() * 1000) + 1000
    with opened_for_writing(files, end_ms) as history:
        remove_older(history, end_ms, end_ms)
    directory = HistoryDirectory(files)
    assert not any(history.is_complete for history in group_histories(directory))
    with pytest.raises(ConfigError, match="were removed by --keep"):
        list(group_histories(directory, until=end))


def test_a_group_in_two_log_partitions_is_one(tmp_path):
    files = LocalFiles(tmp_path / "out")
    log = Log()
    log.classic(100_000, 1, {"a": (0,)})
    log.commit(101_000, 0)
    log.commit(102_000, 0, group="other")
    records = [
        {
            "key": record.key, "value": record.value, "offset": record.at.offset,
            "timestamp": record.at.timestamp * 1000, "batchOffset": record.at.batch_offset,
            "transactional": False,
        }
        for record in log.records
    ]  # fmt: skip

    def read(log_range):
        some = records if log_range.log_partition == 0 else records[:2]
        yield batch_of([record | {"partition": log_range.log_partition} for record in some])

    def run(tasks):
        return [fold_ranges(files, ranges, read) for ranges in tasks]

    with opened_for_writing(files, 0) as history:
        ranges = planned(history.current, {}, {0: 3, 1: 2})
        add_batch(history, ranges, run, tasks=1, now_ms=0)
    found = {each.group: each for each in group_histories(HistoryDirectory(files))}
    assert found["g"].log_partitions == (0, 1)
    assert [row["log_partition"] for row in found["g"].generations] == [0, 1]
    assert found["g"].commits["log_partition"].to_pylist() == [0, 1]
    assert found["other"].log_partitions == (0,)


def test_a_history_without_batches_has_no_groups(tmp_path):
    files = LocalFiles(tmp_path / "out")
    with opened_for_writing(files, 0):
        pass
    assert list(group_histories(HistoryDirectory(files))) == []
