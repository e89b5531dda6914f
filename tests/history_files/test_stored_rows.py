"""Stored rows: the first offsets of a time, found without reading all rows."""

from datetime import timedelta

import pytest

from history_files.builds import NOW, Builder, log, rows
from history_files.faults import Quick
from kohort.history_files import stored_rows, table_files
from kohort.history_files.directory import HistoryDirectory
from kohort.history_files.file_system import LocalFiles
from kohort.history_files.stored_rows import StoredRows

HOUR = timedelta(hours=1)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Three log partitions of forty records, in row groups of three; clocks step back."""
    monkeypatch.setattr(table_files, "ROWS_PER_GROUP", 3)
    records = log(3, 40)
    for number, some in records.items():
        for record in some[number::7]:
            record["timestamp"] -= 5 * HOUR
    files = LocalFiles(tmp_path / "out", Quick())
    Builder(records, files, step=20).build()
    return files


def expected(files, time, numbers, *, is_later):
    found = {}
    for row in rows(files, "commits"):
        is_counted = row["time"] > time if is_later else row["time"] >= time
        if is_counted and row["log_partition"] in numbers:
            found.setdefault(row["log_partition"], row["log_offset"])
    return found


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize("numbers", [None, [1], [0, 2]])
def test_first_offsets_are_the_least_ones_of_a_time(files, numbers, is_later):
    stored = StoredRows(files, HistoryDirectory(files).snapshot())
    for hours in range(-2, 48):
        time = NOW - hours * HOUR
        found = stored.first_offsets(time, numbers, is_later=is_later)
        assert found == expected(files, time, numbers or range(3), is_later=is_later)


def test_few_row_groups_are_read_for_first_offsets(files, monkeypatch):
    read = []

    def add(found, part):
        read.append(part)
        add_first_offsets(found, part)

    add_first_offsets = stored_rows.add_first_offsets
    monkeypatch.setattr(stored_rows, "add_first_offsets", add)
    stored = StoredRows(files, HistoryDirectory(files).snapshot())
    assert len(stored.first_offsets(NOW - 30 * HOUR, is_later=True)) == 3
    assert len(read) <= 6, "of forty"
