"""Status from the files of a history, read by parts of the log partitions."""

from datetime import timedelta

import pyarrow as pa
import pytest

from history_files.builds import HOUR_MS, NOW, NOW_MS, Builder, add_ends, log
from history_files.fake_fold import State
from history_files.faults import Quick
from kohort.errors import ConfigError
from kohort.history.sample_rows import Ends, sampled_rows
from kohort.history.schema import MEMBERS
from kohort.history_files import parts
from kohort.history_files.directory import HistoryDirectory, opened_for_writing
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.merging import remove_older
from kohort.history_files.parts import parts_of
from kohort.history_files.samples import add_samples
from kohort.history_files.status import status_at
from kohort.history_files.table_files import TableFiles
from kohort.types import TopicPartition

EVERY = timedelta(seconds=10)


@pytest.fixture
def files(tmp_path):
    """Commits each 10 s of four topics in turn, up to now; ends are 5 further than the offsets."""
    files = LocalFiles(tmp_path / "out", Quick())
    Builder(log(1, 40, EVERY), files).build()
    add_ends(files)
    return files


def found(files, at=None):
    rows = status_at(HistoryDirectory(files), at).to_pylist()
    return [(row["topic"], row["committed"], row["lag"], row["status"]) for row in rows]


def test_the_status_is_that_of_the_last_sample_or_of_a_time(files):
    assert found(files) == [
        ("topic-0", 36, 9, "ok"), ("topic-1", 37, 8, "ok"), ("topic-2", 38, 7, "ok"),
    ]  # fmt: skip
    assert found(files, NOW - timedelta(seconds=60)) == [
        ("topic-0", 32, 7, "ok"), ("topic-1", 33, 6, "ok"), ("topic-2", 34, 5, "ok"),
    ]  # fmt: skip
    assert found(files, NOW - timedelta(seconds=121)) == []


def test_a_silent_group_is_empty_unless_it_has_members(files, monkeypatch):
    late = NOW + timedelta(minutes=10)
    with opened_for_writing(files, NOW_MS) as history:
        ends = {TopicPartition("topic-0", 0): Ends(0, 99, 99)}
        add_samples(history, [sampled_rows(NOW_MS + 300_000, ends, {})], NOW_MS)
    assert found(files, late)[0] == ("topic-0", 36, 63, "empty")
    member = pa.RecordBatch.from_pylist([{"group": "g", "from": NOW}], schema=MEMBERS)
    monkeypatch.setattr(State, "open_rows", lambda _: {"members": member})
    assert found(files, late)[0] == ("topic-0", 36, 63, "stopped")


def test_a_group_is_empty_whose_members_departed_while_another_one_has_some(files):
    late = NOW + timedelta(minutes=10)
    rows = [
        {"log_partition": 0, "group": "g", "from": NOW - timedelta(hours=2), "to": NOW},
        {"log_partition": 0, "group": "other", "from": NOW - timedelta(hours=2)},
    ]
    with opened_for_writing(files, NOW_MS) as history:
        ends = {TopicPartition("topic-0", 0): Ends(0, 99, 99)}
        add_samples(history, [sampled_rows(NOW_MS + 300_000, ends, {})], NOW_MS)
        tables = TableFiles(files, "0", "attempt")
        tables.write("members", pa.RecordBatch.from_pylist(rows, schema=MEMBERS))
        history.add_files(tables.close(), NOW_MS)
    assert found(files, late)[0] == ("topic-0", 36, 63, "empty")


def test_parts_of_the_log_partitions_give_the_rows_of_all(tmp_path, monkeypatch):
    files = LocalFiles(tmp_path / "out", Quick())
    Builder(log(5, 8, EVERY), files).build()
    with opened_for_writing(files, NOW_MS) as history:
        ends = {TopicPartition(f"topic-{number}", 0): Ends(0, 9) for number in range(4)}
        add_samples(history, [sampled_rows(NOW_MS, ends, {})], NOW_MS)
        snapshot = history.current
    assert parts_of(snapshot, 1) == [[0, 1, 2, 3, 4]]
    assert sorted(number for part in parts_of(snapshot, 2) for number in part) == [0, 1, 2, 3, 4]
    monkeypatch.setattr(parts, "COMMITS_PER_PART", 8)
    assert parts_of(snapshot, 1) == [[number] for number in range(5)]
    monkeypatch.setattr(parts, "COMMITS_PER_PART", 15)
    assert len(parts_of(snapshot, 2)) == 4, "as many for each core"
    monkeypatch.setattr(parts, "COMMITS_PER_PART", 8)
    assert len(found(files)) == 5 * 4, "the groups of five log partitions"


def test_a_history_without_samples_has_no_status(tmp_path):
    files = LocalFiles(tmp_path / "out", Quick())
    Builder(log(1, 8, EVERY), files).build()
    assert found(files) == found(files, NOW) == []


def test_a_time_whose_rows_were_removed_is_refused(files):
    with opened_for_writing(files, NOW_MS) as history:
        remove_older(history, NOW_MS - 60_000, NOW_MS)
        add_samples(history, [], NOW_MS + HOUR_MS)
    with pytest.raises(ConfigError, match="were removed by --keep"):
        found(files, NOW - timedelta(hours=1))
